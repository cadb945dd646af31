"""Measures the cost per call of the heap guard and the panic catch: runs the dispatch benchmark with and without them.

    python tests/peers/guard.py [--rounds 5]

Needs a Rust toolchain and a C compiler. Prints the median nanoseconds per node of each build and their difference.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ["cargo", "bench", "-q", "-p", "udo-runtime", "--bench", "dispatch"]
ROWS = ["linked", "package"]


def build(unguarded):
    """Returns the command and environment of one build."""
    env = dict(os.environ)
    if unguarded:
        env["RUSTFLAGS"] = "--cfg udo_unguarded"
        env["CARGO_TARGET_DIR"] = str(ROOT / "target" / "unguarded")
    return env


def run(env):
    done = subprocess.run(BENCH, cwd=ROOT, env=env, capture_output=True, text=True)
    summary = re.search(r"^summary: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or summary is None:
        sys.exit(f"the benchmark failed:\n{done.stdout}{done.stderr}")
    return {name: float(ns) for name, ns in (pair.split("=") for pair in summary[1].split())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="number of runs of each build (default 5)")
    rounds = parser.parse_args().rounds
    builds = {"guarded": build(unguarded=False), "unguarded": build(unguarded=True)}
    for env in builds.values():
        subprocess.run([*BENCH, "--no-run"], cwd=ROOT, env=env, check=True)
    figures = {name: [] for name in builds}
    for turn in range(rounds):
        for name, env in builds.items():
            figures[name].append(run(env))
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    for row in ROWS:
        guarded, unguarded = (
            statistics.median(figure[row] for figure in figures[name]) for name in builds
        )
        print(f"{row}: {guarded:.2f} ns with, {unguarded:.2f} ns without: {guarded - unguarded:+.2f} ns")


if __name__ == "__main__":
    main()
