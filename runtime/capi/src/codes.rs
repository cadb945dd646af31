//! The numbers of `udo.h`, and what they stand for.

use udo_api::{Core, CoreKind, DType, Layout};
use udo_engine::device::{Contents, Packing, Result, Sharing};
use udo_runtime::compile::{Fallback, Performance};
use udo_runtime::device::Coherence;
use udo_runtime::run::Priority;

use crate::argument::invalid;

/// The kind of an error: one of `UDO_ERROR_*`. Codes are never reused.
pub type ErrorCode = u32;
/// No error.
pub const UDO_ERROR_NONE: u32 = 0;
/// An argument is invalid, or does not match the other arguments.
pub const UDO_ERROR_INVALID_ARGUMENT: u32 = 1;
/// The heap limit, the system or a tensor's memory has too few bytes.
pub const UDO_ERROR_OUT_OF_MEMORY: u32 = 2;
/// The call is not allowed in the current state of the object.
pub const UDO_ERROR_INVALID_STATE: u32 = 3;
/// A file has invalid contents.
pub const UDO_ERROR_INVALID_FILE: u32 = 4;
/// A file or folder is missing, or access is denied.
pub const UDO_ERROR_INVALID_PATH: u32 = 5;
/// The timeout expired.
pub const UDO_ERROR_TIMEOUT: u32 = 6;
/// The device, or this system, does not support it.
pub const UDO_ERROR_UNSUPPORTED: u32 = 7;
/// The device was lost.
pub const UDO_ERROR_DEVICE_LOST: u32 = 8;
/// The result depends on open dimensions.
pub const UDO_ERROR_DYNAMIC_SHAPE: u32 = 9;
/// The device does not exist, or is not available.
pub const UDO_ERROR_DEVICE_UNAVAILABLE: u32 = 10;
/// The shape is not one of the accepted shapes.
pub const UDO_ERROR_SHAPE_MISMATCH: u32 = 11;
/// The name is already in use.
pub const UDO_ERROR_ALREADY_EXISTS: u32 = 12;
/// The object is in use by another call or run.
pub const UDO_ERROR_BUSY: u32 = 13;
/// The caller cancelled it.
pub const UDO_ERROR_CANCELLED: u32 = 14;
/// A bug in this library.
pub const UDO_ERROR_INTERNAL: u32 = 15;
/// The worker process of a contained package ended or did not answer in time. The next call starts
/// a new one.
pub const UDO_ERROR_WORKER_LOST: u32 = 16;

/// The kind of a device's cores: one of `UDO_DEVICE_*`.
pub type DeviceKind = u32;
/// The host's processor.
pub const UDO_DEVICE_CPU: u32 = 1;
/// A GPU.
pub const UDO_DEVICE_GPU: u32 = 2;
/// A digital signal processor.
pub const UDO_DEVICE_DSP: u32 = 3;
/// An HTA (hardware tensor accelerator).
pub const UDO_DEVICE_HTA: u32 = 4;

/// The type of elements: one of `UDO_DTYPE_*`.
pub type DTypeCode = u32;
/// IEEE 754 binary32.
pub const UDO_DTYPE_F32: u32 = 1;
/// IEEE 754 binary64.
pub const UDO_DTYPE_F64: u32 = 2;
/// IEEE 754 binary16.
pub const UDO_DTYPE_F16: u32 = 3;
/// The upper half of a binary32.
pub const UDO_DTYPE_BF16: u32 = 4;
/// Signed 8-bit integer.
pub const UDO_DTYPE_I8: u32 = 5;
/// Signed 16-bit integer.
pub const UDO_DTYPE_I16: u32 = 6;
/// Signed 32-bit integer.
pub const UDO_DTYPE_I32: u32 = 7;
/// Signed 64-bit integer.
pub const UDO_DTYPE_I64: u32 = 8;
/// Unsigned 8-bit integer.
pub const UDO_DTYPE_U8: u32 = 9;
/// Unsigned 16-bit integer.
pub const UDO_DTYPE_U16: u32 = 10;
/// Unsigned 32-bit integer.
pub const UDO_DTYPE_U32: u32 = 11;
/// Unsigned 64-bit integer.
pub const UDO_DTYPE_U64: u32 = 12;
/// A bool: one byte, 0 or 1.
pub const UDO_DTYPE_BOOL: u32 = 13;

/// The state of a model's cache: one of `UDO_CACHE_*`.
pub type CacheOutcomeCode = u32;
/// The model has no cache, or another user may write its folder, so that it is not used.
pub const UDO_CACHE_NONE: u32 = 0;
/// The cache had no file for the model.
pub const UDO_CACHE_MISS: u32 = 1;
/// The cache had a file for the model.
pub const UDO_CACHE_HIT: u32 = 2;
/// The cache's file was damaged, outdated or for something else, and was rebuilt.
pub const UDO_CACHE_REBUILT: u32 = 3;
/// The prepacked weights in the model file are for another machine or library version, and were not
/// used.
pub const UDO_CACHE_UNFIT: u32 = 4;
/// The model is loaded, but the cache's file could not be written.
pub const UDO_CACHE_SAVE_FAILED: u32 = 5;

/// The order of dimensions: one of `UDO_LAYOUT_*`.
pub type LayoutCode = u32;
/// The order of the model.
pub const UDO_LAYOUT_AS_GIVEN: u32 = 0;
/// Batch, channels, rows, columns.
pub const UDO_LAYOUT_NCHW: u32 = 1;
/// Batch, rows, columns, channels.
pub const UDO_LAYOUT_NHWC: u32 = 2;

/// How batches are packed: one of `UDO_PACKING_*`.
pub type PackingCode = u32;
/// Batches follow each other.
pub const UDO_PACKING_1N: u32 = 0;
/// Groups of two batches, for elements of two bytes.
pub const UDO_PACKING_2N: u32 = 1;
/// Groups of four batches, for elements of one byte.
pub const UDO_PACKING_4N: u32 = 2;

/// The initial contents of memory: one of `UDO_CONTENTS_*`.
pub type ContentsCode = u32;
/// Undefined.
pub const UDO_CONTENTS_UNSET: u32 = 0;
/// Zeros.
pub const UDO_CONTENTS_ZEROS: u32 = 1;

/// Whether other processes may use memory: one of `UDO_SHARING_*`.
pub type SharingCode = u32;
/// Other processes cannot use the memory.
pub const UDO_SHARING_PRIVATE: u32 = 0;
/// Other processes can use the memory through a file descriptor. They may write to it at any time
/// after the first export, so runs copy it.
pub const UDO_SHARING_EXPORTABLE: u32 = 1;
/// Other processes can use the memory, and the program promises that nobody accesses its bytes
/// during a run, copy or mapping of this library, neither through the descriptor nor through a
/// mapping or another import of it. Runs therefore use it in place.
pub const UDO_SHARING_EXCLUSIVE: u32 = 2;

/// The access that a mapping allows: one of `UDO_MAP_*`.
pub type MapAccess = u32;
/// Read access.
pub const UDO_MAP_READ: u32 = 1;
/// Read and write access.
pub const UDO_MAP_WRITE: u32 = 2;

/// Who keeps the caches of host and device coherent while memory is mapped: one of `UDO_CACHE_MAINTENANCE_*`.
pub type MapMaintenance = u32;
/// The mapping: it invalidates the cache when it starts, and flushes it when it is released.
pub const UDO_CACHE_MAINTENANCE_BY_MAP: u32 = 0;
/// The program, with `udo_map_flush` and `udo_map_invalidate`.
pub const UDO_CACHE_MAINTENANCE_BY_PROGRAM: u32 = 1;

/// The handling of a node that none of the cores supports: one of `UDO_FALLBACK_*`.
pub type FallbackCode = u32;
/// Refuse the model.
pub const UDO_FALLBACK_OFF: u32 = 0;
/// Run the node on the CPU.
pub const UDO_FALLBACK_CPU: u32 = 1;
/// Run the node on the GPU.
pub const UDO_FALLBACK_GPU: u32 = 2;
/// Run the node on the DSP.
pub const UDO_FALLBACK_DSP: u32 = 3;
/// Run the node on the HTA.
pub const UDO_FALLBACK_HTA: u32 = 4;

/// Whether host and device see each other's writes at once: one of `UDO_COHERENCE_*`.
pub type CoherenceCode = u32;
/// Host and device see each other's writes at once.
pub const UDO_COHERENCE_COHERENT: u32 = 0;
/// Writes become visible through flushes and invalidations of cache lines.
pub const UDO_COHERENCE_NON_COHERENT: u32 = 1;

/// Which packages are contained in addition to the listed ones: one of `UDO_CONTAIN_*`.
pub type ContainCode = u32;
/// No others.
pub const UDO_CONTAIN_LISTED: u32 = 0;
/// Packages that are not signed by a trusted key. Without containment they are refused if any keys
/// are trusted.
pub const UDO_CONTAIN_UNSIGNED: u32 = 1;
/// All packages.
pub const UDO_CONTAIN_ALL: u32 = 2;

/// The priority of a run: one of `UDO_PRIORITY_*`.
pub type PriorityCode = u32;
/// For a run, the priority of the model; for a model, medium.
pub const UDO_PRIORITY_NONE: u32 = 0;
/// Start when nothing else waits.
pub const UDO_PRIORITY_LOW: u32 = 1;
/// Normal priority.
pub const UDO_PRIORITY_MEDIUM: u32 = 2;
/// Start before all others.
pub const UDO_PRIORITY_HIGH: u32 = 3;

/// How much of the host runs may use: one of `UDO_PERFORMANCE_*`.
pub type PerformanceCode = u32;
/// As the other options say.
pub const UDO_PERFORMANCE_NONE: u32 = 0;
/// One thread, which sleeps when it is idle.
pub const UDO_PERFORMANCE_LOW: u32 = 1;
/// Half of the processors.
pub const UDO_PERFORMANCE_MEDIUM: u32 = 2;
/// All processors.
pub const UDO_PERFORMANCE_HIGH: u32 = 3;
/// All processors. Idle threads keep looking for work between runs.
pub const UDO_PERFORMANCE_EXTREME: u32 = 4;

/// The precision of floating-point values between operations: one of `UDO_PRECISION_*`.
pub type PrecisionCode = u32;
/// The precision of the model.
pub const UDO_PRECISION_FULL: u32 = 0;
/// Half precision (16 bits): takes half the memory and rounds values.
pub const UDO_PRECISION_HALF: u32 = 1;

/// Stands for an omitted input in place of a tensor's number.
pub const UDO_LEFT_OUT: u32 = 0xffff_ffff;

/// The kind of an attribute's value: one of `UDO_ATTRIBUTE_*`.
pub type AttributeKind = u32;
/// An integer, a bool, or the number of a choice.
pub const UDO_ATTRIBUTE_INT: u32 = 1;
/// A floating-point number.
pub const UDO_ATTRIBUTE_FLOAT: u32 = 2;
/// A string.
pub const UDO_ATTRIBUTE_TEXT: u32 = 3;
/// Integers.
pub const UDO_ATTRIBUTE_INTS: u32 = 4;
/// Floating-point numbers.
pub const UDO_ATTRIBUTE_FLOATS: u32 = 5;

/// Finds what a number stands for in a table of all of them.
fn find<T: Copy>(what: &str, code: u32, table: &[(u32, T)]) -> Result<T> {
    let found = table.iter().find(|(number, _)| *number == code);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let known: Vec<_> = table.iter().map(|(number, _)| number.to_string()).collect();
        invalid(format!("{what} is {code}; expected one of {}", known.join(", ")))
    })
}

const KINDS: [(u32, CoreKind); 4] = [
    (UDO_DEVICE_CPU, CoreKind::Cpu),
    (UDO_DEVICE_GPU, CoreKind::Gpu),
    (UDO_DEVICE_DSP, CoreKind::Dsp),
    (UDO_DEVICE_HTA, CoreKind::Hta),
];

pub(crate) fn kind(code: DeviceKind) -> Result<CoreKind> {
    find("kind", code, &KINDS)
}

pub(crate) fn kind_code(kind: CoreKind) -> DeviceKind {
    KINDS.iter().find(|(_, known)| *known == kind).map_or(0, |&(code, _)| code)
}

const DTYPES: [(u32, DType); 13] = [
    (UDO_DTYPE_F32, DType::F32),
    (UDO_DTYPE_F64, DType::F64),
    (UDO_DTYPE_F16, DType::F16),
    (UDO_DTYPE_BF16, DType::Bf16),
    (UDO_DTYPE_I8, DType::I8),
    (UDO_DTYPE_I16, DType::I16),
    (UDO_DTYPE_I32, DType::I32),
    (UDO_DTYPE_I64, DType::I64),
    (UDO_DTYPE_U8, DType::U8),
    (UDO_DTYPE_U16, DType::U16),
    (UDO_DTYPE_U32, DType::U32),
    (UDO_DTYPE_U64, DType::U64),
    (UDO_DTYPE_BOOL, DType::Bool),
];

pub(crate) fn dtype(code: DTypeCode) -> Result<DType> {
    find("dtype", code, &DTYPES)
}

pub(crate) fn dtype_code(dtype: DType) -> DTypeCode {
    u32::from(dtype.code())
}

pub(crate) fn layout(code: LayoutCode) -> Result<Layout> {
    let all = [
        (UDO_LAYOUT_AS_GIVEN, Layout::AsGiven),
        (UDO_LAYOUT_NCHW, Layout::Nchw),
        (UDO_LAYOUT_NHWC, Layout::Nhwc),
    ];
    find("layout", code, &all)
}

pub(crate) fn packing(code: PackingCode) -> Result<Packing> {
    let all = [
        (UDO_PACKING_1N, Packing::N1),
        (UDO_PACKING_2N, Packing::N2),
        (UDO_PACKING_4N, Packing::N4),
    ];
    find("packing", code, &all)
}

pub(crate) fn contents(code: ContentsCode) -> Result<Contents> {
    let all = [(UDO_CONTENTS_UNSET, Contents::Unset), (UDO_CONTENTS_ZEROS, Contents::Zeros)];
    find("contents", code, &all)
}

pub(crate) fn sharing(code: SharingCode) -> Result<Sharing> {
    let all = [
        (UDO_SHARING_PRIVATE, Sharing::Private),
        (UDO_SHARING_EXPORTABLE, Sharing::Exportable),
        (UDO_SHARING_EXCLUSIVE, Sharing::Exclusive),
    ];
    find("sharing", code, &all)
}

/// The access that a mapping allows.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    Read,
    Write,
}

pub(crate) fn access(code: MapAccess) -> Result<Access> {
    find("access", code, &[(UDO_MAP_READ, Access::Read), (UDO_MAP_WRITE, Access::Write)])
}

/// Who keeps host and device in step.
#[derive(Clone, Copy)]
pub(crate) enum CacheMaintenance {
    ByMap,
    ByProgram,
}

pub(crate) fn cache_maintenance(code: MapMaintenance) -> Result<CacheMaintenance> {
    let all = [
        (UDO_CACHE_MAINTENANCE_BY_MAP, CacheMaintenance::ByMap),
        (UDO_CACHE_MAINTENANCE_BY_PROGRAM, CacheMaintenance::ByProgram),
    ];
    find("cache maintenance", code, &all)
}

pub(crate) fn attribute_kind(code: AttributeKind) -> Result<AttributeKind> {
    let all = [
        UDO_ATTRIBUTE_INT,
        UDO_ATTRIBUTE_FLOAT,
        UDO_ATTRIBUTE_TEXT,
        UDO_ATTRIBUTE_INTS,
        UDO_ATTRIBUTE_FLOATS,
    ];
    find("the kind of an attribute", code, &all.map(|kind| (kind, kind)))
}

pub(crate) fn fallback(code: FallbackCode) -> Result<Fallback> {
    let all = [
        (UDO_FALLBACK_OFF, Fallback::Off),
        (UDO_FALLBACK_CPU, Fallback::To(Core::CPU)),
        (UDO_FALLBACK_GPU, Fallback::To(Core::GPU)),
        (UDO_FALLBACK_DSP, Fallback::To(Core::DSP_V68)),
        (UDO_FALLBACK_HTA, Fallback::To(Core::HTA)),
    ];
    find("fallback", code, &all)
}

pub(crate) fn coherence(code: CoherenceCode) -> Result<Coherence> {
    let all = [
        (UDO_COHERENCE_COHERENT, Coherence::Coherent),
        (UDO_COHERENCE_NON_COHERENT, Coherence::NonCoherent { seed: None }),
    ];
    find("coherence", code, &all)
}

/// Which packages are contained beside those that are listed as such.
#[derive(Clone, Copy)]
pub(crate) enum Contain {
    Listed,
    Unsigned,
    All,
}

pub(crate) fn contain(code: ContainCode) -> Result<Contain> {
    let all = [
        (UDO_CONTAIN_LISTED, Contain::Listed),
        (UDO_CONTAIN_UNSIGNED, Contain::Unsigned),
        (UDO_CONTAIN_ALL, Contain::All),
    ];
    find("contain", code, &all)
}

pub(crate) fn priority(code: PriorityCode) -> Result<Option<Priority>> {
    let all = [
        (UDO_PRIORITY_NONE, None),
        (UDO_PRIORITY_LOW, Some(Priority::Low)),
        (UDO_PRIORITY_MEDIUM, Some(Priority::Medium)),
        (UDO_PRIORITY_HIGH, Some(Priority::High)),
    ];
    find("priority", code, &all)
}

pub(crate) fn performance(code: PerformanceCode) -> Result<Performance> {
    let all = [
        (UDO_PERFORMANCE_NONE, Performance::None),
        (UDO_PERFORMANCE_LOW, Performance::Low),
        (UDO_PERFORMANCE_MEDIUM, Performance::Medium),
        (UDO_PERFORMANCE_HIGH, Performance::High),
        (UDO_PERFORMANCE_EXTREME, Performance::Extreme),
    ];
    find("performance", code, &all)
}

/// In how many bits values are stored.
#[derive(Clone, Copy)]
pub(crate) enum Precision {
    Full,
    Half,
}

pub(crate) fn precision(code: PrecisionCode) -> Result<Precision> {
    let all = [(UDO_PRECISION_FULL, Precision::Full), (UDO_PRECISION_HALF, Precision::Half)];
    find("precision", code, &all)
}

#[cfg(test)]
mod tests {
    use udo_graph::error::ERROR_CODES;
    use udo_runtime::device::ErrorCode as Code;

    use super::*;

    #[test]
    fn numbers_are_those_of_the_runtime() {
        for (code, dtype) in DTYPES {
            assert_eq!(code, u32::from(dtype.code()), "{dtype}");
        }
        let errors = [
            (UDO_ERROR_INVALID_ARGUMENT, Code::InvalidArgument),
            (UDO_ERROR_OUT_OF_MEMORY, Code::OutOfMemory),
            (UDO_ERROR_INVALID_STATE, Code::InvalidState),
            (UDO_ERROR_INVALID_FILE, Code::InvalidFile),
            (UDO_ERROR_INVALID_PATH, Code::InvalidPath),
            (UDO_ERROR_TIMEOUT, Code::Timeout),
            (UDO_ERROR_UNSUPPORTED, Code::Unsupported),
            (UDO_ERROR_DEVICE_LOST, Code::DeviceLost),
            (UDO_ERROR_DYNAMIC_SHAPE, Code::DynamicShape),
            (UDO_ERROR_DEVICE_UNAVAILABLE, Code::DeviceUnavailable),
            (UDO_ERROR_SHAPE_MISMATCH, Code::ShapeMismatch),
            (UDO_ERROR_ALREADY_EXISTS, Code::AlreadyExists),
            (UDO_ERROR_BUSY, Code::Busy),
            (UDO_ERROR_CANCELLED, Code::Cancelled),
            (UDO_ERROR_INTERNAL, Code::Internal),
            (UDO_ERROR_WORKER_LOST, Code::WorkerLost),
        ];
        assert_eq!(errors.map(|(_, code)| code), ERROR_CODES);
        assert_eq!(errors.map(|(number, _)| number), ERROR_CODES.map(u32::from));
    }
}
