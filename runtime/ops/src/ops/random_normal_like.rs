//! Normally distributed random values of the input's shape.
//!
//! `random` builds the operator from `number`, which turns random bits into a value. `MOMENTS` are the mean and the
//! variance that tests expect. `IS_LIKE` says that an input gives the shape, and the type if the node does not.

use udo_api::Param;

use crate::Def;
use crate::family::elementwise::real;
use crate::family::random::{Draw, Random, random};

pub(crate) const DEF: Def = random::<RandomNormalLike>();

struct RandomNormalLike;

impl Random for RandomNormalLike {
    const NAME: &'static str = "RandomNormalLike";
    const IS_LIKE: bool = true;
    const PARAMS: [Param; 2] = [real("mean", 0.0), real("scale", 1.0)];
    const MOMENTS: fn([f64; 2]) -> [f64; 2] = |[mean, scale]| [mean, scale * scale];

    fn number([mean, scale]: [f64; 2], draw: Draw) -> f64 {
        mean + scale * draw.normal()
    }
}
