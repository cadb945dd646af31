"""The wrapper in examples/python on libudo, next to ONNX Runtime and to what it has to refuse.

    tests/peers/python.py --library target/debug/deps/libudo.so
"""

import argparse
import gc
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

from varied import varied

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


def model():
    """Two inputs of open rows, two outputs, of other types and shapes."""
    port = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "y"], ["s"]),
        helper.make_node("ArgMax", ["s"], ["best"], axis=1, keepdims=0),
    ]
    weights = numpy.arange(12, dtype="float32").reshape(3, 4)
    graph = helper.make_graph(
        nodes, "python",
        [port("x", TensorProto.FLOAT, ["n", 3]), port("y", TensorProto.FLOAT, ["n", 4])],
        [port("s", TensorProto.FLOAT, ["n", 4]), port("best", TensorProto.INT64, ["n"])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def refused(call, kind, words, code=None):
    try:
        call()
    except kind as error:
        assert words in str(error) and (code is None or error.code == code), error
        return
    raise AssertionError(f"the call succeeded; expected an error with {words!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", dest="libudo", required=True)
    library = os.path.abspath(parser.parse_args().libudo)
    os.environ["UDO_LIBRARY"] = library
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(FOLDER))
    import udo

    bytes_of = model().SerializeToString()
    theirs = onnxruntime.InferenceSession(bytes_of, providers=["CPUExecutionProvider"])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(bytes_of)
        random = numpy.random.default_rng(7)
        for ours in (udo.Model(bytes_of), udo.Model(path, threads=2)):
            assert [(port.name, port.shape) for port in ours.inputs] == [("x", (-1, 3)), ("y", (-1, 4))]
            assert [port.name for port in ours.outputs] == ["s", "best"]
            for rows in (1, 5, 0, 64):
                # One array of the two does not lie in one piece.
                x = random.standard_normal((3, rows)).astype("float32").T
                y = random.standard_normal((rows, 4)).astype("float32")
                made = ours.run({"x": x, "y": y})
                wanted = dict(zip(("s", "best"), theirs.run(None, {"x": x, "y": y})))
                varied(f"{rows} rows", wanted.values())
                numpy.testing.assert_allclose(made["s"], wanted["s"], rtol=1e-5, atol=1e-5)
                assert made["best"].dtype == numpy.int64
                numpy.testing.assert_array_equal(made["best"], wanted["best"])
            refused(lambda: ours.run({"x": x}), ValueError, "wanted them for ['x', 'y']")
            refused(lambda: ours.run({"x": x.astype("float64"), "y": y}), TypeError, "wanted float32")
            refused(lambda: ours.run({"x": x[:, :2], "y": y}), udo.Error, "[64,2]")
        refused(lambda: udo.Model(os.path.join(folder, "none.onnx")), udo.Error, "none.onnx", code=5)
        refused(lambda: udo.Model(bytes_of, cores="teapot"), udo.Error, "teapot", code=1)
        refused(lambda: udo.Runtime(packages=[folder]), udo.Error, folder)
        gc.collect()
        said = subprocess.run(
            [sys.executable, "-B", FOLDER / "run.py", path, "2"], capture_output=True, text=True, check=True,
        ).stdout
        assert said.splitlines()[-2:] == ["output s: float32[2, 4], sum 140", "output best: int64[2], sum 6"], said
    print(f"libudo {udo.version()}: as ONNX Runtime")


if __name__ == "__main__":
    main()
