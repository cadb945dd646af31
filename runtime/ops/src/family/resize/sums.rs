//! Resizing by weighted sums: first of input rows, then within a row.

use super::axis::OUTSIDE;
use super::rows::{Grid, Table, Tables};
use super::sample::{Sample, combine};
use crate::number::Real;

/// Returns the workspace elements of a thread: an input row and an output row.
pub(super) fn workspace_len(grid: &Grid) -> usize {
    grid.line_len().saturating_add(grid.row_len())
}

/// Computes output rows from `first` on. Sums are computed in `T::Wide`; `finish` converts them to `T` if that differs.
/// Output elements outside the region of interest are set to `outside`.
pub(super) fn rows<T: Sample>(
    grid: &Grid,
    tables: &Tables<'_, T::Wide>,
    first: usize,
    x: &[T],
    (outside, finish): (T::Wide, impl Fn(T::Wide) -> T),
    workspace: &mut [T::Wide],
    y: &mut [T],
) {
    let (line, wide) = workspace.split_at_mut(grid.line_len());
    let is_resized = |axis: &Option<Table<'_, T::Wide>>| axis.is_some();
    let are_rows_whole = !tables[..grid.axis].iter().any(is_resized);
    for (y, row_index) in y.chunks_exact_mut(grid.row_len()).zip(first..) {
        let Some(sources) = grid.sources(row_index, tables) else {
            y.fill(finish(outside));
            continue;
        };
        let unconverted = T::wide(x).filter(|_| are_rows_whole);
        let line = if let Some(x) = unconverted {
            &x[sources.offset..][..line.len()]
        } else {
            combine(x, sources, line);
            &*line
        };
        if let Some(y) = T::wide_mut(y) {
            row(grid, tables, line, outside, y);
            continue;
        }
        row(grid, tables, line, outside, &mut wide[..y.len()]);
        y.iter_mut().zip(&*wide).for_each(|(y, wide)| *y = finish(*wide));
    }
}

/// Computes an output row from `line`, an input row that is already resized along the other axes.
fn row<W: Real + Sample<Wide = W>>(
    grid: &Grid,
    tables: &Tables<'_, W>,
    line: &[W],
    outside: W,
    y: &mut [W],
) {
    let inner = grid.inner;
    let Some(table) = &tables[grid.axis] else {
        return y.copy_from_slice(line);
    };
    if inner == 1 {
        return match table.taps {
            1 => neighbours::<W, 1>(table, line, outside, y),
            2 => neighbours::<W, 2>(table, line, outside, y),
            4 => neighbours::<W, 4>(table, line, outside, y),
            _ => any_neighbours(table, line, outside, y),
        };
    }
    let weights = table.weights.chunks_exact(table.taps);
    for (y, (&start, weights)) in y.chunks_exact_mut(inner).zip(table.starts.iter().zip(weights)) {
        if start == OUTSIDE {
            y.fill(outside);
            continue;
        }
        let sources = weights.iter().zip(start as usize..);
        combine(line, sources.map(|(&weight, at)| (at * inner, weight)), y);
    }
}

/// Computes output elements with `TAPS` neighbours each. An output outside the region takes the extrapolation value.
fn neighbours<W: Real, const TAPS: usize>(
    table: &Table<'_, W>,
    line: &[W],
    outside: W,
    y: &mut [W],
) {
    let weights = table.weights.as_chunks::<TAPS>().0;
    for (y, (&start, weights)) in y.iter_mut().zip(table.starts.iter().zip(weights)) {
        let x = line.get(start as usize..).and_then(<[W]>::first_chunk::<TAPS>);
        *y = x.map_or(outside, |x| sum(x, weights));
    }
}

/// Computes output elements with any number of neighbours.
fn any_neighbours<W: Real>(table: &Table<'_, W>, line: &[W], outside: W, y: &mut [W]) {
    let weights = table.weights.chunks_exact(table.taps);
    for (y, (&start, weights)) in y.iter_mut().zip(table.starts.iter().zip(weights)) {
        let x = line.get(start as usize..);
        *y = x.map_or(outside, |x| sum(&x[..weights.len()], weights));
    }
}

#[inline]
fn sum<W: Real>(x: &[W], weights: &[W]) -> W {
    let mut terms = x.iter().zip(weights).map(|(x, weight)| x.mul(*weight));
    let first = terms.next().unwrap_or(W::ZERO);
    terms.fold(first, W::add)
}
