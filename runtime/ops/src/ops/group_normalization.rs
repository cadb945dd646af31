//! Normalizes each group of channels of each image to mean 0 and deviation 1, then applies a scale and bias per
//! channel.
//!
//! `group_norm` builds the operator from `groups`, the number of channel groups, each of which has a mean and a
//! deviation.

use udo_api::{DType, Error, Node, Param, Value};

use crate::Def;
use crate::family::norm::{GroupNorm, group_norm};

pub(crate) const DEF: Def = group_norm::<GroupNormalization>();

struct GroupNormalization;

impl GroupNorm for GroupNormalization {
    const NAME: &'static str = "GroupNormalization";
    const PARAMS: &'static [Param] = &[
        Param::scalar("epsilon", DType::F32).default(Value::float(1e-5)),
        Param::scalar("num_groups", DType::I64),
        // Selects the type of statistics, which are always computed in f64 here.
        Param::scalar("stash_type", DType::I64).default(Value::int(1)),
    ];

    fn groups(node: &Node<'_>, _: usize) -> Result<usize, Error> {
        let groups = node.int("num_groups")?;
        let invalid =
            || Error::new(format!("parameter \"num_groups\" is {groups}, expected 1 or more"));
        usize::try_from(groups).ok().filter(|&groups| groups > 0).ok_or_else(invalid)
    }
}
