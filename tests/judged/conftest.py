import collections
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
sys.path.insert(0, os.path.dirname(__file__))

import pytest  # noqa: E402

import answers  # noqa: E402
import lockstep_tool as tool  # noqa: E402
import traced_once  # noqa: E402


def pytest_report_header(config):
    extent = "all cases" if tool.CONFORMANCE else "quick subset (LOCKSTEP_CONFORMANCE=1 for all)"
    return f"lockstep: {tool.BIN}; LOCKSTEP_SEED={tool.SEED}; LOCKSTEP_ANSWERS_SEED={answers.SEED}; {extent}"


def pytest_terminal_summary(terminalreporter):
    if answers.counts:
        terminalreporter.write_line("answers of Keras: " + ", ".join(f"{count} {kind}" for kind, count in answers.counts.items())
                                    + f" (LOCKSTEP_ANSWERS_SEED={answers.SEED})")


def pytest_sessionfinish(session):
    """`make answers` removes the stored answers that no case of the files that were run asked for."""
    option = session.config.option
    parts = option.keyword or option.markexpr or any("::" in arg for arg in session.config.args)
    if answers.MODE == "write" and not (parts or session.testsfailed or session.shouldstop or option.collectonly):
        answers.remove_unasked({item.path.stem for item in session.items})


def pytest_sessionstart(session):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would all that tests start
    if not tool.CONTROL and not os.access(tool.BIN, os.X_OK):
        pytest.exit(f"{tool.BIN} is not there: build first, or set LOCKSTEP_BIN", returncode=4)


# Files whose cases wait for time-outs or kill processes at drawn moments. They stay in one lane, one after the other.
TIMED = ("test_resume.py", "test_workers.py", "test_network.py", "test_launch.py", "test_launchers.py", "test_parameter_servers.py")
# Files about commands as processes: how they start, end and answer signals. Each command is started by itself.
OF_PROCESSES = ("test_command_line.py", "test_launch.py", "test_launchers.py", "test_parameter_servers.py")
GROUP_SIZE = 8


def groups(items):
    """Cases that one process runs together: the timed files first, then at most GROUP_SIZE neighbours of a file."""
    timed = [item for item in items if item.path.name in TIMED]
    found = [timed] if timed else []
    for item in items:
        if item.path.name in TIMED:
            continue
        last = found[-1] if found else []
        if last and last is not timed and last[0].path == item.path and len(last) < GROUP_SIZE:
            last.append(item)
        else:
            found.append([item])
    return found


def claimed(folder, name):
    """Whether this process is the first to take a file or a group."""
    try:
        os.close(os.open(pathlib.Path(folder) / name, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def taken(folder, items):
    """The cases that this process takes: files that no other process has begun, then groups that are left of any. A group is
    claimed when the last case of the one before begins."""
    files = collections.defaultdict(list)
    for group in groups(items):
        files[group[0].path.name].append(group)
    for begun in (False, True):
        for name, members in files.items():
            if begun or claimed(folder, name):
                for number, group in enumerate(members):
                    if claimed(folder, f"{name}.{number}"):
                        yield from group


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """With LOCKSTEP_CLAIMS=<folder>, several pytest processes share the cases: each runs the groups that it takes first."""
    folder = os.environ.get("LOCKSTEP_CLAIMS")
    if not folder or session.testsfailed or session.config.option.collectonly:
        return None
    cases = taken(folder, session.items)
    item = next(cases, None)
    while item is not None:
        # Known before the case runs: fixtures of a file stay for its next group, among them processes that have loaded TensorFlow.
        following = next(cases, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def pytest_collection_finish(session):
    """Excludes the objects of Keras's and TensorFlow's import from garbage collection, which takes 0.2 s a case."""
    if "keras" in sys.modules and not tool.CONFORMANCE:
        traced_once.install()
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    tool.fork_server_allowed = not tool.CONFORMANCE and item.path.name not in OF_PROCESSES


@pytest.fixture(autouse=True)
def fresh_keras(request):
    """Names and seeds of one test do not depend on the tests before it. Keras draws the seeds that are not given from Python's
    generator."""
    random.seed(f"{tool.SEED}/{request.node.path.stem}/{request.node.name}")
    keras = sys.modules.get("keras")
    if keras is not None:
        keras.utils.clear_session(free_memory=False)
    yield


@pytest.fixture
def eagerly(monkeypatch):
    """TensorFlow runs the operations of models one by one. Keras 2 computes the same then, without seconds for the graph of each
    recurrent layer and for the one that a GPU would use. All cases (make conformance) run as graphs."""
    if tool.CONFORMANCE:
        yield
        return
    import tensorflow as tf
    monkeypatch.setattr("tf_keras.src.layers.rnn.gru_lstm_utils.function_register", lambda *args, **kwargs: None)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module", autouse=True)
def collected():
    """Collects garbage once for a group of cases. Keras asks for a collection at many places (quantize, clear_session); each is
    short as long as the objects that are left after this one are excluded from it."""
    gc.collect()
    gc.freeze()


def known_failures():
    """Case name prefix -> reason, from known_failures.txt."""
    path = pathlib.Path(__file__).with_name("known_failures.txt")
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [line.split("|", 1) for line in lines if line and not line.startswith("#")]
    return [(name.strip(), reason.strip()) for name, reason in pairs]


def leave_out(config, items):
    """In the quick selection, @pytest.mark.quick(n) keeps n of the cases of a test (tool.pick)."""
    cases = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("quick"):
            cases[item.parent.nodeid, item.originalname].append(item)
    left_out = set()
    for (_, name), members in cases.items():
        left_out.update(set(members).difference(tool.pick(members, members[0].get_closest_marker("quick").args[0], name)))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_modifyitems(config, items):
    # A case that was asked for by name runs.
    if not any("::" in argument for argument in config.args):
        leave_out(config, items)
    known = known_failures()
    for item in items:
        name = item.nodeid.rsplit("/", 1)[-1]
        for prefix, reason in known:
            if name.startswith(prefix):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(scope="module")
def gradient_probe():
    """Asks lockstep/saving/gradient_probe.cpp: the parts of a line, and its answer."""
    program = pathlib.Path(os.environ.get("LOCKSTEP_BUILD") or tool.ROOT / "build") / "bin" / "gradient_probe"
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def ask(*parts):
            process.stdin.write("\t".join(map(str, parts)) + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()
        yield ask
