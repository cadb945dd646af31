"""Reads the error message of a command: plain text, or one line of JSON with --json."""

import json


def error_of(stderr):
    """Returns the message without its `error: ` prefix, or an empty string."""
    messages = []
    for line in stderr.splitlines():
        if line.startswith("{"):
            try:
                messages += json.loads(line)["error"].splitlines()
            except (ValueError, KeyError):
                continue
        elif line.startswith("error: "):
            messages.append(line)
    return " ".join(line.removeprefix("error: ") for line in messages)
