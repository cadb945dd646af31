//! A workspace that several sessions use in turns. On each device it is as large as the largest session needs, and its address
//! never changes. The sessions ensure that only one of them uses it at a time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::heap::Charge;
use super::{Device, DeviceId};
use udo_graph::error::{Result, invalid};
use udo_graph::memory::Reserve;

/// The largest address range that is reserved for a device: more than any workspace needs, and less than any 64-bit system offers.
const RESERVE_MAX_BYTES: u64 = 1 << 40;

/// The shared workspace on any number of devices.
#[derive(Debug, Default)]
pub struct SharedMemory(Mutex<BTreeMap<DeviceId, Region>>);

#[derive(Debug)]
struct Region {
    reserve: Reserve,
    charge: Charge,
    /// The number of shares for each size in bytes.
    users: BTreeMap<u64, usize>,
}

impl Region {
    fn new(device: &Device) -> Result<Self> {
        let reserved = usize::try_from(device.memory_bytes().min(RESERVE_MAX_BYTES));
        let reserved = reserved.unwrap_or(usize::MAX);
        let charge = Charge::take(device, 0, "workspace")?;
        Ok(Self { reserve: Reserve::new(reserved)?, charge, users: BTreeMap::new() })
    }

    fn most(&self) -> u64 {
        self.users.last_key_value().map_or(0, |(&bytes, _)| bytes)
    }

    /// Sets the size. If the system refuses it, the charge is restored.
    fn resize(&mut self, bytes: u64) -> Result<()> {
        let before = self.most();
        self.charge.resize(bytes)?;
        let resized = self.reserve.resize(usize::try_from(bytes).unwrap_or(usize::MAX));
        resized.map_err(|error| match self.charge.resize(before) {
            Ok(()) => error.into(),
            Err(error) => error,
        })
    }
}

/// The right to use the first bytes of a device's region, in turns with other shares.
#[derive(Debug)]
pub struct Share {
    memory: Arc<SharedMemory>,
    device: DeviceId,
    bytes: u64,
}

impl SharedMemory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<DeviceId, Region>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current size of the region of a device.
    pub(crate) fn bytes(&self, device: &Device) -> u64 {
        self.lock().get(&device.id()).map_or(0, Region::most)
    }

    /// Enlarges the region of a device to at least `bytes` bytes. Returns the address of its first byte, aligned to 64. The bytes
    /// exist as long as the share, and never move.
    ///
    /// # Errors
    /// Fails if the device's heap or the system lacks memory, or if another runtime's device has the same id in this workspace.
    pub fn share(self: &Arc<Self>, device: &Device, bytes: u64) -> Result<(Share, *mut u8)> {
        let mut regions = self.lock();
        let id = device.id();
        let region = match regions.entry(id) {
            Entry::Occupied(region) => region.into_mut(),
            Entry::Vacant(entry) => entry.insert(Region::new(device)?),
        };
        if region.charge.device() != device {
            let why = format!(
                "a workspace is shared by sessions on two devices {id}, of two runtimes; give each runtime its own"
            );
            return Err(invalid(why));
        }
        if bytes > region.most() {
            region.resize(bytes)?;
        }
        *region.users.entry(bytes).or_default() += 1;
        let first = region.reserve.as_ptr();
        drop(regions);
        Ok((Share { memory: Arc::clone(self), device: id, bytes }, first))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut regions = self.memory.lock();
        let Some(region) = regions.get_mut(&self.device) else { return };
        let left = region.users.get(&self.bytes).map_or(0, |count| count.saturating_sub(1));
        if left > 0 {
            region.users.insert(self.bytes, left);
            return;
        }
        region.users.remove(&self.bytes);
        let most = region.most();
        // Memory that the system does not take back remains for later shares.
        let _not_released = region.resize(most);
    }
}

#[cfg(test)]
mod tests {
    use udo_api::CoreKind;

    use super::*;
    use crate::device::{DeviceSpec, Devices, ErrorCode};

    #[test]
    fn the_region_is_as_large_as_the_largest_share() {
        let spec =
            DeviceSpec { memory_bytes: Some(1 << 20), ..DeviceSpec::new(udo_api::Core::CPU) };
        let devices = Devices::new(&[spec]).unwrap();
        let cpu = devices.get(CoreKind::Cpu, 0).unwrap();
        let memory = Arc::new(SharedMemory::default());
        let used = || {
            let total = cpu.heap_stats().total;
            (total.current_bytes, total.peak_bytes, memory.bytes(&cpu))
        };
        let (small, first) = memory.share(&cpu, 1000).unwrap();
        assert_eq!(used(), (1000, 1000, 1000));
        let (large, first_of_large) = memory.share(&cpu, 90_000).unwrap();
        assert_eq!((used(), first_of_large), ((90_000, 90_000, 90_000), first));
        let twice = memory.share(&cpu, 90_000).unwrap();
        let error = memory.share(&cpu, (1 << 20) + 1).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        assert_eq!(used(), (90_000, 90_000, 90_000));
        drop(large);
        assert_eq!(used().0, 90_000);
        drop(twice);
        assert_eq!(used(), (1000, 90_000, 1000));
        drop(small);
        assert_eq!(used(), (0, 90_000, 0));
        assert_eq!(memory.share(&cpu, 1).unwrap().1, first, "the address does not change");
        let others = Devices::default().get(CoreKind::Cpu, 0).unwrap();
        let error = memory.share(&others, 1).unwrap_err();
        assert!(error.to_string().ends_with("give each runtime its own"), "{error}");
    }
}
