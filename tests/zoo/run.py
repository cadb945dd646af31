"""Runs the trained models of the catalog through `udo verify`, against ONNX Runtime's recorded outputs.

    python tests/zoo/run.py --udo target/release/udo [--only ID,ID] [--most-mb 10] [--threads 1,2] [--folder target/zoo] [--json]

Each model runs on all its cases, on so many threads, with passes and without. What is not there yet is fetched
(fetch.py says how, and what it needs). Prints a row per model: how many of its runs hold within the catalog's
tolerance, and the largest difference. Exits with 1 if one does not.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import fetch

PASSES = {"on": [], "off": ["--skip-pass", "all"]}


def verify(udo, model, folder, threads, passes):
    """Verifies a model; returns its runs with their largest differences, and the faults."""
    tolerance = model["tolerance"]
    command = [udo, "verify", folder / "model.onnx", "--data", folder, "--threads", threads, "--json"]
    command += ["--rtol", tolerance["rtol"], "--atol", tolerance["atol"], *PASSES[passes]]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    run = {"threads": int(threads), "passes": passes, "passed": done.returncode == 0, "max_abs": None, "why": ""}
    if done.stdout.startswith("{"):
        outputs = json.loads(done.stdout)["outputs"]
        found = [out["max_abs"] for out in outputs if "max_abs" in out]
        run["max_abs"] = max(found, default=None)
        wrong = [f"{out['name']}: {out.get('error', 'differs')}" for out in outputs
                 if "error" in out or out["mismatches"]]
        run["why"] = "; ".join(wrong)
    if not run["passed"] and not run["why"]:
        run["why"] = " ".join(done.stderr.split())[:300] or f"it ended with {done.returncode}"
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--only", default="", help="run these models only, separated by commas")
    parser.add_argument("--most-mb", type=float, help="skip models larger than this, in megabytes")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, separated by commas (default 1,2)")
    parser.add_argument("--folder", type=Path, default=Path("target/zoo"), help="folder of the models (default target/zoo)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    most_bytes = arguments.most_mb and arguments.most_mb * 1e6
    rows = []
    for model in fetch.chosen(arguments.only, most_bytes):
        folder = fetch.fetch(model, arguments.folder)
        runs = [verify(arguments.udo, model, folder, threads, passes)
                for threads in arguments.threads.split(",") for passes in PASSES]
        rows.append({"model": model["id"], "task": model["task"], "cases": len(model["cases"]), "runs": runs})
        if not arguments.json:
            print_row(rows[-1])
    failed = [row["model"] for row in rows if not all(run["passed"] for run in row["runs"])]
    if arguments.json:
        print(json.dumps({"models": rows, "failed": failed}))
    else:
        print(f"{len(rows) - len(failed)} of {len(rows)} models hold")
    sys.exit(bool(failed))


def print_row(row):
    runs = row["runs"]
    passed = sum(run["passed"] for run in runs)
    apart = max((run["max_abs"] for run in runs if run["max_abs"] is not None), default=float("nan"))
    print(f"{row['model']:20} {passed}/{len(runs)}  {row['cases']} cases  max abs {apart:.1e}", flush=True)
    for why in sorted({run["why"] for run in runs if not run["passed"]}):
        print(f"    {why}", flush=True)


if __name__ == "__main__":
    main()
