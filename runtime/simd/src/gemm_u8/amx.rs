//! AMX micro-kernels of quantized products. An instruction multiplies 16 rows of 64 values by 16 columns, at eight
//! times the rate of AVX-512.
//!
//! The tile registers process 16 rows of a panel at a time. A step is 64 values of the depth. Between steps, AVX-512
//! instructions pack the values of the next rows and write the previous rows, so that both units stay busy.

#![expect(
    clippy::inline_always,
    clippy::needless_range_loop,
    reason = "steps and vectors are part of their loop; loops of constant counts, to be unrolled"
)]

mod epilogue;
mod pack_a;
mod registers;

pub(super) use registers::peak;

use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::mem::MaybeUninit;
use std::ops::Range;

use super::pack::LINE;
use super::{Columns, Fallback, MAX_VECTORS, MicroKernels, Out, Row, Tile, avx512};
use epilogue::Epilogue;
use pack_a::{PackA, TileRows};
use registers::{STEP, TILE};

pub(super) static KERNELS: MicroKernels = MicroKernels {
    tiles,
    sum: avx512::sum,
    reach: avx512::reach,
    configure: registers::configure,
    release: registers::release,
    mr: [usize::MAX; MAX_VECTORS],
    fallback: Some(Fallback { rows: 6, groups: 6, gathered: 12, kernels: &avx512::KERNELS }),
};

/// Groups of 4 values per step.
const GROUPS: usize = STEP / 4;
/// Rows that are multiplied for the same steps before the next steps, so that the weights of these steps stay in the
/// first-level cache.
const ROWS: usize = 128;
/// The most steps of such a part.
const STEPS: usize = 6;
const _: () = assert!(ROWS.is_power_of_two() && TILE.is_power_of_two());

/// Memory that the tile registers read and write.
#[repr(C, align(64))]
struct Scratch {
    sums: [Row; ROWS],
    /// Packed values of the current rows and of the next.
    packed_a: [[TileRows; STEPS]; 2],
    /// The groups of an incomplete last step, followed by zeros.
    weights: [[i8; LINE]; GROUPS * MAX_VECTORS],
}

/// Computes the sums of tiles and writes them to `out`.
///
/// # Safety
///
/// The machine supports [`super::Isa::Amx`], this thread is between `configure` and `release`, the pointers of
/// `tile` are valid as [`Tile`] requires, and `out` points to its `count * rows` rows of `columns.count` elements,
/// `stride` apart.
unsafe fn tiles(tile: &Tile, columns: &Columns, out: Out, stride: usize) {
    let mut scratch = MaybeUninit::uninit();
    let tile = Tile { rows: tile.count * tile.rows, count: 1, ..*tile };
    // SAFETY: the tile registers are configured; the rows and weights of the tile are readable, and
    // `out` is valid for its rows of the columns.
    unsafe {
        match tile.vectors {
            1 => Run::<1>::new(&tile, &mut scratch).all_rows(columns, out, stride),
            2 => Run::<2>::new(&tile, &mut scratch).all_rows(columns, out, stride),
            3 => Run::<3>::new(&tile, &mut scratch).all_rows(columns, out, stride),
            _ => Run::<4>::new(&tile, &mut scratch).all_rows(columns, out, stride),
        }
    }
}

/// The product of a tile of any height.
struct Run<'a, const VECTORS: usize> {
    tile: &'a Tile,
    /// Steps of the depth, and how many of them are complete.
    steps: usize,
    whole: usize,
    /// Rows at the end whose steps would read past the last value.
    spare: usize,
    sums: *mut Row,
    /// The mask that maps a row to its index in `sums`: its position among `ROWS` rows, or among `TILE` rows if the
    /// depth has one part, so that sums need not be kept for a later part.
    row_mask: usize,
    packed_a: [*mut [TileRows; STEPS]; 2],
    /// Weights of the last step, if incomplete.
    weights: *const i8,
}

/// The values of 16 rows, with strides between rows and between steps in bytes.
struct Lhs {
    first: *const u8,
    stride: usize,
    step: usize,
}

impl<'a, const VECTORS: usize> Run<'a, VECTORS> {
    /// # Safety
    ///
    /// The pointers of `tile` are valid as [`Tile`] requires.
    unsafe fn new(tile: &'a Tile, scratch: &'a mut MaybeUninit<Scratch>) -> Self {
        let groups = tile.taps * (tile.groups + usize::from(tile.tail > 0));
        let (whole, remaining) = (groups / GROUPS, groups % GROUPS);
        let steps = groups.div_ceil(GROUPS);
        let excess_values = steps * STEP - tile.taps * (tile.groups * 4 + tile.tail);
        let scratch = scratch.as_mut_ptr();
        // SAFETY: these are places of the scratch.
        let (sums, packed_a, weights) = unsafe {
            let packed_a = &raw mut (*scratch).packed_a;
            ((&raw mut (*scratch).sums), packed_a, (&raw mut (*scratch).weights).cast::<i8>())
        };
        if remaining > 0 {
            let line = VECTORS * LINE;
            let from = tile.b.wrapping_add(whole * GROUPS * line);
            // SAFETY: the panel has the rest of the groups, and the scratch has room for all of a step.
            unsafe {
                from.copy_to_nonoverlapping(weights, remaining * line);
                weights.add(remaining * line).write_bytes(0, (GROUPS - remaining) * line);
            }
        }
        Self {
            tile,
            steps,
            whole,
            spare: excess_values.div_ceil(tile.stride.max(1)),
            sums: sums.cast(),
            row_mask: if steps > STEPS { ROWS - 1 } else { TILE - 1 },
            packed_a: [packed_a.cast(), packed_a.cast::<[TileRows; STEPS]>().wrapping_add(1)],
            weights,
        }
    }

    /// Computes all rows.
    ///
    /// # Safety
    ///
    /// As for [`tiles`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn all_rows(&self, columns: &Columns, out: Out, stride: usize) {
        let steps_per_part = self.steps.div_ceil(self.steps.div_ceil(STEPS));
        // Remaining range of the next panel to prefetch.
        let mut prefetch = self.tile.prefetch;
        for top in (0..self.tile.rows).step_by(ROWS) {
            let rows = top..(top + ROWS).min(self.tile.rows);
            let mut epilogue = Epilogue::<VECTORS> {
                tile: self.tile,
                columns,
                out,
                stride,
                sums: self.sums,
                row_mask: self.row_mask,
                top,
                rows: top..top,
            };
            for first in (0..self.steps).step_by(steps_per_part) {
                let steps = first..(first + steps_per_part).min(self.steps);
                // SAFETY: the tile registers are configured; the rows and steps are those of the tile, and fit the
                // scratch.
                unsafe { self.part(rows.clone(), steps, &mut epilogue, &mut prefetch) }
            }
            // SAFETY: the sums of all rows were computed.
            unsafe { epilogue.write_rows(TILE) };
        }
    }

    /// Adds the products of a range of steps for a range of rows, and writes the rows after their last step.
    ///
    /// # Safety
    ///
    /// As for [`tiles`]; the rows and the steps are of the tile, and fit the scratch.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn part(
        &self,
        rows: Range<usize>,
        steps: Range<usize>,
        epilogue: &mut Epilogue<'_, VECTORS>,
        prefetch: &mut *const i8,
    ) {
        let count = steps.len();
        // SAFETY: the values, sums and weights that are read were written before, or belong to the
        // tile; prefetched addresses are not read.
        unsafe {
            if let Some(mut pack) = self.pack(rows.start, steps.start) {
                for s in 0..count {
                    pack.step(&mut (*self.packed_a[0])[s]);
                }
            }
            for (i, row) in rows.clone().step_by(TILE).enumerate() {
                let sums = self.sums.add((row - rows.start) & self.row_mask);
                let lhs = self.lhs(row, steps.start, self.packed_a[i % 2]);
                let next = row + TILE;
                let mut pack = if next < rows.end { self.pack(next, steps.start) } else { None };
                if steps.start == 0 {
                    registers::load::<VECTORS>(epilogue.columns.start.as_ptr(), 0);
                } else {
                    registers::load::<VECTORS>(sums.cast(), size_of::<Row>());
                }
                for s in 0..count {
                    let address = lhs.first.wrapping_add(s * lhs.step);
                    registers::step::<VECTORS>(address, lhs.stride, self.weights(steps.start + s));
                    if let Some(pack) = &mut pack {
                        pack.step(&mut (*self.packed_a[(i + 1) % 2])[s]);
                    } else if self.tile.table.is_null() {
                        self.fetch(next, steps.start + s);
                    }
                    if *prefetch < self.tile.prefetch_end {
                        for line in 0..GROUPS {
                            _mm_prefetch::<_MM_HINT_T1>(prefetch.wrapping_add(line * LINE));
                        }
                        *prefetch = prefetch.wrapping_add(GROUPS * LINE);
                    }
                    epilogue.write_rows((s + 1) * 4 / count * 4 - s * 4 / count * 4);
                }
                epilogue.write_rows(TILE);
                registers::store::<VECTORS>(sums);
                if steps.end == self.steps {
                    epilogue.rows.end = next.min(rows.end);
                }
            }
        }
    }

    /// Returns the weights of a step.
    fn weights(&self, step: usize) -> *const i8 {
        if step < self.whole {
            self.tile.b.wrapping_add(step * GROUPS * VECTORS * LINE)
        } else {
            self.weights
        }
    }

    /// Returns whether 16 rows from `row` on can be read in place.
    fn is_ready(&self, row: usize) -> bool {
        self.tile.table.is_null() && row + TILE + self.spare <= self.tile.rows
    }

    /// Returns the packing of 16 rows from a step on, or `None` if they can be read in place.
    fn pack(&self, row: usize, step: usize) -> Option<PackA<'a>> {
        (!self.is_ready(row)).then(|| PackA::new(self.tile, row, step))
    }

    /// Returns the position of 16 rows: in place, or in their packed copy.
    fn lhs(&self, row: usize, step: usize, packed: *mut [TileRows; STEPS]) -> Lhs {
        if self.is_ready(row) {
            let first = self.tile.a.wrapping_add(row * self.tile.stride + step * STEP);
            Lhs { first, stride: self.tile.stride, step: STEP }
        } else {
            Lhs { first: packed.cast::<u8>(), stride: STEP, step: size_of::<TileRows>() }
        }
    }

    /// Prefetches the values of a step of 16 rows, because the hardware does not recognize rows far apart as a stream.
    #[inline(always)]
    fn fetch(&self, row: usize, step: usize) {
        // The rows may not exist, and their addresses may overflow.
        let offset = |row: usize| row.wrapping_mul(self.tile.stride).wrapping_add(step * STEP);
        for i in 0..TILE {
            let address = self.tile.a.wrapping_add(offset(row + i));
            // SAFETY: a prefetch hint accesses no memory.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        }
    }
}
