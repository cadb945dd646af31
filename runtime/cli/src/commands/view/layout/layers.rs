//! In which layer each item lies.

use super::{Item, Line};

/// The layer of each item: below all that it reads. Each run of items with one path has layers of its own, below those of the run before, so
/// that a frame has what is in it and nothing else. What is in no frame may lie between two, and what a model reads or makes is as
/// near to its readers or its maker as that allows.
pub(super) fn layers(items: &[Item<'_>], lines: &[Line]) -> Vec<usize> {
    let mut layers = Layers::new(items, lines);
    layers.stack();
    layers.sink_floats();
    layers.add_loose();
    layers.close()
}

struct Layers<'a> {
    items: &'a [Item<'a>],
    reads: Vec<Vec<usize>>,
    readers: Vec<Vec<usize>>,
    layer: Vec<usize>,
    /// The layer behind the last one of the run that an item is in.
    ends: Vec<usize>,
    /// Which layers frames have.
    framed: Vec<bool>,
}

impl<'a> Layers<'a> {
    fn new(items: &'a [Item<'a>], lines: &[Line]) -> Self {
        let count = items.len();
        let [mut reads, mut readers] = [vec![Vec::new(); count], vec![Vec::new(); count]];
        for line in lines.iter().filter(|line| line.from < line.to) {
            reads[line.to].push(line.from);
            readers[line.from].push(line.to);
        }
        let [layer, ends] = [vec![0; count], vec![0; count]];
        Self { items, reads, readers, layer, ends, framed: vec![false] }
    }

    /// Whether it goes wherever there is room: in no frame, and at an end of all lines.
    fn is_loose(&self, at: usize) -> bool {
        let path = &self.items[at].path;
        path.is_empty() && (self.is_input(at) || self.readers[at].is_empty())
    }

    /// Whether it is an input that lies where its readers are.
    fn is_input(&self, at: usize) -> bool {
        self.items[at].sinks && self.reads[at].is_empty()
    }

    /// Puts runs one below the other, with a layer between two that no frame has both of; the first one is free for inputs.
    fn stack(&mut self) {
        let mut before: &[&str] = &[];
        let [mut base, mut end, mut start] = [1, 1, 0];
        for (at, item) in self.items.iter().enumerate() {
            if item.path != before {
                self.ends[start..at].fill(end);
                let is_apart = item.path.first() != before.first() && end > 1;
                base = end + usize::from(is_apart);
                (before, start) = (&item.path, at);
            }
            if self.is_loose(at) {
                continue;
            }
            let above = self.reads[at].iter().map(|&from| self.layer[from] + 1).max();
            self.layer[at] = above.unwrap_or(base).max(base);
            end = end.max(self.layer[at] + 1);
            self.framed.resize(end, false);
            self.framed[self.layer[at]] |= !item.path.is_empty();
        }
        self.ends[start..].fill(end);
    }

    /// Brings what follows from nothing that a run gives down to its readers, within its run.
    fn sink_floats(&mut self) {
        let count = self.items.len();
        let mut floats = vec![false; count];
        for at in 0..count {
            floats[at] = !self.items[at].sinks && self.reads[at].iter().all(|&from| floats[from]);
        }
        for at in (0..count).rev() {
            if (floats[at] || self.items[at].sinks) && !self.is_loose(at) {
                let least = self.layer[at];
                let readers = self.readers[at].iter().filter(|&&to| !self.is_loose(to));
                let next = readers.map(|&to| self.layer[to]).min().unwrap_or(least + 1);
                self.layer[at] = next.min(self.ends[at]).saturating_sub(1).max(least);
            }
        }
    }

    /// Puts what nothing reads right below what it reads, and inputs right above their first readers, but in no frame.
    fn add_loose(&mut self) {
        let framed = std::mem::take(&mut self.framed);
        let is_free = |layer: &usize| !framed[*layer];
        let loose = (0..self.items.len()).filter(|&at| self.is_loose(at));
        let (inputs, others): (Vec<_>, Vec<_>) = loose.partition(|&at| self.is_input(at));
        for at in others {
            let least = self.reads[at].iter().map(|&from| self.layer[from] + 1).max().unwrap_or(0);
            let free = (least..framed.len()).find(is_free);
            self.layer[at] = free.unwrap_or(least.max(framed.len()));
        }
        for at in inputs {
            let next = self.readers[at].iter().map(|&to| self.layer[to]).min().unwrap_or(0);
            let most = next.saturating_sub(1).min(framed.len() - 1);
            self.layer[at] = (0..=most).rev().find(is_free).unwrap_or(0);
        }
    }

    /// Leaves layers out that have nothing.
    fn close(self) -> Vec<usize> {
        let mut used = self.layer.clone();
        used.sort_unstable();
        used.dedup();
        let place = |layer: usize| used.binary_search(&layer).unwrap_or_default();
        self.layer.into_iter().map(place).collect()
    }
}
