//! How one core computes an operator, and what the planner may know about it.

use std::fmt;

use crate::abi::{InPlace, KernelDef, KernelVTable, PortRule, Work, Workspace, arithmetic};
use crate::author::{AcceptCx, FinalizeCx, InputShapes, Io, Scratch};
use crate::core::Core;
use crate::dtype::TypeSet;
use crate::error::{Error, ExecError};
use crate::span::{RawStr, Slice, StaticPtr};

/// One operator on one core for fixed types; freeing it is `Drop`.
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
///         Workspace::of::<f32>(self.cols)
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
    /// How many leading steps of the node's epilogue ([`AcceptCx::epilogue`]) the kernel does before it stores its
    /// first output; finalize then sees those. Asked while the model is placed, before anything is finalized, so it is
    /// cheap: it looks at types, shapes and parameters.
    ///
    /// # Errors
    /// The kernel does not take the node at all; the message says why.
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        let _ = cx;
        Ok(0)
    }

    /// Checks the node and prepares everything that execute will need. May allocate.
    ///
    /// # Errors
    /// Shapes or parameters that the kernel does not take; the message says which.
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error>;

    /// The scratch that execute will take, where that does not depend on extents that finalize did not know.
    fn workspace(&self) -> Workspace {
        Workspace::NONE
    }

    /// The scratch that execute takes, and the geometry that [`Kernel::prepare`] fills, for inputs of these extents. Asked
    /// once per plan, with the bounds of dimensions that are bounded: smaller extents must not need more.
    ///
    /// # Errors
    /// Extents that the kernel does not take, or beyond memory.
    fn needs(&self, inputs: InputShapes<'_>) -> Result<Needs, Error> {
        let _ = inputs;
        Ok(Needs { scratch: self.workspace(), geometry: Workspace::NONE })
    }

    /// Fills the geometry: what execute reads that follows from the extents of the inputs and from no element, such as a
    /// table of where each row of a product begins. Called before the first execute and whenever an extent is another
    /// than in the call before; execute takes the same pieces in the same order from [`Io::geometry`]. Uses no heap,
    /// no locks and no system calls.
    ///
    /// # Errors
    /// Extents that the kernel does not take.
    fn prepare(&self, inputs: InputShapes<'_>, geometry: Scratch<'_>) -> Result<(), ExecError> {
        let _ = (inputs, geometry);
        Ok(())
    }

    /// Computes. Uses no heap, no locks and no system calls, and may run on several threads at once.
    ///
    /// # Errors
    /// Data that the kernel cannot work with; everything else was checked before.
    fn execute(&self, io: Io<'_>) -> Result<(), ExecError>;
}

/// What a kernel needs for inputs of some extents, beside its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// What [`Kernel::execute`] takes from its scratch.
    pub scratch: Workspace,
    /// What [`Kernel::prepare`] fills, and execute reads.
    pub geometry: Workspace,
}

/// Which types a [`PortRule`] asks of its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Those that the schema takes.
    AsDeclared,
    /// One of these types.
    Types(TypeSet),
    /// The type of this input.
    SameAsInput(usize),
}

/// Which side of a node a port is on.
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

    const fn of(side: u16, port: u16, types: TypeSet, same_as: u32) -> Self {
        Self { side, port, types, same_as, layout: 0, accepts: 0, reserved: [0; 3] }
    }

    /// Rows of the tensor may lie further apart than they are long; `Inputs::rows` and `Outputs::take_rows` read them.
    #[must_use]
    pub const fn pitched(mut self) -> Self {
        self.accepts |= PITCHED;
        self
    }

    /// As [`PortRule::pitched`], and no other tensor of the call lies between the rows, so that a kernel gets them and what is
    /// between them as one slice, which it leaves as it is there: `Inputs::strided` and `Outputs::take_strided`.
    #[must_use]
    pub const fn pitched_alone(mut self) -> Self {
        self.accepts |= PITCHED | ALONE;
        self
    }

    /// Dimensions of the tensor may be bounded; the kernel says the extents of a bounded output in each call.
    #[must_use]
    pub const fn bounded(mut self) -> Self {
        self.accepts |= BOUNDED;
        self
    }

    /// The tensor may have an encoding for each position of an axis; the kernel asks [`TensorDesc::axis_encoding`] for it. A
    /// kernel without this gets no such tensor.
    ///
    /// [`TensorDesc::axis_encoding`]: crate::TensorDesc::axis_encoding
    #[must_use]
    pub const fn per_axis(mut self) -> Self {
        self.accepts |= PER_AXIS;
        self
    }

    /// The tensor comes channels last: where the operator says batch, channels, height and width, the kernel sees
    /// batch, height, width and channels. It gets no node whose tensor has another rank, or bounded dimensions; of a repeated
    /// port's tensors those of another rank come as they are.
    #[must_use]
    pub const fn channels_last(mut self) -> Self {
        self.layout = Self::NHWC;
        self
    }

    /// Which side the port is on; nothing for a code that this version does not know.
    pub const fn side(&self) -> Option<Side> {
        match self.side {
            0 => Some(Side::Input),
            1 => Some(Side::Output),
            _ => None,
        }
    }

    /// The port's place on its side. The rule of a repeated port is that of its first tensor.
    pub const fn port(&self) -> usize {
        self.port as usize
    }

    /// Which types it asks for.
    pub const fn wanted(&self) -> Wanted {
        if self.same_as != Self::NOT_SAME {
            Wanted::SameAsInput(self.same_as as usize)
        } else if self.types.is_empty() {
            Wanted::AsDeclared
        } else {
            Wanted::Types(self.types)
        }
    }

    /// Whether rows may lie apart.
    pub const fn takes_pitched(&self) -> bool {
        self.accepts & PITCHED != 0
    }

    /// Whether no other tensor of the call may lie between rows.
    pub const fn wants_alone(&self) -> bool {
        self.accepts & ALONE != 0
    }

    /// Whether dimensions may be bounded.
    pub const fn takes_bounded(&self) -> bool {
        self.accepts & BOUNDED != 0
    }

    /// Whether the tensor may have an encoding per axis.
    pub const fn takes_per_axis(&self) -> bool {
        self.accepts & PER_AXIS != 0
    }

    /// Whether the tensor comes channels last.
    pub const fn is_channels_last(&self) -> bool {
        self.layout == Self::NHWC
    }

    /// Whether a foreign table says what means nothing here.
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

/// Input `port` is one of `types`.
pub const fn input(port: u16, types: TypeSet) -> PortRule {
    PortRule::of(0, port, types, PortRule::NOT_SAME)
}

/// Output `port` is one of `types`.
pub const fn output(port: u16, types: TypeSet) -> PortRule {
    PortRule::of(1, port, types, PortRule::NOT_SAME)
}

/// Input `port` has the type of input `other`.
pub const fn input_like(port: u16, other: u16) -> PortRule {
    PortRule::of(0, port, TypeSet::EMPTY, other as u32)
}

/// Output `port` has the type of input `other`.
pub const fn output_like(port: u16, other: u16) -> PortRule {
    PortRule::of(1, port, TypeSet::EMPTY, other as u32)
}

/// Input `port` is of any type that the schema takes.
pub const fn any_input(port: u16) -> PortRule {
    input(port, TypeSet::EMPTY)
}

/// Output `port` is of any type that the schema takes.
pub const fn any_output(port: u16) -> PortRule {
    output(port, TypeSet::EMPTY)
}

/// What operations of [`Work`] are done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// Numbers of 32 bits.
    #[default]
    F32,
    /// Numbers of 64 bits.
    F64,
    /// Products of 8-bit integers, added up in 32 bits.
    Int8,
    /// Products of bf16 numbers, added up in 32 bits.
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
    /// As many multiplications as the product of these extents is, each of whose results is added to a sum: those that the
    /// algorithm does, which may be fewer than the definition has.
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

    /// So many bytes read and written, where that is not all bytes of the tensors and packed constants.
    pub fn moves(bytes: usize) -> Self {
        Self { bytes: bytes as u64, ..Self::products(&[0]) }
    }

    /// What operations are done with; numbers of 32 bits, unless it is said.
    #[must_use]
    pub const fn with(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = arithmetic.code();
        self
    }

    /// How the kernel computes, in a few words, where it might in several ways.
    #[must_use]
    pub const fn by(mut self, method: &'static str) -> Self {
        self.method = RawStr::new(method);
        self
    }

    /// How many operations there are, an addition to a sum and a multiplication each counting as one.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// What they are done with; nothing for a code that this version does not know.
    pub const fn arithmetic(&self) -> Option<Arithmetic> {
        match self.arithmetic {
            arithmetic::F32 => Some(Arithmetic::F32),
            arithmetic::F64 => Some(Arithmetic::F64),
            arithmetic::INT8 => Some(Arithmetic::Int8),
            arithmetic::BF16 => Some(Arithmetic::Bf16),
            _ => None,
        }
    }

    /// How many bytes are read and written, where it is said.
    pub const fn bytes(&self) -> Option<u64> {
        if self.bytes == 0 { None } else { Some(self.bytes) }
    }

    /// How the kernel computes; empty where it is not said.
    pub const fn method(&self) -> &'static str {
        self.method.get()
    }
}

/// How long a kernel takes compared with others, as DSP registrations say it: of those for one core that take a node, the
/// first of the cheapest class gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing to speak of.
    Free,
    /// Fast.
    Fast,
    /// Slow.
    Snail,
    /// Slower than anything; what a registration without a class means.
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

    /// The domain of the operator, where the package has operators of this name in several.
    #[must_use]
    pub const fn in_domain(mut self, domain: &'static str) -> Self {
        self.domain = RawStr::new(domain);
        self
    }

    /// The same kernel for another core that runs the same code.
    #[must_use]
    pub const fn on(mut self, core: Core) -> Self {
        self.core = core;
        self
    }

    /// What the kernel takes, port by port.
    #[must_use]
    pub const fn ports(mut self, rules: &'static [PortRule]) -> Self {
        self.ports = Slice::new(rules);
        self
    }

    /// The outputs that may take the place of an input of the same type and size.
    #[must_use]
    pub const fn in_place(mut self, pairs: &'static [InPlace]) -> Self {
        self.in_place = Slice::new(pairs);
        self
    }

    /// How long the kernel takes.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost as u32;
        self
    }

    /// The operator's type name.
    pub const fn op(&self) -> &'static str {
        self.op.get()
    }

    /// The operator's domain; empty where its name is enough.
    pub const fn domain(&self) -> &'static str {
        self.domain.get()
    }

    /// The core that the kernel is written for.
    pub const fn core(&self) -> Core {
        self.core
    }

    /// What the kernel takes on its ports.
    pub const fn port_rules(&self) -> &'static [PortRule] {
        self.ports.get()
    }

    /// The rule for tensor `index` of a side on which the schema has `declared` ports; the last of them may be repeated.
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

    /// The outputs that may take the place of an input.
    pub const fn in_place_pairs(&self) -> &'static [InPlace] {
        self.in_place.get()
    }

    /// Whether a foreign table sets a cost that means nothing here.
    pub const fn has_unknown_cost(&self) -> bool {
        self.cost > Cost::Glacial as u32
    }

    /// How long the kernel takes.
    pub const fn cost_class(&self) -> Cost {
        match self.cost {
            0 => Cost::Free,
            1 => Cost::Fast,
            2 => Cost::Snail,
            _ => Cost::Glacial,
        }
    }

    /// The functions; nothing in a foreign entry without any.
    pub const fn vtable(&self) -> Option<&'static KernelVTable> {
        self.vtable.get()
    }

    /// Whether it is a kernel of the GPU's own kind.
    pub fn is_gpu(&self) -> bool {
        self.vtable().is_some_and(|vtable| vtable.gpu.get().is_some())
    }

    /// Where a package of any version says that the functions are.
    pub const fn raw_vtable(&self) -> *const KernelVTable {
        self.vtable.raw()
    }

    /// The same entry with its functions in a table of this version.
    #[must_use]
    pub const fn copied_to(mut self, vtable: &'static KernelVTable) -> Self {
        self.vtable = StaticPtr::new(vtable);
        self
    }
}
