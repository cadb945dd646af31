//! The input unchanged.

use udo_api::{
    Core, Error, Facts, InferCx, KernelDef, KernelFlags, Op, OpSchema, Port, types,
};

use crate::Def;
use crate::view;

pub(crate) const DEF: Def = Def::of::<Identity>(KERNELS);

const KERNELS: &[KernelDef] = &[
    view::copy("Identity", Core::CPU).flags(KernelFlags::BOUNDED),
    view::copy("Identity", Core::DSP_V68),
];

struct Identity;

impl Op for Identity {
    const SCHEMA: OpSchema = OpSchema::new(
        "Identity",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[],
    )
    .facts(Facts::VIEW.or(Facts::ELEMENTWISE).or(Facts::SAME_ENCODING));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn elements_stay() {
        for core in [Core::CPU, Core::DSP_V68] {
            let y = bench("Identity").on(core).input(tensor(&[2], &[3i8, -4])).one();
            assert_eq!(y.values::<i8>(), [3, -4]);
        }
        let x = tensor(&[1], &[7i64]).bounded(&[Dim::UpTo(3)]);
        let y = bench("Identity").input(x).one();
        assert_eq!((y.dims(), y.values::<i64>()), (vec![1], vec![7]));
    }
}
