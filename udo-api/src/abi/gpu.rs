//! Structures of GPU kernels: how they describe their launches to the host.

use std::ffi::c_void;
use std::fmt;

use crate::span::Span;

/// The value of a [`GpuArg`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuArgKind {
    /// The buffer of an input.
    Input(u32),
    /// The buffer of an output.
    Output(u32),
    /// A 32-bit signed integer.
    I32(i32),
    /// A 32-bit unsigned integer.
    U32(u32),
    /// A 32-bit floating-point number.
    F32(f32),
    /// A scratch buffer, by its index.
    Scratch(u32),
    /// Local memory of this many bytes.
    Local(usize),
    /// A packed constant, by its index among the kernel's.
    Packed(u32),
}

abi_struct! {
    /// One argument of an OpenCL kernel.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct GpuArg {
        kind: u32,
        reserved: u32,
        bits: u64,
    }
}

impl GpuArg {
    const fn new(kind: u32, bits: u64) -> Self {
        Self { kind, reserved: 0, bits }
    }

    pub(crate) const fn of_word(kind: u32, bits: u32) -> Self {
        // `u64::from` is not const.
        Self::new(kind, bits as u64)
    }

    /// Passes the buffer of input `port`.
    pub const fn input(port: u32) -> Self {
        Self::of_word(1, port)
    }

    /// Passes the buffer of output `port`.
    pub const fn output(port: u32) -> Self {
        Self::of_word(2, port)
    }

    /// Passes a 32-bit signed integer.
    pub const fn i32(value: i32) -> Self {
        Self::of_word(3, value.cast_unsigned())
    }

    /// Passes a 32-bit unsigned integer.
    pub const fn u32(value: u32) -> Self {
        Self::of_word(4, value)
    }

    /// Passes a 32-bit floating-point number.
    pub const fn f32(value: f32) -> Self {
        Self::of_word(5, value.to_bits())
    }

    /// Passes scratch buffer `index`, in the order of
    /// [`KernelInfo::push_scratch`](crate::KernelInfo::push_scratch).
    pub const fn scratch(index: u32) -> Self {
        Self::of_word(6, index)
    }

    /// Passes local memory of `bytes` bytes for each work group.
    pub const fn local(bytes: usize) -> Self {
        Self::new(7, bytes as u64)
    }

    /// Returns the value; `None` for a kind or a number that this version does not know.
    pub fn get(self) -> Option<GpuArgKind> {
        if self.reserved != 0 {
            return None;
        }
        if self.kind == 7 {
            return usize::try_from(self.bits).ok().map(GpuArgKind::Local);
        }
        let word = u32::try_from(self.bits).ok()?;
        Some(match self.kind {
            1 => GpuArgKind::Input(word),
            2 => GpuArgKind::Output(word),
            3 => GpuArgKind::I32(word.cast_signed()),
            4 => GpuArgKind::U32(word),
            5 => GpuArgKind::F32(f32::from_bits(word)),
            6 => GpuArgKind::Scratch(word),
            8 => GpuArgKind::Packed(word),
            _ => return None,
        })
    }
}

impl fmt::Debug for GpuArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

abi_struct! {
    /// One launch of a GPU kernel; its pointers are valid for the call that passes it.
    #[derive(Clone, Copy, Debug)]
    pub struct GpuLaunch {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Whether `local` is set; otherwise the device chooses.
        pub has_local: u32,
        /// OpenCL C.
        pub source: Span,
        /// The name of the kernel in the source.
        pub name: Span,
        /// The build options.
        pub options: Span,
        /// `arg_count` arguments.
        pub args: *const GpuArg,
        /// The number of arguments.
        pub arg_count: usize,
        /// The number of work items along each axis.
        pub global: [usize; 3],
        /// The size of a work group, if `has_local` is 1.
        pub local: [usize; 3],
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// The receiver of a GPU kernel's description: its scratch buffers, then its launches in order.
    #[derive(Debug)]
    pub struct GpuSink {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The context to pass to every function.
        pub ctx: *mut c_void,
        /// `[finalize-time]` Adds a scratch buffer of this size, which all launches of a call share.
        // SAFETY: only a type; callers follow the description above.
        pub scratch: unsafe extern "C" fn(ctx: *mut c_void, bytes: usize) -> u32,
        /// `[finalize-time]` Adds a launch.
        // SAFETY: only a type; callers follow the description above.
        pub launch: unsafe extern "C" fn(ctx: *mut c_void, launch: *const GpuLaunch) -> u32,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// The additional functions of a GPU kernel.
    #[derive(Clone, Copy, Debug)]
    pub struct GpuTable {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// The number of launches that `execute` computes on the host: all of them, or 0.
        pub work_items: u32,
        /// `[finalize-time]` Describes how a device runs the kernel.
        // SAFETY: only a type; callers follow the description above.
        pub info: unsafe extern "C" fn(state: *const c_void, sink: *const GpuSink) -> u32,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}
