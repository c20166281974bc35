"""Writes docs/conformance.md: how many cases of each class and kind give what Keras and TensorFlow give.

    conformance.py RESULTS    RESULTS: the folder of a test run's reports (tools/run_tests.sh)

LOCKSTEP_CONFORMANCE=1: it was a run of every case.
"""

import ast
import collections
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

from count_tests import outcome

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLASSES = {  # (test file, test) -> section, and the class in a case's arguments
    ("test_layers", "test_layer"): ("Layers", r"(\w+)-"),
    ("test_layers", "test_layer_from_h5"): ("Layers", r"(\w+)"),
    ("test_sweeps", "test_layers"): ("Layers", r"(\w+)-"),
    ("test_train", "test_optimizer"): ("Optimizers", r"(\w+)"),
    ("test_train", "test_loss"): ("Losses", r"\w+?-(.+)"),
    ("test_train", "test_metric"): ("Metrics", r"(.+)"),
    ("test_ops", "test_operations"): ("Operations", r"(.+)"),
    ("test_callbacks", "test_callbacks"): ("Callbacks", r"(\w+)"),
}


def subject(module):
    """The first sentence of a test file's description."""
    text = ast.get_docstring(ast.parse((ROOT / "tests" / "judged" / f"{module}.py").read_text())) or module
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def main():
    sections = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    total = collections.Counter()
    reports = sorted(pathlib.Path(sys.argv[1]).glob("judged.*.xml"))
    for case in (case for report in reports for case in ElementTree.parse(report).iter("testcase")):
        module = case.get("classname").rsplit(".", 1)[-1]
        test, _, arguments = case.get("name").partition("[")
        section, pattern = CLASSES.get((module, test), ("Other comparisons", None))
        row = re.match(pattern, arguments.removesuffix("]")).group(1) if pattern else subject(module)
        result, _ = outcome(case)
        sections[section][row][result] += 1
        total[result] += 1
    if not total:
        sys.exit(f"no case in {sys.argv[1]}")
    extent = "every case" if os.environ.get("LOCKSTEP_CONFORMANCE", "") not in ("", "0") else "the selection of cases that ./test runs"
    counted = total["passed"] + total["failed"]
    lines = ["# Conformance", "",
             "Cases that give what Keras and TensorFlow give, of all that were compared; those that Keras itself refuses are left out.",
             f"`make conformance` runs every case and writes this page. In {extent}, {total['passed']} of {counted} passed.", ""]
    order = [*dict.fromkeys(section for section, _ in CLASSES.values()), "Other comparisons"]
    for section in (name for name in order if name in sections):
        lines += [f"## {section}", "", "| | passed | of |", "|---|---|---|"]
        rows = {row: counts for row, counts in sections[section].items() if counts["passed"] + counts["failed"]}
        lines += [f"| {row} | {counts['passed']} | {counts['passed'] + counts['failed']} |" for row, counts in sorted(rows.items())]
        lines.append("")
    (ROOT / "docs" / "conformance.md").write_text("\n".join(lines).rstrip() + "\n")


main()
