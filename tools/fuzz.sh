#!/bin/sh
# Gives every reader of a file format random bytes, grown from small real files, under the address sanitizer.
#
#   tools/fuzz.sh [SECONDS] [READER...]   default: 60 seconds each, all readers
#
# Installs Clang where it is missing. What was learned stays in build-fuzz/corpus, what was found in build-fuzz/found.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
if ! [ -e /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.fuzzer-x86_64.a ] || ! command -v clang++-14 > /dev/null; then
  LOCKSTEP_EXTRA_PACKAGES="clang-14 libclang-rt-14-dev" tools/setup.sh
else
  tools/setup.sh
fi
[ -e build-fuzz/build.ninja ] || cmake -S . -B build-fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++-14 -DLOCKSTEP_FUZZ=ON \
  -DLOCKSTEP_EXAMPLES=OFF -DLOCKSTEP_SANITIZE=address,undefined,fuzzer-no-link
ninja -C build-fuzz fuzz/all
[ $# -gt 0 ] || set -- $(sed -n 's/^foreach(reader \(.*\))$/\1/p' fuzz/CMakeLists.txt)
CUDA_VISIBLE_DEVICES= TF_CPP_MIN_LOG_LEVEL=3 "$(tools/judges_venv.sh)/bin/python" fuzz/seeds.py build-fuzz/seeds
status=0
for reader; do
  mkdir -p "build-fuzz/corpus/$reader" build-fuzz/found "build-fuzz/seeds/$reader"
  printf 'fuzz: %s for %s s\n' "$reader" "$seconds" >&2
  "build-fuzz/bin/fuzz_$reader" -max_total_time="$seconds" -rss_limit_mb=512 -malloc_limit_mb=256 -timeout=10 -max_len=65536 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="build-fuzz/found/$reader-" \
    "build-fuzz/corpus/$reader" "build-fuzz/seeds/$reader" || status=1
done
exit $status
