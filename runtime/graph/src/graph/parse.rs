//! Reads the text form of a graph.

use std::collections::HashMap;
use std::iter::{Enumerate, Peekable};

use super::cursor::{Cursor, Expected};
use super::{Attr, DefaultInput, Graph, GraphError, MAX_DEPTH, Node, TensorType, ValueId};

/// Why a text is not a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A line does not read on as it should.
    #[error("line {line}: found {found:?}, expected {wanted}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The text at this position.
        found: String,
        /// The expected text.
        wanted: String,
    },
    /// The lines do not make a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Graph {
    /// The graph of a text as [`Graph`]'s `Display` writes it. Values are told apart by their names, in each graph.
    ///
    /// # Errors
    /// The first line that is none, or why the lines make no graph.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut lines = Lines { rest: text.lines().enumerate().peekable() };
        let mut reading = Reading::new("", 0);
        while let Some(line) = lines.next_in(None) {
            reading.line(line, &mut lines, None)?;
        }
        reading.graph.verify()?;
        Ok(reading.graph)
    }
}

/// The lines that are left.
struct Lines<'a> {
    rest: Peekable<Enumerate<std::str::Lines<'a>>>,
}

#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    /// Counted from 1.
    number: usize,
    /// How far it is indented.
    indent: usize,
}

impl<'a> Lines<'a> {
    /// The next line that is not empty, if it is indented more than `head`.
    fn next_in(&mut self, head: Option<Line<'_>>) -> Option<Line<'a>> {
        while self.rest.next_if(|(_, text)| text.trim().is_empty()).is_some() {}
        let (index, text) = *self.rest.peek()?;
        let indent = text.chars().take_while(|c| c.is_whitespace()).count();
        if head.is_some_and(|head| indent <= head.indent) {
            return None;
        }
        self.rest.next();
        Some(Line { text, number: index + 1, indent })
    }
}

impl<'a> Line<'a> {
    /// Returns the result of `read` for the whole line.
    fn read<T>(
        self,
        read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Expected>,
    ) -> Result<T, ParseError> {
        let mut cursor = Cursor { rest: self.text };
        let made = read(&mut cursor).and_then(|made| cursor.end().map(|()| made));
        made.map_err(|wanted| ParseError::Line {
            line: self.number,
            found: cursor.rest.trim_start().to_owned(),
            wanted,
        })
    }
}

/// A graph, as far as it has been read.
struct Reading {
    graph: Graph,
    ids: HashMap<String, ValueId>,
    /// How deep it is nested.
    depth: usize,
    /// How far its last node is indented.
    node_indent: Option<usize>,
}

/// The first line of what an attribute of the last node holds; the rest is indented more.
struct Head {
    attribute: String,
    /// The name of a graph; none of several graphs.
    name: Option<String>,
}

impl Reading {
    fn new(name: &str, depth: usize) -> Self {
        Self { graph: Graph::new(name), ids: HashMap::new(), depth, node_indent: None }
    }

    /// Reads a line, and those that belong to it.
    fn line<'a>(
        &mut self,
        line: Line<'a>,
        lines: &mut Lines<'a>,
        outer: Option<&mut Self>,
    ) -> Result<(), ParseError> {
        let head = line.read(|cursor| match self.head(cursor, line.indent)? {
            Some(head) => Ok(Some(head)),
            None => self.words(cursor, line.indent, outer).map(|()| None),
        })?;
        let Some(Head { attribute, name }) = head else { return Ok(()) };
        let attr = match name {
            Some(name) => Attr::Graph(Box::new(self.inner(&name, line, lines)?)),
            None => Attr::Graphs(self.inners(line, lines)?),
        };
        if let Some(node) = self.graph.nodes.last_mut() {
            node.attrs.push((attribute, attr));
        }
        Ok(())
    }

    /// The graph behind `head`.
    fn inner<'a>(
        &mut self,
        name: &str,
        head: Line<'a>,
        lines: &mut Lines<'a>,
    ) -> Result<Graph, ParseError> {
        let mut inner = Self::new(name, self.depth + 1);
        while let Some(line) = lines.next_in(Some(head)) {
            inner.line(line, lines, Some(self))?;
        }
        Ok(inner.graph)
    }

    /// The graphs behind `head`.
    fn inners<'a>(
        &mut self,
        head: Line<'a>,
        lines: &mut Lines<'a>,
    ) -> Result<Vec<Graph>, ParseError> {
        let mut graphs = Vec::new();
        while let Some(line) = lines.next_in(Some(head)) {
            let name = line.read(|cursor| {
                let whole = cursor.rest;
                if cursor.plain() == "graph" {
                    return cursor.word();
                }
                cursor.rest = whole;
                Err("\"graph\" and a name".to_owned())
            })?;
            graphs.push(self.inner(&name, line, lines)?);
        }
        Ok(graphs)
    }

    /// Reads the first line of graphs, if it is one.
    fn head(&mut self, line: &mut Cursor<'_>, indent: usize) -> Result<Option<Head>, Expected> {
        let whole = line.rest;
        let attribute = line.word_before_colon();
        let (Ok(attribute), of @ ("graph" | "graphs")) = (attribute, line.plain()) else {
            line.rest = whole;
            return Ok(None);
        };
        if self.node_indent.is_none_or(|node| node >= indent) {
            line.rest = whole;
            return Err("a node above that is indented less".to_owned());
        }
        if self.depth == MAX_DEPTH {
            line.rest = whole;
            return Err(format!("subgraphs nested at most {MAX_DEPTH} deep"));
        }
        let name = if of == "graph" { Some(line.word()?) } else { None };
        Ok(Some(Head { attribute, name }))
    }

    fn words(
        &mut self,
        line: &mut Cursor<'_>,
        indent: usize,
        outer: Option<&mut Self>,
    ) -> Result<(), Expected> {
        let whole = line.rest;
        // The names of values may be these words too.
        match line.word()?.as_str() {
            "graph" if self.depth == 0 && line.starts_word() => self.graph.name = line.word()?,
            "input" if line.starts_word() => self.input(line)?,
            "capture" if line.starts_word() => {
                let outer = outer.ok_or("an outer graph to capture from")?;
                let name = line.word()?;
                let of = if line.eat("=") { outer.id(&line.word()?) } else { outer.id(&name) };
                let id = self.graph.add_capture(&name, of);
                self.ids.insert(name, id);
            }
            "constant" if line.starts_word() => {
                let name = line.word_before_colon()?;
                let tensor = line.tensor()?;
                let id = self.graph.add_constant(&name, tensor);
                self.ids.insert(name, id);
            }
            "output" if line.starts_word() => {
                for id in self.names(line)?.into_iter().flatten() {
                    self.graph.outputs.push(id);
                }
            }
            "default" if self.depth == 0 && line.starts_word() => {
                let name = line.word_before_colon()?;
                let (value, of) = (self.id(&name), line.tensor_type()?);
                let before = line.plain().parse();
                let before = before.map_err(|_| "how many inputs stand before it")?;
                self.graph.defaults.push(DefaultInput { value, of, before });
            }
            "in_place" if self.depth == 0 && line.starts_word() => {
                let input = line.word()?;
                line.expect("=")?;
                self.graph.in_place.push((input, line.word()?));
            }
            "affinity" if self.depth == 0 && line.starts_word() => {
                self.graph.affinity.push(line.word()?);
            }
            _ => {
                line.rest = whole;
                self.node(line)?;
                self.node_indent = Some(indent);
            }
        }
        Ok(())
    }

    /// A run's input has a type, the output of a node may have no type.
    fn input(&mut self, line: &mut Cursor<'_>) -> Result<(), Expected> {
        let (name, id);
        if self.depth == 0 {
            name = line.word_before_colon()?;
            let TensorType { dtype, dims } = line.tensor_type()?;
            id = self.graph.add_input(&name, dtype, dims);
        } else {
            let is_typed;
            (name, is_typed) = line.maybe_typed()?;
            let declared = if is_typed { Some(line.tensor_type()?) } else { None };
            id = self.graph.add_parameter(&name, declared);
        }
        self.ids.insert(name, id);
        Ok(())
    }

    fn node(&mut self, line: &mut Cursor<'_>) -> Result<(), Expected> {
        let outputs = self.outputs(line)?;
        line.expect("=")?;
        let (domain, op) = line.operator()?;
        line.expect("@")?;
        let opset = line.plain().parse().map_err(|_| "the number of an operator set")?;
        line.expect("(")?;
        let inputs = if line.eat(")") { Vec::new() } else { self.names(line)? };
        if !inputs.is_empty() {
            line.expect(")")?;
        }
        let mut node = Node::new(&op, opset, &[], &[]);
        (node.domain, node.inputs, node.outputs) = (domain, inputs, outputs);
        while line.starts_word() {
            let name = line.word()?;
            line.expect("=")?;
            node.attrs.push((name, line.attr()?));
        }
        if line.eat("#") {
            node.name = line.word()?;
            // A remark is for people.
            if line.eat(",") {
                line.rest = "";
            }
        }
        self.graph.add_node(node);
        Ok(())
    }

    /// Values by name, with types where they stand.
    fn outputs(&mut self, line: &mut Cursor<'_>) -> Result<Vec<Option<ValueId>>, Expected> {
        line.list(|line| {
            let is_quoted = line.starts("\"");
            let (name, is_typed) = line.maybe_typed()?;
            let id = self.value(&name, is_quoted);
            if is_typed {
                let declared = Some(line.tensor_type()?);
                // How fixed-point cores may store it follows from the nodes.
                if line.eat("~") {
                    line.plain();
                }
                if let Some(value) = id.and_then(|id| self.graph.values.get_mut(id.index())) {
                    value.declared = declared;
                }
            }
            Ok(id)
        })
    }

    fn names(&mut self, line: &mut Cursor<'_>) -> Result<Vec<Option<ValueId>>, Expected> {
        line.list(|line| {
            let is_quoted = line.starts("\"");
            let name = line.word()?;
            Ok(self.value(&name, is_quoted))
        })
    }

    /// The value of this name; none for the mark of a port that is left out.
    fn value(&mut self, name: &str, is_quoted: bool) -> Option<ValueId> {
        if name == "_" && !is_quoted {
            return None;
        }
        Some(self.id(name))
    }

    /// The value of this name, which some node makes if it is not known yet.
    fn id(&mut self, name: &str) -> ValueId {
        let graph = &mut self.graph;
        *self.ids.entry(name.to_owned()).or_insert_with(|| graph.add_value(name))
    }
}
