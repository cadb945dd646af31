//! Accounting of a device's memory by owner.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Device;
use udo_graph::error::{Error, ErrorCode, Result};

/// Bytes in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in use now.
    pub current_bytes: u64,
    /// The most bytes that were in use at once.
    pub peak_bytes: u64,
    /// Memories that there are now.
    pub memories: u64,
}

impl Usage {
    fn add(&mut self, bytes: u64) {
        self.current_bytes = self.current_bytes.saturating_add(bytes);
        self.peak_bytes = self.peak_bytes.max(self.current_bytes);
        self.memories += 1;
    }

    fn resize(&mut self, from: u64, to: u64) {
        self.current_bytes = self.current_bytes.saturating_sub(from).saturating_add(to);
        self.peak_bytes = self.peak_bytes.max(self.current_bytes);
    }

    fn sub(&mut self, bytes: u64) {
        self.current_bytes = self.current_bytes.saturating_sub(bytes);
        self.memories = self.memories.saturating_sub(1);
    }
}

/// The memory of a device in use.
///
/// ```
/// use udo_api::CoreKind;
/// use udo_engine::device::Devices;
///
/// let dsp = Devices::default().get(CoreKind::Dsp, 0)?;
/// drop(dsp.alloc(1000)?);
/// let memory = dsp.alloc(10)?;
/// let total = dsp.heap_stats().total;
/// assert_eq!((total.current_bytes, total.peak_bytes, total.memories), (10, 1000, 1));
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// The most bytes that may be in use at once.
    pub limit_bytes: u64,
    /// All memories that the heap gave.
    pub total: Usage,
    /// The same by their owners' labels, in alphabetical order; owners of whom nothing is left stay with their peaks.
    pub owners: Vec<(String, Usage)>,
    /// Memories that were imported: their bytes are somebody else's, and the limit does not count them.
    pub imported: Usage,
}

/// The books of a device's memory.
#[derive(Debug)]
pub(super) struct Heap {
    limit_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: Usage,
    owners: BTreeMap<Arc<str>, Usage>,
    imported: Usage,
    /// Shared memory by address: its bytes, and the number of owners.
    together: HashMap<usize, (u64, usize)>,
}

/// Bytes in the books of a heap, crossed out when dropped.
#[derive(Debug)]
pub struct Charge {
    device: Device,
    bytes: u64,
    /// Nobody's if it was imported.
    owner: Option<Arc<str>>,
}

impl Heap {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, state: Mutex::default() }
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> HeapStats {
        let state = self.lock();
        let owners = state.owners.iter().map(|(owner, usage)| (owner.to_string(), *usage));
        HeapStats {
            limit_bytes: self.limit_bytes,
            total: state.total,
            owners: owners.collect(),
            imported: state.imported,
        }
    }

    /// Has peaks count from what is in use now.
    pub(super) fn reset_peaks(&self) {
        let mut state = self.lock();
        let State { total, owners, imported, .. } = &mut *state;
        for usage in [total, imported].into_iter().chain(owners.values_mut()) {
            usage.peak_bytes = usage.current_bytes;
        }
        owners.retain(|_, usage| usage.memories > 0);
    }
}

impl State {
    /// Fails if the heap has not enough memory.
    fn check(&self, device: &Device, bytes: u64, owner: &str) -> Result<()> {
        let (taken, limit) = (self.total.current_bytes, device.heap().limit_bytes);
        if taken.checked_add(bytes).is_some_and(|after| after <= limit) {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::OutOfMemory,
            format!(
                "{owner:?} wants {bytes} bytes of {}, of whose {limit} bytes {taken} are in use; release memory \
                 or give the device more",
                device.id()
            ),
        ))
    }

    fn owner(&self, owner: &str) -> Arc<str> {
        match self.owners.get_key_value(owner) {
            Some((known, _)) => Arc::clone(known),
            None => owner.into(),
        }
    }
}

/// One owner's share of memory that several owners share. The statistics count the memory once.
#[derive(Debug)]
pub struct SharedCharges {
    device: Device,
    owner: Arc<str>,
    places: Vec<usize>,
}

impl SharedCharges {
    /// Takes what lies at these addresses, and is there for as long as the charges are: so many bytes each.
    ///
    /// # Errors
    /// The heap has no room for what nobody has yet.
    pub fn take(
        device: &Device,
        of: impl IntoIterator<Item = (usize, u64)>,
        owner: &str,
    ) -> Result<Self> {
        let of: BTreeMap<usize, u64> = of.into_iter().filter(|&(_, bytes)| bytes > 0).collect();
        let mut state = device.heap().lock();
        let new = of.iter().filter(|(at, _)| !state.together.contains_key(at));
        let new = new.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        state.check(device, new, owner)?;
        let owner = state.owner(owner);
        for (&at, &bytes) in &of {
            let (_, count) = state.together.entry(at).or_insert((bytes, 0));
            *count += 1;
            if *count == 1 {
                state.total.add(bytes);
                state.owners.entry(Arc::clone(&owner)).or_default().add(bytes);
            }
        }
        drop(state);
        Ok(Self { device: device.clone(), owner, places: of.into_keys().collect() })
    }
}

impl Drop for SharedCharges {
    fn drop(&mut self) {
        let mut state = self.device.heap().lock();
        for at in &self.places {
            let Some((bytes, count)) = state.together.get_mut(at) else { continue };
            *count -= 1;
            let (bytes, count) = (*bytes, *count);
            if count > 0 {
                continue;
            }
            state.together.remove(at);
            state.total.sub(bytes);
            if let Some(usage) = state.owners.get_mut(&self.owner) {
                usage.sub(bytes);
            }
        }
    }
}

impl Charge {
    /// Takes `bytes` of the device's heap.
    ///
    /// # Errors
    /// The device has no such memory left.
    pub fn take(device: &Device, bytes: u64, owner: &str) -> Result<Self> {
        let mut state = device.heap().lock();
        state.check(device, bytes, owner)?;
        state.total.add(bytes);
        let owner = state.owner(owner);
        state.owners.entry(Arc::clone(&owner)).or_default().add(bytes);
        drop(state);
        Ok(Self { device: device.clone(), bytes, owner: Some(owner) })
    }

    /// Has it be of `bytes` bytes.
    ///
    /// # Errors
    /// The heap has no room for as many; it is as it was.
    pub(super) fn resize(&mut self, bytes: u64) -> Result<()> {
        let Some(owner) = &self.owner else { return Ok(()) };
        let mut state = self.device.heap().lock();
        state.check(&self.device, bytes.saturating_sub(self.bytes), owner)?;
        state.total.resize(self.bytes, bytes);
        if let Some(usage) = state.owners.get_mut(owner) {
            usage.resize(self.bytes, bytes);
        }
        drop(state);
        self.bytes = bytes;
        Ok(())
    }

    /// Notes `bytes` that are not the heap's.
    pub(super) fn imported(device: &Device, bytes: u64) -> Self {
        device.heap().lock().imported.add(bytes);
        Self { device: device.clone(), bytes, owner: None }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = self.device.heap().lock();
        match &self.owner {
            None => state.imported.sub(self.bytes),
            Some(owner) => {
                state.total.sub(self.bytes);
                if let Some(usage) = state.owners.get_mut(owner) {
                    usage.sub(self.bytes);
                }
            }
        }
    }
}
