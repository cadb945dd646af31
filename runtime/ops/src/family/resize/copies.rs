//! Nearest-neighbour resizing. It copies elements as bytes, so one function serves all types of a width.

use super::axis::OUTSIDE;
use super::rows::{Grid, Tables};

/// Writes the output rows from `first` on. Output elements outside the region of interest are set to `outside`.
pub(super) fn rows<const BYTES: usize>(
    grid: &Grid,
    tables: &Tables<'_, f32>,
    first: usize,
    x: &[[u8; BYTES]],
    outside: [u8; BYTES],
    y: &mut [[u8; BYTES]],
) {
    let (line_len, row_len) = (grid.line_len(), grid.row_len());
    // The offset of the input row that the last output row was computed from; equal output rows are copied.
    let mut previous = None;
    for index in 0..y.len() / row_len {
        let (written, rest) = y.split_at_mut(index * row_len);
        let y = &mut rest[..row_len];
        let Some(sources) = grid.sources(first + index, tables) else {
            y.fill(outside);
            previous = None;
            continue;
        };
        if previous == Some(sources.offset) {
            y.copy_from_slice(&written[(index - 1) * row_len..]);
        } else {
            row(grid, tables, &x[sources.offset..][..line_len], outside, y);
        }
        previous = Some(sources.offset);
    }
}

fn row<const BYTES: usize>(
    grid: &Grid,
    tables: &Tables<'_, f32>,
    x: &[[u8; BYTES]],
    outside: [u8; BYTES],
    y: &mut [[u8; BYTES]],
) {
    let inner = grid.inner;
    let Some(table) = &tables[grid.axis] else {
        return y.copy_from_slice(x);
    };
    if inner == 1 {
        if let Some(times) = repeats(table.starts) {
            for (x, y) in x.iter().zip(y.chunks_mut(times)) {
                y.fill(*x);
            }
            return;
        }
        for (y, &start) in y.iter_mut().zip(table.starts) {
            *y = x.get(start as usize).copied().unwrap_or(outside);
        }
        return;
    }
    for (y, &start) in y.chunks_exact_mut(inner).zip(table.starts) {
        match start {
            OUTSIDE => y.fill(outside),
            start => y.copy_from_slice(&x[start as usize * inner..][..inner]),
        }
    }
}

/// Returns how often each input element repeats, if all repeat equally often from the first one on.
fn repeats(starts: &[u32]) -> Option<usize> {
    let times = starts.iter().take_while(|&&start| start == 0).count();
    let is_whole =
        times > 0 && starts.iter().enumerate().all(|(at, &start)| at / times == start as usize);
    is_whole.then_some(times)
}
