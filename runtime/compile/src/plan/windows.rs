//! Windows and buffers: where values are, and which of them share memory.
//!
//! A window is the place of a value in one memory and format: a buffer, an offset and a row stride. Windows share a
//! buffer for one of two reasons. They hold the same elements where they overlap, as a view or as a part of a whole:
//! then they have the same *content*. Or one is dead before the other is written.

#[cfg(test)]
mod tests;

use super::region::{Life, Region};
use crate::place::Pitch;
use udo_engine::cores::Memory;

/// The index of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowId(pub usize);

/// A value's place.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) buffer: usize,
    pub(super) region: Region,
    /// `None` if no step uses it.
    pub(super) life: Option<Life>,
    /// Windows with the same content hold the same bytes where they overlap.
    content: usize,
    /// The steps that use it, and whether they accept strided rows.
    uses: Vec<(usize, Pitch)>,
    /// The step that writes the elements for the next iteration of a loop.
    renewed_at: Option<usize>,
    /// The part of an iteration in which its contents are not needed.
    idle: Option<Idle>,
}

/// The part of an iteration in which a state's window is free: its elements have been read, and the next ones are not
/// written yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// The last step of the iteration that uses the window before it is updated, or the one before the loop.
    pub(super) after: usize,
    /// The first step that updates a state at the end of the iteration.
    pub(super) until: usize,
    /// The window with the elements for the next iteration.
    pub(super) next: WindowId,
}

impl Window {
    /// Returns whether new elements are written here while `other` holds the current ones.
    fn is_renewed_in(&self, other: &Self) -> bool {
        let is_live_at =
            |step: usize| other.life.is_some_and(|life| life.first <= step && step <= life.last);
        self.renewed_at.is_some_and(is_live_at)
    }

    /// Returns whether all steps that use it, except `excluded`, accept strided rows.
    fn takes_pitch(&self, excluded: Option<usize>) -> bool {
        self.uses.iter().all(|&(step, pitch)| Some(step) == excluded || pitch != Pitch::Refused)
    }

    /// Returns whether a step uses both windows and requires that nothing else lies between the rows of one of them.
    fn stays_out_of(&self, other: &Self) -> bool {
        self.uses.iter().any(|&(step, pitch)| {
            let is_exclusive = |other: Pitch| pitch == Pitch::Alone || other == Pitch::Alone;
            other.uses.iter().any(|&(other_step, pitch)| other_step == step && is_exclusive(pitch))
        })
    }
}

/// A piece of an arena.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) memory: Memory,
    pub(super) bytes: usize,
    /// The windows, in the order in which they die.
    pub(super) windows: Vec<usize>,
    /// Whether one of its windows is an input or output.
    pub(super) has_port: bool,
    /// An additional lifetime during which it keeps its place because it is exchanged with others.
    pub(super) reserved: Option<Life>,
}

impl Buffer {
    /// Returns the lifetime from its first window's first step to its last window's last step.
    pub(super) fn life(&self, windows: &[Window]) -> Option<Life> {
        let lives = self.windows.iter().filter_map(|&w| windows.get(w)?.life);
        lives.chain(self.reserved).reduce(Life::and)
    }
}

/// All windows, and the buffers that contain them.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    pub(super) all: Vec<Window>,
    pub(super) buffers: Vec<Buffer>,
    /// The alignment of tensors in GPU memory.
    gpu_align_bytes: usize,
}

/// Why two windows may share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// They hold the same elements.
    Content,
    /// A step reads the part for the last time and writes the whole.
    Overwrite { at: usize },
    /// The whole is a state, and the part is its next value.
    Next,
}

/// The place of a window in another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within {
    /// The step whose work this replaces.
    pub(super) step: usize,
    /// Its offset in the other window, in bytes.
    pub(super) offset: usize,
    /// The row size of the other window, if it is a part of each row.
    pub(super) pitch: Option<usize>,
}

impl Within {
    /// Returns the region of a part in a whole that may be strided; `None` if the rows differ from what the step
    /// assumes.
    fn region(&self, part: Region, whole: Region) -> Option<Region> {
        let offset = whole.offset.checked_add(self.offset)?;
        let pitch = match self.pitch {
            None => part.pitch,
            Some(row) if whole.is_dense() => row,
            Some(row) => Some(whole.pitch).filter(|_| whole.row == row)?,
        };
        Some(Region { offset, pitch, ..part })
    }
}

impl Windows {
    /// Returns an empty set; tensors in GPU memory are aligned to `bytes`.
    pub(super) fn on_gpu_aligned_to(bytes: usize) -> Self {
        Self { gpu_align_bytes: bytes, ..Self::default() }
    }

    /// Returns the alignment of a tensor inside another one's buffer.
    pub(super) fn align_bytes(&self, memory: Memory) -> usize {
        match memory {
            Memory::Host | Memory::Dsp => 1,
            Memory::Gpu => self.gpu_align_bytes.max(1),
        }
    }

    /// Adds a window in a buffer of its own.
    pub(super) fn add(&mut self, memory: Memory, region: Region) -> WindowId {
        let (id, buffer) = (self.all.len(), self.buffers.len());
        let bytes = region.end().unwrap_or(usize::MAX);
        self.all.push(Window {
            buffer,
            region,
            life: None,
            content: id,
            uses: Vec::new(),
            renewed_at: None,
            idle: None,
        });
        let windows = vec![id];
        self.buffers.push(Buffer { memory, bytes, windows, has_port: false, reserved: None });
        WindowId(id)
    }

    /// Adds a window for the part `within` of `whole`, live while step `at` runs.
    pub(super) fn add_part(
        &mut self,
        whole: WindowId,
        part: Region,
        within: Within,
        at: usize,
    ) -> Option<WindowId> {
        let &Window { buffer, region, content, .. } = self.get(whole)?;
        let region = within.region(part, region)?;
        let id = self.all.len();
        let life = Some(Life { first: at, last: at });
        let (uses, renewed_at, idle) = (Vec::new(), None, None);
        let window = Window { buffer, region, life, content, uses, renewed_at, idle };
        self.all.push(window);
        self.put(buffer, vec![id]);
        Some(WindowId(id))
    }

    pub(super) fn get(&self, id: WindowId) -> Option<&Window> {
        self.all.get(id.0)
    }

    pub(super) fn buffer_of(&self, id: WindowId) -> Option<&Buffer> {
        self.buffers.get(self.get(id)?.buffer)
    }

    /// Returns the buffer of a window that fills it.
    pub(super) fn filled(&self, id: WindowId) -> Option<usize> {
        let window = self.get(id)?;
        let bytes = self.buffers.get(window.buffer)?.bytes;
        let fills = window.region.is_dense() && window.region.offset == 0;
        (fills && bytes > 0 && window.region.end() == Some(bytes)).then_some(window.buffer)
    }

    /// Returns whether everything in a buffer is live only within these steps.
    pub(super) fn is_live_within(&self, buffer: usize, steps: Life) -> bool {
        let Some(buffer) = self.buffers.get(buffer).filter(|buffer| !buffer.has_port) else {
            return false;
        };
        let life = buffer.life(&self.all);
        life.is_some_and(|life| steps.first <= life.first && life.last <= steps.last)
    }

    /// Records that a step uses a window, and whether it accepts strided rows.
    pub(super) fn touch(&mut self, id: WindowId, step: usize, pitch: Pitch) {
        let Some(window) = self.all.get_mut(id.0) else { return };
        let now = Life { first: step, last: step };
        window.life = Some(window.life.map_or(now, |life| life.and(now)));
        window.uses.push((step, pitch));
    }

    /// Records that a step writes the next elements of a window.
    pub(super) fn renew(&mut self, id: WindowId, step: usize) {
        if let Some(window) = self.all.get_mut(id.0) {
            window.renewed_at = Some(step);
        }
    }

    /// Sets the part of an iteration in which a state's window is free.
    pub(super) fn set_idle(&mut self, id: WindowId, idle: Idle) {
        if let Some(window) = self.all.get_mut(id.0) {
            window.idle = Some(idle);
        }
    }

    /// Records that no step uses a window any more.
    pub(super) fn forget(&mut self, id: WindowId) {
        if let Some(window) = self.all.get_mut(id.0) {
            window.life = None;
        }
    }

    /// Keeps a buffer in its place for at least this lifetime, without others there.
    pub(super) fn reserve(&mut self, buffer: usize, life: Life) {
        if let Some(buffer) = self.buffers.get_mut(buffer) {
            buffer.reserved = Some(buffer.reserved.map_or(life, |reserved| reserved.and(life)));
        }
    }

    /// Extends lifetimes over a loop: values that are used inside and outside outlive all iterations.
    pub(super) fn outlive(&mut self, loop_steps: Life) {
        for life in self.all.iter_mut().filter_map(|window| window.life.as_mut()) {
            if life.overlaps(loop_steps) && life.and(loop_steps) != loop_steps {
                *life = life.and(loop_steps);
            }
        }
    }

    /// Changes the strides of a window if it is alone in its buffer and all steps that use it accept that.
    pub(super) fn space(&mut self, id: WindowId, spaced: impl Fn(Region) -> Option<Region>) {
        let Some(window) = self.all.get_mut(id.0) else { return };
        let Some(buffer) = self.buffers.get_mut(window.buffer) else { return };
        let is_alone = buffer.windows == [id.0]
            && !buffer.has_port
            && buffer.reserved.is_none()
            && window.takes_pitch(None);
        let may_change = is_alone && window.region.pitch == window.region.row;
        let region = spaced(window.region).filter(|region| may_change && !region.is_empty());
        if let Some((region, bytes)) = region.and_then(|region| Some((region, region.end()?))) {
            (window.region, buffer.bytes) = (region, bytes);
        }
    }

    /// Marks a window as an input or output.
    pub(super) fn set_port(&mut self, id: WindowId) {
        let buffer = self.get(id).map(|window| window.buffer);
        if let Some(buffer) = buffer.and_then(|index| self.buffers.get_mut(index)) {
            buffer.has_port = true;
        }
    }

    /// Records that a step that used these windows is removed.
    pub(super) fn drop_step(&mut self, step: usize, touched: &[WindowId]) {
        for id in touched {
            if let Some(window) = self.all.get_mut(id.0) {
                window.uses.retain(|&(other, _)| other != step);
            }
        }
    }

    /// Moves `part` into `whole`, or one of their buffers into the other, if that is possible; returns whether it is.
    pub(super) fn unify(
        &mut self,
        part: WindowId,
        whole: WindowId,
        within: Within,
        share: Share,
    ) -> bool {
        let (Some(p), Some(w)) = (self.get(part), self.get(whole)) else { return false };
        let Some(target) = within.region(p.region, w.region) else { return false };
        if p.buffer == w.buffer {
            return !matches!(share, Share::Overwrite { .. }) && p.region == target;
        }
        let memory = |window: &Window| self.buffers.get(window.buffer).map(|b| b.memory);
        if memory(p) != memory(w) {
            return false;
        }
        let pair = Pair { part, whole, shared: target, share };
        if within.pitch.is_some() {
            return self.pitch_into(&pair, within.step);
        }
        if !p.region.is_dense() {
            return false;
        }
        let (from, to, part_region) = (p.buffer, w.buffer, p.region);
        let count =
            |buffer: usize| self.buffers.get(buffer).map_or(0, |buffer| buffer.windows.len());
        let directions = [
            (pair, from, to, [part_region.offset, target.offset]),
            (Pair { shared: part_region, ..pair }, to, from, [target.offset, part_region.offset]),
        ];
        // The smaller buffer moves, so that a long chain is not moved repeatedly.
        let [first, second] = if count(from) <= count(to) { [0, 1] } else { [1, 0] };
        [first, second].into_iter().any(|direction| {
            let (pair, from, to, offsets) = &directions[direction];
            self.shift_into(pair, *from, *to, *offsets)
        })
    }

    /// Adds windows to a buffer's list, which is sorted by the end of their lifetimes.
    fn put(&mut self, buffer: usize, windows: Vec<usize>) {
        let Self { all, buffers, .. } = self;
        let Some(buffer) = buffers.get_mut(buffer) else { return };
        let last = |id: &usize| all.get(*id).and_then(|window| window.life).map(|life| life.last);
        if let [id] = windows[..] {
            let index = buffer.windows.partition_point(|other| last(other) <= last(&id));
            buffer.windows.insert(index, id);
        } else {
            buffer.windows.extend(windows);
            buffer.windows.sort_by_key(last);
        }
    }

    /// Returns the windows of a buffer that may collide with `moved`: those that are live at the same time, or all of
    /// them if contents are compared.
    fn colliding(&self, target: &Buffer, moved: &[Placed], share: Share) -> Vec<usize> {
        if share == Share::Content {
            return target.windows.clone();
        }
        let life = |id: usize| self.all.get(id).and_then(|window| window.life);
        let lives = moved.iter().filter_map(|window| life(window.id));
        let Some(span) = lives.reduce(Life::and) else { return Vec::new() };
        let is_dead = |id: &usize| life(*id).is_none_or(|life| life.last < span.first);
        let later =
            target.windows.get(target.windows.partition_point(is_dead)..).unwrap_or_default();
        let overlaps = |id: &usize| life(*id).is_some_and(|life| life.overlaps(span));
        later.iter().copied().filter(overlaps).collect()
    }

    /// Moves all windows of the part's buffer, which have the same shape, into the whole.
    fn pitch_into(&mut self, pair: &Pair, step: usize) -> bool {
        let (Some(p), Some(w)) = (self.get(pair.part), self.get(pair.whole)) else { return false };
        let (from, to, shape) = (p.buffer, w.buffer, p.region);
        let is_alike = |&id: &usize| {
            let may_move =
                |window: &Window| window.region == shape && window.takes_pitch(Some(step));
            self.all.get(id).is_some_and(may_move)
        };
        let Some(buffer) = self.buffers.get(from) else { return false };
        if !shape.is_dense() || !buffer.windows.iter().all(is_alike) {
            return false;
        }
        let moved = buffer.windows.iter().map(|&id| Placed { id, region: pair.shared }).collect();
        self.move_into(pair, from, to, moved)
    }

    /// Moves all windows of buffer `from` into buffer `to`, so that `from_offset` becomes `to_offset`.
    fn shift_into(
        &mut self,
        pair: &Pair,
        from: usize,
        to: usize,
        [from_offset, to_offset]: [usize; 2],
    ) -> bool {
        let Some(buffer) = self.buffers.get(from) else { return false };
        let moved = buffer.windows.iter().map(|&id| {
            let region = self.all.get(id)?.region;
            let offset = region.offset.checked_add(to_offset)?.checked_sub(from_offset)?;
            Some(Placed { id, region: Region { offset, ..region } })
        });
        let Some(moved) = moved.collect() else { return false };
        self.move_into(pair, from, to, moved)
    }

    /// Moves all windows of buffer `from` to the regions `moved` of buffer `to`, if that is possible.
    fn move_into(&mut self, pair: &Pair, from: usize, to: usize, moved: Vec<Placed>) -> bool {
        let (Some(source), Some(target)) = (self.buffers.get(from), self.buffers.get(to)) else {
            return false;
        };
        let fits = |region: &Region| {
            let is_aligned = region.offset.is_multiple_of(self.align_bytes(target.memory));
            is_aligned && region.end().is_some_and(|end| end <= target.bytes)
        };
        let placed = |&id: &usize| Some(Placed { id, region: self.all.get(id)?.region });
        let colliding = self.colliding(target, &moved, pair.share);
        let staying: Vec<Placed> = colliding.iter().filter_map(placed).collect();
        let may_move = |window: &Placed| {
            fits(&window.region)
                && staying.iter().all(|other| self.may_overlap(pair, window, other))
        };
        if !moved.iter().all(may_move) {
            return false;
        }
        let has_port = source.has_port;
        let contents = [self.content(pair.part), self.content(pair.whole)];
        let is_part = |window: &Placed| window.id == pair.part.0;
        let [moving, staying] = if moved.iter().any(is_part) { [0, 1] } else { [1, 0] };
        for Placed { id, region } in moved {
            if let Some(window) = self.all.get_mut(id) {
                (window.buffer, window.region) = (to, region);
                // All windows of one content are in one buffer, so the list is complete.
                if let (Share::Content, Some(content)) = (pair.share, contents[staying])
                    && Some(window.content) == contents[moving]
                {
                    window.content = content;
                }
            }
        }
        let windows = self.buffers.get_mut(from).map(|b| std::mem::take(&mut b.windows));
        self.put(to, windows.unwrap_or_default());
        if let Some(target) = self.buffers.get_mut(to) {
            target.has_port |= has_port;
        }
        true
    }

    fn content(&self, id: WindowId) -> Option<usize> {
        self.get(id).map(|window| window.content)
    }

    /// Returns whether two windows can be in one buffer after the first has moved.
    fn may_overlap(&self, pair: &Pair, moved: &Placed, other: &Placed) -> bool {
        let (Some(a), Some(b)) = (self.all.get(moved.id), self.all.get(other.id)) else {
            return false;
        };
        if !moved.region.overlaps(&other.region) {
            return moved.region.is_clear_of(&other.region) || !a.stays_out_of(b);
        }
        let contents = [Some(a.content), Some(b.content)];
        let (part, whole) = (self.content(pair.part), self.content(pair.whole));
        let are_of_pair = contents == [part, whole] || contents == [whole, part];
        if pair.share == Share::Content && are_of_pair {
            if a.is_renewed_in(b) || b.is_renewed_in(a) {
                return false;
            }
            // From now on they have the same content, whatever their lifetimes.
            return moved.region.is_in(&pair.shared) || other.region.is_in(&pair.shared);
        }
        if self.are_used_apart(moved, other) {
            return true;
        }
        match pair.share {
            Share::Content | Share::Next => false,
            Share::Overwrite { at } => {
                let ids = [pair.part.0, pair.whole.0];
                let is_pair = ids == [moved.id, other.id] || ids == [other.id, moved.id];
                is_pair && self.follows(pair.part, pair.whole, at)
            }
        }
    }

    /// Returns whether one window holds nothing useful whenever the other one is live.
    fn are_used_apart(&self, a: &Placed, b: &Placed) -> bool {
        let (Some(x), Some(y)) = (self.all.get(a.id), self.all.get(b.id)) else { return true };
        let (Some(x_life), Some(y_life)) = (x.life, y.life) else { return true };
        let is_free = |state: &Window, other: &Window, id: usize| {
            let is_next =
                || a.region == b.region && state.idle.is_some_and(|idle| idle.next.0 == id);
            match (state.idle, other.life) {
                (Some(idle), Some(life)) => {
                    idle.after < life.first && (life.last < idle.until || is_next())
                }
                (_, _) => false,
            }
        };
        !x_life.overlaps(y_life) || is_free(x, y, b.id) || is_free(y, x, a.id)
    }

    /// Returns whether `step` is the last to read the part, at least in its iteration, and the first to write the
    /// whole.
    fn follows(&self, part: WindowId, whole: WindowId, step: usize) -> bool {
        let (Some(part), Some(other)) = (self.get(part), self.get(whole)) else { return false };
        let Some(life) = other.life.filter(|life| life.first == step) else { return false };
        let ends = part.life.is_some_and(|life| life.last == step);
        let is_idle =
            |idle: Idle| idle.after == step && (life.last < idle.until || idle.next == whole);
        ends || part.idle.is_some_and(is_idle)
    }
}

/// A window with its region in a buffer.
#[derive(Clone, Copy)]
struct Placed {
    id: usize,
    region: Region,
}

/// Two windows that may share memory.
#[derive(Clone, Copy)]
struct Pair {
    part: WindowId,
    whole: WindowId,
    /// The region that they would share.
    shared: Region,
    share: Share,
}
