"""The report of `udo quantize`."""

import json

from common import narrow, quiet, schemes, sorted_by

RUNS = 3
# A name that would be markup, weights in few bits that lose most of what they say, a value without a histogram, and one of integers.
NET = """graph net
  input "x<b>&\\"": f32[1,1,6,6]
  constant w: f32[2,1,3,3]{0.1,0.2,0.1, 0.0,0.5,0.0, -0.1,-0.2,-0.1, 0.3,0.0,-0.3, 0.6,0.0,-0.6, 0.3,0.0,-0.3}
  constant b: f32[2]{0.1,-0.1}
  constant c: f32[2,3]{1.0,-1.0,0.02, 0.03,0.75,-0.05}
  h = Conv@17("x<b>&\\"", w, b) pads=[1, 1, 1, 1] # edges
  r = Relu@17(h) # cut
  m = GlobalAveragePool@17(r) # mean
  f = Flatten@17(m) # row
  y = Gemm@17(f, c) # classes
  output y
"""

ROWS = """
return [...document.querySelectorAll('#values tbody tr')].map(row => ({
  name: row.dataset.name, low: row.classList.contains('low'),
  cells: [...row.cells].map(cell => cell.dataset.v ?? cell.textContent),
  counts: row.querySelector('svg')?.dataset.counts.split(' ').map(Number) ?? null,
  bars: row.querySelector('.bars')?.getAttribute('d').split('M').length - 1 || 0,
}));
"""


def keys_of(rows, column):
    """Returns the sort keys of a column: numbers, lower-case strings, and None for empty cells."""
    keys = []
    for row in rows:
        text = row["cells"][column]
        try:
            keys.append(float(text))
        except ValueError:
            keys.append(text.lower() or None)
    return keys


def check(browser, folder, udo, hold, shot):
    (folder / "net.graph").write_text(NET)
    report = json.loads(udo("quantize", "net.graph", "--random", RUNS, "-o", "net.udm", "--weights-bitwidth", 4,
                          "--report", "report.html", "--json"))
    browser.size(1440, 900)
    browser.open(folder / "report.html")
    rows = browser.js(ROWS)
    heads = browser.js("return [...document.querySelectorAll('#values thead th')].map(head => head.textContent)")
    expected = report["activations"] + report["weights"] + report["biases"]
    hold(len(rows) == expected, f"{len(rows)} rows for {expected} values")
    hold(any(row["name"] == 'x<b>&"' for row in rows), f"names are not what they were: {[row['name'] for row in rows]}")

    text = browser.js("return document.body.innerText")
    hold(f"{report['bytes']} B" in text and f"the float model's {report['bytes_before']} B" in text, "the sizes of both files are not shown")
    output = browser.js("return [...document.querySelectorAll('#outputs tbody tr')].map(row => [...row.cells].map(c => c.textContent))")
    hold(len(output) == 1 and output[0][0] == "y" and float(output[0][2]) > 0 and output[0][3].endswith("%"), f"outputs: {output}")

    ratios = keys_of(rows, heads.index("SQNR, dB"))
    for row, ratio in zip(rows, ratios):
        hold(row["low"] == (ratio is not None and ratio < 20), f"{row['name']}: {ratio} dB, marked: {row['low']}")
    hold(any(row["low"] for row in rows) and not all(row["low"] for row in rows), "some are marked and some are not")
    errors = keys_of(rows, heads.index("largest error"))
    hold(all(error is None or error >= 0 for error in errors) and any(errors), f"largest errors: {errors}")

    elements = {'x<b>&"': 36, "h": 72, "r": 72, "m": 2, "f": 2, "y": 3}
    with_bars = {row["name"]: row for row in rows if row["counts"]}
    hold({'x<b>&"', "y"} <= set(with_bars) <= set(elements), f"histograms of {sorted(with_bars)}")
    for name, row in with_bars.items():
        hold(sum(row["counts"]) == RUNS * elements[name], f"{name}: {sum(row['counts'])} numbers, expected {RUNS * elements[name]}")
        filled = sum(count > 0 for count in row["counts"])
        hold(row["bars"] == filled > 0, f"{name}: {row['bars']} bars for {filled} counts")

    for column, head in enumerate(heads):
        for is_down in (False, True):
            browser.click(f"#values thead th:nth-child({column + 1}) button")
            keys = keys_of(browser.js(ROWS), column)
            hold(sorted_by(keys, is_down), f"by {head}, {'down' if is_down else 'up'}: {keys}")
            state = browser.js(f"return document.querySelectorAll('#values thead th')[{column}].ariaSort")
            hold(state == ("descending" if is_down else "ascending"), f"{head} says that it is {state}")
    numbers = [head for column, head in enumerate(heads) if any(isinstance(key, float) for key in keys_of(rows, column))]
    hold(len(numbers) >= 8, f"columns of numbers: {numbers}")

    # By keyboard: to the head with the ratios, and the worst one is first.
    browser.js("document.activeElement.blur(); scrollTo(0, 0)")
    for _ in range(40):
        browser.keys("Tab")
        if browser.js("return document.activeElement.textContent") == "SQNR, dB":
            break
    browser.keys("Enter")
    first = browser.js(ROWS)[0]
    hold(first["low"] and first["cells"][10] == min((row["cells"][10] for row in rows if row["low"]), key=float), f"by Enter: {first}")

    shown = "return [...document.querySelectorAll('#values tbody tr')].filter(row => row.checkVisibility()).map(row => row.dataset.name)"
    browser.click("#low")
    hold(len(browser.js(shown)) == sum(row["low"] for row in rows), "the filter leaves what is marked")
    browser.click("#low")
    browser.click("#named")
    browser.keys("<", "B")
    hold(browser.js(shown) == ['x<b>&"'], f"names with <b: {browser.js(shown)}")
    browser.keys("\ue003", "\ue003")
    hold(len(browser.js(shown)) == len(rows), "all are back without a filter")
    browser.js("document.activeElement.blur()")

    schemes(browser, hold, shot, "report")
    narrow(browser, hold, shot, "report")
    quiet(browser, hold, "report")
    return f"{len(rows)} values, {len(heads)} columns sort both ways, {len(with_bars)} histograms add up"
