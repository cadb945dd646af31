//! Upgrades `Split`: adds attribute `num_outputs`, which operator set 18 requires if the lengths of the parts are not
//! an input.

use super::edit::Edit;
use udo_graph::graph::Attr;

pub(super) fn count_outputs(edit: &mut Edit<'_>) -> Result<(), String> {
    if edit.node.input(1).is_none() {
        let count = i64::try_from(edit.node.outputs.len()).map_err(|e| e.to_string())?;
        edit.set("num_outputs", Attr::Int(count));
    }
    Ok(())
}
