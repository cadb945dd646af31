//! The axes before one merged, and the axes from it on.

use udo_api::{
    Core, DType, Dim, Error, Facts, InferCx, KernelDef, Op, OpSchema, Param, Port, Shape,
    Value, resolve_axis, types,
};

use crate::Def;
use crate::view;

pub(crate) const DEF: Def = Def::of::<Flatten>(KERNELS);

const KERNELS: &[KernelDef] =
    &[view::copy("Flatten", Core::CPU), view::copy("Flatten", Core::DSP_V68)];

struct Flatten;

impl Op for Flatten {
    const SCHEMA: OpSchema = OpSchema::new(
        "Flatten",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("axis", DType::I64).default(Value::int(1))],
    )
    .facts(Facts::VIEW.or(Facts::SAME_ENCODING));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axis = cx.int("axis")?;
        // The axis behind the last one is allowed here: it leaves a column of 1.
        let end = usize::try_from(axis).is_ok_and(|a| a == x.rank());
        let axis = if end { Some(x.rank()) } else { resolve_axis(axis, x.rank()) }
            .ok_or_else(|| Error::new(format!("parameter \"axis\" is {axis}, input 0 is {x}")))?;
        let dims: Vec<Dim> = x.full_shape().iter().collect();
        let merged = |dims: &[Dim]| {
            let len = dims.iter().try_fold(1usize, |n, d| n.checked_mul(d.bound()));
            let fixed = dims.iter().all(|d| matches!(d, Dim::Fixed(_)));
            let len =
                len.ok_or_else(|| Error::new(format!("input 0 is {x}, which is too large")))?;
            Ok::<_, Error>(if fixed { Dim::Fixed(len) } else { Dim::UpTo(len) })
        };
        let (before, after) = dims.split_at(axis);
        cx.set_output(0, x.with_shape(Shape::of_dims(&[merged(before)?, merged(after)?])?))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn axes_merge_around_one() {
        let x: Vec<f32> = (0..24u8).map(f32::from).collect();
        let cases: [(i64, [usize; 2]); 5] =
            [(0, [1, 24]), (1, [2, 12]), (2, [6, 4]), (3, [24, 1]), (-1, [6, 4])];
        for (axis, dims) in cases {
            let y = bench("Flatten").input(tensor(&[2, 3, 4], &x)).int("axis", axis).one();
            assert_eq!(y.dims(), dims, "axis {axis}");
            assert_eq!(y.values::<f32>(), x);
        }
    }
}
