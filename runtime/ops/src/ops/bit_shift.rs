//! Shifts each unsigned integer left or right, with broadcasting. Bits shifted out of the type are lost.
//!
//! `logic` builds the operator from `Bitwise::apply`: elements are widened to 64 bits, and excess bits of the result
//! are cut off. `of_type` selects the kernel's function for the element type.

use udo_api::{DType, Error, FinalizeCx, Param, TypeSet, types};

use crate::Def;
use crate::family::elementwise::{Bitwise, Logic, Run, bitwise, logic};

pub(crate) const DEF: Def = logic::<BitShift>();

struct BitShift;

impl Logic for BitShift {
    const NAME: &'static str = "BitShift";
    const PORTS: [&'static str; 3] = ["X", "Y", "Z"];
    const TYPES: TypeSet = types::UNSIGNED;
    const PARAMS: &'static [Param] = &[Param::text("direction")];

    fn of_type(cx: &FinalizeCx<'_>, dtype: Option<DType>) -> Result<Run, Error> {
        match cx.text("direction")? {
            "LEFT" => bitwise::<Left>(dtype),
            "RIGHT" => bitwise::<Right>(dtype),
            other => Err(Error::new(format!(
                "parameter \"direction\" is {other:?}, expected \"LEFT\" or \"RIGHT\""
            ))),
        }
    }
}

struct Left;

impl Bitwise for Left {
    const OPENCL: &'static str = "b < 8 * sizeof(a) ? a << b : 0";

    fn apply(x: u64, count: u64) -> u64 {
        if count < 64 { x << count } else { 0 }
    }
}

struct Right;

impl Bitwise for Right {
    const OPENCL: &'static str = "b < 8 * sizeof(a) ? a >> b : 0";

    fn apply(x: u64, count: u64) -> u64 {
        if count < 64 { x >> count } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn shifted_out_bits_are_lost() {
        let run = bench("BitShift").input(tensor(&[4], &[0x81u8, 3, 3, 255]));
        let run = run.input(tensor(&[4], &[1u8, 0, 8, 200]));
        let y = run.clone().text("direction", "LEFT").one();
        assert_eq!(y.values::<u8>(), [2, 3, 0, 0]);
        let y = run.clone().text("direction", "RIGHT").one();
        assert_eq!(y.values::<u8>(), [0x40, 3, 0, 0]);
        let error = run.text("direction", "UP").error();
        assert_eq!(error, "parameter \"direction\" is \"UP\", expected \"LEFT\" or \"RIGHT\"");
    }
}
