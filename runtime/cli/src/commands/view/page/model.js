'use strict';
// What the page shows. `explain` is what `udo explain --json` prints. `graph` has the places of boxes, of the frames of subnets around these, and
// of lines, as of layout.rs. A box says which frames it is in, the outer first.
const data = JSON.parse(document.getElementById('data').textContent);
const { explain, graph } = data;
const nodes = explain.nodes;
const measured = explain.measured ?? null;
const byId = id => document.getElementById(id);

// The box of each node, and which of its nodes that is; none of what was computed with the model.
const homes = [];
graph.boxes.forEach((box, at) => {
  box.at = at;
  box.w = graph.box_width;
  box.into = [];
  box.from = [];
  (box.nodes ?? []).forEach((node, row) => { homes[node] = { box, row }; });
});
graph.edges.forEach(edge => {
  graph.boxes[edge.from].from.push(edge);
  graph.boxes[edge.to].into.push(edge);
});

const kindOf = core => ['cpu', 'gpu', 'dsp', 'hta'].includes(core.split(':')[0]) ? core.split(':')[0] : 'other';
const timeOf = node => graph.steps[node] === null ? null : measured?.steps[graph.steps[node]]?.us ?? null;
const coreOf = box => box.nodes ? nodes[box.nodes[0]].core : null;
// What has no call of a kernel of its own.
function stateOf(node) {
  if (node.fused_into !== null) return `fused: ${node.fused_into} does it`;
  if (node.folded) return 'constant-folded';
  if (node.control !== null) return `control: ${node.control}`;
  if (node.view) return 'elided: output shares the input\'s memory';
  return null;
}
const longest = Math.max(0, ...nodes.map((_, at) => timeOf(at) ?? 0));

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  while (count >= 1024 && unit < 3) { count /= 1024; unit++; }
  return `${unit && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}
function time(us) {
  if (us >= 1e4) return `${(us / 1e3).toFixed(1)} ms`;
  return `${us >= 100 ? us.toFixed(0) : us.toFixed(us >= 10 ? 1 : 2)} µs`;
}
// What a line that crosses between cores costs: bytes, and the types where they change.
function crossing(edge) {
  const steps = edge.crosses.map(at => explain.steps[at]);
  const types = steps.flatMap(step => step.inputs.map((of, at) => [of, step.outputs[at]]));
  const changed = types.filter(([was, is]) => was !== is).map(([was, is]) => {
    const [a, b] = [was, is].map(type => type.split('[')[0]);
    return a === b ? `${was} → ${is}` : `${a} → ${b}`;
  });
  const sum = steps.reduce((sum, step) => sum + step.bytes, 0);
  return { steps, sum, text: [...new Set(changed), sum ? bytes(sum) : 'no copy'].join(' · ') };
}
// What crosses between two subnets, or between one and the caller, in the words of `udo explain`.
function passage({ made, read, bytes: count, passage }, crosses) {
  const change = made === read ? made : `${made} → ${read}`;
  return { steps: (crosses ?? []).map(at => explain.steps[at]), sum: count, text: `${change}, ${count.toLocaleString('en')} B ${passage}` };
}
graph.edges.forEach(edge => {
  const maker = graph.boxes[edge.from];
  // What passes on from a box that no step computes is told of where it comes from.
  const isTold = explain.crossings.length > 0 && maker.nodes !== undefined && nodes[maker.nodes[0]].view;
  if (edge.crossing) edge.cost = passage(edge.crossing, edge.crosses);
  else if (edge.crosses && !isTold) edge.cost = crossing(edge);
});

// Frames of subnets: what is in each.
const { frames } = graph;
frames.forEach(frame => { frame.nodes = []; });
graph.boxes.forEach(box => box.frames.forEach(at => frames[at].nodes.push(...(box.nodes ?? []))));
const pathOf = node => homes[node]?.box.frames.map(at => frames[at].name) ?? [];
