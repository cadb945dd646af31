//! What crosses of GPU kernels: how they tell the host what a device runs.

use std::ffi::c_void;
use std::fmt;

use crate::span::Span;

/// What a [`GpuArg`] passes.
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
    /// A 32-bit real number.
    F32(f32),
    /// A buffer of scratch, by its number.
    Scratch(u32),
    /// So many bytes of local memory.
    Local(usize),
    /// A packed constant, by its number among the kernel's.
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
    const fn of(kind: u32, bits: u64) -> Self {
        Self { kind, reserved: 0, bits }
    }

    pub(crate) const fn of_word(kind: u32, bits: u32) -> Self {
        // `u64::from` is not const.
        Self::of(kind, bits as u64)
    }

    /// The buffer of input `port`.
    pub const fn input(port: u32) -> Self {
        Self::of_word(1, port)
    }

    /// The buffer of output `port`.
    pub const fn output(port: u32) -> Self {
        Self::of_word(2, port)
    }

    /// A 32-bit signed integer.
    pub const fn i32(value: i32) -> Self {
        Self::of_word(3, value.cast_unsigned())
    }

    /// A 32-bit unsigned integer.
    pub const fn u32(value: u32) -> Self {
        Self::of_word(4, value)
    }

    /// A 32-bit real number.
    pub const fn f32(value: f32) -> Self {
        Self::of_word(5, value.to_bits())
    }

    /// Scratch `index`, counted in the order of [`KernelInfo::push_scratch`](crate::KernelInfo::push_scratch).
    pub const fn scratch(index: u32) -> Self {
        Self::of_word(6, index)
    }

    /// Local memory of `bytes` bytes, which each group has for itself.
    pub const fn local(bytes: usize) -> Self {
        Self::of(7, bytes as u64)
    }

    /// What it passes, or nothing for a kind or a number that this version does not know.
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
    /// One launch of a GPU kernel; what it points to is valid for the call that passes it.
    #[derive(Clone, Copy, Debug)]
    pub struct GpuLaunch {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Whether `local` means something; the device chooses where it does not.
        pub has_local: u32,
        /// OpenCL C.
        pub source: Span,
        /// The name of the kernel in the source.
        pub name: Span,
        /// The build options.
        pub options: Span,
        /// `arg_count` arguments.
        pub args: *const GpuArg,
        /// How many arguments the kernel takes.
        pub arg_count: usize,
        /// How many work items there are along each axis.
        pub global: [usize; 3],
        /// How many of them make a group, where `has_local` is 1.
        pub local: [usize; 3],
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// Where a GPU kernel says what a device runs: its scratch, then its launches in order.
    #[derive(Debug)]
    pub struct GpuSink {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// Handed back to every function.
        pub ctx: *mut c_void,
        /// `[finalize-time]` Notes the next scratch: a buffer of so many bytes that all launches of a call share.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub scratch: unsafe extern "C" fn(ctx: *mut c_void, bytes: usize) -> u32,
        /// `[finalize-time]` Notes the next launch.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub launch: unsafe extern "C" fn(ctx: *mut c_void, launch: *const GpuLaunch) -> u32,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// What a GPU kernel has beyond an ordinary one.
    #[derive(Clone, Copy, Debug)]
    pub struct GpuTable {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// How many launches `execute` computes on the host: all of them, or 0.
        pub work_items: u32,
        /// `[finalize-time]` Says what a device runs.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub info: unsafe extern "C" fn(state: *const c_void, sink: *const GpuSink) -> u32,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}
