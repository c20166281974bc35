#!/bin/sh
# Runs a program as the two workers of a job on this machine: two_workers.sh PROGRAM [ARGUMENTS...]
# Each process gets its place in TF_CONFIG, as a cluster's scheduler would give it. The status is that of the first that fails.
set -u
ports=$(python3 -c '
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in held))')
first=${ports% *} second=${ports#* }
cluster="{\"worker\": [\"127.0.0.1:$first\", \"127.0.0.1:$second\"]}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"worker\", \"index\": 1}}" "$@" &
worker=$!
trap 'kill $worker 2>/dev/null' EXIT INT TERM
TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"worker\", \"index\": 0}}" "$@"
status=$?
wait $worker
other=$?
trap - EXIT
[ $status -ne 0 ] || status=$other
exit $status
