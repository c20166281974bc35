#!/bin/sh
# A worker for launch_test.sh: prints its rank, then follows the instruction in DO for its rank.
index=$(printf %s "$TF_CONFIG" | sed 's/.*"index": \([0-9]*\).*/\1/')
echo "out $index threads=$OMP_NUM_THREADS args=$*"
echo "$TF_CONFIG" >"$RECORD/config-$index"
if [ "$index" = 0 ]; then echo 'err 0' >&2; else printf 'err %s' "$index" >&2; fi
trap 'echo "term" >>"$RECORD/signals-$index"; exit 42' TERM
trap 'echo "int" >>"$RECORD/signals-$index"; exit 0' INT
echo started >>"$RECORD/starts-$index"
eval "action=\$DO_$index"
[ -z "$action" ] || until [ -e "$RECORD/starts-${AFTER:-$index}" ]; do sleep 0.02; done
case $action in
  fail) exit 7 ;;
  fail-once) [ "$(wc -l <"$RECORD/starts-$index")" -gt 1 ] || exit 7 ;;
  die) kill -9 $$ ;;
  wait) while :; do sleep 0.05; done ;;
  deaf) trap '' TERM; while :; do sleep 0.05; done ;;
esac
