#!/bin/sh
# Gives every reader of untrusted bytes random ones, grown from the small files of fuzz/corpus, under the address and
# undefined-behaviour sanitizers.
#
#   tools/fuzz.sh [SECONDS] [READER...]   default: 60 seconds each, all readers
#
# Installs Clang where it is missing. New inputs stay in build-fuzz/corpus, findings in build-fuzz/found; the figures of all
# runs together are in build-fuzz/figures.tsv: reader, inputs, seconds of CPU, findings, seeds. See fuzz/run.sh.
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
OUT=build-fuzz JOBS=1 fuzz/run.sh build-fuzz/bin fuzz/corpus "$seconds" "$@"
