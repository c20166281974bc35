#!/bin/sh
# tools/setup.sh from an empty cache, with tiny wheels in LibTorch's place and no network: the first run fills the cache, the
# second does nothing, and whatever a run that was cut off or lied to leaves behind, the next one puts right.
set -eu
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" HOME="$work" LOCKSTEP_PINS="$work/pins"
export PIP_NO_INDEX=1 PIP_FIND_LINKS="$work/wheels" PIP_CONFIG_FILE=/dev/null
unset LOCKSTEP_LIBTORCH
cache=$work/cache/lockstep

# make_wheels CONTENT: the wheels and their pins.
make_wheels() {
  rm -rf "$work/wheels"
  mkdir -p "$work/wheels"
  python3 - "$work" "$1" <<'PY'
import hashlib, sys, zipfile

work, content = sys.argv[1:]
wheels = {
    "torch": ["torch/lib/libc10.so", "torch/lib/libtorch_cpu.so", "torch/lib/libgomp.so.1", "torch/lib/libtorch_cuda.so",
              "torch/include/ATen/ATen.h", "torch/include/fmt/format.h", "torch/__init__.py"],
    "nvidia-cuda-runtime": ["nvidia/cu13/lib/libcudart.so.13"],
    "nvidia-cuda-cupti": ["nvidia/cu13/lib/libcupti.so.13"],
}
with open(f"{work}/pins", "w") as pins:
    print("# tiny", file=pins)
    for name, members in wheels.items():
        stem = f"{name.replace('-', '_')}-9.0"
        path = f"{work}/wheels/{stem}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for member in members:
                wheel.writestr(member, content)
            wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
        digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
        print(name, "9.0", f"{stem}-py3-none-any.whl", digest, file=pins)
PY
}

setup() { "$tools/setup.sh" --libtorch-only > "$work/log" 2>&1; }
fail() { printf 'FAILED: %s\n' "$1"; cat "$work/log"; exit 1; }
says() { grep -q "$1" "$work/log" || fail "the message lacks '$1'"; }
whole() {
  folder=$("$tools/setup.sh" --print-libtorch) || fail "$1: no LibTorch"
  for file in lib/libtorch_cpu.so lib/libc10.so lib/libgomp.so.1 lib/libcudart.so.13 lib/libcupti.so.13 include/ATen/ATen.h; do
    [ "$(cat "$folder/$file")" = "$2" ] || fail "$1: $file"
  done
  [ ! -e "$folder/include/fmt" ] && [ ! -e "$folder/lib/libtorch_cuda.so" ] || fail "$1: more than is needed"
  [ ! -e "$cache/download" ] || fail "$1: the download was left behind"
}

make_wheels one
"$tools/setup.sh" --print-libtorch > "$work/log" 2>&1 && fail "an empty cache has a LibTorch"
says "run tools/setup.sh"
setup || fail "from an empty cache"
whole "from an empty cache" one
first=$folder

mv "$work/wheels" "$work/away"
setup || fail "the second run"
[ ! -s "$work/log" ] || fail "the second run has something to say"
mv "$work/away" "$work/wheels"

# Cut off while unpacking, and after the rename but before the mark.
rm -rf "$first/complete" "$first/lib"
mkdir -p "$first.part/lib"
echo torn > "$first.part/lib/libc10.so"
setup || fail "after a torn unpacking"
whole "after a torn unpacking" one

# Interrupted while downloading: the partial file is not used.
rm -rf "$first"
mkdir -p "$cache/download"
echo torn > "$cache/download/torch-9.0-py3-none-any.whl"
setup || fail "after a torn download"
whole "after a torn download" one

# No network, then a server that sends something else than was pinned.
rm -rf "$first"
mv "$work/wheels" "$work/away"
mkdir "$work/wheels"
setup && fail "LibTorch out of nothing"
says "could not be downloaded"
[ ! -e "$first/complete" ] || fail "a failed download counts as complete"
cp "$work"/away/* "$work/wheels/"
echo more >> "$work/wheels/torch-9.0-py3-none-any.whl"
setup && fail "a wheel with another hash is taken"
says "could not be downloaded"
rm -rf "$work/wheels"
mv "$work/away" "$work/wheels"

# Two at once, as two clones would: one does the work, both find it done.
setup & other=$!
"$tools/setup.sh" --libtorch-only > "$work/log2" 2>&1 || fail "one of two at once"
wait "$other" || fail "the other of two at once"
whole "two at once" one

# Other pins are another folder: the older clone's stays.
make_wheels two
setup || fail "other pins"
whole "other pins" two
[ "$folder" != "$first" ] && [ -e "$first/complete" ] || fail "another version took the place of the first"

# A LibTorch of the user.
mkdir -p "$work/own/lib"
LOCKSTEP_LIBTORCH=$work/own "$tools/setup.sh" --libtorch-only > "$work/log" 2>&1 && fail "an empty folder counts as LibTorch"
says "holds no lib/libtorch_cpu.so"
echo "tools/setup.sh: all passed"
