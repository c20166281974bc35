#!/bin/sh
# Runs fuzz targets that were built before.
#
#   fuzz/run.sh BINARIES CORPUS SECONDS [READER...]   default: all readers, SECONDS each
#
# JOBS processes at a time (default 1), each with one reader. SEED is the first random seed (default: random). Three quarters of
# the time inputs have up to 4 KiB, of which a second has ten times as many as of those of 64 KiB that fill the rest. Under OUT
# (default .; /dev/shm is fastest): corpus/<reader> new inputs, found/<reader>-<kind>-<hash> inputs that fail,
# logs/<reader>.log, runs.tsv with a line for each reader of each run so far (reader, inputs, seconds of CPU, findings, seed),
# and figures.tsv, in which the runs of a reader are added up. Exit status 1 if this run has found anything.
set -eu
binaries=$1
seeds=$2
seconds=$3
shift 3
out=${OUT:-.}
jobs=${JOBS:-1}
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
mkdir -p "$out/corpus" "$out/found" "$out/logs"
# Readers are the names that link to a program.
[ $# -gt 0 ] || set -- $(cd "$binaries" && find . -type l -name 'fuzz_*' | sed 's|^./fuzz_||' | sort)

one() {
  reader=$1
  log=$out/logs/$reader.log
  mkdir -p "$out/corpus/$reader"
  folders=$out/corpus/$reader
  [ ! -d "$seeds/$reader" ] || folders="$folders $seeds/$reader"
  # An audit reads every format.
  [ "$reader" != audit ] || folders="$folders $(find "$seeds" -mindepth 1 -maxdepth 1 -type d | tr '\n' ' ')"
  executed=0
  found=0
  begin=$(date +%s)
  fuzz_until "$((begin + seconds * 3 / 4))" 4096
  fuzz_until "$((begin + seconds))" 65536
  # User and system time of this shell's children.
  times > "$log.part"
  cpu=$(awk 'NR == 2 { n = split($1 "m" $2, part, /[ms]+/); print int(part[1] * 60 + part[2] + part[3] * 60 + part[4] + 0.5) }' "$log.part")
  rm -f "$log.part"
  printf '%s\t%s\t%s\t%s\t%s\n' "$reader" "$executed" "$cpu" "$found" "$seed" > "$out/logs/$reader.figures"
  cat "$out/logs/$reader.figures"
}

# fuzz_until TIME BYTES: a finding ends the process, which starts again for the time that is left.
fuzz_until() {
  while left=$(($1 - $(date +%s))) && [ "$left" -gt 0 ] && [ "$found" -lt 20 ]; do
    status=0
    # shellcheck disable=SC2086
    "$binaries/fuzz_$reader" -seed="$((seed + found))" -max_total_time="$left" -rss_limit_mb=2048 -malloc_limit_mb=1024 \
      -timeout=10 -max_len="$2" -entropic=0 -print_final_stats=1 -verbosity=0 -detect_leaks=1 \
      -artifact_prefix="$out/found/$reader-" $folders > "$log.part" 2>&1 || status=$?
    cat "$log.part" >> "$log"
    number=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log.part" | tail -1)
    executed=$((executed + ${number:-0}))
    rm -f "$log.part"
    [ "$status" -ne 0 ] || break
    found=$((found + 1))
  done
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
for reader; do
  cat "$out/logs/$reader.figures" >> "$out/runs.tsv"
  [ "$(cut -f4 "$out/logs/$reader.figures")" -eq 0 ] || status=1
done
awk -F '\t' -v OFS='\t' '{ inputs[$1] += $2; cpu[$1] += $3; found[$1] += $4; seeds[$1] = seeds[$1] (seeds[$1] ? " " : "") $5 }
  END { for (reader in inputs) print reader, inputs[reader], cpu[reader], found[reader], seeds[reader] }' "$out/runs.tsv" \
  | sort > "$out/figures.tsv"
exit $status
