"""Runs `udo` on damaged models, each of which it must load or refuse in bounded time and memory.

    python tests/peers/damaged.py --udo target/release/udo model.onnx [more.onnx ..] [--count 1000] [--seed 1]

Needs nothing but Python. Of each file in turn some bytes are changed, taken out or cut off, as a seed says that is printed
with every finding; `--seed S --count 1` repeats one. What is left goes through `udo explain`, and through `udo verify` where a
folder `test_data_set_0` lies beside the model, so that it runs if it can. A finding is an exit code other than 0 and 1, one that
takes more than `--seconds`, or memory of more than 64 MiB, what the undamaged model takes where that is more, and 8 times the
file; for `verify`, whose sessions have `--max-memory`, that on top. Exits with 1 if there is one.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

MIB = 1 << 20
# What sessions of damaged models may take.
SESSIONS = 256 * MIB


def damaged(good, dice):
    """The bytes of a model after one to three accidents, most of them where nodes are rather than weights."""
    bytes_ = bytearray(good)
    for _ in range(dice.choice([1, 1, 2, 3])):
        near = dice.choice([len(bytes_), min(len(bytes_), 4096)])
        at = dice.randrange(max(near, 1))
        at = len(bytes_) - 1 - at if dice.random() < 0.5 else at
        length = dice.choice([1, 2, 8, 64, 1024])
        match dice.choice(["flip", "flip", "flip", "cut", "drop", "noise", "repeat"]):
            case "flip" if bytes_:
                bytes_[at % len(bytes_)] ^= 1 << dice.randrange(8)
            case "cut":
                del bytes_[at:]
            case "drop":
                del bytes_[at : at + length]
            case "noise":
                bytes_[at : at + length] = dice.randbytes(length)
            case "repeat":
                bytes_[at:at] = bytes_[at : at + length]
    return bytes(bytes_)


def done(command, seconds):
    """Runs a command, and returns its exit code (None after a timeout), its peak resident memory and its stderr."""
    with tempfile.TemporaryFile() as said:
        # Bytes that a damaged model asks for must not take the machine down.
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, preexec_fn=limit)
        end = time.monotonic() + seconds
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() > end:
                child.kill()
                _, _, usage = os.wait4(child.pid, 0)
                code = None
                break
            time.sleep(0.002)
        child.returncode = 0
        said.seek(0)
        return code, usage.ru_maxrss << 10, said.read().decode(errors="replace")


def commands(udo, model, beside):
    """Returns the commands that run on a model, each with the memory limit of its sessions."""
    yield [udo, "explain", str(model)], 0
    data = beside / "test_data_set_0"
    if data.is_dir():
        yield [udo, "verify", str(model), "--data", str(data), "--max-memory", str(SESSIONS)], SESSIONS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--count", type=int, default=1000, help="number of damaged files (default 1000)")
    parser.add_argument("--seed", type=int, default=1, help="first seed (default 1)")
    parser.add_argument("--seconds", type=float, default=20, help="time limit of one command (default 20)")
    arguments = parser.parse_args()
    models = arguments.models
    usual = {}
    for path in models:
        for command, _ in commands(arguments.udo, path, path.parent):
            usual[path, command[1]] = done(command, arguments.seconds)[1]
    codes, findings, slowest, largest = Counter(), 0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "broken.onnx"
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            path = models[seed % len(models)]
            # Nothing of it is kept: a child is counted with what its parent holds when it starts.
            broken.write_bytes(damaged(path.read_bytes(), random.Random(seed)))
            for command, room in commands(arguments.udo, broken, path.parent):
                start = time.monotonic()
                code, held, said = done(command, arguments.seconds)
                slowest = max(slowest, time.monotonic() - start)
                codes[command[1], code] += 1
                limit = max(64 * MIB, usual[path, command[1]]) + 8 * broken.stat().st_size + room
                largest = max(largest, held / limit)
                problem = None
                if code not in (0, 1):
                    problem = "took too long" if code is None else f"ended with {code}"
                elif code == 1 and "error: " not in said and command[1] == "explain":
                    problem = "ended with 1 and no error"
                elif held > limit:
                    problem = f"took {held / MIB:.0f} MiB, expected at most {limit / MIB:.0f}"
                if problem:
                    findings += 1
                    print(f"seed {seed}, {path}: {command[1]} {problem}: {said.strip()[-300:]}", flush=True)
    counts = ", ".join(f"{count} {name} with {code}" for (name, code), count in sorted(codes.items(), key=str))
    print(
        f"{arguments.count} damaged files from seed {arguments.seed} on: {counts}; the slowest took {slowest:.2f} s, "
        f"the largest {largest:.0%} of the memory that it may; {findings} findings"
    )
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
