#!/bin/sh
# Configures build/ where it is not yet, and builds. Arguments go to ninja; LOCKSTEP_CMAKE_ARGS to cmake.
set -eu
cd "$(dirname "$0")/.."
folder=${LOCKSTEP_BUILD_DIR:-build}
# A configuration that was cut off, or whose LibTorch is missing, is repeated.
torch=$(sed -n 's/^LOCKSTEP_TORCH_CPU:FILEPATH=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
if [ ! -e "$folder/build.ninja" ] || [ ! -e "$torch" ] || [ -n "${LOCKSTEP_CMAKE_ARGS:-}" ]; then
  [ -e "$torch" ] || rm -f "$folder/CMakeCache.txt"
  # shellcheck disable=SC2086
  cmake -S . -B "$folder" -G Ninja ${LOCKSTEP_CMAKE_ARGS:-}
fi
exec ninja -C "$folder" "$@"
