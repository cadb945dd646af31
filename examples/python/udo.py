"""Models in Python, on numpy arrays: libudo by ctypes, without a build step.

    import udo
    model = udo.Model("model.onnx")
    outputs = model.run({"x": numpy.ones((1, 3), "float32")})

The library is looked for where UDO_LIBRARY says, beside this file, and then where the system looks.
"""

import ctypes
import json
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import numpy

DTYPES = {
    1: "float32", 2: "float64", 3: "float16", 5: "int8", 6: "int16", 7: "int32", 8: "int64",
    9: "uint8", 10: "uint16", 11: "uint32", 12: "uint64", 13: "bool",
}
FALLBACK_CPU = 1
DYNAMIC_SHAPE = 9
PERFORMANCE = {"none": 0, "low": 1, "medium": 2, "high": 3, "extreme": 4}
PRIORITY = {"none": 0, "low": 1, "medium": 2, "high": 3}
PRECISION = {"full": 0, "half": 1}


class Error(Exception):
    """Why a call was refused; `code` is one of UDO_ERROR_*."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class _LoadOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("max_memory_bytes", c_uint64), ("threads", c_uint32), ("fallback", c_uint32),
        ("cores", c_char_p), ("dims", c_void_p), ("dim_count", c_size_t), ("performance", c_uint32),
        ("priority", c_uint32), ("precision", c_uint32), ("reserved", c_uint32), ("extensions", c_void_p),
        ("extension_count", c_size_t),
    ]


class _Extension(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


def _open():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libudo.so")
    path = os.environ.get("UDO_LIBRARY") or (beside if os.path.exists(beside) else "libudo.so")
    library = ctypes.CDLL(path)
    library.udo_error_code.restype = c_uint32
    library.udo_error_message.restype = c_char_p
    library.udo_version.restype = c_char_p
    return library


_udo = _open()


def _call(name, *arguments):
    """Calls a function that returns NULL or an error, which is raised."""
    function = getattr(_udo, name)
    function.restype = c_void_p
    error = function(*arguments)
    if error:
        raised = Error(_udo.udo_error_code(c_void_p(error)), _udo.udo_error_message(c_void_p(error)).decode())
        _udo.udo_error_release(c_void_p(error))
        raise raised


class _Handle:
    """What a call hands out, which goes with it."""

    def __init__(self, release, name, *arguments):
        self._as_parameter_ = c_void_p()
        self._release = getattr(_udo, release)
        _call(name, *arguments, byref(self._as_parameter_))

    def __del__(self):
        # Nothing was made where the call was refused.
        if getattr(self, "_as_parameter_", None):
            self._release(self._as_parameter_)


def _told(of, name, *arguments):
    out = of()
    _call(name, *arguments, byref(out))
    return out.value


def _dims(values):
    return (c_int64 * len(values))(*values)


def version():
    return _udo.udo_version().decode()


class Port:
    """An input or output: its name, type, and dimensions, of which -1 is an open one; None where only a run says them."""

    def __init__(self, model, side, index):
        self.name = _told(c_char_p, f"udo_model_{side}_name", model, c_size_t(index)).decode()
        self.dtype = self.shape = None
        try:
            spec = _Handle("udo_tensor_spec_release", f"udo_model_{side}_spec", model, c_size_t(index))
        except Error as error:
            if error.code != DYNAMIC_SHAPE:
                raise
        else:
            self.dtype, self.shape = _described(spec)


def _described(spec):
    number = _told(c_uint32, "udo_tensor_spec_dtype", spec)
    dims = _dims([0] * _told(c_size_t, "udo_tensor_spec_rank", spec))
    _call("udo_tensor_spec_dims", spec, dims, c_size_t(len(dims)))
    if number not in DTYPES:
        raise TypeError(f"elements of type {number} of udo.h, which numpy has not")
    return numpy.dtype(DTYPES[number]), tuple(dims)


class Runtime:
    """Operators, built in and of packages, and devices."""

    def __init__(self, packages=()):
        class Options(Structure):
            _fields_ = [
                ("size", c_size_t), ("packages", POINTER(c_char_p)), ("package_count", c_size_t),
                ("devices", c_void_p), ("device_count", c_size_t),
            ]

        paths = (c_char_p * len(packages))(*(os.fsencode(path) for path in packages))
        options = Options(ctypes.sizeof(Options), paths, len(packages), None, 0)
        self._handle = _Handle("udo_runtime_release", "udo_runtime_create", byref(options))
        self._as_parameter_ = self._handle._as_parameter_
        self.cpu = _Handle("udo_device_release", "udo_device_open", self, c_uint32(1), c_uint32(0))


def _options(cores, threads, performance, priority, precision, extensions):
    """What the first of the cores does not take runs on the CPU, as the command has it. Extensions are settings by name."""
    named = [_Extension(name.encode(), str(value).encode()) for name, value in (extensions or {}).items()]
    named = (_Extension * len(named))(*named)
    made = _LoadOptions(
        ctypes.sizeof(_LoadOptions), 0, threads, FALLBACK_CPU, cores.encode() if cores else None, None, 0,
        PERFORMANCE[performance], PRIORITY[priority], PRECISION[precision], 0,
        ctypes.cast(named, c_void_p), len(named),
    )
    # They stay as long as the options.
    made.named = named
    return made


def _source(runtime, source, what):
    if isinstance(source, bytes):
        return (f"{what}_bytes", runtime, source, c_size_t(len(source)))
    return (f"{what}_file", runtime, os.fsencode(source))


class _FallbackReport(Structure):
    _fields_ = [(name, c_char_p) for name in ("name", "op", "selected", "failed", "reason", "target")]


class Model:
    """A model of a file, or of its bytes, and memory for one run of it at a time."""

    def __init__(
        self, source, cores=None, threads=0, runtime=None, performance="none", priority="none", precision="full",
        extensions=None,
    ):
        self.runtime = runtime or Runtime()
        options = _options(cores, threads, performance, priority, precision, extensions)
        arguments = _source(self.runtime, source, "udo_model_load")
        self._of(_Handle("udo_model_release", *arguments, byref(options)))

    def _of(self, handle):
        self._model = handle
        sides = {side: _told(c_size_t, f"udo_model_{side}_count", self._model) for side in ("input", "output")}
        self.inputs = [Port(self._model, "input", i) for i in range(sides["input"])]
        self.outputs = [Port(self._model, "output", i) for i in range(sides["output"])]
        self._session = _Handle("udo_session_release", "udo_session_create", self._model, None)

    def report(self):
        """All that the model says of itself: its operations with their cores, and what memory its plan takes."""
        return json.loads(_told(c_char_p, "udo_model_json", self._model))

    def fallbacks(self):
        """Which core did not take which operation, why, and where it runs; a dictionary each."""
        made = []
        for index in range(_told(c_size_t, "udo_model_fallback_count", self._model)):
            report = _FallbackReport()
            _call("udo_model_fallback", self._model, c_size_t(index), byref(report))
            made.append({name: getattr(report, name).decode() for name, _ in _FallbackReport._fields_})
        return made

    def run(self, inputs):
        """Runs over arrays by name, and returns new ones by name."""
        names = [port.name for port in self.inputs]
        if sorted(inputs) != sorted(names):
            raise ValueError(f"arrays for {sorted(inputs)}; wanted them for {sorted(names)}")
        given = [self._tensor(port, inputs[port.name]) for port in self.inputs]
        made = (c_void_p * len(self.outputs))()
        _call(
            "udo_session_run", self._session,
            (c_void_p * len(given))(*(tensor._as_parameter_.value for tensor in given)), c_size_t(len(given)),
            made, c_size_t(len(made)),
        )
        try:
            return {port.name: _array(c_void_p(tensor)) for port, tensor in zip(self.outputs, made)}
        finally:
            for tensor in made:
                _udo.udo_tensor_release(c_void_p(tensor))

    def _tensor(self, port, array):
        array = numpy.asarray(array, order="C")
        if array.dtype != port.dtype:
            raise TypeError(f"input {port.name!r} has elements {array.dtype}; wanted {port.dtype}")
        number = next(number for number, name in DTYPES.items() if name == array.dtype.name)
        spec = _Handle(
            "udo_tensor_spec_release", "udo_tensor_spec_create", c_uint32(number), _dims(array.shape),
            c_size_t(array.ndim),
        )
        tensor = _Handle("udo_tensor_release", "udo_tensor_create", self.runtime.cpu, spec)
        _call("udo_tensor_write", tensor, c_void_p(array.ctypes.data), c_size_t(array.nbytes))
        return tensor


class Networks:
    """The networks of a model's file, or of its bytes."""

    def __init__(
        self, source, cores=None, threads=0, runtime=None, performance="none", priority="none", precision="full",
        extensions=None,
    ):
        self.runtime = runtime or Runtime()
        options = _options(cores, threads, performance, priority, precision, extensions)
        arguments = _source(self.runtime, source, "udo_networks_open")
        self._networks = _Handle("udo_networks_release", *arguments, byref(options))

    def names(self):
        count = _told(c_size_t, "udo_networks_count", self._networks)
        networks = (_Handle("udo_network_release", "udo_networks_at", self._networks, c_size_t(i)) for i in range(count))
        return [_told(c_char_p, "udo_network_name", network).decode() for network in networks]

    def stages(self, name):
        return _told(c_size_t, "udo_network_stage_count", self._find(name))

    def model(self, name, stage=0):
        """The model of a stage of a network."""
        made = Model.__new__(Model)
        made.runtime = self.runtime
        made._of(_Handle("udo_model_release", "udo_network_model", self._find(name), c_size_t(stage)))
        return made

    def _find(self, name):
        return _Handle("udo_network_release", "udo_networks_find", self._networks, name.encode())


def _array(tensor):
    spec = _Handle("udo_tensor_spec_release", "udo_tensor_spec", tensor)
    dtype, shape = _described(spec)
    array = numpy.empty(shape, dtype)
    _call("udo_tensor_read", tensor, c_void_p(array.ctypes.data), c_size_t(array.nbytes))
    return array
