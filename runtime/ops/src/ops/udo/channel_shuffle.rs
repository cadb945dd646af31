//! Interleaves groups of channels: the first channel of each group, then the second of each, and so on.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0.

use udo_api::{
    Bits, Core, DType, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, Node, OpSchema,
    Param, Port, Value, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::movement::{Example, Movement, Permutation, Setting, kernel, movement};

pub(crate) const DEF: Def = movement::<ChannelShuffle>();

/// The exchange of two axes, groups and channels of a group.
struct ChannelShuffle(Permutation);

impl Movement for ChannelShuffle {
    const SCHEMA: OpSchema = OpSchema::new(
        "ChannelShuffle",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[
            Param::scalar("group", DType::I64),
            Param::scalar("axis", DType::I64).default(Value::int(1)),
        ],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] =
        &[kernel::<Self>(Core::CPU), kernel::<Self>(Core::DSP_V68)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[1, 6, 2]],
            params: &[("group", Setting::Int(2))],
            outputs: &[(&[1, 6, 2], &[0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 4]],
            params: &[("group", Setting::Int(2)), ("axis", Setting::Int(-1))],
            outputs: &[(&[2, 4], &[0, 2, 1, 3, 4, 6, 5, 7])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        permutation(cx)?;
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        permutation(cx).map(Self)
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.0.execute::<B>(io)
    }
}

/// Splits the axis into groups and channels of a group, and exchanges the two.
fn permutation(node: &Node<'_>) -> Result<Permutation, Error> {
    let x = node.input(0)?;
    let axis = node.axis("axis", x.rank())?;
    let AxisSplit { outer, len, inner } = AxisSplit::at(x.shape(), axis);
    let requested = node.int("group")?;
    let group = usize::try_from(requested).ok();
    let group = group.filter(|&group| group > 0 && len.is_multiple_of(group)).ok_or_else(|| {
        Error::new(format!(
            "parameter \"group\" is {requested}, expected a divisor of axis {axis} of {x}"
        ))
    })?;
    Ok(Permutation { shape: vec![outer, group, len / group, inner], perm: vec![0, 2, 1, 3] })
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn groups_divide_the_channels() {
        for group in [0, -1, 2] {
            let run = bench("udo:ChannelShuffle").input(tensor(&[1, 3], &[1u8; 3]));
            let error = run.int("group", group).error();
            let expected = "expected a divisor of axis 1 of u8[1,3]";
            assert_eq!(error, format!("parameter \"group\" is {group}, {expected}"));
        }
    }
}
