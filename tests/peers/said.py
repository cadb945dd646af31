"""What a command says is wrong: a line for people, or with --json a line of JSON."""

import json


def error_of(stderr):
    """The error without the word before it, or nothing."""
    said = []
    for line in stderr.splitlines():
        if line.startswith("{"):
            try:
                said += json.loads(line)["error"].splitlines()
            except (ValueError, KeyError):
                continue
        elif line.startswith("error: "):
            said.append(line)
    return " ".join(line.removeprefix("error: ") for line in said)
