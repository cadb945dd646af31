//! Properties of cores: their memory and its speed, and the formats in which they store values.

#[macro_use]
pub mod convert;
pub mod cache_maintenance;
mod format;
pub mod iterations;
mod memory;
pub mod on_quantized;
pub mod opencl;
pub mod relayout;

use udo_api::{Core, CoreKind, DType, FastMath, Isa, TensorDesc};
use udo_host::Machine;

pub use format::Format;
pub use memory::Memory;
pub use memory::PerMemory;

/// How the GPU stores floating-point values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuStorage {
    /// As f32.
    #[default]
    F32,
    /// As f16, where the kernel supports it.
    F16,
}

/// Whether GPU kernels may run on an OpenCL device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenCl {
    /// On the process's OpenCL device if there is one, otherwise as work items on host threads.
    #[default]
    Auto,
    /// Always as work items on host threads.
    Off,
}

/// The nodes that emulated cores accept among those that they have kernels for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceLimits {
    /// All, except those that devices of their architecture cannot run.
    #[default]
    OfKernels,
    /// Only those that are documented as supported by devices of their architecture.
    Documented,
}

/// The properties of the emulated cores, and options of all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The size of the DSP's fast memory (VTCM, vector tightly coupled memory).
    pub vtcm_bytes: usize,
    /// How the GPU stores floating-point values.
    pub gpu_storage: GpuStorage,
    /// Whether GPU kernels may run on an OpenCL device.
    pub opencl: OpenCl,
    /// How far kernels of all cores may deviate from exact arithmetic.
    pub fast_math: FastMath,
    /// The nodes that they accept.
    pub limits: DeviceLimits,
}

impl Default for Profile {
    fn default() -> Self {
        let (gpu_storage, opencl) = (GpuStorage::F32, OpenCl::Auto);
        let (fast_math, limits) = (FastMath::None, DeviceLimits::OfKernels);
        Self { vtcm_bytes: 4 << 20, gpu_storage, opencl, fast_math, limits }
    }
}

/// The host's description of a kind of core.
#[derive(Debug)]
pub(crate) struct CoreRow {
    /// The kind. Its name and architectures are defined in the contract.
    pub(crate) kind: CoreKind,
    /// The memory of its values.
    memory: Memory,
    /// How it stores values.
    storage: Storage,
    /// The naming of kernel libraries for it; `None` if it does not support user operators.
    pub(crate) libraries: Option<Libraries>,
}

/// How values are stored on a core, if its kernels support it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// As in the model.
    Model,
    /// As [`GpuStorage`] in the profile says for floating-point values.
    Profile,
    /// Quantized, where the model states an encoding.
    Quantized,
}

/// The naming of a package's libraries for a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Libraries {
    /// The part after the package's name.
    pub(crate) suffix: &'static str,
    /// The first architecture whose operators share a library; below it, each operator has its own.
    pub(crate) one_op_below: u16,
}

impl Libraries {
    const fn all_ops(suffix: &'static str) -> Self {
        Self { suffix, one_op_below: 0 }
    }
}

/// All kinds of cores.
const CORES: &[CoreRow] = &[
    CoreRow {
        kind: CoreKind::Cpu,
        memory: Memory::Host,
        storage: Storage::Model,
        libraries: Some(Libraries::all_ops("Cpu")),
    },
    CoreRow {
        kind: CoreKind::Gpu,
        memory: Memory::Gpu,
        storage: Storage::Profile,
        libraries: Some(Libraries::all_ops("Gpu")),
    },
    CoreRow {
        kind: CoreKind::Dsp,
        memory: Memory::Dsp,
        storage: Storage::Quantized,
        libraries: Some(Libraries { suffix: "Dsp", one_op_below: 68 }),
    },
    CoreRow {
        kind: CoreKind::Hta,
        memory: Memory::Dsp,
        storage: Storage::Quantized,
        libraries: None,
    },
];

/// Returns the description of a core; `None` if its kind is unknown.
pub(crate) fn row(core: Core) -> Option<&'static CoreRow> {
    let kind = core.kind()?;
    CORES.iter().find(|row| row.kind == kind)
}

/// Returns whether packages may have kernels for a kind of core.
pub fn takes_packages(kind: CoreKind) -> bool {
    CORES.iter().any(|row| row.kind == kind && row.libraries.is_some())
}

/// Returns the size of a core's fast memory, if it has one.
pub fn fast_memory(core: Core, profile: &Profile) -> Option<usize> {
    core.kind().filter(|kind| kind.has_fast_memory()).map(|_| profile.vtcm_bytes)
}

/// Returns whether a core stores values quantized.
pub fn is_quantized(core: Core) -> bool {
    row(core).is_some_and(|row| row.storage == Storage::Quantized)
}

/// Returns the description of the machine that kernels on `core` get.
pub fn machine(core: Core, profile: &Profile, threads: usize) -> Machine {
    let isa = match udo_simd::isa() {
        udo_simd::Isa::Portable { .. } => Isa::Portable,
        udo_simd::Isa::Avx2 { .. } => Isa::Avx2,
        udo_simd::Isa::Avx512 { .. } => Isa::Avx512,
        udo_simd::Isa::Amx { .. } => Isa::Amx,
    };
    let fast_memory_bytes = fast_memory(core, profile).unwrap_or(0);
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    let fast_math = profile.fast_math;
    Machine { threads, isa, fast_memory_bytes, fast_math, memory_price: 0 }
}

/// Returns the formats in which `core` can store a value, the preferred one first.
///
/// `desc` is the value in the model, `quantized` the same with its encoding if one is known.
pub fn descs_on(
    core: Core,
    desc: &TensorDesc,
    quantized: Option<&TensorDesc>,
    profile: &Profile,
) -> Vec<TensorDesc> {
    let preferred = match row(core).map_or(Storage::Model, |row| row.storage) {
        Storage::Model => None,
        Storage::Profile => {
            let is_f32 = desc.dtype() == Some(DType::F32);
            let half = (is_f32 && profile.gpu_storage == GpuStorage::F16).then_some(DType::F16);
            half.map(|half| desc.with_dtype(half))
        }
        Storage::Quantized => quantized.copied(),
    };
    // Kernels without half precision compute in f32, which represents every f16 and bf16 value.
    let is_half = matches!(desc.dtype(), Some(DType::F16 | DType::Bf16));
    let widened = (is_half && !is_quantized(core)).then(|| desc.with_dtype(DType::F32));
    preferred.into_iter().chain([*desc]).chain(widened).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::{Encoding, Shape};

    #[test]
    fn every_kind_of_core_has_one_row() {
        let kinds: Vec<CoreKind> = CORES.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, CoreKind::ALL);
    }

    #[test]
    fn each_core_prefers_its_own_storage() {
        let desc = TensorDesc::new(DType::F32, Shape::new(&[8]).unwrap());
        let quantized =
            desc.with_dtype(DType::U8).with_encoding(Encoding { scale: 0.1, zero_point: 3 });
        let profile = Profile { gpu_storage: GpuStorage::F16, ..Profile::default() };
        let first = |core| descs_on(core, &desc, Some(&quantized), &profile)[0];
        assert_eq!(first(Core::CPU), desc);
        assert_eq!(first(Core::GPU).dtype(), Some(DType::F16));
        assert_eq!(first(Core::DSP_V68), quantized);
        assert_eq!(
            descs_on(Core::DSP_V68, &desc, None, &profile),
            [desc],
            "no encoding, nothing quantized"
        );
    }
}
