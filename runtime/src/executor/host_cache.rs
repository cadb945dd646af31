//! Emulates the host's cache of non-coherent accelerator memory.

use std::cell::RefCell;

use super::{Executor, SessionError};
use udo_compile::plan::{Plan, PlanLayout, View};
use udo_engine::cores::{Memory, PerMemory};
use udo_engine::device::{Coherence, LINE_BYTES, Random};
use udo_graph::memory::{Budget, Buffer};

/// The emulated cache: a copy of each non-coherent arena.
pub(super) struct HostCache {
    host: PerMemory<Buffer>,
    clean: PerMemory<Buffer>,
    /// The random numbers that choose dirty lines to write back spontaneously, if the cache does so.
    random: Option<RefCell<Random>>,
}

impl HostCache {
    pub(super) fn take(plan: &Plan, budget: &Budget) -> Result<Self, SessionError> {
        let zeroed = || {
            PerMemory::from_fn(|memory| plan.cached_bytes(memory))
                .try_map(|bytes| budget.zeroed(bytes))
        };
        let both = zeroed().and_then(|host| Ok((host, zeroed()?)));
        let (host, clean) = both.map_err(|memory| SessionError::new(plan, memory))?;
        let random = match plan.coherence {
            Coherence::NonCoherent { seed: Some(seed) } => Some(RefCell::new(Random::new(seed))),
            Coherence::Coherent | Coherence::NonCoherent { seed: None } => None,
        };
        Ok(Self { host, clean, random })
    }

    /// Returns the start of a view of a memory whose own bytes begin at `device`.
    pub(super) fn side(&self, memory: Memory, view: View, device: *mut u8) -> *mut u8 {
        match view {
            View::Device => device,
            View::Host => self.host[memory].as_ptr(),
            View::Clean => self.clean[memory].as_ptr(),
        }
    }

    /// Discards dirty lines that an aborted run has left, before the next run.
    pub(super) fn settle(&mut self) {
        if self.random.is_none() {
            return;
        }
        for memory in [Memory::Gpu, Memory::Dsp] {
            self.clean[memory].bytes_mut().copy_from_slice(self.host[memory].bytes());
        }
    }

    /// Returns whether the cache writes lines back spontaneously.
    pub(super) fn evicts(&self) -> bool {
        self.random.is_some()
    }
}

impl Executor {
    /// Writes some dirty lines back between two calls, if the cache does so spontaneously.
    pub(super) fn evict(&self) {
        let Some(random) = &self.cached.random else { return };
        let mut random = random.borrow_mut();
        let line = usize::try_from(LINE_BYTES).unwrap_or(1);
        for memory in [Memory::Gpu, Memory::Dsp] {
            let (host, clean) = (&self.cached.host[memory], &self.cached.clean[memory]);
            let dirty = host.bytes().chunks(line).zip(clean.bytes().chunks(line)).enumerate();
            for (at, (now, _)) in dirty.filter(|(_, (now, before))| now != before) {
                if !random.happens() {
                    continue;
                }
                for to in [self.arenas[memory].as_ptr(), clean.as_ptr()] {
                    // SAFETY: the arena and the clean copy have as many bytes as the cache, so `now` has its place in
                    // both; they are this session's, and nothing else accesses them between calls.
                    unsafe {
                        std::ptr::copy(now.as_ptr(), to.wrapping_add(at * line), now.len());
                    }
                }
            }
        }
    }
}
