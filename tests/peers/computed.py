#!/usr/bin/env python3
"""Runs random models whose nodes' shapes follow from computed numbers, and compares with ONNX Runtime.

Each model is a chain of nodes whose lengths, shapes or positions are computed by earlier nodes, some of them in
branches and loops. It gets several inputs in one session, planned shape by shape, and for a range of shapes. The exit code is 1 if a result differs, or if a model is refused.

    python tests/peers/computed.py --udo target/release/udo [--models 40] [--seed 1]

needs: numpy, onnx, onnxruntime
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# No extent grows beyond.
MOST = 8


class Chain:
    """The nodes of one graph, and the values in it: names and ranks."""

    def __init__(self, source, names):
        self.random, self.names = source, names
        self.nodes, self.values = [], []

    def name(self):
        return f"v{next(self.names)}"

    def add(self, op, *inputs, count=1, **attrs):
        made = [self.name() for _ in range(count)]
        self.nodes.append(helper.make_node(op, inputs, made, name=f"node_{made[0]}", **attrs))
        return made[0] if count == 1 else made

    def constant(self, array):
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(array)))

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def pick(self):
        return self.random.choice(self.values)

    def number(self, most=4):
        """Adds a one-element list from 0 to `most`: the count of elements of a value above a limit."""
        value, _ = self.pick()
        limit = self.constant(np.float32(self.random.uniform(-0.5, 0.8)))
        above = self.add("Cast", self.add("Greater", value, limit), to=TensorProto.INT64)
        total = self.add("Reshape", self.add("ReduceSum", above, keepdims=0), self.ints(1))
        return self.add("Min", total, self.ints(most))

    def scalar(self, number):
        return self.add("Reshape", number, self.constant(np.array([], np.int64)))

    def mean(self):
        """Adds the mean of a value of any shape."""
        return self.add("Tanh", self.add("ReduceSum", self.pick()[0], keepdims=0))

    def cut(self, value, rank):
        """Adds a slice that bounds the extents of a value."""
        axes = list(range(rank))
        ends = self.ints(*[MOST] * rank)
        return self.add("Slice", value, self.ints(*[0] * rank), ends, self.ints(*axes))

    def step(self, inner=False):
        kinds = ["range", "expand", "tile", "fill", "pad", "select", "flat", "ends", "transpose"]
        kind = self.random.choice(kinds if inner else [*kinds, "choice", "iterations"])
        value, rank = getattr(self, f"make_{kind}")()
        self.values.append((self.add("Tanh", self.cut(value, rank)), rank))

    def make_range(self):
        zero, one = self.constant(np.int64(0)), self.constant(np.int64(1))
        numbers = self.add("Range", zero, self.scalar(self.number()), one)
        return self.add("Cast", numbers, to=TensorProto.FLOAT), 1

    def make_expand(self):
        shape = self.add("Concat", self.number(), self.ints(2), axis=0)
        return self.add("Expand", self.mean(), shape), 2

    def make_tile(self):
        value, rank = self.pick()
        repeats = self.add("Concat", *[self.number(3) for _ in range(rank)], axis=0)
        return self.add("Tile", value, repeats), rank

    def make_fill(self):
        shape = self.add("Concat", self.number(), self.number(), axis=0)
        zeros = self.add("ConstantOfShape", shape)
        return self.add("Add", zeros, self.mean()), 2

    def make_pad(self):
        value, rank = self.pick()
        pads = self.add("Concat", *[self.number(2) for _ in range(2 * rank)], axis=0)
        return self.add("Pad", value, pads, self.mean()), rank

    def make_select(self):
        flat = self.add("Reshape", self.pick()[0], self.ints(-1))
        places = self.add("NonZero", self.add("Relu", flat))
        return self.add("Gather", flat, self.add("Squeeze", places, self.ints(0))), 1

    def make_flat(self):
        value, _ = self.pick()
        size = self.add("Reshape", self.add("Size", value), self.ints(1))
        shape = self.add("Concat", self.ints(1), size, axis=0)
        return self.add("Reshape", value, shape, allowzero=1), 2

    def make_ends(self):
        value, rank = self.pick()
        return self.add("Slice", value, self.ints(0), self.number(), self.ints(rank - 1)), rank

    def make_transpose(self):
        value, rank = self.pick()
        return self.add("Transpose", value, perm=list(range(rank))[::-1]), rank

    def body(self, outputs, inputs=(), values=()):
        inner = Chain(self.random, self.names)
        inner.values = [*self.values, *values]
        made = outputs(inner)
        infos = [helper.make_tensor_value_info(name, kind, None) for name, kind in made]
        return helper.make_graph(inner.nodes, f"graph{next(self.names)}", list(inputs), infos)

    def make_choice(self):
        def branch(inner):
            inner.step(inner=True)
            flat = inner.add("Reshape", inner.values[-1][0], inner.ints(-1))
            return [(flat, TensorProto.FLOAT)]

        zero = self.constant(np.float32(0))
        condition = self.add("Greater", self.mean(), zero)
        branches = {name: self.body(branch) for name in ("then_branch", "else_branch")}
        return self.add("If", condition, **branches), 1

    def make_iterations(self):
        trip, going, state = (self.name() for _ in range(3))
        inputs = [helper.make_tensor_value_info(trip, TensorProto.INT64, []),
                  helper.make_tensor_value_info(going, TensorProto.BOOL, []),
                  helper.make_tensor_value_info(state, TensorProto.FLOAT, [])]

        def grow_state(inner):
            after = inner.add("Tanh", inner.add("Add", state, inner.constant(np.float32(0.3))))
            on = inner.add("Identity", going)
            row = inner.add("Identity", after)
            return [(on, TensorProto.BOOL), (after, TensorProto.FLOAT), (row, TensorProto.FLOAT)]

        body = self.body(grow_state, inputs)
        limit, condition = self.scalar(self.number()), self.constant(np.array(True))
        return self.add("Loop", limit, condition, self.mean(), count=2, body=body)[1], 1


def model(seed):
    source = random.Random(seed)
    chain = Chain(source, iter(range(10**6)))
    chain.values = [("x", 2), ("y", 1)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4]),
              helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    for _ in range(source.randint(1, 5)):
        chain.step()
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
               for name, rank in chain.values[2:]]
    graph = helper.make_graph(chain.nodes, f"computed_{seed}", inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def write_sets(folder, made, seed, count):
    """Writes data sets of inputs and ONNX Runtime's outputs."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    numbers = np.random.default_rng(seed)
    for at in range(count):
        data = folder / f"test_data_set_{at}"
        data.mkdir()
        # The last set is the first one again.
        if at + 1 < count or at == 0:
            n = int(numbers.integers(1, 6))
            feeds = {"x": numbers.uniform(-1, 1, (3, 4)).astype(np.float32),
                     "y": numbers.uniform(-1, 1, n).astype(np.float32)}
            first = feeds if at == 0 else first
        else:
            feeds = first
        for kind, arrays in (("input", feeds.values()), ("output", session.run(None, feeds))):
            for index, array in enumerate(arrays):
                tensor = numpy_helper.from_array(array)
                (data / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--models", type=int, default=40, help="number of models (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first model (default 1)")
    args = parser.parse_args()
    failed = parts = whole = 0
    for seed in range(args.seed, args.seed + args.models):
        made = model(seed)
        with tempfile.TemporaryDirectory() as work:
            path = Path(work) / "model.onnx"
            onnx.save(made, path)
            write_sets(Path(work), made, seed, 3)
            data = ["--data", work, "--rtol", "1e-4"]
            commands = {"shapes": ["verify", *data], "a range": ["verify", *data, "--dim", "n=1..5"],
                        "explain": ["explain", "--shape", "y=4"],
                        "bench": ["bench", "--shape", "y=4", "--iterations", "5", "--json"]}
            said = {what: subprocess.run([args.udo, name, path, *more], capture_output=True, text=True, check=False)
                    for what, (name, *more) in commands.items()}
        wrong = [f"{name}: {(ran.stderr + ran.stdout)[-600:]}" for name, ran in said.items() if ran.returncode]
        if not wrong:
            measured = json.loads(said["bench"].stdout)
            parts = max(parts, measured["parts"])
            whole += "planned in the run" not in said["a range"].stderr
            if measured["replans"] or measured["allocations_per_run"]:
                wrong = [f"bench: runs of what was met before plan or allocate: {measured}"]
        failed += bool(wrong)
        for line in wrong:
            print(f"seed {seed}: {line}")
    print(f"{args.models - failed} of {args.models} models agree with ONNX Runtime, in up to {parts} parts;"
          f" {whole} have one plan for a range of shapes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
