//! Gives operators that ask for channel-last activations (`tensor_layout: NHWC`) what they ask for.
//!
//! ONNX keeps channels second. Rank-4 activations of such a port are transposed on the way in and
//! back on the way out; neighbours that both want channels last hand over without a transpose.

use std::collections::HashMap;

use udo_api::{Layout, OpSchema};

use super::{BoundNode, TypedGraph};
use crate::graph::{Attr, Node, ValueId};

/// Batch, channels, height, width to batch, height, width, channels.
const TO_LAST: [i64; 4] = [0, 2, 3, 1];
/// And back.
const TO_SECOND: [i64; 4] = [0, 3, 1, 2];

/// The values that exist channel-last as well.
#[derive(Debug, Default)]
pub(super) struct ChannelLast {
    twins: HashMap<ValueId, ValueId>,
    /// Outputs of transposes that may turn out to be unread.
    back: Vec<ValueId>,
}

/// An output that its operator makes channel-last.
pub(super) struct StandIn {
    port: usize,
    wanted: ValueId,
    made: ValueId,
    opset: u32,
}

fn transpose(name: String, opset: u32, from: ValueId, to: ValueId, perm: [i64; 4]) -> Node {
    let mut node = Node::new("Transpose", opset, &[from], &[to]);
    node.name = name;
    node.attrs.push(("perm".to_owned(), Attr::Ints(perm.to_vec())));
    node
}

fn name(graph: &TypedGraph, id: ValueId) -> String {
    graph.value(id).map_or_else(|_| String::new(), |v| v.value.name.clone())
}

impl ChannelLast {
    /// Makes `node` read channel-last activations where its schema asks for them; returns the
    /// transposes that must run before it.
    pub(super) fn before(
        &mut self,
        graph: &mut TypedGraph,
        node: &mut Node,
        schema: &OpSchema,
    ) -> Vec<Node> {
        let mut transposes = Vec::new();
        for index in 0..node.inputs.len() {
            let asks = schema
                .input(index)
                .is_some_and(|p| p.rank4_layout() == Layout::Nhwc && !p.wants_static());
            let Some(value) = node.input(index).filter(|_| asks) else { continue };
            if graph.desc(Some(value)).rank() != 4 || graph.constant(value).is_some() {
                continue;
            }
            let twin = self.twins.get(&value).copied().unwrap_or_else(|| {
                let given = name(graph, value);
                let twin = graph.add_value(&format!("{given}.nhwc"));
                transposes.push(transpose(
                    format!("{given}.to_nhwc"),
                    node.opset,
                    value,
                    twin,
                    TO_LAST,
                ));
                self.twins.insert(value, twin);
                twin
            });
            if let Some(input) = node.inputs.get_mut(index) {
                *input = Some(twin);
            }
        }
        transposes
    }

    /// Makes `node` write its channel-last outputs to values of their own.
    pub(super) fn stand_in(
        graph: &mut TypedGraph,
        node: &mut Node,
        schema: &OpSchema,
    ) -> Vec<StandIn> {
        let mut stand_ins = Vec::new();
        for port in 0..node.outputs.len() {
            let asks = schema.output(port).is_some_and(|p| p.rank4_layout() == Layout::Nhwc);
            let Some(wanted) = node.output(port).filter(|_| asks) else { continue };
            let made = graph.add_value(&format!("{}.nhwc", name(graph, wanted)));
            if let Some(output) = node.outputs.get_mut(port) {
                *output = Some(made);
            }
            stand_ins.push(StandIn { port, wanted, made, opset: node.opset });
        }
        stand_ins
    }

    /// The transposes that must run after the node that was bound last. Outputs that turned out
    /// not to have rank 4 become the node's own again.
    pub(super) fn after(&mut self, graph: &mut TypedGraph, outputs: Vec<StandIn>) -> Vec<Node> {
        let mut transposes = Vec::new();
        for StandIn { port, wanted, made, opset } in outputs {
            let desc = graph.desc(Some(made));
            let folded = graph.known(Some(made)).cloned();
            if desc.rank() == 4 {
                let name = format!("{}.from_nhwc", name(graph, wanted));
                transposes.push(transpose(name, opset, made, wanted, TO_SECOND));
                self.twins.insert(wanted, made);
                self.back.push(wanted);
                continue;
            }
            let output = graph.nodes.last_mut().and_then(|n| n.node.outputs.get_mut(port));
            if let Some(output) = output {
                *output = Some(wanted);
            }
            if let Some(value) = graph.values.get_mut(wanted.index()) {
                (value.desc, value.folded) = (desc, folded);
            }
        }
        transposes
    }

    /// Takes out the transposes whose output nobody reads.
    pub(super) fn sweep(&self, graph: &mut TypedGraph) {
        for unread in &self.back {
            let mut read = graph.nodes.iter().flat_map(|n| &n.node.inputs);
            let read = read.any(|i| *i == Some(*unread));
            if read || graph.outputs.contains(unread) {
                continue;
            }
            let made_by = |n: &BoundNode| n.node.outputs.first() == Some(&Some(*unread));
            if let Some(index) = graph.nodes.iter().position(made_by) {
                graph.nodes.remove(index);
            }
        }
    }
}
