//! Upgrades `Scan` from before operator set 9, which scanned each sequence of a batch.

use super::edit::Edit;
use udo_graph::graph::{Attr, Graph, Node};

/// Converts the node to nested scans: the outer one iterates over the batch, and its body scans one sequence.
pub(super) fn over_batch(edit: &mut Edit<'_>) -> Result<(), String> {
    if edit.node.input(0).is_some() {
        let lengths = edit.input(0);
        return Err(format!("input 0 is {lengths}, lengths of sequences, expected none"));
    }
    let mut inputs = edit.node.inputs.iter().skip(1).copied().collect::<Vec<_>>();
    let Some(Attr::Graph(mut body)) = edit.take("body") else {
        return Err("attribute \"body\" is not a graph".to_owned());
    };
    let sequence = Node::new("Scan", 9, &[], &[]);
    let mut sequence = Node { name: "sequence".to_owned(), ..sequence };
    let mut outer_body = Graph::new(&body.name);
    for port in 0..inputs.len() {
        sequence.inputs.push(Some(outer_body.add_parameter(&format!("input_{port}"), None)));
    }
    for port in 0..edit.node.outputs.len() {
        let output = outer_body.add_value(&format!("output_{port}"));
        sequence.outputs.push(Some(output));
        outer_body.outputs.push(output);
    }
    for capture in &mut body.captures {
        let outer = edit.graph.value(capture.outer).map_err(|why| why.to_string())?;
        capture.outer = outer_body.add_capture(&outer.value.name, capture.outer);
    }
    sequence.attrs.push(("body".to_owned(), Attr::Graph(body)));
    let directions = edit.take("directions");
    let directions = directions.map(|attr| ("scan_input_directions".to_owned(), attr));
    let scan_inputs = edit.take("num_scan_inputs").map(|attr| ("num_scan_inputs".to_owned(), attr));
    sequence.attrs.extend(directions.into_iter().chain(scan_inputs));
    outer_body.add_node(sequence);
    let count = i64::try_from(inputs.len()).map_err(|why| why.to_string())?;
    std::mem::swap(&mut edit.node.inputs, &mut inputs);
    edit.set("body", Attr::Graph(Box::new(outer_body)));
    edit.set("num_scan_inputs", Attr::Int(count));
    Ok(())
}
