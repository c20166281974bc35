"""Checks of the sources that need no build: formatting, include cycles, includes that point up, test files that are not compiled.

A folder, its tests included, may include those before it in FOLDERS and its own files. Prints one line for each
problem, and fails when there is one.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ["base", "io", "formats", "tensor", "ops", "collectives", "inference", "graph", "distribute", "random", "data", "keras", "numpy", "train",
           "saving", "applications", "cli"]
TREES = ["lockstep", "examples", "bench", "fuzz", "tests", "cmake"]
INCLUDE = re.compile(r'^#include "(lockstep/[^"]+)"', re.MULTILINE)
FORMATTER = "clang-format-14"  # Debian 12's: another version formats in another way


def sources():
    return sorted(str(path.relative_to(ROOT)) for tree in TREES for kind in ("*.h", "*.cpp") for path in (ROOT / tree).rglob(kind))


def folder(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "lockstep" and len(parts) > 2 else None


def upward(path, includes):
    """Includes of a folder that stands later in FOLDERS."""
    own = folder(path)
    if own not in FOLDERS:
        return []
    return [target for target in includes if folder(target) in FOLDERS and FOLDERS.index(folder(target)) > FOLDERS.index(own)]


def cycles(graph):
    """Each include cycle among headers, once, as the list of its files."""
    done, found = set(), []

    def visit(path, trail):
        if path in trail:
            found.append([*trail[trail.index(path):], path])
            return
        if path in done:
            return
        for target in graph.get(path, ()):
            visit(target, [*trail, path])
        done.add(path)

    for path in sorted(graph):
        visit(path, [])
    return found


def format_problems(paths):
    if shutil.which(FORMATTER) is None:
        return [f"{FORMATTER} is not installed: apt-get install {FORMATTER}"]
    done = subprocess.run([FORMATTER, "--dry-run", "-Werror", *paths], cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if "error:" in line]
    return lines or ([] if done.returncode == 0 else [done.stderr.strip() or "clang-format failed"])


def unlisted_tests(paths):
    """Test files that no CMakeLists.txt of their folder or one above it names: they are not compiled."""
    def lists(path):
        return [above / "CMakeLists.txt" for above in (ROOT / path).parents if (above / "CMakeLists.txt").exists()]
    return [path for path in paths if path.endswith("_test.cpp")
            and not any(pathlib.Path(path).name in found.read_text() for found in lists(path))]


def main():
    paths = sources()
    graph = {path: INCLUDE.findall((ROOT / path).read_text()) for path in paths}
    problems = []
    for path, includes in graph.items():
        problems += [f"{path}: includes {target}, of a folder above its own" for target in upward(path, includes)]
    problems += [f"include cycle: {' -> '.join(cycle)}" for cycle in cycles(graph)]
    problems += [f"{path}: no CMakeLists.txt names it" for path in unlisted_tests(paths)]
    problems += format_problems(paths)
    for problem in problems:
        print(problem)
    print(f"sources: {len(paths)} files, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
