//! Memory planning: which tensors stay on the chip from producer to last consumer, which pass through it in tiles, and
//! all addresses.

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

/// The layers from a tensor's producer or first consumer to its last consumer.
type Life = Option<Range<usize>>;

/// Plans a network for a SoC; `constants` has the offset of each constant tensor in the pool.
pub(super) fn plan(
    network: &Network<'_>,
    soc: &Soc,
    constants: &[Option<usize>],
) -> Result<Plan, TooLarge> {
    let lives = lives(network);
    let mut fault = TooLarge { layer: 0, bytes: 0 };
    for min_rows in MIN_ROWS {
        let mut stays = vec![true; network.tensors.len()];
        loop {
            match place(network, soc, &lives, &stays, min_rows) {
                Ok((places, tiles, sram_bytes)) => {
                    let (homes, ddr_bytes) = homes(network, &lives, &places, constants);
                    return Ok(Plan { places, homes, tiles, sram_bytes, ddr_bytes });
                }
                Err(too_large) => fault = too_large,
            }
            // Moves the largest tensor that is alive at the failing layer off the chip, and tries again.
            let is_there = |id: usize| {
                let life = lives.get(id).and_then(Option::as_ref);
                life.is_some_and(|life| life.contains(&fault.layer))
            };
            let resident = stays.iter().enumerate().filter(|(id, stays)| **stays && is_there(*id));
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
    Err(fault)
}

fn lives(network: &Network<'_>) -> Vec<Life> {
    let mut lives: Vec<Life> = vec![None; network.tensors.len()];
    for (at, layer) in network.layers.iter().enumerate() {
        for id in layer.inputs.iter().chain([&layer.output]) {
            if let Some(life) = lives.get_mut(id.0) {
                let start = life.as_ref().map_or(at, |life| life.start);
                *life = Some(start..at + 1);
            }
        }
    }
    lives
}

/// Assigns on-chip addresses to the tensors in `stays`, and tiles of at least `min_rows` rows, as large as possible, to
/// the others.
fn place(
    network: &Network<'_>,
    soc: &Soc,
    lives: &[Life],
    stays: &[bool],
    min_rows: usize,
) -> Result<(Vec<Place>, Vec<Tiles>, usize), TooLarge> {
    let capacity = usize::try_from(soc.sram_bytes).unwrap_or(usize::MAX);
    let mut places = vec![Place::Elsewhere; network.tensors.len()];
    let mut chip = FirstFit { capacity, allocations: Vec::new(), peak: 0 };
    let mut tiles = Vec::new();
    for (at, layer) in network.layers.iter().enumerate() {
        chip.allocations.retain(|allocation| allocation.until > at);
        let Some(job) = Job::new(network, layer) else { continue };
        for &id in layer.inputs.iter().chain([&layer.output]) {
            let life = lives.get(id.0).and_then(Option::as_ref);
            let (Some(life), Some(place)) = (life, places.get_mut(id.0)) else { continue };
            if stays.get(id.0) != Some(&true) || *place != Place::Elsewhere {
                continue;
            }
            let bytes = network.tensors.get(id.0).map_or(0, Tensor::len);
            let address = chip.take(bytes, life.end).ok_or(TooLarge { layer: at, bytes })?;
            *place = Place::Chip(address);
        }
        tiles.push(
            chip.tiles(&job, &places, at, min_rows)
                .map_err(|bytes| TooLarge { layer: at, bytes })?,
        );
    }
    Ok((places, tiles, chip.peak))
}

/// Assigns off-chip addresses; returns the memory needed in addition to inputs, outputs and constants.
fn homes(
    network: &Network<'_>,
    lives: &[Life],
    places: &[Place],
    constants: &[Option<usize>],
) -> (Vec<Option<(Space, usize)>>, usize) {
    let mut ddr = FirstFit { capacity: usize::MAX, allocations: Vec::new(), peak: 0 };
    let number = |ids: &[TensorId], id: usize| {
        let at = ids.iter().position(|other| other.0 == id)?;
        u32::try_from(at).ok()
    };
    let mut homes = vec![None; network.tensors.len()];
    for (id, home) in homes.iter_mut().enumerate() {
        let input = number(&network.inputs, id).map(|at| (Space::Input(at), 0));
        let output = number(&network.outputs, id).map(|at| (Space::Output(at), 0));
        let constant = constants.get(id).copied().flatten().map(|at| (Space::Constants, at));
        *home = input.or(output).or(constant);
    }
    for (at, layer) in network.layers.iter().enumerate() {
        ddr.allocations.retain(|allocation| allocation.until > at);
        let id = layer.output.0;
        let life = lives.get(id).and_then(Option::as_ref);
        let (Some(home), Some(life)) = (homes.get_mut(id), life) else { continue };
        if home.is_none() && places.get(id) == Some(&Place::Elsewhere) {
            let bytes = network.tensors.get(id).map_or(0, Tensor::len);
            *home = ddr.take(bytes, life.end).map(|address| (Space::Ddr, address));
        }
    }
    (homes, ddr.peak)
}

/// A first-fit allocator.
#[derive(Debug)]
struct FirstFit {
    capacity: usize,
    /// By address.
    allocations: Vec<Allocation>,
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
    fn take(&mut self, bytes: usize, until: usize) -> Option<usize> {
        let mut start = 0usize;
        let mut place = self.allocations.len();
        for (at, allocation) in self.allocations.iter().enumerate() {
            if start.checked_add(bytes)? <= allocation.start {
                place = at;
                break;
            }
            start = allocation.end.next_multiple_of(ALIGNMENT);
        }
        let end = start.checked_add(bytes).filter(|end| *end <= self.capacity)?;
        self.allocations.insert(place, Allocation { start, end, until });
        self.peak = self.peak.max(end);
        Some(start)
    }

    /// Returns the largest tiles of a layer that fit, or the bytes that the smallest ones need.
    fn tiles(
        &mut self,
        job: &Job<'_, '_>,
        places: &[Place],
        at: usize,
        min_rows: usize,
    ) -> Result<Tiles, usize> {
        let (unit, count) = (job.unit(), job.lines(job.layer.output).count);
        let units = count.div_ceil(unit);
        let least = units.min(min_rows.div_ceil(unit)).max(1);
        let mut rows = usize::MAX;
        for parts in 1..=units.div_ceil(least) {
            let next = units.div_ceil(parts).max(least) * unit;
            if next == rows {
                continue;
            }
            rows = next;
            if let Some(tiles) = self.try_tiles(job, places, at, rows.min(count)) {
                return Ok(tiles);
            }
        }
        let sizes = sizes(job, places, (least * unit).min(count));
        Err(sizes.into_iter().flatten().fold(0, usize::saturating_add))
    }

    fn try_tiles(
        &mut self,
        job: &Job<'_, '_>,
        places: &[Place],
        at: usize,
        rows: usize,
    ) -> Option<Tiles> {
        let (allocations, peak) = (self.allocations.clone(), self.peak);
        let sizes = sizes(job, places, rows);
        let mut buffers = Vec::new();
        for size in sizes {
            let buffer = size.map(|size| self.take(size, at + 1));
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
    let passes = |id: TensorId| places.get(id.0) == Some(&Place::Elsewhere);
    let inputs = job.layer.inputs.iter().enumerate().map(|(input, &id)| {
        passes(id).then(|| job.most_rows(input, rows).saturating_mul(job.lines(id).bytes))
    });
    let output = job.layer.output;
    inputs.chain([passes(output).then(|| rows.saturating_mul(job.lines(output).bytes))]).collect()
}
