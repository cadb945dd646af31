//! Normalizes each channel of each image to mean 0 and deviation 1, then applies a scale and bias per channel.
//!
//! `group_norm` builds the operator from `groups`, the number of channel groups that share a mean and a deviation;
//! here each channel is a group.

use udo_api::{DType, Error, Node, Param, Value};

use crate::Def;
use crate::family::norm::{GroupNorm, group_norm};

pub(crate) const DEF: Def = group_norm::<InstanceNormalization>();

struct InstanceNormalization;

impl GroupNorm for InstanceNormalization {
    const NAME: &'static str = "InstanceNormalization";
    const PARAMS: &'static [Param] =
        &[Param::scalar("epsilon", DType::F32).default(Value::float(1e-5))];

    fn groups(_: &Node<'_>, channels: usize) -> Result<usize, Error> {
        Ok(channels.max(1))
    }
}
