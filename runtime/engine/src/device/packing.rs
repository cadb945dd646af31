//! Packed batches: the interleaving of a tensor's batches in a device's memory, and copies from and to the ordinary order.

/// The storage order of batches (dimension 0). A group of batches stores the elements of the same place together, where a place
/// is an index into all other dimensions. The batches of a group are its lanes.
///
/// ```
/// use udo_api::{CoreKind, DType};
/// use udo_engine::device::{DeviceTensor, Devices, Packing, SpecDetails, TensorSpec};
///
/// let spec = TensorSpec::fixed(DType::I8, &[2, 3])?.with_packing(Packing::N4)?;
/// let tensor = DeviceTensor::new(&Devices::default().get(CoreKind::Cpu, 0)?, spec)?;
/// tensor.write(&[1, 2, 3, 11, 12, 13])?;
/// assert_eq!(tensor.memory().read_all()?, [1, 11, 0, 0, 2, 12, 0, 0, 3, 13, 0, 0]);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Packing {
    /// One batch after the other.
    #[default]
    N1,
    /// Groups of two batches: for each place, the two-byte elements of both, the even batch first.
    N2,
    /// Groups of four batches: for each place, their four one-byte elements.
    N4,
}

impl Packing {
    /// Returns the number of batches in a group.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Self::N1 => 1,
            Self::N2 => 2,
            Self::N4 => 4,
        }
    }

    /// Returns the required size of an element; `None` if every size is allowed.
    pub(crate) const fn element_bytes(self) -> Option<usize> {
        match self {
            Self::N1 => None,
            Self::N2 => Some(2),
            Self::N4 => Some(1),
        }
    }

    /// Returns the name, such as `4n`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::N1 => "1n",
            Self::N2 => "2n",
            Self::N4 => "4n",
        }
    }

    /// Returns the number of stored elements, including those that pad the last group; `None` on overflow.
    pub(super) fn stored_elements(self, batches: usize, per_batch: usize) -> Option<usize> {
        batches.checked_next_multiple_of(self.lanes())?.checked_mul(per_batch)
    }

    /// Packs `logical`, which has batches of `per_batch` elements of `width` bytes. Lanes without a batch become 0.
    pub(super) fn pack(self, logical: &[u8], stored: &mut [u8], per_batch: usize, width: usize) {
        let batch = per_batch.saturating_mul(width).max(1);
        let groups = stored.chunks_exact_mut(batch.saturating_mul(self.lanes()));
        for (group, batches) in groups.zip(logical.chunks(batch.saturating_mul(self.lanes()))) {
            group.fill(0);
            for (lane, from) in batches.chunks_exact(batch).enumerate() {
                let places = group.chunks_exact_mut(width.saturating_mul(self.lanes()));
                for (place, element) in places.zip(from.chunks_exact(width)) {
                    if let Some(to) = place.get_mut(lane * width..(lane + 1) * width) {
                        to.copy_from_slice(element);
                    }
                }
            }
        }
    }

    /// Unpacks, as the inverse of [`Packing::pack`]. Ignores lanes without a batch.
    pub(super) fn unpack(self, stored: &[u8], logical: &mut [u8], per_batch: usize, width: usize) {
        let batch = per_batch.saturating_mul(width).max(1);
        let groups = stored.chunks_exact(batch.saturating_mul(self.lanes()));
        for (group, batches) in groups.zip(logical.chunks_mut(batch.saturating_mul(self.lanes()))) {
            for (lane, to) in batches.chunks_exact_mut(batch).enumerate() {
                let places = group.chunks_exact(width.saturating_mul(self.lanes()));
                for (place, element) in places.zip(to.chunks_exact_mut(width)) {
                    if let Some(from) = place.get(lane * width..(lane + 1) * width) {
                        element.copy_from_slice(from);
                    }
                }
            }
        }
    }
}
