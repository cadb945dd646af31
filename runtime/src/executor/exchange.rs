//! Exchanges buffers after iterations, so that loop states are not copied.

use std::cell::Cell;
use std::ops::Range;

use super::Executor;
use udo_compile::plan::WindowPlace;
use udo_engine::cores::Memory;

/// A buffer that is exchanged with others.
pub(super) struct Exchanged {
    /// Its planned offset in the host's arena.
    planned: usize,
    /// Its current offset.
    start: Cell<usize>,
    /// The tensors in it, with their offsets.
    tensors: Vec<(usize, usize)>,
}

impl Exchanged {
    /// Returns the exchanged buffers of a plan, which begin at `starts`. `places` has the place of each tensor.
    pub(super) fn all<'a>(
        starts: &[usize],
        places: impl Iterator<Item = Option<&'a WindowPlace>>,
    ) -> Vec<Self> {
        let of =
            |&start: &usize| Self { planned: start, start: Cell::new(start), tensors: Vec::new() };
        let mut all: Vec<Self> = starts.iter().map(of).collect();
        for (tensor, place) in places.enumerate() {
            let Some((place, number)) = place.and_then(|p| Some((p, p.exchanged?))) else {
                continue;
            };
            if let Some(exchanged) = all.get_mut(number) {
                exchanged.tensors.push((tensor, place.offset - exchanged.planned));
            }
        }
        all
    }
}

impl Executor {
    /// Returns the current offset of a window in its arena.
    pub(super) fn offset(&self, place: &WindowPlace) -> usize {
        let exchanged = place.exchanged.and_then(|number| self.exchanged.get(number));
        exchanged.map_or(place.offset, |at| place.offset - at.planned + at.start.get())
    }

    /// Exchanges pairs of buffers. Uses no heap.
    pub(super) fn exchange(&self, pairs: Range<usize>) {
        let arena = self.arenas[Memory::Host].as_ptr();
        for pair in self.plan.exchanges.get(pairs).unwrap_or_default() {
            let [Some(a), Some(b)] = pair.places.map(|number| self.exchanged.get(number)) else {
                continue;
            };
            a.start.swap(&b.start);
            for place in [a, b] {
                let start = arena.wrapping_add(place.start.get());
                for &(tensor, offset) in &place.tensors {
                    if let Some(arg) = self.tensors.get(tensor) {
                        arg.move_to(start.wrapping_add(offset));
                    }
                }
            }
        }
    }
}
