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

RUNTIME = Path(__file__).parents[2] / "runtime"
OPS = RUNTIME / "ops/src/ops/microsoft"
UPGRADES = RUNTIME / "src/resolve/upgrade/mod.rs"
COMPOSED = re.compile(r'composed\((?:MICROSOFT|""), "(\w+)"')

RNG = np.random.default_rng(1)
U8, I8 = np.uint8, np.int8


def floats(*dims, low=-2, high=2):
    return RNG.uniform(low, high, dims).astype(np.float32)


def values(dtype, *dims):
    ends = np.iinfo(dtype)
    return RNG.integers(ends.min, ends.max + 1, dims).astype(dtype)


def scale(value):
    return np.array(value, np.float32)


def zero(dtype, value):
    return np.array(value, dtype)


class Case:
    """A node of `op`; inputs are fed but for those at the places in `held`, which the model holds, and those that are None."""

    def __init__(self, op, inputs, outputs=1, held=(), domain="com.microsoft", **attrs):
        self.op, self.inputs, self.held, self.attrs = op, inputs, held, attrs
        self.domain = domain
        self.outputs = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs

    def name(self):
        forms = [f"{x.dtype}{list(x.shape)}" for x in self.inputs if x is not None]
        attrs = [f"{key}={value}" for key, value in self.attrs.items()]
        return " ".join([self.op, *forms, *attrs])

    def fed(self):
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None and i not in self.held}

    def model(self):
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, self.outputs, name="node",
                                domain=self.domain, **self.attrs)
        given = [helper.make_tensor_value_info(
                     name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for name, x in self.fed().items()]
        held = [numpy_helper.from_array(self.inputs[i], f"x{i}") for i in self.held]
        made = [onnx.ValueInfoProto(name=name) for name in self.outputs if name]
        graph = helper.make_graph([node], "case", given, made, held)
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
            a = values(a_type, *((65, 17) if trans_a else (17, 65)))
            b = values(b_type, *((33, 65) if trans_b else (65, 33)))
            attrs = {"transA": trans_a, "transB": trans_b, "alpha": 0.5}
            c = RNG.integers(-5000, 5000, 33).astype(np.int32)
            one = [a, scale(0.02), zero(a_type, 3), b, scale(0.05), zero(b_type, 100), c]
            columns = [a, scale(0.02), zero(a_type, 3), b, floats(33, low=0.01, high=0.02),
                       values(b_type, 33), None]
            for inputs in [one, columns]:
                yield Case("QGemm", [*inputs, None, None], held=[3], **attrs)
                yield Case("QGemm", [*inputs, scale(2.5), zero(a_type, 100)], **attrs)


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


def onnx_functions():
    """Operators of ONNX's that resolve to a few others."""
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
    yield from onnx_functions()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="the program")
    parser.add_argument("--only", default="", help="only operators with this in their name")
    args = parser.parse_args()
    wanted = [case for case in cases() if args.only in case.op]
    without = named() - {spelled(case.op) for case in wanted}
    faults = [] if args.only else [f"{op}: no case" for op in sorted(without)]
    with tempfile.TemporaryDirectory() as scratch:
        for at, case in enumerate(wanted):
            work = Path(scratch) / str(at)
            work.mkdir()
            fault = difference(args.udo, case, work)
            faults += [f"{case.name()}: {fault}"] if fault else []
    print("\n".join([*faults, f"{len(wanted)} cases, {len(faults)} faults"]))
    return 1 if faults else 0


def spelled(op):
    """An operator as its file is called, without what parts words."""
    return op.lower()


def named():
    """The operators that there are, as they are spelled."""
    composed = COMPOSED.findall(UPGRADES.read_text(encoding="utf-8"))
    return {path.stem.replace("_", "") for path in OPS.glob("*.rs")} | set(map(spelled, composed))


def difference(udo, case, work):
    """What is wrong with the program's results, if anything."""
    model, fed = case.model(), case.fed()
    options = onnxruntime.SessionOptions()
    # As the nodes are, without fusions of the optimizer.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    results = session.run(None, fed)
    onnx.save(model, work / "model.onnx")
    for i, x in enumerate(fed.values()):
        (work / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    for i, y in enumerate(results):
        (work / f"output_{i}.pb").write_bytes(numpy_helper.from_array(y).SerializeToString())
    steps = [] if any(y.dtype.kind == "f" for y in results) else ["--rtol", "0", "--atol", "1"]
    command = [udo, "verify", work / "model.onnx", "--data", work, *steps]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return ran.stderr.strip() + ran.stdout.strip() if ran.returncode else None


if __name__ == "__main__":
    sys.exit(main())
