#!/usr/bin/env python3
"""Writes model.onnx and test_data_set_0 (inputs, and numpy's outputs) from a seed.

The operators are no standard ones, so what they mean is written down in `grid_warp`, `ge_glu` and `box_nms`. The model
warps an image, gates features of its pixels, and keeps those of 64 boxes that score best and do not overlap.

needs: numpy onnx
"""
import math
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
DOMAIN = "VisionUdoPackage"
rng = np.random.default_rng(11)
erf = np.vectorize(math.erf)


def grid_warp(image, grid, outside="fill", fill=(0.0,)):
    """`image` is NCHW, as in the model; kernels get it as NHWC."""
    n, channels, height, width = image.shape
    x = ((grid[..., 0].astype(np.float64) + 1) * width - 1) / 2
    y = ((grid[..., 1].astype(np.float64) + 1) * height - 1) / 2
    if outside == "border":
        x, y = x.clip(0, width - 1), y.clip(0, height - 1)
    left, top = np.floor(x), np.floor(y)
    warped = np.zeros((n, channels) + grid.shape[1:3])
    for dy in (0, 1):
        for dx in (0, 1):
            u, v = (left + dx).astype(int), (top + dy).astype(int)
            inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
            share = (1 - np.abs(x - u)) * (1 - np.abs(y - v))
            for b in range(n):
                found = image[b][:, v[b].clip(0, height - 1), u[b].clip(0, width - 1)]
                warped[b] += share[b] * np.where(inside[b], found, fill[0])
    return warped.astype(np.float32)


def ge_glu(x, bias=None):
    value, gate = np.split(x.astype(np.float64) + (0 if bias is None else bias), 2, axis=-1)
    return (value * 0.5 * gate * (1 + erf(gate / math.sqrt(2)))).astype(np.float32)


def box_nms(boxes, scores, threshold=0.5, limit=100):
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    for r in np.argsort(-scores, kind="stable"):
        low = np.maximum(boxes[kept, :2], boxes[r, :2])
        high = np.minimum(boxes[kept, 2:], boxes[r, 2:])
        common = np.prod(np.maximum(0, high - low), axis=1)
        if len(kept) < limit and not np.any(common > threshold * (area[kept] + area[r] - common)):
            kept.append(int(r))
    return np.array(kept, np.int32)


def codes(values, scale, zero_point):
    """The real numbers that 8 bits of this encoding hold of these."""
    q = np.clip(np.rint(values / np.float32(scale)) + zero_point, 0, 255)
    return ((q - zero_point) * scale).astype(np.float32)


initializers = []
nodes = []


def constant(name, array):
    initializers.append(numpy_helper.from_array(array, name))
    return name


def quantized(value, name, scale, zero_point):
    """A quantize and dequantize pair: what tells fixed-point cores the encoding of a value."""
    s = constant(f"{name}_scale", np.float32(scale))
    z = constant(f"{name}_zero_point", np.uint8(zero_point))
    nodes.append(helper.make_node("QuantizeLinear", [value, s, z], [f"{name}_q"], name=f"{name}_quantize"))
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [name], name=f"{name}_dequantize"))
    return name


def own(op, inputs, output, **attributes):
    nodes.append(helper.make_node(op, inputs, [output], name=output, domain=DOMAIN, **attributes))
    return output


image = rng.standard_normal((1, 3, 16, 16)).astype(np.float32)
grid = rng.uniform(-1.25, 1.25, (1, 8, 8, 2)).astype(np.float32)
w1 = rng.standard_normal((3, 16)).astype(np.float32)
w2 = rng.standard_normal((4, 1)).astype(np.float32)
bias = codes(rng.standard_normal(16) * 0.5, 1 / 64, 128)
cells = np.stack(np.meshgrid(np.arange(8), np.arange(8)), axis=-1).reshape(64, 2).astype(np.float32)
boxes = np.concatenate([cells, cells + rng.uniform(1.25, 2.5, (64, 2))], axis=1).astype(np.float32)

own("GridWarp", ["image", "grid"], "warped", outside="border")
own("GridWarp", ["image", "grid"], "framed", fill=[0.5])
nodes.append(helper.make_node("Transpose", ["warped"], ["last"], name="last", perm=[0, 2, 3, 1]))
nodes.append(helper.make_node("Reshape", ["last", constant("by_pixel", np.array([64, 3], np.int64))], ["pixels"],
                              name="pixels"))
nodes.append(helper.make_node("MatMul", ["pixels", constant("w1", w1)], ["features_"], name="features_"))
features = quantized("features_", "features", 1 / 16, 128)
own("GeGlu", [features, quantized(constant("bias_", bias), "bias", 1 / 64, 128)], "gated_")
gated = quantized("gated_", "gated", 1 / 8, 100)
own("GeGlu", [gated], "twice")
nodes.append(helper.make_node("MatMul", ["twice", constant("w2", w2)], ["score"], name="score"))
nodes.append(helper.make_node("Reshape", ["score", constant("flat", np.array([-1], np.int64))], ["scores"],
                              name="scores"))
own("BoxNms", [constant("boxes", boxes), "scores"], "kept", threshold=0.25, limit=10)

tensors = helper.make_tensor_value_info
graph = helper.make_graph(
    nodes, "vision-demo",
    [tensors("image", TensorProto.FLOAT, [1, 3, 16, 16]), tensors("grid", TensorProto.FLOAT, [1, 8, 8, 2])],
    [tensors("framed", TensorProto.FLOAT, [1, 3, 8, 8]), tensors("gated", TensorProto.FLOAT, [64, 8]),
     tensors("kept", TensorProto.INT32, [None])],
    initializers)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
model = helper.make_model(graph, opset_imports=opsets, producer_name="udo")
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, os.path.join(HERE, "model.onnx"))

warped = grid_warp(image, grid, outside="border")
pixels = warped.transpose(0, 2, 3, 1).reshape(64, 3)
gated = codes(ge_glu(codes(pixels @ w1, 1 / 16, 128), bias), 1 / 8, 100)
kept = box_nms(boxes, (ge_glu(gated) @ w2).reshape(-1), threshold=0.25, limit=10)
data = os.path.join(HERE, "test_data_set_0")
os.makedirs(data, exist_ok=True)
for name, array in (("input_0", image), ("input_1", grid), ("output_0", grid_warp(image, grid, fill=(0.5,))),
                    ("output_1", gated), ("output_2", kept)):
    with open(os.path.join(data, name + ".pb"), "wb") as f:
        f.write(numpy_helper.from_array(array, name).SerializeToString())
print(kept)
