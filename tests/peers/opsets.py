#!/usr/bin/env python3
"""Runs nodes of older operator sets, and compares with what the specification of their set says.

There is a case for each row of runtime/compile/src/resolve/upgrade.rs. Results are compared with numpy's and, where
ONNX Runtime takes the model, with its own. The exit code is 1 if one differs, or if a row has no case.

    python tests/peers/opsets.py --udo target/release/udo

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
from varied import varied

ROWS = Path(__file__).parents[2] / "runtime/compile/src/resolve/upgrade.rs"
ROW = re.compile(r'onnx\("(\w+)", (\d+),')

# Cases whose results are constant, and why.
CONSTANT = {}

RNG = np.random.default_rng(1)


def floats(*dims):
    return RNG.uniform(-2, 2, dims).astype(np.float32)


def positive(*dims):
    return RNG.uniform(0.5, 2, dims).astype(np.float32)


X = floats(2, 3, 4)
IMAGE = floats(1, 3, 2, 2)
CHANNEL = positive(3)
STATISTICS = [positive(3), floats(3), floats(3), positive(3)]


def softmax(x, axis):
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)


def normalized(x):
    scale, bias, mean, var = (s.reshape(1, 3, 1, 1) for s in STATISTICS)
    return (x - mean) / np.sqrt(var + 1e-5) * scale + bias


def grouped(x, groups, scale, bias):
    """Each group of channels less its mean, over its deviation."""
    rows = x.reshape(len(x), groups, -1)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    return (normal * scale.reshape(1, -1, 1) + bias.reshape(1, -1, 1)).reshape(x.shape)


def lstm(x, w, r):
    """The last output of one step from nothing."""
    i, o, _, c = np.split(x[0] @ w[0].T, 4, axis=1)
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    return (sigmoid(o) * np.tanh(sigmoid(i) * np.tanh(c)))[None, None]


def gru(x, w):
    """The last output of one step from nothing."""
    z, _, new = np.split(x[0] @ w[0].T, 3, axis=1)
    return ((1 - 1 / (1 + np.exp(-z))) * np.tanh(new))[None, None]


def adding():
    """A subgraph that adds to a state, and gives it as well."""
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "abst"]
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Identity", ["s"], ["t"])]
    return helper.make_graph(nodes, "adding", infos[:2], infos[2:])


class Case:
    """A node that rows of `op` up to `since` change; constants are inputs that the model holds, and an input that is None
    is left out."""

    def __init__(self, op, since, inputs, outputs, constants=(), opset=None, **attrs):
        self.op, self.since, self.inputs, self.constants = op, since, inputs, list(constants)
        self.outputs, self.attrs, self.opset = outputs, attrs, opset or since - 1

    def name(self):
        return f"{self.op}-{self.opset}"

    def fed(self):
        """Name and array of each input that is there."""
        return [(f"x{i}", x) for i, x in enumerate(self.inputs) if x is not None]

    def model(self):
        given = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        held = [f"c{i}" for i in range(len(self.constants))]
        made = [f"y{i}" for i in range(len(self.outputs))]
        node = helper.make_node(self.op, given + held, made, name="node", **self.attrs)

        def info(name, array):
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, kind, array.shape)

        fed = self.fed() + list(zip(held, self.constants))
        graph = helper.make_graph(
            [node], self.name(), [info(name, array) for name, array in fed],
            [*map(info, made, self.outputs)],
            [numpy_helper.from_array(c, name) for c, name in zip(self.constants, held)])
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=3)


def binary(op, function):
    """A second operand that lies somewhere in the first."""
    a, b = positive(2, 3, 4), positive(3)
    spread = function(a, b.reshape(3, 1))
    yield Case(op, 7, [a, b], [spread], axis=1, broadcast=1)
    last = positive(4)
    yield Case(op, 7, [a], [function(a, last)], [last], broadcast=1)
    if op not in ("Greater", "Less", "Pow"):
        yield Case(op, 6, [a], [spread], [b], axis=1, broadcast=1, consumed_inputs=[0, 0], opset=1)


def cases():
    yield from binary("Add", np.add)
    yield from binary("Sub", np.subtract)
    yield from binary("Mul", np.multiply)
    yield from binary("Div", np.divide)
    yield from binary("Pow", np.power)
    yield from binary("Greater", np.greater)
    yield from binary("Less", np.less)
    bools, some = X > 0, np.array([True, False, True])
    for op, function in [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor),
                         ("Equal", np.equal)]:
        spread = function(bools, some.reshape(3, 1))
        yield Case(op, 7, [bools, some], [spread], axis=1, broadcast=1)
    expm1 = lambda x: np.where(x < 0, np.expm1(x), x)
    slopes = positive(3)
    for op, y, given in [
            ("Abs", np.abs(X), {}), ("Ceil", np.ceil(X), {}), ("Elu", expm1(X), {}),
            ("Exp", np.exp(X), {}), ("Floor", np.floor(X), {}),
            ("HardSigmoid", np.clip(0.2 * X + 0.5, 0, 1), {}),
            ("LeakyRelu", np.where(X < 0, 0.5 * X, X), {"alpha": 0.5}), ("Neg", -X, {}),
            ("Reciprocal", 1 / X, {}),
            ("Selu", 1.0507 * np.where(X < 0, 1.6732 * expm1(X), X), {})]:
        yield Case(op, 6, [X], [y.astype(np.float32)], consumed_inputs=[0], **given)
    roots = positive(2, 3)
    yield Case("Log", 6, [roots], [np.log(roots)], consumed_inputs=[0])
    yield Case("Sqrt", 6, [roots], [np.sqrt(roots)], consumed_inputs=[0])
    yield Case("Mean", 6, [X, -X, X], [X / 3], consumed_inputs=[0, 0, 0])
    sloped = np.where(X < 0, slopes.reshape(3, 1) * X, X)
    yield Case("PRelu", 6, [X], [sloped], [slopes], consumed_inputs=[0])
    yield Case("PRelu", 7, [X], [sloped], [slopes])
    norm = [normalized(IMAGE)]
    for since, attrs in [(6, {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1, "spatial": 1}),
                         (7, {"is_test": 1}), (9, {"spatial": 1}), (14, {"momentum": 0.5})]:
        yield Case("BatchNormalization", since, [IMAGE], norm, STATISTICS, **attrs)
    each = [np.abs(IMAGE[0]) + at for at in range(4)]
    positions = (IMAGE - each[2]) / np.sqrt(each[3] + 1e-5) * each[0] + each[1]
    yield Case("BatchNormalization", 9, [IMAGE], [positions], each, spatial=0, opset=7)
    yield Case("Cast", 6, [X], [X.astype(np.int64)], to="INT64", opset=1)
    yield Case("Cast", 6, [X], [X.astype(np.float64)], to="DOUBLE")
    yield Case("Clip", 6, [X], [np.maximum(X, -0.5)], min=-0.5, consumed_inputs=[0])
    yield Case("Clip", 11, [X], [np.clip(X, 0, 1)], min=0.0, max=1.0)
    yield Case("Clip", 11, [X], [np.minimum(X, 1)], max=1.0, opset=6)
    yield Case("Concat", 4, [X, X], [np.concatenate([X, X], 1)], opset=1)
    spectrum = np.fft.fft(X, axis=1)
    spectrum = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    yield Case("DFT", 20, [X[..., None]], [spectrum])
    yield Case("Dropout", 6, [X], [X], is_test=1, consumed_inputs=[0], ratio=0.25)
    yield Case("Dropout", 7, [X], [X], is_test=1)
    yield Case("Dropout", 10, [X], [X, np.ones_like(X)], ratio=0.5)
    yield Case("Dropout", 12, [X], [X], ratio=0.5)
    a, b, c = floats(2, 3), floats(3, 4), floats(4)
    yield Case("Gemm", 7, [a, b], [a @ b + c], [c], broadcast=1)
    groups, scale, bias = floats(2, 4, 3), positive(2), floats(2)
    yield Case("GroupNormalization", 21, [groups], [grouped(groups, 2, scale, bias)], [scale, bias],
               num_groups=2, opset=18)
    scale, bias = positive(3), floats(3)
    yield Case("InstanceNormalization", 6, [IMAGE], [grouped(IMAGE, 3, scale, bias)], [scale, bias],
               consumed_inputs=[0])
    yield Case("LogSoftmax", 13, [X], [np.log(softmax(X, 1))])
    yield Case("Hardmax", 13, [X], [np.eye(12, dtype=np.float32)[
        X.reshape(2, 12).argmax(1)].reshape(X.shape)])
    x, w, r = floats(1, 1, 3), floats(1, 8, 3), floats(1, 8, 2)
    yield Case("LSTM", 7, [x], [lstm(x, w, r)], [w, r], hidden_size=2, output_sequence=1)
    w, r = floats(1, 6, 3), floats(1, 6, 2)
    yield Case("GRU", 7, [x], [gru(x, w)], [w, r], hidden_size=2, output_sequence=1)
    w, r = floats(1, 2, 3), floats(1, 2, 2)
    yield Case("RNN", 7, [x], [np.tanh(x[0] @ w[0].T)[None, None]], [w, r], hidden_size=2,
               output_sequence=1)
    for op, y in [("Relu", np.maximum(X, 0)), ("Sigmoid", 1 / (1 + np.exp(-X))),
                  ("Tanh", np.tanh(X))]:
        yield Case(op, 6, [X], [y], consumed_inputs=[0])
    yield Case("Max", 6, [X, -X], [np.abs(X)], consumed_inputs=[0, 0])
    yield Case("Min", 6, [X, -X], [-np.abs(X)], consumed_inputs=[0, 0])
    yield Case("Sum", 6, [X, X], [X + X], consumed_inputs=[0, 0])
    around = np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=0.5)
    for since, name in [(2, "paddings"), (11, "pads")]:
        yield Case("Pad", since, [X], [around], value=0.5, **{name: [0, 1, 0, 0, 0, 2]})
    yield Case("Pad", 11, [X], [np.pad(X, [(0, 0), (0, 0), (2, 1)], "reflect")],
               mode="reflect", pads=[0, 0, 2, 0, 0, 1], opset=2)
    exps = positive(2, 3, 4)
    for op, reduced in [("L1", np.abs(exps).sum), ("L2", lambda a: np.sqrt((exps ** 2).sum(a))),
                        ("LogSum", lambda a: np.log(exps.sum(a))),
                        ("LogSumExp", lambda a: np.log(np.exp(exps).sum(a))),
                        ("Max", exps.max), ("Mean", exps.mean), ("Min", exps.min),
                        ("Prod", exps.prod), ("Sum", exps.sum),
                        ("SumSquare", lambda a: (exps ** 2).sum(a))]:
        since = 13 if op == "Sum" else 18
        yield Case("Reduce" + op, since, [exps], [reduced((0, 2))], axes=[0, -1], keepdims=0,
                   opset=since - 1)
    yield Case("Reshape", 5, [X], [X.reshape(4, 6)], shape=[4, -1], consumed_inputs=[0])
    twice = np.array([1, 1, 2, 2], np.float32)
    larger = IMAGE.repeat(2, 2).repeat(2, 3)
    yield Case("Resize", 11, [IMAGE], [larger], [twice])
    yield Case("Resize", 11, [larger], [IMAGE], [1 / twice])
    yield Case("Upsample", 9, [IMAGE], [larger], scales=[1.0, 1.0, 2.0, 2.0])
    yield Case("Upsample", 10, [IMAGE], [larger], [twice])
    yield Case("Slice", 10, [X], [X[:, 1:-1, 2:]], axes=[1, 2], starts=[1, 2], ends=[-1, 9])
    yield Case("Slice", 10, [X], [X[1:, :2]], starts=[1, 0], ends=[2, 2], opset=1)
    for axis in range(3):
        ramp = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    region = np.array([[0, 0, 2, 2]], np.float32)
    yield Case("RoiAlign", 16, [ramp, region, np.zeros(1, np.int64)], [np.full((1, 1, 1, 1), 5, np.float32)],
               sampling_ratio=1)
    yield Case("Softmax", 13, [X], [softmax(X, axis)], axis=axis)
    yield Case("Softmax", 13, [X], [softmax(X, 1)])
    yield Case("Softmax", 13, [IMAGE], [softmax(IMAGE, 1)], opset=1)
    pooled = floats(2, 5, 1, 1)
    yield Case("Softmax", 13, [pooled], [softmax(pooled, 1)], axis=-3, opset=11)
    sums = X.cumsum(axis=1, dtype=np.float32)
    yield Case("Scan", 9, [None, X[:, 0] * 0, X], [sums[:, -1], sums], body=adding(), num_scan_inputs=1, directions=[0])
    yield Case("Split", 13, [X], [X[..., :1], X[..., 1:]], axis=2, split=[1, 3])
    yield Case("Split", 18, [X], [X[..., :2], X[..., 2:]], axis=2)
    yield Case("Squeeze", 13, [X[:, :1]], [X[:, 0]], axes=[1])
    order = np.argsort(-X, 1, kind="stable")[:, :2]
    yield Case("TopK", 10, [X], [np.take_along_axis(X, order, 1), order], k=2, axis=1, opset=1)
    yield Case("Unsqueeze", 13, [X], [X[None, ..., None]], axes=[0, 4])


def peer(case):
    """Returns ONNX Runtime's results, or None if it does not support the model."""
    try:
        session = onnxruntime.InferenceSession(case.model().SerializeToString(), exact.options())
        return session.run(None, dict(case.fed()))
    except Exception:  # It has a class of its own for each reason, and all of them are fine.
        return None


def verdict(udo, case, folder):
    """Compares a case, and returns a description of a fault."""
    varied(case.name(), case.outputs, CONSTANT.get((case.op, case.since)))
    fed = [array for _, array in case.fed()]
    for name, arrays in [("input", fed), ("output", case.outputs)]:
        for i, array in enumerate(arrays):
            tensor = numpy_helper.from_array(np.ascontiguousarray(array))
            (folder / f"{name}_{i}.pb").write_bytes(tensor.SerializeToString())
    onnx.save(case.model(), folder / "model.onnx")
    command = [udo, "verify", folder / "model.onnx", "--data", folder]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if ran.returncode == 0 else (ran.stderr or ran.stdout).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    udo = parser.parse_args().udo
    left = {(op, int(since)) for op, since in ROW.findall(ROWS.read_text(encoding="utf-8"))}
    failed, compared, count = [], 0, 0
    for case in cases():
        left.discard((case.op, case.since))
        count += 1
        own = peer(case)
        if own is not None:
            compared += 1
            # Its masks of Dropout-9 and before are zeros; nobody says what they are.
            pairs = list(zip(own, case.outputs))[:1 if case.op == "Dropout" else None]
            if not all(np.allclose(a, b, 1e-5, 1e-6) for a, b in pairs):
                failed.append(f"{case.name()}: ONNX Runtime has another result than numpy")
        with tempfile.TemporaryDirectory() as folder:
            wrong = verdict(udo, case, Path(folder))
        if wrong:
            failed.append(f"{case.name()} {case.attrs}: {wrong}")
    failed.extend(f"{op}, since {since}: no case" for op, since in sorted(left))
    print("\n".join(failed + [f"summary: cases={count} failed={len(failed)} "
                              f"with ONNX Runtime={compared}"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
