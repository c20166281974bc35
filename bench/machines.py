#!/usr/bin/env python3
"""Sums between machines, which are network namespaces here, and the table of docs/scaling.md.

    bench/machines.py [--build build] [--write]

Runs as root, with a build that has -DLOCKSTEP_BENCH=ON. Each machine sends at most as many bytes per second as its line carries, and
each packet is delayed. A sum is lockstep's (three stages) and plain Gloo's, a ring of all ranks, alternately; the least of all
rounds. The limit is the time that the line of a machine takes for the bytes which a leader has to send: 2 * S * (M - 1) / M.
"""

import argparse
import json
import pathlib
import sys
import tempfile

from tables import write_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "judged"))
import network  # noqa: E402

ROUNDS = 3
# Machines, ranks on each, megabytes of the sum, megabits per second, delay of a packet in seconds.
ROWS = [(2, 4, 100, 1000, 0.0)] + [(machines, ranks, 10, 100, 0.001) for machines in (2, 4, 8) for ranks in (2, 4, 8)]


def measure(build, machines, ranks, megabytes, megabits, delay, in_turns):
    """{"sum": seconds, "gloo": seconds} of one job."""
    with tempfile.TemporaryDirectory() as folder:
        net = network.Network(machines, pathlib.Path(folder), mtu=65000)
        try:
            net.delay = delay
            net.limit(megabits)
            jobs = net.spread_job(ranks, megabytes, ROUNDS, in_turns=in_turns, program=build / "bin" / "reduce_bench")
            results = network.finish(jobs, timeout=600)
        finally:
            net.close()
    for code, _, errors in results:
        if code:
            raise RuntimeError(errors[-500:])
    return json.loads(results[0][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if why := network.allowed():
        sys.exit(f"machines.py: {why}")
    build = pathlib.Path(options.build).resolve()
    lines = ["| machines x ranks | sum, line, delay | limit | machine by machine | / limit | a ring of all | round-robin | / limit | a ring of all |",
             "|---|---|---|---|---|---|---|---|---|"]
    for machines, ranks, megabytes, megabits, delay in ROWS:
        limit = 2 * megabytes * 8 * (machines - 1) / machines / megabits
        cells = []
        for in_turns in (False, True):
            best = measure(build, machines, ranks, megabytes, megabits, delay, in_turns)
            cells += [f"{best['sum']:.2f} s", f"{best['sum'] / limit:.2f}", f"{best['gloo']:.2f} s"]
        lines.append(f"| {machines} x {ranks} | {megabytes} MB, {megabits} Mbit/s, {delay * 1000:g} ms | {limit:.2f} s | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    if options.write:
        write_table("scaling.md", "machines.py", text)


if __name__ == "__main__":
    main()
