"""Runs commands of the tool in children of one process that has loaded LibTorch (fork_server.cpp)."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile


def environment():
    """The environment of commands, without the name of the running test, which pytest stores there."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


class ForkServer:
    """One command at a time. A command sees the environment that the server was started with."""

    def __init__(self, tool, library, engine):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.environment = environment()
        self.socket = ours
        with theirs:
            self.process = subprocess.Popen(
                [tool], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                env={**self.environment, "LD_PRELOAD": str(library), "LOCKSTEP_FORK_SERVER": str(theirs.fileno()),
                     "LOCKSTEP_FORK_SERVER_ENGINE": str(engine)})
        self.socket.settimeout(120)
        self.answer()

    def fits(self):
        """Whether a command would see the environment that it would inherit from this process."""
        return self.environment == environment()

    def answer(self):
        data = self.socket.recv(64)
        assert data, "the fork server ended"
        return int(data)

    def run(self, args, timeout):
        """(exit code, standard output, standard error) as subprocess.run gives them."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = b"\0".join(os.fsencode(part) for part in [os.getcwd(), *args]) + b"\0"
            self.socket.settimeout(60)
            socket.send_fds(self.socket, [request], [out.fileno(), err.fileno()])
            child = self.answer()
            self.socket.settimeout(timeout)
            try:
                status = self.answer()
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self.socket.settimeout(60)
                self.answer()
                raise subprocess.TimeoutExpired(args, timeout) from None
            out.seek(0)
            err.seek(0)
            return os.waitstatus_to_exitcode(status), out.read(), err.read()


servers = {}


def server(tool):
    """The server of a tool, or None where it cannot run or the environment has changed since it was started."""
    build = pathlib.Path(tool).resolve().parents[1]
    library, engine = build / "tests" / "fork_server.so", build / "lib" / "lockstep-engine.so"
    if not library.exists() or not engine.exists():
        return None
    if tool not in servers or (servers[tool] and servers[tool].process.poll() is not None):
        try:
            servers[tool] = ForkServer(tool, library, engine)
        except (AssertionError, OSError) as error:
            servers[tool] = None
            print(f"no fork server, each command is started by itself: {error}", file=sys.stderr)
    found = servers[tool]
    return found if found and found.fits() else None
