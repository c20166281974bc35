#!/usr/bin/env python3
"""Copies the code of examples/save_and_load.cpp into docs/tutorial.md; --check reports whether it is current.

A line "<!-- code: NAME -->" in the tutorial is followed by a block of code: the function or class NAME of the example, or the part of
main() under title("NAME").
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE, TUTORIAL = ROOT / "examples" / "save_and_load.cpp", ROOT / "docs" / "tutorial.md"


def section(lines, name):
    starts = [i for i, line in enumerate(lines) if f'title("{name}")' in line]
    if starts:
        begin = starts[0] + 1
        ends = [i for i in range(begin, len(lines)) if re.match(r'\s*(title\("|std::printf\("\\nAll )', lines[i])]
        part = lines[begin:ends[0]]
        if part[0].strip() == "{" and part[-2].strip() == "}":  # a block of its own
            part = part[1:-2]
    else:
        begin = next(i for i, line in enumerate(lines) if re.match(rf"(class {name}\b|\S.* {name}\(|struct {name}\b)", line))
        end = next(i for i in range(begin, len(lines)) if re.match(r"};?$", lines[i]))
        part = lines[begin:end + 1]
    return textwrap.dedent("\n".join(part)).strip("\n")


def main():
    lines = EXAMPLE.read_text().splitlines()
    text = TUTORIAL.read_text()
    current = re.sub(r"<!-- code: (.*?) -->\n```cpp\n.*?\n?```", lambda m: f"<!-- code: {m[1]} -->\n```cpp\n{section(lines, m[1])}\n```", text, flags=re.S)
    if "--check" not in sys.argv:
        TUTORIAL.write_text(current)
    elif current != text:
        sys.exit("docs/tutorial.md is not current: run tools/tutorial.py")


if __name__ == "__main__":
    main()
