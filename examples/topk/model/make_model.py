#!/usr/bin/env python3
"""Writes model.onnx and test_data_set_0 .. 2 (inputs, and numpy's outputs) from a seed.

The operator is not a standard one, so its meaning is written down in `top_k_above`.

needs: numpy onnx
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
DOMAIN = "TopKUdoPackage"
LEN = 32
K = 5
# Every element is above the first, some or all or none above the second, none above the last.
THRESHOLDS = [("every", -100.0), ("some", 1.0), ("none", 100.0)]


def top_k_above(x, k, threshold):
    order = np.argsort(-x, kind="stable")
    indices = order[x[order] > np.float32(threshold)][:k].astype(np.int32)
    return x[indices], indices


nodes = []
outputs = []
for name, threshold in THRESHOLDS:
    values, indices = f"{name}_values", f"{name}_indices"
    nodes.append(helper.make_node("TopKAbove", ["x"], [values, indices], name=name, domain=DOMAIN,
                                  k=K, threshold=threshold))
    outputs.append(helper.make_tensor_value_info(values, TensorProto.FLOAT, [None]))
    outputs.append(helper.make_tensor_value_info(indices, TensorProto.INT32, [None]))
# More than there are elements: the input's length is the bound.
nodes.append(helper.make_node("TopKAbove", ["x"], ["sorted_values", "sorted_indices"], name="sorted",
                              domain=DOMAIN, k=2 * LEN, threshold=-100.0))
outputs.append(helper.make_tensor_value_info("sorted_values", TensorProto.FLOAT, [None]))
outputs.append(helper.make_tensor_value_info("sorted_indices", TensorProto.INT32, [None]))

graph = helper.make_graph(
    nodes, "topk", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [LEN])], outputs)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
model = helper.make_model(graph, opset_imports=opsets, producer_name="udo")
model.ir_version = 8
onnx.save(model, os.path.join(HERE, "model.onnx"))

rng = np.random.default_rng(5)
few = rng.uniform(-2.0, 1.0, LEN)
few[[3, 17]] = [1.5, 2.5]
ties = np.repeat([4.0, -1.0, 2.0, 4.0], LEN // 4)
low = rng.uniform(-50.0, 1.0, LEN)
for index, x in enumerate([few, ties, low]):
    x = x.astype(np.float32)
    results = [top_k_above(x, K, threshold) for _, threshold in THRESHOLDS]
    results.append(top_k_above(x, 2 * LEN, -100.0))
    wanted = [tensor for pair in results for tensor in pair]
    tensors = [("input_0", x)] + [(f"output_{i}", tensor) for i, tensor in enumerate(wanted)]
    data = os.path.join(HERE, f"test_data_set_{index}")
    os.makedirs(data, exist_ok=True)
    for name, array in tensors:
        with open(os.path.join(data, name + ".pb"), "wb") as f:
            f.write(numpy_helper.from_array(array, name).SerializeToString())
    print([len(t) for _, t in tensors])
