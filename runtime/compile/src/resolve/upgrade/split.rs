//! `Split`: adds the number of parts where their lengths are not stated.

use super::edit::Edit;
use udo_graph::graph::Attr;

pub(super) fn count_outputs(edit: &mut Edit<'_>) -> Result<(), String> {
    if edit.node.input(1).is_none() {
        let count = i64::try_from(edit.node.outputs.len()).map_err(|e| e.to_string())?;
        edit.set("num_outputs", Attr::Int(count));
    }
    Ok(())
}
