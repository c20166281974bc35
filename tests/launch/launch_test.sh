#!/bin/sh
# lockstep launch with workers that are shell scripts. Usage: launch_test.sh <lockstep>
set -eu
lockstep=$1
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset OMP_NUM_THREADS
failures=0

fail() {
  echo "FAILED: $1"
  echo "--- status $status, out:" && cat "$RECORD/out" && echo "--- err:" && cat "$RECORD/err"
  failures=$((failures + 1))
}
# run <name> <launch arguments>: status in $status, output in $RECORD.
run() {
  RECORD=$scratch/$1
  export RECORD
  mkdir -p "$RECORD"
  shift
  status=0
  timeout 30 "$lockstep" launch "$@" >"$RECORD/out" 2>"$RECORD/err" || status=$?
}
expect_status() { [ "$status" -eq "$1" ] || fail "$2: status $status, expected $1"; }
expect_err() { grep -q -- "$1" "$RECORD/err" || fail "no '$1' in the error output"; }
expect_out() { grep -q -- "$1" "$RECORD/out" || fail "no '$1' in the output"; }
wait_for() {
  tries=0
  until [ -e "$1" ] || [ $tries -ge 200 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
}

worker=$here/worker.sh
export DO_0= DO_1= DO_2= AFTER=

run places -n 3 -- "$worker" a 'b c'
expect_status 0 places
expect_out '^out 0 threads=[1-9][0-9]* args=a b c$'
expect_err '^\[worker 1\] out 1 '
expect_err '^\[worker 2\] err 2$' # a last line without an end has one here
expect_err 'err 0'
grep -q '\[worker 0\]' "$RECORD/err" && fail 'the chief has a prefix'
grep -q 'worker 1' "$RECORD/out" && fail "another worker's line is on standard output"
[ "$(cut -d'"' -f1-11 "$RECORD/config-0")" = "$(cut -d'"' -f1-11 "$RECORD/config-2")" ] || fail 'the workers have different clusters'
[ "$(tr -d ' ' <"$RECORD/config-1" | grep -c '"task":{"type":"worker","index":1}')" = 1 ] || fail 'worker 1 has another task'

OMP_NUM_THREADS=7 run threads -n 2 -- "$worker"
expect_out 'threads=7'

AFTER=2 DO_1=fail DO_2=wait run failing -n 3 --grace 0 -- "$worker"
expect_status 7 'a failing worker'
expect_err '^lockstep: launch: worker 1 (127.0.0.1:[0-9]*) ended with status 7'
[ "$(grep -c '^lockstep: launch' "$RECORD/err")" = 1 ] || fail 'more than one line of the launcher'
grep -q term "$RECORD/signals-2" 2>/dev/null || fail 'the other worker was not ended'

AFTER=0 DO_1=die DO_0=deaf run killed -n 2 --grace 0 -- "$worker"
expect_status 137 'a killed worker'
expect_err 'worker 1 (127.0.0.1:[0-9]*) was killed by signal 9 (SIGKILL)'

DO_1=fail-once run restarted -n 2 --restarts 2 --log-dir "$scratch/logs" -- "$worker"
expect_status 0 'a restarted job'
expect_err 'starting all workers again (1 of 2)'
[ "$(wc -l <"$RECORD/starts-0")" = 2 ] || fail 'the chief was not started again'
[ "$(grep -c '^out 1' "$scratch/logs/worker-1.log")" = 2 ] || fail 'the log does not hold both starts'
[ "$(grep -c '^out 0' "$scratch/logs/worker-0.log")" = 2 ] || fail "the chief's log does not hold both starts"
[ "$(grep -c '^out 0' "$RECORD/out")" = 2 ] || fail "the chief's output is in the log alone"

DO_1=fail run given_up -n 2 --restarts 2 -- "$worker"
expect_status 7 'a job that fails three times'
[ "$(wc -l <"$RECORD/starts-1")" = 3 ] || fail 'not three starts'

# A signal reaches every worker once, and ends no job that is to be restarted.
for signal in TERM INT; do
  RECORD=$scratch/signal-$signal
  export RECORD
  mkdir "$RECORD"
  # A shell's background jobs ignore SIGINT otherwise.
  DO_0=wait DO_1=wait env --default-signal=INT "$lockstep" launch -n 2 --restarts 1 -- "$worker" >"$RECORD/out" 2>"$RECORD/err" &
  launcher=$!
  wait_for "$RECORD/starts-0"
  wait_for "$RECORD/starts-1"
  kill -"$signal" $launcher
  status=0
  wait $launcher || status=$?
  case $signal in
    TERM) expect_status 42 'after SIGTERM' ;;
    INT) expect_status 0 'after SIGINT' ;;
  esac
  for i in 0 1; do
    [ "$(wc -l <"$RECORD/signals-$i")" = 1 ] || fail "SIG$signal did not reach worker $i once"
    [ "$(wc -l <"$RECORD/starts-$i")" = 1 ] || fail "worker $i was started again"
  done
done

# A launcher that is killed leaves nobody behind.
RECORD=$scratch/orphans
export RECORD
mkdir "$RECORD"
DO_0=wait DO_1=wait "$lockstep" launch -n 2 -- "$worker" >"$RECORD/out" 2>"$RECORD/err" &
launcher=$!
wait_for "$RECORD/starts-0"
wait_for "$RECORD/starts-1"
kill -9 $launcher
wait $launcher 2>/dev/null || true
wait_for "$RECORD/signals-0"
wait_for "$RECORD/signals-1"
status=0
grep -q term "$RECORD/signals-1" || fail 'a worker outlived its launcher'

run new_folders -n 2 --log-dir "$scratch/not/there/yet" -- "$worker"
expect_status 0 'a log folder that does not exist'
grep -q '^out 1' "$scratch/not/there/yet/worker-1.log" || fail 'the log was not written'

# Errors that a restart cannot remove end the job: wrong usage, and files that are missing.
mkdir "$scratch/run"
run usage -n 2 --restarts 2 -- fit "$scratch/none.keras" --data d.npz --checkpoint-dir "$scratch/run" --bogus
expect_status 2 'an unknown option of fit'
run value -n 2 --restarts 2 -- fit "$scratch/none.keras" --data d.npz --checkpoint-dir "$scratch/run" --epochs x
expect_status 2 'a wrong value of an option of fit'
run missing -n 2 --restarts 2 -- fit "$scratch/none.keras" --data d.npz --checkpoint-dir "$scratch/run"
expect_status 1 'a missing model'
for name in usage value missing; do
  RECORD=$scratch/$name
  grep -q 'starting all workers again' "$RECORD/err" && fail "$name: started again"
  expect_err 'not restarted, because the same error would occur again'
done

touch "$scratch/file"
# refused <status> <pattern> <launch arguments>
refused() {
  wanted=$1 pattern=$2
  shift 2
  run refused "$@"
  expect_status "$wanted" "launch $*"
  expect_err "$pattern"
  [ "$(wc -l <"$RECORD/err")" = 1 ] || fail "launch $*: not one line"
}
refused 2 "-n requires a whole number from 1 to 1024, found '0'" -n 0 -- "$worker"
refused 2 "-n requires a whole number from 1 to 1024, found 'x'" -n x -- "$worker"
refused 2 "found '5000'" -n 5000 -- "$worker"
refused 2 '-n N is missing' -- "$worker"
refused 2 'would exceed 65535' -n 2 --port 65535 -- "$worker"
refused 2 "--port requires a whole number from 1 to 65535, found '70000'" -n 2 --port 70000 -- "$worker"
refused 2 'no command' -n 2
refused 2 "did you mean 'fit'" -n 2 -- ft model.keras
refused 1 './nope cannot be started: No such file' -n 2 -- ./nope
refused 2 'with --strategy mirrored:2' -n 2 -- fit m.keras --strategy mirrored:2
refused 2 'with --strategy mirrored:2' -n 2 -- fit m.keras --strategy=mirrored:2
refused 2 '--restarts requires fit --checkpoint-dir' -n 2 --restarts 1 -- fit m.keras
refused 1 "$scratch/file" -n 2 --log-dir "$scratch/file/logs" -- "$worker"

# Ports: as asked for, and named when one is taken.
port=$(sed 's/.*127.0.0.1:\([0-9]*\)"\].*/\1/' "$scratch/places/config-0")
run asked -n 1 --port "$port" -- "$worker"
expect_status 0 'a requested port'
grep -q "127.0.0.1:$port" "$RECORD/config-0" || fail 'the port is not the requested one'

[ $failures -eq 0 ] && echo 'all passed'
exit $failures
