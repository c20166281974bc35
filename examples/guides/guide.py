"""Functions shared by the guides: see guide.h."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

folder = sys.argv[1] if len(sys.argv) > 1 else "."


def waves(shape, step):
    return np.sin(step * np.arange(np.prod(shape))).astype("float32").reshape(shape)


def labels(n, classes, factor=1):
    return (np.arange(n) * factor % classes).astype("int32")


def report(name, value):
    print(name, "%.9g" % float(value))
