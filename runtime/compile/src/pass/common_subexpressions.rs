//! Common-subexpression elimination, one of the passes: nodes that repeat an earlier computation are removed.

use std::collections::{BTreeSet, HashMap};

use udo_api::Facts;

use super::replace;
use crate::resolve::{BoundNode, ParamSetting, TypedGraph};
use udo_graph::graph::{NodeId, NodeReads, Read, ValueId};

/// Makes consumers of a repeated computation read the first one, removes the repetitions, and returns their number.
pub(super) fn merge(graph: &mut TypedGraph) -> usize {
    let kept_values = named_values(graph);
    let mut replacements = HashMap::new();
    // The nodes that are certain to have run before the current node: one map for the graph and each subgraph around
    // the node.
    let mut scopes: Vec<HashMap<Key, Vec<Option<ValueId>>>> = vec![HashMap::new()];
    let mut removed = BTreeSet::new();
    for (index, bound) in graph.nodes.iter_mut().enumerate() {
        for input in bound.node.inputs.iter_mut().flatten() {
            *input = replacements.get(input).copied().unwrap_or(*input);
        }
        if let Some(control) = &bound.control {
            if control.parts() || control.ends() {
                scopes.pop();
            }
            if control.parts() || control.opens() {
                scopes.push(HashMap::new());
            }
            continue;
        }
        let Some(key) = key(bound) else { continue };
        let outputs = &bound.node.outputs;
        match scopes.iter().find_map(|scope| scope.get(&key)) {
            None => {
                if let Some(scope) = scopes.last_mut() {
                    scope.insert(key, outputs.clone());
                }
            }
            Some(_) if outputs.iter().flatten().any(|value| kept_values.contains(value)) => {}
            Some(earlier) => {
                let pairs = outputs.iter().zip(earlier);
                replacements
                    .extend(pairs.filter_map(|(repeated, first)| Some(((*repeated)?, (*first)?))));
                removed.insert(NodeId::new(index));
            }
        }
    }
    replace::remove(graph, &removed);
    removed.len()
}

/// Returns the values that must keep their ids: the graph's outputs and captured values.
pub(super) fn named_values(graph: &TypedGraph) -> BTreeSet<ValueId> {
    let reads = graph.nodes.iter().flat_map(|bound| bound.node.reads());
    let captured = reads.filter_map(|(read, value)| (read == Read::Capture).then_some(value));
    captured.chain(graph.outputs.iter().copied()).collect()
}

/// The properties that nodes with the same result share.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    op: usize,
    pin: Option<u16>,
    inputs: Vec<Option<ValueId>>,
    /// Which outputs are used.
    outputs: Vec<bool>,
    /// The operator set and the parameters, encoded as words.
    params: Vec<u64>,
}

/// Returns the key of a node; `None` if its result may differ from that of an equal node.
fn key(bound: &BoundNode) -> Option<Key> {
    let is_pure = bound.op.schema().known_facts().has(Facts::PURE);
    if !is_pure || bound.node.subgraphs().next().is_some() || bound.is_folded {
        return None;
    }
    let outputs = bound.node.outputs.iter().map(Option::is_some).collect();
    let mut params = vec![u64::from(bound.node.opset)];
    for (_, setting) in bound.params.settings() {
        push_words(&mut params, setting)?;
    }
    let op = std::ptr::from_ref(bound.op).addr();
    Some(Key { op, pin: bound.node.pin, inputs: bound.node.inputs.clone(), outputs, params })
}

/// Encodes a parameter as words, distinct for each value. Returns `None` for a tensor, whose elements take too long to
/// compare.
fn push_words(words: &mut Vec<u64>, setting: &ParamSetting) -> Option<()> {
    match setting {
        ParamSetting::Absent => words.push(0),
        ParamSetting::Int(number) => words.extend([1, number.cast_unsigned()]),
        ParamSetting::Float(number) => words.extend([2, number.to_bits()]),
        ParamSetting::Text(text) => {
            words.push(3);
            push_text(words, text);
        }
        ParamSetting::Ints(numbers) => {
            words.extend([4, numbers.len() as u64]);
            words.extend(numbers.iter().map(|number| number.cast_unsigned()));
        }
        ParamSetting::Floats(numbers) => {
            words.extend([5, numbers.len() as u64]);
            words.extend(numbers.iter().map(|number| number.to_bits()));
        }
        ParamSetting::Texts(texts) => {
            words.extend([6, texts.len() as u64]);
            for text in texts {
                push_text(words, text);
            }
        }
        ParamSetting::Tensor(_) => return None,
    }
    Some(())
}

fn push_text(words: &mut Vec<u64>, text: &str) {
    words.push(text.len() as u64);
    words.extend(text.bytes().map(u64::from));
}
