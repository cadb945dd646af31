#!/usr/bin/env python3
"""Runs random models with sequences of tensors and with loops that grow, and compares with ONNX Runtime.

A model builds sequences (parts of a split, SequenceConstruct, SequenceMap, loops and branches that make them), changes them,
and reads them again; or it has a loop whose state, stacked output or slices change their shape from iteration to iteration.
Lengths, positions and numbers of iterations are constants in one half of the models and inputs of the run in the other.
The exit code is 1 if a result differs, or if a model is refused.

    python tests/peers/sequences.py --udo target/release/udo [--models 100] [--seed 1]

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

OPSET = 18
WIDTH = 3


def tensor_info(name, shape=None, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def sequence_info(name):
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)


class Model:
    """A random model; names are never used twice."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0
        self.nodes = []
        self.inputs = [tensor_info("x", [4, WIDTH])]
        rng = np.random.default_rng(seed)
        self.feed = {"x": rng.standard_normal((4, WIDTH)).astype(np.float32)}

    def name(self, stem="v"):
        self.count += 1
        return f"{stem}{self.count}"

    def node(self, op, inputs, nodes=None, **attrs):
        name = self.name()
        (self.nodes if nodes is None else nodes).append(helper.make_node(op, inputs, [name], name=f"node_{name}", **attrs))
        return name

    def constant(self, array, nodes=None):
        name = self.name("k")
        value = numpy_helper.from_array(np.asarray(array), name)
        (self.nodes if nodes is None else nodes).append(helper.make_node("Constant", [], [name], value=value))
        return name

    def integer(self, value):
        """Returns an integer, as a constant or an input."""
        if self.random.random() < 0.5:
            return self.constant(np.int64(value))
        name = self.name("n")
        self.inputs.append(tensor_info(name, [], TensorProto.INT64))
        self.feed[name] = np.asarray(value, np.int64)
        return name

    # Sequences: a name, and how many tensors it has. All tensors have WIDTH columns.

    def parts(self):
        if self.random.random() < 0.5:
            return self.node("SplitToSequence", ["x"], axis=0), 4
        lengths = self.random.choice([[1, 3], [2, 2], [1, 2, 1], [4]])
        return self.node("SplitToSequence", ["x", self.constant(np.array(lengths, np.int64))], axis=0), len(lengths)

    def chunks(self):
        length = self.random.randint(1, 5)
        return self.node("SplitToSequence", ["x", self.constant(np.int64(length))], axis=0), -(-4 // length)

    def constructed(self):
        count = self.random.randint(1, 3)
        return self.node("SequenceConstruct", [self.tensor() for _ in range(count)]), count

    def mapped(self):
        sequence, count = self.sequence()
        body = helper.make_graph(
            [helper.make_node("Mul", ["e", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["q"])], self.name("body"),
            [tensor_info("e"), tensor_info("w")], [tensor_info("q")])
        return self.node("SequenceMap", [sequence, self.constant(np.float32(1.5))], body=body), count

    def looped(self):
        count = self.random.randint(0, 3) + 1
        nodes, grown, again, tensor = [], self.name(), self.name(), self.tensor()
        nodes.append(helper.make_node("Identity", ["go"], [again]))
        nodes.append(helper.make_node("SequenceInsert", ["s", tensor], [grown]))
        body = helper.make_graph(nodes, self.name("body"),
                                 [tensor_info("i", [], TensorProto.INT64), tensor_info("go", [], TensorProto.BOOL), sequence_info("s")],
                                 [tensor_info(again, [], TensorProto.BOOL), sequence_info(grown)])
        first = self.node("SequenceEmpty", [], dtype=TensorProto.FLOAT)
        return self.node("Loop", [self.integer(count), "", first], body=body), count

    def branched(self):
        tensor, flag = self.tensor(), self.name("b")
        value = self.random.random() < 0.5
        self.inputs.append(tensor_info(flag, [], TensorProto.BOOL))
        self.feed[flag] = np.asarray(value)
        graphs = []
        for count in (1, 3):
            made = self.name()
            graphs.append(helper.make_graph([helper.make_node("SequenceConstruct", [tensor] * count, [made])], self.name("branch"), [],
                                            [sequence_info(made)]))
        return self.node("If", [flag], then_branch=graphs[0], else_branch=graphs[1]), 1 if value else 3

    def sequence(self):
        kinds = [self.parts, self.chunks, self.constructed, self.constructed, self.mapped, self.looped, self.branched]
        sequence, count = self.random.choice(kinds)()
        for _ in range(self.random.randint(0, 2)):
            if count > 1 and self.random.random() < 0.4:
                place = [self.integer(self.random.randrange(-count, count))] if self.random.random() < 0.7 else []
                sequence, count = self.node("SequenceErase", [sequence, *place]), count - 1
            else:
                place = [self.integer(self.random.randrange(-count, count))] if self.random.random() < 0.7 else []
                sequence, count = self.node("SequenceInsert", [sequence, self.tensor(), *place]), count + 1
        return sequence, count

    def tensor(self):
        if self.count > 25 or self.random.random() < 0.5:
            return self.random.choice(["x", self.node(self.random.choice(["Relu", "Neg", "Tanh"]), ["x"])])
        sequence, count = self.sequence()
        if self.random.random() < 0.5:
            return self.node("ConcatFromSequence", [sequence], axis=0)
        return self.node("SequenceAt", [sequence, self.integer(self.random.randrange(-count, count))])

    # Loops whose iterations differ in shape.

    def grown(self):
        """The last state of a loop that grows, and a stacked output of it."""
        nodes, start = [], self.tensor()
        kind = self.random.choice(["counted", "while", "both"])
        again, total, row = self.name(), self.name(), self.name()
        grown = self.random.choice([self.grown_state, self.sliced_state, self.doubled_state])(nodes)
        nodes.append(helper.make_node("ReduceSum", [grown], [row], keepdims=0))
        nodes.append(helper.make_node("Size", [grown], [total]))
        if kind == "counted":
            nodes.append(helper.make_node("Identity", ["go"], [again]))
        else:
            limit = self.constant(np.int64(self.random.randint(10, 90)), nodes)
            nodes.append(helper.make_node("Less", [total, limit], [again]))
        body = helper.make_graph(nodes, self.name("body"),
                                 [tensor_info("i", [], TensorProto.INT64), tensor_info("go", [], TensorProto.BOOL), tensor_info("s")],
                                 [tensor_info(again, [], TensorProto.BOOL), tensor_info(grown), tensor_info(row, [])])
        limit = "" if kind == "while" else self.integer(self.random.randint(0, 4))
        go = self.constant(np.array(True)) if kind == "while" or self.random.random() < 0.5 else ""
        names = [self.name(), self.name()]
        self.nodes.append(helper.make_node("Loop", [limit, go, start], names, name=f"node_{names[0]}", body=body))
        return names

    def grown_state(self, nodes):
        return self.node("Concat", ["s", "x"], nodes, axis=0)

    def doubled_state(self, nodes):
        return self.node("Concat", ["s", "s"], nodes, axis=0)

    def sliced_state(self, nodes):
        """Grows by as many rows as there were iterations, and by one at least."""
        zero, one = self.constant(np.array([0], np.int64), nodes), self.constant(np.array([1], np.int64), nodes)
        rows = self.node("Add", [self.node("Unsqueeze", ["i", zero], nodes), one], nodes)
        return self.node("Concat", ["s", self.node("Slice", ["x", zero, rows], nodes)], nodes, axis=0)

    def proto(self):
        outputs = []
        for _ in range(self.random.randint(1, 2)):
            outputs += self.random.choice([lambda: [self.tensor()], self.grown, lambda: [self.joined()], lambda: [self.length()]])()
        outputs = [self.node("Identity", [output]) for output in outputs]
        infos = [helper.make_empty_tensor_value_info(output) for output in outputs]
        graph = helper.make_graph(self.nodes, "sequences", self.inputs, infos)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    def joined(self):
        sequence, _ = self.sequence()
        return self.node("ConcatFromSequence", [sequence], axis=self.random.choice([0, -2]))

    def length(self):
        return self.node("SequenceLength", [self.sequence()[0]])


def verdict(udo, model, folder):
    """Compares a model with ONNX Runtime, and returns a description of a fault."""
    path = folder / "model.onnx"
    onnx.save(model.proto(), path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected = peer.run(None, model.feed)
    command = [udo, "run", str(path), "--output-dir", str(folder / "out")]
    for name, value in model.feed.items():
        np.save(folder / f"{name}.npy", value)
        command += ["--input", f"{name}={folder / name}.npy"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return run.stderr.strip().splitlines()[-1]
    for output, value in zip(peer.get_outputs(), expected):
        found = np.load(folder / "out" / f"{output.name}.npy")
        if found.shape != value.shape or not np.allclose(found, value, rtol=1e-5, atol=1e-5):
            return f"{output.name}: found {found.shape} {found.ravel()[:4]}, expected {value.shape} {value.ravel()[:4]}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--models", default=100, type=int, help="number of models (default 100)")
    parser.add_argument("--seed", default=1, type=int, help="seed of the first model (default 1); each further model uses the next seed")
    args = parser.parse_args()
    failed = 0
    for seed in range(args.seed, args.seed + args.models):
        with tempfile.TemporaryDirectory() as folder:
            problem = verdict(args.udo, Model(seed), Path(folder))
        if problem:
            failed += 1
            print(f"--seed {seed} --models 1: {problem}")
    print(f"{args.models - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
