//! Graphs as text, for people and for tests; [`Graph::parse`] reads it back.

use std::fmt::{self, Display, Formatter};

use super::literal::literal;
use super::{Attr, DimSpec, Graph, GraphNode, GraphValue, Source, TensorType, ValueId};

pub(super) fn graph<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "graph {:?}", graph.name)?;
    for value in graph.values.iter().map(V::value) {
        let name = Word(&value.name);
        match &value.source {
            Source::Input(of) => writeln!(f, "  input {name}: {of}")?,
            Source::Constant(tensor) => writeln!(f, "  constant {name}: {}", literal(tensor))?,
            Source::Computed => {}
        }
    }
    for of in &graph.nodes {
        node(graph, of, f)?;
    }
    let outputs = graph.outputs.iter().map(|&id| Name(graph, Some(id)));
    writeln!(f, "  output {}", List(outputs.collect()))
}

fn node<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
    of: &N,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let node = of.node();
    let made = node.outputs.iter().map(|&id| Made(Name(graph, id)));
    write!(f, "  {} = ", List(made.collect()))?;
    if !node.domain.is_empty() {
        write!(f, "{}:", Part(&node.domain))?;
    }
    let read = node.inputs.iter().map(|&id| Name(graph, id));
    write!(f, "{}@{}({})", Part(&node.op), node.opset, List(read.collect()))?;
    for (name, attr) in &node.attrs {
        write!(f, " {}={attr}", Word(name))?;
    }
    write!(f, " # {}", Word(&node.name))?;
    match of.remark() {
        Some(remark) => writeln!(f, ", {remark}"),
        None => writeln!(f),
    }
}

pub(super) fn tensor_type(of: &TensorType, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{}[", of.dtype)?;
    for (axis, dim) in of.dims.iter().enumerate() {
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
    }
}

/// The names along a cycle, the first again at the end; the middle of a long one left out.
pub(super) fn cycle(nodes: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<_> = nodes.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    if nodes.len() > SHOWN {
        names.push(format!("({} more)", nodes.len() - SHOWN));
    }
    names.extend(names.first().cloned());
    names.join(" -> ")
}

/// A name as it stands if it is one plain word, else quoted, so that a line stays a line.
struct Word<'a>(&'a str);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // A colon at the end would be taken for that before a type.
        let is_plain = !self.0.ends_with(':') && self.0.chars().all(is_plain);
        if is_plain && !self.0.is_empty() && self.0 != "_" {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

/// Whether a character may stand in a word without quotes.
pub(super) fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_-./:".contains(c)
}

/// One of the two words that a colon parts.
struct Part<'a>(&'a str);

impl Display for Part<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "{:?}", self.0) } else { Word(self.0).fmt(f) }
    }
}

/// A value's name, `_` where there is no value.
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

/// The name of a value that a node makes, and its type where that is known.
struct Made<'a, N, V>(Name<'a, N, V>);

impl<N: GraphNode, V: GraphValue> Display for Made<'_, N, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Name(graph, id) = self.0;
        self.0.fmt(f)?;
        match id.and_then(|id| graph.value(id).ok()?.type_text()) {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

struct List<T>(Vec<T>);

impl<T: Display> Display for List<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}
