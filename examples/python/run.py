"""Runs a model over arrays of ones, and prints what came out: run.py MODEL [EXTENT of open dimensions]"""

import sys

import numpy
import udo


def main(path, extent=1):
    model = udo.Model(path)
    arrays = {}
    for port in model.inputs:
        arrays[port.name] = numpy.ones([extent if dim < 0 else dim for dim in port.shape], port.dtype)
        print(f"input {port.name}: {port.dtype}{list(port.shape)}")
    for name, array in model.run(arrays).items():
        print(f"output {name}: {array.dtype}{list(array.shape)}, sum {array.sum():g}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
