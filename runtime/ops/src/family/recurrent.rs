//! Recurrent operators (LSTM, GRU, RNN), which carry a hidden state along a sequence.

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
use side::{Side, WeightScratch, Weights};
use sizes::{Counts, Sizes};

/// One step of a recurrent cell. The family provides ports, parameters, inference, directions, sequence lengths, the
/// products with the weights, and tests of all but the step itself.
pub(crate) trait Cell: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    /// Gates of the cell: sums of input and state per state element.
    const GATES: usize;
    /// Names of the initial and final value of a second state, such as the cell state of an LSTM.
    const MEMORY: Option<[&'static str; 2]> = None;
    /// Peephole weights per element of the second state, and the name of that input; 0 for none.
    const PEEPHOLES: (usize, &'static str) = (0, "");
    /// The default activations of a direction.
    const ACTIVATIONS: &'static [&'static str];
    /// Whether weights are quantized, with gates as columns, and a scale and zero point per direction or per column.
    /// Inputs and states are then quantized in the run by their last range.
    const IS_QUANTIZED: bool = false;
    /// Additional parameters, at most one.
    const PARAMS: &'static [Param] = &[];

    /// Reads the parameters.
    fn read(node: &Node<'_>) -> Result<Self, Error>;

    /// Returns the late gate: the gate whose state sums are products with the output of [`Cell::reset`] instead of the
    /// hidden state. GRU has one.
    fn late(&self) -> Option<usize> {
        None
    }

    /// Writes to `_reset_hidden` the hidden state as the late gate sees it, and may update the gates.
    fn reset(&self, _step: Step<'_>, _reset_hidden: &mut [f32]) {}

    /// Advances the state of a row by one step.
    fn step(&self, step: Step<'_>);
}

/// The data of one row of the batch for a step.
pub(crate) struct Step<'a> {
    /// Input sums (products of the input and its weights), gate by gate.
    pub(crate) input: &'a [f32],
    /// State sums (products of the hidden state and its weights), gate by gate; the cell may overwrite them.
    pub(crate) gates: &'a mut [f32],
    /// The hidden state.
    pub(crate) hidden: &'a mut [f32],
    /// The second state; empty if the cell lacks it.
    pub(crate) memory: &'a mut [f32],
    /// Peephole weights; empty if the node lacks them.
    pub(crate) peepholes: &'a [f32],
    /// State sums of the late gate; empty if absent.
    pub(crate) late: &'a [f32],
    /// The activations of the cell.
    pub(crate) activations: &'a [Activation],
}

/// Defines the operator of the cell `C`.
pub(crate) const fn recurrent<C: Cell>() -> Def {
    let def = Def::new::<Described<C>>(Described::<C>::KERNELS);
    // The shared tests compare rows one by one. Quantized cells quantize all rows by a common range, so rows depend on
    // each other.
    #[cfg(test)]
    let def = if C::IS_QUANTIZED { def } else { def.tested(tests::run_all::<C>) };
    def
}

// Inputs of every cell; those of a second state follow them.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const BIAS: usize = 3;
const LENGTHS: usize = 4;
const FIRST_HIDDEN: usize = 5;
const FIRST_MEMORY: usize = 6;
const PEEPHOLES: usize = 7;

/// Scales and zero points of quantized input weights.
const W_ENCODING: [usize; 2] = [8, 9];
/// Scales and zero points of quantized state weights.
const R_ENCODING: [usize; 2] = [10, 11];

// Outputs.
const Y: usize = 0;
const LAST_HIDDEN: usize = 1;
const LAST_MEMORY: usize = 2;

const RULES: &[PortRule] = &[input(0, types::F32)];

/// The parameters of every cell.
const PARAMS: [Param; 7] = [
    Param::tensor("activation_alpha", DType::F32).optional(),
    Param::tensor("activation_beta", DType::F32).optional(),
    Param::strings("activations").optional(),
    Param::scalar("clip", DType::F32).optional(),
    Param::text("direction").default(Value::text("forward")),
    Param::scalar("hidden_size", DType::I64).optional(),
    Param::scalar("layout", DType::I64).default(Value::int(0)),
];

/// The operator of the cell `C`.
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
        let last = if C::PARAMS.is_empty() { a } else { C::PARAMS[0] };
        [a, b, c, d, e, f, g, last]
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
        let sizes = Sizes::read(cx, Counts::for_cell::<C>())?;
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
