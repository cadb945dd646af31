"""Compares the time from a model's file to its first result, and the memory, with ONNX Runtime.

    python tests/peers/load.py --udo target/release/udo model.onnx [more.onnx ..] [--threads 2] [--rounds 5] [--json]

Needs numpy, onnx and onnxruntime. Each engine loads each model in a new process, in turns; a first pair of turns is not
counted. Inputs are those of `test_data_set_0` beside the model, if it is there, else ones. Prints, for each model, medians of the
milliseconds to the first result and the median of the rounds' ratios; the largest memory that the process had and what it
holds afterwards, without mapped files, in MiB; the weights that UDO holds in relation to the file; its arenas, and their ratio to the
largest sum of live tensors. Then the worst value of all models next to its target. The memory of Python and its modules is
subtracted from that of ONNX Runtime.

With --cache only loads are measured, without a run, alternating with creating ONNX Runtime's session: from the file, with a cache that
an earlier process filled, and from a model file that `udo prepare` completed, with all files in the system's page cache. Prints medians
in milliseconds and the medians of the rounds' ratios as a table, with the targets: with the cache 10 % of ONNX Runtime's time where
that is more than 50 ms, else 3 ms, and from the prepared model file 25 %.

The peak memory of UDO may be 64 MiB, eight times the file, and what it holds in the end together; a model that takes more
fails the command.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20


def memory_use():
    """Returns the peak resident memory of this process and its current anonymous memory, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = {key: value for key, _, value in (line.partition(":") for line in lines)}
    return [int(fields[key].split()[0]) << 10 for key in ("VmHWM", "RssAnon")]


def recorded(path):
    """Returns the folder with inputs beside a model, or None."""
    folder = path.parent / "test_data_set_0"
    return folder if any(folder.glob("input_*.pb")) else None


def peer(path, threads):
    """Loads and runs a model with ONNX Runtime in this new process, and prints its time and memory."""
    import numpy as np
    import onnx.numpy_helper
    import onnxruntime as ort

    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    types |= {"tensor(float16)": np.float16, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}
    before = memory_use()
    start = time.perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    feeds = {}
    folder = recorded(Path(path))
    for at, value in enumerate(session.get_inputs()):
        if folder:
            proto = onnx.TensorProto.FromString((folder / f"input_{at}.pb").read_bytes())
            feeds[value.name] = onnx.numpy_helper.to_array(proto)
            continue
        shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
        feeds[value.name] = np.ones(shape, types[value.type])
    started = time.perf_counter()
    session.run(None, feeds)
    done = time.perf_counter()
    peak, resident = (now - then for now, then in zip(memory_use(), before))
    ms = (loaded - start + done - started) * 1e3
    shapes = {name: list(value.shape) for name, value in feeds.items()}
    load = (loaded - start) * 1e3
    print(json.dumps({"ms": ms, "load": load, "peak": peak, "resident": resident, "shapes": shapes}))


def theirs(path, threads):
    command = [sys.executable, __file__, "--peer", str(path), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ONNX Runtime failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def ours(udo, path, threads, shapes, cache=None):
    command = [udo, "bench", str(path), "--iterations", "1", "--warmup", "0", "--json"]
    command += ["--cache", cache] if cache else []
    command += ["--threads", str(threads)]
    folder = recorded(path)
    command += ["--data", str(folder)] if folder else []
    for name, shape in ({} if folder else shapes).items():
        command += ["--shape", f"{name}={','.join(map(str, shape))}"] if shape else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"udo failed: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    keys = {"ms": "first_result_ms", "peak": "peak_rss_bytes", "resident": "resident_bytes"}
    if cache and (report["cache"]["not_saved"] or report["cache"]["outcome"] == "rebuilt"):
        raise RuntimeError(f"the cache is of no use: {report['cache']}")
    keys |= {"load": "load_ms", "weights": "weights_bytes", "arena": "arena_bytes", "live": "live_bytes"}
    return {short: report[long] for short, long in keys.items()}


def size(path):
    """Returns the bytes of the model's file and of its external weights."""
    beside = [path.with_name(path.name + suffix) for suffix in ("_data", ".data")]
    return sum(file.stat().st_size for file in [path, *beside] if file.is_file())


def loads(udo, path, threads, rounds):
    """Returns the median load times and their ratios to creating a session of ONNX Runtime."""
    shapes = theirs(path, threads)["shapes"]
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.udm"
        of_model = [f"--input-shape={name}={','.join(map(str, shape))}" for name, shape in shapes.items() if shape]
        done = subprocess.run([udo, "convert", str(path), "-o", str(prepared), *of_model], capture_output=True, text=True)
        if done.returncode == 0:
            done = subprocess.run([udo, "prepare", str(prepared)], capture_output=True, text=True)
        ways = {"file": (path, None), "cache": (path, folder)}
        if done.returncode == 0:
            ways["prepared"] = (prepared, None)
        else:
            print(f"{path}: {done.stderr.strip().splitlines()[0]}", file=sys.stderr)
        load = lambda way: ours(udo, ways[way][0], threads, shapes, ways[way][1])["load"]
        for way in ways:
            load(way)
            load(way)
        turns = [({way: load(way) for way in ways}, theirs(path, threads)["load"]) for _ in range(rounds)]
    row = {"model": str(path), "file_bytes": size(path), "onnxruntime": statistics.median(peer for _, peer in turns)}
    for way in ways:
        row[way] = statistics.median(own[way] for own, _ in turns)
        row[f"{way}_ratio"] = statistics.median(own[way] / peer for own, peer in turns)
    return row


def print_loads(rows):
    print("| model | file MiB | ONNX Runtime ms | UDO ms, ratio | from the cache ms, ratio | target | prepared file ms, ratio | target |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        peer = row["onnxruntime"]
        way = lambda way: f"{row[way]:.1f}, {row[way + '_ratio']:.2f}" if way in row else "-"
        print(f"| {name_of(Path(row['model']))} | {row['file_bytes'] / MIB:.1f} | {peer:.1f} | {way('file')} | {way('cache')} |"
              f" {'0.10' if peer > 50 else '3 ms'} | {way('prepared')} | 0.25 |", flush=True)


def name_of(path):
    return path.stem if path.stem != "model" else path.parent.name


def measured(udo, path, threads, rounds):
    shapes = theirs(path, threads)["shapes"]
    ours(udo, path, threads, shapes)
    turns = [(ours(udo, path, threads, shapes), theirs(path, threads)) for _ in range(rounds)]
    median = lambda side, key: statistics.median(turn[side][key] for turn in turns)
    row = {"model": str(path), "file_bytes": size(path)}
    row["udo"] = {key: median(0, key) for key in turns[0][0]}
    row["onnxruntime"] = {key: median(1, key) for key in ("ms", "load", "peak", "resident")}
    row["ms_ratio"] = statistics.median(own["ms"] / peer["ms"] for own, peer in turns)
    return row


def print_row(row, name):
    udo, peer, file = row["udo"], row["onnxruntime"], row["file_bytes"]
    print(
        f"{name:<20} {file / MIB:8.1f} {udo['ms']:9.1f} {peer['ms']:9.1f} {row['ms_ratio']:6.2f}"
        f" {udo['peak'] / MIB:9.1f} {peer['peak'] / MIB:9.1f}"
        f" {udo['resident'] / MIB:9.1f} {peer['resident'] / MIB:9.1f}"
        f" {udo['weights'] / file:8.2f} {udo['arena'] / MIB:8.1f} {waste(row):6.3f}",
        flush=True,
    )


def waste(row):
    """Returns the ratio of the arena to the largest sum of live tensors."""
    return row["udo"]["arena"] / max(row["udo"]["live"], 1)


def excess(row):
    """Returns by how many bytes the peak memory exceeds the limit for a model of this size."""
    udo = row["udo"]
    return udo["peak"] - udo["resident"] - 64 * MIB - 8 * row["file_bytes"]


def summary(rows):
    kinds = {
        "weights held / file, target 1.1, or 1.6 with Winograd": lambda row: row["udo"]["weights"] / row["file_bytes"],
        "load / ONNX Runtime, target 1": lambda row: row["ms_ratio"],
        "arena / live tensors, target 1.05": waste,
    }
    for kind, value in kinds.items():
        worst = max(rows, key=value)
        print(f"worst {kind}: {value(worst):.3f} ({worst['model']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--udo", help="path of the udo binary")
    parser.add_argument("--threads", type=int, default=2, help="number of threads of each engine (default 2)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--cache", action="store_true", help="measure loads only, from a cache and a prepared file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer, arguments.threads)
    if arguments.cache:
        rows = [loads(arguments.udo, path, arguments.threads, arguments.rounds) for path in arguments.models]
        print(json.dumps({"rows": rows}, indent=1)) if arguments.json else print_loads(rows)
        return 0
    if not arguments.json:
        print(f"{'':20} {'file':>8} {'udo ms':>9} {'ORT ms':>9} {'ratio':>6} {'udo peak':>9} {'ORT peak':>9}"
              f" {'udo held':>9} {'ORT held':>9} {'weights':>8} {'arena':>8} {'/ live':>6}")
    rows = []
    for path in arguments.models:
        name = name_of(path)
        try:
            rows.append(measured(arguments.udo, path, arguments.threads, arguments.rounds))
        except RuntimeError as error:
            print(f"{name:<20} {error}", file=sys.stderr)
            continue
        if not arguments.json:
            print_row(rows[-1], name)
    if arguments.json:
        print(json.dumps({"rows": rows}, indent=1))
    elif rows:
        summary(rows)
    large = [row for row in rows if excess(row) > 0]
    for row in large:
        print(f"{row['model']}: loading takes {excess(row) / MIB:.1f} MiB more than the limit", file=sys.stderr)
    return len(rows) < len(arguments.models) or bool(large)


if __name__ == "__main__":
    sys.exit(main())
