//! Crops a tensor, at an offset, to the extents of a reference tensor along the axes from `axis` on.
//!
//! `walked` is the GPU kernel. A walk is the list of input positions that the output reads along an axis.

use udo_api::{
    Core, DType, Dim, Error, Facts, FinalizeCx, InferCx, KernelDef, Node, OpSchema, Param, Port,
    Shape, TensorDesc, Value, types,
};

use crate::Def;
use crate::family::movement::{Crop, Cropped, Example, Setting, Walk, crop, kernel, walked};

pub(crate) const DEF: Def = crop::<OffsetCrop>();

struct OffsetCrop;

impl Crop for OffsetCrop {
    const SCHEMA: OpSchema = OpSchema::new(
        "Crop",
        &[Port::required("data", types::ANY), Port::required("reference", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(2)),
            Param::tensor("offset", DType::I64).optional(),
        ],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Cropped<Self>>(Core::CPU),
        walked::<Cropped<Self>>(),
        kernel::<Cropped<Self>>(Core::DSP_V68),
    ];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 3, 2], &[1, 2, 1]],
            params: &[("axis", Setting::Int(1)), ("offset", Setting::Ints(&[1, 0]))],
            outputs: &[(&[2, 2, 1], &[2, 4, 8, 10])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3, 3], &[2, 2]],
            params: &[("axis", Setting::Int(-2)), ("offset", Setting::Ints(&[1]))],
            outputs: &[(&[2, 2], &[4, 5, 7, 8])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3, 1], &[2, 1]],
            params: &[("axis", Setting::Int(0))],
            outputs: &[(&[2, 1], &[0, 1])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let walks = walks(cx, &x)?;
        let (input, reference) = (x.full_shape(), cx.input(1)?.full_shape());
        let dims =
            input.iter().zip(reference.iter()).zip(walks).map(|((input, reference), walk)| {
                if walk.len == input.bound() { input } else { reference }
            });
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims.collect::<Vec<Dim>>())?))
    }

    fn walks(cx: &FinalizeCx<'_>) -> Result<Vec<Walk>, Error> {
        walks(cx, &cx.input(0)?)
    }
}

/// Returns the walk along each axis, the positions that are read. One offset applies to every cropped axis.
fn walks(node: &Node<'_>, x: &TensorDesc) -> Result<Vec<Walk>, Error> {
    let (reference, axis) = (node.input(1)?, node.axis("axis", x.rank())?);
    if reference.rank() != x.rank() {
        return Err(Error::new(format!("input 1 is {reference}, input 0 is {x}")));
    }
    let offsets = if node.has_param("offset") { node.ints("offset")? } else { &[0] };
    let offset =
        |index: usize| if offsets.len() == 1 { offsets.first() } else { offsets.get(index) };
    if offsets.len() != 1 && offsets.len() != x.rank() - axis {
        let count = x.rank() - axis;
        return Err(Error::new(format!("offsets are {offsets:?}, expected one, or {count}")));
    }
    let extents = x.shape().iter().zip(reference.shape()).enumerate();
    let walk = |(input_axis, (&extent, &len)): (usize, (&usize, &usize))| {
        let Some(cropped_axis) = input_axis.checked_sub(axis) else {
            return Ok(Walk::whole(extent));
        };
        let start = offset(cropped_axis).and_then(|&offset| usize::try_from(offset).ok());
        let start = start.filter(|start| start.checked_add(len).is_some_and(|end| end <= extent));
        let mismatch = || {
            Error::new(format!("input 0 is {x}, which has no {reference} at offsets {offsets:?}"))
        };
        Ok(Walk::slice(extent, start.ok_or_else(mismatch)?, len, 1))
    };
    extents.map(walk).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(reference: &[usize], offsets: &[i64]) -> Bench {
        let reference = tensor(reference, &vec![0f32; reference.iter().product()]);
        let run = bench("udo:Crop")
            .input(tensor(&[2, 2], &[1u8, 2, 3, 4]))
            .input(reference)
            .int("axis", 0);
        run.ints("offset", offsets)
    }

    #[test]
    fn crops_outside_of_the_input_are_refused() {
        assert_eq!(bench_with(&[1, 1], &[1, 0]).one().values::<u8>(), [3]);
        let error = bench_with(&[2, 1], &[1]).error();
        assert_eq!(error, "input 0 is u8[2,2], which has no f32[2,1] at offsets [1]");
        let error = bench_with(&[1, 1], &[-1]).error();
        assert_eq!(error, "input 0 is u8[2,2], which has no f32[1,1] at offsets [-1]");
        let error = bench_with(&[1, 1], &[0, 0, 0]).error();
        assert_eq!(error, "offsets are [0, 0, 0], expected one, or 2");
        assert_eq!(bench_with(&[1], &[0]).error(), "input 1 is f32[1], input 0 is u8[2,2]");
    }
}
