"""Holds models on the DSP, from end to end, against the CPU.

    python tests/peers/dsp.py --udo target/release/udo [--random 2] [--shape NAME=1,3,48,192].. MODEL..

Every model runs with `--cores dsp` and no fallback, so each of its steps has to be on the DSP, and no step there may make numbers of 32
bits: what crosses is the model's inputs and outputs, and nothing else. What both cores make of the same pseudo-random inputs is compared;
the difference is relative to the largest number. Values whose encoding the model does not say are of 16 bits on the DSP, so that
quantized values after them may be a step apart. Models in numbers are quantized while they are loaded, over the same inputs: for them the
signal-to-noise ratio counts.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from said import error_of


def said(command):
    """What a command prints as JSON; a failure of the comparison is told by what is in there."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": error_of(done.stderr) or done.stderr.strip() or "no output"}


def wide_steps(steps):
    """The steps on the DSP that make tensors of f32."""
    def is_wide(text):
        return text.startswith("f32[") and not text.startswith("f32[]")

    return [step["name"] for step in steps if step["core"].startswith("dsp") and any(map(is_wide, step["outputs"]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="the program")
    parser.add_argument("--random", type=int, default=2, help="sets of inputs")
    parser.add_argument("--tolerance", type=float, default=0.05, help="the largest difference, of the largest number")
    parser.add_argument("--sqnr", type=float, default=20, help="the least ratio of signal to noise of models in numbers, in decibels")
    parser.add_argument("--shape", action="append", default=[], help="the shape of an input that is open")
    parser.add_argument("models", nargs="+", type=Path)
    arguments = parser.parse_args()
    failed = 0
    print(f"{'model':28} {'steps':>5} {'crossings':>9} {'largest difference':>18} {'dB':>6}")
    for model in arguments.models:
        shapes = [part for shape in arguments.shape for part in ("--shape", shape)]
        flags = [model, "--cores", "dsp", "--threads", os.cpu_count(), *shapes]
        name = model.parent.name if model.stem == "model" else model.stem
        explained = said([arguments.udo, "explain", *flags, "--json"])
        if "error" in explained:
            print(f"{name:28} {explained['error']}")
            failed += 1
            continue
        steps, wide = explained["steps"], wide_steps(explained["steps"])
        verify = [arguments.udo, "verify", *flags, "--require", "*=dsp", "--against", "cpu", "--random", arguments.random, "--json"]
        found = said([*verify, "--atol", "1e9"])
        if "error" in found:
            print(f"{name:28} {found['error']}")
            failed += 1
            continue
        differences = [of["max_abs"] / max(of["largest"], 1e-9) for of in found["outputs"]]
        worst = max(differences)
        is_in_numbers = any("quantized at load" in notice for notice in explained["notices"])
        # An output without noise has no ratio.
        ratio = min((of["sqnr_db"] for of in found["outputs"] if of["sqnr_db"] is not None), default=float("inf"))
        is_far = ratio < arguments.sqnr if is_in_numbers else worst > arguments.tolerance
        is_bad = is_far or bool(wide) or explained["transfers"] > 2
        failed += is_bad
        note = f"  f32 by {', '.join(wide[:3])}" if wide else ""
        print(f"{name:28} {len(steps):5} {explained['transfers']:9} {worst:18.4f} {ratio:6.1f}{note}{'  FAILED' if is_bad else ''}")
    print(f"summary: models={len(arguments.models)} failed={failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
