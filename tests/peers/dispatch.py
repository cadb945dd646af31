#!/usr/bin/env python3
"""Nanoseconds per node of ONNX Runtime for a chain of 1,000 operators over 16 floats.

The same chain as `cargo bench -p udo-runtime --bench dispatch`, with graph optimizations off so
that the nodes stay. needs: numpy onnx onnxruntime
"""
import statistics
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

NODES, RUNS = 1000, 300


def chain(op, initializers=()):
    names = ["x"] + [f"v{i}" for i in range(NODES)]
    extra = [i.name for i in initializers]
    nodes = [helper.make_node(op, [a, *extra], [b]) for a, b in zip(names, names[1:])]
    graph = helper.make_graph(
        nodes, "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [16])],
        list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def measure(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.ones(16, dtype=np.float32)}
    times = []
    for run in range(RUNS + 20):
        start = time.perf_counter_ns()
        session.run(None, feeds)
        if run >= 20:
            times.append((time.perf_counter_ns() - start) / NODES)
    return statistics.median(times)


one = numpy_helper.from_array(np.ones(16, dtype=np.float32), "one")
for name, model in (("Relu", chain("Relu")), ("Mul by a constant", chain("Mul", [one]))):
    print(f"ONNX Runtime {ort.__version__} {name:<20} {measure(model):8.1f} ns/node")
