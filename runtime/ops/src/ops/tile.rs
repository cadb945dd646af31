//! Repeats the input along each axis.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `walked` is the GPU kernel. A walk is the list of input positions that the output reads
//! along an axis. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Core, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, MAX_RANK, Node,
    OpSchema, Port, Shape, TensorDesc, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::movement::{
    BOUNDED, Example, Movement, Walk, Walked, Walks, kernel, movement, walked,
};

pub(crate) const DEF: Def = movement::<Tile>();

const REPEATS: IntsArgument = IntsArgument { input: 1, name: "repeats", what: "repeats" };

struct Tile {
    /// Repeat count of each axis.
    counts: Vec<usize>,
}

impl Movement for Tile {
    const SCHEMA: OpSchema = OpSchema::new(
        "Tile",
        &[Port::required("input", types::ANY), REPEATS.port()],
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
            inputs: &[&[2, 2]],
            ints: &[(&[2], &[2, 3])],
            outputs: &[(
                &[4, 6],
                &[0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3],
            )],
            ..Example::NONE
        },
        Example {
            inputs: &[&[1, 2, 1]],
            ints: &[(&[3], &[2, 1, 2])],
            outputs: &[(&[2, 2, 2], &[0, 0, 1, 1, 0, 0, 1, 1])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 1]],
            ints: &[(&[2], &[0, 3])],
            outputs: &[(&[0, 3], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let counts = read_counts(cx, &x)?;
        let shape = x.full_shape();
        let dims = shape.iter().zip(counts);
        let dims = dims.map(|(dim, count)| dim.with(dim.bound().saturating_mul(count)));
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims.collect::<Vec<Dim>>())?))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { counts: read_counts(cx, &cx.input(0)?)? })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, dims) = (inputs.get_bits::<B>(0)?, inputs.shape(0)?);
        let walks = Walks::new(self.walks(dims));
        walks.copy(parallel, x, outputs.take_bits::<B>(0)?, B::default())?;
        let mut extents = [0; MAX_RANK];
        extents.iter_mut().zip(self.walks(dims)).for_each(|(extent, walk)| *extent = walk.len);
        outputs.set_shape(0, &extents[..dims.len()])
    }
}

impl Walked for Tile {
    fn walks(cx: &FinalizeCx<'_>) -> Result<Walks, Error> {
        Ok(Walks::new(Self::plan(cx)?.walks(cx.input(0)?.shape())))
    }
}

impl Tile {
    /// Returns the walk along each axis, the positions that are read.
    fn walks(&self, dims: &[usize]) -> impl Iterator<Item = Walk> {
        dims.iter().zip(&self.counts).map(|(&extent, &count)| Walk::times(extent, count))
    }
}

/// Returns the repeat count of each axis.
fn read_counts(node: &Node<'_>, x: &TensorDesc) -> Result<Vec<usize>, Error> {
    let repeats = REPEATS.required(node)?;
    let counts: Vec<usize> =
        repeats.iter().filter_map(|&count| usize::try_from(count).ok()).collect();
    if counts.len() != x.rank() || repeats.len() != x.rank() {
        let expected = x.rank();
        return Err(Error::new(format!(
            "input 1 is {repeats:?}, expected {expected} counts for {x}"
        )));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{bench, tensor};

    #[test]
    fn large_outputs_are_divided_among_threads() {
        let x: Vec<i32> = (0..3 * 5 * 2).collect();
        let run = bench("Tile").threads(3).input(tensor(&[3, 5, 2], &x));
        let y = run.constant(tensor(&[3], &[7i64, 3001, 2])).one();
        assert_eq!(y.dims(), [21, 15005, 4]);
        let x_index =
            |y_index: i32| y_index / (15005 * 4) % 3 * 10 + y_index / 4 % 5 * 2 + y_index % 2;
        assert!(y.values::<i32>() == (0..21 * 15005 * 4).map(x_index).collect::<Vec<_>>());
    }

    #[test]
    fn bounds_are_multiplied() {
        let x = tensor(&[2], &[1i64, 2]).bounded(&[Dim::UpTo(3)]);
        let y = bench("Tile").input(x).constant(tensor(&[1], &[2i64])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=6]");
        assert_eq!(y.values::<i64>(), [1, 2, 1, 2]);
    }

    #[test]
    fn repeats_have_one_count_per_axis() {
        for repeats in [&[2i64][..], &[1, -1]] {
            let run = bench("Tile").input(tensor(&[1, 2], &[1u8, 2]));
            let error = run.constant(tensor(&[repeats.len()], repeats)).error();
            assert_eq!(error, format!("input 1 is {repeats:?}, expected 2 counts for u8[1,2]"));
        }
    }
}
