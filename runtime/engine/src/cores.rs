//! Cores: what each stores, how fast its own memory is, and what a value looks like there.

#[macro_use]
pub mod convert;
mod format;
mod memory;
pub mod on_values;
pub mod opencl;
pub mod relayout;
pub mod trips;
pub mod upkeep;

use udo_api::{Core, CoreKind, DType, FastMath, Isa, TensorDesc};
use udo_host::Machine;

pub use format::Format;
pub use memory::Memory;
pub use memory::PerMemory;

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

/// Which nodes emulated cores take of those that they have kernels for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceLimits {
    /// All, but for what devices of their architecture cannot do.
    #[default]
    OfKernels,
    /// Those that devices of their architecture take by what is documented of them.
    Documented,
}

/// The properties of the emulated cores, and what all cores may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Bytes of the DSP's fast memory (VTCM).
    pub vtcm_bytes: usize,
    /// How the GPU stores floating-point values.
    pub gpu_storage: GpuStorage,
    /// Whether GPU kernels may run on an OpenCL device.
    pub opencl: OpenCl,
    /// What kernels of all cores may do less exactly than the model says.
    pub fast_math: FastMath,
    /// Which nodes they take.
    pub limits: DeviceLimits,
}

impl Default for Profile {
    fn default() -> Self {
        let (gpu_storage, opencl) = (GpuStorage::F32, OpenCl::Auto);
        let (fast_math, limits) = (FastMath::None, DeviceLimits::OfKernels);
        Self { vtcm_bytes: 4 << 20, gpu_storage, opencl, fast_math, limits }
    }
}

/// What the host knows of one kind of core.
#[derive(Debug)]
pub(crate) struct CoreRow {
    /// The kind; its name and architectures stand in the contract.
    pub(crate) kind: CoreKind,
    /// The memory that values lie in there.
    memory: Memory,
    /// How values are stored there.
    storage: Storage,
    /// What libraries of kernels for it are called; none if it takes no user operators.
    pub(crate) libraries: Option<Libraries>,
}

/// How values are stored on a core, where its kernels take that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// As in the model.
    Model,
    /// Floating-point values as the profile says.
    Profile,
    /// Quantized, where the model states an encoding.
    Quantized,
}

/// What libraries of a package for a core are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Libraries {
    /// Behind the package's name.
    pub(crate) suffix: &'static str,
    /// The first architecture whose operators share a library; below it, each operator has its own.
    pub(crate) one_op_below: u16,
}

impl Libraries {
    const fn all_ops(suffix: &'static str) -> Self {
        Self { suffix, one_op_below: 0 }
    }
}

/// Every kind of core.
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

/// What the host knows of a core; nothing if its kind is not known.
pub(crate) fn row(core: Core) -> Option<&'static CoreRow> {
    let kind = core.kind()?;
    CORES.iter().find(|row| row.kind == kind)
}

/// Whether packages may have kernels for cores of a kind.
pub fn takes_packages(kind: CoreKind) -> bool {
    CORES.iter().any(|row| row.kind == kind && row.libraries.is_some())
}

/// Bytes of a core's fast memory, if it has one.
pub fn fast_memory(core: Core, profile: &Profile) -> Option<usize> {
    core.kind().filter(|kind| kind.has_fast_memory()).map(|_| profile.vtcm_bytes)
}

/// Whether values are stored quantized on a core.
pub fn is_quantized(core: Core) -> bool {
    row(core).is_some_and(|row| row.storage == Storage::Quantized)
}

/// What kernels on `core` are told of where they run.
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

/// How a value can be stored on `core`, the preferred way first.
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
    // What kernels do not compute in halves, they do in f32, which holds every half.
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
