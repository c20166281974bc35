#!/bin/sh
# Runs fuzz targets that were built before.
#
#   fuzz/run.sh BINARIES CORPUS SECONDS [READER...]   default: all readers, SECONDS each
#
# JOBS processes at a time (default 1), each with one reader. SEED is the first random seed (default: random). Under OUT
# (default .): corpus/<reader> new inputs, found/<reader>-<kind>-<hash> inputs that fail, logs/<reader>.log, and figures.tsv
# with a line for each reader: reader, inputs, seconds, findings, seed. Exit status 1 if anything was found.
set -eu
binaries=$1
seeds=$2
seconds=$3
shift 3
out=${OUT:-.}
jobs=${JOBS:-1}
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
mkdir -p "$out/corpus" "$out/found" "$out/logs"
[ $# -gt 0 ] || set -- $(cd "$binaries" && ls | sed -n 's/^fuzz_\([a-z0-9_]*\)$/\1/p')

one() {
  reader=$1
  log=$out/logs/$reader.log
  mkdir -p "$out/corpus/$reader"
  folders=$out/corpus/$reader
  [ ! -d "$seeds/$reader" ] || folders="$folders $seeds/$reader"
  # An audit reads every format.
  [ "$reader" != audit ] || folders="$folders $(find "$seeds" -mindepth 1 -maxdepth 1 -type d | tr '\n' ' ')"
  begin=$(date +%s)
  executed=0
  found=0
  # A finding ends the process: it starts again for the time that is left.
  while left=$((begin + seconds - $(date +%s))) && [ "$left" -gt 0 ] && [ "$found" -lt 20 ]; do
    status=0
    # shellcheck disable=SC2086
    "$binaries/fuzz_$reader" -seed="$((seed + found))" -max_total_time="$left" -rss_limit_mb=2048 -malloc_limit_mb=1024 \
      -timeout=10 -max_len=65536 -print_final_stats=1 -verbosity=0 -detect_leaks=1 \
      -artifact_prefix="$out/found/$reader-" $folders > "$log.part" 2>&1 || status=$?
    cat "$log.part" >> "$log"
    number=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log.part" | tail -1)
    executed=$((executed + ${number:-0}))
    rm -f "$log.part"
    [ "$status" -ne 0 ] || break
    found=$((found + 1))
  done
  printf '%s\t%s\t%s\t%s\t%s\n' "$reader" "$executed" "$(($(date +%s) - begin))" "$found" "$seed" \
    > "$out/logs/$reader.figures"
  cat "$out/logs/$reader.figures"
}

running=0
for reader; do
  one "$reader" &
  running=$((running + 1))
  if [ "$running" -ge "$jobs" ]; then
    wait
    running=0
  fi
done
wait
status=0
: > "$out/figures.tsv"
for reader; do
  cat "$out/logs/$reader.figures" >> "$out/figures.tsv"
  [ "$(cut -f4 "$out/logs/$reader.figures")" -eq 0 ] || status=1
done
exit $status
