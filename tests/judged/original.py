"""Runs models and graphs with Keras and TensorFlow in a process of its own: changed files can end it.

As a program it reads lines `KIND MODEL INPUTS OUTPUTS` and answers each with `ok` or with a reason.
"""

import os
import pathlib
import selectors
import subprocess
import sys

SECONDS = 60  # for one model


class Original:
    """run() gives the arrays of Keras or TensorFlow, or None where these refuse the file, end or take too long."""

    def __init__(self):
        self.process = None

    def run(self, kind, model, inputs, folder):
        import numpy as np
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
        outputs = pathlib.Path(folder) / "original.npz"
        try:
            self.process.stdin.write(f"{kind} {model} {inputs} {outputs}\n")
            self.process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(self.process.stdout, selectors.EVENT_READ)
                if selector.select(SECONDS):
                    if self.process.stdout.readline() != "ok\n":
                        return None
                    with np.load(outputs) as arrays:
                        return [arrays[name] for name in arrays.files]
        except BrokenPipeError:
            pass
        self.close()
        return None

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def run_keras(path, arrays):
    import keras
    import numpy as np
    keras.backend.clear_session()
    model = keras.models.load_model(path, compile=False)
    result = model(arrays if len(arrays) > 1 else arrays[0], training=False)
    return [np.asarray(value) for value in keras.tree.flatten(result)]


def run_graph(path, arrays):
    import numpy as np
    import tensorflow as tf
    graph = tf.Graph()
    with graph.as_default():
        definition = tf.compat.v1.GraphDef()
        definition.ParseFromString(pathlib.Path(path).read_bytes())
        tf.import_graph_def(definition, name="")
    with tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(operation_timeout_in_ms=10000)) as session:
        return [np.asarray(session.run("Identity:0", {"x:0": arrays[0]}))]


def main():
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    import numpy as np
    for line in sys.stdin:
        kind, model, inputs, outputs = line.split()
        try:
            with np.load(inputs) as arrays:
                values = [arrays[name] for name in arrays.files]
            np.savez(outputs, *(run_keras if kind == "keras" else run_graph)(model, values))
            answer = "ok"
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")
        answers.write(answer + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
