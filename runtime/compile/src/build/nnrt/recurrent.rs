//! Maps the `LSTM` operation of `NNRt` to ONNX's operator.

use super::{Lower, Result, invalid};
use udo_engine::device::SpecDetails;
use udo_graph::graph::{Attr, ValueId};

/// Lowers a single layer, whose weights have ONNX's layout: gates in the order input, output, forget, cell, and both
/// biases of a direction concatenated.
pub(super) fn lstm(lower: &mut Lower<'_>) -> Result<()> {
    if lower.int("num_layers")? != 1 || lower.int("proj_size")? != 0 {
        return Err(Lower::refuse("only one layer without a projection is done; add one for each"));
    }
    for name in ["dropout", "zoneout_cell", "zoneout_hidden"] {
        if lower.float(name)?.abs() > 0.0 {
            return Err(Lower::refuse(format!("attribute {name:?} asks for training")));
        }
    }
    let is_bidirectional = lower.flag("bidirectional")?;
    let directions = if is_bidirectional { 2 } else { 1 };
    if lower.has("num_directions") && lower.int("num_directions")? != directions {
        return Err(invalid(format!(
            "attribute \"num_directions\" is {}, expected {directions}",
            lower.int("num_directions")?
        )));
    }
    let &[_, _, hidden] = lower.extents(2)?.as_slice() else {
        let found = lower.input(2)?;
        return Err(invalid(format!("input 2 is {found}, expected [directions,4*hidden,hidden]")));
    };
    let hidden = i64::try_from(hidden).unwrap_or(i64::MAX);
    if lower.has("hidden_size") && lower.int("hidden_size")? != hidden {
        let found = lower.int("hidden_size")?;
        return Err(invalid(format!("attribute \"hidden_size\" is {found}, expected {hidden}")));
    }
    let bias = if lower.flag("has_bias")? { Some(lower.x(3)?) } else { None };
    let inputs = [
        Some(lower.x(0)?),
        Some(lower.x(1)?),
        Some(lower.x(2)?),
        bias,
        None,
        Some(lower.x(4)?),
        Some(lower.x(5)?),
    ];
    let direction = if is_bidirectional { "bidirectional" } else { "forward" };
    let attrs =
        [("hidden_size", Attr::Int(hidden)), ("direction", Attr::Text(direction.to_owned()))];
    let outputs = lower.nodes("LSTM", &inputs, &attrs, 3);
    let [states, hidden, cell]: [ValueId; 3] =
        outputs.try_into().map_err(|_| invalid("a node of three outputs has another number"))?;
    let states = join_directions(lower, states)?;
    lower.give(0, states)?;
    lower.give(1, hidden)?;
    lower.give(2, cell)
}

/// Concatenates the states of both directions, unless the output tensor has an axis for directions.
fn join_directions(lower: &mut Lower<'_>, states: ValueId) -> Result<ValueId> {
    if lower.output(0)?.rank() == 4 {
        return Ok(states);
    }
    // From [sequence, direction, batch, hidden].
    let transposed = lower.transposed(states, &[0, 2, 1, 3]);
    lower.reshaped(transposed, &[0, 0, -1])
}
