#!/usr/bin/env python3
"""Runs the tests of faults, power loss and damage, and writes their figures into docs/reliability.md.

    tools/reliability.py [--full] [--fuzz RUNS.tsv] [--only PART]

--full: every system call fails in every way, not a drawn part of them. --fuzz: the runs of fuzz/run.sh, which are added
to those in the document (default: build-fuzz/runs.tsv where that is there). --only: run this part alone (damage,
"power loss", "interrupted saves", "system calls", fuzzing).
"""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build"))
DOCUMENT = ROOT / "docs" / "reliability.md"


def output_of(command, **variables):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, **variables},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def damage():
    text = output_of([BUILD / "tests" / "formats_tests", "--gtest_filter=DamageTest.*"])
    rows = re.findall(r"^(\S+): (\d+) bits flipped: (\d+) errors, (\d+) times the same content, (\d+) times another", text, re.M)
    assert rows, text
    return table(["file", "bits flipped", "errors", "same content", "other content"], rows)


def power_loss():
    text = output_of([BUILD / "tests" / "formats_tests", "--gtest_filter=*PowerLoss*"])
    rows = re.findall(r"^(\w+): power lost (\d+) times, (\d+) unsynced writes and entries, seed (\d+)", text, re.M)
    assert rows, text
    return table(["save", "power losses", "unsynced writes and entries", "seed"], rows)


def interrupted():
    text = output_of([BUILD / "tests" / "saving_tests", "--gtest_filter=*Interrupted*"])
    names = re.findall(r"\[ RUN      \] (\S+)", text)
    counts = re.findall(r"^(\d+) interrupted saves", text, re.M)
    assert counts and len(names) == len(counts), text
    return table(["test", "saves killed or failed"], zip(names, counts))


def system_calls(full):
    python = output_of([ROOT / "tools" / "judges_venv.sh"]).strip() + "/bin/python"
    text = output_of([python, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests/judged/test_faults.py"],
                     LOCKSTEP_CONFORMANCE="1" if full else "0", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    rows = re.findall(r"(\w+) (\S+): (\d+) calls, (\d+) faults injected", text)
    assert rows, text
    return table(["command", "files", "system calls on files", "faults injected"], rows)


def fuzzing(path):
    """Adds each run to the figures of its reader in the document, unless that has its seed already."""
    (old,) = re.findall(r"<!-- fuzzing -->\n(.*?)<!-- end -->", DOCUMENT.read_text(), re.S)
    rows = {row[0]: list(row) for row in re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| ([\d ]+) \|$", old, re.M)}
    for reader, *figures, seed in (line.split("\t") for line in path.read_text().splitlines()):
        row = rows.setdefault(reader, [reader, 0, 0, 0, ""])
        if seed not in row[4].split():
            row[1:] = [*(int(a) + int(b) for a, b in zip(row[1:4], figures, strict=True)), f"{row[4]} {seed}".strip()]
    return table(["reader", "inputs", "CPU seconds", "findings", "seeds"], sorted(rows.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--fuzz", type=pathlib.Path, default=ROOT / "build-fuzz" / "runs.tsv")
    parser.add_argument("--only")
    options = parser.parse_args()
    runs = {"damage": damage, "power loss": power_loss, "interrupted saves": interrupted,
            "system calls": lambda: system_calls(options.full)}
    if options.fuzz.exists():
        runs["fuzzing"] = lambda: fuzzing(options.fuzz)
    if options.only:
        runs = {options.only: runs[options.only]}
    commit = output_of(["git", "rev-parse", "--short", "HEAD"]).strip()
    extent = "all system calls" if options.full else "a drawn part of the system calls"
    parts = {}
    for name, run in runs.items():
        note = {"system calls": f"; {extent}", "fuzzing": "; earlier runs at earlier commits"}.get(name, "")
        parts[name] = f"{run()}\n\n{datetime.date.today()}, commit {commit}{note}."
    text = DOCUMENT.read_text()
    for name, content in parts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        assert pattern.search(text), name
        text = pattern.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
