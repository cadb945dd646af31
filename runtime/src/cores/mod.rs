//! Cores: what each stores, how fast its own memory is, and what a value looks like there.

#[macro_use]
pub(crate) mod convert;
pub mod opencl;
pub(crate) mod order;

use udo_api::{Core, CoreKind, DType, Isa, TensorDesc};
use udo_host::Machine;

pub use order::{Form, Order};

/// How the GPU stores floating-point values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuStorage {
    /// As 32-bit numbers.
    #[default]
    F32,
    /// As 16-bit numbers, where the kernel takes them.
    F16,
}

/// Whether GPU kernels may run on an OpenCL device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenCl {
    /// On the process's device where there is one, else as work items on the host's threads.
    #[default]
    Auto,
    /// Always as work items.
    Off,
}

/// The properties of the emulated cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Bytes of the DSP's fast memory (VTCM).
    pub vtcm_bytes: usize,
    /// How the GPU stores floating-point values.
    pub gpu_storage: GpuStorage,
    /// Whether GPU kernels may run on an OpenCL device.
    pub opencl: OpenCl,
}

impl Default for Profile {
    fn default() -> Self {
        Self { vtcm_bytes: 4 << 20, gpu_storage: GpuStorage::F32, opencl: OpenCl::Auto }
    }
}

/// A memory that values live in. Cores of one kind share one.
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
    /// Every memory, in order.
    pub const ALL: [Self; 3] = [Self::Host, Self::Gpu, Self::Dsp];

    /// The memory of a core.
    pub fn of(core: Core) -> Self {
        match core.kind() {
            Some(CoreKind::Gpu) => Self::Gpu,
            Some(CoreKind::Dsp | CoreKind::Hta) => Self::Dsp,
            Some(CoreKind::Cpu) | None => Self::Host,
        }
    }

    /// The lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Gpu => "gpu",
            Self::Dsp => "dsp",
        }
    }
}

/// What kernels on `core` are told of where they run.
pub(crate) fn machine(core: Core, profile: &Profile, threads: usize) -> Machine {
    let isa = match udo_simd::isa() {
        udo_simd::Isa::Portable { .. } => Isa::Portable,
        udo_simd::Isa::Avx2 { .. } => Isa::Avx2,
        udo_simd::Isa::Avx512 { .. } => Isa::Avx512,
        udo_simd::Isa::Amx { .. } => Isa::Amx,
    };
    let fast_memory_bytes = if Memory::of(core) == Memory::Dsp { profile.vtcm_bytes } else { 0 };
    Machine { threads: u32::try_from(threads).unwrap_or(u32::MAX), isa, fast_memory_bytes }
}

/// The forms that a value can take on `core`, the preferred one first.
///
/// `desc` is the value in the model, `fixed` its fixed-point form if an encoding is known.
pub(crate) fn forms(
    core: Core,
    desc: &TensorDesc,
    fixed: Option<&TensorDesc>,
    profile: &Profile,
) -> Vec<TensorDesc> {
    let mut forms = Vec::with_capacity(2);
    match core.kind() {
        Some(CoreKind::Gpu)
            if desc.dtype() == Some(DType::F32) && profile.gpu_storage == GpuStorage::F16 =>
        {
            forms.push(desc.with_dtype(DType::F16));
        }
        Some(CoreKind::Dsp | CoreKind::Hta) => forms.extend(fixed.copied()),
        Some(CoreKind::Cpu | CoreKind::Gpu) | None => {}
    }
    forms.push(*desc);
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::{Encoding, Shape};

    #[test]
    fn each_core_prefers_its_own_form() {
        let desc = TensorDesc::new(DType::F32, Shape::new(&[8]).unwrap());
        let fixed =
            desc.with_dtype(DType::U8).with_encoding(Encoding { scale: 0.1, zero_point: 3 });
        let profile = Profile { gpu_storage: GpuStorage::F16, ..Profile::default() };
        let first = |core| forms(core, &desc, Some(&fixed), &profile)[0];
        assert_eq!(first(Core::CPU), desc);
        assert_eq!(first(Core::GPU).dtype(), Some(DType::F16));
        assert_eq!(first(Core::DSP_V68), fixed);
        assert_eq!(
            forms(Core::DSP_V68, &desc, None, &profile),
            [desc],
            "no encoding, no fixed form"
        );
    }
}
