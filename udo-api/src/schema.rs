//! Operators: ports, parameters, and facts for passes.

use crate::abi::{CoreTypes, Facts, InferArgs, OpDef, OpSchema, Param, Port, Value, ValueKind};
use crate::author::InferCx;
use crate::core::Core;
use crate::dtype::{DType, TypeSet};
use crate::error::Error;
use crate::span::{RawStr, Slice};

/// An operator: its schema and its shape inference, which do not see data.
///
/// ```
/// use udo_api::{DType, Error, Facts, InferCx, Op, OpDef, OpSchema, Param, Port, Value, types};
///
/// const OP: OpDef = OpDef::of::<LeakyRelu>();
///
/// struct LeakyRelu;
///
/// impl Op for LeakyRelu {
///     const SCHEMA: OpSchema = OpSchema::new(
///         "LeakyRelu",
///         &[Port::required("x", types::FLOATS)],
///         &[Port::required("y", types::FLOATS)],
///         &[Param::scalar("alpha", DType::F32).default(Value::float(0.01))],
///     )
///     .facts(Facts::ELEMENTWISE.or(Facts::PURE));
///
///     fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
///         let x = cx.input(0)?;
///         cx.set_output(0, x)
///     }
/// }
/// # assert_eq!(OP.schema().params().len(), 1);
/// ```
pub trait Op: 'static {
    /// Ports, parameters and facts.
    const SCHEMA: OpSchema;

    /// Sets the type and shape of every output.
    ///
    /// # Errors
    /// The operator does not support the inputs or parameters; the message names them.
    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error>;
}

/// The order of a rank-4 tensor's dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The order of the model.
    #[default]
    AsGiven,
    /// Batch, height, width, channels.
    Nhwc,
    /// Batch, channels, height, width.
    Nchw,
}

impl Layout {
    /// The axes of an NCHW tensor in NHWC order, as the permutation of a transpose.
    pub const NHWC_AXES: [usize; 4] = [0, 2, 3, 1];
    /// The axes of an NHWC tensor in NCHW order.
    pub const NCHW_AXES: [usize; 4] = [0, 3, 1, 2];

    /// Returns the position of an operator's axis in this layout; `None` if the operator has no such axis.
    pub fn axis(self, axis: usize) -> Option<usize> {
        match self {
            Self::Nhwc => Self::NHWC_AXES.iter().position(|&a| a == axis),
            Self::AsGiven | Self::Nchw => Some(axis),
        }
    }
}

/// How a port's fixed-point values are quantized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantization {
    /// Not quantized.
    #[default]
    None,
    /// Asymmetric, one scale and zero point per tensor.
    Tf,
}

const OPTIONAL: u32 = 1;
const STATIC: u32 = 1 << 1;
const REPEATED: u32 = 1 << 2;
const LAYOUT_SHIFT: u32 = 8;
const QUANTIZATION_SHIFT: u32 = 12;

impl CoreTypes {
    /// Declares the types of a port on `core`.
    pub const fn new(core: Core, types: TypeSet) -> Self {
        Self { core, types }
    }

    /// The core.
    pub const fn core(&self) -> Core {
        self.core
    }

    /// The types.
    pub const fn types(&self) -> TypeSet {
        self.types
    }
}

impl Port {
    /// Declares a port that every node has.
    pub const fn required(name: &'static str, types: TypeSet) -> Self {
        Self {
            name: RawStr::new(name),
            types,
            flags: 0,
            per_core: Slice::new(&[]),
            default: Value::NONE,
            reserved: [0; 2],
        }
    }

    /// Declares an optional port.
    pub const fn optional(name: &'static str, types: TypeSet) -> Self {
        Self::required(name, types).flag(OPTIONAL)
    }

    const fn flag(mut self, bits: u32) -> Self {
        self.flags |= bits;
        self
    }

    /// Requires the input to be a constant.
    #[must_use]
    pub const fn constant(self) -> Self {
        self.flag(STATIC)
    }

    /// Lets the port, which must be the last one, stand for any number of tensors.
    #[must_use]
    pub const fn repeated(self) -> Self {
        self.flag(REPEATED)
    }

    /// Sets the order of a rank-4 tensor's dimensions.
    #[must_use]
    pub const fn layout(self, layout: Layout) -> Self {
        self.flag((layout as u32) << LAYOUT_SHIFT)
    }

    /// Sets how fixed-point values are quantized.
    #[must_use]
    pub const fn quantization(self, mode: Quantization) -> Self {
        self.flag((mode as u32) << QUANTIZATION_SHIFT)
    }

    /// Sets the types per core, if they differ.
    #[must_use]
    pub const fn per_core(mut self, types: &'static [CoreTypes]) -> Self {
        self.per_core = Slice::new(types);
        self
    }

    /// Sets the value of an omitted constant input.
    #[must_use]
    pub const fn default(mut self, value: Value) -> Self {
        self.default = value;
        self.flag(OPTIONAL)
    }

    /// Returns the port's name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// Returns the union of the types of all cores.
    pub const fn types(&self) -> TypeSet {
        self.types
    }

    /// Returns the types on `core`; the union of all cores' types if cores do not differ.
    pub fn types_on(&self, core: Core) -> TypeSet {
        let declared = self.per_core.get();
        if declared.is_empty() {
            return self.types;
        }
        let fits = declared.iter().filter(|c| c.core.runs_on(core));
        fits.max_by_key(|c| c.core.arch()).map_or(TypeSet::EMPTY, |c| c.types)
    }

    /// Returns the declared types per core; empty if cores do not differ.
    pub const fn core_types(&self) -> &'static [CoreTypes] {
        self.per_core.get()
    }

    /// Whether a node may omit the port.
    pub const fn is_optional(&self) -> bool {
        self.flags & OPTIONAL != 0
    }

    /// Whether the input must be a constant.
    pub const fn wants_constant(&self) -> bool {
        self.flags & STATIC != 0
    }

    /// Whether the port stands for any number of tensors.
    pub const fn is_repeated(&self) -> bool {
        self.flags & REPEATED != 0
    }

    /// Whether a foreign table has flags that this version does not know.
    pub const fn has_unknown_flags(&self) -> bool {
        let (layout, quantization) =
            (self.flags >> LAYOUT_SHIFT & 0xf, self.flags >> QUANTIZATION_SHIFT & 0xf);
        let known = OPTIONAL | STATIC | REPEATED | 0xf << LAYOUT_SHIFT | 0xf << QUANTIZATION_SHIFT;
        self.flags & !known != 0 || layout > 2 || quantization > 1
    }

    /// Returns the order of a rank-4 tensor's dimensions.
    pub const fn rank4_layout(&self) -> Layout {
        match self.flags >> LAYOUT_SHIFT & 0xf {
            1 => Layout::Nhwc,
            2 => Layout::Nchw,
            _ => Layout::AsGiven,
        }
    }

    /// Returns how fixed-point values are quantized.
    pub const fn quantization_mode(&self) -> Quantization {
        match self.flags >> QUANTIZATION_SHIFT & 0xf {
            1 => Quantization::Tf,
            _ => Quantization::None,
        }
    }

    /// Returns the value of an omitted constant input.
    pub const fn default_value(&self) -> ValueKind {
        self.default.get()
    }
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A number or a bool.
    Scalar,
    /// A string.
    Text,
    /// A list of numbers.
    Tensor,
    /// A tensor with the element type and shape of the model.
    TypedTensor,
    /// A list of strings.
    Texts,
    /// A graph.
    Graph,
}

impl ParamKind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Scalar, Self::Text, Self::Tensor, Self::TypedTensor, Self::Texts, Self::Graph];

    /// Returns the name in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Text => "text",
            Self::Tensor => "list",
            Self::TypedTensor => "tensor",
            Self::Texts => "texts",
            Self::Graph => "graph",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Param {
    const fn new(kind: u32, name: &'static str, dtype: DType) -> Self {
        Self {
            name: RawStr::new(name),
            attribute: RawStr::EMPTY,
            kind,
            flags: 0,
            dtype: dtype.code() as u32,
            types: TypeSet::EMPTY,
            default: Value::NONE,
            reserved: [0; 2],
        }
    }

    /// Declares a number or a bool, required unless it has a default.
    pub const fn scalar(name: &'static str, dtype: DType) -> Self {
        Self::new(1, name, dtype)
    }

    /// Declares a string, required unless it has a default.
    pub const fn text(name: &'static str) -> Self {
        Self::new(2, name, DType::Str)
    }

    /// Declares a list of numbers, required unless it has a default.
    pub const fn tensor(name: &'static str, dtype: DType) -> Self {
        Self::new(3, name, dtype)
    }

    /// The former name of [`Param::strings`].
    #[doc(hidden)]
    pub const fn texts(name: &'static str) -> Self {
        Self::strings(name)
    }

    /// Declares a list of strings, required unless it has a default.
    pub const fn strings(name: &'static str) -> Self {
        Self::new(5, name, DType::Str)
    }

    /// Declares a subgraph, which the host runs and kernels do not see; required unless made optional. Only built-in
    /// operators have such parameters.
    pub const fn graph(name: &'static str) -> Self {
        Self { dtype: 0, ..Self::new(6, name, DType::F32) }
    }

    /// Declares a tensor of one of these types that keeps its type and shape; required unless made optional. Use
    /// [`Param::tensor`] for a list of numbers that a package converts to its own type.
    pub const fn typed_tensor(name: &'static str, types: TypeSet) -> Self {
        Self { dtype: 0, types, ..Self::new(4, name, DType::F32) }
    }

    /// Sets the name of the model's attribute, if it differs: for names that are not valid in Rust or in a config, such
    /// as `type`.
    #[must_use]
    pub const fn attribute(mut self, name: &'static str) -> Self {
        self.attribute = RawStr::new(name);
        self
    }

    /// Makes the parameter optional without a default.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.flags |= OPTIONAL;
        self
    }

    /// Makes the parameter optional with this default.
    #[must_use]
    pub const fn default(mut self, value: Value) -> Self {
        self.default = value;
        self.optional()
    }

    /// Returns the name of the attribute.
    pub const fn attribute_name(&self) -> &'static str {
        let attribute = self.attribute.get();
        if attribute.is_empty() { self.name.get() } else { attribute }
    }

    /// Returns the parameter's name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// Returns the kind; `None` for a kind that this version does not know.
    pub const fn kind(&self) -> Option<ParamKind> {
        match self.kind {
            1 => Some(ParamKind::Scalar),
            2 => Some(ParamKind::Text),
            3 => Some(ParamKind::Tensor),
            4 => Some(ParamKind::TypedTensor),
            5 => Some(ParamKind::Texts),
            6 => Some(ParamKind::Graph),
            _ => None,
        }
    }

    /// Returns the element type; `None` for a typed tensor, a graph, and a code that this version does not know.
    pub const fn dtype(&self) -> Option<DType> {
        match self.dtype.to_le_bytes() {
            [code, 0, 0, 0] => DType::from_code(code),
            _ => None,
        }
    }

    /// Returns the accepted element types: one, except for a typed tensor.
    pub const fn types(&self) -> TypeSet {
        match self.dtype() {
            Some(dtype) => dtype.set(),
            None => self.types,
        }
    }

    /// Whether a foreign table has types for a kind without types, or lacks them for a kind with types.
    pub const fn has_stray_types(&self) -> bool {
        let keeps_its_own = matches!(self.kind(), Some(ParamKind::TypedTensor));
        let has_none = keeps_its_own || matches!(self.kind(), Some(ParamKind::Graph));
        self.types.is_empty() == keeps_its_own || (self.dtype == 0) != has_none
    }

    /// Whether a node may leave it out.
    pub const fn is_optional(&self) -> bool {
        self.flags & OPTIONAL != 0
    }

    /// Whether a foreign table has flags that this version does not know.
    pub const fn has_unknown_flags(&self) -> bool {
        self.flags & !OPTIONAL != 0
    }

    /// Returns the default.
    pub const fn default_value(&self) -> ValueKind {
        self.default.get()
    }
}

impl Facts {
    /// No facts.
    pub const NONE: Self = Self(0);
    /// Output 0 has the bytes of input 0 under another shape.
    pub const VIEW: Self = Self(1);
    /// Every output element depends on the input elements at its own position, after broadcasting. CPU kernels may
    /// therefore get operands in channels-last layout and produce outputs in it.
    pub const ELEMENTWISE: Self = Self(1 << 1);
    /// Fixed-point outputs take the encoding of input 0.
    pub const SAME_ENCODING: Self = Self(1 << 2);
    /// Output 0 is the concatenation of the inputs along one axis. If a parameter `axis` names it, CPU kernels may get
    /// operands in channels-last layout, with the axis mapped.
    pub const CONCAT: Self = Self(1 << 7);
    /// The outputs are a deterministic function of inputs and parameters without side effects. A node with constant
    /// inputs may be computed once, by a CPU kernel, before any run.
    pub const PURE: Self = Self(1 << 8);
    /// The outputs depend only on the shapes of the inputs. A pure node whose input shapes are known is computed before
    /// any run, with inputs that have shapes but no elements.
    pub const SHAPE_ONLY: Self = Self(1 << 9);
    /// The host runs the first graph parameter if input 0 is true and the second one otherwise; the outputs are those
    /// of the graph. Only built-in operators have this fact and the next two.
    pub const BRANCHES: Self = Self(1 << 10);
    /// The host runs the graph parameter in each iteration: input 0 is the number of iterations, and the loop continues while
    /// input 1 and then the graph's first output are true. The remaining inputs are loop-carried states. The outputs
    /// are the final states, then the per-iteration outputs concatenated along a new first axis.
    pub const LOOP: Self = Self(1 << 11);
    /// The host runs the graph parameter for each slice of the inputs along an axis; the first inputs are states.
    pub const SCAN: Self = Self(1 << 12);

    /// The facts of operators whose graphs the host runs.
    pub const CONTROL: Self = Self::BRANCHES.or(Self::LOOP).or(Self::SCAN);

    /// Returns the union of the facts.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All facts that this version knows.
    pub const KNOWN: Self = Self(0x1f87);

    /// Returns the bits; a foreign table may have bits that this version does not know.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether it has any fact of `other`.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it has all facts of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl OpSchema {
    /// Creates the schema of operator `name` with these ports and parameters.
    pub const fn new(
        name: &'static str,
        inputs: &'static [Port],
        outputs: &'static [Port],
        params: &'static [Param],
    ) -> Self {
        Self {
            name: RawStr::new(name),
            domain: RawStr::EMPTY,
            inputs: Slice::new(inputs),
            outputs: Slice::new(outputs),
            params: Slice::new(params),
            facts: Facts::NONE,
            reserved_word: 0,
            reserved: [0; 4],
        }
    }

    /// Binds the operator only to nodes of this domain.
    #[must_use]
    pub const fn in_domain(mut self, domain: &'static str) -> Self {
        self.domain = RawStr::new(domain);
        self
    }

    /// Sets the facts.
    #[must_use]
    pub const fn facts(mut self, facts: Facts) -> Self {
        self.facts = facts;
        self
    }

    /// Returns the operator's type name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// Returns the operator's domain; empty for the default domain, which is the package's name.
    pub const fn domain(&self) -> &'static str {
        self.domain.get()
    }

    /// Returns the inputs, in order.
    pub const fn inputs(&self) -> &'static [Port] {
        self.inputs.get()
    }

    /// Returns the outputs, in order.
    pub const fn outputs(&self) -> &'static [Port] {
        self.outputs.get()
    }

    /// Returns the parameters.
    pub const fn params(&self) -> &'static [Param] {
        self.params.get()
    }

    /// Returns the facts that passes may rely on.
    pub const fn known_facts(&self) -> Facts {
        self.facts
    }

    /// Returns the port of input `index`; tensors of a repeated last port count.
    pub fn input(&self, index: usize) -> Option<&'static Port> {
        port_at(self.inputs(), index)
    }

    /// Returns the port of output `index`; tensors of a repeated last port count.
    pub fn output(&self, index: usize) -> Option<&'static Port> {
        port_at(self.outputs(), index)
    }
}

fn port_at(ports: &'static [Port], index: usize) -> Option<&'static Port> {
    ports.get(index).or_else(|| ports.last().filter(|p| p.is_repeated()))
}

impl OpDef {
    /// Adds these facts.
    #[must_use]
    pub const fn and_facts(mut self, facts: Facts) -> Self {
        self.schema.facts = self.schema.facts.or(facts);
        self
    }

    /// Binds the operator only to nodes of this domain.
    #[must_use]
    pub const fn in_domain(mut self, domain: &'static str) -> Self {
        self.schema = self.schema.in_domain(domain);
        self
    }

    /// Returns the schema.
    pub const fn schema(&self) -> &OpSchema {
        &self.schema
    }

    /// `[describe-time, thread-safe]` Returns the shape inference.
    // SAFETY: only a type; callers pass `args` that point to an `InferArgs` whose pointers and counts are those of one
    // node and outlive the call.
    pub const fn infer_fn(&self) -> unsafe extern "C" fn(args: *const InferArgs) -> u32 {
        self.infer
    }
}
