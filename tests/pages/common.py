"""Checks that apply to every page."""

# The least ratio of lightness between a text and what is behind it that is easy to read (WCAG 2, AA).
LEAST_CONTRAST = 4.5

# The lowest contrast of visible text, and the element that has it. Backgrounds are blended from the page up.
CONTRAST = """
const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3]));
const light = rgb => { const [r, g, b] = rgb.map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = element => { if (!element) return [255, 255, 255];
  const own = parse(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own.slice(0, 3) : over(own, behind(element.parentElement)); };
let worst = [99, ''];
for (const element of document.querySelectorAll('body *')) {
  const hasText = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  if (!hasText || ['SCRIPT', 'STYLE', 'OPTION'].includes(element.tagName) || element.closest('svg') || !element.checkVisibility()) continue;
  const ground = behind(element);
  const [a, b] = [light(over(parse(getComputedStyle(element).color), ground)), light(ground)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < worst[0]) worst = [ratio, `${element.tagName} "${element.textContent.trim().slice(0, 30)}"`];
}
return worst;
"""


def schemes(browser, hold, shot, name):
    """Checks that text is readable in the light and dark schemes, and that they differ."""
    grounds = []
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        ratio, where = browser.js(CONTRAST)
        hold(ratio >= LEAST_CONTRAST, f"{scheme}: a contrast of {ratio:.1f} at {where}, expected at least {LEAST_CONTRAST}")
        grounds.append(browser.js("return getComputedStyle(document.body).backgroundColor"))
        shot(f"{name}-{scheme}")
    browser.scheme("light")
    hold(grounds[0] != grounds[1], f"{name}: dark looks as light does")


def narrow(browser, hold, shot, name, width=400):
    """Checks that only scrollable elements are wider than a narrow window."""
    browser.size(width, 800)
    found = browser.js("return document.documentElement.scrollWidth")
    hold(found <= width, f"{name}: {found} pixels wide in a window of {width}")
    shot(f"{name}-narrow")
    browser.size(1440, 900)


def quiet(browser, hold, name):
    """Checks that the page logs no errors and requests nothing else."""
    faults = browser.faults()
    hold(not faults, f"{name}: {faults}")


def sorted_by(values, is_down):
    """Checks that numbers or strings are in order, with empty ones last."""
    known = [value for value in values if value is not None]
    if values[:len(known)] != known:
        return False
    pairs = list(zip(known, known[1:]))
    return all(a >= b for a, b in pairs) if is_down else all(a <= b for a, b in pairs)
