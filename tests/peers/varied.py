"""Refuses reference outputs that a constant would pass."""

import numpy as np


class Constant(Exception):
    """A reference output within the tolerance of a constant."""


def is_constant(array, tolerance=0.0):
    """Whether one number is within the tolerance of all of several ones."""
    array = np.asarray(array)
    if array.size < 2:
        return False
    if array.dtype.kind not in "fiub":
        return bool((array.ravel()[1:] == array.ravel()[0]).all())
    numbers = array.astype(np.float64).ravel()
    if np.isnan(numbers).all():
        return True
    finite = numbers[np.isfinite(numbers)]
    return finite.size == numbers.size and float(finite.max() - finite.min()) <= 2 * tolerance


def varied(what, arrays, because=None, tolerance=0.0):
    """Refuses references of which none varies by more than the tolerance, unless it is said why; gives them back."""
    arrays = list(arrays)
    several = [array for array in arrays if np.asarray(array).size > 1]
    if several and not because and all(is_constant(array, tolerance) for array in several):
        raise Constant(f"{what}: every reference is constant, so that a comparison with it shows nothing: choose other inputs, or say why")
    return arrays
