"""How long whole models take, next to ONNX Runtime on as many threads.

    python tests/peers/models.py --udo target/release/udo model.onnx [more.onnx ..] [--threads 1] [--rounds 5]

Needs numpy, onnx and onnxruntime. Both engines take turns; prints the median milliseconds of each, the median of the
rounds' ratios, and the largest difference of the first output on a random input. Exits with 1 if that is large.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import numpy_helper

RUNS = 20
TOLERANCE = 1e-3


def peer(path, threads):
    """A session of ONNX Runtime, and its inputs."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(7)
    inputs = {}
    for value in session.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
        inputs[value.name] = rng.standard_normal(shape).astype(np.float32)
    return session, inputs


def peer_ms(session, inputs):
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(None, inputs)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def own(udo, *arguments):
    done = subprocess.run([udo, *arguments, "--json"], capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"udo {arguments[0]} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def difference(udo, path, inputs, outputs):
    """The largest relative difference of the outputs, above 1 as it is."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, values in (("input", inputs), ("output", outputs)):
            for index, value in enumerate(values):
                tensor = numpy_helper.from_array(value).SerializeToString()
                (Path(folder) / f"{kind}_{index}.pb").write_bytes(tensor)
        report = own(udo, "verify", str(path), "--data", folder)
    wanted = max(float(np.abs(outputs[0]).max()), 1e-30)
    return report["outputs"][0]["max_abs"] / wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--udo", required=True, help="the udo binary")
    parser.add_argument("--threads", type=int, default=1, help="threads of each engine (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine (default 5)")
    arguments = parser.parse_args()
    bench = ["--iterations", str(RUNS), "--warmup", "3", "--threads", str(arguments.threads)]
    failed = False
    for path in arguments.models:
        session, inputs = peer(path, arguments.threads)
        apart = difference(arguments.udo, path, inputs.values(), session.run(None, inputs))
        turns = []
        for _ in range(arguments.rounds):
            report = own(arguments.udo, "bench", str(path), *bench)
            turns.append((report["latency_us"]["median"] / 1e3, peer_ms(session, inputs)))
        ours, theirs = (statistics.median(times) for times in zip(*turns))
        ratio = statistics.median(a / b for a, b in turns)
        print(
            f"{path.stem:<24} {ours:8.2f} ms, ONNX Runtime {theirs:8.2f} ms: {ratio:.2f} x, "
            f"apart by {apart:.1e} of the largest, {report['allocations_per_run']:.0f} heap calls per run"
        )
        failed |= not apart <= TOLERANCE
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
