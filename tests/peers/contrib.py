#!/usr/bin/env python3
"""Runs operators of the domain com.microsoft and others that are ONNX Runtime's, and compares with it.

There is a case for each form of each operator, those that resolve to a few others included. Values of integer types may lie one step from ONNX Runtime's, which rounds
what it computes in another order. The exit code is 1 if one differs or is refused, or if an operator has no case.

    python tests/peers/contrib.py --udo target/release/udo [--only NAME]

needs: numpy, onnx, onnxruntime
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import exact
from varied import Constant, varied

ROOT = Path(__file__).parents[2]
OPS = ROOT / "runtime/ops/src/ops/microsoft"
UPGRADES = ROOT / "runtime/compile/src/resolve/upgrade.rs"
COMPOSED = re.compile(r'composed\((?:MICROSOFT|""), "(\w+)"')

RNG = np.random.default_rng(1)
U8, I8 = np.uint8, np.int8


def floats(*dims, low=-2, high=2):
    return RNG.uniform(low, high, dims).astype(np.float32)


def values(dtype, *dims):
    ends = np.iinfo(dtype)
    # Two products of such a u8 and i8 fit 16 bits, where ONNX Runtime cuts off their sum on processors without instructions for four.
    low, high = (-64, 63) if dtype == I8 else (ends.min, ends.max)
    return RNG.integers(low, high + 1, dims).astype(dtype)


def scale(value):
    return np.array(value, np.float32)


def zero(dtype, value):
    return np.array(value, dtype)


class Case:
    """A node of `op`; inputs are fed but for those at the places in `held`, which the model holds, and those that are None.

    ONNX Runtime runs the nodes `like` in its place where it has the operator on GPUs alone; what differs by less than
    `within` is the same. `constant` is why the results do not vary, where they do not.
    """

    def __init__(self, op, inputs, outputs=1, held=(), domain="com.microsoft", like=None, within=None,
                 constant=None, **attrs):
        self.op, self.inputs, self.held, self.attrs = op, inputs, held, attrs
        self.domain, self.like, self.within, self.constant = domain, like, within, constant
        self.outputs = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs

    def name(self):
        forms = [f"{x.dtype}{list(x.shape)}" for x in self.inputs if x is not None]
        attrs = [f"{key}={value}" for key, value in self.attrs.items()]
        return " ".join([self.op, *forms, *attrs])

    def fed(self):
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None and i not in self.held}

    def model(self, nodes=None):
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, self.outputs, name="node",
                                domain=self.domain, **self.attrs)
        given = [helper.make_tensor_value_info(
                     name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for name, x in self.fed().items()]
        held = [numpy_helper.from_array(self.inputs[i], f"x{i}") for i in self.held]
        made = [onnx.ValueInfoProto(name=name) for name in self.outputs if name]
        graph = helper.make_graph(nodes or [node], "case", given, made, held)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def unary(op, **attrs):
    """A function of one operand, whose encodings are known before the run or come with it."""
    for dtype, x_zero, y_zero in [(U8, 128, 3), (I8, -3, -100)]:
        inputs = [values(dtype, 2, 300), scale(0.05), zero(dtype, x_zero), scale(0.02),
                  zero(dtype, y_zero)]
        yield Case(op, inputs, **attrs)
        yield Case(op, inputs, held=[1, 2, 3, 4], **attrs)
    yield Case(op, [values(U8, 7), scale(0.02), None, scale(0.01), None], **attrs)


def products():
    """Products of 8-bit integers, with their numbers per tensor and per column."""
    for a_type, b_type in [(U8, U8), (U8, I8), (I8, I8)]:
        for rows, depth, cols in [(1, 40, 300), (17, 65, 33)]:
            a, b = values(a_type, 2, rows, depth), values(b_type, depth, cols)
            numbers = [scale(0.02), floats(cols, low=0.01, high=0.02), zero(a_type, 5),
                       values(b_type, cols), floats(cols)]
            for held in [[1], []]:
                yield Case("MatMulIntegerToFloat", [a, b, *numbers], held=held)
            yield Case("MatMulIntegerToFloat", [a, b, scale(0.02), scale(0.1)], held=[1])
    for b_type in [U8, I8]:
        a, b = floats(2, 17, 65), values(b_type, 65, 33)
        yield Case("DynamicQuantizeMatMul", [a, b, scale(0.02)], held=[1])
        numbers = [floats(33, low=0.01, high=0.02), values(b_type, 33), floats(33)]
        yield Case("DynamicQuantizeMatMul", [a, b, *numbers], held=[1])
    yield from gemms()


def gemms():
    # ONNX Runtime has no product of a signed left and an unsigned right side.
    for a_type, b_type in [(U8, U8), (U8, I8), (I8, I8)]:
        for trans_a, trans_b in [(0, 0), (0, 1), (1, 0)]:
            # Products of these two types are far below 0: with smaller steps all would be clipped.
            step = 5.0 if (a_type, b_type) == (U8, I8) else 2.5
            a = values(a_type, *((65, 17) if trans_a else (17, 65)))
            b = values(b_type, *((33, 65) if trans_b else (65, 33)))
            attrs = {"transA": trans_a, "transB": trans_b, "alpha": 0.5}
            c = RNG.integers(-5000, 5000, 33).astype(np.int32)
            one = [a, scale(0.02), zero(a_type, 3), b, scale(0.05), zero(b_type, 100), c]
            columns = [a, scale(0.02), zero(a_type, 3), b, floats(33, low=0.01, high=0.02),
                       values(b_type, 33), None]
            for inputs in [one, columns]:
                yield Case("QGemm", [*inputs, None, None], held=[3], **attrs)
                yield Case("QGemm", [*inputs, scale(step), zero(a_type, 100)], **attrs)


def binary(op):
    """Operands that broadcast, their encodings fed or held."""
    for dtype, at in [(U8, 100), (I8, -20)]:
        for a, b in [((2, 3, 40), (2, 3, 40)), ((2, 3, 40), (3, 1)), ((1, 40), (7, 1)), ((5,), ())]:
            inputs = [values(dtype, *a), scale(0.05), zero(dtype, at), values(dtype, *b),
                      scale(0.02), zero(dtype, at + 5), scale(0.06), zero(dtype, at - 7)]
            yield Case(op, inputs)
            yield Case(op, inputs, held=[1, 2, 3, 4, 5, 6, 7])


def pools():
    for dtype, at in [(U8, 100), (I8, -20)]:
        numbers = [scale(0.05), zero(dtype, at), scale(0.02), zero(dtype, at + 5)]
        for last in [0, 1]:
            image = values(dtype, 2, *((9, 8, 5) if last else (5, 9, 8)))
            yield Case("QLinearGlobalAveragePool", [image, *numbers], channels_last=last)
            for attrs in [{}, {"pads": [1, 0, 1, 1], "strides": [2, 1]},
                          {"pads": [1, 1, 1, 1], "count_include_pad": 1},
                          {"strides": [2, 2], "ceil_mode": 1}]:
                yield Case("QLinearAveragePool", [image, *numbers], kernel_shape=[3, 2],
                           channels_last=last, **attrs)


def softmaxes():
    for dtype, least in [(U8, 0), (I8, -128)]:
        numbers = [scale(0.05), zero(dtype, 3), scale(1 / 256), zero(dtype, least)]
        for opset, axis in [(13, -1), (13, 1), (11, 1), (11, 2)]:
            yield Case("QLinearSoftmax", [values(dtype, 3, 4, 50), *numbers], axis=axis, opset=opset)


def concats():
    for dtype, at in [(U8, 100), (I8, -20)]:
        for axis in [0, 1, -1]:
            parts = []
            for extent, step in [(2, 0.05), (1, 0.02), (4, 0.03)]:
                dims = [3, 5, 6]
                dims[axis] = extent
                parts += [values(dtype, *dims), scale(step), zero(dtype, at + extent)]
            inputs = [scale(0.04), zero(dtype, at), *parts]
            held = [i for i in range(len(inputs)) if i < 2 or i % 3 != 2]
            yield Case("QLinearConcat", inputs, held=held, axis=axis)


def linears():
    for dtype in [U8, I8, np.uint16, np.int16]:
        x = floats(2, 3, 40, low=-30, high=30)
        steps, zeros = floats(3, low=0.01, high=0.2), values(dtype, 3)
        yield Case("QuantizeLinear", [x, scale(0.1), zero(dtype, 3)])
        yield Case("QuantizeLinear", [x, steps, zeros], axis=1)
        q = values(dtype, 2, 3, 40)
        yield Case("DequantizeLinear", [q, scale(0.1), zero(dtype, 3)])
        yield Case("DequantizeLinear", [q, steps, zeros], axis=1)


def gelus():
    """Functions of a sum with a bias, which may be left out of one of them."""
    x, bias = floats(3, 2, 70, low=-6, high=6), floats(70)
    for held in [[1], []]:
        yield Case("BiasGelu", [x, bias], held=held)
        yield Case("FastGelu", [x, bias], held=held)
    yield Case("FastGelu", [x])


def side(rows, cols, batch, trans, trans_batch):
    """A matrix of each batch as a product takes it that transposes it."""
    rows, cols = (cols, rows) if trans else (rows, cols)
    return floats(rows, *batch, cols) if trans_batch else floats(*batch, rows, cols)


def fused_products():
    for trans_a, trans_b, batch_a, batch_b in np.ndindex(2, 2, 2, 2):
        attrs = {"transA": trans_a, "transB": trans_b, "transBatchA": batch_a, "transBatchB": batch_b}
        for batch in [(3,), (2, 3)]:
            a = side(5, 17, batch, trans_a, batch_a)
            b = side(17, 9, batch, trans_b, batch_b)
            yield Case("FusedMatMul", [a, b], alpha=0.25, **attrs)
        if not batch_a and not batch_b:
            b = side(17, 9, (), trans_b, 0)
            yield Case("FusedMatMul", [a, b], held=[1], **attrs)
            yield Case("FusedMatMul", [side(5, 17, (), trans_a, 0), b], alpha=-2.0, **attrs)
    yield Case("TransposeMatMul", [floats(2, 17, 5), floats(17, 9)], transA=1)
    for a, b in [(floats(17), floats(17)), (floats(17), floats(17, 9)), (floats(5, 17), floats(17))]:
        yield Case("FusedMatMul", [a, b], alpha=3.0)


def skips():
    """Rows that are added, then normalized; the sum may be an output as well."""
    rows, scale_of, beta, bias = [floats(2, 5, 70), floats(2, 5, 70)], *(floats(70) for _ in "sbb")
    sum_too = ["y", "", "", "sum"]
    for epsilon in [{}, {"epsilon": 0.125}]:
        for last in [None, bias]:
            for outputs in [1, sum_too]:
                both = {"outputs": outputs, **epsilon}
                yield Case("SkipLayerNormalization", [*rows, scale_of, beta, last], **both)
                yield Case("SkipSimplifiedLayerNormalization", [*rows, scale_of, last], **both)
    yield Case("SkipLayerNormalization", [*rows, scale_of], held=[2])
    yield Case("SkipLayerNormalization", [rows[0], rows[1][:1], scale_of, beta], held=[2, 3])
    yield Case("SimplifiedLayerNormalization", [rows[0], scale_of], domain="")
    yield Case("SimplifiedLayerNormalization", [rows[0], floats(5, 70)], domain="", axis=1,
               epsilon=0.125, stash_type=1)


def ints(*rows, dtype=np.int32):
    return np.array(rows, dtype)


def attentions():
    """Attention whose queries, keys and values are products with one matrix."""
    batch, length, hidden, heads, width = 2, 5, 24, 3, 48
    def fused_inputs(past=0):
        x, weights, bias = floats(batch, length, hidden), floats(hidden, 3 * width), floats(3 * width)
        state = floats(2, batch, heads, past, width // heads) if past else None
        return [x, weights, bias, None, state, None]
    held = [1, 2]
    def masks(keys):
        yield ints(3, keys)
        yield ints(3, keys, 1, 0)
        yield RNG.integers(0, 2, (batch, keys)).astype(np.int32)
        yield RNG.integers(0, 2, (batch, length, keys)).astype(np.int32)
    for past in [0, 4]:
        for mask in [None, *masks(length + past)]:
            for attrs in [{}, {"unidirectional": 1}]:
                # ONNX Runtime leaves out what follows where it is to mask what comes first as well.
                if attrs and mask is not None and mask.ndim == 1:
                    continue
                inputs = fused_inputs(past)
                inputs[3] = mask
                yield Case("Attention", inputs, 2 if past else 1, held, num_heads=heads, **attrs)
    for bias in [floats(batch, heads, length, length), floats(1, 1, length, length)]:
        inputs = fused_inputs()
        inputs[5] = bias
        yield Case("Attention", inputs, 1, held, num_heads=heads, scale=0.3)
        masked = [*inputs[:3], RNG.integers(0, 2, (batch, length)).astype(np.int32), *inputs[4:]]
        yield Case("Attention", masked, 1, held, num_heads=heads, mask_filter_value=-50.0)
    yield Case("Attention", fused_inputs(), held=held, num_heads=heads)
    yield Case("Attention", fused_inputs(), num_heads=heads)
    x, _, _, *_ = fused_inputs()
    yield Case("Attention", [x, floats(hidden, 24 + 24 + 30), floats(78)], held=held, num_heads=heads,
               qkv_hidden_sizes=[24, 24, 30])
    for dtype in [U8, I8]:
        for past in [None, floats(2, batch, heads, 4, 16)]:
            x, weights = values(U8, batch, length, hidden), values(dtype, hidden, 3 * width)
            mask = ints(3, length + (0 if past is None else 4))
            inputs = [x, weights, floats(3 * width), scale(0.02), scale(0.01), mask, zero(U8, 120),
                      zero(dtype, 3), past]
            yield Case("QAttention", inputs, 2, [1, 2, 4, 7], num_heads=heads)
    columns = [x, weights, floats(3 * width), scale(0.02), floats(3 * width, low=0.01, high=0.02), None,
               zero(U8, 120), values(dtype, 3 * width)]
    yield Case("QAttention", columns, 1, [1, 2, 4, 7], num_heads=heads, unidirectional=1)


def heads_of_attentions():
    """Queries, keys and values of their own."""
    batch, queries, keys, heads = 2, 5, 7, 3
    def sides(new=keys):
        return [floats(batch, queries, 24), floats(batch, new, 24), floats(batch, new, 36)]
    lengths, padding = ints(3, keys), RNG.integers(0, 2, (batch, keys)).astype(np.int32)
    each = RNG.integers(0, 2, (batch, queries, keys)).astype(np.int32)
    op, attrs = "MultiHeadAttention", {"num_heads": heads}
    yield Case(op, sides(), **attrs)
    yield Case(op, [*sides(), floats(84)], held=[3], scale=0.25, **attrs)
    for mask in [lengths, padding, each]:
        yield Case(op, [*sides(), floats(84), mask], held=[3], **attrs)
        yield Case(op, [*sides(), None, mask, floats(1, heads, queries, keys)], **attrs)
    yield Case(op, [*sides(queries), None, None, floats(batch, 1, queries, queries)], unidirectional=1,
               **attrs)
    past = [floats(batch, heads, 4, 8), floats(batch, heads, 4, 8)]
    total = RNG.integers(0, 2, (batch, 4 + queries)).astype(np.int32)
    same = [floats(batch, queries, 24) for _ in "qkv"]
    yield Case(op, [*same, floats(72), None, None, *past], 3, unidirectional=1, **attrs)
    yield Case(op, [*same, floats(72), total, None, *past], 3, **attrs)
    yield Case(op, sides(), 3, **attrs)
    apart = [floats(batch, queries, 24), floats(batch, heads, keys, 8), floats(batch, heads, keys, 8)]
    yield Case(op, apart, **attrs)
    yield Case(op, [*apart, None, padding], **attrs)
    yield from packed_heads()


def packed_heads():
    """Those that lie side by side, which ONNX Runtime has for GPUs: it is given them apart."""
    def apart(name, count):
        parts = [f"{name}{i}" for i in range(count)]
        yield helper.make_node("Split", [name], parts, axis=3, num_outputs=count)
        for part in parts:
            yield helper.make_node("Reshape", [part, "rows"], [f"{part}r"])
    rows = helper.make_node("Constant", [], ["rows"], value_ints=[0, 0, -1])
    def whole(*names):
        return helper.make_node("MultiHeadAttention", names, ["y0"], domain="com.microsoft", num_heads=3)
    x = floats(2, 5, 3, 3, 8)
    like = [rows, *apart("x0", 3), whole("x00r", "x01r", "x02r")]
    yield Case("MultiHeadAttention", [x], like=like, num_heads=3)
    like = [rows, *apart("x1", 2), whole("x0", "x10r", "x11r")]
    yield Case("MultiHeadAttention", [floats(2, 5, 24), floats(2, 7, 3, 2, 8)], like=like, num_heads=3)


def embeddings():
    """Sums of embeddings of words, positions and segments."""
    words, segments = RNG.integers(0, 30, (2, 5)).astype(np.int32), RNG.integers(0, 2, (2, 5)).astype(np.int32)
    tables, ends = [floats(30, 16), floats(9, 16), floats(2, 16)], [floats(16), floats(16)]
    mask = ints([1, 1, 1, 0, 0], [1, 1, 1, 1, 0])
    places = ints([3, 1, 4, 1, 5], [0, 8, 2, 6, 7])
    op, held = "EmbedLayerNormalization", [2, 3, 4, 5, 6]
    yield Case(op, [words, segments, *tables, *ends, mask], 3, held, epsilon=0.125)
    yield Case(op, [words, segments, *tables, *ends], 2, held)
    plain = [words, None, *tables[:2], None, *ends]
    yield Case(op, [*plain, mask], 2, [2, 3, 5, 6])
    yield Case(op, [*plain, None, places], ["y", "lengths", "sum"], [2, 3, 5, 6])
    for dtype in [U8, I8]:
        tables = [values(dtype, *dims) for dims in [(30, 16), (9, 16), (2, 16), (16,), (16,)]]
        scales = [scale(step) for step in [0.01, 0.02, 0.03, 0.04, 0.05]]
        zeros = [zero(dtype, at) for at in [3, 4, 5, 6, 7]]
        inputs = [words, segments, *tables, mask, *scales, *zeros]
        yield Case("QEmbedLayerNormalization", inputs, 2, [2, 3, 4, 5, 6, *range(8, 18)])


def fused():
    """Yields operators that ONNX Runtime's optimizer fuses from several nodes."""
    image, weights, bias = floats(2, 3, 9, 8), floats(4, 3, 3, 3), floats(4)
    for activation, params in [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]),
                               ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4])]:
        attrs = {"activation": activation, "pads": [1, 1, 1, 1], "strides": [2, 1]}
        attrs |= {"activation_params": params} if params else {}
        yield Case("FusedConv", [image, weights, bias], held=[1, 2], **attrs)
    yield Case("FusedConv", [image, weights, None, floats(2, 4, 7, 6)], held=[1], activation="Relu")
    for activation, attrs in [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2})]:
        inputs = [floats(5, 17), floats(9, 17), floats(9)]
        yield Case("FusedGemm", inputs, held=[1, 2], activation=activation, transB=1, alpha=0.5, **attrs)
    for dtype in [U8, I8]:
        x = values(dtype, 2, 9, 8, 5)
        yield Case("NhwcMaxPool", [x], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        numbers = [scale(0.02), zero(dtype, 3)]
        for last in [0, 1]:
            x = values(dtype, 2, *((9, 8, 6) if last else (6, 9, 8)))
            weights = [values(I8, 4, 3, 3, 2), floats(4, low=0.01, high=0.02), zero(I8, 0)]
            inputs = [x, *numbers, *weights, scale(2.0), zero(dtype, 5), RNG.integers(-500, 500, 4).astype(np.int32)]
            yield Case("QLinearConv", inputs, held=range(1, 9), group=2, strides=[2, 1], pads=[1, 0, 1, 1],
                       channels_last=last)
    attrs = {"strides": [2, 1], "pads": [1, 0, 1, 1], "group": 2}
    conv = [helper.make_node("Transpose", ["x0"], ["x"], perm=[0, 3, 1, 2]),
            helper.make_node("Transpose", ["x1"], ["w"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", ["x", "w", "x2"], ["y"], **attrs),
            helper.make_node("Transpose", ["y"], ["y0"], perm=[0, 2, 3, 1])]
    for held in [[], [1, 2]]:
        inputs = [floats(2, 9, 8, 6), floats(4, 3, 2, 3), floats(4)]
        yield Case("NhwcConv", inputs, like=conv, held=held, **attrs)
    x, row, skip = floats(2, 5, 12), floats(12), floats(2, 5, 12)
    add = [helper.make_node("Add", ["x0", "x1"], ["s"]), helper.make_node("Add", ["s", "x2"], ["y0"])]
    yield Case("BiasAdd", [x, row, skip], like=add, held=[1])
    half = [helper.make_node("Add", ["x0", "x1"], ["s"]),
            helper.make_node("Split", ["s"], ["a", "b"], axis=-1, num_outputs=2),
            helper.make_node("Gelu", ["b"], ["g"], domain="com.microsoft"),
            helper.make_node("Mul", ["a", "g"], ["y0"])]
    yield Case("BiasSplitGelu", [x, row], like=half, held=[1])


def rotations():
    """Yields rotary embeddings."""
    cos, sin = floats(9, 4), floats(9, 4)
    places = ints([3, 1, 4, 1, 5], [0, 8, 2, 6, 7], dtype=np.int64)
    for position in [places, ints(2, dtype=np.int64)]:
        for interleaved in [0, 1]:
            attrs = {"interleaved": interleaved}
            yield Case("RotaryEmbedding", [floats(2, 5, 24), position, cos, sin], held=[2, 3], **attrs)
            yield Case("RotaryEmbedding", [floats(2, 3, 5, 8), position, cos, sin], held=[2, 3], **attrs)
            yield Case("RotaryEmbedding", [floats(2, 5, 36), position, cos, sin], held=[2, 3],
                       num_heads=3, rotary_embedding_dim=8, **attrs)


def twins():
    """Yields operators that ONNX has under another name or with other attributes."""
    for start, limit, delta in [(2.0, 9.0, 1.5), (9.0, -3.0, -2.0)]:
        numbers = [np.array([n], np.float32) for n in [start, limit, delta]]
        yield Case("Range", numbers, held=[0, 1, 2])
    yield Case("Range", [np.array(n, np.int64) for n in [3, 8]], held=[0, 1])
    for upper in [0, 1]:
        yield Case("Trilu", [floats(2, 4, 5), np.array(1, np.int64)], held=[1], upper=upper)
    yield Case("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], 3)
    for axis in [0, 1, -1]:
        yield Case("ExpandDims", [floats(2, 3), np.array(axis, np.int32)], held=[1])
    yield Case("Pad", [floats(2, 3), ints(0, 2, 1, 1, dtype=np.int64), scale(0.5)], held=[1, 2])
    for mode in ["constant", "reflect", "edge"]:
        yield Case("Pad", [floats(3, 4), ints([1, 0, 2, 1], dtype=np.int64)], held=[1], mode=mode)
    for mode in ["bilinear", "nearest", "bicubic"]:
        for padding in ["zeros", "border", "reflection"]:
            yield Case("GridSample", [floats(2, 3, 5, 6), floats(2, 4, 3, 2, low=-1.2, high=1.2)],
                       mode=mode, padding_mode=padding, align_corners=1)
    indices = ints([0, 1], [1, 0], dtype=np.int64)
    yield Case("GatherND", [floats(2, 2, 3), indices])
    for metric in ["sqeuclidean", "euclidean"]:
        yield Case("CDist", [floats(4, 6), floats(5, 6)], metric=metric)


def steps_of_values():
    """Yields operators on quantized values, as nodes between DequantizeLinear and QuantizeLinear."""
    for dtype, at in [(U8, 100), (I8, -20)]:
        inputs = [RNG.integers(0, 2, (2, 1, 5)).astype(bool), values(dtype, 2, 3, 5), scale(0.05), zero(dtype, at),
                  values(dtype, 3, 1), scale(0.03), zero(dtype, at + 4), scale(0.06), zero(dtype, at - 7)]
        yield Case("QLinearWhere", inputs, held=[2, 3, 5, 6, 7, 8])
        numbers = [scale(0.05), zero(dtype, at), scale(0.02), zero(dtype, at + 5)]
        mean = [values(dtype, 2, 3, 40), *numbers]
        like = [helper.make_node("DequantizeLinear", ["x0", "x1", "x2"], ["x"]),
                helper.make_node("Constant", [], ["axes"], value_ints=[1, 2]),
                helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
                helper.make_node("QuantizeLinear", ["mean", "x3", "x4"], ["y0"])]
        yield Case("QLinearReduceMean", mean, like=like, axes=[1, 2], keepdims=0)
    weights, states = values(I8, 1, 6, 32), values(I8, 1, 8, 32)
    ones = [np.array([0.01], np.float32), np.array([3], I8), np.array([0.02], np.float32), np.array([-2], I8)]
    x, bias = floats(7, 2, 6, low=-1, high=1), floats(1, 64, low=-1, high=1)
    inputs = [x, weights, states, bias, None, None, None, None, *ones]
    # ONNX Runtime quantizes the input and each state to 8 bits.
    yield Case("DynamicQuantizeLSTM", inputs, 3, [1, 2, 3, 8, 9, 10, 11], within=0.05, hidden_size=8)


def blocks():
    """Yields matrix products and lookups in tables with a scale for each block of values."""
    for bits, block in [(2, 16), (2, 64), (4, 16), (4, 32), (4, 128), (8, 32), (8, 64)]:
        for rows, depth, columns in [(1, 256, 48), (3, 256, 33), (40, 256, 300)]:
            count = -(-depth // block)
            data = values(U8, columns, count, block * bits // 8)
            scales, bias = floats(columns * count, low=0.01, high=0.1), floats(columns)
            sizes = {"K": depth, "N": columns, "bits": bits, "block_size": block}
            zeros = values(U8, columns * -(-count * bits // 8))
            for last in [[], [zeros], [None, None, bias], [zeros, None, bias]]:
                inputs = [floats(2, rows, depth), data, scales, *last]
                held = [i for i in range(1, len(inputs)) if inputs[i] is not None]
                within = None if bits == 4 else 2e-3
                yield Case("MatMulNBits", inputs, held=held, within=within, **sizes)
    inputs = [floats(5, 100), values(U8, 7, 4, 16), floats(28, low=0.01, high=0.1), values(U8, 14)]
    yield Case("MatMulNBits", inputs, held=[1, 2, 3], K=100, N=7, bits=4, block_size=32)
    for bits, block in [(4, 16), (4, 32), (8, 16)]:
        data, indices = values(U8, 9, 64 * bits // 8), ints([3, -9, 8], [0, 1, 1], dtype=np.int64)
        scales = floats(9, 64 // block, low=0.01, high=0.1)
        sizes = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
        yield Case("GatherBlockQuantized", [data, indices, scales], held=[0, 2], **sizes)
        zeros = values(U8, 9, 64 // block * bits // 8)
        yield Case("GatherBlockQuantized", [data, indices, scales, zeros], held=[0, 2, 3], **sizes)


def groups():
    """Yields grouped-query attention with a cache of keys and values."""
    heads, shared, size = 6, 2, 16
    def sides(batch, queries):
        return [floats(batch, queries, n * size) for n in (heads, shared, shared)]
    def case(sides, past, lengths, total, more=(), known=(6,), **attrs):
        lengths, total = np.array(lengths, np.int32) - 1, np.array(total, np.int32)
        inputs = [*sides, *past, lengths, total, *more]
        return Case("GroupQueryAttention", inputs, 3, known, num_heads=heads, kv_num_heads=shared, **attrs)
    def past(batch, room):
        return [floats(batch, shared, room, size), floats(batch, shared, room, size)]
    none, angles = [None, None], [floats(40, 8), floats(40, 8)]
    for attrs in [{}, {"scale": 0.4}, {"softcap": 2.0}, {"local_window_size": 3}, {"smooth_softmax": 1}]:
        yield case(sides(2, 7), none, [7, 7], 7, **attrs)
        yield case(sides(1, 4), past(1, 9), [13], 13, **attrs)
        yield case(sides(2, 1), past(2, 20), [12, 5], 12, **attrs)
    for interleaved in [0, 1]:
        turns = {"do_rotary": 1, "rotary_interleaved": interleaved}
        yield case(sides(2, 7), none, [7, 7], 7, angles, **turns)
        yield case(sides(1, 4), past(1, 9), [13], 13, angles, **turns)
        yield case(sides(2, 1), past(2, 20), [12, 5], 12, angles, **turns)
        yield case(sides(1, 1), past(1, 11), [12], 12, angles, **turns)
    # How many keys there are is another input of the run.
    turns = {"do_rotary": 1, "known": ()}
    yield case(sides(2, 7), none, [7, 7], 7, angles, **turns)
    yield case(sides(1, 4), past(1, 9), [13], 13, angles, **turns)
    yield case(sides(2, 1), past(2, 20), [12, 5], 12, angles, **turns)
    row = [floats(1, 5, (heads + 2 * shared) * size), None, None]
    yield case(row, past(1, 3), [8], 8, angles, **turns)
    bias = [*none, None, floats(1, heads, 5, 8)]
    yield case(sides(1, 5), past(1, 3), [8], 8, bias, known=())
    yield case(row, past(1, 3), [8], 8)
    yield case(row, past(1, 3), [8], 8, angles, do_rotary=1)
    places = ints([4, 2, 0, 1, 7], dtype=np.int64)
    yield case(sides(1, 5), past(1, 3), [8], 8, [*angles, places], do_rotary=1)
    yield case(sides(1, 5), past(1, 3), [8], 8, [*none, None, floats(1, heads, 5, 8)])
    yield case(sides(1, 5), past(1, 3), [8], 8, [*none, None, None, floats(heads)])
    yield case(sides(1, 70), past(1, 300), [370], 370)


def half_precision():
    """Yields operators whose results are f16 if their operands are f16."""
    half = lambda *dims: floats(*dims, low=-1, high=1).astype(np.float16)
    names, wide = [f"x{i}" for i in range(4)], [f"w{i}" for i in range(4)]
    like = [helper.make_node("Cast", [x], [w], to=1) for x, w in zip(names, wide)]
    like += [helper.make_node("LSTM", wide, ["y"], hidden_size=8), helper.make_node("Cast", ["y"], ["y0"], to=10)]
    inputs = [half(7, 2, 6), half(1, 32, 6), half(1, 32, 8), half(1, 64)]
    yield Case("LSTM", inputs, domain="", like=like, within=2e-3, hidden_size=8)
    yield Case("DequantizeLinear", [values(U8, 2, 30), half(), zero(U8, 3)], domain="")


def onnx_functions():
    """Yields operators of ONNX that are decomposed into others."""
    for dims in [(2, 3, 50), (2, 3, 9, 8), (1, 2, 3, 4, 5)]:
        for p in [{}, {"p": 1}, {"p": 3}]:
            yield Case("GlobalLpPool", [floats(*dims)], domain="", **p)
    image = floats(3, 2, 9, 8)
    for axes in [{}, {"axes": [2, 3]}, {"axes": [0, 1, 2, 3]}, {"axes": [-1]}]:
        yield Case("MeanVarianceNormalization", [image], domain="", **axes)


def cases():
    yield from products()
    yield from unary("QLinearSigmoid")
    yield from unary("QLinearLeakyRelu", alpha=0.2)
    yield from binary("QLinearAdd")
    yield from binary("QLinearMul")
    yield from pools()
    yield from softmaxes()
    yield from concats()
    yield from linears()
    yield Case("Gelu", [floats(3, 300, low=-6, high=6)])
    yield Case("QuickGelu", [floats(3, 300, low=-6, high=6)])
    yield Case("QuickGelu", [floats(70)], alpha=0.5)
    yield from gelus()
    yield from fused_products()
    yield from skips()
    yield from attentions()
    yield from heads_of_attentions()
    yield from embeddings()
    yield from fused()
    yield from rotations()
    yield from twins()
    yield from steps_of_values()
    yield from blocks()
    yield from groups()
    yield from half_precision()
    yield from onnx_functions()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--only", default="", help="run the operators whose names contain this")
    args = parser.parse_args()
    selected = [case for case in cases() if args.only in case.op]
    without = named() - {spelled(case.op) for case in selected}
    faults = [] if args.only else [f"{op}: no case" for op in sorted(without)]
    with tempfile.TemporaryDirectory() as scratch:
        for at, case in enumerate(selected):
            work = Path(scratch) / str(at)
            work.mkdir()
            fault = difference(args.udo, case, work)
            faults += [f"{case.name()}: {fault}"] if fault else []
    print("\n".join([*faults, f"{len(selected)} cases, {len(faults)} faults"]))
    return 1 if faults else 0


def spelled(op):
    """Normalizes an operator's name to that of its file, without separators."""
    return op.lower()


def named():
    """Returns the normalized names of all operators that have a file."""
    composed = COMPOSED.findall(UPGRADES.read_text(encoding="utf-8"))
    return {path.stem.replace("_", "") for path in OPS.glob("*.rs")} | set(map(spelled, composed))


def difference(udo, case, work):
    """Compares the results with ONNX Runtime, and returns a description of the first fault."""
    model, fed = case.model(), case.fed()
    options = exact.options()
    # As the nodes are, without fusions of the optimizer.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = case.model(case.like) if case.like else model
    try:
        session = onnxruntime.InferenceSession(reference.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        results = session.run(None, fed)
    except Exception as error:
        return f"ONNX Runtime: {error}"
    try:
        varied(case.name(), results, case.constant)
    except Constant as error:
        return str(error)
    onnx.save(model, work / "model.onnx")
    for i, x in enumerate(fed.values()):
        (work / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    for i, y in enumerate(results):
        (work / f"output_{i}.pb").write_bytes(numpy_helper.from_array(y).SerializeToString())
    steps = [] if any(y.dtype.kind == "f" for y in results) else ["--rtol", "0", "--atol", "1"]
    if case.within is not None:
        steps = ["--rtol", "0", "--atol", str(case.within)]
    command = [udo, "verify", work / "model.onnx", "--data", work, *steps]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return ran.stderr.strip() + ran.stdout.strip() if ran.returncode else None


if __name__ == "__main__":
    sys.exit(main())
