"""The documents agree with the tree: links lead somewhere, environment variables are complete."""

import re
import runpy
import subprocess
import sys

import pytest

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own documents")

DOCUMENTS = sorted([*tool.ROOT.glob("*.md"), *(tool.ROOT / "docs").glob("*.md"), tool.ROOT / "lockstep" / "README.md"])


def headings(path):
    """The anchors of a document's headings, as GitHub makes them."""
    lines = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S).splitlines()
    titles = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(tool.ROOT)))
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    text = re.sub(r"`[^`]*`", "", text)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path.name}: {link} leads nowhere"
        if anchor:
            assert anchor in headings(target), f"{path.name}: {link}: there are {sorted(headings(target))}"


CONSTANT = r'\bk\w+ = "(LOCKSTEP_[A-Z_]+)"'  # the name of a variable that getenv gets


def variables_of_the_code():
    found = set()
    for path in (tool.ROOT / "lockstep").rglob("*.cpp"):
        if path.name.endswith("_test.cpp"):
            continue
        text = path.read_text()
        found |= set(re.findall(r'getenv\("([A-Z_]+)"\)', text))
        found |= set(re.findall(CONSTANT, text))
        if path.name in ("cluster_launchers.cpp", "tf_config.cpp"):
            found |= {name for name in re.findall(r'"([A-Z][A-Z_]+)"', text) if "_" in name or name == "RANK"}
    for path in [*(tool.ROOT / "lockstep").rglob("*_internal.h")]:
        found |= set(re.findall(CONSTANT, path.read_text()))
    return found


def test_environment_variables_are_documented():
    documented = set(re.findall(r"`([A-Z][A-Z_]+)`", (tool.ROOT / "docs" / "environment.md").read_text()))
    read = variables_of_the_code()
    assert {"LOCKSTEP_LOG_LEVEL", "TF_CONFIG", "RANK", "SLURM_PROCID", "OMP_NUM_THREADS"} <= read
    assert not read - documented, "these are not in docs/environment.md"
    everything = set()
    for folder in ("lockstep", "tools", "tests", "cmake", "fuzz"):
        for path in (tool.ROOT / folder).rglob("*"):
            if path.suffix in (".h", ".cpp", ".py", ".sh", ".cmake"):
                everything |= set(re.findall(r"\b[A-Z][A-Z_]+\b", path.read_text()))
    assert not documented - everything - {"TMPDIR"}, "these are read nowhere"


@pytest.mark.parametrize("script", ["sequence_diagram.py", "tutorial.py", "keras_ops.py"])
def test_generated_parts_are_current(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", [script, "--check"])  # in this process, which has imported Keras
    assert not runpy.run_path(str(tool.ROOT / "tools" / script))["main"]()


def test_names_of_the_migration_tables_exist():
    text = (tool.ROOT / "docs" / "migration.md").read_text()
    names = {name.rsplit("::", 1)[1] for name in re.findall(r"\bls::[\w:]*::\w+|\bls::\w+", text)}
    declared = set()
    for path in (tool.ROOT / "lockstep").rglob("*.h"):
        if not path.name.endswith("_internal.h"):
            declared |= set(re.findall(r"\w+", re.sub(r"//.*", "", path.read_text())))
    assert len(names) > 60
    assert not names - declared


# Declarations that the code in the pages uses.
PREAMBLE = """
auto optimizer = lockstep::optimizers::Adam();
lockstep::distribute::Strategy& strategy = *new lockstep::distribute::Strategy();
lockstep::keras::Sequential model;
namespace keras = lockstep::keras;
namespace ops = lockstep::ops;
namespace train = lockstep::train;
"""


def test_code_of_the_pages_compiles(tmp_path):
    headers = ("iostream", "limits", "lockstep/lockstep.h", "lockstep/formats/formats.h")
    source = [*(f"#include <{header}>" for header in headers), "namespace ls = lockstep;"]
    for name in ("README.md", "docs/guide.md", "docs/troubleshooting.md", "docs/migration.md"):
        for number, block in enumerate(re.findall(r"^```cpp\n(.*?)^```", (tool.ROOT / name).read_text(), re.M | re.S)):
            body = [line for line in block.splitlines() if not line.startswith(("#include", "namespace"))]
            function = re.sub(r"\W", "_", f"{name}_{number}")
            source += [f"void {function}() {{", PREAMBLE, "{", f'#line 1 "{name}, block {number + 1}"', *body, "}", "}"]
    path = tmp_path / "pages.cpp"
    path.write_text("\n".join(source) + "\n")
    done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", f"-I{tool.ROOT}", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
