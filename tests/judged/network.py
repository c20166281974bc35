"""Machines on a network that this process is: each has its own addresses, memory and folders, and every packet between
them passes through here, where it can be delayed or lost, or the line cut."""

import contextlib
import fcntl
import heapq
import itertools
import json
import os
import random
import select
import signal
import struct
import subprocess
import threading
import time

import lockstep_tool as tool

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SUBNET = "10.83.17"


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


def allowed():
    """Why there can be no such network here; empty when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if subprocess.run(["unshare", "-nm", "ip", "tuntap", "add", "dev", "t", "mode", "tun"], capture_output=True).returncode:
        return "this machine allows no network namespaces with tunnels (ip, unshare, /dev/net/tun)"
    return ""


class Network:
    """`count` machines 10.83.17.1, …; `private` is another folder on each."""

    def __init__(self, count, tmp, seed=1, mtu=1500):
        self.tmp, self.random, self.mtu = tmp, random.Random(seed), mtu
        self.delay, self.loss, self.cut = 0.0, 0.0, set()  # seconds, share, machines whose packets are dropped
        self.carried = 0  # bytes of packets between machines
        self.names = [f"lockstep{os.getpid()}-{i}" for i in range(count)]
        self.hosts = [f"{SUBNET}.{i + 1}" for i in range(count)]
        self.private = tmp / "private"
        self.private.mkdir()
        self.tunnels, self.waiting, self.order = [], [], itertools.count()
        for name, host in zip(self.names, self.hosts):
            self.folder(self.names.index(name)).mkdir()
            run("ip", "netns", "add", name)
            self.tunnels.append(self.tunnel(name, host))
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def folder(self, machine):
        """What `private` is on a machine, seen from here."""
        return self.tmp / f"machine{machine}"

    def device(self, host):
        return f"lk{os.getpid() % 100000}{host[-1]}"

    def limit(self, megabits):
        """From now on no machine sends more than so many megabits per second."""
        for name, host in zip(self.names, self.hosts):
            run("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", self.device(host), "root", "tbf", "rate", f"{megabits}mbit", "burst", "256kb",
                "latency", "50ms")

    def tunnel(self, name, host):
        device = self.device(host)
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
        run("ip", "link", "set", device, "netns", name)
        for words in (["addr", "add", f"{host}/24", "dev", device], ["link", "set", device, "mtu", str(self.mtu)], ["link", "set", device, "up"],
                      ["link", "set", "lo", "up"]):
            run("ip", "-n", name, *words)
        return descriptor

    def carry(self):
        while not self.closing.is_set():
            soonest = self.waiting[0][0] - time.monotonic() if self.waiting else 0.1
            ready, _, _ = select.select(self.tunnels, [], [], min(max(soonest, 0), 0.1))
            for source in ready:
                with contextlib.suppress(BlockingIOError):
                    self.take(self.tunnels.index(source), os.read(source, 65536))
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(self.waiting)
                with contextlib.suppress(OSError):
                    os.write(self.tunnels[target], packet)

    def take(self, source, packet):
        if packet[0] >> 4 != 4 or packet[16:19] != bytes(map(int, SUBNET.split("."))):
            return
        target = packet[19] - 1
        if not 0 <= target < len(self.tunnels) or source in self.cut or self.random.random() < self.loss:
            return
        self.carried += len(packet)
        heapq.heappush(self.waiting, (time.monotonic() + self.delay, next(self.order), target, packet))

    def start(self, machine, *args, port=5000, env=None, program=tool.BIN):
        """A program on a machine, whose process is the one that is returned. `env` may have another TF_CONFIG."""
        config = {"cluster": {"worker": [f"{host}:{port}" for host in self.hosts]}, "task": {"type": "worker", "index": machine}}
        script = 'mount --make-rprivate / && mount --bind "$0" "$1" && shift && exec "$@"'
        command = ["ip", "netns", "exec", self.names[machine], "unshare", "--mount", "sh", "-c", script, self.folder(machine), self.private,
                   program, *args]
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "OMP_NUM_THREADS": "1", "TF_CONFIG": json.dumps(config), **(env or {})})

    def job(self, *args, **kwargs):
        return [self.start(machine, *args, **kwargs) for machine in range(len(self.hosts))]

    def spread_job(self, each, *args, in_turns=True, **kwargs):
        """`each` workers on every machine, whose ranks take turns over the machines or fill one after the other."""
        places = [(machine, 5000 + place) for place in range(each) for machine in range(len(self.hosts))]
        if not in_turns:
            places.sort()
        workers = [f"{self.hosts[machine]}:{port}" for machine, port in places]
        return [self.start(machine, *args, **kwargs, env={"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})})
                for rank, (machine, _) in enumerate(places)]

    def close(self):
        self.closing.set()
        self.thread.join()
        for descriptor in self.tunnels:
            os.close(descriptor)
        for name in self.names:
            run("ip", "netns", "del", name)


def finish(processes, timeout=60):
    """(exit code, standard output, standard error) of each."""
    try:
        return [(p.returncode, *out) for p, out in [(p, p.communicate(timeout=timeout)) for p in processes]]
    finally:
        for p in processes:
            if p.poll() is None:
                p.send_signal(signal.SIGKILL)
                p.communicate()
