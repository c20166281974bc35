"""The tables that the programs of this folder write into the documents."""

import pathlib

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"


def write_table(document, script, table):
    """Replaces what is between the marks of a script in docs/<document>."""
    begin, end = f"<!-- {script} begins -->", f"<!-- {script} ends -->"
    text = (DOCS / document).read_text()
    before, rest = text.split(begin, 1)
    (DOCS / document).write_text(f"{before}{begin}\n{table}\n{end}{rest.split(end, 1)[1]}")
