//! Runs a graph repeatedly, passing its outputs to the next iteration.
//!
//! The operator has no kernels: the runtime runs the graph, as the fact `LOOP` tells it.

use udo_api::{Facts, OpSchema, Param, Port, types};

use crate::Def;
use crate::family::control::{Control, control};

pub(crate) const DEF: Def = control::<Loop>();

struct Loop;

impl Control for Loop {
    const SCHEMA: OpSchema = OpSchema::new(
        "Loop",
        &[
            Port::optional("M", types::I64),
            Port::optional("cond", types::BOOL),
            Port::optional("v_initial", types::ANY).repeated(),
        ],
        &[Port::optional("v_final_and_scan_outputs", types::ANY).repeated()],
        &[Param::graph("body")],
    )
    .facts(Facts::LOOP);
}
