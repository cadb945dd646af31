//! GPU kernels: OpenCL C source, how it is launched, and the same kernel as Rust work items.

use std::borrow::Cow;

use crate::abi::GpuArg;
use crate::author::{AcceptCx, Buffers, FinalizeCx, Packed, WorkItem};
use crate::error::{Error, ExecError};

/// The Rust form of one work item: no barriers, no local memory.
pub type WorkItemFn<K> = fn(&K, WorkItem, &Buffers<'_>) -> Result<(), ExecError>;

/// One operator on the GPU. The execute workflow is the runtime's.
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
    /// The same kernel as a function of one work item, for an emulated GPU; where there is one launch.
    const WORK_ITEM: Option<WorkItemFn<Self>> = None;

    /// One such function for each launch. Those of a launch have all returned before the next one's start.
    const WORK_ITEMS: &'static [WorkItemFn<Self>] = Self::WORK_ITEM.as_slice();

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

    /// Says how a device runs the kernel: one launch or more, in order, and the scratch that they share.
    ///
    /// # Errors
    /// The launches cannot be said; the message says why.
    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error>;
}

/// How a device runs a GPU kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelInfo {
    /// The launches, in order.
    pub launches: Vec<Launch>,
    /// The bytes of each scratch.
    pub scratch: Vec<usize>,
}

impl KernelInfo {
    /// Adds the next launch, which starts when those before it are done.
    pub fn push_launch(&mut self, launch: Launch) {
        self.launches.push(launch);
    }

    /// Adds the next scratch: a buffer of `bytes` bytes that lives for a call, and holds anything at first. Launches
    /// name it by its number, from 0: [`GpuArg::scratch`].
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
    /// How many work items there are along each axis.
    pub global_size: [usize; 3],
    /// How many of them make a group, if the kernel cares.
    pub local_size: Option<[usize; 3]>,
}

impl Launch {
    /// One work item of kernel `name` in `source`, without arguments or build options.
    ///
    /// The runtime adds `-DUDO_STORAGE=float` or `-DUDO_STORAGE=half`, and the macros
    /// `UDO_LOAD(p, i)` and `UDO_STORE(p, i, v)`, so that one source serves both kinds of storage.
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

    /// With these build options.
    #[must_use]
    pub fn options(self, options: impl Into<Cow<'static, str>>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// With these arguments, behind those that it has.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = GpuArg>) -> Self {
        self.args.extend(args);
        self
    }

    /// With so many work items along each axis. Launches over none are left out.
    #[must_use]
    pub fn global_size(self, size: [usize; 3]) -> Self {
        Self { global_size: size, ..self }
    }

    /// With groups of so many work items along each axis; the device's choice where not said.
    #[must_use]
    pub fn local_size(self, size: [usize; 3]) -> Self {
        Self { local_size: Some(size), ..self }
    }
}

impl GpuArg {
    /// A constant that the kernel packed.
    pub const fn packed<T>(packed: Packed<T>) -> Self {
        Self::of_word(8, packed.index())
    }
}
