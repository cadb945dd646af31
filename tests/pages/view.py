"""The page of `udo view`."""

import json
import re
import statistics

from common import narrow, quiet, schemes, sorted_by

# A small network with branches, and at its end what the GPU has no kernel for.
NET = """graph net
  input image: f32[1,3,16,16]
  constant w1: f32[8,3,3,3]{0.05}
  constant w2: f32[8,8,3,3]{0.02}
  constant c: f32[8,4]{0.25}
  h = Conv@17(image, w1) pads=[1, 1, 1, 1] # stem
  r = Relu@17(h) # stem_relu
  a = Conv@17(r, w2) pads=[1, 1, 1, 1] # left
  b = MaxPool@17(r) kernel_shape=[3, 3] pads=[1, 1, 1, 1] # right
  s = Sigmoid@17(b) # gate
  m = Mul@17(a, s) # gated
  g = GlobalAveragePool@17(m) # mean
  f = Flatten@17(g) # row
  y = Gemm@17(f, c) # classes
  z = Hardmax@13(y) axis=1 # largest
  output y
  output z
"""
# Two branches and a value that goes past both; `a1` and `b1` are given to another core.
BRANCHES = """graph branches
  input x: f32[1,64,32]
  s = Relu@14(x) # stem
  a0 = Sigmoid@13(s) # a0
  a1 = Tanh@13(a0) # a1
  a2 = Neg@13(a1) # a2
  b0 = Abs@13(s) # b0
  b1 = Exp@13(b0) # b1
  c = Max@13(a2, b1) # both
  y = Add@14(c, s) # sum
  z = Hardmax@13(y) axis=1 # largest
  output y
  output z
"""
ODD = '</script><script>document.title="broken"</script> "quoted" \'too\' & <b>\nline two \u2028 größer 模型'
ODD_NET = f"""graph odd
  input {json.dumps("in " + ODD, ensure_ascii=False)}: f32[2,3]
  h = Relu@17({json.dumps("in " + ODD, ensure_ascii=False)}) # {json.dumps(ODD, ensure_ascii=False)}
  y = Softmax@17(h) # last
  output y
"""
LARGE = 1000
# Medians, on a busy machine without a GPU; the message says what was measured.
FIRST_MS, FRAME_MS = 2000, 33

# The middle of a node's box, in the window.
PLACE = """
const { box, row } = homes[nodes.findIndex(node => node.name === arguments[0])];
const bounds = canvas.getBoundingClientRect();
const below = (box.nodes.length - 1 - row) * graph.row_height;
return [bounds.left + (box.x + box.w / 2 - camera.x) * camera.k,
        bounds.top + ((row ? box.y + box.h - below - graph.row_height / 2 : box.y + 12) - camera.y) * camera.k];
"""
STILL = "let last = ''; const look = () => { const now = JSON.stringify(camera); if (now === last) done(camera); else { last = now; setTimeout(look, 60); } }; look();"
CENTRED = """
const { box } = homes[state.node], k = camera.k;
return Math.hypot(box.x + box.w / 2 - camera.x - canvas.clientWidth / k / 2, box.y + box.h / 2 - camera.y - canvas.clientHeight / k / 2) * k;
"""
# The colour painted in a box, left of its text, and the expected colour.
PAINTED = """
draw();
const { box } = homes[arguments[0]];
const at = [(box.x + 6 - camera.x) * camera.k, (box.y + 22 - camera.y) * camera.k].map(v => Math.round(v * devicePixelRatio));
const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
probe.drawImage(canvas, ...at, 1, 1, 0, 0, 1, 1);
const painted = '#' + [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v.toString(16).padStart(2, '0')).join('');
return [painted, ink.tint[kindOf(nodes[arguments[0]].core)]];
"""
# What is painted on the edge of the first frame, halfway down at its left.
EDGE_OF_FRAME = PAINTED.replace("const { box } = homes[arguments[0]];", "lookAt(frames[0].x - 50, frames[0].y, 3); draw(); const box = { x: frames[0].x - 6, y: frames[0].y + 40 };").replace(
    "return [painted, ink.tint[kindOf(nodes[arguments[0]].core)]];", "return painted;")
PAN = """
const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const times = [];
lookAt(camera.x, 0, 1);
const step = count => {
  const start = performance.now();
  camera.y += 45;
  draw();
  probe.drawImage(canvas, 0, 0, 1, 1, 0, 0, 1, 1);
  probe.getImageData(0, 0, 1, 1);
  times.push(performance.now() - start);
  if (count) requestAnimationFrame(() => step(count - 1)); else done(times);
};
requestAnimationFrame(() => step(150));
"""


def data_of(page):
    """Reads the data of a page, and the text around it."""
    before, rest = page.split('<script type="application/json" id="data">', 1)
    text, after = rest.split("</script>", 1)
    return before, json.loads(text), after


def with_data(page, data):
    before, _, after = data_of(page)
    return before + '<script type="application/json" id="data">' + json.dumps(data).replace("<", "\\u003c") + "</script>" + after


def large():
    """Blocks of a convolutional network's form, with branches of several lengths and long skips."""
    lines = ["graph large", "  input x0: f32[1,8]", "  constant c: f32[1,8]{0.5}"]
    count, block, last, skip = 0, 0, "x0", "x0"

    def add(op, *reads):
        nonlocal count
        count += 1
        lines.append(f"  v{count} = {op}({', '.join(reads)}) # block{block}/{op.split('@')[0].lower()}_{count}")
        return f"v{count}"

    while count < LARGE - 8:
        block += 1
        left = add("Sigmoid@17", add("Mul@17", last, "c"))
        right = add("Tanh@17", last)
        right = add("Abs@17", add("Sub@17", right, "c")) if block % 3 else right
        last = add("Add@17", left, right)
        if block % 10 == 0:
            last, skip = add("Max@17", last, skip), last
    while count < LARGE:
        last = add("Neg@17", last)
    return "\n".join([*lines, f"  output {last}", ""])


def check(browser, folder, udo, hold, shot):
    said = network(browser, folder, udo, hold, shot)
    names(browser, folder, udo, hold)
    framed(browser, folder, udo, hold, shot)
    return f"{said}; {speed(browser, folder, udo, hold, shot)}"


def network(browser, folder, udo, hold, shot):
    (folder / "net.graph").write_text(NET)
    udo("view", "net.graph", "--cores", "gpu,cpu", "--measured", "--iterations", 3)
    page = folder / "net.html"
    explained = json.loads(udo("explain", "net.graph", "--cores", "gpu,cpu", "--json"))
    _, data, _ = data_of(page.read_text())
    for part in ("nodes", "exchanges", "passes", "memories"):
        hold(data["explain"][part] == explained[part], f"{part} are not those of explain")
    cores = {node["name"]: node["core"] for node in explained["nodes"]}
    hold(cores["largest"] == "cpu" and cores["left"] == "gpu", f"cores: {cores}")

    browser.size(1440, 900)
    browser.open(page)
    hold(browser.js("return document.title") == "net.graph", "the title is the model's name")
    for node, of in enumerate(explained["nodes"]):
        if not (of["view"] or of["folded"] or of["fused_into"]):
            painted, expected = browser.js(PAINTED, node)
            hold(painted == expected, f"{of['name']} on {of['core']} is {painted}, expected {expected}")
    legend = browser.js("return document.getElementById('legend').innerText")
    hold(all(word in legend for word in ("cpu", "gpu", "crosses cores")), f"the legend says {legend!r}")
    crossing = browser.js("return graph.edges.filter(edge => edge.cost).map(edge => [edge.value, edge.cost.text])")
    hold({value for value, _ in crossing} >= {"image", "y"}, f"values that cross: {crossing}")
    hold(all(re.search(r"\d+ B|KiB|no copy", text) for _, text in crossing), f"what crossing costs: {crossing}")

    # What the pointer is on.
    browser.pointer(browser.js(PLACE, "largest"))
    tip = browser.js("return document.getElementById('tip').innerText")
    for expected in ("Hardmax", "largest", "cpu", "f32[1,4]", "not on", "gpu:", "time", "µs"):
        hold(expected in tip, f"no {expected!r} in the tooltip of a node: {tip!r}")
    hold(browser.js("return tip.checkVisibility()"), "it is seen")
    shot("view-tip")
    where = browser.js("const e = graph.edges.find(e => e.value === 'image'), b = canvas.getBoundingClientRect(), [x, y] = e.points; "
                       "return [b.left + (x - camera.x) * camera.k, b.top + (y + 12 - camera.y) * camera.k]")
    browser.pointer(where)
    tip = browser.js("return document.getElementById('tip').innerText")
    hold("host → gpu" in tip and "B" in tip, f"of a line that crosses: {tip!r}")

    # A click on a box chooses its row in the list, and a click there moves the graph.
    browser.pointer(browser.js(PLACE, "gate"), "down", "up")
    chosen = "return [...document.querySelectorAll('#rows [aria-selected=true]')].map(row => row.cells[2].textContent)"
    hold(browser.js(chosen) == ["gate"], f"chosen by a click: {browser.js(chosen)}")
    details = browser.js("return document.getElementById('details').innerText")
    hold("Sigmoid" in details and "gate" in details, f"details: {details!r}")
    browser.js("document.querySelector('#rows tr[data-node]').click()")
    browser.later(STILL)
    hold(browser.js(CENTRED) < 2, f"{browser.js(CENTRED)} pixels from the middle")
    browser.pointer(browser.js(PLACE, "right"), "down", "up")
    details = browser.js("return document.getElementById('details').innerText")
    hold("kernel_shape" in details and "[3, 3]" in details, f"attributes: {details!r}")

    columns = browser.js("return columns.map(column => column.head)")
    for column, head in enumerate(columns):
        for is_down in (column == 0, column != 0):
            browser.click(f"#heads th:nth-child({column + 1}) button")
            keys = browser.js("return listed.map(at => columns[arguments[0]].of(at))", column)
            keys = [key.lower() if isinstance(key, str) else key for key in keys]
            hold(sorted_by(keys, is_down), f"nodes by {head}, {'down' if is_down else 'up'}: {keys}")
    keyboard(browser, hold)
    browser.js("const by = byId('colour'); by.value = 'time'; by.dispatchEvent(new Event('change'))")
    shot("view-time")
    browser.js("const by = byId('colour'); by.value = 'core'; by.dispatchEvent(new Event('change')); clear(); start()")
    schemes(browser, hold, shot, "view")
    narrow(browser, hold, shot, "view")
    quiet(browser, hold, "view")
    return f"{len(data['graph']['boxes'])} boxes"


def keyboard(browser, hold):
    """Uses the whole page with the keyboard."""
    browser.js("clear(); document.activeElement.blur()")
    seen = []
    for _ in range(30):
        browser.keys("Tab")
        seen.append(browser.js("const e = document.activeElement; return e.id || e.closest('[id]')?.id || e.tagName"))
    order = [seen.index(part) if part in seen else -1 for part in ("search", "colour", "in", "fit", "canvas", "legend", "details", "list")]
    hold(-1 not in order and order == sorted(order), f"Tab goes to {seen}")

    browser.js("canvas.focus()")
    browser.keys("f")
    all_of_it = browser.later(STILL)
    browser.keys("+", "+")
    hold(browser.later(STILL)["k"] > all_of_it["k"] * 1.5, "+ zooms in")
    browser.keys("-")
    before = browser.later(STILL)
    browser.keys("Right", "Down")
    after = browser.later(STILL)
    hold(after["x"] > before["x"] and after["y"] > before["y"], f"arrows move: {before} {after}")
    browser.keys("f")
    hold(browser.later(STILL) == all_of_it, "f fits")

    browser.keys("/")
    hold(browser.js("return document.activeElement.id") == "search", "/ goes to the search")
    browser.keys(*"conv")
    found = "return byId('found').value"
    hold(browser.js(found) == "2 found", f"search: {browser.js(found)}")
    chosen = []
    for _ in range(3):
        browser.keys("Enter")
        chosen.append(browser.js("return nodes[state.node].name"))
        browser.later(STILL)
        hold(browser.js(CENTRED) < 2, "a hit is in the middle")
    hold(chosen == ["stem", "left", "stem"], f"Enter goes through {chosen}")
    hold(browser.js("return listed.length") == 2, "the list has what was found")
    browser.keys("Escape")
    state = browser.js("return [search.value, state.node, document.activeElement.id, listed.length]")
    hold(state[:3] == ["", None, "canvas"] and state[3] > 2, f"after Escape: {state}")
    browser.js("list.focus()")
    browser.keys("Down", "Down", "Down")
    hold(browser.js("return state.node === listed[2]"), "arrows choose rows of the list")
    browser.keys("Escape")


def names(browser, folder, udo, hold):
    """Checks that names with markup are shown literally."""
    (folder / "odd.graph").write_text(ODD_NET)
    udo("view", "odd.graph", "-o", "odd.html")
    browser.open(folder / "odd.html")
    hold(browser.js("return nodes.map(node => node.name)") == [ODD, "last"], "a name is not what it was")
    hold(browser.js("return document.title") == "odd.graph", "a name became a script")
    browser.js("select(0)")
    hold(ODD in browser.js("return document.querySelector('#details .sub').textContent"), "a name is not shown as it is")
    hold(browser.js("return document.querySelectorAll('#details b, #details script, #rows b').length") == 0, "a name became markup")
    quiet(browser, hold, "names")


def framed(browser, folder, udo, hold, shot):
    """Subnets, which are boxes around their nodes, and boxes in boxes."""
    (folder / "branches.graph").write_text(BRANCHES)
    udo("view", "branches.graph", "--cores", "gpu,cpu", "--affinity", "a1=cpu", "--affinity", "b1=cpu", "--measured", "--iterations", 2)
    page = (folder / "branches.html").read_text()
    _, data, _ = data_of(page)
    browser.open(folder / "branches.html")
    expected = {of["name"]: of["core"] for of in data["explain"]["subnets"]}
    frames = browser.js("return frames.map(({ name, core }) => [name, core])")
    hold(len(frames) > 2 and dict(frames) == expected, f"subnets: {frames}, expected {expected}")
    apart(browser, hold)
    for node, of in enumerate(data["explain"]["nodes"]):
        hold(browser.js("return pathOf(arguments[0])", node) == [of["subnet"]], f"{of['name']} lies in {of['subnet']}")
    painted, core = browser.js(EDGE_OF_FRAME), browser.js("return ink[kindOf(frames[0].core)]")
    browser.js("start()")
    near = [abs(int(painted[at:at + 2], 16) - int(core[at:at + 2], 16)) < 60 for at in (1, 3, 5)]
    hold(all(near), f"the edge of {frames[0]} is {painted}, expected {core}")
    name = "const f = frames[0], b = canvas.getBoundingClientRect(); return [b.left + (f.x + 30 - camera.x) * camera.k, b.top + (f.y - camera.y) * camera.k]"
    browser.pointer(browser.js(name))
    tip = browser.js("return tip.hidden ? '' : tip.innerText")
    hold(all(word in tip for word in (frames[0][0], "nodes", "steps", "time")), f"of a subnet: {tip!r}")
    shot("view-subnets")
    browser.js("[...document.querySelectorAll('#details dd button')].find(of => of.textContent === frames.at(-1).name).click()")
    browser.later(STILL)
    far = browser.js("const f = frames.at(-1), k = camera.k; return Math.hypot(f.x + f.w / 2 - camera.x - canvas.clientWidth / k / 2, f.y + f.h / 2 - camera.y - canvas.clientHeight / k / 2) * k")
    hold(far < 2, f"a subnet that is chosen is {far} pixels from the middle")

    # An accelerator's subnets within one.
    graph = data["graph"]
    inner, others = graph["frames"][:3], graph["frames"][3:]
    outer = {"name": "AIP Subnet 0", "core": "hta", "depth": 0, "x": 6, "y": min(of["y"] for of in inner) - 22,
             "w": graph["width"] - 12, "h": max(of["y"] + of["h"] for of in inner) - min(of["y"] for of in inner) + 34}
    graph["frames"] = [outer] + [{**of, "depth": 1} for of in inner] + others
    for box in graph["boxes"]:
        box["frames"] = [*([0] if box["frames"] < [3] else []), *(at + 1 for at in box["frames"])] if box["frames"] else []
    (folder / "nested.html").write_text(with_data(page, data))
    browser.open(folder / "nested.html")
    apart(browser, hold)
    browser.js("select(0)")
    path = f"AIP Subnet 0 / {frames[0][0]}"
    hold(path in browser.js("return document.getElementById('details').innerText"), "a node says its subnets")
    browser.js("select(null); start()")
    shot("view-nested")
    quiet(browser, hold, "subnets")


def apart(browser, hold):
    """Boxes lie in their frames and no others, and frames do not overlap but for those within others."""
    boxes = browser.js("return graph.boxes.map(({ x, y, w, h, frames }) => ({ x, y, w, h, frames }))")
    frames = browser.js("return frames.map(({ name, depth, x, y, w, h }) => ({ name, depth, x, y, w, h }))")

    def holds(frame, box):
        return (frame["x"] < box["x"] and frame["y"] < box["y"] and frame["x"] + frame["w"] > box["x"] + box["w"]
                and frame["y"] + frame["h"] > box["y"] + box["h"])

    def meets(a, b):
        return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])

    for at, frame in enumerate(frames):
        for box in boxes:
            hold(holds(frame, box) if at in box["frames"] else not meets(frame, box), f"{frame} and {box}")
        for other in frames[at + 1:]:
            hold(holds(frame, other) if other["depth"] > frame["depth"] else not meets(frame, other), f"{frame} and {other}")


def speed(browser, folder, udo, hold, shot):
    """A thousand nodes: the first picture, and moving over them."""
    (folder / "large.graph").write_text(large())
    udo("view", "large.graph", "--skip-pass", "all", "-o", "large.html")
    firsts, frames = [], []
    for _ in range(3):
        browser.open(folder / "large.html")
        firsts.append(browser.js("return draw.first"))
        frames += browser.later(PAN)
    hold(browser.js("return nodes.length") == LARGE, f"{browser.js('return nodes.length')} nodes")
    shot("view-large")
    rows = browser.js("return rows.querySelectorAll('tr').length")
    hold(rows < 200, f"{rows} rows are there at once")
    browser.js("canvas.focus()")
    browser.keys("f")
    browser.later(STILL)
    shot("view-large-fit")
    whole = statistics.median(browser.later(PAN.replace("lookAt(camera.x, 0, 1);", "")))
    first, frame = statistics.median(firsts), statistics.median(frames)
    slowest = sorted(frames)[len(frames) * 99 // 100]
    hold(first < FIRST_MS, f"the first picture of {LARGE} nodes takes {first:.0f} ms, expected at most {FIRST_MS}")
    hold(frame < FRAME_MS, f"a frame over {LARGE} nodes takes {frame:.1f} ms, expected at most {FRAME_MS}")
    hold(whole < FRAME_MS, f"a frame of all {LARGE} nodes takes {whole:.1f} ms, expected at most {FRAME_MS}")
    quiet(browser, hold, "a thousand nodes")
    return (f"{LARGE} nodes: first picture after {first:.0f} ms, {frame:.1f} ms a frame while moving (99 of 100 below {slowest:.1f}), "
            f"{whole:.1f} ms with all in sight")
