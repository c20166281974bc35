"""Runs the Python twins of the guides, each in a child of one process that has imported TensorFlow, which takes seconds.

A request is a line of JSON: the script, the folder for what it saves, the model that the guide of C++ has saved, and files for
the output. The child runs the script and compares the model that it has saved with that one; the answer is its exit status.
"""

import functools
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import traceback


class Twins:
    @functools.cached_property
    def process(self):
        return subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env={k: v for k, v in os.environ.items() if k != "TF_CONFIG"})

    def run(self, script, folder, theirs, environment={}):
        """The script's standard output."""
        out, err = folder / "stdout", folder / "stderr"
        request = {"script": str(script), "folder": str(folder), "theirs": str(theirs), "out": str(out), "err": str(err),
                   "environment": environment}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer.strip() == "0", f"{script}: exit {answer}\n{err.read_text()[-3000:]}"
        return out.read_text()

    def close(self):
        if "process" in vars(self):
            self.process.stdin.close()
            self.process.wait()


def compare(ours, theirs):
    """Two files of one model: the same variables with the same values."""
    import keras
    import numpy as np

    a, b = (keras.models.load_model(path, compile=False) for path in (ours, theirs))
    names = [[re.sub(r"_\d+", "", w.path.split("/", 1)[-1]) for w in model.weights] for model in (a, b)]  # without counters
    assert names[0] == names[1]
    for x, y in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def child(request):
    os.environ.update(request["environment"])
    for number, path in ((1, request["out"]), (2, request["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    try:
        script, folder = pathlib.Path(request["script"]), pathlib.Path(request["folder"])
        os.chdir(script.parent)
        sys.path.insert(0, str(script.parent))
        sys.argv = [str(script), str(folder)]
        runpy.run_path(str(script), run_name="__main__")
        sys.stdout.flush()
        compare(folder / "model.keras", request["theirs"])
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main():
    os.environ.update({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"})
    sys.dont_write_bytecode = True
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(child(json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
