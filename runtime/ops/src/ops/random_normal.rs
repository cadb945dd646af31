//! Normally distributed random values of a given shape.
//!
//! `random` builds the operator from `number`, which turns random bits into a value. `MOMENTS` are the mean and the
//! variance that tests expect.

use udo_api::Param;

use crate::Def;
use crate::family::elementwise::real;
use crate::family::random::{Draw, Random, random};

pub(crate) const DEF: Def = random::<RandomNormal>();

struct RandomNormal;

impl Random for RandomNormal {
    const NAME: &'static str = "RandomNormal";
    const IS_LIKE: bool = false;
    const PARAMS: [Param; 2] = [real("mean", 0.0), real("scale", 1.0)];
    const MOMENTS: fn([f64; 2]) -> [f64; 2] = |[mean, scale]| [mean, scale * scale];

    fn number([mean, scale]: [f64; 2], draw: Draw) -> f64 {
        mean + scale * draw.normal()
    }
}
