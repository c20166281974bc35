"""ONNX Runtime's side of compare.py: predictions of an ONNX file, as JSON. Its packages are those of bench/requirements.txt."""

import json
import os
import sys
import time

import numpy as np
import onnxruntime


def infer(path, data, batch, calls):
    x = np.load(data)["x"][:int(batch)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("BENCH_THREADS", "2"))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: x}
    times = []
    for i in range(int(calls) + 2):
        if i == 2:
            cpu_begin = time.process_time()
        begin = time.perf_counter()
        y = session.run(None, given)[0]
        if i >= 2:
            times.append((time.perf_counter() - begin) * 1000)
    return {"ms": times, "cpu_ms": (time.process_time() - cpu_begin) * 1000 / int(calls), "sum": float(y.astype("float64").sum())}


if __name__ == "__main__":
    print(json.dumps(infer(*sys.argv[1:])))
