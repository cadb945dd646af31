//! Upgrades `Softmax` from before operator set 13, which normalized over `axis` and all later axes together.

use udo_api::{Dim, resolve_axis};

use super::edit::{Added, Edit};
use udo_graph::graph::Attr;

/// Converts to a `Softmax` over one axis. If only one of the axes has more than one element, it is that axis; otherwise
/// a `Flatten` before the node merges them, and a `Reshape` after it restores the shape.
pub(super) fn flatten(edit: &mut Edit<'_>) -> Result<(), String> {
    let x = edit.input(0);
    let rank = x.rank();
    let axis = edit.take_int("axis")?.unwrap_or(1);
    // The axis may equal the rank here: each element is then a row of its own.
    let end = usize::try_from(axis).ok().filter(|&axis| axis == rank);
    let first = end.or_else(|| resolve_axis(axis, rank));
    let first = first.ok_or_else(|| format!("attribute \"axis\" is {axis}, input 0 is {x}"))?;
    let shape = x.full_shape();
    let long_axes: Vec<usize> =
        (first..rank).filter(|&axis| shape.dim(axis).and_then(Dim::exact) != Some(1)).collect();
    let only = match long_axes[..] {
        [] => rank.checked_sub(1).filter(|&last| first <= last),
        [only] => Some(only),
        _ => None,
    };
    let number = |n: usize| i64::try_from(n).map_err(|e| e.to_string());
    if let Some(only) = only {
        // The last axis is the default from operator set 13 on.
        if only + 1 < rank {
            edit.set("axis", Attr::Int(number(only)?));
        }
        return Ok(());
    }
    if !shape.is_fixed() {
        return Err(format!(
            "input 0 is {x}, expected fixed dimensions to merge from axis {first} on"
        ));
    }
    let dims = x.shape().iter().map(|&dim| number(dim)).collect::<Result<Vec<_>, _>>()?;
    edit.before(0, &Added { op: "Flatten", list: None, attr: Some(("axis", number(first)?)) })?;
    edit.insert_after(0, &Added { op: "Reshape", list: Some(("shape", &dims)), attr: None })
}
