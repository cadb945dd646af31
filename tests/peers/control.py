#!/usr/bin/env python3
"""Runs random models with branches and loops in each other, and compares with ONNX Runtime.

Each model is a chain of elementwise nodes, If, Loop and Scan, whose bodies are such chains over what they capture.
The exit code is 1 if a result differs, or if a model is refused.

    python tests/peers/control.py --udo target/release/udo [--models 100] [--seed 1]

needs: numpy, onnx, onnxruntime
"""
import argparse
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
MAX_DEPTH = 3


class Models:
    """Random models; names are never used twice."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0

    def name(self, stem="v"):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, nodes, array):
        name = self.name("k")
        tensor = numpy_helper.from_array(np.asarray(array), name)
        nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def node(self, nodes, op, inputs, **attrs):
        name = self.name()
        nodes.append(helper.make_node(op, inputs, [name], name=f"node_{name}", **attrs))
        return name

    def random_bool(self, nodes, values, inputs):
        """Returns a bool that is known only during the run."""
        if inputs and self.random.random() < 0.3:
            return self.random.choice(inputs)
        value, shape = self.random.choice(values)
        total = self.node(nodes, "ReduceMax", [value], keepdims=0, axes=list(range(len(shape))))
        limit = self.constant(nodes, np.float32(self.random.uniform(-1, 2)))
        return self.node(nodes, self.random.choice(["Less", "Greater"]), [total, limit])

    def step(self, nodes, values, bools, depth):
        """Adds a random node or subgraph, and returns its outputs."""
        kinds = ["unary", "binary"] * 2 + (["if", "loop", "scan"] if depth < MAX_DEPTH else [])
        kind = self.random.choice(kinds)
        return getattr(self, f"add_{kind}")(nodes, values, bools, depth)

    def add_unary(self, nodes, values, _bools, _depth):
        value, shape = self.random.choice(values)
        op = self.random.choice(["Relu", "Tanh", "Sigmoid", "Identity"])
        return [(self.node(nodes, op, [value]), shape)]

    def add_binary(self, nodes, values, _bools, _depth):
        value, shape = self.random.choice(values)
        other = self.random.choice([v for v, s in values if s == shape])
        return [(self.node(nodes, self.random.choice(["Add", "Sub", "Max"]), [value, other]), shape)]

    def chain(self, nodes, values, bools, depth):
        known = list(values)
        for _ in range(self.random.randint(0, 3)):
            known += self.step(nodes, known, bools, depth + 1)
        return known

    def one_of(self, values, shape):
        """Picks a value of this shape, preferably a late one."""
        fits = [v for v, s in values if s == shape]
        return fits[-1] if self.random.random() < 0.6 else self.random.choice(fits)

    def graph(self, nodes, inputs, outputs):
        """Builds a graph; outputs are pairs of names and shapes, and captured ones go through an Identity."""
        made = {name for node in nodes for name in node.output}
        infos, seen = [], set()
        for name, info in outputs:
            if name not in made or name in seen:
                name = self.node(nodes, "Identity", [name])
            seen.add(name)
            infos.append(helper.make_tensor_value_info(name, *info))
        return helper.make_graph(nodes, self.name("graph"), inputs, infos)

    def add_if(self, nodes, values, bools, depth):
        shapes = [self.random.choice(values)[1] for _ in range(self.random.randint(1, 2))]
        branches = {}
        for branch in ("then_branch", "else_branch"):
            inner = []
            known = self.chain(inner, values, bools, depth)
            outputs = [(self.one_of(known, s), (TensorProto.FLOAT, s)) for s in shapes]
            branches[branch] = self.graph(inner, [], outputs)
        condition = self.random_bool(nodes, values, bools)
        made = [self.name() for _ in shapes]
        nodes.append(helper.make_node("If", [condition], made, name=self.name("if"), **branches))
        return list(zip(made, shapes))

    def add_loop(self, nodes, values, bools, depth):
        states = [self.random.choice(values) for _ in range(self.random.randint(1, 3))]
        iterations = self.random.randint(0, 4)
        dynamic = self.random.random() < 0.4
        stacked = [] if dynamic or not iterations else [s for _, s in states[:1] if len(s) < 3]
        inner, inside = [], [(self.name("state"), shape) for _, shape in states]
        number, going = self.name("trip"), self.name("going")
        known = self.chain(inner, values + inside, bools, depth)
        on = self.random_bool(inner, known, bools) if dynamic else going
        outputs = [(on, (TensorProto.BOOL, []))]
        outputs += [(self.one_of(known, s), (TensorProto.FLOAT, s)) for _, s in states]
        outputs += [(self.one_of(known, s), (TensorProto.FLOAT, s)) for s in stacked]
        inputs = [helper.make_tensor_value_info(number, TensorProto.INT64, []),
                  helper.make_tensor_value_info(going, TensorProto.BOOL, [])]
        inputs += [helper.make_tensor_value_info(v, TensorProto.FLOAT, s) for v, s in inside]
        body = self.graph(inner, inputs, outputs)
        limit = self.constant(nodes, np.int64(iterations))
        begins = self.random_bool(nodes, values, bools) if self.random.random() < 0.2 and not stacked else ""
        made = [self.name() for _ in states + stacked]
        given = [limit, begins, *(v for v, _ in states)]
        nodes.append(helper.make_node("Loop", given, made, name=self.name("loop"), body=body))
        last = [(m, s) for m, (_, s) in zip(made, states)]
        return last + [self.summed(nodes, m, s, 0) for m, s in zip(made[len(states):], stacked)]

    def summed(self, nodes, stack, shape, axis):
        axes = self.constant(nodes, np.array([axis], np.int64))
        return self.node(nodes, "ReduceSum", [stack, axes], keepdims=0), shape

    def add_scan(self, nodes, values, bools, depth):
        long = [(v, s) for v, s in values if len(s) == 2]
        if not long:
            return self.add_unary(nodes, values, bools, depth)
        sliced, shape = self.random.choice(long)
        axis = self.random.randint(0, 1)
        row = [n for at, n in enumerate(shape) if at != axis]
        zero = self.constant(nodes, np.zeros(row, np.float32))
        state, part = self.name("state"), self.name("slice")
        inner, inside = [], [(state, row), (part, row)]
        known = self.chain(inner, [*values, *inside], bools, depth)
        total = self.node(inner, "Add", [self.one_of(known, row), part])
        fits = (TensorProto.FLOAT, row)
        inputs = [helper.make_tensor_value_info(v, *fits) for v, _ in inside]
        body = self.graph(inner, inputs, [(self.one_of(known, row), fits), (total, fits)])
        made = [self.name(), self.name()]
        nodes.append(helper.make_node(
            "Scan", [zero, sliced], made, name=self.name("scan"), body=body, num_scan_inputs=1,
            scan_input_axes=[axis], scan_input_directions=[self.random.randint(0, 1)],
            scan_output_axes=[axis], scan_output_directions=[self.random.randint(0, 1)]))
        return [(made[0], row), (made[1], shape)]

    def model(self):
        nodes, values = [], [("x", [2, 3]), ("y", [3]), ("z", [2])]
        for _ in range(self.random.randint(2, 5)):
            values += self.step(nodes, values, ["c"], 0)
        inputs = [helper.make_tensor_value_info(v, TensorProto.FLOAT, s) for v, s in values[:3]]
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
        outputs = self.random.sample(values[3:], min(2, len(values) - 3))
        infos = [(v, (TensorProto.FLOAT, s)) for v, s in outputs]
        graph = self.graph(nodes, inputs, infos)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def verdict(udo, model, rng, folder):
    """Compares a model with ONNX Runtime, and returns a description of a fault."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    fed = {v: rng.uniform(-2, 2, s).astype(np.float32)
           for v, s in [("x", (2, 3)), ("y", (3,)), ("z", (2,))]}
    fed["c"] = np.array(rng.random() < 0.5)
    outputs = session.run(None, fed)
    for stem, arrays in [("input", fed.values()), ("output", outputs)]:
        for at, array in enumerate(arrays):
            tensor = numpy_helper.from_array(np.asarray(array))
            (folder / f"{stem}_{at}.pb").write_bytes(tensor.SerializeToString())
    onnx.save(model, folder / "model.onnx")
    command = [udo, "verify", folder / "model.onnx", "--data", folder, "--rtol", "1e-3", "--atol", "1e-4"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if ran.returncode == 0 else (ran.stderr or ran.stdout).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--models", default=100, type=int, help="number of models (default 100)")
    parser.add_argument("--seed", default=1, type=int, help="seed of the first model (default 1)")
    parser.add_argument("--keep", type=Path, help="write failing models to this folder")
    args = parser.parse_args()
    failed, kinds = 0, {"If": 0, "Loop": 0, "Scan": 0}
    for seed in range(args.seed, args.seed + args.models):
        model = Models(seed).model()
        text = model.SerializeToString()
        for kind in kinds:
            kinds[kind] += text.count(kind.encode())
        with tempfile.TemporaryDirectory() as folder:
            wrong = verdict(args.udo, model, np.random.default_rng(seed), Path(folder))
        if wrong:
            failed += 1
            print(f"seed {seed}: {wrong}")
            if args.keep:
                onnx.save(model, args.keep / f"{seed}.onnx")
    print(f"summary: models={args.models} failed={failed} "
          + " ".join(f"{kind}={count}" for kind, count in kinds.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
