//! Memory planning: decides for each tensor whether it stays on the chip from its producer to its last consumer, or
//! lies off the chip and passes through it in tiles, and assigns all addresses.
//!
//! The plan starts with all tensors on the chip. As long as a layer does not fit, the largest tensor that is alive
//! there moves off the chip.

use std::ops::Range;

use super::rows::Job;
use crate::bytecode::Space;
use crate::network::{Network, Tensor, TensorId};
use crate::soc::Soc;

/// Alignment of on-chip buffers in bytes.
const ALIGNMENT: usize = 64;

/// Minimum output rows per tile, tried in order. A larger minimum moves more tensors off the chip.
const MIN_ROWS: [usize; 3] = [16, 4, 1];

/// The place of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the chip at this address, from its producer to its last consumer.
    Chip(usize),
    /// Only off the chip.
    Elsewhere,
}

/// The addresses of a network.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// By tensor.
    pub(super) places: Vec<Place>,
    /// By tensor: the off-chip address, if any.
    pub(super) homes: Vec<Option<(Space, usize)>>,
    /// By layer.
    pub(super) tiles: Vec<Tiles>,
    pub(super) sram_bytes: usize,
    pub(super) ddr_bytes: usize,
}

/// The tiling of a layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Tiles {
    /// Output rows per tile.
    pub(super) rows: usize,
    /// By input: the buffer of its rows, unless the whole tensor is on the chip.
    pub(super) inputs: Vec<Option<usize>>,
    /// The buffer of the output's rows, unless the whole tensor is on the chip.
    pub(super) output: Option<usize>,
}

/// A layer that does not fit: its index, and the bytes that it needs at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLarge {
    pub(super) layer: usize,
    pub(super) bytes: usize,
}

/// The layers from a tensor's producer (inputs and constants: first consumer) to its last consumer; `None` for an
/// unused tensor.
type Lifetime = Option<Range<usize>>;

/// Plans a network for a SoC; `constants` has the offset of each constant tensor in the pool.
pub(super) fn plan(
    network: &Network<'_>,
    soc: &Soc,
    constants: &[Option<usize>],
) -> Result<Plan, TooLarge> {
    let lifetimes = lifetimes(network);
    let mut too_large = TooLarge { layer: 0, bytes: 0 };
    for min_rows in MIN_ROWS {
        // By tensor: whether it stays on the chip.
        let mut stays = vec![true; network.tensors.len()];
        loop {
            match place(network, soc, &lifetimes, &stays, min_rows) {
                Ok((places, tiles, sram_bytes)) => {
                    let (homes, ddr_bytes) = homes(network, &lifetimes, &places, constants);
                    return Ok(Plan { places, homes, tiles, sram_bytes, ddr_bytes });
                }
                Err(error) => too_large = error,
            }
            // Moves the largest tensor that is alive at the failing layer off the chip, and tries again.
            let is_alive = |id: usize| {
                let lifetime = lifetimes.get(id).and_then(Option::as_ref);
                lifetime.is_some_and(|lifetime| lifetime.contains(&too_large.layer))
            };
            let resident = stays.iter().enumerate().filter(|(id, stays)| **stays && is_alive(*id));
            let size = |id: usize| network.tensors.get(id).map_or(0, Tensor::len);
            let Some((largest, _)) =
                resident.max_by_key(|&(id, _)| (size(id), std::cmp::Reverse(id)))
            else {
                break;
            };
            if let Some(stays) = stays.get_mut(largest) {
                *stays = false;
            }
        }
    }
    Err(too_large)
}

fn lifetimes(network: &Network<'_>) -> Vec<Lifetime> {
    let mut lifetimes: Vec<Lifetime> = vec![None; network.tensors.len()];
    for (layer_index, layer) in network.layers.iter().enumerate() {
        for id in layer.inputs.iter().chain([&layer.output]) {
            if let Some(lifetime) = lifetimes.get_mut(id.0) {
                let start = lifetime.as_ref().map_or(layer_index, |lifetime| lifetime.start);
                *lifetime = Some(start..layer_index + 1);
            }
        }
    }
    lifetimes
}

/// Assigns on-chip addresses to the tensors marked in `stays`, and to each layer tiles that are as large as possible
/// and have at least `min_rows` rows. Returns the places, the tiles, and the on-chip memory used in bytes.
fn place(
    network: &Network<'_>,
    soc: &Soc,
    lifetimes: &[Lifetime],
    stays: &[bool],
    min_rows: usize,
) -> Result<(Vec<Place>, Vec<Tiles>, usize), TooLarge> {
    let capacity = usize::try_from(soc.sram_bytes).unwrap_or(usize::MAX);
    let mut places = vec![Place::Elsewhere; network.tensors.len()];
    let mut chip = FirstFit { capacity, allocations: Vec::new(), peak: 0 };
    let mut tiles = Vec::new();
    for (layer_index, layer) in network.layers.iter().enumerate() {
        chip.allocations.retain(|allocation| allocation.until > layer_index);
        let Some(job) = Job::new(network, layer) else { continue };
        for &id in layer.inputs.iter().chain([&layer.output]) {
            let lifetime = lifetimes.get(id.0).and_then(Option::as_ref);
            let (Some(lifetime), Some(place)) = (lifetime, places.get_mut(id.0)) else { continue };
            if stays.get(id.0) != Some(&true) || *place != Place::Elsewhere {
                continue;
            }
            let bytes = network.tensors.get(id.0).map_or(0, Tensor::len);
            let address =
                chip.take(bytes, lifetime.end).ok_or(TooLarge { layer: layer_index, bytes })?;
            *place = Place::Chip(address);
        }
        tiles.push(
            chip.tiles(&job, &places, layer_index, min_rows)
                .map_err(|bytes| TooLarge { layer: layer_index, bytes })?,
        );
    }
    Ok((places, tiles, chip.peak))
}

/// Assigns off-chip addresses. Returns them, and the bytes of DDR memory for tensors that are neither inputs, outputs
/// nor constants.
fn homes(
    network: &Network<'_>,
    lifetimes: &[Lifetime],
    places: &[Place],
    constants: &[Option<usize>],
) -> (Vec<Option<(Space, usize)>>, usize) {
    let mut ddr = FirstFit { capacity: usize::MAX, allocations: Vec::new(), peak: 0 };
    let position = |ids: &[TensorId], id: usize| {
        let index = ids.iter().position(|other| other.0 == id)?;
        u32::try_from(index).ok()
    };
    let mut homes = vec![None; network.tensors.len()];
    for (id, home) in homes.iter_mut().enumerate() {
        let input = position(&network.inputs, id).map(|index| (Space::Input(index), 0));
        let output = position(&network.outputs, id).map(|index| (Space::Output(index), 0));
        let constant = constants.get(id).copied().flatten();
        *home = input.or(output).or(constant.map(|offset| (Space::Constants, offset)));
    }
    for (layer_index, layer) in network.layers.iter().enumerate() {
        ddr.allocations.retain(|allocation| allocation.until > layer_index);
        let id = layer.output.0;
        let lifetime = lifetimes.get(id).and_then(Option::as_ref);
        let (Some(home), Some(lifetime)) = (homes.get_mut(id), lifetime) else { continue };
        if home.is_none() && places.get(id) == Some(&Place::Elsewhere) {
            let bytes = network.tensors.get(id).map_or(0, Tensor::len);
            *home = ddr.take(bytes, lifetime.end).map(|address| (Space::Ddr, address));
        }
    }
    (homes, ddr.peak)
}

/// A memory whose allocations take the first gap that is large enough.
#[derive(Debug)]
struct FirstFit {
    capacity: usize,
    /// In the order of addresses.
    allocations: Vec<Allocation>,
    /// The highest end of any allocation so far.
    peak: usize,
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    start: usize,
    end: usize,
    /// The first layer at which it is free again.
    until: usize,
}

impl FirstFit {
    /// Allocates bytes up to layer `until`; returns the address.
    fn take(&mut self, bytes: usize, until: usize) -> Option<usize> {
        let mut start = 0usize;
        let mut position = self.allocations.len();
        for (index, allocation) in self.allocations.iter().enumerate() {
            if start.checked_add(bytes)? <= allocation.start {
                position = index;
                break;
            }
            start = allocation.end.next_multiple_of(ALIGNMENT);
        }
        let end = start.checked_add(bytes).filter(|end| *end <= self.capacity)?;
        self.allocations.insert(position, Allocation { start, end, until });
        self.peak = self.peak.max(end);
        Some(start)
    }

    /// Returns the largest tiles of layer `layer` that fit, or the bytes that the smallest ones need. Tries to divide
    /// the output rows into 1 part, 2 parts, and so on.
    fn tiles(
        &mut self,
        job: &Job<'_, '_>,
        places: &[Place],
        layer: usize,
        min_rows: usize,
    ) -> Result<Tiles, usize> {
        // Tiles have a multiple of `unit` rows.
        let (unit, count) = (job.unit(), job.lines(job.layer.output).count);
        let units = count.div_ceil(unit);
        let min_units = units.min(min_rows.div_ceil(unit)).max(1);
        let mut rows = usize::MAX;
        for parts in 1..=units.div_ceil(min_units) {
            let candidate = units.div_ceil(parts).max(min_units) * unit;
            if candidate == rows {
                continue;
            }
            rows = candidate;
            if let Some(tiles) = self.try_tiles(job, places, layer, rows.min(count)) {
                return Ok(tiles);
            }
        }
        let sizes = sizes(job, places, (min_units * unit).min(count));
        Err(sizes.into_iter().flatten().fold(0, usize::saturating_add))
    }

    /// Allocates the buffers of tiles with `rows` output rows for the duration of one layer, or nothing if they do not
    /// fit.
    fn try_tiles(
        &mut self,
        job: &Job<'_, '_>,
        places: &[Place],
        layer: usize,
        rows: usize,
    ) -> Option<Tiles> {
        let (allocations, peak) = (self.allocations.clone(), self.peak);
        let sizes = sizes(job, places, rows);
        let mut buffers = Vec::new();
        for size in sizes {
            let buffer = size.map(|size| self.take(size, layer + 1));
            if buffer == Some(None) {
                (self.allocations, self.peak) = (allocations, peak);
                return None;
            }
            buffers.push(buffer.flatten());
        }
        let output = buffers.pop().flatten();
        Some(Tiles { rows, inputs: buffers, output })
    }
}

/// Returns the bytes of each input's and the output's rows for tiles of `rows` rows; `None` for tensors that are on the
/// chip as a whole.
fn sizes(job: &Job<'_, '_>, places: &[Place], rows: usize) -> Vec<Option<usize>> {
    let is_tiled = |id: TensorId| places.get(id.0) == Some(&Place::Elsewhere);
    let inputs = job.layer.inputs.iter().enumerate().map(|(input, &id)| {
        is_tiled(id).then(|| job.most_rows(input, rows).saturating_mul(job.lines(id).bytes))
    });
    let output = job.layer.output;
    inputs.chain([is_tiled(output).then(|| rows.saturating_mul(job.lines(output).bytes))]).collect()
}
