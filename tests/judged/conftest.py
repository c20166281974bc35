import os
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
sys.path.insert(0, os.path.dirname(__file__))

import pytest  # noqa: E402

import lockstep_tool as tool  # noqa: E402


def pytest_report_header(config):
    extent = "all cases" if tool.CONFORMANCE else "quick subset (LOCKSTEP_CONFORMANCE=1 for all)"
    return f"lockstep: {tool.BIN}; LOCKSTEP_SEED={tool.SEED}; {extent}"


def pytest_sessionstart(session):
    if not tool.CONTROL and not os.access(tool.BIN, os.X_OK):
        pytest.exit(f"{tool.BIN} is not there: build first, or set LOCKSTEP_BIN", returncode=4)


@pytest.fixture(autouse=True)
def fresh_keras():
    """Names and seeds of one test do not depend on the tests before it."""
    keras = sys.modules.get("keras")
    if keras is not None:
        keras.utils.clear_session()
    yield
