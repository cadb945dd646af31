#!/usr/bin/env python3
"""Runs operators between dequantize and quantize nodes, and compares with what the nodes say and with ONNX Runtime.

Each kind has random groups: their sizes, scales, zero points and values. Convolutions and products have to be what the sum of
integers, one ratio of scales in f32 and one rounding to even make, bit for bit. All have to lie within a step of ONNX Runtime's, of the nodes as
they are and of what it makes of them, and all but a thousandth of their values have to be equal to the latter. Norms and means of pixels are of
numbers, and have to be as near. Those of 16-bit values, which ONNX Runtime computes in floating point, have to be the sums of integers as well, and as near to it.

    python tests/peers/groups.py --udo target/release/udo [--groups 200] [--seed 1] [--only KIND]

needs: numpy, onnx, onnxruntime
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import exact

OPSET = 17
# What values there are but those of 8 bits, from operator set 21 on.
WIDE, NARROW = "16 bits", "weights of 4 bits"
PER_MODEL = 20
MOST_UNEQUAL = 1e-3
LEVELS = onnxruntime.GraphOptimizationLevel


class Groups:
    """A model of groups of one kind, what is fed to it, and what sums of integers make of it."""

    def __init__(self, rng, form=""):
        self.rng = rng
        self.wide, self.narrow = form == WIDE, form == NARROW
        self.opset = 21 if form else OPSET
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.fed, self.exact = {}, {}
        self.names = 0

    def name(self, stem):
        self.names += 1
        return f"{stem}{self.names}"

    def constant(self, array):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def pick(self, *of):
        return of[self.rng.integers(len(of))]

    def dtype(self, *of):
        """One of these types of 8 bits, or what it is in 16."""
        picked = self.pick(*of)
        return {np.uint8: np.uint16, np.int8: np.int16}[picked] if self.wide else picked

    def values(self, shape, dtype):
        ends = np.iinfo(dtype)
        return self.rng.integers(ends.min, ends.max + 1, shape).astype(dtype)

    def numbers(self, dtype, low=0.01, high=0.1):
        """A scale and a zero point."""
        return np.float32(self.rng.uniform(low, high)), self.values((), dtype)

    def activation(self, shape, dtype=np.uint8, numbers=None):
        """Numbers that an input stands for: their name, the values, the scale and the zero point."""
        scale, zero = numbers or self.numbers(dtype)
        name, values = self.name("x"), self.values(shape, dtype)
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, [int(n) for n in shape]))
        self.fed[name] = values
        return self.dequantized(name, scale, zero), values, scale, zero

    def dequantized(self, name, scale, zero, axis=None):
        made = self.name("d")
        attrs = {} if axis is None else {"axis": axis}
        inputs = [name, self.constant(scale), self.constant(zero)]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [made], **attrs))
        return made

    def weights(self, shape, axis):
        """The name of constant numbers, their values and their scales along an axis."""
        dtype, count = self.pick(np.int8, np.uint8), shape[axis] if self.rng.random() < 0.7 else None
        if self.narrow:
            return self.narrow_weights(shape, axis, dtype, count)
        values = self.values(shape, dtype)
        if dtype is np.int8:
            values = np.maximum(values, -127)
        scales = np.asarray(self.rng.uniform(0.002, 0.02, count), np.float32)
        zeros = np.full(scales.shape, 128 if dtype is np.uint8 else 0, dtype)
        name = self.dequantized(self.constant(values), scales, zeros, axis if count else None)
        return name, values.astype(np.int64) - (128 if dtype is np.uint8 else 0), scales

    def narrow_weights(self, shape, axis, dtype, count):
        kind, low = (TensorProto.INT4, -8) if dtype is np.int8 else (TensorProto.UINT4, 0)
        values = self.rng.integers(low, low + 16, shape)
        scales = np.asarray(self.rng.uniform(0.02, 0.2, count), np.float32)
        zeros = self.rng.integers(low, low + 16, scales.shape)
        of, zero = self.name("c"), self.name("c")
        self.constants.append(helper.make_tensor(of, kind, shape, values.flatten().tolist()))
        self.constants.append(helper.make_tensor(zero, kind, scales.shape, np.ravel(zeros).tolist()))
        made = self.name("d")
        attrs = {"axis": axis} if count else {}
        self.nodes.append(helper.make_node("DequantizeLinear", [of, self.constant(scales), zero], [made], **attrs))
        along = [1] * len(shape)
        along[axis] = -1
        return made, values.astype(np.int64) - zeros.reshape(along if count else [1] * len(shape)), scales

    def bias(self, count, scales):
        """The name of a constant addend of sums with these scales, and its values."""
        values = self.rng.integers(-3000, 3000, count).astype(np.int32) * (256 if self.wide else 1)
        scales = np.broadcast_to(scales, count).astype(np.float32)
        return self.dequantized(self.constant(values), scales, np.zeros(count, np.int32), 0), values

    def step(self, op, inputs, **attrs):
        made = self.name("y")
        self.nodes.append(helper.make_node(op, inputs, [made], **attrs))
        return made

    def quantized(self, name, numbers, exact=None):
        made = self.name("q")
        inputs = [name, *map(self.constant, numbers)]
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, [made]))
        kind = helper.np_dtype_to_tensor_dtype(numbers[1].dtype)
        self.outputs.append(helper.make_tensor_value_info(made, kind, None))
        if exact is not None:
            self.exact[made] = exact

    def of_sums(self, name, sums, scales, dtype, channel_axis):
        """Quantizes what sums stand for so that most of it fits, behind a Relu now and then."""
        ends = np.iinfo(dtype)
        steps = ends.max - ends.min
        spread = np.float32(np.std(sums * scales.mean()) * 6 / steps + 1e-6)
        numbers = spread, np.asarray(self.pick(0, 100, 128) * (steps // 255) + ends.min, dtype)
        if numbers[1] == ends.min and self.rng.random() < 0.7:
            name = self.step("Relu", [name])
        shape = [1] * sums.ndim
        shape[channel_axis] = -1
        ratios = (scales / spread).astype(np.float32).reshape(shape if scales.size > 1 else [1] * sums.ndim)
        rounded = np.rint(sums.astype(np.float32) * ratios) + np.float32(numbers[1])
        self.quantized(name, numbers, np.clip(rounded, ends.min, ends.max).astype(dtype))

    def model(self):
        graph = helper.make_graph(self.nodes, "groups", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8 if self.opset == OPSET else 10)
        return onnx.shape_inference.infer_shapes(model)


def convolution(groups, depthwise=False):
    rng = groups.rng
    parts = int(rng.integers(2, 20)) if depthwise else groups.pick(1, 1, 2)
    # One of 16 bits would be a filter for each channel.
    inputs = 1 if depthwise else int(rng.integers(1 + groups.wide, 24))
    outputs = parts if depthwise else parts * int(rng.integers(1, 24))
    kernel, pad, stride = int(groups.pick(1, 3, 3, 5)), int(rng.integers(0, 2)), int(rng.integers(1, 3))
    height, width = rng.integers(5, 16, 2)
    dtype = groups.dtype(np.uint8, np.uint8, np.int8)
    x, values, scale, zero = groups.activation((1, parts * inputs, height, width), dtype)
    w, weights, scales = groups.weights((outputs, inputs, kernel, kernel), 0)
    products = (scales * scale).astype(np.float32)
    b, addend = groups.bias(outputs, products)
    attrs = {"group": parts, "pads": [pad] * 4, "strides": [stride] * 2}
    y = groups.step("Conv", [x, w, b], **attrs)
    padded = np.pad(values.astype(np.int64) - int(zero), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], (kernel, kernel), (1, 2))[:, ::stride, ::stride]
    of_part = lambda part: np.einsum(
        "chwij,ocij->ohw", windows[part * inputs :][:inputs], weights[part * (outputs // parts) :][: outputs // parts])
    sums = np.concatenate([of_part(part) for part in range(parts)])[None] + addend.reshape(1, -1, 1, 1)
    groups.of_sums(y, sums, products, dtype, 1)


def scattered(values, weights, parts, strides, dilations, pads, size):
    """Sums of a transposed convolution, each input pixel times each tap added where it goes."""
    inputs, outputs = values.shape[0] // parts, weights.shape[1]
    height, width = (n + 2 * max(pads) + max(strides) for n in size)
    sums = np.zeros((parts * outputs, height + max(pads) + 64, width + max(pads) + 64), np.int64)
    for part in range(parts):
        own = values[part * inputs :][:inputs]
        for row, column in np.ndindex(weights.shape[2:]):
            tap = np.einsum("chw,co->ohw", own, weights[part * inputs :][:inputs, :, row, column])
            at = row * dilations[0], column * dilations[1]
            ends = [at[i] + (tap.shape[i + 1] - 1) * strides[i] + 1 for i in range(2)]
            to = sums[part * outputs :][:outputs, at[0] : ends[0] : strides[0], at[1] : ends[1] : strides[1]]
            to += tap
    return sums[:, pads[0] :, pads[1] :][:, : size[0], : size[1]][None]


def deconvolution(groups):
    rng = groups.rng
    parts = groups.pick(1, 1, 1, 2)
    inputs, outputs = (int(n) for n in rng.integers(1, 24, 2))
    kernel, dilation, stride = int(rng.integers(1, 5)), groups.pick(1, 1, 2), groups.pick(1, 2, 2, 3)
    height, width = (int(n) for n in rng.integers(3, 9, 2))
    if rng.random() < 0.3:
        kernel, dilation, stride = stride, 1, stride
    span = (kernel - 1) * dilation
    pad, more = (int(n) for n in (rng.integers(0, min(span, 2) + 1), rng.integers(0, stride)))
    dtype = groups.dtype(np.uint8, np.uint8, np.int8)
    x, values, scale, zero = groups.activation((1, parts * inputs, height, width), dtype)
    w, weights, scales = groups.weights((parts * inputs, outputs, kernel, kernel), 1)
    products = (scales * scale).astype(np.float32)
    if products.size > 1:
        products = np.tile(products, parts)
    b, addend = groups.bias(parts * outputs, products)
    attrs = {"group": parts, "pads": [pad] * 4, "strides": [stride] * 2, "dilations": [dilation] * 2}
    y = groups.step("ConvTranspose", [x, w, b], output_padding=[more] * 2, **attrs)
    size = [(n - 1) * stride + span + 1 + more - 2 * pad for n in (height, width)]
    off = values[0].astype(np.int64) - int(zero)
    sums = scattered(off, weights, parts, [stride] * 2, [dilation] * 2, [pad] * 2, size)
    groups.of_sums(y, sums + addend.reshape(1, -1, 1, 1), products, dtype, 1)


def matmul(groups):
    rows, depth, columns = (int(n) for n in groups.rng.integers(1, 70, 3))
    dtype = groups.dtype(np.uint8, np.int8)
    x, values, scale, zero = groups.activation((rows, depth), dtype)
    w, weights, scales = groups.weights((depth, columns), 1)
    y = groups.step("MatMul", [x, w])
    sums = (values.astype(np.int64) - int(zero)) @ weights
    groups.of_sums(y, sums, (scales * scale).astype(np.float32), dtype, 1)


def linear(groups):
    """A product of several matrices, and numbers added to its columns."""
    rows, depth, columns = (int(n) for n in groups.rng.integers(1, 40, 3))
    dtype = groups.dtype(np.uint8, np.int8)
    x, values, scale, zero = groups.activation((2, rows, depth), dtype)
    w, weights, scales = groups.weights((depth, columns), 1)
    products = (scales * scale).astype(np.float32)
    numbers = (groups.rng.integers(-3000, 3000, columns) * np.float64(0.37) * products).astype(np.float32)
    operands = [groups.step("MatMul", [x, w]), groups.constant(numbers)]
    y = groups.step("Add", operands if groups.rng.random() < 0.5 else operands[::-1])
    addend = np.rint(numbers.astype(np.float64) / products.astype(np.float64)).astype(np.int64)
    sums = (values.astype(np.int64) - int(zero)) @ weights + addend
    groups.of_sums(y, sums, products, dtype, 2)


def gemm(groups):
    rows, depth, columns = (int(n) for n in groups.rng.integers(1, 70, 3))
    dtype = groups.dtype(np.uint8, np.int8)
    x, values, scale, zero = groups.activation((rows, depth), dtype)
    w, weights, scales = groups.weights((columns, depth), 0)
    products = (scales * scale).astype(np.float32)
    b, addend = groups.bias(columns, products)
    y = groups.step("Gemm", [x, w, b], transB=1)
    sums = (values.astype(np.int64) - int(zero)) @ weights.T + addend
    groups.of_sums(y, sums, products, dtype, 1)


def binary(op):
    def make(groups):
        shape = tuple(int(n) for n in groups.rng.integers(1, 12, 3))
        other = groups.pick(shape, shape[1:], (shape[0], 1, shape[2]))
        dtype = groups.pick(np.uint8, np.int8)
        a, b = groups.activation(shape, dtype)[0], groups.activation(other, dtype)[0]
        groups.quantized(groups.step(op, [a, b]), groups.numbers(dtype, 0.02, 0.2))
    return make


def unary(op, **attrs):
    def make(groups):
        dtype = groups.pick(np.uint8, np.int8)
        x = groups.activation((int(groups.rng.integers(1, 900)),), dtype)[0]
        groups.quantized(groups.step(op, [x], **attrs), groups.numbers(dtype, 0.004, 0.05))
    return make


def requantized(groups):
    x = groups.activation((int(groups.rng.integers(1, 900)),))[0]
    groups.quantized(x, groups.numbers(np.uint8, 0.02, 0.2))


def silu(groups):
    """A product and a Mul by a constant, which are fused."""
    x = groups.activation((3, int(groups.rng.integers(1, 300))), groups.pick(np.uint8, np.int8))
    y = groups.step("Mul", [x[0], groups.step("Sigmoid", [x[0]])])
    y = groups.step("Mul", [y, groups.constant(np.array([1.5], np.float32))])
    groups.quantized(y, groups.numbers(x[1].dtype, 0.01, 0.1))


def softmax(groups):
    x = groups.activation(tuple(int(n) for n in groups.rng.integers(2, 40, 2)))[0]
    groups.quantized(groups.step("Softmax", [x], axis=-1), (np.float32(1 / 256), np.uint8(0)))


def concat(groups):
    sides, count = groups.rng.integers(2, 9, 2), int(groups.rng.integers(2, 5))
    parts = [groups.activation((1, int(groups.rng.integers(1, 9)), *sides))[0] for _ in range(count)]
    groups.quantized(groups.step("Concat", parts, axis=1), groups.numbers(np.uint8, 0.05, 0.1))


def pool(op):
    def make(groups):
        channels, height, width = (int(n) for n in groups.rng.integers(4, 14, 3))
        numbers = groups.numbers(np.uint8)
        x = groups.activation((1, channels, height, width), np.uint8, numbers)[0]
        attrs = {} if op.startswith("Global") else {"kernel_shape": [2, 3], "strides": [2, 1]}
        result = numbers if op == "MaxPool" else groups.numbers(np.uint8)
        groups.quantized(groups.step(op, [x], **attrs), result)
    return make


def moved(op, **attrs):
    def make(groups):
        sides = [2 * int(n) for n in groups.rng.integers(1, 6, 2)]
        dtype = groups.dtype(np.uint8)
        numbers = groups.numbers(dtype)
        x = groups.activation((1, 8, *sides), dtype, numbers)[0]
        inputs = [x]
        if op == "Reshape":
            inputs.append(groups.constant(np.array([8, -1], np.int64)))
        if op == "Gather":
            inputs.append(groups.constant(groups.rng.integers(-8, 8, (2, 3))))
        if op == "Slice":
            inputs += [groups.constant(np.array(ends, np.int64)) for ends in ([1, 1], [7, 9], [1, 2])]
        if op == "Resize":
            inputs += ["", groups.constant(np.array([1, 1, 2, 2], np.float32))]
        groups.quantized(groups.step(op, inputs, **attrs), numbers)
    return make


def resampled(mode):
    def make(groups):
        numbers = groups.numbers(np.uint8)
        x = groups.activation((1, *(int(n) for n in groups.rng.integers(3, 12, 3))), np.uint8, numbers)[0]
        ends = groups.pick((0.35, 0.6), (1.4, 2.7))
        scales = np.array([1, 1, *groups.rng.uniform(*ends, 2)], np.float32)
        groups.quantized(groups.step("Resize", [x, "", groups.constant(scales)], mode=mode), numbers)
    return make


def split(groups):
    lengths = [int(n) for n in groups.rng.integers(1, 6, groups.rng.integers(2, 4))]
    axis = int(groups.rng.integers(0, 3))
    shape = [int(n) for n in groups.rng.integers(1, 7, 3)]
    shape[axis] = sum(lengths)
    dtype = groups.dtype(np.uint8, np.int8)
    numbers = groups.numbers(dtype)
    x = groups.activation(tuple(shape), dtype, numbers)[0]
    pieces = [groups.name("y") for _ in lengths]
    inputs = [x, groups.constant(np.array(lengths, np.int64))]
    groups.nodes.append(helper.make_node("Split", inputs, pieces, axis=axis))
    for piece in pieces:
        groups.quantized(piece, numbers)


def padded(groups):
    dtype = groups.dtype(np.uint8, np.int8)
    numbers = groups.numbers(dtype)
    x = groups.activation(tuple(int(n) for n in groups.rng.integers(3, 9, 2)), dtype, numbers)[0]
    # A Pad of zero elements is eliminated, and 16-bit values cannot be looked up in a table instead.
    inputs = [x, groups.constant(np.maximum(groups.rng.integers(0, 3, 4), [groups.wide, 0, 0, 0]))]
    mode = groups.pick("constant", "constant", "edge", "reflect")
    if mode == "constant" and groups.rng.random() < 0.7:
        inputs.append(groups.constant(np.float32(groups.rng.uniform(-30, 30))))
    groups.quantized(groups.step("Pad", inputs, mode=mode), numbers)


def norm(op, *constants, shape=(2, 6, 5, 7), **attrs):
    def make(groups):
        x = groups.activation(shape, groups.pick(np.uint8, np.int8))
        numbers = [groups.constant(groups.rng.uniform(0.5, 1.5, n).astype(np.float32)) for n in constants]
        groups.quantized(groups.step(op, [x[0], *numbers], **attrs), groups.numbers(x[1].dtype, 0.02, 0.05))
    return make


# Kinds that compute with numbers, between what makes and what stores them.
OF_NUMBERS = {"layer_norm", "instance_norm", "lp_norm", "resize_linear", "resize_cubic"}

KINDS = {
    "conv": convolution,
    "depthwise": lambda groups: convolution(groups, depthwise=True),
    "deconv": deconvolution,
    "matmul": matmul,
    "linear": linear,
    "gemm": gemm,
    "add": binary("Add"),
    "mul": binary("Mul"),
    "sum": binary("Sum"),
    "sigmoid": unary("Sigmoid"),
    "leaky_relu": unary("LeakyRelu", alpha=0.1),
    "tanh": unary("Tanh"),
    "hard_swish": unary("HardSwish"),
    "elu": unary("Elu", alpha=0.7),
    "relu": unary("Relu"),
    "requantized": requantized,
    "silu": silu,
    "softmax": softmax,
    "concat": concat,
    "max_pool": pool("MaxPool"),
    "average_pool": pool("AveragePool"),
    "global_average_pool": pool("GlobalAveragePool"),
    "transpose": moved("Transpose", perm=[0, 2, 3, 1]),
    "reshape": moved("Reshape"),
    "gather": moved("Gather", axis=1),
    "slice": moved("Slice"),
    "depth_to_space": moved("DepthToSpace", blocksize=2),
    "split": split,
    "pad": padded,
    "resize": moved("Resize", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize_linear": resampled("linear"),
    "resize_cubic": resampled("cubic"),
    "layer_norm": norm("LayerNormalization", 7, 7, axis=-1),
    "instance_norm": norm("InstanceNormalization", 6, 6),
    "lp_norm": norm("LpNormalization", axis=-1),
}

# Those that there are of other values as well.
OF_WEIGHTS = "conv depthwise deconv matmul linear gemm".split()
FORMS = {
    WIDE: [*OF_WEIGHTS, *"transpose reshape gather slice depth_to_space split pad resize".split()],
    # Of `linear` ONNX Runtime's optimizer makes a model that it refuses.
    NARROW: [kind for kind in OF_WEIGHTS if kind != "linear"],
}


def by_onnxruntime(model, fed, level):
    options = exact.options()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, fed)))


def by_udo(udo, model, fed, folder):
    """Runs the model, and returns its outputs and the number of fused groups."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    command = [udo, "run", path, "--output-dir", folder]
    for name, values in fed.items():
        np.save(folder / f"{name}.npy", values)
        command += ["--input", f"{name}={folder / name}.npy"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ran.returncode:
        sys.exit(f"{model.graph.name}: {ran.stderr.strip()}")
    made = {output.name: np.load(folder / f"{output.name}.npy") for output in model.graph.output}
    told = subprocess.run([udo, "explain", path, "--passes"], capture_output=True, text=True, timeout=300, check=True).stdout
    return made, int(told.split("quantized: ")[1].split()[0])


def compare(udo, kind, form, rng, count):
    """Compares groups of one kind; returns the faults, and how many values differ from ONNX Runtime's."""
    faults, unequal, total = [], 0, 0
    for first in range(0, count, PER_MODEL):
        groups = Groups(rng, form)
        for _ in range(min(PER_MODEL, count - first)):
            KINDS[kind](groups)
        model = groups.model()
        with tempfile.TemporaryDirectory() as folder:
            made, fused = by_udo(udo, model, groups.fed, Path(folder))
        # Numbers are faster at a filter for each channel.
        is_float = kind in OF_NUMBERS or (kind, form) == ("depthwise", WIDE)
        if not is_float and fused != len(made):
            faults.append(f"{kind}: {fused} of {len(made)} groups became one operator")
        as_they_are = by_onnxruntime(model, groups.fed, LEVELS.ORT_DISABLE_ALL)
        optimized = by_onnxruntime(model, groups.fed, LEVELS.ORT_ENABLE_ALL)
        for name, found in made.items():
            exact = groups.exact.get(name)
            if exact is not None and not is_float and not np.array_equal(found, exact):
                off = int(np.count_nonzero(found != exact))
                faults.append(f"{kind}: {off} of {found.size} values are not what sums of integers make")
            for what, wanted in [("the nodes", as_they_are[name]), ("ONNX Runtime's operators", optimized[name])]:
                apart = np.abs(found.astype(int) - wanted.astype(int)).max(initial=0)
                if apart > 1:
                    faults.append(f"{kind}: {apart} steps from {what}")
            unequal += int(np.count_nonzero(found != optimized[name]))
            total += found.size
    if unequal > MOST_UNEQUAL * total and form != WIDE:
        faults.append(f"{kind}: {unequal} of {total} values differ from ONNX Runtime's")
    return faults, unequal, total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--groups", type=int, default=200, help="number of groups of each kind (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers (default 1)")
    parser.add_argument("--only", default="", help="run the kinds whose names contain this")
    args = parser.parse_args()
    faults = []
    of_forms = [(kind, form) for form, kinds in FORMS.items() for kind in kinds]
    for at, (kind, form) in enumerate([*((kind, "") for kind in KINDS), *of_forms]):
        name = f"{kind} ({form})" if form else kind
        if args.only in name:
            rng = np.random.default_rng(args.seed + at)
            found, unequal, total = compare(args.udo, kind, form, rng, args.groups)
            print(f"{name:35} {unequal} of {total} values unequal to ONNX Runtime's", flush=True)
            faults += found
    print("\n".join([*faults, f"{len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
