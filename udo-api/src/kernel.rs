//! Kernels: how one core computes an operator, and what the planner knows about it.

use std::fmt;

use crate::abi::{InPlace, KernelDef, KernelVTable, PortRule, Work, Workspace, arithmetic};
use crate::author::{AcceptCx, FinalizeCx, InputShapes, Io, Scratch};
use crate::core::Core;
use crate::dtype::TypeSet;
use crate::error::{Error, ExecError};
use crate::span::{RawStr, Slice, StaticPtr};

/// An operator's kernel on one core for fixed types. `Drop` frees it.
///
/// ```
/// use udo_api::{
///     Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, Workspace, input, output_like, types,
/// };
///
/// const KERNEL: KernelDef = KernelDef::new::<SoftmaxF32>("Softmax", Core::CPU)
///     .ports(&[input(0, types::F32), output_like(0, 0)]);
///
/// /// Softmax over the last axis.
/// struct SoftmaxF32 {
///     cols: usize,
/// }
///
/// impl Kernel for SoftmaxF32 {
///     fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
///         match *cx.input(0)?.shape() {
///             [.., cols] if cols > 0 => Ok(Self { cols }),
///             _ => Err(Error::new("the input has no last axis with elements")),
///         }
///     }
///
///     fn workspace(&self) -> Workspace {
///         Workspace::for_elements::<f32>(self.cols)
///     }
///
///     fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
///         let x = io.inputs.get::<f32>(0)?;
///         let y = io.outputs.take::<f32>(0)?;
///         let powers = io.scratch.take::<f32>(self.cols)?;
///         for (x, y) in x.chunks_exact(self.cols).zip(y.chunks_exact_mut(self.cols)) {
///             let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
///             for (power, x) in powers.iter_mut().zip(x) {
///                 *power = (x - max).exp();
///             }
///             let sum: f32 = powers.iter().sum();
///             for (y, power) in y.iter_mut().zip(&*powers) {
///                 *y = power / sum;
///             }
///         }
///         Ok(())
///     }
/// }
/// # assert_eq!((KERNEL.op(), KERNEL.core()), ("Softmax", Core::CPU));
/// ```
///
/// The crate `udo-testing` runs such a kernel without a model.
pub trait Kernel: Sized + Send + Sync + 'static {
    /// Returns how many leading steps of the node's epilogue ([`AcceptCx::epilogue`]) the kernel performs before it
    /// stores its first output; finalize then sees these. The planner calls it during placement, before anything is
    /// finalized, so it must be cheap: it checks types, shapes and parameters.
    ///
    /// # Errors
    /// The kernel does not support the node; the message says why.
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        let _ = cx;
        Ok(0)
    }

    /// Checks the node and prepares everything that execute needs. May allocate.
    ///
    /// # Errors
    /// The kernel does not support the shapes or parameters; the message names them.
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error>;

    /// Returns the scratch of execute, if it does not depend on dimensions that are unknown in finalize.
    fn workspace(&self) -> Workspace {
        Workspace::NONE
    }

    /// Returns the scratch of execute and the geometry that [`Kernel::prepare`] fills, for inputs of these shapes. The
    /// planner calls it once per plan, with the bounds of bounded dimensions: smaller dimensions must not need more.
    ///
    /// # Errors
    /// The kernel does not support the shapes, or sizes overflow.
    fn needs(&self, inputs: InputShapes<'_>) -> Result<Needs, Error> {
        let _ = inputs;
        Ok(Needs { scratch: self.workspace(), geometry: Workspace::NONE })
    }

    /// Fills the geometry: data for execute that depends on the shapes of the inputs but not on their elements, such as
    /// a table of the row offsets of a product. Called before the first execute and whenever a dimension changes;
    /// execute takes the same pieces in the same order from [`Io::geometry`]. Must not use the heap, locks or system
    /// calls.
    ///
    /// # Errors
    /// The kernel does not support the shapes.
    fn prepare(&self, inputs: InputShapes<'_>, geometry: Scratch<'_>) -> Result<(), ExecError> {
        let _ = (inputs, geometry);
        Ok(())
    }

    /// Computes the outputs. Must not use the heap, locks or system calls, and may run on several threads at once.
    ///
    /// # Errors
    /// The kernel cannot process the data; everything else was checked before.
    fn execute(&self, io: Io<'_>) -> Result<(), ExecError>;
}

/// The memory that a kernel needs for inputs of some shapes, in addition to its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The scratch of [`Kernel::execute`].
    pub scratch: Workspace,
    /// The geometry that [`Kernel::prepare`] fills and execute reads.
    pub geometry: Workspace,
}

/// The former name of [`PortTypes`].
#[doc(hidden)]
pub type Wanted = PortTypes;

/// The types that a [`PortRule`] accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortTypes {
    /// The types of the schema.
    AsDeclared,
    /// One of these types.
    Types(TypeSet),
    /// The type of this input.
    SameAsInput(usize),
}

/// The side of a node that a port is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// An input.
    Input,
    /// An output.
    Output,
}

const PITCHED: u32 = 1;
const BOUNDED: u32 = 1 << 1;
const PER_AXIS: u32 = 1 << 2;
const ALONE: u32 = 1 << 3;

impl PortRule {
    const NOT_SAME: u32 = u32::MAX;
    const NHWC: u32 = 1;

    const fn new(side: u16, port: u16, types: TypeSet, same_as: u32) -> Self {
        Self { side, port, types, same_as, layout: 0, accepts: 0, reserved: [0; 3] }
    }

    /// Accepts tensors with strided rows; `Inputs::rows` and `Outputs::take_rows` read them.
    #[must_use]
    pub const fn pitched(mut self) -> Self {
        self.accepts |= PITCHED;
        self
    }

    /// Accepts strided rows whose gaps do not belong to other tensors of the call, so that the kernel gets rows and
    /// gaps as one slice and must leave the gaps unchanged: `Inputs::strided` and `Outputs::take_strided`.
    #[must_use]
    pub const fn pitched_alone(mut self) -> Self {
        self.accepts |= PITCHED | ALONE;
        self
    }

    /// Accepts bounded dimensions; the kernel sets the dimensions of a bounded output in each call.
    #[must_use]
    pub const fn bounded(mut self) -> Self {
        self.accepts |= BOUNDED;
        self
    }

    /// Accepts an encoding for each position of an axis, which the kernel reads with [`TensorDesc::axis_encoding`]. A
    /// kernel without this does not get such tensors.
    ///
    /// [`TensorDesc::axis_encoding`]: crate::TensorDesc::axis_encoding
    #[must_use]
    pub const fn per_axis(mut self) -> Self {
        self.accepts |= PER_AXIS;
        self
    }

    /// Requests the tensor channels last: if the operator's axes are batch, channels, height and width, the kernel sees
    /// batch, height, width and channels. The kernel does not get nodes whose tensor has another rank or bounded
    /// dimensions; tensors of a repeated port with another rank are passed unchanged.
    #[must_use]
    pub const fn channels_last(mut self) -> Self {
        self.layout = Self::NHWC;
        self
    }

    /// Returns the side of the port; `None` for a code that this version does not know.
    pub const fn side(&self) -> Option<Side> {
        match self.side {
            0 => Some(Side::Input),
            1 => Some(Side::Output),
            _ => None,
        }
    }

    /// Returns the port's index on its side. The rule of a repeated port is that of its first tensor.
    pub const fn port(&self) -> usize {
        self.port as usize
    }

    /// The former name of [`PortRule::accepted_types`].
    #[doc(hidden)]
    pub const fn wanted(&self) -> PortTypes {
        self.accepted_types()
    }

    /// Returns the accepted types.
    pub const fn accepted_types(&self) -> PortTypes {
        if self.same_as != Self::NOT_SAME {
            PortTypes::SameAsInput(self.same_as as usize)
        } else if self.types.is_empty() {
            PortTypes::AsDeclared
        } else {
            PortTypes::Types(self.types)
        }
    }

    /// Whether strided rows are accepted.
    pub const fn takes_pitched(&self) -> bool {
        self.accepts & PITCHED != 0
    }

    /// Whether gaps between rows must not belong to other tensors of the call.
    pub const fn wants_alone(&self) -> bool {
        self.accepts & ALONE != 0
    }

    /// Whether bounded dimensions are accepted.
    pub const fn takes_bounded(&self) -> bool {
        self.accepts & BOUNDED != 0
    }

    /// Whether an encoding per axis is accepted.
    pub const fn takes_per_axis(&self) -> bool {
        self.accepts & PER_AXIS != 0
    }

    /// Whether the tensor comes channels last.
    pub const fn is_channels_last(&self) -> bool {
        self.layout == Self::NHWC
    }

    /// Whether a foreign table has flags or codes that this version does not know.
    pub const fn has_unknown_parts(&self) -> bool {
        let [a, b, c] = self.reserved;
        self.layout > Self::NHWC
            || self.accepts & !(PITCHED | BOUNDED | PER_AXIS | ALONE) != 0
            || (a | b | c) != 0
    }
}

impl fmt::Debug for PortRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {:?}", self.side(), self.port, self.wanted())
    }
}

/// Accepts `types` for input `port`.
pub const fn input(port: u16, types: TypeSet) -> PortRule {
    PortRule::new(0, port, types, PortRule::NOT_SAME)
}

/// Accepts `types` for output `port`.
pub const fn output(port: u16, types: TypeSet) -> PortRule {
    PortRule::new(1, port, types, PortRule::NOT_SAME)
}

/// Requires the type of input `input_port` for input `port`.
pub const fn input_like(port: u16, input_port: u16) -> PortRule {
    PortRule::new(0, port, TypeSet::EMPTY, input_port as u32)
}

/// Requires the type of input `input_port` for output `port`.
pub const fn output_like(port: u16, input_port: u16) -> PortRule {
    PortRule::new(1, port, TypeSet::EMPTY, input_port as u32)
}

/// Accepts all types of the schema for input `port`.
pub const fn any_input(port: u16) -> PortRule {
    input(port, TypeSet::EMPTY)
}

/// Accepts all types of the schema for output `port`.
pub const fn any_output(port: u16) -> PortRule {
    output(port, TypeSet::EMPTY)
}

/// The arithmetic of the operations of [`Work`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// 32-bit floating point.
    #[default]
    F32,
    /// 64-bit floating point.
    F64,
    /// Products of 8-bit integers with 32-bit sums.
    Int8,
    /// Products of bf16 numbers with 32-bit sums.
    Bf16,
}

impl Arithmetic {
    const fn code(self) -> u32 {
        match self {
            Self::F32 => arithmetic::F32,
            Self::F64 => arithmetic::F64,
            Self::Int8 => arithmetic::INT8,
            Self::Bf16 => arithmetic::BF16,
        }
    }
}

impl Work {
    /// Counts one multiply-add per combination of these dimensions, as the algorithm performs them; that may be fewer
    /// than the definition has.
    pub fn products(extents: &[usize]) -> Self {
        let count = extents.iter().fold(1, |count: u64, &n| count.saturating_mul(n as u64));
        Self {
            size: Self::SIZE,
            arithmetic: arithmetic::F32,
            operations: count.saturating_mul(2),
            bytes: 0,
            method: RawStr::EMPTY,
            reserved_words: [0; 2],
        }
    }

    /// Sets the bytes read and written, if they differ from the sizes of the tensors and packed constants.
    pub fn moves(bytes: usize) -> Self {
        Self { bytes: bytes as u64, ..Self::products(&[0]) }
    }

    /// Sets the arithmetic; 32-bit floating point by default.
    #[must_use]
    pub const fn with(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = arithmetic.code();
        self
    }

    /// Names the algorithm in a few words, for kernels with several.
    #[must_use]
    pub const fn by(mut self, method: &'static str) -> Self {
        self.method = RawStr::new(method);
        self
    }

    /// Returns the number of operations; an addition and a multiplication count as one each.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns the arithmetic; `None` for a code that this version does not know.
    pub const fn arithmetic(&self) -> Option<Arithmetic> {
        match self.arithmetic {
            arithmetic::F32 => Some(Arithmetic::F32),
            arithmetic::F64 => Some(Arithmetic::F64),
            arithmetic::INT8 => Some(Arithmetic::Int8),
            arithmetic::BF16 => Some(Arithmetic::Bf16),
            _ => None,
        }
    }

    /// Returns the bytes read and written, if they were set.
    pub const fn bytes(&self) -> Option<u64> {
        if self.bytes == 0 { None } else { Some(self.bytes) }
    }

    /// Returns the name of the algorithm; empty if it was not set.
    pub const fn method(&self) -> &'static str {
        self.method.get()
    }
}

/// The relative cost of a kernel, as in DSP registrations: of the kernels for one core that accept a node, the first of
/// the cheapest class runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Negligible.
    Free,
    /// Fast.
    Fast,
    /// Slow.
    Snail,
    /// The slowest; also the class of a registration without one.
    #[default]
    Glacial,
}

impl KernelDef {
    pub(crate) const fn with_vtable(
        op: &'static str,
        core: Core,
        vtable: &'static KernelVTable,
    ) -> Self {
        Self {
            op: RawStr::new(op),
            domain: RawStr::EMPTY,
            core,
            cost: Cost::Glacial as u32,
            ports: Slice::new(&[]),
            in_place: Slice::new(&[]),
            vtable: StaticPtr::new(vtable),
            reserved: [0; 4],
        }
    }

    /// Sets the operator's domain, for packages with operators of this name in several domains.
    #[must_use]
    pub const fn in_domain(mut self, domain: &'static str) -> Self {
        self.domain = RawStr::new(domain);
        self
    }

    /// Returns the same kernel for another core that runs the same code.
    #[must_use]
    pub const fn on(mut self, core: Core) -> Self {
        self.core = core;
        self
    }

    /// Sets the rules of the ports.
    #[must_use]
    pub const fn ports(mut self, rules: &'static [PortRule]) -> Self {
        self.ports = Slice::new(rules);
        self
    }

    /// Sets the outputs that may be written in place of an input of the same type and size.
    #[must_use]
    pub const fn in_place(mut self, pairs: &'static [InPlace]) -> Self {
        self.in_place = Slice::new(pairs);
        self
    }

    /// Sets the cost class.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost as u32;
        self
    }

    /// Returns the operator's type name.
    pub const fn op(&self) -> &'static str {
        self.op.get()
    }

    /// Returns the operator's domain; empty if the name is unique in the package.
    pub const fn domain(&self) -> &'static str {
        self.domain.get()
    }

    /// Returns the core that the kernel is written for.
    pub const fn core(&self) -> Core {
        self.core
    }

    /// Returns the rules of the ports.
    pub const fn port_rules(&self) -> &'static [PortRule] {
        self.ports.get()
    }

    /// Returns the rule for tensor `index` of a side with `declared` ports in the schema; the last of them may be
    /// repeated.
    pub fn port_rule(
        &self,
        side: Side,
        index: usize,
        declared: usize,
    ) -> Option<&'static PortRule> {
        let port = index.min(declared.saturating_sub(1));
        let mut rules = self.port_rules().iter();
        rules.find(|rule| rule.side() == Some(side) && rule.port() == port)
    }

    /// Returns the outputs that may be written in place of an input.
    pub const fn in_place_pairs(&self) -> &'static [InPlace] {
        self.in_place.get()
    }

    /// Whether a foreign table has a cost class that this version does not know.
    pub const fn has_unknown_cost(&self) -> bool {
        self.cost > Cost::Glacial as u32
    }

    /// Returns the cost class.
    pub const fn cost_class(&self) -> Cost {
        match self.cost {
            0 => Cost::Free,
            1 => Cost::Fast,
            2 => Cost::Snail,
            _ => Cost::Glacial,
        }
    }

    /// Returns the functions; `None` in a foreign entry without any.
    pub const fn vtable(&self) -> Option<&'static KernelVTable> {
        self.vtable.get()
    }

    /// Whether it is a [`GpuKernel`](crate::GpuKernel).
    pub fn is_gpu(&self) -> bool {
        self.vtable().is_some_and(|vtable| vtable.gpu.get().is_some())
    }

    /// Returns the pointer to the functions in a package of any version.
    pub const fn raw_vtable(&self) -> *const KernelVTable {
        self.vtable.raw()
    }

    /// Returns the same entry with its functions in a table of this version.
    #[must_use]
    pub const fn copied_to(mut self, vtable: &'static KernelVTable) -> Self {
        self.vtable = StaticPtr::new(vtable);
        self
    }
}
