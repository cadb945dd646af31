'use strict';
// What a cell sorts by: a number where it has one. Nothing is behind everything else, whichever way the rows go.
function key(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.v ?? cell.textContent;
  const number = Number(text);
  return text === '' ? null : Number.isNaN(number) ? text : number;
}
function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
function sort(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const sign = heads[column].ariaSort === 'ascending' ? -1 : 1;
  heads.forEach(head => head.removeAttribute('aria-sort'));
  heads[column].ariaSort = sign > 0 ? 'ascending' : 'descending';
  const keyed = [...table.tBodies[0].rows].map(row => [key(row, column), row]);
  keyed.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b));
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}
document.querySelectorAll('table.sorts').forEach(table =>
  [...table.tHead.rows[0].cells].forEach((head, column) =>
    head.firstChild.addEventListener('click', () => sort(table, column))));

const [named, low, shown] = ['named', 'low', 'shown'].map(id => document.getElementById(id));
function filter() {
  const rows = [...document.getElementById('values').tBodies[0].rows];
  const wanted = named.value.toLowerCase();
  rows.forEach(row => {
    row.hidden = !row.dataset.name.toLowerCase().includes(wanted) || (low.checked && !row.classList.contains('low'));
  });
  shown.value = `${rows.filter(row => !row.hidden).length} of ${rows.length}`;
}
[named, low].forEach(input => input.addEventListener('input', filter));
filter();
