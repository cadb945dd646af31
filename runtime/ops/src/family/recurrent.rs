//! Operators that go along a sequence and keep a state.

mod activations;
mod kernel;
mod side;
mod sizes;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Error, InferCx, KernelDef, Node, Op, OpSchema, Param, Port, PortRule, Shape,
    TypeSet, Value, input, types,
};

use crate::Def;
use crate::family::matmul::OPERANDS;
pub(crate) use activations::Activation;
use kernel::Recurrent;
use side::{Own, Side, Weights};
use sizes::{Counts, Sizes};

/// One step of the state. Its family has the ports and parameters of every cell, inference, directions, sequences of
/// several lengths, the products with the weights, and tests of all that but the step itself.
pub(crate) trait Cell: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    /// Sums of input and state that a step takes, for each element of the state.
    const GATES: usize;
    /// A state besides the hidden one: the names of its first value and of its last.
    const MEMORY: Option<[&'static str; 2]> = None;
    /// Weights of the memory for each of its elements, and the name of that input; none is 0.
    const PEEPHOLES: (usize, &'static str) = (0, "");
    /// What the activations of a direction are where a node does not say them.
    const ACTIVATIONS: &'static [&'static str];
    /// Whether its weights are quantized values, each gate's numbers of which are a column. They come with a scale and a zero
    /// point for each direction, or for each column of it, and what they are multiplied by is quantized by its own range.
    const IS_QUANTIZED: bool = false;
    /// Parameters besides those of every cell, one at most.
    const PARAMS: &'static [Param] = &[];

    /// Reads the parameters.
    fn read(node: &Node<'_>) -> Result<Self, Error>;

    /// The gate whose state sums are made of what [`Cell::reset`] leaves of the hidden state, rather than of all of it.
    fn late(&self) -> Option<usize> {
        None
    }

    /// Writes what a late gate sees of the hidden state; the gates keep what is done to them.
    fn reset(&self, _step: Step<'_>, _seen: &mut [f32]) {}

    /// Makes of a row's state that of the next step.
    fn step(&self, step: Step<'_>);
}

/// What one row of the batch has for a step.
pub(crate) struct Step<'a> {
    /// What the input adds to each gate, gate by gate.
    pub(crate) input: &'a [f32],
    /// What the hidden state adds to each gate; the cell may work in it.
    pub(crate) gates: &'a mut [f32],
    pub(crate) hidden: &'a mut [f32],
    /// Empty where the cell has none.
    pub(crate) memory: &'a mut [f32],
    /// Empty where the node leaves them out.
    pub(crate) peepholes: &'a [f32],
    /// What the late gate has of the hidden state; empty where no gate is late.
    pub(crate) late: &'a [f32],
    /// As many as the cell has.
    pub(crate) activations: &'a [Activation],
}

/// The operator that `C` is the cell of.
pub(crate) const fn recurrent<C: Cell>() -> Def {
    let def = Def::of::<Described<C>>(Described::<C>::KERNELS);
    // One range for all rows makes each depend on the others.
    #[cfg(test)]
    let def = if C::IS_QUANTIZED { def } else { def.tested(tests::all::<C>) };
    def
}

// The inputs of every cell; those of one with a memory are behind them.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const BIAS: usize = 3;
const LENGTHS: usize = 4;
const FIRST_HIDDEN: usize = 5;
const FIRST_MEMORY: usize = 6;
const PEEPHOLES: usize = 7;

/// The scales of quantized weights of the input, and their zero points.
const W_ENCODING: [usize; 2] = [8, 9];
/// The same of those of the state.
const R_ENCODING: [usize; 2] = [10, 11];

// The outputs.
const Y: usize = 0;
const LAST_HIDDEN: usize = 1;
const LAST_MEMORY: usize = 2;

const RULES: &[PortRule] = &[input(0, types::F32)];

/// The parameters of every cell.
const PARAMS: [Param; 7] = [
    Param::tensor("activation_alpha", DType::F32).optional(),
    Param::tensor("activation_beta", DType::F32).optional(),
    Param::texts("activations").optional(),
    Param::scalar("clip", DType::F32).optional(),
    Param::text("direction").default(Value::text("forward")),
    Param::scalar("hidden_size", DType::I64).optional(),
    Param::scalar("layout", DType::I64).default(Value::int(0)),
];

struct Described<C>(PhantomData<fn() -> C>);

impl<C: Cell> Described<C> {
    const KERNELS: &'static [KernelDef] =
        &[KernelDef::new::<Recurrent<C>>(C::NAME, Core::CPU).ports(RULES)];
    const MEMORY: [&'static str; 2] = match C::MEMORY {
        Some(names) => names,
        None => [""; 2],
    };
    const WEIGHTS: TypeSet = if C::IS_QUANTIZED { OPERANDS } else { types::F32 };
    const INPUTS: [Port; 12] = [
        Port::required("X", types::F32),
        Port::required("W", Self::WEIGHTS),
        Port::required("R", Self::WEIGHTS),
        Port::optional("B", types::F32),
        Port::optional("sequence_lens", types::I32),
        Port::optional("initial_h", types::F32),
        Port::optional(Self::MEMORY[0], types::F32),
        Port::optional(C::PEEPHOLES.1, types::F32),
        Port::required("W_scale", types::F32),
        Port::required("W_zero_point", OPERANDS),
        Port::required("R_scale", types::F32),
        Port::required("R_zero_point", OPERANDS),
    ];
    const INPUT_COUNT: usize = match (C::MEMORY, C::PEEPHOLES.0) {
        _ if C::IS_QUANTIZED => R_ENCODING[1] + 1,
        (None, _) => FIRST_MEMORY,
        (Some(_), 0) => PEEPHOLES,
        (Some(_), _) => PEEPHOLES + 1,
    };
    const OUTPUTS: [Port; 3] = [
        Port::optional("Y", types::F32),
        Port::optional("Y_h", types::F32),
        Port::optional(Self::MEMORY[1], types::F32),
    ];
    const OUTPUT_COUNT: usize = if C::MEMORY.is_some() { LAST_MEMORY + 1 } else { LAST_MEMORY };
    const PARAMS: [Param; 8] = {
        let [a, b, c, d, e, f, g] = PARAMS;
        let own = if C::PARAMS.is_empty() { a } else { C::PARAMS[0] };
        [a, b, c, d, e, f, g, own]
    };
}

impl<C: Cell> Op for Described<C> {
    const SCHEMA: OpSchema = OpSchema::new(
        C::NAME,
        Self::INPUTS.split_at(Self::INPUT_COUNT).0,
        Self::OUTPUTS.split_at(Self::OUTPUT_COUNT).0,
        Self::PARAMS.split_at(PARAMS.len() + C::PARAMS.len()).0,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        C::read(cx)?;
        let sizes = Sizes::read(cx, Counts::of::<C>())?;
        Activation::read(cx, sizes.dirs, C::ACTIVATIONS)?;
        let [y, last] = sizes.output_shapes();
        let x = cx.input(X)?;
        for (port, dims) in [(Y, &y), (LAST_HIDDEN, &last), (LAST_MEMORY, &last)] {
            if port < cx.output_count() {
                cx.set_output(port, x.with_shape(Shape::new(dims)?))?;
            }
        }
        Ok(())
    }
}
