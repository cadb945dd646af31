//! The memories that hold values.

use std::ops::{Index, IndexMut};

use udo_api::Core;

use super::row;

/// A memory that holds values. All cores of one kind share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    /// The host's.
    Host,
    /// The GPU's.
    Gpu,
    /// The DSP's.
    Dsp,
}

impl Memory {
    /// All memories, in order.
    pub const ALL: [Self; 3] = [Self::Host, Self::Gpu, Self::Dsp];

    /// Returns the memory of a core; the host's for an unknown core.
    pub fn for_core(core: Core) -> Self {
        row(core).map_or(Self::Host, |row| row.memory)
    }

    /// Returns the lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Gpu => "gpu",
            Self::Dsp => "dsp",
        }
    }
}

/// One value per memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerMemory<T>([T; Memory::ALL.len()]);

impl<T> PerMemory<T> {
    /// Creates a value for each memory with `f`.
    pub fn from_fn(f: impl FnMut(Memory) -> T) -> Self {
        Self(Memory::ALL.map(f))
    }

    /// Iterates over the values in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.into_iter()
    }

    /// Converts each value with `f`.
    ///
    /// # Errors
    /// Returns the first error of `f`.
    pub fn try_map<U, E>(self, mut f: impl FnMut(T) -> Result<U, E>) -> Result<PerMemory<U>, E> {
        let [host, gpu, dsp] = self.0;
        Ok(PerMemory([f(host)?, f(gpu)?, f(dsp)?]))
    }
}

impl<T> Index<Memory> for PerMemory<T> {
    type Output = T;

    #[inline]
    fn index(&self, memory: Memory) -> &T {
        &self.0[memory as usize]
    }
}

impl<T> IndexMut<Memory> for PerMemory<T> {
    #[inline]
    fn index_mut(&mut self, memory: Memory) -> &mut T {
        &mut self.0[memory as usize]
    }
}

impl<'a, T> IntoIterator for &'a PerMemory<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_memory_has_its_own() {
        let mut bytes = PerMemory::<usize>::default();
        for (at, memory) in Memory::ALL.into_iter().enumerate() {
            bytes[memory] = at + 1;
        }
        assert_eq!(bytes.iter().sum::<usize>(), 6);
        assert_eq!(bytes[Memory::Gpu], 2);
        let twice = bytes.try_map(|n| Ok::<_, ()>(2 * n)).unwrap();
        assert_eq!(Memory::ALL.map(|memory| twice[memory]), [2, 4, 6]);
        let first = bytes.try_map(|n| if n > 1 { Err(n) } else { Ok(n) });
        assert_eq!(first, Err(2));
    }
}
