//! Uniformly distributed random values of the input's shape.
//!
//! `random` builds the operator from `number`, which turns random bits into a value. `MOMENTS` are the mean and the
//! variance that tests expect. `IS_LIKE` says that an input gives the shape, and the type if the node does not.

use udo_api::Param;

use crate::Def;
use crate::family::elementwise::real;
use crate::family::random::{Draw, Random, random};

pub(crate) const DEF: Def = random::<RandomUniformLike>();

struct RandomUniformLike;

impl Random for RandomUniformLike {
    const NAME: &'static str = "RandomUniformLike";
    const IS_LIKE: bool = true;
    const PARAMS: [Param; 2] = [real("low", 0.0), real("high", 1.0)];
    const MOMENTS: fn([f64; 2]) -> [f64; 2] =
        |[low, high]| [f64::midpoint(low, high), (high - low).powi(2) / 12.0];

    fn number([low, high]: [f64; 2], draw: Draw) -> f64 {
        low + (high - low) * draw.uniform()
    }
}
