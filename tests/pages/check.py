#!/usr/bin/env python3
"""Opens the pages that `udo` writes in a headless browser, and uses them as a reader does: by pointer, and by keyboard alone.

    python tests/pages/check.py --udo target/release/udo [--report] [--view] [--shots FOLDER]

Wants Chromium and its driver on the PATH (Debian: chromium, chromium-driver) and nothing of Python but itself. With --shots, pictures of the
pages go to a folder.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import report
import view
from browser import Browser

PAGES = {"report": report.check, "view": view.check}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", type=Path, required=True, help="path of the udo binary")
    for name in PAGES:
        parser.add_argument(f"--{name}", action="store_true", help="check this page (default: all pages)")
    parser.add_argument("--shots", type=Path, help="write screenshots to this folder")
    options = parser.parse_args()
    selected = [name for name in PAGES if getattr(options, name)] or list(PAGES)
    command = options.udo.resolve()
    failed = False
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        folder = Path(folder)

        def udo(*args):
            done = subprocess.run([command, *map(str, args)], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"udo {' '.join(map(str, args))}: {done.stderr.strip()}")
            return done.stdout

        def shot(name):
            if options.shots:
                options.shots.mkdir(parents=True, exist_ok=True)
                browser.screenshot(options.shots / f"{name}.png")

        for name in selected:
            faults = []

            def hold(is_so, what):
                if not is_so:
                    faults.append(what)

            said = PAGES[name](browser, folder, udo, hold, shot)
            print(f"{name}: {said}" if not faults else f"{name}: FAILED")
            for fault in faults:
                print(f"  {fault}")
            failed = failed or bool(faults)
    if failed:
        sys.exit("a page does not do what it should")


if __name__ == "__main__":
    main()
