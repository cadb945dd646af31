//! GPU kernels: OpenCL C source, how it is launched, and the same kernel as one Rust work item.

use crate::abi::{Buffers, GpuArg, KernelInfo, MAX_GPU_ARGS, RawStr, WorkItem};
use crate::{AcceptCx, Error, ExecError, FinalizeCx};

/// The Rust form of one work item: no barriers, no local memory.
pub type WorkItemFn<K> = fn(&K, WorkItem, &Buffers<'_>) -> Result<(), ExecError>;

/// One operator on the GPU. The execute workflow is the runtime's.
pub trait GpuKernel: Sized + Send + Sync + 'static {
    /// The same kernel as a function of one work item, for an emulated GPU.
    const WORK_ITEM: Option<WorkItemFn<Self>> = None;

    /// How many leading steps of the node's epilogue the kernel does; as [`Kernel::accept`](crate::Kernel::accept).
    ///
    /// # Errors
    /// The kernel does not take the node at all; the message says why.
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        let _ = cx;
        Ok(0)
    }

    /// Checks the node and computes what the launch needs. May allocate.
    ///
    /// # Errors
    /// Shapes or parameters that the kernel does not take; the message says which.
    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error>;

    /// Says how a device runs the kernel: source, arguments, global and local size.
    ///
    /// # Errors
    /// More arguments than a kernel takes, or a size of 0.
    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error>;
}

impl KernelInfo {
    pub(crate) const EMPTY: Self = Self {
        source: RawStr::EMPTY,
        name: RawStr::EMPTY,
        options: RawStr::EMPTY,
        args: [GpuArg::NONE; MAX_GPU_ARGS],
        arg_count: 0,
        has_local: 0,
        global: [1; 3],
        local: [1; 3],
        reserved: [0; 4],
    };

    /// The OpenCL C source, the name of the kernel in it, and the build options.
    ///
    /// The runtime adds `-DUDO_STORAGE=float` or `-DUDO_STORAGE=half`, and the macros
    /// `UDO_LOAD(p, i)` and `UDO_STORE(p, i, v)`, so that one source serves both kinds of storage.
    pub fn set_source(&mut self, source: &'static str, name: &'static str, options: &'static str) {
        self.source = RawStr::new(source);
        self.name = RawStr::new(name);
        self.options = RawStr::new(options);
    }

    /// Adds the next argument.
    ///
    /// # Errors
    /// More than 24 arguments.
    pub fn push_arg(&mut self, arg: GpuArg) -> Result<(), Error> {
        let Some(slot) = self.args.get_mut(self.arg_count as usize) else {
            return Err(Error::new(format!("a GPU kernel takes at most {MAX_GPU_ARGS} arguments")));
        };
        *slot = arg;
        self.arg_count += 1;
        Ok(())
    }

    /// How many work items there are along each axis.
    pub const fn set_global_size(&mut self, size: [usize; 3]) {
        self.global = size;
    }

    /// How many work items make a group along each axis; the device's choice where not set.
    pub const fn set_local_size(&mut self, size: [usize; 3]) {
        self.local = size;
        self.has_local = 1;
    }

    /// The OpenCL C source.
    pub const fn source(&self) -> &'static str {
        self.source.get()
    }

    /// The name of the kernel in the source.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// The build options.
    pub const fn options(&self) -> &'static str {
        self.options.get()
    }

    /// The arguments in order.
    pub fn args(&self) -> &[GpuArg] {
        self.args.get(..self.arg_count as usize).unwrap_or(&[])
    }

    /// How many work items there are along each axis.
    pub const fn global_size(&self) -> [usize; 3] {
        self.global
    }

    /// How many work items make a group along each axis, if the kernel cares.
    pub fn local_size(&self) -> Option<[usize; 3]> {
        (self.has_local != 0).then_some(self.local)
    }
}
