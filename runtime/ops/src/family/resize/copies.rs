//! Nearest-neighbour resizing, by element width.

use super::axis::OUTSIDE;
use super::rows::{Grid, Tables};

/// Writes output rows from `first` on.
pub(super) fn rows<const BYTES: usize>(
    grid: &Grid,
    tables: &Tables<'_, f32>,
    first: usize,
    x: &[[u8; BYTES]],
    outside: [u8; BYTES],
    y: &mut [[u8; BYTES]],
) {
    let (line_len, row_len) = (grid.line_len(), grid.row_len());
    let mut before = None;
    for at in 0..y.len() / row_len {
        let (done, rest) = y.split_at_mut(at * row_len);
        let y = &mut rest[..row_len];
        let Some(sources) = grid.sources(first + at, tables) else {
            y.fill(outside);
            before = None;
            continue;
        };
        if before == Some(sources.offset) {
            y.copy_from_slice(&done[(at - 1) * row_len..]);
        } else {
            row(grid, tables, &x[sources.offset..][..line_len], outside, y);
        }
        before = Some(sources.offset);
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

/// Returns the repeat count if all elements repeat equally often, starting with the first.
fn repeats(starts: &[u32]) -> Option<usize> {
    let times = starts.iter().take_while(|&&start| start == 0).count();
    let is_whole =
        times > 0 && starts.iter().enumerate().all(|(at, &start)| at / times == start as usize);
    is_whole.then_some(times)
}
