#!/usr/bin/env python3
"""Doxygen's input filter: the headers' plain // comments become documentation; links of Markdown pages to sources become names.

Comments are prose: characters that Doxygen gives a meaning are escaped. Lines indented by three or more spaces are code.
"""

import pathlib
import re
import sys


def prose(text):
    return re.sub(r"([\\@<>&#%\"])", r"\\\1", text)


def comment(text):
    """The text after //, for ///."""
    return "    " + text.strip() if text.startswith("   ") else prose(text)


def header(lines):
    out, in_block, code = [], False, False
    first = True
    for line in lines:
        whole = re.match(r"(\s*)//(?!/)( ?)(.*)$", line)
        if whole:
            text = whole[2] + whole[3]
            if first and not in_block:
                out.append("/// @file")
            if re.fullmatch(r"\s*-{3,}.*-*\s*", text):
                out.append("")  # a heading within a class
                in_block = False
                continue
            is_code = text.startswith("   ")
            if is_code != code:
                out.append(whole[1] + "///")
            out.append(whole[1] + "///" + (" " + comment(text) if text.strip() else ""))
            in_block, code = True, is_code
            continue
        if in_block and first:
            out.append("")  # the comment at the top is the file's, not that of the first declaration
        if line.strip():
            first = False
        in_block = code = False
        trailing = re.match(r"(.*\S)\s+// (.*)$", line)
        if trailing and trailing[1].count('"') % 2 == 0 and not trailing[1].lstrip().startswith(("#", "}")):
            out.append(f"{trailing[1]}  ///< {prose(trailing[2])}" if re.search(r"[;,}]$|\w$", trailing[1]) else trailing[1])
            continue
        out.append(line)
    return out


# Specializations of templates of std, outside of it, which Doxygen cannot place.
STD_SPECIALIZATION = re.compile(r"^template <[^;{]*>\nstruct std::[^{]*\{[^{}]*\};$", re.MULTILINE)


def without_specializations(text):
    return STD_SPECIALIZATION.sub(lambda found: "\n" * found[0].count("\n"), text)


def page(text):
    """Links to files that are not pages become names; anchors, which Doxygen names in another way, are dropped."""
    text = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", r"@image html \2", text)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)([^)\s]+\.md)(#[^)]*)?\)", r"[\1](\2)", text)
    text = re.sub(r"\[([^\]]+)\]\([^)\s]*README\.md\)", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)(?![^)\s]+\.md\))[^)\s]+\)", r"`\1`", text)


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text()
    if path.suffix == ".md":
        sys.stdout.write(page(text))
    else:
        sys.stdout.write("\n".join(header(without_specializations(text).splitlines())) + "\n")


if __name__ == "__main__":
    main()
