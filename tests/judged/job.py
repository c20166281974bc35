"""Jobs of several lockstep processes over loopback."""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import lockstep_tool as tool


def free_ports(count):
    """Below those that the system gives to outgoing connections, which could take them before a worker does."""
    ports = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10000, 32000)
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            ports += [port] if port not in ports else []
    return ports


def cluster_env(addresses, index, kind="worker"):
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": kind, "index": index}})}


def connections(pid):
    """How many established TCP connections a process has."""
    sockets = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(descriptor))
    lines = [line.split() for table in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
    return sum(fields[3] == "01" and f"socket:[{fields[9]}]" in sockets for fields in lines)


def listening_ports(pids):
    """The TCP ports on which the processes wait for connections."""
    tables = [line.split() for table in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]]
    ports = {f"socket:[{fields[9]}]": int(fields[1].rpartition(":")[2], 16) for fields in tables if fields[3] == "0A"}
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(ports.get(os.readlink(descriptor)))
    return sorted(found - {None})


class Job:
    """The same command on each of several workers; "@" in an argument stands for the worker's number."""

    def __init__(self, workers, *args, ports=None):
        self.addresses = [f"127.0.0.1:{port}" for port in ports or free_ports(workers)]
        self.args = [str(a) for a in args]
        self.processes = [self.start(i) for i in range(workers)]

    def start(self, index):
        env = {**os.environ, **cluster_env(self.addresses, index), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([tool.BIN, *(a.replace("@", str(index)) for a in self.args)], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until_connected(self, timeout=90):
        """Returns when all workers are connected, and for a second nobody has connected any more: the job trains."""
        deadline, before, since = time.monotonic() + timeout, None, 0
        while time.monotonic() < deadline:
            assert all(p.poll() is None for p in self.processes), "a worker has ended"
            now = [connections(p.pid) for p in self.processes]
            if now != before:
                before, since = now, time.monotonic()
            elif all(now) and time.monotonic() - since > 1:
                return
            time.sleep(0.05)
        raise AssertionError(f"the workers have {before} connections after {timeout} s")

    def kill(self, index, how=signal.SIGKILL):
        self.processes[index].send_signal(how)

    def wait(self, timeout=120):
        """(exit code, standard output, standard error) of each worker."""
        try:
            return [(p.returncode, *out) for p, out in [(p, p.communicate(timeout=timeout)) for p in self.processes]]
        finally:
            for p in self.processes:
                if p.poll() is None:
                    p.kill()

    def ok(self, timeout=120):
        results = self.wait(timeout)
        for index, (code, out, err) in enumerate(results):
            assert code == 0, f"worker {index} ended with {code}\n{out[-1000:]}{err[-1500:]}"
        return results
