//! The input's elements under another shape.

use udo_api::{
    Core, DType, Dim, Error, Facts, InferCx, KernelDef, Op, OpSchema, Param, Port, Shape,
    Value, types,
};

use crate::Def;
use crate::view;

pub(crate) const DEF: Def = Def::of::<Reshape>(KERNELS);

const KERNELS: &[KernelDef] =
    &[view::copy("Reshape", Core::CPU), view::copy("Reshape", Core::DSP_V68)];

struct Reshape;

impl Op for Reshape {
    const SCHEMA: OpSchema = OpSchema::new(
        "Reshape",
        &[
            Port::required("data", types::ANY),
            // Before opset 5 the shape is a parameter.
            Port::optional("shape", types::I64).is_static(),
        ],
        &[Port::required("reshaped", types::ANY)],
        &[
            Param::scalar("allowzero", DType::I64).default(Value::int(0)),
            Param::tensor("shape", DType::I64).optional(),
        ],
    )
    .facts(Facts::VIEW.or(Facts::SAME_ENCODING));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let wanted = if cx.has_input(1) {
            cx.constant_ints(1)?
                .ok_or_else(|| Error::new("input 1, the shape, is not known before the run"))?
        } else {
            cx.ints("shape")?.to_vec()
        };
        let shape = resolve(x.full_shape(), &wanted, cx.flag("allowzero")?)?;
        cx.set_output(0, x.with_shape(shape))
    }
}

/// The shape that `wanted` means for elements of shape `from`: 0 keeps an extent, -1 takes the rest.
fn resolve(from: Shape, wanted: &[i64], allow_zero: bool) -> Result<Shape, Error> {
    let refused = || Error::new(format!("shape {from} cannot become {wanted:?}"));
    let mut rest = None;
    let mut dims = Vec::with_capacity(wanted.len());
    for (axis, &extent) in wanted.iter().enumerate() {
        dims.push(match extent {
            -1 if rest.replace(axis).is_some() => return Err(refused()),
            -1 => Dim::Fixed(1),
            0 if !allow_zero => from.dim(axis).ok_or_else(refused)?,
            _ => Dim::Fixed(usize::try_from(extent).map_err(|_| refused())?),
        });
    }
    if let Some(axis) = rest {
        let known = dims.iter().try_fold(1usize, |n, d| n.checked_mul(d.bound()));
        let known =
            known.filter(|&n| n != 0 && from.len().is_multiple_of(n)).ok_or_else(refused)?;
        let left = from.len() / known;
        // Bounds that no 0 carries over end up here.
        let bounds = |dims: &mut dyn Iterator<Item = Dim>| {
            dims.filter(|d| matches!(d, Dim::UpTo(_))).count()
        };
        let all_kept = bounds(&mut from.iter()) == bounds(&mut dims.iter().copied());
        let dim = dims.get_mut(axis).ok_or_else(refused)?;
        *dim = if all_kept { Dim::Fixed(left) } else { Dim::UpTo(left) };
    }
    let shape = Shape::of_dims(&dims)?;
    if shape.len() == from.len() { Ok(shape) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn shapes_resolve_as_the_specification_says() {
        let from = Shape::new(&[2, 3, 4]).unwrap();
        let cases: [(&[i64], bool, &str); 9] = [
            (&[4, 6], false, "[4,6]"),
            (&[0, -1], false, "[2,12]"),
            (&[-1], false, "[24]"),
            (&[2, 0, 1, -1], false, "[2,3,1,4]"),
            (&[-1, -1], false, "refused"),
            (&[5, -1], false, "refused"),
            (&[0, -1], true, "refused"),
            (&[2, 3, 4, 0], false, "refused"),
            (&[-2, 12], false, "refused"),
        ];
        for (wanted, allow_zero, found) in cases {
            let shape = resolve(from, wanted, allow_zero);
            let shape = shape.map_or("refused".to_owned(), |s| s.to_string());
            assert_eq!(shape, found, "{wanted:?}");
        }
        let empty = Shape::new(&[0, 3]).unwrap();
        assert_eq!(resolve(empty, &[3, 0], true).unwrap().dims(), [3, 0]);
    }

    #[test]
    fn bounds_are_carried_or_collected() {
        let from = Shape::of_dims(&[Dim::UpTo(6), Dim::Fixed(4)]).unwrap();
        assert_eq!(resolve(from, &[0, 2, -1], false).unwrap().to_string(), "[<=6,2,2]");
        assert_eq!(resolve(from, &[-1, 2], false).unwrap().to_string(), "[<=12,2]");
    }

    #[test]
    fn elements_keep_their_order() {
        let x = [1u8, 2, 3, 4, 5, 6];
        for core in [Core::CPU, Core::DSP_V68] {
            let y = bench("Reshape")
                .on(core)
                .input(tensor(&[2, 3], &x))
                .constant(tensor(&[1], &[-1i64]))
                .one();
            assert_eq!((y.dims(), y.values::<u8>()), (vec![6], x.to_vec()));
        }
        let y = bench("Reshape").opset(1).input(tensor(&[2, 3], &x)).ints("shape", &[3, 2]).one();
        assert_eq!((y.dims(), y.values::<u8>()), (vec![3, 2], x.to_vec()));
    }
}
