"""Counts the cases of a test run and prints "N passed, N failed[, N skipped]" as its last line.

    count_tests.py RESULTS [--pytest NAME...] [--programs NAME...] [--allowed-skips FILE]

RESULTS is a folder of JUnit reports: ctest.xml, a report <entry>.xml for each ctest entry that is a GoogleTest program, and
the reports of pytest. Fails when a case failed, when a report is missing or empty, or, with --allowed-skips, when a case was
skipped for a reason that matches no line of FILE (each a regular expression).
"""

import argparse
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

GTEST_ENTRY = re.compile(r"[a-z]+_tests")  # cmake/targets.cmake


def outcome(case):
    """("passed" | "failed" | "skipped" | "disabled", the reason of a skip); an expected failure is a skip without a reason."""
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed", None
    skip = case.find("skipped")
    if skip is not None:
        return "skipped", None if skip.get("type") == "pytest.xfail" else skip.get("message") or skip.text or ""
    return ("disabled" if case.get("status") in ("notrun", "disabled") else "passed"), None


class Run:
    def __init__(self, folder):
        self.folder = folder
        self.counts = collections.Counter()
        self.failures = []
        self.skips = []

    def fail(self, name):
        self.counts["failed"] += 1
        self.failures.append(name)

    def cases(self, name):
        """The cases of a report; one that is missing or broken counts as one failure."""
        path = self.folder / f"{name}.xml"
        try:
            return list(ElementTree.parse(path).iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            self.fail(f"{name}: no report ({error})")
            return []

    def add(self, report, cases):
        for case in cases:
            name = f"{report}: {case.get('classname', '')}.{case.get('name')}"
            result, reason = outcome(case)
            if result == "failed":
                self.fail(name)
                continue
            self.counts[result] += 1
            if reason is not None:
                self.skips.append((name, " ".join(reason.split())))

    def add_ctest(self):
        for entry in self.cases("ctest"):
            name = entry.get("name")
            if not GTEST_ENTRY.fullmatch(name):
                self.add("ctest", [entry])
                continue
            before = len(self.failures)
            self.add(name, self.cases(name))
            if outcome(entry)[0] == "failed" and len(self.failures) == before:
                self.fail(f"{name}: the program failed after its last case")

    def add_pytest(self, names):
        """Reports of processes that share the cases: one of them may have had none."""
        reports = {name: self.cases(name) for name in names}
        if not any(reports.values()):
            self.fail(f"{', '.join(names)}: no case was run")
        for name, cases in reports.items():
            self.add(name, cases)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--pytest", nargs="+", default=["judged"], help="names of pytest's reports")
    parser.add_argument("--programs", nargs="*", default=[], help="more reports of ctest, whose programs count as one case each")
    parser.add_argument("--allowed-skips", type=pathlib.Path)
    args = parser.parse_args()
    run = Run(args.results)
    run.add_ctest()
    for name in args.programs:
        run.add(name, run.cases(name))
    run.add_pytest(args.pytest)
    if args.allowed_skips:
        lines = [line for line in args.allowed_skips.read_text().splitlines() if line and not line.startswith("#")]
        for name, reason in run.skips:
            if not any(re.search(line, reason) for line in lines):
                run.fail(f"{name}: skipped for a reason that is not in {args.allowed_skips.name}: {reason}")
    for name in run.failures:
        print("FAILED", name)
    skipped = f", {run.counts['skipped']} skipped" if run.counts["skipped"] else ""
    print(f"{run.counts['passed']} passed, {run.counts['failed']} failed{skipped}")
    return 1 if run.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
