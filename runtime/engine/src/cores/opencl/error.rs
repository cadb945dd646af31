//! Why there is no OpenCL device, or why a kernel does not run on it.

use opencl3::error_codes::{ClError, error_text};

/// What went wrong between the runtime and OpenCL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenClError {
    /// The environment says not to look.
    #[error("OpenCL is switched off by UDO_OPENCL")]
    Disabled,
    /// The system has no OpenCL library.
    #[error("no OpenCL library can be opened")]
    NoLibrary,
    /// The library knows no device.
    #[error("OpenCL finds no device")]
    NoDevice,
    /// OpenCL refused a call.
    #[error("{call} answers {} ({code})", error_text(*.code))]
    Call {
        /// What was called.
        call: &'static str,
        /// OpenCL's number for the reason.
        code: i32,
    },
    /// A kernel does not say how a device runs it.
    #[error("the kernel does not say how a device runs it")]
    NoDescription,
    /// A text has characters that OpenCL does not take.
    #[error("{what} {text:?} cannot be handed to OpenCL")]
    BadText {
        /// Which text.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// The source does not compile. Lines are those of the source, which goes by its kernel's name.
    #[error("the source of kernel {kernel:?} does not build on {device}:\n{log}")]
    Build {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// What the compiler said.
        log: String,
    },
    /// The source holds no kernel of that name.
    #[error("the source has no kernel {kernel:?}, it has {found:?}")]
    NoKernel {
        /// The kernel.
        kernel: String,
        /// The kernels that it holds.
        found: String,
    },
    /// The kernel takes more or fewer arguments than it is given.
    #[error("kernel {kernel:?} takes {wanted} arguments, and is given {found}")]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// How many it is given.
        found: usize,
        /// How many it takes.
        wanted: usize,
    },
    /// An argument does not fit.
    #[error("argument {index} of kernel {kernel:?} is {found}, wanted {wanted}")]
    Argument {
        /// The kernel.
        kernel: String,
        /// Which argument, from 0.
        index: u32,
        /// What the runtime was told to pass.
        found: String,
        /// What the kernel takes.
        wanted: String,
    },
    /// The kernel is compiled for groups that do not divide its work items.
    #[error(
        "kernel {kernel:?} wants groups of {group:?}, which do not divide {global:?} work items"
    )]
    Group {
        /// The kernel.
        kernel: String,
        /// The size of a group.
        group: [usize; 3],
        /// The work items.
        global: [usize; 3],
    },
}

/// Names the call that an error of OpenCL comes from.
pub(super) fn from(call: &'static str) -> impl Fn(ClError) -> OpenClError {
    move |ClError(code)| OpenClError::Call { call, code }
}
