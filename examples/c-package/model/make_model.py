#!/usr/bin/env python3
"""Writes model.onnx and test_data_set_0 (input, and numpy's output).

needs: numpy onnx
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
DOMAIN = "ClipScale"

nodes = [
    helper.make_node("ClipScale", ["x"], ["clipped"], name="clip", domain=DOMAIN, low=-1.0, high=2.0),
    # A built-in operator in between.
    helper.make_node("Add", ["clipped", "one"], ["moved"], name="add"),
    helper.make_node("ClipScale", ["moved"], ["y"], name="clip_scale", domain=DOMAIN,
                     low=0.5, high=2.5, scale=-4.0),
]
graph = helper.make_graph(
    nodes, "clip-scale",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 6])],
    [numpy_helper.from_array(np.float32([1.0]), "one")])
opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
model = helper.make_model(graph, opset_imports=opsets, producer_name="udo")
model.ir_version = 8
onnx.save(model, os.path.join(HERE, "model.onnx"))

x = np.float32([[-1e30, -3.0, -1.0, -0.5, -0.25, 0.0], [0.25, 1.0, 1.25, 2.0, 2.5, 1e30]])
y = np.float32(-4.0) * np.clip(np.clip(x, -1.0, 2.0) + np.float32(1.0), 0.5, 2.5)
data = os.path.join(HERE, "test_data_set_0")
os.makedirs(data, exist_ok=True)
for name, array in (("input_0", x), ("output_0", y)):
    with open(os.path.join(data, name + ".pb"), "wb") as f:
        f.write(numpy_helper.from_array(array, name).SerializeToString())
print(y)
