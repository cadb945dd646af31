"""Writes chains of quantized convolutions as ONNX models, for models.py to compare and time.

    python tests/peers/quantized.py FOLDER
    python tests/peers/models.py --udo target/release/udo FOLDER/*.onnx
    python tests/peers/quantized.py --floats FOLDER         # convolutions of f32 between quantized values, for udo bench

Needs numpy and onnx. Images are 14 by 14 and 56 by 56 pixels, as in two stages of ResNet-50; weights are random.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Pixels along a side, and for each layer its input channels, its output channels and the side of its kernel.
CHAINS = {
    "quantized_14": (14, [(256, 256, 3)] * 4 + [(256, 1024, 1), (1024, 256, 1)] * 3),
    "quantized_56": (56, [(64, 64, 3)] * 4 + [(64, 256, 1), (256, 64, 1)] * 3),
}
SCALE, ZERO_POINT = np.float32(0.02), np.uint8(128)
# The standard deviation of uniform weights from -127 to 127: with it, a layer's outputs are as wide as its inputs.
SPREAD = 73.6


def layer(i, weights, kernel):
    """A convolution of quantized values."""
    names = [f"quantized{i}", "scale", "zero", *weights, "scale", "zero", f"bias{i}"]
    return [helper.make_node("QLinearConv", names, [f"quantized{i + 1}"], pads=[kernel // 2] * 4)]


def layer_of_floats(i, weights, kernel):
    """A convolution of f32 and its Relu, between quantized values: what quantizers of floating-point models write."""
    sums = [f"x{i}", f"real_w{i}", f"real_bias{i}"]
    return [
        helper.make_node("DequantizeLinear", [f"quantized{i}", "scale", "zero"], [f"x{i}"]),
        helper.make_node("DequantizeLinear", weights, [f"real_w{i}"], axis=0),
        helper.make_node("Conv", sums, [f"sums{i}"], pads=[kernel // 2] * 4),
        helper.make_node("Relu", [f"sums{i}"], [f"y{i}"]),
        helper.make_node("QuantizeLinear", [f"y{i}", "scale", "zero"], [f"quantized{i + 1}"]),
    ]


def chain(side, layers, make):
    """Quantize, convolve layer by layer, dequantize."""
    rng = np.random.default_rng(7)
    constants = {"scale": SCALE, "zero": ZERO_POINT}
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["quantized0"])]
    for i, (inputs, outputs, kernel) in enumerate(layers):
        depth = inputs * kernel * kernel
        shape = (outputs, inputs, kernel, kernel)
        constants[f"w{i}"] = rng.integers(-127, 128, shape).astype(np.int8)
        scales = rng.uniform(0.5, 1.5, outputs) / (SPREAD * np.sqrt(depth))
        constants[f"w_scale{i}"] = scales.astype(np.float32)
        constants[f"w_zero{i}"] = np.zeros(outputs, np.int8)
        constants[f"bias{i}"] = rng.integers(-500, 500, outputs).astype(np.int32)
        constants[f"real_bias{i}"] = (constants[f"bias{i}"] * scales * SCALE).astype(np.float32)
        nodes.extend(make(i, [f"w{i}", f"w_scale{i}", f"w_zero{i}"], kernel))
    nodes.append(
        helper.make_node("DequantizeLinear", [f"quantized{len(layers)}", "scale", "zero"], ["y"])
    )
    image = ["x", [1, layers[0][0], side, side]], ["y", [1, layers[-1][1], side, side]]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in image]
    read = {name for node in nodes for name in node.input}
    constants = {name: np.asarray(a) for name, a in constants.items() if name in read}
    tensors = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="output folder")
    parser.add_argument("--floats", action="store_true", help="write f32 convolutions between DequantizeLinear and QuantizeLinear nodes")
    arguments = parser.parse_args()
    folder, floats = arguments.folder, arguments.floats
    folder.mkdir(parents=True, exist_ok=True)
    for name, (side, layers) in CHAINS.items():
        make, name = (layer_of_floats, f"{name}_floats") if floats else (layer, name)
        onnx.save(chain(side, layers, make), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
