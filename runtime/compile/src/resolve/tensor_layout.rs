//! Inserts transposes for operators with NHWC ports (`tensor_layout: NHWC`).
//!
//! ONNX puts channels second. Every rank-4 value of such a port is transposed to NHWC before the node and back after
//! it, whether it is an input, a constant or computed. Transposes of constants are folded. Two neighbors that both use
//! NHWC need no transpose between them.

use std::collections::{HashMap, HashSet};

use udo_api::{Layout, OpSchema};

use super::TypedGraph;
use udo_graph::graph::{Attr, Links, Node, ValueId};

/// The values that also exist in NHWC.
#[derive(Clone, Debug, Default)]
pub(super) struct NhwcValues {
    /// The NHWC version of a value.
    nhwc: HashMap<ValueId, ValueId>,
    /// Outputs of transposes from NHWC, which may turn out to be unused.
    from_nhwc: Vec<ValueId>,
}

/// An output that its operator writes in NHWC.
pub(super) struct NhwcOutput {
    port: usize,
    /// The output in the model's layout.
    value: ValueId,
    nhwc: ValueId,
    opset: u32,
}

fn transpose(name: String, opset: u32, from: ValueId, to: ValueId, perm: [usize; 4]) -> Node {
    let mut node = Node::new("Transpose", opset, &[from], &[to]);
    node.name = name;
    let perm = perm.into_iter().filter_map(|axis| i64::try_from(axis).ok()).collect();
    node.attrs.push(("perm".to_owned(), Attr::Ints(perm)));
    node
}

fn name(graph: &TypedGraph, id: ValueId) -> String {
    graph.value(id).map_or_else(|_| String::new(), |v| v.value.name.clone())
}

impl NhwcValues {
    /// Makes `node` read NHWC values where its schema requires them; returns the transposes that must run before it.
    pub(super) fn convert_inputs(
        &mut self,
        graph: &mut TypedGraph,
        node: &mut Node,
        schema: &OpSchema,
    ) -> Vec<Node> {
        let mut transposes = Vec::new();
        for index in 0..node.inputs.len() {
            let requires_nhwc =
                schema.input(index).is_some_and(|p| p.rank4_layout() == Layout::Nhwc);
            let Some(value) = node.input(index).filter(|_| requires_nhwc) else { continue };
            if graph.desc(Some(value)).rank() != 4 {
                continue;
            }
            let nhwc = self.nhwc.get(&value).copied().unwrap_or_else(|| {
                let base = name(graph, value);
                let nhwc = graph.add_value(&format!("{base}.nhwc"));
                transposes.push(transpose(
                    format!("{base}.to_nhwc"),
                    node.opset,
                    value,
                    nhwc,
                    Layout::NHWC_AXES,
                ));
                self.nhwc.insert(value, nhwc);
                nhwc
            });
            if let Some(input) = node.inputs.get_mut(index) {
                *input = Some(nhwc);
            }
        }
        transposes
    }

    /// Makes `node` write its NHWC outputs to separate values.
    pub(super) fn nhwc_outputs(
        graph: &mut TypedGraph,
        node: &mut Node,
        schema: &OpSchema,
    ) -> Vec<NhwcOutput> {
        let mut outputs = Vec::new();
        for port in 0..node.outputs.len() {
            let requires_nhwc =
                schema.output(port).is_some_and(|p| p.rank4_layout() == Layout::Nhwc);
            let Some(value) = node.output(port).filter(|_| requires_nhwc) else { continue };
            let nhwc = graph.add_value(&format!("{}.nhwc", name(graph, value)));
            if let Some(output) = node.outputs.get_mut(port) {
                *output = Some(nhwc);
            }
            outputs.push(NhwcOutput { port, value, nhwc, opset: node.opset });
        }
        outputs
    }

    /// Returns the transposes that must run after the last bound node. An output that is not of rank 4 becomes the
    /// node's own output again.
    pub(super) fn convert_outputs(
        &mut self,
        graph: &mut TypedGraph,
        outputs: Vec<NhwcOutput>,
    ) -> Vec<Node> {
        let mut transposes = Vec::new();
        for NhwcOutput { port, value, nhwc, opset } in outputs {
            let desc = graph.desc(Some(nhwc));
            let (folded, is_open) = (graph.known(Some(nhwc)).cloned(), graph.is_open(Some(nhwc)));
            if desc.rank() == 4 {
                let name = format!("{}.from_nhwc", name(graph, value));
                transposes.push(transpose(name, opset, nhwc, value, Layout::NCHW_AXES));
                self.nhwc.insert(value, nhwc);
                self.from_nhwc.push(value);
                continue;
            }
            let output = graph.nodes.last_mut().and_then(|n| n.node.outputs.get_mut(port));
            if let Some(output) = output {
                *output = Some(value);
            }
            if let Some(typed) = graph.values.get_mut(value.index()) {
                (typed.desc, typed.folded, typed.is_open) = (desc, folded, is_open);
            }
        }
        transposes
    }

    /// Forgets the conversions made since `before` inside a subgraph, which may not run.
    pub(super) fn leave(&mut self, before: Self) {
        self.nhwc = before.nhwc;
    }

    /// Removes transposes with unused outputs.
    pub(super) fn remove_unread(&self, graph: &mut TypedGraph) {
        let readers = graph.consumers();
        let is_unread = |value: &ValueId| {
            readers.get(*value).is_none_or(Vec::is_empty) && !graph.outputs.contains(value)
        };
        let unread: HashSet<_> = self.from_nhwc.iter().copied().filter(is_unread).collect();
        let is_read = |output: ValueId| !unread.contains(&output);
        graph.nodes.retain(|bound| bound.node.output(0).is_none_or(is_read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use udo_graph::graph::Graph;

    #[test]
    fn transposes_with_captured_outputs_stay() {
        let text = "graph captured
          input x: f32[1,2,2,3]
          nchw = Transpose@21(x) perm=[0, 3, 1, 2]
          y = Relu@21(x)
          output y
        ";
        for (captures, nodes) in [(false, 1), (true, 2)] {
            let graph = Graph::parse(text).unwrap();
            let mut graph = testing::resolved(&testing::resources(), graph);
            let nchw = graph.value_named("nchw").unwrap();
            if captures {
                let mut inner = Graph::new("inner");
                inner.add_capture("nchw", nchw);
                let attr = ("body".to_owned(), Attr::Graph(Box::new(inner)));
                graph.nodes.last_mut().unwrap().node.attrs.push(attr);
            }
            let values = NhwcValues { nhwc: HashMap::new(), from_nhwc: vec![nchw] };
            values.remove_unread(&mut graph);
            assert_eq!(graph.nodes.len(), nodes);
        }
    }
}
