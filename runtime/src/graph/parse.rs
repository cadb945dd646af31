//! Reads the text form of a graph.

use std::collections::HashMap;

use udo_api::{DType, Shape};

use super::text::is_plain;
use super::{Attr, DimSpec, Graph, GraphError, Node, TensorType, ValueId, literal};
use crate::memory::Tensor;

/// Why a text is not a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A line does not read on as it should.
    #[error("line {line}: found {found:?}, wanted {wanted}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What stands there.
        found: String,
        /// What should.
        wanted: String,
    },
    /// The lines do not make a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Graph {
    /// The graph of a text as [`Graph`]'s `Display` writes it. Values are told apart by their names.
    ///
    /// # Errors
    /// The first line that is none, or why the lines make no graph.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut reading = Reading { graph: Self::new(""), ids: HashMap::new() };
        for (index, line) in text.lines().enumerate() {
            let mut cursor = Cursor { rest: line };
            reading.line(&mut cursor).map_err(|wanted| ParseError::Line {
                line: index + 1,
                found: cursor.rest.trim_start().to_owned(),
                wanted,
            })?;
        }
        reading.graph.verify()?;
        Ok(reading.graph)
    }
}

struct Reading {
    graph: Graph,
    ids: HashMap<String, ValueId>,
}

/// What was wanted where a line does not read on.
type Wanted = String;

impl Reading {
    fn line(&mut self, line: &mut Cursor<'_>) -> Result<(), Wanted> {
        let whole = line.rest;
        if whole.trim().is_empty() {
            return Ok(());
        }
        // The names of values may be these words too.
        match line.word()?.as_str() {
            "graph" if line.starts_word() => self.graph.name = line.word()?,
            "input" if line.starts_word() => {
                let name = line.word_before_colon()?;
                let TensorType { dtype, dims } = line.tensor_type()?;
                let id = self.graph.add_input(&name, dtype, dims);
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
            _ => {
                line.rest = whole;
                self.node(line)?;
            }
        }
        line.end()
    }

    fn node(&mut self, line: &mut Cursor<'_>) -> Result<(), Wanted> {
        let outputs = self.made(line)?;
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
    fn made(&mut self, line: &mut Cursor<'_>) -> Result<Vec<Option<ValueId>>, Wanted> {
        line.list(|line| {
            let is_quoted = line.starts("\"");
            let mut name = line.word()?;
            let typed = if is_quoted { line.eat(":") } else { name.ends_with(':') };
            if typed && !is_quoted {
                name.pop();
            }
            let id = self.value(&name, is_quoted);
            if typed {
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

    fn names(&mut self, line: &mut Cursor<'_>) -> Result<Vec<Option<ValueId>>, Wanted> {
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
        let graph = &mut self.graph;
        Some(*self.ids.entry(name.to_owned()).or_insert_with(|| graph.add_value(name)))
    }
}

/// What is left of a line.
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn starts(&mut self, with: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(with)
    }

    fn starts_word(&mut self) -> bool {
        self.starts("\"") || self.rest.starts_with(is_plain)
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), Wanted> {
        if self.eat(token) { Ok(()) } else { Err(format!("{token:?}")) }
    }

    fn end(&mut self) -> Result<(), Wanted> {
        if self.rest.trim().is_empty() { Ok(()) } else { Err("the end of the line".to_owned()) }
    }

    /// The characters up to the first that no plain word has.
    fn plain(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !is_plain(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A plain or a quoted word.
    fn word(&mut self) -> Result<String, Wanted> {
        if self.starts("\"") {
            return self.text();
        }
        match self.plain() {
            "" => Err("a name".to_owned()),
            word => Ok(word.to_owned()),
        }
    }

    fn word_before_colon(&mut self) -> Result<String, Wanted> {
        let is_quoted = self.starts("\"");
        let mut word = self.word()?;
        if is_quoted {
            self.expect(":")?;
        } else if word.pop() != Some(':') {
            return Err("\":\" and a type".to_owned());
        }
        Ok(word)
    }

    /// A domain, if there is one, and the name of an operator.
    fn operator(&mut self) -> Result<(String, String), Wanted> {
        let is_quoted = self.starts("\"");
        let word = self.word()?;
        if is_quoted {
            return if self.eat(":") {
                Ok((word, self.word()?))
            } else {
                Ok((String::new(), word))
            };
        }
        match word.split_once(':') {
            Some((domain, "")) => Ok((domain.to_owned(), self.word()?)),
            Some((domain, op)) => Ok((domain.to_owned(), op.to_owned())),
            None => Ok((String::new(), word)),
        }
    }

    /// A text in quotes, escaped as Rust does.
    fn text(&mut self) -> Result<String, Wanted> {
        self.expect("\"")?;
        let unended = || "a closing quote".to_owned();
        let mut text = String::new();
        let mut chars = self.rest.chars();
        loop {
            text.push(match chars.next().ok_or_else(unended)? {
                '"' => break,
                '\\' => escaped(&mut chars).ok_or("an escape as Rust writes it")?,
                c => c,
            });
        }
        self.rest = chars.as_str();
        Ok(text)
    }

    /// One item or more, with commas between them.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Wanted>,
    ) -> Result<Vec<T>, Wanted> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn dtype(&mut self) -> Result<DType, Wanted> {
        let before = self.rest;
        DType::from_name(self.plain()).ok_or_else(|| {
            self.rest = before;
            "an element type".to_owned()
        })
    }

    fn tensor_type(&mut self) -> Result<TensorType, Wanted> {
        let dtype = self.dtype()?;
        self.expect("[")?;
        let mut dims = Vec::new();
        if !self.starts("]") {
            dims = self.list(Self::dim)?;
        }
        self.expect("]")?;
        Ok(TensorType { dtype, dims })
    }

    fn dim(&mut self) -> Result<DimSpec, Wanted> {
        // At most so many, as the types of a run's values say it.
        if self.eat("?") || self.eat("<=") && !self.plain().is_empty() {
            return Ok(DimSpec::Unknown);
        }
        let is_quoted = self.starts("\"");
        let word = self.word()?;
        let number = if is_quoted { None } else { word.parse().ok() };
        Ok(number.map_or(DimSpec::Named(word), DimSpec::Fixed))
    }

    fn tensor(&mut self) -> Result<Tensor, Wanted> {
        let TensorType { dtype, dims } = self.tensor_type()?;
        let extent = |dim: &DimSpec| match dim {
            DimSpec::Fixed(n) => Some(*n),
            DimSpec::Named(_) | DimSpec::Unknown => None,
        };
        let dims: Option<Vec<usize>> = dims.iter().map(extent).collect();
        let shape = dims.and_then(|dims| Shape::new(&dims).ok()).ok_or("fixed dimensions")?;
        if !self.eat("{") {
            // Only nothing goes without saying.
            let nothing = shape.is_empty();
            return literal::tensor(dtype, shape, &[])
                .ok()
                .filter(|_| nothing)
                .ok_or_else(|| "\"{\" and the elements".to_owned());
        }
        let words = self.list(|cursor| Ok(cursor.plain()))?;
        self.expect("}")?;
        literal::tensor(dtype, shape, &words)
    }

    fn attr(&mut self) -> Result<Attr, Wanted> {
        if self.starts("\"") {
            return Ok(Attr::Text(self.text()?));
        }
        if self.eat("[") {
            return self.attrs();
        }
        let before = self.rest;
        let word = self.plain();
        if let Ok(int) = word.parse() {
            return Ok(Attr::Int(int));
        }
        if let Ok(float) = word.parse() {
            return Ok(Attr::Float(float));
        }
        self.rest = before;
        Ok(Attr::Tensor(self.tensor()?))
    }

    /// The rest of a list of one kind; one without items is of integers.
    fn attrs(&mut self) -> Result<Attr, Wanted> {
        if self.eat("]") {
            return Ok(Attr::Ints(Vec::new()));
        }
        if self.starts("\"") {
            let texts = self.list(Self::text)?;
            self.expect("]")?;
            return Ok(Attr::Texts(texts));
        }
        let words = self.list(|cursor| Ok(cursor.plain()))?;
        self.expect("]")?;
        if let Ok(ints) = words.iter().map(|word| word.parse()).collect() {
            return Ok(Attr::Ints(ints));
        }
        let floats = words.iter().map(|word| word.parse()).collect::<Result<_, _>>();
        floats.map(Attr::Floats).map_err(|_| "numbers".to_owned())
    }
}

/// What an escape stands for, behind its backslash.
fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match chars.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        'u' => {
            let rest = chars.as_str().strip_prefix('{')?;
            let (digits, rest) = rest.split_once('}')?;
            *chars = rest.chars();
            char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
        }
        c @ ('"' | '\'' | '\\') => c,
        _ => return None,
    })
}
