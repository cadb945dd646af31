//! The axes in another order.

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Node, Op, OpSchema, Param, Port, Shape, TypeRule, bytes_of, bytes_of_mut, input,
    output_like, resolve_axis, types,
};
use udo_simd::rows;

use crate::Def;

pub(crate) const DEF: Def = Def::of::<Transpose>(KERNELS);

const KERNELS: &[KernelDef] = &[kernel(Core::CPU), kernel(Core::DSP_V68)];

const fn kernel(core: Core) -> KernelDef {
    const RULES: &[TypeRule] = &[input(0, types::ANY), output_like(0, 0)];
    KernelDef::new::<Permute>("Transpose", core).types(RULES)
}

struct Transpose;

impl Op for Transpose {
    const SCHEMA: OpSchema = OpSchema::new(
        "Transpose",
        &[Port::required("data", types::ANY)],
        &[Port::required("transposed", types::ANY)],
        &[Param::tensor("perm", DType::I64).optional()],
    )
    .facts(Facts::SAME_ENCODING);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = x.full_shape();
        let dims: Vec<Dim> =
            order(cx, x.rank())?.iter().filter_map(|&axis| shape.dim(axis)).collect();
        cx.set_output(0, x.with_shape(Shape::of_dims(&dims)?))
    }
}

/// The input axis behind each output axis.
fn order(node: &Node<'_>, rank: usize) -> Result<Vec<usize>, Error> {
    if !node.has_param("perm") {
        return Ok((0..rank).rev().collect());
    }
    let perm = node.ints("perm")?;
    let order: Vec<usize> = perm.iter().filter_map(|&axis| resolve_axis(axis, rank)).collect();
    let is_permutation = (0..rank).all(|axis| order.contains(&axis)) && perm.len() == rank;
    if is_permutation {
        Ok(order)
    } else {
        Err(Error::new(format!("parameter \"perm\" is {perm:?}, wanted an order of {rank} axes")))
    }
}

struct Permute {
    shape: Vec<usize>,
    order: Vec<usize>,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Permute {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let run = of_any!(x.dtype(), T => execute::<T, { size_of::<T>() }>)?;
        Ok(Self { shape: x.shape().to_vec(), order: order(cx, x.rank())?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Element, const BYTES: usize>(
    kernel: &Permute,
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let (x, y) = (bytes_of(io.inputs.get::<T>(0)?), bytes_of_mut(io.outputs.take::<T>(0)?));
    let (x, y) = (x.as_chunks::<BYTES>().0, y.as_chunks_mut::<BYTES>().0);
    rows::transpose(x, &kernel.shape, &kernel.order, y);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn every_order_of_three_axes() {
        let dims = [2, 3, 4];
        let x: Vec<i32> = (0..24).collect();
        for perm in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let perm_i64: Vec<i64> = perm.iter().map(|&p| p as i64).collect();
            let y = bench("Transpose").input(tensor(&dims, &x)).ints("perm", &perm_i64).one();
            let out = perm.map(|p| dims[p]);
            assert_eq!(y.dims(), out, "{perm:?}");
            for (i, found) in y.values::<i32>().into_iter().enumerate() {
                let at = [i / (out[1] * out[2]), i / out[2] % out[1], i % out[2]];
                let mut from = [0; 3];
                (0..3).for_each(|axis| from[perm[axis]] = at[axis]);
                let wanted = x[(from[0] * 3 + from[1]) * 4 + from[2]];
                assert_eq!(found, wanted, "{perm:?} at {at:?}");
            }
        }
    }

    #[test]
    fn without_an_order_the_axes_turn_around() {
        let y = bench("Transpose").input(tensor(&[2, 3], &[1u8, 2, 3, 4, 5, 6])).one();
        assert_eq!(y.values::<u8>(), [1, 4, 2, 5, 3, 6]);
    }
}
