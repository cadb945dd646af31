#!/usr/bin/env python3
"""Quantizes models with `udo quantize` and with ONNX Runtime's static quantization, of the same data and with the same settings.

    python tests/peers/quantize.py --udo target/release/udo [--zoo zoo/out] MODEL.onnx [more.onnx ..]

Activations are u8, weights i8 with a scale for each channel, ranges from the least to the largest number. Models of the zoo (folders with
`model.onnx`, by their names in `tests/zoo/catalog.json`) run over inputs of their kinds, others over random numbers. Ranges are those of the
first inputs, and errors those of others, against the model of f32 in ONNX Runtime. ONNX Runtime's are of the model as its preprocessing
leaves it, where it folds normalizations too; that is not in its time.

A row says, for each model: the signal-to-noise ratio of outputs in dB, of our model as we run it, of our ONNX file in ONNX Runtime, and of
theirs there; and the seconds that each took to make. With --limits, it is an error if ours is noisier or slower.

needs: numpy, onnx, onnxruntime
"""
import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import exact
from varied import varied

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "zoo"))
import inputs as kinds  # noqa: E402

CALIBRATED, HELD_OUT = range(1000, 1008), range(2000, 2016)


class Reader(CalibrationDataReader):
    def __init__(self, feeds):
        self.rest = iter(feeds)

    def get_next(self):
        return next(self.rest, None)


def feeds_of(path, seeds):
    """The inputs of a model for each seed."""
    catalog = json.loads((ROOT / "zoo" / "catalog.json").read_text())
    known = {model["id"]: model for model in catalog["models"]}
    model = known.get(path.parent.name)
    if model and path.name == "model.onnx":
        case = model["cases"][0]
        return [kinds.feed(model, {**case, "seed": seed}) for seed in seeds]
    graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    shapes = {
        value.name: [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        for value in graph.input if value.name not in constants
    }
    made = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        made.append({name: rng.standard_normal(dims).astype(np.float32) for name, dims in shapes.items()})
    return made


def written(feeds, folder):
    """A list of the inputs, and the files that it names."""
    folder.mkdir()
    lines = []
    for at, feed in enumerate(feeds):
        items = []
        for port, (name, tensor) in enumerate(feed.items()):
            file = folder / f"{at}_{port}.npy"
            np.save(file, tensor)
            items.append(f"{name}:={file}")
        lines.append(" ".join(items))
    path = folder / "list.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def outputs_of(model, feeds, threads=2):
    options = exact.options()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def our_outputs(udo, model, listed, names, folder):
    command = [udo, "run", model, "--input-list", listed, "--output-dir", folder, "--threads", "2", "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    runs = json.loads(done.stdout)["runs"]
    return [[np.load(output["file"]) for output in run["outputs"]] for run in runs]


def ratio(wanted, found):
    """Signal to noise in dB, of all real outputs together."""
    signal = noise = 0.0
    for run, other in zip(wanted, found):
        for a, b in zip(run, other):
            if np.issubdtype(a.dtype, np.floating):
                a, b = a.astype(np.float64), b.astype(np.float64)
                signal += np.square(a).sum()
                noise += np.square(a - b).sum()
    return float("inf") if noise == 0 else 10 * np.log10(signal / noise)


def compare(udo, path, flags, scratch):
    calibrated, held_out = feeds_of(path, CALIBRATED), feeds_of(path, HELD_OUT)
    listed, others = written(calibrated, scratch / "in"), written(held_out, scratch / "out")
    wanted = outputs_of(path, held_out)
    varied(path, [output for run in wanted for output in run])
    names = [value.name for value in onnx.load(path, load_external_data=False).graph.output]
    row = {"model": path.parent.name if path.name == "model.onnx" else path.stem}

    made = {ending: scratch / f"ours.{ending}" for ending in ("udm", "onnx")}
    for ending, file in made.items():
        start = time.perf_counter()
        command = [udo, "quantize", path, "--input-list", listed, "-o", file, "--per-channel", "--float-fallback", *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        row["ours_s"] = time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
    row["ours"] = ratio(wanted, our_outputs(udo, made["udm"], others, names, scratch / "results"))
    row["ours_in_theirs"] = ratio(wanted, outputs_of(made["onnx"], held_out))

    ready, theirs = scratch / "ready.onnx", scratch / "theirs.onnx"
    model = onnx.load(path)
    if next(of.version for of in model.opset_import if of.domain == "") < 13:
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, ready)
    try:
        quant_pre_process(ready, ready, skip_symbolic_shape=True)
    except Exception:  # Some models have shapes that it does not follow; they stay as they are.
        onnx.save(model, ready)
    start = time.perf_counter()
    quantize_static(ready, theirs, Reader(calibrated), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    row["theirs_s"] = time.perf_counter() - start
    row["theirs"] = ratio(wanted, outputs_of(theirs, held_out))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+", help="f32 models")
    parser.add_argument("--udo", type=Path, required=True, help="path of the udo binary")
    parser.add_argument("--flag", action="append", default=[], help="pass a flag to `udo quantize`, as in --flag=--cle")
    parser.add_argument("--limits", action="store_true", help="fail if udo is noisier or slower than ONNX Runtime")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{'model':24} {'ours':>8} {'in ORT':>8} {'theirs':>8} dB {'ours':>8} {'theirs':>8} s")
    rows, failed = [], []
    for path in options.models:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                row = compare(options.udo.resolve(), path.resolve(), options.flag, Path(scratch))
            except Exception as error:
                print(f"{path}: {error}")
                failed.append(str(path))
                continue
        rows.append(row)
        print(f"{row['model']:24} {row['ours']:8.2f} {row['ours_in_theirs']:8.2f} {row['theirs']:8.2f}    "
              f"{row['ours_s']:8.2f} {row['theirs_s']:8.2f}", flush=True)
        if row["ours"] < row["theirs"] or row["ours_s"] > row["theirs_s"]:
            failed.append(row["model"])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if failed and options.limits:
        sys.exit(f"noisier, slower or not made: {', '.join(failed)}")


if __name__ == "__main__":
    main()
