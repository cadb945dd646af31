//! Sum of any number of tensors, with broadcasting.

use udo_api::{TypeSet, types};

use crate::Def;
use crate::family::elementwise::{Repeated, repeated};
use crate::number::Number;

pub(crate) const DEF: Def = repeated::<Sum>();

struct Sum;

impl Repeated for Sum {
    const NAME: &'static str = "Sum";
    const OUTPUT: &'static str = "sum";
    const TYPES: TypeSet = types::F32.or(types::F64);
    const TEST: fn(f64, f64) -> f64 = |a, b| a + b;

    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        a.add(b)
    }
}
