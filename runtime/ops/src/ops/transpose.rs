//! Permutes the axes.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `strided` is the GPU kernel, which reads the input with a stride per output axis.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, Node,
    OpSchema, Param, Port, Shape, resolve_axis, types,
};

use crate::Def;
use crate::family::gpu::StridedAccess;
use crate::family::movement::{
    BOUNDED, Example, Movement, Permutation, Setting, Strided, kernel, movement, strided,
};

pub(crate) const DEF: Def = movement::<Transpose>();

struct Transpose {
    permutation: Permutation,
    /// Whether the extents are known only in the run.
    is_bounded: bool,
}

impl Movement for Transpose {
    const SCHEMA: OpSchema = OpSchema::new(
        "Transpose",
        &[Port::required("data", types::ANY)],
        &[Port::required("transposed", types::ANY)],
        &[Param::tensor("perm", DType::I64).optional()],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU).ports(BOUNDED),
        strided::<Self>("Transpose"),
        kernel::<Self>(Core::DSP_V68),
    ];
    const EXAMPLES: &'static [Example] = &[
        Example { inputs: &[&[2, 3]], outputs: &[(&[3, 2], &[0, 3, 1, 4, 2, 5])], ..Example::NONE },
        Example {
            inputs: &[&[2, 1, 3]],
            params: &[("perm", Setting::Ints(&[1, -1, 0]))],
            outputs: &[(&[1, 3, 2], &[0, 3, 1, 4, 2, 5])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = x.full_shape();
        let dims: Vec<Dim> =
            permutation(cx, x.rank())?.iter().filter_map(|&axis| shape.dim(axis)).collect();
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let perm = permutation(cx, x.rank())?;
        let is_not_one = |axis: &&usize| x.shape().get(**axis) != Some(&1);
        let is_bounded = !x.full_shape().is_fixed();
        // If only axes of extent 1 change places, the elements stay in order, and the output can share the input's
        // buffer.
        if !is_bounded && perm.iter().filter(is_not_one).is_sorted() {
            cx.tie_same(0, 0)?;
        }
        Ok(Self { permutation: Permutation { shape: x.shape().to_vec(), perm }, is_bounded })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        if self.is_bounded {
            self.permutation.execute_bounded::<B>(io)
        } else {
            self.permutation.execute::<B>(io)
        }
    }
}

impl Strided for Transpose {
    fn access(cx: &FinalizeCx<'_>) -> Result<StridedAccess, Error> {
        Ok(Self::plan(cx)?.permutation.access())
    }
}

/// Returns the input axis of each output axis.
fn permutation(node: &Node<'_>, rank: usize) -> Result<Vec<usize>, Error> {
    if !node.has_param("perm") {
        return Ok((0..rank).rev().collect());
    }
    let perm = node.ints("perm")?;
    let axes: Vec<usize> = perm.iter().filter_map(|&axis| resolve_axis(axis, rank)).collect();
    let is_permutation = (0..rank).all(|axis| axes.contains(&axis)) && perm.len() == rank;
    if is_permutation {
        Ok(axes)
    } else {
        Err(Error::new(format!("parameter \"perm\" is {perm:?}, expected an order of {rank} axes")))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn every_order_of_three_axes_gives_the_expected_elements() {
        let dims = [2, 3, 4];
        let x: Vec<i32> = (0..24).collect();
        for perm in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let perm_i64: Vec<i64> = perm.iter().map(|&p| p as i64).collect();
            let y = bench("Transpose").input(tensor(&dims, &x)).ints("perm", &perm_i64).one();
            let y_dims = perm.map(|axis| dims[axis]);
            assert_eq!(y.dims(), y_dims, "{perm:?}");
            for (i, actual) in y.values::<i32>().into_iter().enumerate() {
                let y_index =
                    [i / (y_dims[1] * y_dims[2]), i / y_dims[2] % y_dims[1], i % y_dims[2]];
                let mut x_index = [0; 3];
                (0..3).for_each(|axis| x_index[perm[axis]] = y_index[axis]);
                let expected = x[(x_index[0] * 3 + x_index[1]) * 4 + x_index[2]];
                assert_eq!(actual, expected, "{perm:?} at {y_index:?}");
            }
        }
    }
}
