"""Session options with which ONNX Runtime multiplies integers exactly on every machine."""

import onnxruntime


def options():
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    # Without it sums of two products are cut off at 16 bits on processors without instructions for four.
    made.add_session_config_entry("session.x64quantprecision", "1")
    return made
