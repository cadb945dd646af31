//! Runs one of two graphs, depending on a bool.
//!
//! The operator has no kernels: the runtime runs the graphs, as the fact `BRANCHES` tells it.

use udo_api::{Facts, OpSchema, Param, Port, types};

use crate::Def;
use crate::family::control::{Control, control};

pub(crate) const DEF: Def = control::<If>();

struct If;

impl Control for If {
    const SCHEMA: OpSchema = OpSchema::new(
        "If",
        &[Port::required("cond", types::BOOL)],
        &[Port::required("outputs", types::ANY).repeated()],
        &[Param::graph("then_branch"), Param::graph("else_branch")],
    )
    .facts(Facts::BRANCHES);
}
