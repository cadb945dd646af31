//! Runs a graph over successive slices of its inputs, carrying state from one iteration to the next.
//!
//! The operator has no kernels: the runtime runs the graph, as the fact `SCAN` tells it.

use udo_api::{DType, Facts, OpSchema, Param, Port, types};

use crate::Def;
use crate::family::control::{Control, control};

pub(crate) const DEF: Def = control::<Scan>();

struct Scan;

impl Control for Scan {
    const SCHEMA: OpSchema = OpSchema::new(
        "Scan",
        &[Port::required("initial_state_and_scan_inputs", types::ANY).repeated()],
        &[Port::required("final_state_and_scan_outputs", types::ANY).repeated()],
        &[
            Param::graph("body"),
            Param::scalar("num_scan_inputs", DType::I64),
            Param::tensor("scan_input_axes", DType::I64).optional(),
            Param::tensor("scan_input_directions", DType::I64).optional(),
            Param::tensor("scan_output_axes", DType::I64).optional(),
            Param::tensor("scan_output_directions", DType::I64).optional(),
        ],
    )
    .facts(Facts::SCAN);
}
