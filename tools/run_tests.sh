#!/bin/sh
# Runs the tests of a finished build in three lanes, which fill two cores: many cases wait for processes or time-outs. The C++
# tests begin the third lane; the judged tests run in all, and each lane takes the next group of cases that no other has taken
# (tests/judged/conftest.py).
# Reports go to build/test-results. Arguments go to pytest. LOCKSTEP_SANITIZED names a second build folder, with sanitizers, whose
# tests of the folders that read files and run graphs are run too.
set -eu
cd "$(dirname "$0")/.."
# Sets of Python have the same order in every run.
export PYTHONHASHSEED=0
# One seed for all lanes: which of Keras's stored answers are computed again (tests/judged/answers.py).
: "${LOCKSTEP_ANSWERS_SEED:=$(date +%s)}"
export LOCKSTEP_ANSWERS_SEED
venv=$(tools/judges_venv.sh)
results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results/claims"

# Files of the tests are kept in memory where there is room: on some disks each removed file takes milliseconds.
scratch=
if [ -z "${TMPDIR:-}" ] && [ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -ge 8388608 ] 2>/dev/null; then
  scratch=$(mktemp -d /dev/shm/lockstep-tests.XXXXXX)
  export TMPDIR="$scratch"
fi

judged() {
  lane=$1
  shift
  LOCKSTEP="$PWD/build/bin/lockstep" LOCKSTEP_BUILD="$PWD/build" LOCKSTEP_CLAIMS="$results/claims" \
    CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=3 \
    "$venv/bin/python" -m pytest -q -p no:cacheprovider --junit-xml="$results/judged.$lane.xml" tests/judged "$@"
}

programs_first() {
  ok=0
  ctest --test-dir build --output-on-failure --no-tests=error --output-junit "$results/ctest.xml" || ok=1
  if [ -n "${LOCKSTEP_SANITIZED:-}" ]; then
    ctest --test-dir "$LOCKSTEP_SANITIZED" --output-on-failure --no-tests=error -R '^(base|io|formats|ops|graph)_tests$' \
      --output-junit "$results/sanitized.xml" || ok=1
  fi
  judged 3 "$@" || ok=1
  return $ok
}

failed=0
judged 2 "$@" > "$results/second.log" 2>&1 &
second=$!
programs_first "$@" > "$results/third.log" 2>&1 &
third=$!
trap 'kill $second $third 2>/dev/null || true; [ -z "$scratch" ] || rm -rf "$scratch"' EXIT
judged 1 "$@" || failed=1
wait $second || failed=1
wait $third || failed=1
cat "$results/second.log" "$results/third.log"
"$venv/bin/python" tools/count_tests.py "$results" --pytest judged.1 judged.2 judged.3 ${LOCKSTEP_SANITIZED:+--programs sanitized} \
  --allowed-skips tests/allowed_skips.txt || failed=1
exit $failed
