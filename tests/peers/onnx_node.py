#!/usr/bin/env python3
"""Runs the tests that the onnx package ships through `udo verify`.

A test with an operator that the program does not have is skipped. Any other passes, fails (it
gives another result, or the program crashes) or is refused. The exit code is 1 after a failure and
after a refusal that is not among KNOWN.

    python tests/peers/onnx_node.py --udo target/release/udo [--cores cpu] [--folders all] [--json]

needs: onnx
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from onnx import TensorProto, helper, numpy_helper

VERDICTS = ["passed", "failed", "refused", "skipped"]
FOLDERS = ["node", "simple", "pytorch-operator", "pytorch-converted", "light"]
DATA = Path(onnx.backend.test.__file__).parent / "data"
TIMEOUT_S = 300
PROBE_OPSET = 21

# Inputs that the operators want in the model, where the tests feed them.
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
STATIC = {"Dropout": [2], "Reshape": [1], "Resize": [1, 2, 3], "Split": [1], "Squeeze": [1], "Unsqueeze": [1],
          "CenterCropPad": [1], "ConstantOfShape": [0], "Expand": [1], "OneHot": [1], "Pad": [1, 3],
          "Range": [0, 1, 2], "Slice": [3], "Tile": [1],
          "BlackmanWindow": [0], "DFT": [1, 2], "HammingWindow": [0], "HannWindow": [0],
          "MelWeightMatrix": [0, 1], "STFT": [1, 3],
          **{f"Reduce{of}": [1] for of in REDUCTIONS}}

# What the program says no to by intent: a pattern of the message, and why.
KNOWN = [
    (r"element type (float8|float4|u?int[24]\b)",
     "8-bit floats and types below 8 bits are not among the element types"),
    (r"(a sequence|an optional value) is not supported", "values are tensors"),
    (r"asks for training", "models are not trained"),
    (r"is f16\[.*wanted", "halves are what GPUs store, and no CPU kernel computes in them yet"),
]


def main():
    args = arguments()
    tests = [t for folder in args.folders for t in tests_of(folder) if args.only in t[1]]
    if not tests:
        sys.exit(f"no test has {args.only!r} in its name")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(args.jobs) as pool:
        scratch = Path(scratch)
        known_ops = operators(args.udo, tests, scratch, pool)
        jobs = [pool.submit(check, args, known_ops, scratch, *test) for test in tests]
        results = []
        for number, job in enumerate(jobs, 1):
            results.append(job.result())
            progress(f"{number}/{len(jobs)} {results[-1]['name']}")
        progress("")
    counts = Counter((r["folder"], r["verdict"]) for r in results)
    unknown = [r for r in results if r["verdict"] == "refused" and not r["known"]]
    if args.json:
        print(json.dumps({"cores": args.cores, "results": results}, indent=1))
    else:
        report(args.folders, results, counts, unknown)
    total = Counter(r["verdict"] for r in results)
    out = sys.stderr if args.json else sys.stdout
    print("summary: " + " ".join(f"{v}={total[v]}" for v in VERDICTS), file=out)
    return 1 if total["failed"] or unknown else 0



def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="the program")
    parser.add_argument("--cores", default="cpu")
    parser.add_argument("--folders", default="node", type=lambda text: text.split(","),
                        help="of " + ",".join(FOLDERS) + ", or all")
    parser.add_argument("--only", default="", help="only tests with this in their name")
    parser.add_argument("--rtol", default="1e-3")
    parser.add_argument("--atol", default="1e-5")
    parser.add_argument("--jobs", default=2, type=int, choices=[1, 2])
    parser.add_argument("--json", action="store_true", help="print every result")
    args = parser.parse_args()
    args.folders = FOLDERS if args.folders == ["all"] else args.folders
    wrong = [f for f in args.folders if f not in FOLDERS]
    if wrong:
        parser.error(f"no folder {wrong[0]!r}")
    return args


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)


def tests_of(folder):
    """Folder, name and model of each test."""
    if folder == "light":
        return [(folder, path.stem, path) for path in sorted((DATA / folder).glob("*.onnx"))]
    found = sorted((DATA / folder).glob("*/model.onnx"))
    return [(folder, path.parent.name, path) for path in found]


def op_types(model):
    """Domain and name of every operator, those of subgraphs and functions included."""
    left = [*model.graph.node, *(node for f in model.functions for node in f.node)]
    found = set()
    while left:
        node = left.pop()
        found.add(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                left.extend(graph.node)
    return found


def operators(udo, tests, scratch, pool):
    """The operators among those of the tests that the program knows."""
    wanted = set().union(*(op_types(load(folder, path)) for folder, _, path in tests))

    def is_known(op):
        domain, name = op
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
        node = helper.make_node(name, ["x"], ["y"], domain=domain)
        opsets = [helper.make_opsetid(d, 1 if d else PROBE_OPSET) for d in {"", domain}]
        graph = helper.make_graph([node], "probe", [x], [y])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        path = scratch / f"probe-{domain}-{name}.onnx"
        onnx.save(model, path)
        ran = spoken([udo, "explain", path])
        if ran.returncode not in (0, 1):
            sys.exit(f"udo explain ends with exit code {ran.returncode}: {ran.stderr}")
        return "no package has an operator" not in ran.stderr

    ordered = sorted(wanted)
    return {op for op, known in zip(ordered, pool.map(is_known, ordered)) if known}


def spoken(command):
    """What a command says."""
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def load(folder, path):
    model = onnx.load(path, load_external_data=False)
    return prepared_light(model) if folder == "light" else model


def prepared_light(model):
    """The light models have ConstantOfShape for weights, and Dropout, which does nothing here."""
    shapes = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    for node in list(model.graph.node):
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            value = numpy_helper.to_array(node.attribute[0].t)[0]
            weights = np.full(shapes[node.input[0]], value)
            model.graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
            model.graph.node.remove(node)
        elif node.op_type == "Dropout":
            node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output[:1]))
    return model


def check(args, known_ops, scratch, folder, name, path):
    """Runs one test."""
    result = {"folder": folder, "name": name}
    model = load(folder, path)
    missing = sorted(op_types(model) - known_ops)
    if missing:
        reason = "no " + ", ".join(f"{d}.{n}" if d else n for d, n in missing)
        return result | {"verdict": "skipped", "reason": reason}
    with tempfile.TemporaryDirectory(dir=scratch) as work:
        if folder == "light":
            path, data = light_data(model, path, Path(work))
        else:
            path, data = with_static_inputs(model, path, Path(work))
        command = [args.udo, "verify", path, "--data", data, "--json", "--cores", args.cores,
                   "--rtol", args.rtol, "--atol", args.atol]
        try:
            ran = spoken(command)
        except subprocess.TimeoutExpired:
            return result | {"verdict": "failed", "reason": f"no result in {TIMEOUT_S} s"}
    return result | verdict(ran)


def verdict(ran):
    if ran.returncode == 0 and json.loads(ran.stdout)["passed"]:
        return {"verdict": "passed"}
    message = " ".join(line for line in ran.stderr.splitlines() if line.startswith("error: "))
    message = message.removeprefix("error: ")
    if ran.returncode != 1 or not message:
        return {"verdict": "failed", "reason": f"exit code {ran.returncode}: {ran.stderr[-300:]}"}
    if ran.stdout:
        outputs = json.loads(ran.stdout)["outputs"]
        wrong = [o for o in outputs if o.get("error") or o.get("mismatches")]
        return {"verdict": "failed", "reason": json.dumps(wrong)}
    why = next((why for pattern, why in KNOWN if re.search(pattern, message)), None)
    return {"verdict": "refused", "reason": message, "known": why}


def light_data(model, path, work):
    """The model and its recorded output, with the input that onnx's own runner makes up."""
    weights = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    for index, value in enumerate(inputs):
        shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        count = np.prod(shape)
        x = (np.arange(count).reshape(shape) / count).astype(np.float32)
        (work / f"input_{index}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    for index in range(len(model.graph.output)):
        recorded = path.with_name(f"{path.stem}_output_{index}.pb")
        (work / f"output_{index}.pb").write_bytes(recorded.read_bytes())
    onnx.save(model, work / "model.onnx")
    return work / "model.onnx", work


def with_static_inputs(model, path, work):
    """The test itself, or one with the inputs in the model that the operators want there."""
    sets = sorted(path.parent.glob("test_data_set_*"))
    static = {node.input[i] for node in model.graph.node for i in STATIC.get(node.op_type, [])
              if i < len(node.input)}
    # Nodes are in the order in which they run. What a shape is of need not be known for the shape.
    for node in reversed(model.graph.node):
        if static.intersection(node.output) and node.op_type not in ("Shape", "Size"):
            static.update(node.input)
    names = [i.name for i in model.graph.input]
    if len(sets) != 1 or not static.intersection(names):
        return path, path.parent
    kept = 0
    for index, name in enumerate(names):
        recorded = sets[0] / f"input_{index}.pb"
        if name in static:
            tensor = onnx.load_tensor(recorded)
            tensor.name = name
            model.graph.initializer.append(tensor)
        else:
            (work / f"input_{kept}.pb").write_bytes(recorded.read_bytes())
            kept += 1
    for recorded in sets[0].glob("output_*.pb"):
        (work / recorded.name).write_bytes(recorded.read_bytes())
    onnx.save(model, work / "model.onnx")
    return work / "model.onnx", work


def report(folders, results, counts, unknown):
    for r in results:
        if r["verdict"] == "failed":
            print(f"failed: {r['folder']}/{r['name']}: {r['reason']}")
    for r in unknown:
        print(f"refused: {r['folder']}/{r['name']}: {r['reason']}")
    reasons = Counter(r["known"] for r in results if r.get("known"))
    for why, count in sorted(reasons.items()):
        print(f"refused as known, {count}: {why}")
    print(f"{'':20}" + "".join(f"{v:>9}" for v in VERDICTS))
    for folder in folders:
        print(f"{folder:20}" + "".join(f"{counts[folder, v]:9}" for v in VERDICTS))


if __name__ == "__main__":
    sys.exit(main())
