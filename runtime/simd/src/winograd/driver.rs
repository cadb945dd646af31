//! Divides a layer into blocks of tiles, after checking that all of them are inside the slices.

use std::ops::Range;

use super::transform::{Input, Output};
use super::{LINE, Layer, Plan, Rows, Tile, packed_len_on, pixel_rows, tile_rows};
use crate::gemm_f32::{self, Epilogue};
use crate::isa::{Isa, dispatch};

/// Elements of the transformed tiles and products of a block: a quarter of a 2 MiB second-level cache, through which
/// the weights stream meanwhile.
const MAX_BLOCK: usize = 1 << 17;
/// The fewest tiles of a block, even if they do not fit that cache: weights are read once per block, which would take
/// longer than the products.
const MIN_TILES: usize = 32;

impl Plan {
    pub(super) fn new(isa: Isa, tile: Tile, layer: &Layer) -> Self {
        let tiles_per_row = layer.output[1].div_ceil(tile.size());
        let tile_rows_per_image = layer.output[0].div_ceil(tile.size());
        let max_tiles = block_len(tile, layer.channels);
        let rows = |channels: usize| {
            let row = channels.checked_next_multiple_of(LINE)?;
            // Ensures that both parts of the workspace have a length, whatever the number of tiles.
            max_tiles.checked_mul(row)?.checked_add(LINE)?.checked_mul(2 * tile.points())?;
            let tiles = max_tiles.min(tile_rows(tile, layer).checked_mul(tiles_per_row)?);
            Some(Rows { row, point: ((tiles * row / LINE) | 1) * LINE })
        };
        let [inputs, outputs] = layer.channels.map(rows);
        assert!(reaches(layer).is_some(), "the layer exceeds the address space");
        assert!(inputs.is_some() && outputs.is_some(), "the workspace exceeds the address space");
        let none = Rows { row: 0, point: 0 };
        let (inputs, outputs) = (inputs.unwrap_or(none), outputs.unwrap_or(none));
        Self {
            isa,
            tile,
            layer: *layer,
            tiles_per_row,
            tile_rows_per_image,
            max_tiles,
            inputs,
            outputs,
        }
    }

    pub(super) fn workspace_len(&self) -> usize {
        (self.inputs.point + self.outputs.point) * self.tile.points()
    }

    pub(super) fn conv(
        &self,
        rows: Range<usize>,
        x: &[f32],
        packed: &[f32],
        y: &mut [f32],
        epilogue: &Epilogue<'_>,
        workspace: &mut [f32],
    ) {
        let [inputs, outputs] = self.layer.channels;
        let points = self.tile.points();
        let all = tile_rows(self.tile, &self.layer);
        assert!(rows.start <= rows.end && rows.end <= all, "no such rows of tiles");
        let pixels = pixel_rows(self.tile, &self.layer, rows.clone());
        if pixels.len() * self.layer.output[1] == 0 || outputs == 0 {
            return;
        }
        self.check(&pixels, x, y, epilogue);
        let packed = &packed[..packed_len_on(self.isa, self.tile, self.layer.channels)];
        let workspace = &mut workspace[..self.workspace_len()];
        let (transformed, sums) = workspace.split_at_mut(self.inputs.point * points);
        let products = gemm_f32::kernels(self.isa);
        let matrix = packed.len() / points;
        let whole = rows.start * self.tiles_per_row..rows.end * self.tiles_per_row;
        for (first, tiles) in blocks(whole, self.max_tiles) {
            let to = transformed.as_mut_ptr();
            dispatch(self.isa, Input { plan: self, first, tiles, x: x.as_ptr(), to });
            for point in 0..points {
                products.gemm(
                    &transformed[point * self.inputs.point..],
                    self.inputs.row,
                    tiles,
                    inputs,
                    &packed[point * matrix..],
                    outputs,
                    &mut sums[point * self.outputs.point..],
                    self.outputs.row,
                    &Epilogue::default(),
                );
            }
            let (from, top, y) = (sums.as_ptr(), pixels.start, y.as_mut_ptr());
            dispatch(self.isa, Output { plan: self, first, tiles, from, top, y, epilogue });
        }
    }

    /// Checks that the whole input, and the rows of pixels of the output, have all their channels.
    fn check(&self, pixels: &Range<usize>, x: &[f32], y: &[f32], epilogue: &Epilogue<'_>) {
        let layer = &self.layer;
        let [inputs, outputs] = layer.channels;
        let input = layer.images * layer.input[0] * layer.input[1];
        let count = pixels.len() * layer.output[1];
        assert!(holds(x, input, inputs, layer.pixel_strides[0]), "the input is too short");
        assert!(holds(y, count, outputs, layer.pixel_strides[1]), "the output is too short");
        assert!(layer.pixel_strides[1] >= outputs || count == 1, "output pixels overlap");
        assert!(epilogue.bias.is_none_or(|bias| bias.len() >= outputs), "the bias is too short");
        assert!(
            epilogue.residual.is_none_or(|(data, pixel)| holds(data, count, outputs, pixel)),
            "the residual is too short"
        );
    }
}

/// Returns the most tiles of a block.
pub(super) fn block_len(tile: Tile, [inputs, outputs]: [usize; 2]) -> usize {
    let one = inputs.saturating_add(outputs).saturating_mul(tile.points());
    (MAX_BLOCK / one.max(1)).max(MIN_TILES)
}

/// Divides tiles into the fewest blocks of nearly equal size; yields the first tile and the count.
fn blocks(tiles: Range<usize>, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = tiles.len().div_ceil(most).max(1);
    let (short, long) = (tiles.len() / parts, tiles.len() % parts);
    (0..parts).map(move |i| (tiles.start + i * short + i.min(long), short + usize::from(i < long)))
}

/// Checks that the offsets of the input, the output, and every position that a tile may read fit `usize`.
fn reaches(layer: &Layer) -> Option<()> {
    // The largest tile extends this far past the last output.
    const REACH: usize = 8;
    let pixel = layer.pixel_strides[0];
    let row = layer.input[1].checked_mul(pixel)?;
    let far = |axis: usize, step: usize| {
        let input = layer.input[axis].checked_add(layer.pads[axis])?;
        input.max(layer.output[axis].checked_add(REACH)?).checked_mul(step)
    };
    far(0, row)?.checked_add(far(1, pixel)?)?;
    for (size, pixel) in [layer.input, layer.output].into_iter().zip(layer.pixel_strides) {
        layer.images.checked_mul(size[0])?.checked_mul(size[1])?.checked_mul(pixel)?;
    }
    Some(())
}

/// Whether this many pixels are inside the slice.
fn holds(data: &[f32], pixels: usize, channels: usize, stride: usize) -> bool {
    if pixels == 0 || channels == 0 {
        return true;
    }
    let len = (pixels - 1).checked_mul(stride).and_then(|before| before.checked_add(channels));
    len.is_some_and(|len| len <= data.len())
}
