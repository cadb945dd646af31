"""Measures the compile time and code size per operator, and compares both with a budget.

    python tests/cost.py [--profile release] [--seconds 0.5] [--bytes 20000]

Needs cargo and `nm`, and compiles `udo-ops` alone, whose dependencies are compiled before the clock starts. Operators of
a family share its code, so that both numbers are those of all operators, divided by how many there are; the modules with the most
code follow. Exits with 1 if an operator costs more than the budget.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATE = ROOT / "runtime" / "ops"


def operators():
    """Counts the operators, each of which is a module."""
    return sum(1 for path in (CRATE / "src" / "ops").rglob("*.rs") if re.search(r"\bconst DEFS?\b", path.read_text()))


def built(profile):
    """Compiles the crate, and returns its library."""
    command = ["cargo", "build", "--locked", "-p", "udo-ops", "--profile", profile, "--message-format", "json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        said = json.loads(line)
        if said.get("target", {}).get("name") == "udo_ops" and "filenames" in said:
            return next(name for name in said["filenames"] if name.endswith(".rlib"))
    sys.exit("cargo named no library of udo-ops")


def code(library):
    """Returns the code size of each module in bytes."""
    command = ["nm", "--print-size", "--demangle", library]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bytes_of = Counter()
    for line in done.stdout.splitlines():
        found = re.match(r"[0-9a-f]+ ([0-9a-f]+) [tTwW] (.*)", line)
        if found:
            module = re.search(r"udo_ops::(?:ops|family)::\w+", found[2])
            bytes_of[module[0] if module else "elsewhere"] += int(found[1], 16)
    return bytes_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="release", help="profile of cargo (default release)")
    parser.add_argument("--seconds", type=float, default=0.5, help="budget per operator in seconds (default 0.5)")
    parser.add_argument("--bytes", type=int, default=20000, help="budget per operator in bytes (default 20000)")
    arguments = parser.parse_args()
    built(arguments.profile)
    (CRATE / "src" / "lib.rs").touch()
    start = time.perf_counter()
    library = built(arguments.profile)
    seconds, count, modules = time.perf_counter() - start, operators(), code(library)
    each = {"seconds": seconds / count, "bytes": modules.total() / count}
    print(f"{count} operators: {seconds:.1f} s in {arguments.profile}, {modules.total()} bytes of code")
    print(f"an operator: {each['seconds']:.3f} s of {arguments.seconds}, {each['bytes']:.0f} bytes of {arguments.bytes}")
    for module, size in modules.most_common(20):
        print(f"  {size:>9}  {module}")
    sys.exit(each["seconds"] > arguments.seconds or each["bytes"] > arguments.bytes)


if __name__ == "__main__":
    main()
