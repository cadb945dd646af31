//! The loop over a layer's blocks of tiles: transforms the input tiles of a block, multiplies them by the weights at
//! each point, and transforms the products to output tiles. All positions are checked before.

use std::ops::Range;

use super::transform::{Input, Output};
use super::{LINE, Layer, Plan, Rows, Tile, packed_len_on, pixel_rows, tile_rows};
use crate::gemm_f32::{self, Epilogue};
use crate::isa::{Isa, dispatch};

/// The most elements of a block's transformed tiles and products: a quarter of a 2 MiB second-level cache, which the
/// weights also pass through.
const MAX_BLOCK: usize = 1 << 17;
/// The fewest tiles of a block, even if they do not fit that cache. With fewer, reading all weights once per block
/// would take longer than the products.
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
        assert!(fits_usize(layer).is_some(), "the layer exceeds the address space");
        assert!(inputs.is_some() && outputs.is_some(), "the workspace exceeds the address space");
        let empty = Rows { row: 0, point: 0 };
        let (inputs, outputs) = (inputs.unwrap_or(empty), outputs.unwrap_or(empty));
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
        let row_count = tile_rows(self.tile, &self.layer);
        assert!(rows.start <= rows.end && rows.end <= row_count, "no such rows of tiles");
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
        let tiles_of_rows = rows.start * self.tiles_per_row..rows.end * self.tiles_per_row;
        for (first, tiles) in blocks(tiles_of_rows, self.max_tiles) {
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
    let elements_per_tile = inputs.saturating_add(outputs).saturating_mul(tile.points());
    (MAX_BLOCK / elements_per_tile.max(1)).max(MIN_TILES)
}

/// Divides tiles into the fewest blocks of nearly equal size; yields the first tile and the count.
fn blocks(tiles: Range<usize>, max_len: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = tiles.len().div_ceil(max_len).max(1);
    let (short, long) = (tiles.len() / parts, tiles.len() % parts);
    (0..parts).map(move |i| (tiles.start + i * short + i.min(long), short + usize::from(i < long)))
}

/// Returns `None` if an offset of the input or the output, or a position that a tile may read, does not fit `usize`.
fn fits_usize(layer: &Layer) -> Option<()> {
    // The largest tile reads less than this far past the last output.
    const TILE_EXTENT: usize = 8;
    let pixel = layer.pixel_strides[0];
    let row = layer.input[1].checked_mul(pixel)?;
    let end = |axis: usize, step: usize| {
        let input = layer.input[axis].checked_add(layer.pads[axis])?;
        input.max(layer.output[axis].checked_add(TILE_EXTENT)?).checked_mul(step)
    };
    end(0, row)?.checked_add(end(1, pixel)?)?;
    for (size, pixel) in [layer.input, layer.output].into_iter().zip(layer.pixel_strides) {
        layer.images.checked_mul(size[0])?.checked_mul(size[1])?.checked_mul(pixel)?;
    }
    Some(())
}

/// Returns whether this many pixels are inside the slice.
fn holds(data: &[f32], pixels: usize, channels: usize, stride: usize) -> bool {
    if pixels == 0 || channels == 0 {
        return true;
    }
    let len =
        (pixels - 1).checked_mul(stride).and_then(|last_pixel| last_pixel.checked_add(channels));
    len.is_some_and(|len| len <= data.len())
}
