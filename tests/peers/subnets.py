"""A picture of a model's subnets, one below the other, and of what goes between them: SVG, of what `udo explain --json` says."""

from html import escape

# Boxes of a core are filled and framed in its colours.
COLOURS = {"cpu": ("#e8edf3", "#5b6b7d"), "gpu": ("#e3f1e5", "#3e7d4a"), "dsp": ("#fdf0d9", "#a4701c"), "hta": ("#e9e4f7", "#6a4fb3")}
LINES = {"shared": "#3e7d4a", "copied": "#5b6b7d", "converted": "#b3452c"}
WIDTH, BOX, LEFT, TALL, GAP, FRAME = 680, 400, 40, 54, 64, 16
STYLE = "text { font: 13px sans-serif; fill: #1c2430 } .small { font-size: 11.5px } .name { font-weight: 600 }"


def core_of(subnet):
    return subnet["core"].partition(":")[0]


def ranges(ids):
    """Ids as people write them: 0-11,14."""
    found = []
    for one in sorted(ids):
        if found and found[-1][1] + 1 == one:
            found[-1][1] = one
        else:
            found.append([one, one])
    said = [str(first) if first == last else f"{first}-{last}" for first, last in found]
    return ",".join(said) if len(said) < 5 else f"{said[0]} .. {said[-1]}"


def places(subnets):
    """The upper edge of each box, and of the caller's above and below them. Frames need room above and below."""
    tops, y, before = [], 58 + GAP, None
    for subnet in subnets:
        y += FRAME if subnet["within"] != before else 0
        tops.append(y)
        y += TALL + GAP
        before = subnet["within"]
    return tops, y + FRAME


def box(x, y, width, height, fill, line, title, text=""):
    said = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{line}" stroke-width="1.5"/>']
    said.append(f'<text x="{x + 12}" y="{y + (22 if text else height / 2 + 5)}" class="name">{escape(title)}</text>')
    if text:
        said.append(f'<text x="{x + 12}" y="{y + 41}" class="small">{escape(text)}</text>')
    return said


def frames(subnets, tops):
    """Boxes around subnets that are of one AIP subnet."""
    said = []
    for name in dict.fromkeys(subnet["within"] for subnet in subnets if subnet["within"]):
        of = [top for subnet, top in zip(subnets, tops) if subnet["within"] == name]
        y, height = of[0] - FRAME - 12, of[-1] - of[0] + TALL + 2 * FRAME + 8
        said.append(f'<rect x="{LEFT - 20}" y="{y}" width="{BOX + 40}" height="{height}" rx="10" fill="none" stroke="#6b7280" stroke-dasharray="6 4"/>')
        said.append(f'<text x="{LEFT - 12}" y="{y + 17}" class="small">{escape(name)}</text>')
    return said


def together(crossings):
    """Crossings of one kind between the same two, as one with all that goes along it."""
    found = {}
    for crossing in crossings:
        found.setdefault((crossing["from"], crossing["to"], crossing["passage"]), []).append(crossing)
    return found.items()


def formats(crossing):
    made, read = crossing["made"], crossing["read"]
    return made if made == read else f"{made} → {read}"


def arrow(passage, crossings, start, end, lane, below):
    """A line from one box to another: straight down to the next one, else around those between; and what goes along it."""
    colour = LINES[passage]
    text = f'{sum(crossing["bytes"] for crossing in crossings):,} B {passage}'
    kinds = ", ".join(map(formats, crossings))
    if lane is None:
        x = LEFT + 100
        path, at = f"M{x} {start} L{x} {end - 7}", (x + 14, start + below)
    else:
        out = LEFT + BOX + 28 + 14 * lane
        path = f"M{LEFT + BOX} {start - 14} C{out} {start - 14} {out} {start} {out} {start + 14} L{out} {end - 4} Q{out} {end + 14} {LEFT + BOX + 7} {end + 14}"
        at = (out + 8, end - 4)
    dash = "" if passage == "shared" else ' stroke-dasharray="5 3"'
    return [
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash} marker-end="url(#{passage})"/>',
        f'<text x="{at[0]}" y="{at[1] - 2}" class="small" style="fill:{colour}">{escape(text)}</text>',
        f'<text x="{at[0]}" y="{at[1] + 12}" class="small">{escape(kinds)}</text>',
    ]


def picture(explained, title):
    """The picture, as text."""
    subnets, crossings = explained["subnets"], explained["crossings"]
    tops, end = places(subnets)
    at = {subnet["name"]: index for index, subnet in enumerate(subnets)}
    said = box(LEFT, 36, BOX, 36, "#ffffff", "#6b7280", "caller")
    said += box(LEFT, end, BOX, 36, "#ffffff", "#6b7280", "caller")
    said += frames(subnets, tops)
    for subnet, top in zip(subnets, tops):
        fill, line = COLOURS[core_of(subnet)]
        count = len(subnet["nodes"])
        text = f"{count} node{'s' * (count > 1)} on {subnet['core']}: {ranges(subnet['nodes'])}"
        said += box(LEFT, top, BOX, TALL, fill, line, subnet["name"], text)
    lane = 0
    for (source, target, passage), along in together(crossings):
        source, target = at.get(source, -1), at.get(target, len(subnets))
        start = 72 if source < 0 else tops[source] + TALL
        stop = end if target == len(subnets) else tops[target]
        is_next = target == source + 1
        within = [None, *[subnet["within"] for subnet in subnets], None]
        leaves = within[source + 1] and within[source + 1] != within[source + 2]
        said += arrow(passage, along, start, stop, None if is_next else lane, FRAME + 20 if leaves else 22)
        lane += 0 if is_next else 1
    markers = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for name, colour in LINES.items())
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {end + 56}" width="{WIDTH}" role="img" aria-label="{escape(title)}">'
    ground = f'<rect width="{WIDTH}" height="{end + 56}" fill="#ffffff"/><text x="{LEFT - 20}" y="22" class="name">{escape(title)}</text>'
    return "\n".join([head, f"<style>{STYLE}</style><defs>{markers}</defs>", ground, *said, "</svg>", ""])
