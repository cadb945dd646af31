//! What an operator is: ports, parameters, and the facts that passes read.

use crate::abi::{CoreTypes, Facts, InferArgs, OpDef, OpSchema, Param, Port, Value, ValueKind};
use crate::author::InferCx;
use crate::core::Core;
use crate::dtype::{DType, TypeSet};
use crate::error::Error;
use crate::span::{RawStr, Slice};

/// An operator: its schema and its shape inference. No data is seen here.
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

    /// Says the type and shape of every output.
    ///
    /// # Errors
    /// Inputs or parameters that the operator does not take; the message says which.
    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error>;
}

/// The order of a rank-4 tensor's dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// As in the model.
    #[default]
    AsGiven,
    /// Batch, height, width, channels.
    Nhwc,
    /// Batch, channels, height, width.
    Nchw,
}

impl Layout {
    /// The axes of an NCHW tensor in the order of NHWC, as a transpose takes them.
    pub const NHWC_AXES: [usize; 4] = [0, 2, 3, 1];
    /// The axes of an NHWC tensor in the order of NCHW.
    pub const NCHW_AXES: [usize; 4] = [0, 3, 1, 2];

    /// Where an axis of an operator's tensor is in this layout; none if nothing in it has such an axis.
    pub fn axis(self, axis: usize) -> Option<usize> {
        match self {
            Self::Nhwc => Self::NHWC_AXES.iter().position(|&a| a == axis),
            Self::AsGiven | Self::Nchw => Some(axis),
        }
    }
}

/// How a port's fixed-point values stand for real ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantization {
    /// Not at all.
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
    /// On `core` the port takes these types.
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
    /// A port that every node has.
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

    /// A port that a node may leave out.
    pub const fn optional(name: &'static str, types: TypeSet) -> Self {
        Self::required(name, types).flag(OPTIONAL)
    }

    const fn flag(mut self, bits: u32) -> Self {
        self.flags |= bits;
        self
    }

    /// The input's data is in the model.
    #[must_use]
    pub const fn constant(self) -> Self {
        self.flag(STATIC)
    }

    /// The port stands for any number of tensors; the last port only.
    #[must_use]
    pub const fn repeated(self) -> Self {
        self.flag(REPEATED)
    }

    /// The order of a rank-4 tensor's dimensions.
    #[must_use]
    pub const fn layout(self, layout: Layout) -> Self {
        self.flag((layout as u32) << LAYOUT_SHIFT)
    }

    /// How fixed-point values stand for real ones.
    #[must_use]
    pub const fn quantization(self, mode: Quantization) -> Self {
        self.flag((mode as u32) << QUANTIZATION_SHIFT)
    }

    /// The types per core, where they differ.
    #[must_use]
    pub const fn per_core(mut self, types: &'static [CoreTypes]) -> Self {
        self.per_core = Slice::new(types);
        self
    }

    /// The value of a constant input that a node leaves out.
    #[must_use]
    pub const fn default(mut self, value: Value) -> Self {
        self.default = value;
        self.flag(OPTIONAL)
    }

    /// The port's name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// Every type that some core takes.
    pub const fn types(&self) -> TypeSet {
        self.types
    }

    /// The types that `core` takes; all of them where cores do not differ.
    pub fn types_on(&self, core: Core) -> TypeSet {
        let declared = self.per_core.get();
        if declared.is_empty() {
            return self.types;
        }
        let fits = declared.iter().filter(|c| c.core.runs_on(core));
        fits.max_by_key(|c| c.core.arch()).map_or(TypeSet::EMPTY, |c| c.types)
    }

    /// The types per core as declared; empty where cores do not differ.
    pub const fn core_types(&self) -> &'static [CoreTypes] {
        self.per_core.get()
    }

    /// Whether a node may leave the port out.
    pub const fn is_optional(&self) -> bool {
        self.flags & OPTIONAL != 0
    }

    /// Whether the input's data must be in the model.
    pub const fn wants_constant(&self) -> bool {
        self.flags & STATIC != 0
    }

    /// Whether the port stands for any number of tensors.
    pub const fn is_repeated(&self) -> bool {
        self.flags & REPEATED != 0
    }

    /// Whether a foreign table sets flags that mean nothing here.
    pub const fn has_unknown_flags(&self) -> bool {
        let (layout, quantization) =
            (self.flags >> LAYOUT_SHIFT & 0xf, self.flags >> QUANTIZATION_SHIFT & 0xf);
        let known = OPTIONAL | STATIC | REPEATED | 0xf << LAYOUT_SHIFT | 0xf << QUANTIZATION_SHIFT;
        self.flags & !known != 0 || layout > 2 || quantization > 1
    }

    /// The order of a rank-4 tensor's dimensions.
    pub const fn rank4_layout(&self) -> Layout {
        match self.flags >> LAYOUT_SHIFT & 0xf {
            1 => Layout::Nhwc,
            2 => Layout::Nchw,
            _ => Layout::AsGiven,
        }
    }

    /// How fixed-point values stand for real ones.
    pub const fn quantization_mode(&self) -> Quantization {
        match self.flags >> QUANTIZATION_SHIFT & 0xf {
            1 => Quantization::Tf,
            _ => Quantization::None,
        }
    }

    /// The value of a constant input that a node leaves out.
    pub const fn default_value(&self) -> ValueKind {
        self.default.get()
    }
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// One number or truth value.
    Scalar,
    /// Text.
    Text,
    /// A list of numbers.
    Tensor,
    /// A tensor with the element type and the shape that the model gives it.
    TypedTensor,
    /// A list of texts.
    Texts,
    /// A graph.
    Graph,
}

impl ParamKind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Scalar, Self::Text, Self::Tensor, Self::TypedTensor, Self::Texts, Self::Graph];

    /// The word for it in manifests.
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

    /// The kind that `name` is the word for.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Param {
    const fn of(kind: u32, name: &'static str, dtype: DType) -> Self {
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

    /// One number or truth value, required until given a default.
    pub const fn scalar(name: &'static str, dtype: DType) -> Self {
        Self::of(1, name, dtype)
    }

    /// A text, required until given a default.
    pub const fn text(name: &'static str) -> Self {
        Self::of(2, name, DType::Str)
    }

    /// A list of numbers, required until given a default.
    pub const fn tensor(name: &'static str, dtype: DType) -> Self {
        Self::of(3, name, dtype)
    }

    /// A list of texts, required until given a default.
    pub const fn texts(name: &'static str) -> Self {
        Self::of(5, name, DType::Str)
    }

    /// A graph, which the host runs and no kernel sees; required until made optional. Only built-in operators have some.
    pub const fn graph(name: &'static str) -> Self {
        Self { dtype: 0, ..Self::of(6, name, DType::F32) }
    }

    /// A tensor of one of these types, which keeps its type and its shape; required until made optional. A list of numbers
    /// that a package works with in a type of its own is a [`Param::tensor`].
    pub const fn typed_tensor(name: &'static str, types: TypeSet) -> Self {
        Self { dtype: 0, types, ..Self::of(4, name, DType::F32) }
    }

    /// The attribute of models that gives the parameter its value, where that has another name: one
    /// that is no name in Rust or in a config, such as `type`.
    #[must_use]
    pub const fn attribute(mut self, name: &'static str) -> Self {
        self.attribute = RawStr::new(name);
        self
    }

    /// A node may leave the parameter out; it then has no value.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.flags |= OPTIONAL;
        self
    }

    /// A node may leave the parameter out; it then has this value.
    #[must_use]
    pub const fn default(mut self, value: Value) -> Self {
        self.default = value;
        self.optional()
    }

    /// The name of the attribute that gives its value.
    pub const fn attribute_name(&self) -> &'static str {
        let attribute = self.attribute.get();
        if attribute.is_empty() { self.name.get() } else { attribute }
    }

    /// The parameter's name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// What it holds; nothing for a kind that this version does not know.
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

    /// The element type; nothing for a tensor that keeps its own, for a graph, and for a code that this version does not know.
    pub const fn dtype(&self) -> Option<DType> {
        match self.dtype.to_le_bytes() {
            [code, 0, 0, 0] => DType::from_code(code),
            _ => None,
        }
    }

    /// The element types that it takes: one but for a tensor that keeps its own.
    pub const fn types(&self) -> TypeSet {
        match self.dtype() {
            Some(dtype) => dtype.set(),
            None => self.types,
        }
    }

    /// Whether a foreign table says types where its kind has none, or none where it has some.
    pub const fn has_stray_types(&self) -> bool {
        let keeps_its_own = matches!(self.kind(), Some(ParamKind::TypedTensor));
        let has_none = keeps_its_own || matches!(self.kind(), Some(ParamKind::Graph));
        self.types.is_empty() == keeps_its_own || (self.dtype == 0) != has_none
    }

    /// Whether a node may leave it out.
    pub const fn is_optional(&self) -> bool {
        self.flags & OPTIONAL != 0
    }

    /// Whether a foreign table sets flags that mean nothing here.
    pub const fn has_unknown_flags(&self) -> bool {
        self.flags & !OPTIONAL != 0
    }

    /// The value where a node leaves it out.
    pub const fn default_value(&self) -> ValueKind {
        self.default.get()
    }
}

impl Facts {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Output 0 is input 0's bytes under another shape.
    pub const VIEW: Self = Self(1);
    /// Every output element depends on the input elements at its own place, after broadcasting. So where its
    /// operands lie channels last, CPU kernels get them, and its outputs, in that layout.
    pub const ELEMENTWISE: Self = Self(1 << 1);
    /// Fixed-point outputs take the encoding of input 0.
    pub const SAME_ENCODING: Self = Self(1 << 2);
    /// Output 0 is the inputs side by side along one axis. If a parameter `axis` says which, CPU kernels may get
    /// operands that lie channels last, with the axis there.
    pub const CONCAT: Self = Self(1 << 7);
    /// The outputs are what inputs and parameters make them, each time alike, and nothing else happens. So a node all of
    /// whose inputs are in the model may be computed once, by a kernel of the CPU, before any run.
    pub const PURE: Self = Self(1 << 8);
    /// The outputs follow from the extents of the inputs, whatever their elements are. So a pure node whose inputs' extents
    /// are known is computed before any run, with inputs that have extents and no elements.
    pub const SHAPE_ONLY: Self = Self(1 << 9);
    /// The host runs the first graph parameter where input 0 is true and the second one where it is not; the outputs are
    /// what that one gives. Only built-in operators have this fact and the next two.
    pub const BRANCHES: Self = Self(1 << 10);
    /// The host runs the graph parameter for each trip: for as many as input 0 says, while input 1 and then the graph's
    /// first output are true. The inputs behind are states, which go around; the outputs are the last states, then what
    /// each trip gives, side by side along a new first axis.
    pub const LOOP: Self = Self(1 << 11);
    /// The host runs the graph parameter for each slice of the inputs along an axis, the first ones of which are states.
    pub const SCAN: Self = Self(1 << 12);

    /// Those by which the host runs graphs.
    pub const CONTROL: Self = Self::BRANCHES.or(Self::LOOP).or(Self::SCAN);

    /// The facts of either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Every fact that means something here.
    pub const KNOWN: Self = Self(0x1f87);

    /// The bits; a foreign table may have some that mean nothing here.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether any fact of `other` is among these.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all facts of `other` are among these.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl OpSchema {
    /// The operator called `name` with these ports and parameters.
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

    /// The same operator, bound only to nodes of this domain.
    #[must_use]
    pub const fn in_domain(mut self, domain: &'static str) -> Self {
        self.domain = RawStr::new(domain);
        self
    }

    /// The same operator with these facts.
    #[must_use]
    pub const fn facts(mut self, facts: Facts) -> Self {
        self.facts = facts;
        self
    }

    /// The operator's type name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// The domain whose nodes it takes; empty for that which its package is called by.
    pub const fn domain(&self) -> &'static str {
        self.domain.get()
    }

    /// The inputs, in order.
    pub const fn inputs(&self) -> &'static [Port] {
        self.inputs.get()
    }

    /// The outputs, in order.
    pub const fn outputs(&self) -> &'static [Port] {
        self.outputs.get()
    }

    /// The parameters.
    pub const fn params(&self) -> &'static [Param] {
        self.params.get()
    }

    /// What passes may rely on.
    pub const fn known_facts(&self) -> Facts {
        self.facts
    }

    /// The port that stands for input `index`, counting repeats of a repeated last port.
    pub fn input(&self, index: usize) -> Option<&'static Port> {
        port_at(self.inputs(), index)
    }

    /// The port that stands for output `index`, counting repeats of a repeated last port.
    pub fn output(&self, index: usize) -> Option<&'static Port> {
        port_at(self.outputs(), index)
    }
}

fn port_at(ports: &'static [Port], index: usize) -> Option<&'static Port> {
    ports.get(index).or_else(|| ports.last().filter(|p| p.is_repeated()))
}

impl OpDef {
    /// The same with these facts as well.
    #[must_use]
    pub const fn and_facts(mut self, facts: Facts) -> Self {
        self.schema.facts = self.schema.facts.or(facts);
        self
    }

    /// The same operator, bound only to nodes of this domain.
    #[must_use]
    pub const fn in_domain(mut self, domain: &'static str) -> Self {
        self.schema = self.schema.in_domain(domain);
        self
    }

    /// The schema.
    pub const fn schema(&self) -> &OpSchema {
        &self.schema
    }

    /// `[describe-time, thread-safe]` The shape inference.
    // SAFETY: none is promised here; who calls it promises that `args` points at an `InferArgs` whose pointers and counts
    // are those of one node, and that all of it outlives the call.
    pub const fn infer_fn(&self) -> unsafe extern "C" fn(args: *const InferArgs) -> u32 {
        self.infer
    }
}
