//! The input's elements under a shape with more axes of one element.

use udo_api::{
    Core, DType, Dim, Error, Facts, InferCx, KernelDef, Op, OpSchema, Param, Port, Shape,
    types,
};

use crate::Def;
use crate::view;

pub(crate) const DEF: Def = Def::of::<Unsqueeze>(KERNELS);

const KERNELS: &[KernelDef] =
    &[view::copy("Unsqueeze", Core::CPU), view::copy("Unsqueeze", Core::DSP_V68)];

struct Unsqueeze;

impl Op for Unsqueeze {
    const SCHEMA: OpSchema = OpSchema::new(
        "Unsqueeze",
        &[
            Port::required("data", types::ANY),
            // Before opset 13 the axes are a parameter.
            Port::optional("axes", types::I64).is_static(),
        ],
        &[Port::required("expanded", types::ANY)],
        &[Param::tensor("axes", DType::I64).optional()],
    )
    .facts(Facts::VIEW.or(Facts::SAME_ENCODING));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axes = if cx.has_input(1) {
            cx.constant_ints(1)?
                .ok_or_else(|| Error::new("input 1, the axes, is not known before the run"))?
        } else {
            cx.ints("axes")?.to_vec()
        };
        let shape = expand(x.full_shape(), &axes)?;
        cx.set_output(0, x.with_shape(shape))
    }
}

/// `shape` with an extent of 1 at each of the axes of the result.
fn expand(shape: Shape, axes: &[i64]) -> Result<Shape, Error> {
    let refused = || Error::new(format!("axes {axes:?} are not for a tensor of shape {shape}"));
    let rank = shape.rank() + axes.len();
    let mut dims = vec![None; rank];
    for &axis in axes {
        let place = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
        let place = place.and_then(|place| usize::try_from(place).ok());
        let dim = place.and_then(|place| dims.get_mut(place)).ok_or_else(refused)?;
        if dim.replace(Dim::Fixed(1)).is_some() {
            return Err(refused());
        }
    }
    let mut others = shape.iter();
    let dims: Vec<Dim> = dims.into_iter().filter_map(|dim| dim.or_else(|| others.next())).collect();
    Shape::of_dims(&dims)
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn axes_are_those_of_the_result() {
        let x = tensor(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
        for (axes, wanted) in [
            (vec![0], vec![1, 2, 3]),
            (vec![1], vec![2, 1, 3]),
            (vec![-1, 0], vec![1, 2, 3, 1]),
            (vec![3, 1], vec![2, 1, 3, 1]),
            (vec![], vec![2, 3]),
        ] {
            let run = bench("Unsqueeze").input(x.clone());
            let y = run.clone().constant(tensor(&[axes.len()], &axes)).one();
            assert_eq!((y.dims(), y.values::<i32>()), (wanted.clone(), vec![1, 2, 3, 4, 5, 6]));
            let y = run.opset(11).ints("axes", &axes).one();
            assert_eq!(y.dims(), wanted);
        }
    }

    #[test]
    fn axes_that_are_none_or_twice_there_are_refused() {
        for axes in [[0, 0], [0, -4], [4, 0], [-5, 0], [i64::MIN, 0]] {
            let run = bench("Unsqueeze").input(tensor(&[1, 1], &[1f32]));
            let error = run.constant(tensor(&[2], &axes)).error();
            let wanted = format!("axes {axes:?} are not for a tensor of shape [1,1]");
            assert_eq!(error, wanted);
        }
    }
}
