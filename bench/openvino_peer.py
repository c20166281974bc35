"""OpenVINO's side of compare.py: predictions of a SavedModel, as JSON. Its packages are those of bench/requirements.txt."""

import json
import os
import sys
import time

import numpy as np
import openvino


def infer(path, data, batch, calls):
    x = np.load(data)["x"][:int(batch)]
    core = openvino.Core()
    model = core.read_model(path)
    model.reshape(list(x.shape))
    options = {"INFERENCE_NUM_THREADS": int(os.environ.get("BENCH_THREADS", "2")), "INFERENCE_PRECISION_HINT": "f32",
               "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    times = []
    for i in range(int(calls) + 2):
        if i == 2:
            cpu_begin = time.process_time()
        begin = time.perf_counter()
        request.infer({0: x})
        y = request.get_output_tensor(0).data
        if i >= 2:
            times.append((time.perf_counter() - begin) * 1000)
    return {"ms": times, "cpu_ms": (time.process_time() - cpu_begin) * 1000 / int(calls), "sum": float(y.astype("float64").sum())}


if __name__ == "__main__":
    print(json.dumps(infer(*sys.argv[1:])))
