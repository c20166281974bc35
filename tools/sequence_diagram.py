#!/usr/bin/env python3
"""Draws sequence diagrams: docs/figures/*.seq -> *.svg. Without arguments all; --check reports those that are not current.

A line of a source is one of
  lane NAME TEXT          a column, from left to right
  step A TEXT             work in a lane; "step A-B TEXT" spans lanes A to B
  send A B TEXT           an arrow from lane A to lane B
  both A B TEXT           an arrow in both directions
  rule TEXT               a separator over all lanes
"|" in TEXT breaks the line, "#" begins a comment.
"""

import pathlib
import sys
from xml.sax.saxutils import escape

LANE, LINE, GAP, MARGIN = 280, 17, 14, 16
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs" / "figures"
STYLE = ("text{font:13px sans-serif;fill:#1b1f23}.lane{font-weight:bold}.free{paint-order:stroke;stroke:#ffffff;stroke-width:4px}"
         ".rule{fill:#57606a;font-style:italic}"
         ".box{fill:#eaf2fb;stroke:#5b8cc0}.head{fill:#d5e4f3;stroke:#5b8cc0}.line{stroke:#8c959f;stroke-dasharray:4 4}"
         ".arrow{stroke:#1b1f23;marker-end:url(#head)}.both{stroke:#1b1f23;marker-end:url(#head);marker-start:url(#head)}")


def text_lines(x, y, lines, kind=""):
    attribute = f' class="{kind}"' if kind else ""
    return [f'<text x="{x}" y="{y + 13 + i * LINE}" text-anchor="middle"{attribute}>{escape(line)}</text>' for i, line in enumerate(lines)]


def draw(source):
    lanes, body = {}, []
    rows = [line.split("#")[0].strip() for line in source.splitlines()]
    y = MARGIN + 2 * LINE + GAP
    for row in filter(None, rows):
        kind, rest = row.split(" ", 1)
        if kind == "lane":
            name, text = rest.split(" ", 1)
            lanes[name] = (MARGIN + LANE // 2 + len(lanes) * LANE, text.strip())
            continue
        if kind == "rule":
            body += [f'<line x1="{MARGIN}" y1="{y + 20}" x2="{MARGIN + len(lanes) * LANE}" y2="{y + 20}" stroke="#d0d7de"/>']
            body += text_lines(MARGIN + len(lanes) * LANE // 2, y, rest.split("|"), "rule")
            y += LINE + GAP
            continue
        if kind == "step":
            where, text = rest.split(" ", 1)
            first, last = (where.split("-") + [where])[:2]
            x1, x2 = lanes[first][0], lanes[last][0]
            lines = text.strip().split("|")
            height = len(lines) * LINE + 8
            body.append(f'<rect class="box" x="{x1 - LANE // 2 + 8}" y="{y}" width="{x2 - x1 + LANE - 16}" height="{height}" rx="4"/>')
            body += text_lines((x1 + x2) // 2, y + 3, lines)
            y += height + GAP
            continue
        a, b, text = rest.split(" ", 2)
        x1, x2 = lanes[a][0], lanes[b][0]
        lines = text.strip().split("|")
        body += text_lines((x1 + x2) // 2, y, lines, "free")
        y += len(lines) * LINE + 4
        body.append(f'<line class="{"both" if kind == "both" else "arrow"}" x1="{x1}" y1="{y}" x2="{x2}" y2="{y}"/>')
        y += GAP
    width, height = 2 * MARGIN + len(lanes) * LANE, y + MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           f"<style>{STYLE}</style>",
           '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto-start-reverse"><path d="M0,0 L8,3 L0,6 z"/>'
           "</marker></defs>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for x, text in lanes.values():
        out.append(f'<line class="line" x1="{x}" y1="{MARGIN + 2 * LINE}" x2="{x}" y2="{height - MARGIN}"/>')
        out.append(f'<rect class="head" x="{x - LANE // 2 + 8}" y="{MARGIN}" width="{LANE - 16}" height="{LINE + 10}" rx="4"/>')
        out += text_lines(x, MARGIN + 4, [text], "lane")
    return "\n".join([*out, *body, "</svg>"]) + "\n"


def main():
    stale = []
    for path in sorted(FOLDER.glob("*.seq")):
        target, svg = path.with_suffix(".svg"), draw(path.read_text())
        if not target.exists() or target.read_text() != svg:
            stale.append(target.name)
            if "--check" not in sys.argv:
                target.write_text(svg)
    if "--check" in sys.argv and stale:
        sys.exit(f"not current: {', '.join(stale)}; run tools/sequence_diagram.py")


if __name__ == "__main__":
    main()
