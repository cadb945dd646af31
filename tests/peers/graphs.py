#!/usr/bin/env python3
"""Runs random graphs of all kinds of operators, and compares with ONNX Runtime.

Each graph is made node by node: a node that ONNX Runtime does not run, or whose results are no numbers of a sane size, is
left out. What jumps (rounding, comparing, sorting) is only put behind values that all engines have the same bits of. The
exit code is 1 if a result differs, if the program crashes, or if a graph is refused. Of a graph that fails the smallest
part that fails as well is kept with --keep.

    python tests/peers/graphs.py --udo target/release/udo [--graphs 500] [--seed 1] [--only Conv,Pad] [--keep FOLDER]

needs: numpy, onnx, onnxruntime
"""
import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import exact
import graphs_operators

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
IR_VERSION = 10
LARGEST = 1e3
MOST_ELEMENTS = 1 << 14
TIMEOUT_S = 60


class Value:
    """A tensor that ONNX Runtime computed; an exact one has the same bits everywhere."""

    def __init__(self, name, array, exact):
        self.name, self.array, self.exact = name, array, exact

    def info(self):
        return helper.make_tensor_value_info(
            self.name, helper.np_dtype_to_tensor_dtype(self.array.dtype), self.array.shape)


class Graph:
    """A graph that grows at random."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.values, self.nodes, self.inputs, self.held = [], [], [], []
        for _ in range(self.rng.integers(1, 4)):
            self.values.append(self.add_input(self.array(self.dtype(), self.shape())))

    def dtype(self):
        kinds = [np.float32] * 8 + [np.float64, np.float16, np.int64, np.int32, np.uint8, np.int8, np.bool_]
        return kinds[self.rng.integers(len(kinds))]

    def shape(self):
        rank = self.rng.choice([1, 2, 3, 3, 4, 4, 4])
        return [int(self.rng.choice([1, 2, 3, 4, 5, 7, 8])) for _ in range(rank)]

    def array(self, dtype, shape):
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        if dtype.kind == "f":
            # Distinct, and far enough apart that no rounding changes their order.
            count = int(np.prod(shape))
            spread = (self.rng.permutation(count) - count / 2 + 0.25) * (4 / max(count, 8))
            return spread.reshape(shape).astype(dtype)
        low = 0 if dtype.kind == "u" else -9
        return self.rng.integers(low, 10, shape).astype(dtype)

    def add_input(self, array):
        """Adds an input to the graph and returns its value."""
        value = Value(f"in{len(self.inputs)}", np.asarray(array), True)
        self.inputs.append(value)
        return value

    def constant(self, array):
        value = Value(f"k{len(self.held)}", np.asarray(array), True)
        self.held.append(value)
        return value

    def operand(self, array):
        """Returns another operand of a node: a constant, or sometimes an input."""
        return self.add_input(array) if self.rng.random() < 0.25 else self.constant(array)

    def pick(self, fits=lambda value: True):
        """Picks a value that fits, preferably the last one; None if no value fits."""
        found = [value for value in self.values if fits(value)]
        if not found:
            return None
        return found[-1] if self.rng.random() < 0.5 else found[self.rng.integers(len(found))]

    def grow(self, operators):
        """Adds a random node if ONNX Runtime computes it."""
        before = len(self.inputs), len(self.held)
        operator = operators[self.rng.integers(len(operators))]
        made = operator.make(self)
        outputs = made and self.computed(operator, *made)
        if not outputs:
            del self.inputs[before[0]:], self.held[before[1]:]

    def computed(self, operator, inputs, attrs, count):
        if (operator.jumps or operator.steep) and not all(value is None or value.exact for value in inputs):
            return None
        names = [f"v{len(self.values) + i}" for i in range(count)]
        given = [value.name if value else "" for value in inputs]
        node = helper.make_node(operator.op, given, names, f"n{len(self.nodes)}", domain=operator.domain, **attrs)
        known = {value.name: value for value in inputs if value}
        try:
            arrays = run(model_of([node], known.values(), [], names), list(known.values()))
        except Exception as refused:  # noqa: BLE001
            return note_refused(operator.op, refused)
        if any(array.size > MOST_ELEMENTS or array.size == 0 or not is_sane(array) for array in arrays):
            return None
        exact = operator.exact and all(value is None or value.exact for value in inputs)
        self.nodes.append(node)
        # ONNX Runtime computes f16 in f32, and rounds only once after several fused nodes.
        is_exact = [(exact or operator.jumps) and array.dtype != np.float16 for array in arrays]
        outputs = [Value(*value) for value in zip(names, arrays, is_exact)]
        self.values += outputs
        return outputs

    def outputs(self):
        """Returns the values without consumers, and one more."""
        read = {name for node in self.nodes for name in node.input}
        made = [value for value in self.values if value not in self.inputs]
        ends = [value for value in made if value.name not in read]
        others = [value for value in made if value.name in read]
        if others and self.rng.random() < 0.5:
            ends.append(others[self.rng.integers(len(others))])
        return ends


SAID = {}


def note_refused(op, why):
    SAID.setdefault(op, str(why).splitlines()[0][:150])


def is_sane(array):
    if array.dtype.kind != "f":
        return array.dtype.kind != "O"
    return bool(np.all(np.isfinite(array)) and np.all(np.abs(array) < LARGEST))


def model_of(nodes, inputs, held, outputs):
    """Builds a model; outputs are names or values."""
    infos = [helper.make_empty_tensor_value_info(o) if isinstance(o, str) else o.info() for o in outputs]
    tensors = [numpy_helper.from_array(value.array, value.name) for value in held]
    graph = helper.make_graph(nodes, "random", [value.info() for value in inputs], infos, tensors)
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=IR_VERSION)


def run(model, inputs):
    options = exact.options()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {value.name: value.array for value in inputs})


def needed(graph, outputs):
    """Returns the nodes, inputs and constants that these values depend on."""
    names, nodes = {value.name for value in outputs}, []
    for node in reversed(graph.nodes):
        if names & set(node.output):
            nodes.insert(0, node)
            names |= set(node.input)
    return nodes, [v for v in graph.inputs if v.name in names], [v for v in graph.held if v.name in names]


def verdict(udo, graph, outputs, threads, keep=None):
    """Compares the part of a graph that computes these values, and returns a description of a fault."""
    nodes, inputs, held = needed(graph, outputs)
    model = model_of(nodes, inputs, held, outputs)
    arrays = run(model, inputs)
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for stem, tensors in [("input", [value.array for value in inputs]), ("output", arrays)]:
            for at, array in enumerate(tensors):
                tensor = numpy_helper.from_array(np.asarray(array))
                (folder / f"{stem}_{at}.pb").write_bytes(tensor.SerializeToString())
        onnx.save(model, folder / "model.onnx")
        is_half = any(value.array.dtype == np.float16 for value in graph.values)
        near = ["--rtol", "2e-2", "--atol", "2e-2"] if is_half else ["--rtol", "1e-3", "--atol", "1e-4"]
        command = [udo, "verify", folder / "model.onnx", "--data", folder, "--threads", str(threads), *near]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"no result in {TIMEOUT_S} s"
    if ran.returncode == 0:
        return None
    kind = "" if ran.returncode == 1 else f"exit code {ran.returncode}: "
    return kind + (ran.stderr or ran.stdout).strip()


def smallest(udo, graph, threads):
    """Returns the first value that is wrong by itself, or all outputs."""
    for value in graph.values:
        if value not in graph.inputs and verdict(udo, graph, [value], threads):
            return [value]
    return graph.outputs()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--graphs", default=500, type=int, help="number of graphs (default 500)")
    parser.add_argument("--seed", default=1, type=int, help="seed of the first graph (default 1)")
    parser.add_argument("--only", default="", help="use these operators and the elementwise ones")
    parser.add_argument("--keep", type=Path, help="write the smallest failing part of a graph to this folder")
    args = parser.parse_args()
    operators = graphs_operators.chosen(args.only)
    used, reasons, failed = Counter(), Counter(), 0
    for seed in range(args.seed, args.seed + args.graphs):
        graph = Graph(seed)
        for _ in range(graph.rng.integers(4, 24)):
            graph.grow(operators)
        outputs = graph.outputs()
        if not outputs:
            continue
        used.update(node.op_type for node in graph.nodes)
        threads = 1 + seed % 2
        if verdict(args.udo, graph, outputs, threads):
            failed += 1
            part = smallest(args.udo, graph, threads)
            why = verdict(args.udo, graph, part, threads, args.keep and args.keep / str(seed)) or "only as a whole"
            ops = [node.op_type for node in needed(graph, part)[0]]
            reasons[ops[-1]] += 1
            print(f"seed {seed}: {' '.join(ops)}: {why}", flush=True)
    unused = sorted({operator.op for operator in operators} - set(used))
    if unused:
        print("in no graph: " + ", ".join(f"{op} ({SAID.get(op, 'nothing fits')})" for op in unused))
    print(f"summary: graphs={args.graphs} nodes={used.total()} operators={len(used)} failed={failed}"
          + "".join(f" {op}={count}" for op, count in reasons.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
