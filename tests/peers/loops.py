#!/usr/bin/env python3
"""Compares the time of an iteration of a loop with ONNX Runtime on one thread.

Each model is a Loop over one or two states of f32: `add` makes the next state in the place of the one before, `transpose` and `later`
make it while the one before is still read, and `trade` hands each of two states on as the other one.

    python tests/peers/loops.py --udo target/release/udo [--trips 1000] [--elements 16,262144] [--rounds 5]

Prints the microseconds per iteration of both; exits with 1 if a last state differs.

needs: numpy, onnx, onnxruntime
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# What makes the next states of s0 and s1.
BODIES = {
    "add": [("Add", ["s0", "step"], "n0", {})],
    "transpose": [("Transpose", ["s0"], "n0", {"perm": [1, 0]})],
    "later": [("Add", ["s0", "step"], "n0", {}), ("Sub", ["n0", "s0"], "d", {}), ("Add", ["s1", "d"], "n1", {})],
    "trade": [("Identity", ["s1"], "n0", {}), ("Identity", ["s0"], "n1", {})],
}


def model(body, side, iterations):
    info = lambda name, dtype=TensorProto.FLOAT, dims=(side, side): helper.make_tensor_value_info(name, dtype, dims)
    count = sum(made.startswith("n") for _, _, made, _ in BODIES[body])
    nodes = [helper.make_node("Identity", ["go"], ["goes"])]
    nodes += [helper.make_node(op, given, [made], **attrs) for op, given, made, attrs in BODIES[body]]
    inputs = [info("trip", TensorProto.INT64, ()), info("go", TensorProto.BOOL, ())]
    inputs += [info(f"s{at}") for at in range(count)]
    outputs = [info("goes", TensorProto.BOOL, ())] + [info(f"n{at}") for at in range(count)]
    inner = helper.make_graph(nodes, "body", inputs, outputs)
    states, lasts = [f"x{at}" for at in range(count)], [f"y{at}" for at in range(count)]
    loop = helper.make_node("Loop", ["trips", "", *states], lasts, "loop", body=inner)
    held = [numpy_helper.from_array(np.array(iterations, np.int64), "trips"),
            numpy_helper.from_array(np.array([1 / 1024], np.float32), "step")]
    graph = helper.make_graph([loop], "loops", list(map(info, states)), list(map(info, lasts)), held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def own(*command):
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {(ran.stderr or ran.stdout).strip()}")
    return ran.stdout


def measure(args, body, side, folder):
    path, rng = folder / "model.onnx", np.random.default_rng(1)
    onnx.save(model(body, side, args.trips), path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    fed = {port.name: rng.random((side, side), np.float32) for port in session.get_inputs()}
    for stem, arrays in (("input", fed.values()), ("output", session.run(None, fed))):
        for at, array in enumerate(arrays):
            (folder / f"{stem}_{at}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    own(args.udo, "verify", path, "--data", folder)
    times = {"udo": [], "peer": []}
    for _ in range(args.rounds):
        report = json.loads(own(args.udo, "bench", path, "--iterations", 5, "--warmup", 1, "--json"))
        times["udo"].append(report["latency_us"]["median"] / args.trips)
        start = time.perf_counter()
        session.run(None, fed)
        times["peer"].append((time.perf_counter() - start) * 1e6 / args.trips)
    udo, peer = (statistics.median(times[who]) for who in ("udo", "peer"))
    print(f"{body:10} {side * side:8} elements: {udo:8.3f} us per iteration, ONNX Runtime {peer:8.3f} us, "
          f"times ONNX Runtime {udo / peer:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--trips", default=1000, type=int, help="number of iterations (default 1000)")
    parser.add_argument("--elements", default="16,1024,262144", help="numbers of elements of a state, which are squares")
    parser.add_argument("--rounds", default=5, type=int, help="number of rounds (default 5)")
    args = parser.parse_args()
    for elements in map(int, args.elements.split(",")):
        for body in BODIES:
            with tempfile.TemporaryDirectory() as folder:
                measure(args, body, math.isqrt(elements), Path(folder))


if __name__ == "__main__":
    main()
