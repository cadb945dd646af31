#!/usr/bin/env python3
"""Writes models of f32 as ONNX Runtime's static quantization makes them int8: with quantize and dequantize nodes.

    python tests/peers/static_int8.py FOLDER MODEL.onnx [more.onnx ..]
    python tests/peers/models.py --udo target/release/udo --openvino FOLDER/*.onnx

Activations are u8. Of each model there is one with i8 weights of a scale for each channel (`_u8s8`), and one with u8 weights of one scale for all
(`_u8u8`). Ranges are those of four inputs from a seed.

needs: numpy, onnx, onnxruntime
"""
import argparse
import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

VARIANTS = {"u8s8": (QuantType.QInt8, True), "u8u8": (QuantType.QUInt8, False)}


class Inputs(CalibrationDataReader):
    """Four inputs of random numbers."""

    def __init__(self, model):
        rng = np.random.default_rng(7)
        shapes = {
            value.name: [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim] for value in model.graph.input
        }
        feeds = [{name: rng.standard_normal(dims).astype(np.float32) for name, dims in shapes.items()} for _ in range(4)]
        self.rest = iter(feeds)

    def get_next(self):
        return next(self.rest, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the models go")
    parser.add_argument("models", type=Path, nargs="+", help="models of f32 with one shape")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    options.folder.mkdir(parents=True, exist_ok=True)
    for path in options.models:
        with tempfile.TemporaryDirectory() as scratch:
            ready = Path(scratch) / "ready.onnx"
            quant_pre_process(path, ready, skip_symbolic_shape=True)
            for variant, (weights, per_channel) in VARIANTS.items():
                made = options.folder / f"{path.stem}_{variant}.onnx"
                quantize_static(ready, made, Inputs(onnx.load(ready)), quant_format=QuantFormat.QDQ, per_channel=per_channel,
                                activation_type=QuantType.QUInt8, weight_type=weights)
                print(made)


if __name__ == "__main__":
    main()
