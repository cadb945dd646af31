//! The table of all ABI structures, and a hash of their layouts that host and package compare.

use super::execute::{ExecArgs, NeededBytes, NeedsArgs, ParallelTable, TensorArg, Workspace};
use super::finalize::{
    AcceptArgs, EpilogueStep, FinalizeArgs, Finalized, HostTable, PackArgs, PackRequest,
    PackSource, Tie, Work,
};
use super::gpu::{GpuArg, GpuLaunch, GpuSink, GpuTable};
use super::kernel::{InPlace, KernelDef, KernelVTable, PortRule};
use super::node::{ErrorSink, InferArgs, NodeArgs, ParamValue};
use super::package::{LibraryRef, PackageV1};
use super::schema::{CoreTypes, OpDef, OpSchema, Param, Port};
use super::value::Value;
use super::version::{ABI_VERSION, AbiVersion};
use crate::core::Core;
use crate::encoding::{AxisEncoding, Encoding};
use crate::guard::GuardReport;
use crate::layout::{Layout, fingerprint};
use crate::shape::Shape;
use crate::span::{RawStr, Slice, Span, Table};
use crate::tensor::TensorDesc;

/// The layout of each structure of the ABI, for the fingerprint and the snapshot test.
pub const LAYOUTS: &[Layout] = &[
    RawStr::LAYOUT,
    AbiVersion::LAYOUT,
    <Slice<u8>>::LAYOUT,
    <Table<u8>>::LAYOUT,
    Span::LAYOUT,
    Value::LAYOUT,
    Core::LAYOUT,
    Shape::LAYOUT,
    Encoding::LAYOUT,
    AxisEncoding::LAYOUT,
    TensorDesc::LAYOUT,
    Port::LAYOUT,
    Param::LAYOUT,
    CoreTypes::LAYOUT,
    OpSchema::LAYOUT,
    OpDef::LAYOUT,
    PortRule::LAYOUT,
    InPlace::LAYOUT,
    Workspace::LAYOUT,
    KernelDef::LAYOUT,
    GuardReport::LAYOUT,
    ErrorSink::LAYOUT,
    ParamValue::LAYOUT,
    NodeArgs::LAYOUT,
    InferArgs::LAYOUT,
    PackSource::LAYOUT,
    PackArgs::LAYOUT,
    PackRequest::LAYOUT,
    Tie::LAYOUT,
    Work::LAYOUT,
    HostTable::LAYOUT,
    EpilogueStep::LAYOUT,
    AcceptArgs::LAYOUT,
    FinalizeArgs::LAYOUT,
    Finalized::LAYOUT,
    NeedsArgs::LAYOUT,
    NeededBytes::LAYOUT,
    TensorArg::LAYOUT,
    ParallelTable::LAYOUT,
    ExecArgs::LAYOUT,
    GpuArg::LAYOUT,
    GpuLaunch::LAYOUT,
    GpuSink::LAYOUT,
    GpuTable::LAYOUT,
    KernelVTable::LAYOUT,
    LibraryRef::LAYOUT,
    PackageV1::LAYOUT,
];

/// The hash of all [`LAYOUTS`], which libraries carry. It does not cover the meaning of numbers: element types,
/// statuses, cores and flags are only ever added, and a package that uses a new one declares it by its version.
pub const FINGERPRINT: u64 = fingerprint(LAYOUTS);

/// The fingerprints of this major version's earlier minor versions, from 0 on.
const EARLIER_FINGERPRINTS: &[u64] = &[];

impl AbiVersion {
    /// Returns the fingerprint of libraries of this version; `None` if this crate does not support the version.
    pub const fn fingerprint(self) -> Option<u64> {
        if !ABI_VERSION.reads(self) {
            return None;
        }
        if self.minor == ABI_VERSION.minor {
            return Some(FINGERPRINT);
        }
        let minor = self.minor as usize;
        if minor < EARLIER_FINGERPRINTS.len() { Some(EARLIER_FINGERPRINTS[minor]) } else { None }
    }
}

const _: () = assert!(
    EARLIER_FINGERPRINTS.len() == ABI_VERSION.minor as usize,
    "one for each earlier minor version"
);

// A tensor takes two cache lines, and so do the arguments of a call.
const _: () = assert!(size_of::<ExecArgs>() <= 128);
const _: () = assert!(size_of::<TensorArg>() == 128);
const _: () = assert!(size_of::<usize>() == 8, "the ABI is defined for 64-bit targets");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_this_one_cannot_read_have_no_fingerprint() {
        assert_eq!(ABI_VERSION.fingerprint(), Some(FINGERPRINT));
        let newer = AbiVersion { minor: ABI_VERSION.minor + 1, ..ABI_VERSION };
        assert_eq!(newer.fingerprint(), None);
    }
}
