//! How the batches of a tensor lie next to each other in a device's memory, and copies between that and the order that
//! everybody else has.

/// How batches are stored. Elements are counted by batch (dimension 0) and by place in it, all other dimensions together.
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
    /// One behind the other.
    #[default]
    N1,
    /// Two and two: at each place elements of two bytes of two batches, the even one first.
    N2,
    /// Four and four: at each place elements of one byte of four batches.
    N4,
}

impl Packing {
    /// How many batches lie together.
    pub(crate) const fn lanes(self) -> usize {
        match self {
            Self::N1 => 1,
            Self::N2 => 2,
            Self::N4 => 4,
        }
    }

    /// Bytes that elements must have for it; nothing where any do.
    pub(crate) const fn element_bytes(self) -> Option<usize> {
        match self {
            Self::N1 => None,
            Self::N2 => Some(2),
            Self::N4 => Some(1),
        }
    }

    /// The name, as in `4n`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::N1 => "1n",
            Self::N2 => "2n",
            Self::N4 => "4n",
        }
    }

    /// Elements stored for so many batches of so many elements, those included that fill the last group; nothing where they
    /// are too many to count.
    pub(super) fn stored_elements(self, batches: usize, per_batch: usize) -> Option<usize> {
        batches.checked_next_multiple_of(self.lanes())?.checked_mul(per_batch)
    }

    /// Stores `logical`, batches of `per_batch` elements of `width` bytes, as lanes; those without a batch become 0.
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

    /// The inverse of [`Packing::pack`]: lanes without a batch are not looked at.
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
