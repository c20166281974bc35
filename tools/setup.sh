#!/bin/sh
# Brings a Debian 12 machine to where lockstep builds: Debian's packages, and LibTorch in a cache of the user's.
#
#   tools/setup.sh                  everything that is missing
#   tools/setup.sh --packages-only  only Debian's packages
#   tools/setup.sh --libtorch-only  only LibTorch
#   tools/setup.sh --print-libtorch the folder of LibTorch (include/, lib/); changes nothing, fails when it is not there
#
# Runs as root, or as a user who may use sudo. Changes nothing when nothing is missing, and may be stopped at any moment:
# the next run continues. LOCKSTEP_LIBTORCH=<folder> uses a LibTorch (2.6 or later) of your own.
set -eu

pins=${LOCKSTEP_PINS:-$(dirname "$0")/libtorch.pins}

packages="build-essential cmake ninja-build ccache pkg-config python3 python3-venv python3-pip
  zlib1g-dev libprotobuf-dev protobuf-compiler libcli11-dev libfmt-dev
  libisal-dev libjpeg62-turbo-dev libpng-dev libre2-dev libgtest-dev libgmock-dev dataset-fashion-mnist iproute2 ${LOCKSTEP_EXTRA_PACKAGES:-}"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
# The name changes with the pins, so that an older clone's LibTorch is never taken for this one.
version=$(sed -n 's/^torch \([^ ]*\) .*/\1/p' "$pins")
libtorch=$cache/libtorch-$version-$( { cat "$pins"; echo layout 1; } | sha256sum | cut -c1-8)

say() { printf '%s\n' "setup: $*" >&2; }
die() { say "$*"; exit 1; }

install_packages() {
  missing=
  for package in $packages; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null || die "missing packages:$missing (no apt-get here: install them by hand)"
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing packages:$missing (run this as root, or install sudo)"
    as_root=sudo
  fi
  say "installing$missing"
  # An installation that was cut off leaves packages unpacked but not configured.
  $as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a >&2
  $as_root apt-get -qq update >&2
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -q $missing >&2
}

find_python() {
  for python in /usr/bin/python3 python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then return 0; fi
  done
  die "python3 with pip is missing: apt-get install python3-pip"
}

# fetch NAME VERSION WHEEL SHA256 FOLDER: the wheel in FOLDER, its hash checked.
fetch() {
  if [ -f "$5/$3" ] && printf '%s  %s\n' "$4" "$5/$3" | sha256sum --check --status; then return 0; fi
  rm -f "$5/$3"
  quiet=--progress-bar=on
  [ -t 2 ] || quiet=--progress-bar=off
  printf '%s==%s --hash=sha256:%s\n' "$1" "$2" "$4" > "$5/$1.txt"
  # Half a gigabyte does not fit into every /tmp, and needs no second copy in pip's cache.
  TMPDIR=$5 "$python" -m pip --disable-pip-version-check --no-cache-dir download $quiet \
    --no-deps --only-binary=:all: --require-hashes --python-version 3.11 --implementation cp \
    --abi cp311 --abi abi3 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --dest "$5" -r "$5/$1.txt" >&2 ||
    die "$1 $2 could not be downloaded; check the network and start again, nothing is lost"
  [ -f "$5/$3" ] || die "$1 $2 came under another name than $3"
  printf '%s  %s\n' "$4" "$5/$3" | sha256sum --check --status || die "$3 is damaged: its SHA-256 is not $4"
}

# unpack TARGET WHEEL...: what of the wheels a build needs, laid out as include/ and lib/.
unpack() {
  "$python" - "$@" <<'PY'
import os, shutil, sys, zipfile

LIBRARIES = {"libc10.so", "libtorch_cpu.so", "libgomp.so.1", "libcudart.so.13", "libcupti.so.13"}
HEADERS = ("torch/include/ATen/", "torch/include/c10/", "torch/include/torch/", "torch/include/caffe2/")


def place(name):
    folder, _, base = name.rpartition("/")
    if name.startswith(HEADERS):
        return name[len("torch/"):]
    if base in LIBRARIES and folder.endswith("/lib"):
        return "lib/" + base
    if folder.endswith(".dist-info") or ".dist-info/licenses" in folder:
        if base.upper().startswith(("LICENSE", "NOTICE", "METADATA")):
            return "licenses/" + name.replace("/", "_")
    return None


target = sys.argv[1]
for wheel in sys.argv[2:]:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            where = None if entry.is_dir() else place(entry.filename)
            if where is None:
                continue
            path = os.path.join(target, where)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with archive.open(entry) as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
missing = [name for name in sorted(LIBRARIES) if not os.path.exists(os.path.join(target, "lib", name))]
if missing:
    sys.exit("setup: the wheels lack " + ", ".join(missing))
PY
}

install_libtorch() {
  if [ -n "${LOCKSTEP_LIBTORCH:-}" ]; then
    [ -e "$LOCKSTEP_LIBTORCH/lib/libtorch_cpu.so" ] || die "LOCKSTEP_LIBTORCH=$LOCKSTEP_LIBTORCH holds no lib/libtorch_cpu.so"
    return 0
  fi
  [ -e "$libtorch/complete" ] && return 0
  [ "$(uname -m)" = x86_64 ] || die "LibTorch's wheel is for x86_64, this is $(uname -m): set LOCKSTEP_LIBTORCH"
  find_python
  mkdir -p "$cache/download"
  # One at a time; a second one waits, then finds the work done. The lock goes with its process.
  exec 9> "$cache/libtorch.lock"
  flock 9
  [ -e "$libtorch/complete" ] && return 0
  say "LibTorch $version goes to $libtorch (a download of 553 MB, once)"
  set --
  while read -r name release wheel hash; do
    case "$name" in "#"* | "") continue ;; esac
    fetch "$name" "$release" "$wheel" "$hash" "$cache/download" < /dev/null
    set -- "$@" "$cache/download/$wheel"
  done < "$pins"
  say "unpacking"
  rm -rf "$libtorch" "$libtorch.part"
  mkdir -p "$libtorch.part"
  unpack "$libtorch.part" "$@"
  sync -f "$libtorch.part"
  mv "$libtorch.part" "$libtorch"
  : > "$libtorch/complete"
  rm -rf "$cache/download"
  exec 9>&-
}

case "${1:-}" in
  "") install_packages; install_libtorch ;;
  --packages-only) install_packages ;;
  --libtorch-only) install_libtorch ;;
  --print-libtorch)
    if [ -n "${LOCKSTEP_LIBTORCH:-}" ]; then
      printf '%s\n' "$LOCKSTEP_LIBTORCH"
    else
      [ -e "$libtorch/complete" ] || die "LibTorch is not in $cache yet: run tools/setup.sh"
      printf '%s\n' "$libtorch"
    fi ;;
  --help|-h) sed -n '2,10s/^# \{0,1\}//p' "$0" ;;
  *) die "unknown argument $1 (there are --packages-only, --libtorch-only, --print-libtorch)" ;;
esac
