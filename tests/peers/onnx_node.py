#!/usr/bin/env python3
"""Runs the tests that the onnx package ships through `udo verify`.

A test passes, fails (it gives another result, or the program crashes) or is refused. Those that do not
pass are listed in onnx_known.txt with the reason of each; the exit code is 1 if the list and the tests
differ, in either direction, or if a test fails whose results are no random numbers.

    python tests/peers/onnx_node.py --udo target/release/udo [--cores cpu] [--folders all] [--json]
    python tests/peers/onnx_node.py --udo target/release/udo --bless        # writes the list

An input that an operator wants in the model, where the test feeds it, is put there; how many tests
pass only so is counted.

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
from onnx import helper, numpy_helper

import onnx_known
from command_errors import error_of

VERDICTS = ["passed", "failed", "refused"]
FOLDERS = ["node", "simple", "pytorch-operator", "pytorch-converted", "light"]
DATA = Path(onnx.backend.test.__file__).parent / "data"
TIMEOUT_S = 300
# What the program says of an input that it wants in the model: the operator, and the input's name or number.
CONSTANT = re.compile(r'\((\w+)\): .*?input (?:"(\w+)" is computed|(\d+)\b.*(?:in the model|known before the run))')
README = Path(__file__).parents[2] / "README.md"
SAID = re.compile(r"\d+ of the \d+ in scope pass")
# Nodes that are brought to the newest operator set, and say its operator's name.
RENAMED = {"Scatter": "ScatterElements", "Upsample": "Resize"}


def main():
    args = arguments()
    tests = [t for folder in args.folders for t in tests_of(folder) if args.only in t[1]]
    if not tests:
        sys.exit(f"no test has {args.only!r} in its name")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(args.jobs) as pool:
        jobs = [pool.submit(check, args, Path(scratch), *test) for test in tests]
        results = []
        for number, job in enumerate(jobs, 1):
            results.append(job.result())
            progress(f"{number}/{len(jobs)} {results[-1]['name']}")
        progress("")
    if args.bless:
        onnx_known.write(results)
        README.write_text(SAID.sub(readme_lines(results), README.read_text()))
    errors = onnx_known.errors(results, args.is_all) if "cpu" in args.cores.split(",") else failures(results)
    if args.is_all and args.cores == "cpu" and SAID.search(README.read_text())[0] != readme_lines(results):
        errors.append(f"README.md does not say that {readme_lines(results)}; --bless writes it")
    if args.json:
        print(json.dumps({"cores": args.cores, "results": results, "errors": errors}, indent=1))
    out = sys.stderr if args.json else sys.stdout
    for line in [*errors, *summary(args.folders, results)]:
        print(line, file=out)
    return 1 if errors else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--cores", default="cpu", help="cores to run on (default cpu)")
    parser.add_argument("--folders", default="node", type=lambda text: text.split(","),
                        help="of " + ",".join(FOLDERS) + ", or all")
    parser.add_argument("--only", default="", help="run the tests whose names contain this")
    parser.add_argument("--rtol", default="1e-3")
    parser.add_argument("--atol", default="1e-5")
    parser.add_argument("--jobs", default=2, type=int, choices=[1, 2])
    parser.add_argument("--json", action="store_true", help="print every result")
    parser.add_argument("--bless", action="store_true", help="run all tests, and write the list of those that do not pass")
    args = parser.parse_args()
    args.folders = FOLDERS if args.bless or args.folders == ["all"] else args.folders
    args.is_all = args.folders == FOLDERS and not args.only
    if args.bless and (args.only or args.cores != "cpu"):
        parser.error("the list is of all tests, on the CPU")
    wrong = [f for f in args.folders if f not in FOLDERS]
    if wrong:
        parser.error(f"no folder {wrong[0]!r}")
    return args


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)


def tests_of(folder):
    """Returns the folder, name and model of each test."""
    if folder == "light":
        return [(folder, path.stem, path) for path in sorted((DATA / folder).glob("*.onnx"))]
    found = sorted((DATA / folder).glob("*/model.onnx"))
    return [(folder, path.parent.name, path) for path in found]


def run_command(command):
    """Runs a command, and returns what it reports."""
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


def check(args, scratch, folder, name, path):
    """Runs one test: as it is, and as often as an operator wants one more of its inputs in the model."""
    result = {"folder": folder, "name": name, "constants": []}
    model = load(folder, path)
    while True:
        with tempfile.TemporaryDirectory(dir=scratch) as work:
            if folder == "light":
                found = light_data(model, path, Path(work))
            else:
                found = with_constants(load(folder, path), path, result["constants"], Path(work))
            said = verdict(args, *found)
        wanted = CONSTANT.search(said.get("message", ""))
        wanted = wanted and [wanted[1], wanted[2] or int(wanted[3])]
        if wanted is None or wanted in result["constants"]:
            break
        result["constants"].append(wanted)
    if said["verdict"] != "passed":
        said["reason"] = onnx_known.reason(model, said)
    return result | said


def verdict(args, path, data):
    command = [args.udo, "verify", path, "--data", data, "--json", "--cores", args.cores,
               "--rtol", args.rtol, "--atol", args.atol]
    try:
        ran = run_command(command)
    except subprocess.TimeoutExpired:
        return {"verdict": "failed", "message": f"no result in {TIMEOUT_S} s"}
    if ran.returncode == 0 and json.loads(ran.stdout)["passed"]:
        return {"verdict": "passed"}
    message = error_of(ran.stderr)
    if ran.returncode != 1 or not message:
        return {"verdict": "failed", "message": f"exit code {ran.returncode}: {ran.stderr[-300:]}"}
    if ran.stdout:
        outputs = json.loads(ran.stdout)["outputs"]
        wrong = [o for o in outputs if o.get("error") or o.get("mismatches")]
        return {"verdict": "failed", "message": json.dumps(wrong)}
    return {"verdict": "refused", "message": message}


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


def with_constants(model, path, constants, work):
    """The test itself, or one with the inputs in the model that operators want there."""
    sets = sorted(path.parent.glob("test_data_set_*"))
    static = {node.input[i] for node in model.graph.node for op, port in constants
              if op in (node.op_type, RENAMED.get(node.op_type))
              for i in position(node, port) if i < len(node.input)}
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


def position(node, port):
    """Returns the position of the named input of the node."""
    if isinstance(port, int):
        return [port]
    if not onnx.defs.has(node.op_type, node.domain):
        return []
    ports = onnx.defs.get_schema(node.op_type, node.domain).inputs
    return [i for i, p in enumerate(ports) if p.name == port]


def failures(results):
    return [f"failed: {r['folder']}/{r['name']}: {r['message']}" for r in results if r["verdict"] == "failed"]


def in_scope(results):
    return [r for r in results if r["verdict"] == "passed" or r["reason"] not in onnx_known.OUT_OF_SCOPE]


def readme_lines(results):
    """Returns the text of README.md about these tests."""
    passed = sum(r["verdict"] == "passed" for r in results)
    return f"{passed} of the {len(in_scope(results))} in scope pass"


def summary(folders, results):
    """How many tests there are of each verdict and reason, and the share that passes."""
    counts = Counter((r["folder"], r["verdict"]) for r in results)
    yield f"{'':20}" + "".join(f"{v:>9}" for v in VERDICTS)
    for folder in folders:
        yield f"{folder:20}" + "".join(f"{counts[folder, v]:9}" for v in VERDICTS)
    reasons = Counter(r["reason"] for r in results if r["verdict"] != "passed")
    for why, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count:6} {why}"
    passed = [r for r in results if r["verdict"] == "passed"]
    scope = in_scope(results)
    changed = sum(1 for r in passed if r["constants"])
    yield (f"in scope: {len(scope)} of {len(results)} tests, without {', '.join(onnx_known.OUT_OF_SCOPE)}")
    yield (f"summary: {len(passed)} of {len(scope)} pass, {len(passed) / max(len(scope), 1):.1%}; "
           f"{changed} of them with inputs that are put into the model")


if __name__ == "__main__":
    sys.exit(main())
