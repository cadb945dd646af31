//! `a ^ b` for each pair of integers, with broadcasting.
//!
//! `logic` builds the operator from `Bitwise::apply`: elements are widened to 64 bits, and excess bits of the result
//! are cut off. `of_type` selects the kernel's function for the element type.

use udo_api::{DType, Error, FinalizeCx, KernelDef, TypeSet, types};

use crate::Def;
use crate::family::elementwise::{Bitwise, Logic, Run, bitwise, logic, on_gpu};

pub(crate) const DEF: Def = logic::<BitwiseXor>();

struct BitwiseXor;

impl Logic for BitwiseXor {
    const NAME: &'static str = "BitwiseXor";
    const TYPES: TypeSet = types::INTS;
    const GPU: Option<KernelDef> = Some(on_gpu::<Self>());

    fn of_type(_: &FinalizeCx<'_>, dtype: Option<DType>) -> Result<Run, Error> {
        bitwise::<Self>(dtype)
    }
}

impl Bitwise for BitwiseXor {
    const OPENCL: &'static str = "a ^ b";

    fn apply(a: u64, b: u64) -> u64 {
        a ^ b
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn the_sign_bit_is_combined_like_any_bit() {
        let run = bench("BitwiseXor").input(tensor(&[3], &[0b1100i8, i8::MIN, 5]));
        let y = run.input(tensor(&[3], &[0b1010i8, -1, -1])).one();
        assert_eq!(y.values::<i8>(), [0b0110, 127, -6]);
    }
}
