//! Prints graphs as text, for people and for tests. [`Graph::parse`] reads the text.

use std::fmt::{self, Display, Formatter};

use super::literal::literal;
use super::{
    Attr, DefaultInput, DimSpec, Graph, GraphNode, GraphValue, Node, PerValue, Source, TensorType,
    ValueId,
};

/// Writes a top-level graph.
pub(super) fn graph<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "graph {:?}", graph.name)?;
    lines(graph, 2, &|id| format!("<no value {}>", id.0), f)?;
    for DefaultInput { value, tensor_type, index } in &graph.defaults {
        writeln!(f, "  default {}: {tensor_type} {index}", Name(graph, Some(*value)))?;
    }
    for (input, output) in &graph.in_place {
        writeln!(f, "  in_place {}={}", Word(input), Word(output))?;
    }
    for text in &graph.affinity {
        writeln!(f, "  affinity {}", Word(text))?;
    }
    Ok(())
}

/// Writes the lines of a graph, indented by `indent`; `outer` names the values of the outer graph.
fn lines<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
    indent: usize,
    outer: &dyn Fn(ValueId) -> String,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let mut captures = PerValue::filled(graph, None);
    for capture in &graph.captures {
        captures.set(capture.inner, Some(outer(capture.outer)));
    }
    // The parser lists inputs in the order of their lines. So the lines of inputs are in the order of `graph.inputs`, which
    // may differ from that of the values.
    let mut inputs = graph.inputs.iter().filter_map(|&id| graph.value(id).ok());
    for ((_, captured), value) in captures.iter().zip(&graph.values) {
        let value = value.value();
        let is_input = match (&value.source, captured) {
            (Source::Input(_), _) | (Source::Outer, None) => true,
            (Source::Outer, Some(_)) | (Source::Constant(_) | Source::Computed, _) => false,
        };
        let value = if is_input { inputs.next().map_or(value, V::value) } else { value };
        let name = Word(&value.name);
        let line = match (&value.source, captured) {
            (Source::Input(tensor_type), _) => format!("input {name}: {tensor_type}"),
            (Source::Constant(tensor), _) => format!("constant {name}: {}", literal(tensor)),
            (Source::Outer, Some(outer)) if *outer == name.to_string() => format!("capture {name}"),
            (Source::Outer, Some(outer)) => format!("capture {name} = {outer}"),
            (Source::Outer, None) => match &value.declared {
                Some(tensor_type) => format!("input {name}: {tensor_type}"),
                None => format!("input {name}"),
            },
            (Source::Computed, _) => continue,
        };
        writeln!(f, "{:indent$}{line}", "")?;
    }
    for graph_node in &graph.nodes {
        write!(f, "{:indent$}", "")?;
        node(graph, graph_node, f)?;
        subgraphs(graph, graph_node.node(), indent + 2, f)?;
    }
    if graph.outputs.is_empty() {
        return Ok(());
    }
    let outputs = graph.outputs.iter().map(|&id| Name(graph, Some(id)));
    writeln!(f, "{:indent$}output {}", "", List(outputs.collect()))
}

/// Writes the line of a node: outputs, operator, inputs, attributes other than graphs, and its name.
fn node<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
    graph_node: &N,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let node = graph_node.node();
    let outputs = node.outputs.iter().map(|&id| Output(Name(graph, id)));
    write!(f, "{} = ", List(outputs.collect()))?;
    if !node.domain.is_empty() {
        write!(f, "{}:", Part(&node.domain))?;
    }
    let inputs = node.inputs.iter().map(|&id| Name(graph, id));
    write!(f, "{}@{}({})", Part(&node.op), node.opset, List(inputs.collect()))?;
    let is_graph = |attr: &Attr| matches!(attr, Attr::Graph(_) | Attr::Graphs(_));
    for (name, attr) in node.attrs.iter().filter(|(_, attr)| !is_graph(attr)) {
        write!(f, " {}={attr}", Word(name))?;
    }
    write!(f, " # {}", Word(&node.name))?;
    match graph_node.remark() {
        Some(remark) => writeln!(f, ", {remark}"),
        None => writeln!(f),
    }
}

/// Writes the subgraphs of a node of `graph`, each in indented lines after the node's line.
fn subgraphs<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
    node: &Node,
    indent: usize,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let outer = |id| Name(graph, Some(id)).to_string();
    for (name, attr) in &node.attrs {
        let name = Word(name);
        match attr {
            Attr::Graph(inner) => {
                writeln!(f, "{:indent$}{name}: graph {:?}", "", inner.name)?;
                lines(inner, indent + 2, &outer, f)?;
            }
            Attr::Graphs(inners) => {
                writeln!(f, "{:indent$}{name}: graphs", "")?;
                for inner in inners {
                    writeln!(f, "{:1$}graph {2:?}", "", indent + 2, inner.name)?;
                    lines(inner, indent + 4, &outer, f)?;
                }
            }
            Attr::Int(_)
            | Attr::Float(_)
            | Attr::Text(_)
            | Attr::Ints(_)
            | Attr::Floats(_)
            | Attr::Texts(_)
            | Attr::Tensor(_) => {}
        }
    }
    Ok(())
}

pub(super) fn tensor_type(tensor_type: &TensorType, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{}[", tensor_type.dtype)?;
    for (axis, dim) in tensor_type.dims.iter().enumerate() {
        let comma = if axis == 0 { "" } else { "," };
        match dim {
            DimSpec::Fixed(n) => write!(f, "{comma}{n}")?,
            DimSpec::Named(name) => write!(f, "{comma}{}", Word(name))?,
            DimSpec::Unknown => write!(f, "{comma}?")?,
        }
    }
    f.write_str("]")
}

pub(super) fn attr(attr: &Attr, f: &mut Formatter<'_>) -> fmt::Result {
    match attr {
        Attr::Int(value) => write!(f, "{value}"),
        Attr::Float(value) => write!(f, "{value:?}"),
        Attr::Text(value) => write!(f, "{value:?}"),
        Attr::Ints(values) => write!(f, "{values:?}"),
        Attr::Floats(values) => write!(f, "{values:?}"),
        Attr::Texts(values) => write!(f, "{values:?}"),
        Attr::Tensor(tensor) => write!(f, "{}", literal(tensor)),
        Attr::Graph(graph) => write!(f, "graph {:?}", graph.name),
        Attr::Graphs(graphs) => write!(f, "{} graphs", graphs.len()),
    }
}

/// Formats the names along a cycle, with the first again at the end. Of a long cycle, only the first names.
pub(super) fn cycle(nodes: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<_> = nodes.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    if nodes.len() > SHOWN {
        names.push(format!("({} more)", nodes.len() - SHOWN));
    }
    names.extend(names.first().cloned());
    names.join(" -> ")
}

/// A name: quoted unless it is a plain word, so that the parser reads it as one token.
struct Word<'a>(&'a str);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The parser reads a colon at the end as the start of a type.
        let is_plain = !self.0.ends_with(':') && self.0.chars().all(is_plain);
        if is_plain && !self.0.is_empty() && self.0 != "_" {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

/// Whether a word without quotes may contain a character.
pub(super) fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_-./:".contains(c)
}

/// The domain or the name in `domain:op`: quoted if it contains a colon itself.
struct Part<'a>(&'a str);

impl Display for Part<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "{:?}", self.0) } else { Word(self.0).fmt(f) }
    }
}

/// The name of a value; `_` for an omitted input or output.
struct Name<'a, N, V>(&'a Graph<N, V>, Option<ValueId>);

impl<N: GraphNode, V: GraphValue> Display for Name<'_, N, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(id) = self.1 else { return f.write_str("_") };
        match self.0.value(id) {
            Ok(value) => write!(f, "{}", Word(&value.value().name)),
            Err(_) => write!(f, "<no value {}>", id.0),
        }
    }
}

/// The name of a node's output, and its type if known.
struct Output<'a, N, V>(Name<'a, N, V>);

impl<N: GraphNode, V: GraphValue> Display for Output<'_, N, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Name(graph, id) = self.0;
        self.0.fmt(f)?;
        match id.and_then(|id| graph.value(id).ok()?.type_text()) {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

/// Items separated by commas.
struct List<T>(Vec<T>);

impl<T: Display> Display for List<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}
