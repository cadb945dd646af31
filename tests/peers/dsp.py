"""Compares models on the DSP with the CPU, from end to end.

    python tests/peers/dsp.py --udo target/release/udo [--random 2] [--shape NAME=1,3,48,192].. MODEL..

Every model runs with `--cores dsp` and no fallback: each of its steps must be on the DSP, none of them may write f32 tensors, and only
the model's inputs and outputs may be copied between devices. Both cores run on the same pseudo-random inputs. The difference of a
quantized model is relative to its largest output; values without an encoding have 16 bits on the DSP, which may move quantized values
after them by one step. A float model is quantized at load time, calibrated with the same inputs, and is judged by its signal-to-noise
ratio.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from command_errors import error_of


def report_of(command):
    """Runs a command and returns its JSON output, or its error; a failed comparison is part of the output."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": error_of(done.stderr) or done.stderr.strip() or "no output"}


def wide_steps(steps):
    """Returns the names of the steps on the DSP that write f32 tensors."""
    def is_wide(text):
        return text.startswith("f32[") and not text.startswith("f32[]")

    return [step["name"] for step in steps if step["core"].startswith("dsp") and any(map(is_wide, step["outputs"]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--random", type=int, default=2, help="number of random input sets (default 2)")
    parser.add_argument("--tolerance", type=float, default=0.05, help="largest difference of a quantized model, relative to its largest output (default 0.05)")
    parser.add_argument("--sqnr", type=float, default=20, help="smallest signal-to-noise ratio of a float model, in decibels (default 20)")
    parser.add_argument("--shape", action="append", default=[], help="shape of an input with dynamic extents")
    parser.add_argument("models", nargs="+", type=Path)
    arguments = parser.parse_args()
    failed = 0
    print(f"{'model':28} {'steps':>5} {'crossings':>9} {'largest difference':>18} {'dB':>6}")
    for model in arguments.models:
        shapes = [part for shape in arguments.shape for part in ("--shape", shape)]
        flags = [model, "--cores", "dsp", "--threads", os.cpu_count(), *shapes]
        name = model.parent.name if model.stem == "model" else model.stem
        explained = report_of([arguments.udo, "explain", *flags, "--json"])
        if "error" in explained:
            print(f"{name:28} {explained['error']}")
            failed += 1
            continue
        steps, wide = explained["steps"], wide_steps(explained["steps"])
        verify = [arguments.udo, "verify", *flags, "--require", "*=dsp", "--against", "cpu", "--random", arguments.random, "--json"]
        compared = report_of([*verify, "--atol", "1e9"])
        if "error" in compared:
            print(f"{name:28} {compared['error']}")
            failed += 1
            continue
        differences = [output["max_abs"] / max(output["largest"], 1e-9) for output in compared["outputs"]]
        worst = max(differences)
        is_float = any("quantized at load" in notice for notice in explained["notices"])
        # An output without noise has no ratio.
        ratio = min((output["sqnr_db"] for output in compared["outputs"] if output["sqnr_db"] is not None), default=float("inf"))
        is_far = ratio < arguments.sqnr if is_float else worst > arguments.tolerance
        is_bad = is_far or bool(wide) or explained["transfers"] > 2
        failed += is_bad
        note = f"  f32 by {', '.join(wide[:3])}" if wide else ""
        print(f"{name:28} {len(steps):5} {explained['transfers']:9} {worst:18.4f} {ratio:6.1f}{note}{'  FAILED' if is_bad else ''}")
    print(f"summary: models={len(arguments.models)} failed={failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
