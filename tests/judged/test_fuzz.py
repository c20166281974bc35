"""Every reader of a file format under randomly changed files, for LOCKSTEP_FUZZ_SECONDS (a minute in .ci/run): it reads them or refuses them, within bounds of
time and memory (fuzz/mutate.cpp; the seed is printed). `make fuzz` searches deeper, with libFuzzer."""

import os
import pathlib
import re
import subprocess

import lockstep_tool as tool

BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", tool.ROOT / "build"))
SECONDS = int(os.environ.get("LOCKSTEP_FUZZ_SECONDS", "10"))
READERS = set(re.findall(r'^    \{"(\w+)", \w+\},$', (tool.ROOT / "fuzz" / "readers.cpp").read_text(), re.MULTILINE))


def test_readers_under_changed_files(tmp_path):
    found = tmp_path / "found"
    done = subprocess.run([BUILD / "bin" / "fuzz_readers", str(SECONDS), tool.ROOT / "fuzz" / "corpus", found], capture_output=True, text=True, timeout=SECONDS + 60)
    print(done.stdout)
    inputs = {path.name: path.read_bytes().hex() for path in found.iterdir()}
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-3000:]}\n{inputs}"
    runs = {name: int(count) for name, count in re.findall(r"^fuzz: (\w+): (\d+) inputs$", done.stdout, re.MULTILINE)}
    assert set(runs) == READERS and min(runs.values()) >= 15 * SECONDS, runs
