"""Seeded inputs of the kinds in the catalog."""

import numpy as np


def feed(model, case):
    """The inputs of a case: the same numbers for the same model, case and seed."""
    rng = np.random.default_rng([case["seed"], *model["id"].encode()])
    return {name: tensor(rng, spec) for name, spec in case["inputs"].items()}


def tensor(rng, spec):
    values = KINDS[spec["kind"]](rng, spec["shape"], spec)
    values = values * spec.get("mul", 1) + spec.get("add", 0)
    return np.ascontiguousarray(values.astype(spec.get("dtype", "float32")).reshape(spec["shape"]))


def picture(rng, height, width):
    """Smooth noise in 0..1 with brighter and darker rectangles."""
    grid = rng.random((9, 9))
    y, x = np.linspace(0, 7.999, height), np.linspace(0, 7.999, width)
    i, j = y.astype(int)[:, None], x.astype(int)[None]
    down, right = y[:, None] - i, x[None] - j
    above = (1 - right) * grid[i, j] + right * grid[i, j + 1]
    below = (1 - right) * grid[i + 1, j] + right * grid[i + 1, j + 1]
    pixels = (1 - down) * above + down * below
    for _ in range(4):
        top, left = rng.integers(height), rng.integers(width)
        size = rng.integers(3, max(4, height // 3)), rng.integers(3, max(4, width // 3))
        pixels[top:top + size[0], left:left + size[1]] *= rng.uniform(0.3, 0.9)
    return np.clip(pixels, 0, 1)


def writing(rng, height, width):
    """Dark strokes on a light ground, as detectors and readers of text want."""
    pixels = 0.92 + 0.03 * rng.standard_normal((height, width))
    for _ in range(max(3, height * width // 600)):
        angle = rng.choice([0, np.pi / 2, np.pi / 4, -np.pi / 4]) + 0.1 * rng.standard_normal()
        length = np.arange(0, rng.uniform(4, max(6, min(height, 40) / 2)), 0.5)
        rows = (rng.uniform(2, height - 2) + length * np.sin(angle)).astype(int)
        columns = (rng.uniform(2, width - 2) + length * np.cos(angle)).astype(int)
        inside = (rows >= 0) & (rows < height - 1) & (columns >= 0) & (columns < width - 1)
        for row, column in zip(rows[inside], columns[inside]):
            pixels[row:row + 2, column:column + 2] = rng.uniform(0.08, 0.13)
    return np.clip(pixels, 0, 1)


def smooth(rng, shape, _):
    batch, channels, height, width = shape
    planes = [picture(rng, height, width) for _ in range(batch * channels)]
    return np.stack(planes)


def strokes(rng, shape, _):
    batch, channels, height, width = shape
    return np.stack([np.stack([writing(rng, height, width)] * channels) for _ in range(batch)])


def audio(rng, shape, _):
    """A voiced sound at 16 kHz: harmonics with vibrato, louder and softer, some noise."""
    t = np.arange(np.prod(shape[1:])) / 16000
    rows = []
    for _ in range(shape[0]):
        pitch = rng.uniform(110, 240)
        phase = 2 * np.pi * pitch * (t + 0.001 * np.sin(2 * np.pi * 3 * t))
        voice = sum(rng.uniform(0.2, 1) / k * np.sin(k * phase + rng.uniform(0, 6)) for k in (1, 2, 3, 5, 8))
        loudness = 0.6 + 0.4 * np.sin(2 * np.pi * 2.5 * t + rng.uniform(0, 6))
        rows.append(0.25 * voice / np.abs(voice).max() * loudness + 0.01 * rng.standard_normal(t.size))
    return np.stack(rows)


def mask(rng, shape, _):
    """Ones, then zeros: each row a quarter shorter than the one before."""
    ends = [shape[1] - row * shape[1] // 4 for row in range(shape[0])]
    return np.stack([np.arange(shape[1]) < max(1, end) for end in ends]).astype(int)


def lengths(rng, shape, spec):
    return np.array([int(spec["of"] * (1 - 0.25 * row / shape[0])) for row in range(shape[0])])


KINDS = {
    "smooth": smooth,
    "strokes": strokes,
    "audio": audio,
    "mask": mask,
    "lengths": lengths,
    "ints": lambda rng, shape, spec: rng.integers(spec["lo"], spec["hi"], shape),
    "fill": lambda rng, shape, spec: np.full(shape, spec["value"]),
    "normal": lambda rng, shape, spec: rng.standard_normal(shape),
}
