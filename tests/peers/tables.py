"""Generated tables in Markdown files."""

import re
import sys
from pathlib import Path


def write(target, lines):
    """Writes a table between its markers in a file."""
    path, _, name = target.rpartition("=")
    text = Path(path).read_text()
    place = re.compile(rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end -->)", re.S)
    if not place.search(text):
        sys.exit(f"{path}: no lines <!-- table {name} --> and <!-- end -->")
    lines = "".join(f"{line}\n" for line in lines)
    Path(path).write_text(place.sub(lambda found: found[1] + lines + found[2], text))
