//! Upgrades `Resize` of operator set 10 and `Upsample`, which had no coordinate modes.

use super::edit::Edit;
use udo_graph::graph::{Attr, ValueId};

/// Turns attribute `scales` of `Upsample` into input 1.
pub(super) fn scales_to_input(edit: &mut Edit<'_>) -> Result<(), String> {
    match edit.take_floats("scales")? {
        Some(scales) => edit.set_floats(1, "scales", &scales),
        None => Ok(()),
    }
}

/// Adds the coordinate mode that these versions imply, asymmetric. As in ONNX Runtime, the nearest element is the floor
/// when an image grows and the ceiling when it shrinks.
pub(super) fn state_coordinates(edit: &mut Edit<'_>) -> Result<(), String> {
    let shrinks_image = shrinks(edit, edit.node.input(1).ok_or("input 1, the scales, is missing")?);
    edit.node.inputs.insert(1, None);
    edit.set("coordinate_transformation_mode", Attr::Text("asymmetric".to_owned()));
    let nearest = if shrinks_image { "ceil" } else { "floor" };
    edit.set("nearest_mode", Attr::Text(nearest.to_owned()));
    Ok(())
}

/// Returns whether some axis shrinks and none grows.
fn shrinks(edit: &Edit<'_>, scales: ValueId) -> bool {
    let scales = edit.graph.known(Some(scales)).and_then(|scales| scales.get::<f32>());
    scales.is_some_and(|scales| {
        scales.iter().any(|&scale| scale < 1.0) && scales.iter().all(|&scale| scale <= 1.0)
    })
}
