//! A tensor of a given shape, filled with one value.

use udo_api::{Core, Error, InferCx, KernelDef, Op, OpSchema, Port, Shape, TensorDesc, types};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::filled::{Filled, VALUE, dtype};

pub(crate) const DEF: Def = Def::new::<ConstantOfShape>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Filled>("ConstantOfShape", Core::CPU)];

const SHAPE: IntsArgument = IntsArgument { input: 0, name: "input", what: "shape" };

struct ConstantOfShape;

impl Op for ConstantOfShape {
    const SCHEMA: OpSchema = OpSchema::new(
        "ConstantOfShape",
        &[SHAPE.port()],
        &[Port::required("output", types::ANY)],
        &[VALUE],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let requested = SHAPE.required(cx)?;
        let dims: Vec<usize> =
            requested.iter().filter_map(|&extent| usize::try_from(extent).ok()).collect();
        if dims.len() < requested.len() {
            return Err(Error::new(format!(
                "input 0 is {requested:?}, expected extents of at least 0"
            )));
        }
        let dtype = dtype(cx)?;
        cx.set_output(0, TensorDesc::new(dtype, Shape::new(&dims)?))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bool, Element, F16};

    use crate::testing::{bench, tensor};

    #[test]
    fn every_element_is_the_value() {
        fn check<T: Element>(value: T) {
            let run = bench("ConstantOfShape").constant(tensor(&[2], &[2i64, 3]));
            let y = run.tensor("value", &tensor(&[1], &[value])).one();
            assert_eq!((y.dims(), y.values::<T>()), (vec![2, 3], vec![value; 6]));
        }
        check(-1.5f32);
        check(1e300f64);
        check(F16(0x7e01));
        check(Bool::from(true));
        check(200u8);
        check(-7i16);
        check(i64::MIN);
    }

    #[test]
    fn the_default_value_is_zero() {
        let shape = |ints: &[i64]| tensor(&[ints.len()], ints);
        let y = bench("ConstantOfShape").constant(shape(&[3])).one();
        assert_eq!(y.values::<f32>(), [0.0; 3]);
        let y = bench("ConstantOfShape").constant(shape(&[])).one();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![], vec![0.0]));
        let y = bench("ConstantOfShape").constant(shape(&[4, 0])).one();
        assert_eq!(y.dims(), [4, 0]);
        let y = bench("ConstantOfShape").constant(shape(&[300, 301])).threads(3).one();
        assert_eq!(y.values::<f32>(), vec![0.0; 300 * 301]);
    }

    #[test]
    fn invalid_shapes_and_values_are_refused() {
        let run = |shape: &[i64]| bench("ConstantOfShape").constant(tensor(&[shape.len()], shape));
        assert_eq!(run(&[2, -1]).error(), "input 0 is [2, -1], expected extents of at least 0");
        let error = run(&[2]).tensor("value", &tensor(&[2], &[1f32, 2.0])).error();
        assert_eq!(error, "parameter \"value\" is f32[2], expected one element");
        let error = bench("ConstantOfShape").input(tensor(&[1], &[2i64])).error();
        assert_eq!(error, "input 0, the shape, is not known before the run");
    }
}
