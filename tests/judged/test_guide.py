"""The commands of docs/guide.md, as they are printed there, one after the other in one folder."""

import os
import re
import shlex
import subprocess

import pytest

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="these are the tool's own")


def test_every_command_of_the_guide_runs(tmp_path, monkeypatch):
    text = (tool.ROOT / "docs" / "guide.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    for kind, block in blocks:
        if kind == "python":
            monkeypatch.chdir(tmp_path)
            exec(compile(block, "guide.md", "exec"), {"__name__": "__main__"})  # in this process, which has imported Keras
    lines = [line.split("#")[0].strip() for kind, block in blocks if kind == "sh" for line in block.splitlines() if line.startswith("lockstep ")]
    assert len(lines) >= 5, lines
    for line in lines:
        command = [tool.BIN, *shlex.split(line)[1:]]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={k: v for k, v in os.environ.items() if k != "TF_CONFIG"})
        if "evaluate" in command and "--checkpoint-dir" in command:  # follows them until it is stopped
            assert "accuracy" in process.stdout.readline(), line
            process.terminate()
            process.wait()
            continue
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and not err, f"{line}\n{out}{err}"
    assert {"trained.keras", "trained.json", "run"} <= {p.name for p in tmp_path.iterdir()}
