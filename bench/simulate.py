#!/usr/bin/env python3
"""A discrete-event simulation of large jobs, and the table of docs/scaling.md.

    bench/simulate.py [--ranks 64 256 1024 4096] [--per-machine 8] [--gradient-mb 100] [--backward-ms 100] [--gbit 10]
                      [--latency-us 50] [--jitter 0.1] [--request-us 20] [--write]

The model is described in docs/scaling.md. It has the protocols and constants of lockstep/collectives; machines, network and
store have the parameters above. One worker's events depend on those of its neighbours, so a step of a ring over M
members is a maximum over neighbours for M clocks, which NumPy computes at once.
"""

import argparse
import heapq

import numpy as np

from tables import write_table

# As in the sources: job_communicator.cpp, tensors_internal.h, peer_links.cpp, health_internal.h, health.cpp, rendezvous.cpp.
PIECE, PIECE_PER_MACHINE, BUCKET = 4 << 20, 256 << 10, 4 << 20
LATENCY, SECONDS_PER_BYTE, SECONDS_PER_ADDED_BYTE = 100e-6, 1e-9, 0.25e-9
INTERVAL, SILENT_BEATS, LEADER_BEATS, POLL, POLL_PER_RANK = 0.5, 4, 2, 0.05, 200e-6

MEMORY = 4e9  # bytes of a sum within a machine, or of its distribution, per second
DISK = 1e9    # bytes per second that a machine writes


class Network:
    """Messages between members of a ring or of pairs: each has its own line, and every message its own delay."""

    def __init__(self, options, seed):
        self.random = np.random.default_rng(seed)
        self.latency, self.jitter, self.rate = options.latency_us * 1e-6, options.jitter, options.gbit * 1e9 / 8

    def message(self, clocks, source, size):
        """When each member has received what `source` of it (an array of members) sent; it sends at the same time."""
        delay = self.latency * (1 + self.jitter * self.random.exponential(size=len(clocks)))
        return np.maximum(clocks, clocks[source]) + delay + size / self.rate

    def ring(self, clocks, size):
        members = len(clocks)
        source = np.arange(members) - 1
        for _ in range(2 * (members - 1)):
            clocks = self.message(clocks, source, size / members)
        return clocks

    def doubling(self, clocks, size):
        members = len(clocks)
        distance = 1
        while distance < members:
            clocks = self.message(clocks, np.minimum(np.arange(members) ^ distance, members - 1), size)
            distance *= 2
        return clocks

    def sum(self, clocks, size):
        members = len(clocks)
        if members == 1:
            return clocks
        rounds = int(np.ceil(np.log2(members)))
        doubling = rounds * (LATENCY + size * (SECONDS_PER_BYTE + SECONDS_PER_ADDED_BYTE))
        ring = 2 * (members - 1) * (LATENCY + size / members * SECONDS_PER_BYTE)
        return self.doubling(clocks, size) if doubling <= ring else self.ring(clocks, size)


def pieces_of(options, length):
    """Sizes of pieces, and when the backward pass has computed each."""
    total = options.gradient_mb * 1e6
    count = int(np.ceil(total / length))
    sizes = [min(length, total - i * length) for i in range(count)]
    return [(size, options.backward_ms / 1e3 * (i + 1) / count) for i, size in enumerate(sizes)]


def step(options, ranks, seed):
    """Seconds from the beginning of the backward pass until the last worker has all sums: three stages as a pipeline."""
    machines = max(1, ranks // options.per_machine)
    local = min(ranks, options.per_machine)
    network = Network(options, seed)
    up, net, down = (np.zeros(machines) for _ in range(3))
    for size, ready in pieces_of(options, max(PIECE, PIECE_PER_MACHINE * machines)):
        within = size / MEMORY if local > 1 else 0
        up = np.maximum(up, ready) + within
        net = network.sum(np.maximum(net, up), size)
        down = np.maximum(down, net) + within
    return float(down.max())


def flat_step(options, ranks, seed):
    """The same with one ring of all ranks and buckets of 4 MiB, where ranks of a machine share its line."""
    network = Network(options, seed)
    clocks = np.zeros(ranks)
    for size, ready in pieces_of(options, BUCKET):
        clocks = network.ring(np.maximum(clocks, ready), size)
    return float(clocks.max())


class Store:
    """The server in rank 0: one request after the other."""

    def __init__(self, options):
        self.free, self.requests = 0.0, 0
        self.service, self.rate, self.latency = options.request_us * 1e-6, options.gbit * 1e9 / 8, options.latency_us * 1e-6

    def request(self, at, size=100):
        """When the answer to a request sent at `at` arrives."""
        self.free = max(self.free, at + self.latency) + self.service + size / self.rate
        self.requests += 1
        return self.free + self.latency


def start(options, ranks, seed):
    """Seconds from the last process's start until all are connected, and the requests of a rank."""
    random = np.random.default_rng(seed)
    store, poll = Store(options), POLL + ranks * POLL_PER_RANK
    events = [(float(t), rank, 0) for rank, t in enumerate(random.uniform(-2, 0, ranks))]
    heapq.heapify(events)
    neighbours = int(np.log2(max(2, ranks // options.per_machine)))
    # The machine's name, the list of machines, the opened memory, the list of those, the address; the neighbours' addresses.
    last = [100, 5 * ranks, 100, 5 * ranks, 100] + [100] * neighbours
    registering, registered, go, done = 4, 0, None, 0.0
    while events:
        at, rank, number = heapq.heappop(events)
        if number < registering:  # the check of an earlier registration, and writes
            answer = store.request(at)
            registered += number == registering - 1
            if registered == ranks and go is None:  # rank 0 finds it at its next look
                go = answer + poll
            heapq.heappush(events, (answer, rank, number + 1))
        elif number == registering:  # whether the job has started
            answer = store.request(at)
            heapq.heappush(events, (answer, rank, number + 1) if go is not None and at >= go else (answer + poll, rank, number))
        else:
            answer = store.request(at, last[number - registering - 1])
            done = max(done, answer)
            if number - registering < len(last):
                heapq.heappush(events, (answer, rank, number + 1))
    return done, store.requests / ranks


def detection(options, ranks, seed):
    """Seconds from the death of a machine's leader until all others know its name, and the share of time for which the store is busy.

    Only leaders use the store; the other ranks read in their machine's memory, in rounds of their own. Those of the dead leader
    use the store themselves after LEADER_BEATS.
    """
    random = np.random.default_rng(seed)
    store = Store(options)
    machines, local = max(1, ranks // options.per_machine), min(ranks, options.per_machine)
    victim, death = int(random.integers(1, machines)), 5 + random.uniform(0, INTERVAL)
    # A round begins at a time; who: the leader of machine 0, 1, ..., or -1 for a rank that the victim led.
    events = [(float(p), who) for who, p in enumerate(random.uniform(0, INTERVAL, machines))]
    events += [(death + LEADER_BEATS * INTERVAL + float(p), -1) for p in random.uniform(0, INTERVAL, local - 1)]
    heapq.heapify(events)
    last_beat, reported, fault, waiting, latest, busy = 0.0, None, None, len(events) - 1, 0.0, 0
    while events and waiting > 0:
        at, who = heapq.heappop(events)
        if who == victim:
            if at >= death:
                continue
            last_beat = at
        store.request(at, 100 + 30 * local if who >= 0 else 100)
        answer = store.request(at, 1000 if who else 100 * machines + 30 * ranks)
        busy += 2
        if who == 0:
            answer = store.request(answer, 1000)
            busy += 1
            if at - last_beat > 2 * INTERVAL:
                reported = answer
        # Leaders whose connection to the victim broke ask who is silent.
        knows = fault is not None and at >= fault
        if fault is None and reported is not None and answer >= reported and answer - last_beat > SILENT_BEATS * INTERVAL:
            fault, knows = store.request(answer), True
        if knows:
            waiting -= 1
            followers = random.uniform(0, INTERVAL, local - 1) if who >= 0 else np.zeros(0)
            latest = max(latest, answer + float(followers.max(initial=0.0)))
            continue
        heapq.heappush(events, (max(at + INTERVAL, answer), who))
    return latest - death, busy * store.service / latest


def save(options, ranks, seed):
    """Seconds of a checkpoint with Adam's slots, which the ranks write in equal parts, between two gathers of 256 bytes."""
    machines = max(1, ranks // options.per_machine)
    network = Network(options, seed)
    clocks = np.zeros(machines)
    for _ in range(2):
        clocks = network.ring(clocks, 256 * ranks)
    return float(clocks.max()) + 3 * options.gradient_mb * 1e6 / (machines * DISK)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024, 4096])
    parser.add_argument("--per-machine", type=int, default=8)
    parser.add_argument("--gradient-mb", type=float, default=100)
    parser.add_argument("--backward-ms", type=float, default=100)
    parser.add_argument("--gbit", type=float, default=10)
    parser.add_argument("--latency-us", type=float, default=50)
    parser.add_argument("--jitter", type=float, default=0.1, help="mean of an exponential delay, as a share of the latency")
    parser.add_argument("--request-us", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = ["| ranks | machines | sums of a step | one ring of all ranks | start-up | requests of a rank | loss is known after | store busy | save |",
             "|---|---|---|---|---|---|---|---|---|"]
    for ranks in options.ranks:
        begin, requests = start(options, ranks, options.seed)
        known, busy = detection(options, ranks, options.seed)
        lines.append(f"| {ranks} | {max(1, ranks // options.per_machine)} | {step(options, ranks, options.seed):.2f} s"
                     f" | {flat_step(options, ranks, options.seed):.2f} s | {begin:.2f} s | {requests:.0f} | {known:.1f} s | {busy:.0%}"
                     f" | {save(options, ranks, options.seed):.2f} s |")
    text = "\n".join(lines)
    print(text)
    if options.write:
        write_table("scaling.md", "simulate.py", text)


if __name__ == "__main__":
    main()
