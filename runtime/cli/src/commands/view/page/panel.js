// What is said of a node, of a line, and of the whole model. All names are put in as texts.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function facts(rows) {
  const list = make('dl');
  rows.filter(([, what]) => what !== null && what !== '' && what?.length !== 0).forEach(([head, what, kind = '']) => {
    list.append(make('dt', {}, head), make('dd', kind ? { class: kind } : {}, ...(Array.isArray(what) ? what : [what])));
  });
  return list;
}
const line = (...parts) => make('div', {}, ...parts);
const present = types => types.filter(type => type !== 'absent');
function valueOf(node, name, type, link) {
  const of = nodes[node];
  const head = link ? make('button', {}, name) : name;
  if (link) head.addEventListener('click', () => link.nodes ? select(link.nodes[0]) : focusBox(link));
  const parts = [head, ' ', make('span', { class: 'type' }, type ?? '')];
  if (of.encodings[name]) parts.push(make('small', {}, of.encodings[name]));
  return line(...parts);
}
function costOf(edge) {
  const { steps, text } = edge.cost;
  const ways = steps.map(step => `${step.between ? step.between.join(' → ') + ': ' : ''}${step.inputs} → ${step.outputs}, ${bytes(step.bytes)}`);
  return edge.crossing ? [text, ...ways] : ways.length ? ways : [text];
}
function nodeFacts(node, isShort) {
  const of = nodes[node], home = homes[node], at = graph.steps[node], step = at === null ? null : explain.steps[at];
  const took = at === null ? null : measured?.steps[at];
  const [into, from] = home ? [home.box.into, home.box.from] : [[], []];
  const maker = name => into.find(edge => edge.value === name);
  const inputs = present(of.inputs).map((type, at) => {
    const edge = maker(of.reads[at]);
    return valueOf(node, of.reads[at] ?? '', type, isShort ? null : edge && graph.boxes[edge.from]);
  });
  const readers = name => from.find(edge => edge.value === name);
  const outputs = present(of.outputs).map((type, at) => {
    const edge = readers(of.makes[at]);
    return valueOf(node, of.makes[at] ?? '', type, isShort ? null : edge && graph.boxes[edge.to]);
  });
  const crossing = [...into, ...from].filter(edge => edge.cost);
  const rows = [
    ['state', stateOf(of)],
    ['inputs', inputs], ['outputs', outputs],
    ['package', of.package], ['method', [of.backend, step?.method].filter(Boolean).join(', ')],
    ['not on', of.refusals.map(({ core, reason }) => line(`${core}: ${reason}`)), 'bad'],
    ['fell back', of.fell_back ? 'no core in --cores supports it' : null, 'bad'],
  ];
  if (took) rows.push(['time', `${time(took.us)}, ${(100 * took.us / measured.steps_us).toFixed(1)} % of all steps`]);
  if (!isShort) {
    const share = took?.share ? ` (bound: ${took.bound})` : '';
    rows.push(
      ['of roofline', took?.share ? `${Math.round(100 * took.share)} %${share}` : null],
      ['operations', step?.operations ? `${(step.operations / 1e6).toFixed(2)} million` : null],
      ['reads, writes', step ? bytes(step.bytes) : null], ['scratch', step?.scratch_bytes ? bytes(step.scratch_bytes) : null],
      ['layers', home?.box.layers?.map(([op, name]) => line(`${op} ${name}`)) ?? null],
      ['fused nodes', home?.row === 0 ? home.box.nodes.slice(1).map(fused => line(`${nodes[fused].op} ${nodes[fused].name}`)) : null],
      ['crosses', crossing.flatMap(edge => costOf(edge).map(text => line(`${edge.value}: ${text}`)))],
      ['subnet', pathOf(node).join(' / ')],
    );
    (data.attributes[node] ?? []).forEach(([name, value]) => rows.push([name, make('code', {}, value)]));
  }
  return rows;
}
function about(node, isShort) {
  const of = nodes[node];
  const core = make('span', { class: 'core', style: `color: var(--${kindOf(of.core)})` }, of.core);
  return [make('h2', {}, core, of.op), make('p', { class: 'sub' }, of.name), facts(nodeFacts(node, isShort))];
}
function aboutPort(box) {
  const port = box.input === undefined ? data.outputs[box.output] : data.inputs[box.input];
  const word = box.input === undefined ? 'output' : 'input';
  return [make('h2', {}, port.name), make('p', { class: 'sub' }, `${word} of the model`), facts([['type', port.type]])];
}
function aboutEdge(edge) {
  const encoding = edgeEncoding(edge);
  const rows = [['type', edge.type], ['encoding', encoding]];
  if (edge.cost) rows.push(['crosses', costOf(edge).map(text => line(text))]);
  return [make('h2', {}, edge.value), facts(rows)];
}
const sumOf = list => list.reduce((sum, node) => sum + (timeOf(node) ?? 0), 0);
function aboutFrame(frame) {
  const subnet = explain.subnets.find(({ name }) => name === frame.name);
  const core = make('span', { class: 'core', style: `color: var(--${kindOf(frame.core)})` }, frame.core);
  const us = measured ? sumOf(frame.nodes) : null;
  return [make('h2', {}, core, frame.name), facts([
    ['nodes', String(frame.nodes.length)], ['ids', subnet ? ranges(subnet.nodes) : null],
    ['steps', subnet ? `${subnet.steps[0]} to ${subnet.steps[1] - 1}` : null],
    ['time', us === null ? null : `${time(us)}, ${(100 * us / measured.steps_us).toFixed(1)} % of all steps`],
  ])];
}
// Numbers in order, in few words.
function ranges(numbers) {
  const found = [];
  numbers.forEach(number => {
    const last = found[found.length - 1];
    if (last && last[1] === number - 1) last[1] = number; else found.push([number, number]);
  });
  return found.map(([first, last]) => first === last ? `${first}` : `${first}-${last}`).join(', ');
}
function edgeEncoding(edge) {
  const ends = [...(graph.boxes[edge.from].nodes ?? []), ...(graph.boxes[edge.to].nodes ?? [])];
  return ends.map(node => nodes[node].encodings[edge.value]).find(Boolean) ?? null;
}
function aboutModel() {
  const ports = list => list.map(({ name, type }) => line(name, ' ', make('span', { class: 'type' }, type)));
  const cores = Object.entries(counts()).map(([core, count]) => line(`${core}: ${count} nodes`));
  const memories = explain.memories.map(of =>
    line(`${of.memory}: arena ${bytes(of.arena_bytes)}, scratch ${bytes(of.scratch_bytes)}, constants ${bytes(of.constant_bytes)}, prepacked ${bytes(of.packed_bytes)}`));
  const subnets = frames.map(frame => {
    const name = make('button', {}, frame.name);
    name.addEventListener('click', () => centre(frame));
    return line('\u00a0'.repeat(3 * frame.depth), name, ` on ${frame.core}: ${frame.nodes.length} nodes${measured ? `, ${time(sumOf(frame.nodes))}` : ''}`);
  });
  const exchanges = explain.exchanges.map(of => line(`${of.from} → ${of.to}: ${of.value}, ${bytes(of.bytes)}`));
  const passes = explain.passes.filter(pass => pass.count).map(pass => line(`${pass.name}: ${pass.count}`));
  const operators = (measured?.operators ?? []).slice(0, 8).map(of => line(`${of.op}: ${time(of.us)}, ${(100 * of.us / measured.steps_us).toFixed(1)} %`));
  return [make('h2', {}, data.name), make('p', { class: 'sub' }, 'Choose a node to see its details.'), facts([
    ['inputs', ports(data.inputs)], ['outputs', ports(data.outputs)],
    ['run', measured ? `${time(measured.run_us)}, ${Math.round(100 * measured.share)} % of roofline` : null],
    ['slowest operators', operators], ['nodes', cores], ['subnets', subnets], ['copies between devices', exchanges], ['memory', memories], ['notes', explain.notices.map(text => line(text))],
    ['passes', passes],
  ])];
}
function counts() {
  const counts = {};
  nodes.forEach(node => { counts[node.core] = (counts[node.core] ?? 0) + 1; });
  return counts;
}
function showDetails() {
  const { node, box } = state;
  byId('details').replaceChildren(...(node !== null ? about(node, false) : box ? aboutPort(box) : aboutModel()));
  byId('details').scrollTop = 0;
}

// The list of nodes. Rows that are out of sight are not there.
const ROW = 27;
const list = byId('list'), rows = byId('rows');
const collate = new Intl.Collator(undefined, { numeric: true }).compare;
const columns = [
  { head: '#', width: '46px', of: at => at + 1, right: true },
  { head: 'operator', width: '29%', of: at => nodes[at].op },
  { head: 'name', width: '', of: at => nodes[at].name },
  { head: 'core', width: '92px', of: at => nodes[at].core },
  ...(measured ? [{ head: 'time', width: '74px', of: at => timeOf(at), text: at => timeOf(at) === null ? '' : time(timeOf(at)), right: true }] : []),
];
let sorting = { column: 0, sign: 1 };
let listed = [];
function fillList() {
  const { of } = columns[sorting.column];
  const all = nodes.map((_, at) => at).filter(at => !search.value || state.hits.has(at));
  listed = all.map(at => [of(at), at]).sort(([a, x], [b, y]) => {
    if (a === null || b === null) return (a === null) - (b === null) || x - y;
    return sorting.sign * (typeof a === 'number' ? a - b : collate(a, b)) || x - y;
  }).map(([, at]) => at);
  list.querySelector('table').setAttribute('aria-rowcount', listed.length);
  showRows();
}
function showRows() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 10);
  const last = Math.min(listed.length, first + Math.ceil(list.clientHeight / ROW) + 20);
  const gap = count => {
    const row = make('tr', { class: 'gap', 'aria-hidden': 'true' }, make('td', { colspan: columns.length }));
    row.firstChild.style.height = `${count * ROW}px`;
    return row;
  };
  const made = listed.slice(first, last).map((node, at) => {
    const row = make('tr', { 'aria-rowindex': first + at + 1, 'aria-selected': node === state.node });
    row.dataset.node = node;
    columns.forEach(({ head, of, text, right }) => {
      const what = String((text ?? of)(node));
      const cell = make('td', { class: right ? 'right' : head, title: what });
      if (head === 'core') cell.append(make('span', { class: 'dot', style: `background: var(--${kindOf(what)})` }));
      cell.append(make('bdi', { dir: 'ltr' }, what));
      row.append(cell);
    });
    return row;
  });
  rows.replaceChildren(gap(first), ...made, gap(listed.length - last));
}
columns.forEach(({ head, width, right }, column) => {
  const cell = make('th', { scope: 'col', ...(right ? { class: 'right' } : {}) }, make('button', {}, head));
  cell.style.width = width;
  cell.firstChild.addEventListener('click', () => {
    sorting = { column, sign: sorting.column === column ? -sorting.sign : 1 };
    [...byId('heads').cells].forEach(other => other.removeAttribute('aria-sort'));
    cell.setAttribute('aria-sort', sorting.sign > 0 ? 'ascending' : 'descending');
    list.scrollTop = 0;
    fillList();
  });
  byId('heads').append(cell);
});
byId('heads').cells[0].setAttribute('aria-sort', 'ascending');
function showInList(node) {
  const at = listed.indexOf(node);
  const head = byId('heads').offsetHeight;
  if (at < 0) return;
  const top = at * ROW;
  if (top < list.scrollTop || top + ROW > list.scrollTop + list.clientHeight - head) list.scrollTop = top - list.clientHeight / 2 + head;
}
list.addEventListener('scroll', () => requestAnimationFrame(showRows));
rows.addEventListener('click', event => {
  const row = event.target.closest('tr[data-node]');
  if (row) select(Number(row.dataset.node));
});
list.addEventListener('keydown', event => {
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity }[event.key];
  if (by === undefined || event.target !== list || !listed.length) return;
  event.preventDefault();
  event.stopPropagation();
  const at = listed.indexOf(state.node);
  select(listed[Math.max(0, Math.min(listed.length - 1, at < 0 ? 0 : at + by))]);
});
