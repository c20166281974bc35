#!/usr/bin/env python3
"""Copies code of the examples into the documents; --check reports whether they are current.

A line "<!-- code: NAME -->" in docs/tutorial.md is followed by a block of code: the function or class NAME of
examples/save_and_load.cpp, or the part of its main() under title("NAME"). A line "<!-- guide: FILE NAME -->" in docs/migration.md
is followed by the class or function NAME of examples/guides/FILE.
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE, GUIDES = ROOT / "examples" / "save_and_load.cpp", ROOT / "examples" / "guides"


def section(lines, name):
    starts = [i for i, line in enumerate(lines) if f'title("{name}")' in line]
    if starts:
        begin = starts[0] + 1
        ends = [i for i in range(begin, len(lines)) if re.match(r'\s*(title\("|std::printf\("\\nAll )', lines[i])]
        part = lines[begin:ends[0]]
        if part[0].strip() == "{" and part[-2].strip() == "}":  # a separate block
            part = part[1:-2]
    else:
        begin = next(i for i, line in enumerate(lines) if re.match(rf"(class {name}\b|\S.* {name}\(|struct {name}\b)", line))
        end = next(i for i in range(begin, len(lines)) if re.match(r"};?$", lines[i]))
        part = lines[begin:end + 1]
    return textwrap.dedent("\n".join(part)).strip("\n")


def python_section(lines, name):
    begin = next(i for i, line in enumerate(lines) if re.match(rf"(class|def) {name}\b", line))
    end = next((i for i in range(begin + 1, len(lines)) if lines[i][:1].strip()), len(lines))
    while begin and lines[begin - 1].startswith("@"):
        begin -= 1
    return "\n".join(lines[begin:end]).strip("\n")


def code_of_guide(file, name):
    lines = (GUIDES / file).read_text().splitlines()
    return python_section(lines, name) if file.endswith(".py") else section(lines, name)


def main():
    lines = EXAMPLE.read_text().splitlines()
    documents = {
        ROOT / "docs" / "tutorial.md": (r"<!-- code: (.*?) -->\n```cpp\n.*?\n?```",
                                        lambda m: f"<!-- code: {m[1]} -->\n```cpp\n{section(lines, m[1])}\n```"),
        ROOT / "docs" / "migration.md": (r"<!-- guide: (\S+) (\S+) -->\n```(\w+)\n.*?\n?```",
                                         lambda m: f"<!-- guide: {m[1]} {m[2]} -->\n```{m[3]}\n{code_of_guide(m[1], m[2])}\n```"),
    }
    for path, (pattern, replacement) in documents.items():
        text = path.read_text()
        current = re.sub(pattern, replacement, text, flags=re.S)
        if "--check" not in sys.argv:
            path.write_text(current)
        elif current != text:
            sys.exit(f"{path.relative_to(ROOT)} is not current: run tools/tutorial.py")


if __name__ == "__main__":
    main()
