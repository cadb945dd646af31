// Pointer, keys and search.
const search = byId('search'), tip = byId('tip');
const size = () => [canvas.clientWidth, canvas.clientHeight];
const calm = matchMedia('(prefers-reduced-motion: reduce)');
let flight = 0;
// Whether the camera is where it was at first.
let isFirst = true;
function lookAt(x, y, k) {
  cancelAnimationFrame(flight);
  isFirst = false;
  Object.assign(camera, { x, y, k: Math.min(MOST, Math.max(LEAST, k)) });
  redraw();
}
// Moves the camera there in a moment; jumps where the user wants no motion.
function fly(x, y, k) {
  cancelAnimationFrame(flight);
  isFirst = false;
  const from = { ...camera }, start = performance.now();
  if (calm.matches) { lookAt(x, y, k); return; }
  const step = now => {
    const done = Math.min(1, Math.max(0, (now - start) / 160)), share = done * (2 - done);
    const between = name => from[name] + ({ x, y, k }[name] - from[name]) * share;
    Object.assign(camera, { x: between('x'), y: between('y'), k: between('k') });
    draw();
    if (done < 1) flight = requestAnimationFrame(step);
  };
  flight = requestAnimationFrame(step);
}
const move = (dx, dy) => lookAt(camera.x + dx / camera.k, camera.y + dy / camera.k, camera.k);
function zoom(by, x = size()[0] / 2, y = size()[1] / 2) {
  const k = Math.min(MOST, Math.max(LEAST, camera.k * by));
  lookAt(camera.x + x / camera.k - x / k, camera.y + y / camera.k - y / k, k);
}
// What is free of the window: nothing lies over it.
const room = () => [size()[0] - map.clientWidth - 20, size()[1] - 56];
function fit() {
  const [w, h] = room();
  const k = Math.min(1.4, w / graph.width, h / graph.height);
  fly((graph.width - w / k) / 2, (graph.height - h / k) / 2, k);
}
// The first picture: all of a small graph, the top of a large one.
function start() {
  const [w, h] = room();
  const all = Math.min(w / graph.width, h / graph.height);
  const k = all > 0.5 ? Math.min(1.2, all) : Math.min(1, Math.max(0.5, w / graph.width));
  const top = graph.boxes.length ? graph.boxes[0].x + graph.box_width / 2 : graph.width / 2;
  const x = graph.width * k <= w ? (graph.width - w / k) / 2 : top - w / k / 2;
  lookAt(x, all > 0.5 ? (graph.height - h / k) / 2 : 0, k);
  isFirst = true;
}
// Brings a box or a frame to the middle; of one that is larger than the window all is shown.
function centre(box) {
  const [w, h] = size(), k = Math.min(Math.max(camera.k, 0.7), w / (box.w + 80), h / (box.h + 80));
  fly(box.x + box.w / 2 - w / k / 2, box.y + box.h / 2 - h / k / 2, k);
}
function select(node, { stays = false } = {}) {
  state.node = node;
  state.box = homes[node]?.box ?? null;
  showDetails();
  if (node !== null) showInList(node);
  showRows();
  if (state.box && !stays) centre(state.box); else redraw();
}
function focusBox(box) {
  state.node = null;
  state.box = box;
  showDetails();
  showRows();
  centre(box);
}

// What is at a point of the window: a box and the node of its row, the name of a frame, or a line.
function at(event) {
  const bounds = canvas.getBoundingClientRect();
  const x = camera.x + (event.clientX - bounds.left) / camera.k, y = camera.y + (event.clientY - bounds.top) / camera.k;
  for (const box of within(boxBands, y, y)) {
    if (x < box.x || x > box.x + box.w || y < box.y || y > box.y + box.h) continue;
    const below = box.nodes ? box.nodes.length - Math.ceil((box.y + box.h - y) / graph.row_height) : 0;
    return { box, node: box.nodes ? box.nodes[Math.max(0, below)] : null };
  }
  const isName = frame => x >= frame.x && x <= frame.x + Math.min(frame.w, 160) && Math.abs(y - frame.y) <= 8;
  const frame = camera.k < TITLES ? null : frames.find(isName);
  if (frame) return { frame };
  const near = 6 / camera.k;
  for (const edge of camera.k < 0.2 ? [] : within(edgeBands, y - near, y + near)) {
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.lineWidth = 2 * near;
    context.beginPath();
    trace(edge);
    const isOn = context.isPointInStroke(x, y);
    context.restore();
    if (isOn) return { edge };
  }
  return {};
}
function showTip(event) {
  const { box, node, edge, frame } = at(event);
  canvas.classList.toggle('over', Boolean(box));
  tip.hidden = !box && !edge && !frame;
  if (tip.hidden) return;
  tip.replaceChildren(...(frame ? aboutFrame(frame) : edge ? aboutEdge(edge) : node === null ? aboutPort(box) : about(node, true)));
  const bounds = stage.getBoundingClientRect();
  const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
  tip.style.left = `${Math.max(4, Math.min(x + 16, bounds.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, y + 20 + tip.offsetHeight > bounds.height ? y - tip.offsetHeight - 12 : y + 20)}px`;
}

const fingers = new Map();
let far = 0;
canvas.addEventListener('pointerdown', event => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, event);
  far = 0;
  tip.hidden = true;
});
canvas.addEventListener('pointermove', event => {
  const before = fingers.get(event.pointerId);
  if (!before) { showTip(event); return; }
  const others = [...fingers.values()].filter(other => other.pointerId !== event.pointerId);
  fingers.set(event.pointerId, event);
  const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
  far += Math.abs(dx) + Math.abs(dy);
  if (others.length === 1) {
    const bounds = canvas.getBoundingClientRect();
    const [{ clientX: x, clientY: y }] = others;
    zoom(Math.hypot(event.clientX - x, event.clientY - y) / Math.max(1, Math.hypot(before.clientX - x, before.clientY - y)), x - bounds.left, y - bounds.top);
  } else if (far > 3) {
    canvas.classList.add('moving');
    move(-dx, -dy);
  }
});
canvas.addEventListener('pointerup', event => {
  fingers.delete(event.pointerId);
  canvas.classList.remove('moving');
  if (far > 3) return;
  const { box, node } = at(event);
  if (!box) select(null);
  else if (node === null) { focusBoxInPlace(box); } else select(node, { stays: true });
});
canvas.addEventListener('pointercancel', event => fingers.delete(event.pointerId));
canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
function focusBoxInPlace(box) {
  Object.assign(state, { node: null, box });
  showDetails();
  showRows();
  redraw();
}
canvas.addEventListener('wheel', event => {
  event.preventDefault();
  tip.hidden = true;
  const unit = event.deltaMode === 1 ? 16 : 1;
  if (!event.ctrlKey && !event.metaKey) { move(event.deltaX * unit, event.deltaY * unit); return; }
  const bounds = canvas.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * unit / 300), event.clientX - bounds.left, event.clientY - bounds.top);
}, { passive: false });
function jump(event) {
  const bounds = map.getBoundingClientRect(), [h, v] = mapScale(), ratio = devicePixelRatio, [w, height] = size();
  const [x, y] = [(event.clientX - bounds.left) * ratio / h, (event.clientY - bounds.top) * ratio / v];
  lookAt(graph.width * camera.k <= w ? camera.x : x - w / camera.k / 2, y - height / camera.k / 2, camera.k);
}
map.addEventListener('pointerdown', event => { map.setPointerCapture(event.pointerId); jump(event); });
map.addEventListener('pointermove', event => { if (event.buttons) jump(event); });

// Search: names, operators and what nodes make. Enter goes on to the next hit.
let hit = -1;
let hits = [];
function find() {
  const wanted = search.value.trim().toLowerCase();
  const has = text => text.toLowerCase().includes(wanted);
  hits = wanted ? nodes.map((_, at) => at).filter(at => has(nodes[at].name) || has(nodes[at].op) || nodes[at].makes.some(has)) : [];
  state.hits = new Set(hits);
  hit = -1;
  byId('found').value = wanted ? `${hits.length} found` : '';
  small = null;
  fillList();
  redraw();
}
function next(by) {
  if (!hits.length) return;
  hit = hit < 0 && by < 0 ? hits.length - 1 : (hit + by + hits.length) % hits.length;
  select(hits[hit]);
  byId('found').value = `${hit + 1} of ${hits.length}`;
}
function clear() {
  search.value = '';
  state.core = null;
  tip.hidden = true;
  find();
  select(null);
  showLegend();
}
search.addEventListener('input', find);
search.addEventListener('keydown', event => {
  if (event.key === 'Enter') next(event.shiftKey ? -1 : 1);
});
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') { clear(); canvas.focus(); return; }
  if (event.target.matches('input, select')) return;
  const isOnButton = event.target.matches('button');
  const keys = {
    '/': () => { search.focus(); search.select(); }, '+': () => zoom(1.25), '=': () => zoom(1.25), '-': () => zoom(0.8), f: fit,
    ...(isOnButton ? {} : { Enter: () => next(event.shiftKey ? -1 : 1) }),
    ArrowLeft: () => move(-90, 0), ArrowRight: () => move(90, 0), ArrowUp: () => move(0, -90), ArrowDown: () => move(0, 90),
    PageUp: () => move(0, -size()[1] * 0.85), PageDown: () => move(0, size()[1] * 0.85),
    Home: () => lookAt(camera.x, 0, camera.k), End: () => lookAt(camera.x, graph.height - size()[1] / camera.k, camera.k),
  };
  if (!keys[event.key] || event.target === byId('details') && event.key !== '/') return;
  event.preventDefault();
  keys[event.key]();
});
byId('in').addEventListener('click', () => zoom(1.25));
byId('out').addEventListener('click', () => zoom(0.8));
byId('fit').addEventListener('click', fit);
byId('by').hidden = !measured;
byId('colour').addEventListener('change', event => { state.colour = event.target.value; showLegend(); redraw(); });

function showLegend() {
  const cores = Object.entries(counts()).map(([core, count]) => {
    const kind = kindOf(core);
    const swatch = make('i', { style: `border-color: var(--${kind}); background: color-mix(in srgb, var(--${kind}) 16%, var(--panel))` });
    const button = make('button', { 'aria-pressed': state.core === core, title: 'Show these alone' }, swatch, core, make('small', {}, count));
    button.dataset.core = core;
    button.addEventListener('click', () => {
      state.core = state.core === core ? null : core;
      small = null;
      showLegend();
      byId('legend').querySelector(`[data-core="${core}"]`).focus();
      redraw();
    });
    return button;
  });
  const sign = (style, text) => make('span', {}, make('i', style), text);
  const has = test => nodes.some(test);
  const isAlone = node => node.fused_into === null;
  const others = [
    has(node => node.view && isAlone(node)) && sign({ style: 'border-style: dashed; border-color: var(--muted)' }, 'elided'),
    graph.edges.some(edge => edge.cost) && sign({ class: 'line' }, 'crosses cores'),
    state.colour === 'time' && sign({ class: 'heat' }, `0 to ${time(longest)}`),
  ];
  byId('legend').replaceChildren(...cores, ...others.filter(Boolean));
}

function resize() {
  const ratio = devicePixelRatio;
  map.style.height = `${Math.min(stage.clientHeight - 20, Math.max(24, map.clientWidth * 1.5 * graph.height / graph.width))}px`;
  for (const [element, width, height] of [[canvas, ...size()], [map, map.clientWidth, map.clientHeight]]) {
    [element.width, element.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  }
  small = null;
}
// The middle stays in the middle.
let known = size();
new ResizeObserver(() => {
  const [w, h] = size();
  camera.x += (known[0] - w) / camera.k / 2;
  camera.y += (known[1] - h) / camera.k / 2;
  known = [w, h];
  resize();
  if (isFirst) start();
  draw();
  showRows();
}).observe(stage);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readInk(); small = null; redraw(); });

byId('name').textContent = data.name;
byId('facts').textContent = [
  `${nodes.length} nodes`, `${explain.steps.length} steps`, `cores ${data.cores.join(', ')}`,
  explain.exchanges.length ? `${explain.exchanges.length} copies between devices` : '', measured ? `${time(measured.run_us)} a run` : '',
].filter(Boolean).join(' · ');
canvas.setAttribute('aria-label', `${data.name}: a graph of ${nodes.length} nodes; the list next to it has the same nodes`);
readInk();
resize();
known = size();
showLegend();
showDetails();
fillList();
start();
draw();
