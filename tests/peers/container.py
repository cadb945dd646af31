"""Compares model files with the ONNX files that they were converted from, and reads them with the safetensors package.

    python tests/peers/container.py --udo target/release/udo [--loads 5] [--json] model.onnx FOLDER ..

Needs numpy, onnx and safetensors. A model is a file, which gets made-up inputs, or a folder with model.onnx and the recorded inputs of
test_data_set_0 and so on; a folder of such folders stands for all of them. Each is converted. Outputs of the model file have to
be bit for bit those of the ONNX file, and `udo verify` has to say the same of both; every tensor of the ONNX file that the graph
reads has to be in the model file with its elements. Prints sizes and the least milliseconds of loads, which take turns.
Exits with 1 where anything differs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors import safe_open

ALIGN_BYTES = 64


class Differs(Exception):
    """A difference between a model file and its ONNX file."""


def udo(binary, *words):
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def models(paths):
    for path in map(Path, paths):
        if path.is_file():
            yield path
        elif (path / "model.onnx").is_file():
            yield path / "model.onnx"
        else:
            yield from sorted(path.glob("*/model.onnx"))


def sets(path):
    return sorted(path.parent.glob("test_data_set_*")) if path.name == "model.onnx" else []


def input_names(model):
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in constants]


def ones(model, folder):
    """Writes inputs of ones for a model without recorded inputs."""
    feeds, rng = [], np.random.default_rng(1)
    for index, name in enumerate(input_names(model)):
        of = next(value for value in model.graph.input if value.name == name).type.tensor_type
        dims = [dim.dim_value or 1 for dim in of.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(of.elem_type)
        np.save(folder / f"in{index}.npy", rng.random(dims).astype(dtype))
        feeds += ["--input", f"{name}={folder / f'in{index}.npy'}"]
    return [feeds]


def recorded(model, path):
    names = input_names(model)
    return [[word for index, name in enumerate(names) for word in ("--input", f"{name}={data / f'input_{index}.pb'}")]
            for data in sets(path)]


def outputs(binary, model, feeds, folder):
    code, _, errors = udo(binary, "run", model, *feeds, "--output-dir", folder)
    files = {file.name: file.read_bytes() for file in sorted(folder.glob("*.npy"))} if folder.is_dir() else {}
    return code, errors.splitlines()[-1:] if code else [], files


def compare_runs(binary, path, file, model, folder):
    feeds = recorded(model, path) or ones(model, folder)
    for index, feed in enumerate(feeds):
        expected, actual = (outputs(binary, of, feed, folder / f"{name}{index}") for name, of in (("a", path), ("b", file)))
        if expected != actual:
            raise Differs(f"outputs of set {index} differ: {expected[:2]} and {actual[:2]}")
    for data in sets(path):
        words = ("--data", data, "--json")
        expected, actual = (udo(binary, "verify", of, *words)[:2] for of in (path, file))
        if expected != actual:
            raise Differs(f"udo verify prints {actual}, expected {expected}")
    return len(feeds)


def read_names(graph, into):
    for node in graph.node:
        into.update(node.input)
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                read_names(inner, into)
    into.update(value.name for value in graph.output)
    return into


def constants(graph):
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                attribute.t.name = node.output[0]
                yield attribute.t


def compare_tensors(path, model, file):
    """Looks up every initializer in the model file with the safetensors package, and returns their number."""
    read = read_names(model.graph, set())
    initializers = [tensor for tensor in constants(model.graph) if tensor.name in read]
    with open(file, "rb") as raw:
        begin = 8 + int.from_bytes(raw.read(8), "little")
        header = json.loads(raw.read(begin - 8))
    with safe_open(file, framework="numpy") as tensors:
        metadata, names = tensors.metadata(), set(tensors.keys())
        if metadata["format"] != "udo" or names != set(header) - {"__metadata__"}:
            raise Differs("the safetensors package reads other tensors")
        blobs = {value["name"]: value["constant"] for graph in json.loads(metadata["udo.graphs"])
                 for value in graph["values"] if "constant" in value}
        for tensor in initializers:
            elements = numpy_helper.to_array(tensor, base_dir=str(path.parent))
            at = blobs[tensor.name]
            begins = begin + header[at["tensor"]]["data_offsets"][0]
            if elements.nbytes >= ALIGN_BYTES and begins % ALIGN_BYTES:
                raise Differs(f"tensor {at['tensor']} begins at byte {begins}")
            if header[at["tensor"]]["dtype"] == "BF16":
                continue
            found = tensors.get_tensor(at["tensor"]).reshape(at["shape"])
            if found.tobytes() != elements.tobytes() or list(elements.shape) != at["shape"]:
                raise Differs(f"tensor {tensor.name} has other elements")
    return len(initializers)


def loads(binary, path, file, count):
    """Returns the shortest time from each file to a compiled model, in milliseconds."""
    least = {path: float("inf"), file: float("inf")}
    data = sets(path)[:1]
    words = ["--data", data[0]] if data else []
    for _ in range(count):
        for of in (path, file):
            code, said, _ = udo(binary, "bench", of, *words, "--iterations", 1, "--warmup", 1, "--json")
            if code == 0:
                report = json.loads(said)
                least[of] = min(least[of], report["first_result_ms"])
    return least[path], least[file]


def one(arguments, path):
    model = onnx.load(path, load_external_data=False)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        file = folder / "model.udm"
        code, _, errors = udo(arguments.udo, "convert", path, "-o", file)
        if code:
            raise Differs(f"it is not converted: {errors.strip()}")
        row = {"model": path.parent.name if path.name == "model.onnx" else path.stem,
               "onnx_bytes": path.stat().st_size, "udm_bytes": file.stat().st_size}
        row["tensors"] = compare_tensors(path, model, file)
        row["runs"] = compare_runs(arguments.udo, path, file, model, folder)
        row["onnx_ms"], row["udm_ms"] = loads(arguments.udo, path, file, arguments.loads)
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--loads", type=int, default=5, help="number of loads of each file (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    rows, failed = [], []
    for path in models(arguments.models):
        try:
            row = one(arguments, path)
        except Differs as difference:
            failed.append({"model": str(path), "why": str(difference)})
            print(f"{path}: {difference}", file=sys.stderr, flush=True)
            continue
        rows.append(row)
        if not arguments.json:
            size = row["udm_bytes"] / row["onnx_bytes"]
            print(f"{row['model']:24} {row['tensors']:5} tensors  {row['runs']} runs the same  size x{size:.3f}"
                  f"  first result {row['onnx_ms']:.1f} -> {row['udm_ms']:.1f} ms", flush=True)
    if arguments.json:
        print(json.dumps({"models": rows, "failed": failed}))
    else:
        print(f"{len(rows)} models are the same, {len(failed)} are not")
    sys.exit(bool(failed) or not rows)


if __name__ == "__main__":
    main()
