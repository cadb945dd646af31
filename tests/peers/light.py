"""Networks with the shapes of well-known ones and random weights, made from those that come with the onnx package.

    python tests/peers/light.py FOLDER
    python tests/peers/models.py --udo target/release/udo FOLDER/*.onnx

Needs numpy and onnx. The package's light models have constants of one value for weights; here they are numbers from a
seed, scaled so that activations neither vanish nor explode. Vectors (biases, and the statistics of batch
normalization) are numbers between 0.5 and 1.5.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def numbers(rng, shape):
    if len(shape) < 2:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    fan_in = max(int(np.prod(shape[1:])), 1)
    return (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)


def weighted(path, rng):
    """The model with an initializer in the place of each constant that a node makes."""
    model = onnx.load(path)
    graph = model.graph
    given = {tensor.name: tensor for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        shape = given.get(node.input[0]) if node.op_type == "ConstantOfShape" else None
        if shape is None:
            nodes.append(node)
            continue
        values = numbers(rng, tuple(numpy_helper.to_array(shape)))
        graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
    del graph.node[:]
    graph.node.extend(nodes)
    # From version 4 on initializers are constants, and no inputs.
    model.ir_version = max(model.ir_version, 4)
    known = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in known]
    del graph.input[:]
    graph.input.extend(inputs)
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="output folder")
    parser.add_argument("--only", default="", help="write the networks whose names contain one of these, separated by commas")
    options = parser.parse_args()
    folder, wanted = options.folder, options.only.split(",")
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(LIGHT.glob("light_*.onnx")):
        if not any(name in path.stem for name in wanted):
            continue
        rng = np.random.default_rng(7)
        onnx.save(weighted(path, rng), folder / path.name.removeprefix("light_"))
        print(folder / path.name.removeprefix("light_"))


if __name__ == "__main__":
    main()
