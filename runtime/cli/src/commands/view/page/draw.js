// The graph on its canvas. The camera is the point of the graph in the upper left corner, and how large the graph is.
const canvas = byId('canvas'), map = byId('map'), stage = byId('stage');
const context = canvas.getContext('2d');
const camera = { x: 0, y: 0, k: 1 };
const state = { node: null, box: null, hover: null, core: null, colour: 'core', hits: new Set() };
const [LEAST, MOST] = [0.01, 3];
// Texts are drawn from these sizes of the graph on.
const [TITLES, TEXTS] = [0.3, 0.5];

// Boxes and lines by the bands of the graph that they are in, so that what is out of sight costs nothing.
const BAND = 512;
function banded(items, range) {
  const bands = [];
  items.forEach(item => {
    const [top, bottom] = range(item);
    for (let at = Math.max(0, Math.floor(top / BAND)); at <= Math.floor(bottom / BAND); at++) (bands[at] ??= []).push(item);
  });
  return bands;
}
const edgeRange = edge => {
  const ys = edge.points.filter((_, at) => at % 2);
  return [Math.min(...ys), Math.max(...ys)];
};
const boxBands = banded(graph.boxes, box => [box.y, box.y + box.h + 20]);
const edgeBands = banded(graph.edges, edgeRange);
function within(bands, top, bottom) {
  const found = new Set();
  for (let at = Math.max(0, Math.floor(top / BAND)); at <= Math.floor(bottom / BAND) && at < bands.length; at++) {
    bands[at]?.forEach(item => found.add(item));
  }
  return found;
}

// Colours of the page's style, anew when it turns dark or light.
let ink = {};
function mix(a, b, share) {
  const parts = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16));
  const [from, to] = [parts(a), parts(b)];
  return '#' + from.map((part, at) => Math.round(part + (to[at] - part) * share).toString(16).padStart(2, '0')).join('');
}
function readInk() {
  const style = getComputedStyle(document.documentElement);
  const names = ['ground', 'panel', 'raised', 'line', 'text', 'muted', 'accent', 'mark', 'cpu', 'gpu', 'dsp', 'hta', 'other', 'cross', 'edge', 'hot'];
  ink = Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
  ink.tint = Object.fromEntries(['cpu', 'gpu', 'dsp', 'hta', 'other'].map(kind => [kind, mix(ink.panel, ink[kind], 0.16)]));
}

const widths = new Map();
// A text that is no wider than so many pixels: its end is left out, or its start, as what sets names apart is at their ends.
function short(text, font, most, keeps = 'start') {
  const key = `${font}\n${most}\n${keeps}\n${text}`;
  if (widths.has(key)) return widths.get(key);
  context.font = font;
  let found = text;
  const part = count => keeps === 'start' ? text.slice(0, count) + '…' : '…' + text.slice(text.length - count);
  if (context.measureText(text).width > most) {
    let [least, above] = [0, text.length];
    while (above - least > 1) {
      const middle = (least + above) >> 1;
      if (context.measureText(part(middle)).width <= most) least = middle; else above = middle;
    }
    found = part(least);
  }
  widths.set(key, found);
  return found;
}
function write(text, x, y, font, colour, most, align = 'left', keeps = 'start') {
  const found = short(text, font, most, keeps);
  context.font = font;
  context.fillStyle = colour;
  context.textAlign = align;
  context.fillText(found, x, y);
}
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const [BOLD, PLAIN, SMALL, NAME] = [`600 13px ${FONT}`, `11px ${FONT}`, `10.5px ${FONT}`, `600 12px ${FONT}`];

function trace(edge) {
  const { points } = edge;
  context.moveTo(points[0], points[1]);
  for (let at = 2; at < points.length; at += 2) {
    const [x, y, u, v] = [points[at - 2], points[at - 1], points[at], points[at + 1]];
    if (Math.abs(x - u) < 1 && v > y) { context.lineTo(u, v); continue; }
    const bend = v > y ? (v - y) / 2 : 60;
    context.bezierCurveTo(x, y + bend, u, v - bend, u, v);
  }
}
function stroke(edges, colour, width, dashes = []) {
  if (!edges.length) return;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.beginPath();
  edges.forEach(trace);
  context.stroke();
  context.setLineDash([]);
}
function arrows(edges, colour) {
  context.fillStyle = colour;
  context.beginPath();
  edges.forEach(({ points }) => {
    const [x, y] = points.slice(-2);
    context.moveTo(x, y);
    context.lineTo(x - 4, y - 8);
    context.lineTo(x + 4, y - 8);
    context.closePath();
  });
  context.fill();
}
const touches = edge => state.box !== null && (edge.from === state.box.at || edge.to === state.box.at);
const isDim = box => state.core !== null && coreOf(box) !== state.core;

function drawEdges(edges) {
  const least = 1 / camera.k;
  const near = edges.filter(touches), crossing = edges.filter(edge => edge.cost && !touches(edge));
  const plain = edges.filter(edge => !edge.cost && !touches(edge));
  stroke(plain, ink.edge, Math.max(1.3, 0.7 * least));
  stroke(crossing, ink.cross, Math.max(2.2, 1.2 * least), [7, 5]);
  stroke(near, ink.accent, Math.max(2.6, 1.4 * least));
  if (camera.k < TITLES) return;
  arrows(plain, ink.edge);
  arrows(crossing, ink.cross);
  arrows(near, ink.accent);
}
// What is on a line: its type beneath the box that makes the value, or above the one that reads it where several are made; what crosses, where
// it arrives.
function drawLabels(edges) {
  const seen = new Set();
  edges.forEach(edge => {
    const [x, y] = edge.points, [u, v] = edge.points.slice(-2);
    const several = graph.boxes[edge.from].from.some(other => other.value !== edge.value);
    if (edge.cost) {
      const text = short(edge.cost.text, SMALL, graph.box_width + (edge.crossing ? 110 : 10));
      context.font = SMALL;
      const width = context.measureText(text).width + 14;
      context.fillStyle = ink.panel;
      context.strokeStyle = ink.cross;
      context.lineWidth = 1.2;
      context.beginPath();
      context.roundRect(u - width / 2, v - 29, width, 17, 8.5);
      context.fill();
      context.stroke();
      write(text, u, v - 16.5, SMALL, ink.cross, width, 'center');
      return;
    }
    const key = several ? `${edge.value}\n${edge.to}` : `${edge.from}`;
    if (seen.has(key)) return;
    seen.add(key);
    const [left, base] = several ? [u + 7, v - 11] : [x + 7, y + 14];
    const text = short(edge.type, SMALL, graph.box_width / 2 + 26);
    context.font = SMALL;
    context.textAlign = 'left';
    context.strokeStyle = ink.ground;
    context.lineWidth = 3;
    context.strokeText(text, left, base);
    write(text, left, base, SMALL, ink.muted, graph.box_width);
  });
}

function look(box) {
  if (!box.nodes) return { fill: ink.raised, border: ink.muted, dashes: [] };
  const node = nodes[box.nodes[0]], colour = ink[kindOf(node.core)];
  if (node.view) return { fill: ink.ground, border: colour, dashes: [5, 3] };
  if (state.colour === 'time') {
    const us = timeOf(box.nodes[0]) ?? 0;
    return { fill: mix(ink.panel, ink.hot, 0.75 * Math.sqrt(longest ? us / longest : 0)), border: colour, dashes: [] };
  }
  return { fill: ink.tint[kindOf(node.core)], border: colour, dashes: node.control ? [8, 3] : [] };
}
function drawBox(box) {
  const { fill, border, dashes } = look(box);
  const isPort = !box.nodes, chosen = state.box === box;
  context.globalAlpha = isDim(box) ? 0.22 : 1;
  context.beginPath();
  if (camera.k < 0.12) context.rect(box.x, box.y, box.w, box.h);
  else context.roundRect(box.x, box.y, box.w, box.h, isPort ? box.h / 2 : 7);
  context.fillStyle = fill;
  context.fill();
  context.strokeStyle = chosen ? ink.accent : border;
  context.lineWidth = chosen ? Math.max(3, 2 / camera.k) : 1.4;
  context.setLineDash(chosen ? [] : dashes);
  context.stroke();
  context.setLineDash([]);
  if (box.nodes?.some(node => state.hits.has(node))) {
    context.strokeStyle = ink.hot;
    context.lineWidth = Math.max(2.5, 2.5 / camera.k);
    context.strokeRect(box.x - 4, box.y - 4, box.w + 8, box.h + 8);
  }
  if (camera.k >= TITLES) drawTexts(box);
  context.globalAlpha = 1;
}
function drawTexts(box) {
  const left = box.x + 11, most = box.w - 22;
  if (!box.nodes) {
    const port = box.input === undefined ? data.outputs[box.output] : data.inputs[box.input];
    write(port.name, box.x + box.w / 2, box.y + 15, BOLD, ink.text, most, 'center');
    if (camera.k >= TEXTS) write(port.type, box.x + box.w / 2, box.y + 28, SMALL, ink.muted, most, 'center');
    return;
  }
  const first = nodes[box.nodes[0]], us = timeOf(box.nodes[0]);
  const aside = us === null ? first.core : time(us);
  write(first.op, left, box.y + 19, BOLD, ink.text, most);
  if (camera.k < TEXTS) return;
  write(aside, box.x + box.w - 11, box.y + 36, PLAIN, us === null ? ink[kindOf(first.core)] : ink.text, 60, 'right');
  write(first.name, left, box.y + 36, PLAIN, ink.muted, most - 64, 'left', 'end');
  const drawRow = (at, node, op, name) => {
    const y = box.y + box.h - graph.row_height * (rows.length - at);
    context.strokeStyle = ink[kindOf(first.core)];
    context.globalAlpha *= 0.45;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(box.x, y);
    context.lineTo(box.x + box.w, y);
    context.stroke();
    context.globalAlpha = isDim(box) ? 0.22 : 1;
    if (node !== null && state.node === node) {
      context.fillStyle = ink.mark;
      context.fillRect(box.x + 2, y + 2, box.w - 4, graph.row_height - 4);
    }
    write(op, left, y + 16, BOLD, ink.text, most - 70);
    write(name, box.x + box.w - 11, y + 16, SMALL, ink.muted, 70, 'right', 'end');
  };
  // The layers of a program, then the nodes whose work the kernel does besides.
  const layers = (box.layers ?? []).map(([op, name]) => [null, op, name]);
  const rows = [...layers, ...box.nodes.slice(1).map(node => [node, `+ ${nodes[node].op}`, nodes[node].name])];
  rows.forEach(([node, op, name], at) => drawRow(at, node, op, name));
}
function drawFrame(frame) {
  const colour = ink[kindOf(frame.core)];
  context.beginPath();
  context.roundRect(frame.x, frame.y, frame.w, frame.h, 10);
  context.globalAlpha = 0.07;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 0.9;
  context.strokeStyle = colour;
  context.lineWidth = Math.max(1.2, 0.8 / camera.k);
  context.stroke();
  context.globalAlpha = 1;
}
// Over the lines, which begin and end in frames.
function drawName(frame) {
  const text = short(frame.name, NAME, frame.w - 36);
  context.font = NAME;
  const width = context.measureText(text).width;
  context.fillStyle = ink.ground;
  context.fillRect(frame.x + 12, frame.y - 8, width + 12, 16);
  write(text, frame.x + 18, frame.y + 4, NAME, ink[kindOf(frame.core)], frame.w);
}

function draw() {
  const ratio = devicePixelRatio, { width, height } = canvas;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = ink.ground;
  context.fillRect(0, 0, width, height);
  const scale = camera.k * ratio;
  context.setTransform(scale, 0, 0, scale, -camera.x * scale, -camera.y * scale);
  const [top, bottom] = [camera.y, camera.y + height / scale];
  const [left, right] = [camera.x, camera.x + width / scale];
  const boxes = [...within(boxBands, top, bottom)].filter(box => box.x + box.w > left && box.x < right);
  const edges = [...within(edgeBands, top, bottom)];
  const seen = frames.filter(({ x, y, w, h }) => x + w > left && x < right && y + h > top && y - 8 < bottom);
  seen.forEach(drawFrame);
  drawEdges(edges);
  if (camera.k >= TITLES) seen.forEach(drawName);
  boxes.forEach(drawBox);
  if (camera.k >= TEXTS) drawLabels(edges);
  drawMap();
  byId('zoom').value = `${Math.round(camera.k * 100)} %`;
  if (!draw.first) draw.first = performance.now();
}
let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

// All of the graph, small, and what is seen of it. Tall graphs are squeezed.
let small = null;
const mapScale = () => [map.width / graph.width, Math.min(map.height / graph.height, map.width / graph.width * 1.5)];
function paintMap() {
  small = document.createElement('canvas');
  [small.width, small.height] = [map.width, map.height];
  const paint = small.getContext('2d'), [h, v] = mapScale();
  paint.globalAlpha = 0.18;
  frames.forEach(frame => {
    paint.fillStyle = ink[kindOf(frame.core)];
    paint.fillRect(frame.x * h, frame.y * v, frame.w * h, frame.h * v);
  });
  graph.boxes.forEach(box => {
    const core = coreOf(box);
    const isHit = box.nodes?.some(node => state.hits.has(node));
    paint.globalAlpha = isDim(box) ? 0.2 : 1;
    paint.fillStyle = isHit ? ink.hot : core ? ink[kindOf(core)] : ink.muted;
    const height = Math.max(1, box.h * v), width = Math.max(2, box.w * h);
    paint.fillRect(box.x * h, box.y * v, width, isHit ? Math.max(3, height) : height);
  });
}
function drawMap() {
  if (!map.width || !map.height) return;
  if (!small) paintMap();
  const paint = map.getContext('2d'), [h, v] = mapScale(), ratio = devicePixelRatio;
  paint.clearRect(0, 0, map.width, map.height);
  paint.drawImage(small, 0, 0);
  paint.strokeStyle = ink.accent;
  paint.lineWidth = 1.5 * ratio;
  const [w, height] = [canvas.width / ratio / camera.k, canvas.height / ratio / camera.k];
  const x = Math.max(1, camera.x * h), y = Math.max(1, camera.y * v);
  paint.strokeRect(x, y, Math.min(map.width - 1, (camera.x + w) * h) - x, Math.max(6, Math.min(map.height - 1, (camera.y + height) * v) - y));
}
