//! Broadcasts the input to a larger shape.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `walked` is the GPU kernel. A walk is the list of input positions that the output reads
//! along an axis. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Core, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, Node, OpSchema, Port,
    Shape, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::elementwise::broadcast_shapes;
use crate::family::movement::{
    BOUNDED, Example, Movement, Walked, Walks, expand, kernel, movement, repeats, walked,
};

pub(crate) const DEF: Def = movement::<Expand>();

const SHAPE: IntsArgument = IntsArgument { input: 1, name: "shape", what: "shape" };

struct Expand {
    /// The shape to broadcast to; aligned with the input at the last axis.
    target: Shape,
}

impl Movement for Expand {
    const SCHEMA: OpSchema = OpSchema::new(
        "Expand",
        &[Port::required("input", types::ANY), SHAPE.port()],
        &[Port::required("output", types::ANY)],
        &[],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU).ports(BOUNDED),
        walked::<Self>(),
        kernel::<Self>(Core::DSP_V68).ports(BOUNDED),
    ];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[3, 1]],
            ints: &[(&[3], &[2, 1, 2])],
            outputs: &[(&[2, 3, 2], &[0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[1, 3]],
            ints: &[(&[2], &[3, 1])],
            outputs: &[(&[3, 3], &[0, 1, 2, 0, 1, 2, 0, 1, 2])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[]],
            ints: &[(&[2], &[1, 2])],
            outputs: &[(&[1, 2], &[0, 0])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 1]],
            ints: &[(&[2], &[2, 0])],
            outputs: &[(&[2, 0], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = broadcast_shapes(x.full_shape(), target_shape(cx)?)?;
        cx.set_output(0, x.with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { target: target_shape(cx)? })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        expand::<B>(io, self.target.dims())
    }
}

impl Walked for Expand {
    fn walks(cx: &FinalizeCx<'_>) -> Result<Walks, Error> {
        let (x, target) = (cx.input(0)?, target_shape(cx)?);
        let repeats = repeats(x.shape(), target.dims());
        let (walks, rank) =
            repeats.map_err(|_| Error::new(format!("{x} does not become {target}")))?;
        Ok(Walks::new(walks.into_iter().take(rank)))
    }
}

/// Reads the shape that is broadcast with that of the input.
fn target_shape(node: &Node<'_>) -> Result<Shape, Error> {
    let target = SHAPE.required(node)?;
    let dims: Vec<usize> = target.iter().filter_map(|&dim| usize::try_from(dim).ok()).collect();
    if dims.len() < target.len() {
        return Err(Error::new(format!("input 1 is {target:?}, expected extents of at least 0")));
    }
    Shape::new(&dims)
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{bench, tensor};

    #[test]
    fn large_outputs_are_divided_among_threads() {
        let (rows, cols) = (300, 7);
        let x: Vec<i32> = (0..cols * rows).collect();
        let x = tensor(&[rows as usize, 1, cols as usize], &x);
        let shape = tensor(&[4], &[2i64, 1, 50, 1]);
        let y = bench("Expand").threads(3).input(x).constant(shape).one();
        assert_eq!(y.dims(), [2, 300, 50, 7]);
        let x_index = |y_index: i32| y_index / (50 * cols) % rows * cols + y_index % cols;
        assert!(y.values::<i32>() == (0..2 * rows * 50 * cols).map(x_index).collect::<Vec<_>>());
    }

    #[test]
    fn bounds_are_preserved() {
        let x = tensor(&[2, 1], &[1u8, 2]).bounded(&[Dim::UpTo(4), Dim::Fixed(1)]);
        let y = bench("Expand").input(x).constant(tensor(&[2], &[1i64, 3])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=4,3]");
        assert_eq!(y.values::<u8>(), [1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_refused() {
        let run = |shape: [i64; 1]| {
            bench("Expand").input(tensor(&[2], &[1u8, 2])).constant(tensor(&[1], &shape)).error()
        };
        assert_eq!(run([3]), "shapes [2] and [3] do not broadcast");
        assert_eq!(run([-1]), "input 1 is [-1], expected extents of at least 0");
    }
}
