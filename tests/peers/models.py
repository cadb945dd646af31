"""Times whole models against ONNX Runtime, and optionally OpenVINO, tract and rten, with equal numbers of threads.

    python tests/peers/models.py --udo target/release/udo model.onnx [folder ..] [--threads 1,2] [--rounds 5]
    python tests/peers/models.py --udo target/release/udo --openvino --write docs/PERFORMANCE.md=cnn MODELS/*.onnx
    python tests/peers/models.py --udo target/release/udo --tract --rten --each docs/PERFORMANCE.md=peers MODELS/*.onnx
    python tests/peers/models.py --udo target/release/udo --baseline OLD/udo --rounds 9 --threads 1,2 MODELS/*.onnx

Needs numpy, onnx and onnxruntime, openvino with --openvino, and crates with --tract and --rten, which build tests/peers/rust
under target/peers. A model is a file, which gets random inputs, or a folder with model.onnx and the inputs in
test_data_set_0, or that of --case. All engines take turns. Prints the median milliseconds of each, the median of the rounds' ratios to the
fastest peer, the share of the machine's limits that `udo bench` says, the largest difference of the first output from ONNX
Runtime's, and the geometric mean of the ratios. Exits with 1 if a difference is large, of a peer's output as well; a model that
a peer cannot run is named. `--write FILE=NAME` puts the table between the lines `<!-- table NAME -->` and `<!-- end -->` of a
file, `--each` one with a column for each peer, `--roofline` one of the shares. `--baseline` compares with another build of udo,
which takes its turns in the same rounds: the median of the rounds' ratios for each model, their geometric mean, and the largest.
"""

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from tables import write
from varied import varied

RUNS = 20
TOLERANCE = 1e-3
# Half precision may differ by a few more units in the last place: engines round at different nodes.
HALF_STEPS = 4

ROOT = Path(__file__).resolve().parents[2]


class CannotRun(Exception):
    """A peer does not support the model."""


class InProcess:
    """A peer whose `run` runs the model once."""

    def median_ms(self):
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            self.run()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)

    def apart(self, wanted):
        return 0.0

    def close(self):
        pass


class OnnxRuntime(InProcess):
    name = "ONNX Runtime"

    def __init__(self, path, threads, inputs):
        self.session, self.inputs = session_of(path, threads), inputs

    def run(self):
        return self.session.run(None, self.inputs)


class OpenVino(InProcess):
    name = "OpenVINO"

    def __init__(self, path, threads, inputs):
        import openvino

        core = openvino.Core()
        hints = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            # Else activations are quantized where weights are, which is as far from f32 as a hint of f32 should not be.
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        }
        try:
            model = core.read_model(str(path))
            model.reshape({name: list(value.shape) for name, value in inputs.items()})
            compiled = core.compile_model(model, "CPU", hints)
        except RuntimeError as error:
            raise CannotRun(str(error).strip().splitlines()[-1]) from error
        self.request = compiled.create_infer_request()
        self.inputs = inputs

    def run(self):
        return self.request.infer(self.inputs)


class Crate:
    """A peer that runs in a process of its own, as tests/peers/rust/src/main.rs says."""

    def __init__(self, path, threads, inputs):
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        described = []
        for index, (name, value) in enumerate(inputs.items()):
            kind = {"float32": "f32", "int32": "i32", "int64": "i64"}.get(str(value.dtype), str(value.dtype))
            (folder / f"{index}").write_bytes(np.ascontiguousarray(value).tobytes())
            described.append(f"{name}={kind}:{','.join(map(str, value.shape))}={folder / f'{index}'}")
        self.output = folder / "output"
        command = [crates(), self.engine, str(path), str(threads), str(self.output), *described]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)
        said = self.process.stdout.readline().strip()
        if said != "ready":
            self.close()
            raise CannotRun(said.removeprefix("cannot ") or "it ended")

    def median_ms(self):
        self.process.stdin.write(f"{RUNS}\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline().split()
        if said[:1] != ["ms"]:
            raise CannotRun("it ended in a run")
        return statistics.median(map(float, said[1:]))

    def apart(self, wanted):
        found = np.frombuffer(self.output.read_bytes(), np.float32)
        return float(np.abs(found - wanted.ravel()).max()) if found.size == wanted.size else float("inf")

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


class Tract(Crate):
    name, engine = "tract", "tract"


class Rten(Crate):
    name, engine = "rten", "rten"


@functools.cache
def crates():
    """Builds the program that runs models with a Rust crate, and returns its path."""
    target = ROOT / "target/peers"
    manifest = ROOT / "tests/peers/rust/Cargo.toml"
    build = ["cargo", "build", "--release", "--locked", "--manifest-path", str(manifest), "--target-dir", str(target)]
    subprocess.run(build, check=True)
    return target / "release/udo-peers"


def session_of(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs_of(path, session, case):
    """Returns the recorded inputs next to a model, or random ones."""
    recorded = path.parent / f"test_data_set_{case}"
    if path.name == "model.onnx" and recorded.is_dir():
        tensors = [onnx.load_tensor(recorded / f"input_{i}.pb") for i in range(len(session.get_inputs()))]
        return {value.name: numpy_helper.to_array(tensor) for value, tensor in zip(session.get_inputs(), tensors)}
    rng = np.random.default_rng(7)
    inputs = {}
    for value in session.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
        inputs[value.name] = rng.standard_normal(shape).astype(np.float32)
    return inputs


def own(udo, *arguments):
    done = subprocess.run([udo, *map(str, arguments), "--json"], capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"udo {arguments[0]} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def write_tensors(folder, kind, values):
    for index, value in enumerate(values):
        tensor = numpy_helper.from_array(np.asarray(value)).SerializeToString()
        (folder / f"{kind}_{index}.pb").write_bytes(tensor)


def timed(arguments, path, threads):
    """Times a model, and returns its row of the table."""
    session = session_of(path, threads)
    inputs = inputs_of(path, session, arguments.case)
    outputs = varied(path, session.run(None, inputs))
    largest = max(float(np.abs(outputs[0]).max()), 1e-30)
    is_half = outputs[0].dtype == np.float16
    tolerance = TOLERANCE + (HALF_STEPS * float(np.finfo(np.float16).eps) if is_half else 0)
    asked = {OpenVino: arguments.openvino, Tract: arguments.tract, Rten: arguments.rten}
    peers, refused = [OnnxRuntime(path, threads, inputs)], {}
    for kind in [kind for kind, is_asked in asked.items() if is_asked]:
        try:
            peers.append(kind(path, threads, inputs))
        except CannotRun as reason:
            refused[kind.name] = str(reason)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        write_tensors(data, "input", inputs.values())
        bench = ["bench", path, "--data", data, "--iterations", RUNS, "--warmup", 3, "--threads", threads]
        turns, shares, changes = [], [], []
        for index in range(arguments.rounds):
            udos = [arguments.udo, arguments.baseline] if arguments.baseline else [arguments.udo]
            # Neither build always comes first.
            order = reversed(udos) if index % 2 else udos
            reports = {udo: own(udo, *bench) for udo in order}
            report = reports[arguments.udo]
            own_ms, *baseline_ms = [reports[udo]["latency_us"]["median"] / 1e3 for udo in udos]
            changes += [own_ms / ms for ms in baseline_ms]
            shares.append(report["roofline_share"] or 0.0)
            turns.append([own_ms, *(peer.median_ms() for peer in peers)])
        write_tensors(data, "output", outputs)
        checked = own(arguments.udo, "verify", path, "--data", data)
    apart = {peer.name: peer.apart(outputs[0]) / largest for peer in peers}
    for peer in peers:
        peer.close()
    return {
        "model": path.parent.name if path.name == "model.onnx" else path.stem,
        "threads": threads,
        "ms": [statistics.median(times) for times in zip(*turns)],
        "peers": [peer.name for peer in peers],
        "ratio": statistics.median(own / min(peers) for own, *peers in turns),
        "ratios": {
            peer.name: statistics.median(turn[0] / turn[at] for turn in turns) for at, peer in enumerate(peers, 1)
        },
        "refused": refused,
        "change": statistics.median(changes) if changes else None,
        "share": statistics.median(shares),
        "apart": max(checked["outputs"][0]["max_abs"] / largest, *apart.values()),
        "tolerance": tolerance,
        "heap_calls": report["allocations_per_run"],
    }


def say(row):
    ours, *theirs = row["ms"]
    peers = ", ".join(f"{name} {ms:8.2f} ms" for name, ms in zip(row["peers"], theirs))
    print(
        f"{row['model']:<24} {ours:8.2f} ms, {peers}: {row['ratio']:.2f} x, {row['share']:.2f} of the limits, "
        f"apart by {row['apart']:.1e} of the largest, {row['heap_calls']:.0f} heap calls per run",
        flush=True,
    )
    if row["change"] is not None:
        print(f"  {row['change']:.3f} times the baseline", flush=True)
    for name, reason in row["refused"].items():
        print(f"  {name} cannot run it: {reason}", flush=True)


def geometric_means(rows):
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["threads"] == threads]
        yield threads, statistics.geometric_mean(ratios)


def say_changes(rows):
    """Prints how the rows compare with the baseline."""
    for threads in sorted({row["threads"] for row in rows}):
        changes = {row["model"]: row["change"] for row in rows if row["threads"] == threads}
        mean, most = statistics.geometric_mean(changes.values()), max(changes, key=changes.get)
        print(f"times the baseline, {threads} threads: geometric mean {mean:.3f}, most {changes[most]:.3f} ({most})")


def table(rows):
    """The rows as Markdown, a model's numbers of threads next to each other."""
    threads = sorted({row["threads"] for row in rows})
    peer = " and ".join(rows[0]["peers"])
    peer = f"the faster of {peer}" if len(rows[0]["peers"]) > 1 else peer
    heads = [f"ms, {n} thread{'s' * (n > 1)} | times {peer}" for n in threads]
    yield f"| model | {' | '.join(heads)} |"
    yield "|---|" + "---:|---:|" * len(threads)
    for model in dict.fromkeys(row["model"] for row in rows):
        of = {row["threads"]: row for row in rows if row["model"] == model}
        cells = [f"{of[n]['ms'][0]:.2g} | {of[n]['ratio']:.2f}" for n in threads]
        yield f"| {model} | {' | '.join(cells)} |"
    means = [f" | {mean:.2f}" for _, mean in geometric_means(rows)]
    yield f"| geometric mean | {' | '.join(means)} |"


def each(rows):
    """The rows as Markdown, with a column for each peer."""
    threads = sorted({row["threads"] for row in rows})
    names = list(dict.fromkeys(name for row in rows for name in [*row["peers"], *row["refused"]]))
    heads = [f"ms, {n} thread{'s' * (n > 1)} | {' | '.join(f'times {name}' for name in names)}" for n in threads]
    yield f"| model | {' | '.join(heads)} |"
    yield "|---|" + ("---:|" * (1 + len(names))) * len(threads)
    for model in dict.fromkeys(row["model"] for row in rows):
        of = {row["threads"]: row for row in rows if row["model"] == model}
        cells = []
        for row in (of[n] for n in threads):
            ratios = [f"{row['ratios'][name]:.2f}" if name in row["ratios"] else "cannot run it" for name in names]
            cells.append(" | ".join([f"{row['ms'][0]:.2g}", *ratios]))
        yield f"| {model} | {' | '.join(cells)} |"
    means = []
    for n in threads:
        of = [row["ratios"] for row in rows if row["threads"] == n]
        ran = [[ratios[name] for ratios in of if name in ratios] for name in names]
        means.append(" | ".join(["", *(f"{statistics.geometric_mean(x):.2f}" if x else "" for x in ran)]))
    yield f"| geometric mean | {' | '.join(means)} |"


def roofline(rows):
    """The rows as Markdown: how long models would take at the machine's limits, and which share of them they reach."""
    threads = sorted({row["threads"] for row in rows})
    heads = [f"ms at the limits, {n} thread{'s' * (n > 1)} | share" for n in threads]
    yield f"| model | {' | '.join(heads)} |"
    yield "|---|" + "---:|---:|" * len(threads)
    for model in dict.fromkeys(row["model"] for row in rows):
        of = {row["threads"]: row for row in rows if row["model"] == model}
        cells = [f"{of[n]['ms'][0] * of[n]['share']:.2g} | {of[n]['share']:.2f}" for n in threads]
        yield f"| {model} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, help="files, or folders with model.onnx")
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--baseline", help="path of another udo binary to compare with")
    parser.add_argument("--threads", default="1", help="numbers of threads of each engine, separated by commas (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--case", type=int, default=0, help="number of the data set that is used as input (default 0)")
    parser.add_argument("--openvino", action="store_true", help="compare with OpenVINO too")
    parser.add_argument("--tract", action="store_true", help="compare with tract too")
    parser.add_argument("--rten", action="store_true", help="compare with rten too")
    tables = {
        "--write": (table, "write the table to a file"),
        "--each": (each, "write a table with a column for each peer"),
        "--roofline": (roofline, "write a table of roofline bounds"),
    }
    for flag, (_, what) in tables.items():
        parser.add_argument(flag, action="append", default=[], metavar="FILE=NAME", help=what)
    arguments = parser.parse_args()
    rows = []
    for threads in map(int, arguments.threads.split(",")):
        for model in arguments.models:
            rows.append(timed(arguments, model / "model.onnx" if model.is_dir() else model, threads))
            say(rows[-1])
    for threads, mean in geometric_means(rows):
        print(f"geometric mean, {threads} threads: {mean:.2f}")
    if arguments.baseline:
        say_changes(rows)
    for flag, (of, _) in tables.items():
        for target in getattr(arguments, flag.removeprefix("--")):
            write(target, of(rows))
    sys.exit(any(not row["apart"] <= row["tolerance"] for row in rows))


if __name__ == "__main__":
    main()
