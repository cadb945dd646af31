//! The tokenizer for lines of printed graphs: names, types, tensors and attributes. `parse.rs` reads lines with it.

use udo_api::{DType, Shape};

use super::text::is_plain;
use super::{Attr, DimSpec, TensorType, literal};
use crate::memory::Tensor;

/// The error of a line that cannot be parsed: a description of the expected text.
pub(super) type Expected = String;

/// A position in a line.
pub(super) struct Cursor<'a> {
    /// The unread part of the line.
    pub(super) rest: &'a str,
}

impl<'a> Cursor<'a> {
    /// Whether the next token is `token`.
    pub(super) fn starts(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(token)
    }

    /// Whether the next token is a plain or a quoted word.
    pub(super) fn starts_word(&mut self) -> bool {
        self.starts("\"") || self.rest.starts_with(is_plain)
    }

    /// Reads `token` if it is the next one. Returns whether it is.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<(), Expected> {
        if self.eat(token) { Ok(()) } else { Err(format!("{token:?}")) }
    }

    /// Checks that the line ends here.
    pub(super) fn end(&mut self) -> Result<(), Expected> {
        if self.rest.trim().is_empty() { Ok(()) } else { Err("the end of the line".to_owned()) }
    }

    /// Reads the characters of a plain word, which may be none.
    pub(super) fn plain(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !is_plain(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Reads a plain or a quoted word.
    pub(super) fn word(&mut self) -> Result<String, Expected> {
        if self.starts("\"") {
            return self.text();
        }
        match self.plain() {
            "" => Err("a name".to_owned()),
            word => Ok(word.to_owned()),
        }
    }

    /// Reads a word and the colon after it. A plain word may contain colons, and ends with this one.
    pub(super) fn word_before_colon(&mut self) -> Result<String, Expected> {
        let is_quoted = self.starts("\"");
        let mut word = self.word()?;
        if is_quoted {
            self.expect(":")?;
        } else if word.pop() != Some(':') {
            return Err("\":\" and a type".to_owned());
        }
        Ok(word)
    }

    /// Reads a word, and the colon after it if there is one. Returns the word, and whether a type follows.
    pub(super) fn maybe_typed(&mut self) -> Result<(String, bool), Expected> {
        let is_quoted = self.starts("\"");
        let mut word = self.word()?;
        let is_typed = if is_quoted { self.eat(":") } else { word.ends_with(':') };
        if is_typed && !is_quoted {
            word.pop();
        }
        Ok((word, is_typed))
    }

    /// Reads an operator, `op` or `domain:op`. Returns the domain, which may be empty, and the name.
    pub(super) fn operator(&mut self) -> Result<(String, String), Expected> {
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

    /// Reads a string in quotes with the escapes of Rust.
    fn text(&mut self) -> Result<String, Expected> {
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

    /// Reads one or more items that are separated by commas.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Expected>,
    ) -> Result<Vec<T>, Expected> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn dtype(&mut self) -> Result<DType, Expected> {
        let before = self.rest;
        DType::from_name(self.plain()).ok_or_else(|| {
            self.rest = before;
            "an element type".to_owned()
        })
    }

    pub(super) fn tensor_type(&mut self) -> Result<TensorType, Expected> {
        let dtype = self.dtype()?;
        self.expect("[")?;
        let mut dims = Vec::new();
        if !self.starts("]") {
            dims = self.list(Self::dim)?;
        }
        self.expect("]")?;
        Ok(TensorType { dtype, dims })
    }

    fn dim(&mut self) -> Result<DimSpec, Expected> {
        // `<=N` is an upper bound, which the types of compiled graphs print.
        if self.eat("?") || self.eat("<=") && !self.plain().is_empty() {
            return Ok(DimSpec::Unknown);
        }
        let is_quoted = self.starts("\"");
        let word = self.word()?;
        let number = if is_quoted { None } else { word.parse().ok() };
        Ok(number.map_or(DimSpec::Named(word), DimSpec::Fixed))
    }

    pub(super) fn tensor(&mut self) -> Result<Tensor, Expected> {
        let TensorType { dtype, dims } = self.tensor_type()?;
        let extent = |dim: &DimSpec| match dim {
            DimSpec::Fixed(n) => Some(*n),
            DimSpec::Named(_) | DimSpec::Unknown => None,
        };
        let dims: Option<Vec<usize>> = dims.iter().map(extent).collect();
        let shape = dims.and_then(|dims| Shape::new(&dims).ok()).ok_or("fixed dimensions")?;
        if !self.eat("{") {
            // Only a tensor without elements may omit them.
            let is_empty = shape.is_empty();
            return literal::tensor(dtype, shape, &[])
                .ok()
                .filter(|_| is_empty)
                .ok_or_else(|| "\"{\" and the elements".to_owned());
        }
        let words = self.list(|cursor| Ok(cursor.plain()))?;
        self.expect("}")?;
        literal::tensor(dtype, shape, &words)
    }

    pub(super) fn attr(&mut self) -> Result<Attr, Expected> {
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

    /// Reads a list of one kind after its opening bracket. An empty list is one of integers.
    fn attrs(&mut self) -> Result<Attr, Expected> {
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

/// Reads an escape sequence after its backslash; returns the character.
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
