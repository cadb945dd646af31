//! `a && b` for each pair of bools, with broadcasting.
//!
//! `logic` builds the operator from `Bitwise::apply`: elements are widened to 64 bits, and excess bits of the result
//! are cut off. `of_type` selects the kernel's function for the element type. A bool is one bit.

use udo_api::{DType, Error, FinalizeCx, KernelDef, TypeSet, types};

use crate::Def;
use crate::family::elementwise::{Bitwise, Logic, Run, bitwise, logic, on_gpu};

pub(crate) const DEF: Def = logic::<And>();

struct And;

impl Logic for And {
    const NAME: &'static str = "And";
    const TYPES: TypeSet = types::BOOL;
    const GPU: Option<KernelDef> = Some(on_gpu::<Self>());

    fn of_type(_: &FinalizeCx<'_>, dtype: Option<DType>) -> Result<Run, Error> {
        bitwise::<Self>(dtype)
    }
}

impl Bitwise for And {
    const OPENCL: &'static str = "a & b";

    fn apply(a: u64, b: u64) -> u64 {
        a & b
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};
    use udo_api::Bool;

    #[test]
    fn any_byte_but_0_is_true() {
        let a = tensor(&[4], &[0, 0, 1, 255].map(Bool));
        let y = bench("And").input(a).input(tensor(&[4], &[0, 7, 0, 2].map(Bool))).one();
        assert_eq!(y.bytes(), [0, 0, 0, 1]);
    }
}
