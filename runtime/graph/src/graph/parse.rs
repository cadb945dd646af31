//! The parser of printed graphs. The lines of a subgraph are indented more than the line of its attribute.

use std::collections::HashMap;
use std::iter::{Enumerate, Peekable};

use super::cursor::{Cursor, Expected};
use super::{Attr, DefaultInput, Graph, GraphError, MAX_DEPTH, Node, TensorType, ValueId};

/// The reason why a text is not a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A line cannot be parsed.
    #[error("line {line}: found {found:?}, expected {expected}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The text at this position.
        found: String,
        /// The expected text.
        expected: String,
    },
    /// The graph is invalid.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Graph {
    /// Parses a text that the `Display` implementation of [`Graph`] writes. A name stands for the same value in all lines of
    /// a graph.
    ///
    /// # Errors
    /// Fails if a line cannot be parsed, or the graph is invalid.
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

/// The unread lines.
struct Lines<'a> {
    rest: Peekable<Enumerate<std::str::Lines<'a>>>,
}

/// A line of the text.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    /// The number of the line, counted from 1.
    number: usize,
    /// The number of spaces before the text.
    indent: usize,
}

impl<'a> Lines<'a> {
    /// Reads the next line that is not empty, if it is indented more than `header`.
    fn next_in(&mut self, header: Option<Line<'_>>) -> Option<Line<'a>> {
        while self.rest.next_if(|(_, text)| text.trim().is_empty()).is_some() {}
        let (index, text) = *self.rest.peek()?;
        let indent = text.chars().take_while(|c| c.is_whitespace()).count();
        if header.is_some_and(|header| indent <= header.indent) {
            return None;
        }
        self.rest.next();
        Some(Line { text, number: index + 1, indent })
    }
}

impl<'a> Line<'a> {
    /// Returns the result of `read`, which must read the line to its end.
    fn read<T>(
        self,
        read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Expected>,
    ) -> Result<T, ParseError> {
        let mut cursor = Cursor { rest: self.text };
        let result = read(&mut cursor).and_then(|result| cursor.end().map(|()| result));
        result.map_err(|expected| ParseError::Line {
            line: self.number,
            found: cursor.rest.trim_start().to_owned(),
            expected,
        })
    }
}

/// A partly read graph.
struct Reading {
    graph: Graph,
    ids: HashMap<String, ValueId>,
    /// The nesting depth; 0 for the main graph.
    depth: usize,
    /// The indent of the last node.
    node_indent: Option<usize>,
}

/// The first line of an attribute with subgraphs, `attribute: graph NAME` or `attribute: graphs`. The lines of the
/// subgraphs follow and are indented more.
struct Header {
    attribute: String,
    /// The name of the graph; `None` for a list of graphs.
    name: Option<String>,
}

impl Reading {
    fn new(name: &str, depth: usize) -> Self {
        Self { graph: Graph::new(name), ids: HashMap::new(), depth, node_indent: None }
    }

    /// Reads a line, and the lines of the subgraphs that it starts.
    fn line<'a>(
        &mut self,
        line: Line<'a>,
        lines: &mut Lines<'a>,
        outer: Option<&mut Self>,
    ) -> Result<(), ParseError> {
        let header = line.read(|cursor| match self.header(cursor, line.indent)? {
            Some(header) => Ok(Some(header)),
            None => self.statement(cursor, line.indent, outer).map(|()| None),
        })?;
        let Some(Header { attribute, name }) = header else { return Ok(()) };
        let attr = match name {
            Some(name) => Attr::Graph(Box::new(self.subgraph(&name, line, lines)?)),
            None => Attr::Graphs(self.subgraphs(line, lines)?),
        };
        if let Some(node) = self.graph.nodes.last_mut() {
            node.attrs.push((attribute, attr));
        }
        Ok(())
    }

    /// Reads the lines of a subgraph after `header`.
    fn subgraph<'a>(
        &mut self,
        name: &str,
        header: Line<'a>,
        lines: &mut Lines<'a>,
    ) -> Result<Graph, ParseError> {
        let mut subgraph = Self::new(name, self.depth + 1);
        while let Some(line) = lines.next_in(Some(header)) {
            subgraph.line(line, lines, Some(self))?;
        }
        Ok(subgraph.graph)
    }

    /// Reads a list of subgraphs after `header`.
    fn subgraphs<'a>(
        &mut self,
        header: Line<'a>,
        lines: &mut Lines<'a>,
    ) -> Result<Vec<Graph>, ParseError> {
        let mut graphs = Vec::new();
        while let Some(line) = lines.next_in(Some(header)) {
            let name = line.read(|cursor| {
                let start = cursor.rest;
                if cursor.plain() == "graph" {
                    return cursor.word();
                }
                cursor.rest = start;
                Err("\"graph\" and a name".to_owned())
            })?;
            graphs.push(self.subgraph(&name, line, lines)?);
        }
        Ok(graphs)
    }

    /// Reads the header of subgraphs. Returns `None`, and reads nothing, if the line is another one.
    fn header(&mut self, line: &mut Cursor<'_>, indent: usize) -> Result<Option<Header>, Expected> {
        let start = line.rest;
        let attribute = line.word_before_colon();
        let (Ok(attribute), kind @ ("graph" | "graphs")) = (attribute, line.plain()) else {
            line.rest = start;
            return Ok(None);
        };
        if self.node_indent.is_none_or(|node| node >= indent) {
            line.rest = start;
            return Err("a node above that is indented less".to_owned());
        }
        if self.depth == MAX_DEPTH {
            line.rest = start;
            return Err(format!("subgraphs nested at most {MAX_DEPTH} deep"));
        }
        let name = if kind == "graph" { Some(line.word()?) } else { None };
        Ok(Some(Header { attribute, name }))
    }

    /// Reads a line with a keyword, such as `input` or `constant`, or else a node.
    fn statement(
        &mut self,
        line: &mut Cursor<'_>,
        indent: usize,
        outer: Option<&mut Self>,
    ) -> Result<(), Expected> {
        let start = line.rest;
        // Values may have a keyword as their name: only a second word makes it a keyword.
        match line.word()?.as_str() {
            "graph" if self.depth == 0 && line.starts_word() => self.graph.name = line.word()?,
            "input" if line.starts_word() => self.input(line)?,
            "capture" if line.starts_word() => {
                let outer = outer.ok_or("an outer graph to capture from")?;
                let name = line.word()?;
                let captured =
                    if line.eat("=") { outer.id(&line.word()?) } else { outer.id(&name) };
                let id = self.graph.add_capture(&name, captured);
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
                let (value, tensor_type) = (self.id(&name), line.tensor_type()?);
                let index = line.plain().parse();
                let index = index.map_err(|_| "how many inputs stand before it")?;
                self.graph.defaults.push(DefaultInput { value, tensor_type, index });
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
                line.rest = start;
                self.node(line)?;
                self.node_indent = Some(indent);
            }
        }
        Ok(())
    }

    /// Reads an input. Inputs of the main graph have a type; inputs of subgraphs need no type.
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

    /// Reads a node: `outputs = op@opset(inputs) attributes # name, remark`.
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
            // The remark, a comment for people, is ignored.
            if line.eat(",") {
                line.rest = "";
            }
        }
        self.graph.add_node(node);
        Ok(())
    }

    /// Reads the outputs of a node, names with optional types.
    fn outputs(&mut self, line: &mut Cursor<'_>) -> Result<Vec<Option<ValueId>>, Expected> {
        line.list(|line| {
            let is_quoted = line.starts("\"");
            let (name, is_typed) = line.maybe_typed()?;
            let id = self.value(&name, is_quoted);
            if is_typed {
                let declared = Some(line.tensor_type()?);
                // Ignores the quantized format after `~`: it follows from the nodes.
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

    /// Reads names of values.
    fn names(&mut self, line: &mut Cursor<'_>) -> Result<Vec<Option<ValueId>>, Expected> {
        line.list(|line| {
            let is_quoted = line.starts("\"");
            let name = line.word()?;
            Ok(self.value(&name, is_quoted))
        })
    }

    /// Returns the value of this name; `None` for `_`, which stands for an omitted input or output.
    fn value(&mut self, name: &str, is_quoted: bool) -> Option<ValueId> {
        if name == "_" && !is_quoted {
            return None;
        }
        Some(self.id(name))
    }

    /// Returns the value of this name. Adds a computed value if the name is new.
    fn id(&mut self, name: &str) -> ValueId {
        let graph = &mut self.graph;
        *self.ids.entry(name.to_owned()).or_insert_with(|| graph.add_value(name))
    }
}
