#!/usr/bin/env python3
"""Writes model.onnx and test_data_set_0 (input, and ONNX Runtime's outputs) from a seed.

needs: numpy onnx onnxruntime
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(11)
rows = 6
cols = 8

nodes = [
    helper.make_node("Selu", ["x"], ["y"], name="with_defaults"),
    helper.make_node("Selu", ["x"], ["h"], name="with_parameters", alpha=2.0, gamma=0.5),
    # Nothing else reads `h`, so this one may run in its place.
    helper.make_node("Selu", ["h"], ["z"], name="in_place"),
]
graph = helper.make_graph(
    nodes, "selu",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, cols])],
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, cols]) for name in ("y", "z")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="udo")
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, os.path.join(HERE, "model.onnx"))

x = np.stack([
    rng.uniform(0.0, 3.0, cols),
    rng.uniform(-3.0, 0.0, cols),
    rng.standard_normal(cols),
    np.array([0.0, -0.0, 1e-7, -1e-7, 1e-3, -1e-3, 1e-30, -1e-30]),
    np.array([10.0, 88.0, 1e3, 1e4, 1e6, 1e20, 1e30, 3e38 / 4]),
    np.array([-10.0, -50.0, -88.0, -104.0, -1e3, -1e6, -1e20, -1e38]),
]).astype(np.float32)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
outputs = session.run(None, {"x": x})
data = os.path.join(HERE, "test_data_set_0")
os.makedirs(data, exist_ok=True)
for name, array in (("input_0", x), ("output_0", outputs[0]), ("output_1", outputs[1])):
    with open(os.path.join(data, name + ".pb"), "wb") as f:
        f.write(numpy_helper.from_array(array, name).SerializeToString())
print(outputs[0])
