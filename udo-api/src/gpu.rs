//! GPU kernels: OpenCL C source, its launches, and the same kernel as Rust work items.

use std::borrow::Cow;

use crate::abi::GpuArg;
use crate::author::{AcceptCx, Buffers, FinalizeCx, Packed, WorkItem};
use crate::error::{Error, ExecError};

/// One work item as a Rust function, without barriers and local memory.
pub type WorkItemFn<K> = fn(&K, WorkItem, &Buffers<'_>) -> Result<(), ExecError>;

/// An operator's kernel on the GPU. The runtime executes it.
///
/// ```
/// use udo_api::{
///     Buffers, Core, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
///     WorkItem, WorkItemFn,
/// };
///
/// const KERNEL: KernelDef = KernelDef::gpu::<LeakyReluGpu>("LeakyRelu");
///
/// const SOURCE: &str = "
///     kernel void leaky_relu(global const UDO_STORAGE *x, global UDO_STORAGE *y, float alpha) {
///         size_t i = get_global_id(0);
///         float v = UDO_LOAD(x, i);
///         UDO_STORE(y, i, v < 0 ? alpha * v : v);
///     }";
///
/// struct LeakyReluGpu {
///     alpha: f32,
///     len: usize,
/// }
///
/// impl GpuKernel for LeakyReluGpu {
///     const WORK_ITEM: Option<WorkItemFn<Self>> = Some(Self::work_item);
///
///     fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
///         Ok(Self { alpha: cx.float32("alpha")?, len: cx.input(0)?.len() })
///     }
///
///     fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
///         let args = [GpuArg::input(0), GpuArg::output(0), GpuArg::f32(self.alpha)];
///         let launch = Launch::new(SOURCE, "leaky_relu").args(args);
///         info.push_launch(launch.global_size([self.len, 1, 1]));
///         Ok(())
///     }
/// }
///
/// impl LeakyReluGpu {
///     fn work_item(&self, item: WorkItem, io: &Buffers<'_>) -> Result<(), ExecError> {
///         let [i, ..] = item.global_id;
///         let v = io.load(0, i)?;
///         io.store(0, i, if v < 0.0 { self.alpha * v } else { v })
///     }
/// }
/// # assert_eq!(KERNEL.core(), Core::GPU);
/// ```
pub trait GpuKernel: Sized + Send + Sync + 'static {
    /// The kernel as a function of one work item, for an emulated GPU, if the kernel has a single launch.
    const WORK_ITEM: Option<WorkItemFn<Self>> = None;

    /// One function per launch. All work items of a launch return before the next launch starts.
    const WORK_ITEMS: &'static [WorkItemFn<Self>] = Self::WORK_ITEM.as_slice();

    /// Returns how many leading steps of the node's epilogue the kernel performs; see
    /// [`Kernel::accept`](crate::Kernel::accept).
    ///
    /// # Errors
    /// The kernel does not support the node; the message says why.
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        let _ = cx;
        Ok(0)
    }

    /// Checks the node and computes the data for the launches. May allocate.
    ///
    /// # Errors
    /// The kernel does not support the shapes or parameters; the message names them.
    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error>;

    /// Describes how a device runs the kernel: its launches, in order, and the scratch buffers that they share.
    ///
    /// # Errors
    /// The launches cannot be described; the message says why.
    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error>;
}

/// How a device runs a GPU kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelInfo {
    /// The launches, in order.
    pub launches: Vec<Launch>,
    /// The size of each scratch buffer in bytes.
    pub scratch: Vec<usize>,
}

impl KernelInfo {
    /// Adds a launch, which starts when those before it are done.
    pub fn push_launch(&mut self, launch: Launch) {
        self.launches.push(launch);
    }

    /// Adds a scratch buffer of `bytes` bytes that lives for one call; its initial contents are undefined. Launches
    /// refer to it by its index, from 0: [`GpuArg::scratch`].
    pub fn push_scratch(&mut self, bytes: usize) {
        self.scratch.push(bytes);
    }
}

/// One launch: a kernel of a source, its arguments, and its work items.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// OpenCL C.
    pub source: Cow<'static, str>,
    /// The name of the kernel in the source.
    pub name: Cow<'static, str>,
    /// The build options.
    pub options: Cow<'static, str>,
    /// The arguments in order.
    pub args: Vec<GpuArg>,
    /// The number of work items along each axis.
    pub global_size: [usize; 3],
    /// The size of a work group; `None` lets the device choose.
    pub local_size: Option<[usize; 3]>,
}

impl Launch {
    /// Creates a launch of one work item of kernel `name` in `source`, without arguments or build options.
    ///
    /// The runtime adds `-DUDO_STORAGE=float` or `-DUDO_STORAGE=half` and the macros `UDO_LOAD(p, i)` and
    /// `UDO_STORE(p, i, v)`, so that one source supports both storage types.
    pub fn new(source: impl Into<Cow<'static, str>>, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            source: source.into(),
            name: name.into(),
            options: Cow::Borrowed(""),
            args: Vec::new(),
            global_size: [1; 3],
            local_size: None,
        }
    }

    /// Sets the build options.
    #[must_use]
    pub fn options(self, options: impl Into<Cow<'static, str>>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// Appends arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = GpuArg>) -> Self {
        self.args.extend(args);
        self
    }

    /// Sets the number of work items along each axis. Launches with a 0 are skipped.
    #[must_use]
    pub fn global_size(self, size: [usize; 3]) -> Self {
        Self { global_size: size, ..self }
    }

    /// Sets the size of a work group along each axis.
    #[must_use]
    pub fn local_size(self, size: [usize; 3]) -> Self {
        Self { local_size: Some(size), ..self }
    }
}

impl GpuArg {
    /// Passes a constant that the kernel packed.
    pub const fn packed<T>(packed: Packed<T>) -> Self {
        Self::of_word(8, packed.index())
    }
}
