//! Graphs as text, for people and for tests.

use std::fmt::{self, Display, Formatter};

use super::{Attr, DimSpec, Graph, Node, Source, TensorType, ValueId};

pub(super) fn graph(graph: &Graph, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "graph {:?}", graph.name)?;
    for value in &graph.values {
        let name = Word(&value.name);
        match &value.source {
            Source::Input(of) => writeln!(f, "  input {name}: {of}")?,
            Source::Constant(tensor) => {
                writeln!(f, "  constant {name}: {}{}", tensor.dtype(), tensor.desc().full_shape())?;
            }
            Source::Computed => {}
        }
    }
    for of in &graph.nodes {
        node(graph, of, f)?;
    }
    let outputs = graph.outputs.iter().map(|&id| Name(graph, Some(id)));
    writeln!(f, "  output {}", List(outputs.collect()))
}

fn node(graph: &Graph, node: &Node, f: &mut Formatter<'_>) -> fmt::Result {
    let names = |ids: &[Option<ValueId>]| List(ids.iter().map(|&id| Name(graph, id)).collect());
    write!(f, "  {} = ", names(&node.outputs))?;
    if !node.domain.is_empty() {
        write!(f, "{}:", Word(&node.domain))?;
    }
    write!(f, "{}@{}({})", Word(&node.op), node.opset, names(&node.inputs))?;
    for (name, attr) in &node.attrs {
        write!(f, " {}={attr}", Word(name))?;
    }
    writeln!(f, " # {}", Word(&node.name))
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
        Attr::Tensor(tensor) => write!(f, "{}{}", tensor.dtype(), tensor.desc().full_shape()),
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
        let is_plain = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

/// A value's name, `_` where there is no value.
struct Name<'a>(&'a Graph, Option<ValueId>);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(id) = self.1 else { return f.write_str("_") };
        match self.0.value(id) {
            Ok(value) => write!(f, "{}", Word(&value.name)),
            Err(_) => write!(f, "<no value {}>", id.0),
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
