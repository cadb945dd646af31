//! Errors of OpenCL.

use opencl3::error_codes::{ClError, error_text};

/// An error of OpenCL, or of a kernel for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenClError {
    /// The environment disables OpenCL.
    #[error("OpenCL is disabled by UDO_OPENCL")]
    Disabled,
    /// The system has no OpenCL library.
    #[error("no OpenCL library was found")]
    NoLibrary,
    /// The library finds no device.
    #[error("OpenCL found no device")]
    NoDevice,
    /// A call of OpenCL failed.
    #[error("{call} failed: {} ({code})", error_text(*.code))]
    Call {
        /// The name of the function.
        call: &'static str,
        /// OpenCL's error code.
        code: i32,
    },
    /// A kernel has no description of its launches.
    #[error("the kernel does not describe its launches on a device")]
    NoDescription,
    /// A string has characters that OpenCL does not accept.
    #[error("{what} {text:?} has characters that OpenCL does not accept")]
    BadText {
        /// The kind of string.
        what: &'static str,
        /// The string.
        text: String,
    },
    /// The source does not compile. The log refers to lines of the source, whose file name is the
    /// kernel's name.
    #[error("the source of kernel {kernel:?} does not compile on {device}:\n{log}")]
    Build {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// The compiler's output.
        log: String,
    },
    /// The source does not define a kernel with this name.
    #[error("the source does not define kernel {kernel:?}, found {found:?}")]
    NoKernel {
        /// The kernel.
        kernel: String,
        /// The kernels that the source defines.
        found: String,
    },
    /// The number of arguments differs from the number of the kernel's parameters.
    #[error("kernel {kernel:?} has {found} arguments, expected {expected}")]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// The number of arguments.
        found: usize,
        /// The number of parameters.
        expected: usize,
    },
    /// An argument does not fit its parameter.
    #[error("argument {index} of kernel {kernel:?} is {found}, expected {expected}")]
    Argument {
        /// The kernel.
        kernel: String,
        /// The index of the argument.
        index: u32,
        /// The argument.
        found: String,
        /// The parameter.
        expected: String,
    },
    /// The kernel was compiled for a work-group size that does not divide its global size.
    #[error(
        "kernel {kernel:?} requires work groups of {group:?}, which do not divide the global size {global:?}"
    )]
    Group {
        /// The kernel.
        kernel: String,
        /// The work-group size.
        group: [usize; 3],
        /// The global size.
        global: [usize; 3],
    },
}

/// Converts an error code of the function `call`.
pub(super) fn from(call: &'static str) -> impl Fn(ClError) -> OpenClError {
    move |ClError(code)| OpenClError::Call { call, code }
}
