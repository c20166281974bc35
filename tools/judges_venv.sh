#!/bin/sh
# Prints the folder of a virtual environment with the real TensorFlow and Keras that tests and benchmarks compare with, and
# makes it first where it is missing (1.5 GB, a few minutes, once). Changes nothing when it is there; may be stopped at any
# moment: an incomplete one is rebuilt.
set -eu

requirements=$(dirname "$0")/../tests/judged/requirements.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
say() { printf '%s\n' "judges: $*" >&2; }

for python in /usr/bin/python3 python3; do
  if "$python" -c 'import venv, ensurepip' 2>/dev/null; then break; fi
  python=
done
[ -n "$python" ] || { say "python3 with venv is missing: run tools/setup.sh first"; exit 1; }
# Another Python, or another list, is another environment.
key=$( { "$python" -c 'import sys; print(sys.executable, sys.version_info[:2])'; cat "$requirements"; } | sha256sum | cut -c1-8)
venv=$cache/judges-$key

if [ ! -e "$venv/complete" ]; then
  mkdir -p "$cache"
  exec 9> "$cache/judges.lock"
  flock 9
  if [ ! -e "$venv/complete" ]; then
    say "installing TensorFlow and Keras into $venv (once)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    progress=--progress-bar=on
    [ -t 2 ] || progress=--progress-bar=off
    # Python compiles a module when it is first imported: the tests import half of them.
    # The list is complete, and tf-keras asks for the package tensorflow where tensorflow-cpu is the same and smaller.
    mkdir "$venv/tmp"
    TMPDIR=$venv/tmp "$venv/bin/python" -m pip --disable-pip-version-check install $progress --quiet --no-deps --no-compile \
      -r "$requirements" >&2 || {
      say "the installation failed; check the network and start again, nothing is lost"
      exit 1
    }
    CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=3 "$venv/bin/python" -c \
      'import tensorflow, keras, tf_keras, tensorflow_hub, h5py, safetensors' 2> "$venv/import.log" || {
      cat "$venv/import.log" >&2
      say "the packages installed into $venv cannot be imported"
      exit 1
    }
    rm -rf "$venv/tmp"
    : > "$venv/complete"
  fi
  exec 9>&-
fi
printf '%s\n' "$venv"
