"""Compares models on the GPU, with an OpenCL device and emulated, with the CPU.

    python tests/peers/gpu.py --udo target/release/udo FOLDER

Needs numpy and onnx. Every model of the folder runs with `--cores gpu` and no fallback, so each of its steps has to be on
the GPU. Values cross to its memory and back as inputs and outputs of the model, and nowhere else. The largest difference from
the CPU's numbers is relative to the largest of them.
UDO_OPENCL=off is what emulates. `--ways emulated` is for where there is no OpenCL device.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx

from varied import varied


def inputs_of(path, folder):
    """Writes seeded random f32 inputs to files."""
    graph = onnx.load(path).graph
    known = {tensor.name for tensor in graph.initializer}
    rng = np.random.default_rng(11)
    options = []
    for value in graph.input:
        if value.name in known:
            continue
        kind = value.type.tensor_type
        if kind.elem_type != onnx.TensorProto.FLOAT:
            sys.exit(f"{path.name}: input {value.name!r} is not of f32, which is all that is made up here")
        shape = [dim.dim_value or 1 for dim in kind.shape.dim]
        file = folder / f"{len(options)}.npy"
        np.save(file, rng.standard_normal(shape).astype(np.float32))
        options += ["--input", f"{value.name}={file}"]
    return options


def with_scores(path, folder):
    """The model with what a last Softmax reads among its outputs, as random weights give probabilities of 0 and 1 alone."""
    model = onnx.load(path)
    graph = model.graph
    made_by = {name: node for node in graph.node for name in node.output}
    read = {made_by[value.name].input[0] for value in graph.output if made_by[value.name].op_type == "Softmax"}
    if not read:
        return path
    graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in sorted(read))
    onnx.save(model, folder / path.name)
    return folder / path.name


def crossings(path):
    """Returns the number of inputs and outputs of the model."""
    graph = onnx.load(path, load_external_data=False).graph
    known = {tensor.name for tensor in graph.initializer}
    return sum(value.name not in known for value in graph.input) + len(graph.output)


def run(udo, path, core, inputs, opencl):
    """Runs the model, and returns its outputs by file name and the seconds of the whole command."""
    environment = dict(os.environ, UDO_OPENCL="auto" if opencl else "off")
    with tempfile.TemporaryDirectory() as folder:
        command = [udo, "run", path, "--cores", core, "--output-dir", folder, "--threads", str(os.cpu_count())]
        start = time.monotonic()
        done = subprocess.run([*command, *inputs], env=environment, capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip(), time.monotonic() - start
        files = sorted(Path(folder).rglob("*.npy"))
        return {file.name: np.load(file) for file in files}, time.monotonic() - start


def steps(udo, path, opencl):
    """Returns the number of steps on the GPU, their backends, and the number of all steps."""
    environment = dict(os.environ, UDO_OPENCL="auto" if opencl else "off")
    command = [udo, "explain", path, "--cores", "gpu", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return None
    return json.loads(done.stdout)


def difference(actual, expected):
    varied("the CPU's results", expected.values())
    largest = 0.0
    for name, numbers in expected.items():
        scale = np.abs(numbers).max() or 1.0
        apart = np.abs(actual[name].astype(np.float64) - numbers).max() / scale
        largest = max(largest, float("inf") if np.isnan(apart) else float(apart))
    return largest


def check(udo, path, opencl, tolerance):
    """Runs a model on one backend, and returns the cells of its row and a fault."""
    with tempfile.TemporaryDirectory() as folder:
        path = with_scores(path, Path(folder))
        plan, most = steps(udo, path, opencl), crossings(path)
        inputs = inputs_of(path, Path(folder))
        expected, _ = run(udo, path, "cpu", inputs, opencl)
        actual, seconds = run(udo, path, "gpu", inputs, opencl)
    for outputs in (expected, actual):
        if isinstance(outputs, str):
            return ["-", "-", "-"], outputs
    nodes = [step for step in plan["steps"] if step["op"] != "Transfer"]
    on_gpu = sum(step["core"] == "gpu" for step in nodes)
    backends = {node["backend"] for node in plan["nodes"] if node["backend"]}
    apart = difference(actual, expected)
    cells = [f"{apart:.1e}", f"{on_gpu}/{len(nodes)}", f"{seconds:.1f}"]
    if plan["transfers"] > most:
        return cells, f"{plan['transfers']} transfers, expected at most {most}: inputs and outputs"
    if on_gpu != len(nodes):
        return cells, f"{len(nodes) - on_gpu} steps are not on the GPU"
    if apart > tolerance:
        return cells, f"the outputs differ by {apart:.1e}, expected at most {tolerance:.0e}"
    if any(backend.startswith("opencl") != opencl for backend in backends):
        return cells, f"it runs on {', '.join(sorted(backends))}"
    return cells, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--only", default="", help="run the models whose names contain one of these, separated by commas")
    parser.add_argument("--ways", default="opencl,emulated", help="backends, separated by commas (default opencl,emulated)")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest relative difference (default 1e-4)")
    parser.add_argument("folder", type=Path, help="folder of the models")
    options = parser.parse_args()
    names = options.only.split(",")
    models = [path for path in sorted(options.folder.glob("*.onnx")) if any(name in path.stem for name in names)]
    if not models:
        sys.exit(f"{options.folder} has no model of that name")
    print("| model | way | largest difference | steps on GPU | seconds |\n|---|---|---|---|---|")
    faults = []
    for path in models:
        for way in options.ways.split(","):
            cells, fault = check(options.udo, path, way == "opencl", options.tolerance)
            print(f"| {path.stem} | {way} | {' | '.join(cells)} |", flush=True)
            if fault:
                faults.append(f"{path.stem}, {way}: {fault}")
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
