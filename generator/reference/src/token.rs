//! The tokenizer of the reference language: splits a source into words, numbers, strings and operators.

use crate::fault::{Fault, Position};

/// The maximum size of a source in bytes.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// The operators, longer ones before their prefixes.
const SIGNS: &[&str] = &[
    "//", "==", "!=", "<=", ">=", "..", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", ":", ";",
    "=", "<", ">",
];

/// The keywords, which are names only between backquotes.
pub(crate) const KEYWORDS: &[&str] = &[
    "let",
    "in",
    "if",
    "then",
    "else",
    "for",
    "and",
    "or",
    "not",
    "true",
    "false",
    "inf",
    "nan",
    "pi",
    "require",
    "tolerance",
];

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A name, or any word between backquotes.
    Name(String),
    Keyword(&'static str),
    Int(i64),
    Float(f64),
    Text(String),
    Sign(&'static str),
    End,
}

impl Token {
    /// Describes the token in a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Name(name) => format!("`{name}`"),
            Self::Keyword(word) | Self::Sign(word) => format!("`{word}`"),
            Self::Int(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {value}"),
            Self::Text(_) => "a string".to_owned(),
            Self::End => "the end of the source".to_owned(),
        }
    }
}

/// Splits a source into tokens with their places; the last one is the end.
pub(crate) fn tokens(source: &str) -> Result<Vec<(Token, Position)>, Fault> {
    let mut reader = Reader { rest: source, position: Position { line: 1, column: 1 } };
    if source.len() > MAX_BYTES {
        let found = format!("a source of {} bytes", source.len());
        return Err(Fault::unexpected(reader.position, found, format!("at most {MAX_BYTES}")));
    }
    let mut tokens = Vec::new();
    loop {
        reader.skip_space();
        let position = reader.position;
        let token = reader.token()?;
        let is_end = token == Token::End;
        tokens.push((token, position));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    position: Position,
}

impl<'a> Reader<'a> {
    /// Skips white space and comments, which start with `#`.
    fn skip_space(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest.starts_with('#') {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let len = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        self.take(len)
    }

    /// Consumes `len` bytes, which must end at a character boundary.
    fn take(&mut self, len: usize) -> &'a str {
        let (consumed, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        for c in consumed.chars() {
            if c == '\n' {
                self.position = Position { line: self.position.line + 1, column: 1 };
            } else {
                self.position.column += 1;
            }
        }
        self.rest = rest;
        consumed
    }

    fn token(&mut self) -> Result<Token, Fault> {
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        if first.is_ascii_digit() {
            return self.number();
        }
        if first.is_alphabetic() || first == '_' {
            let word = self.take_while(is_name_char);
            let keyword = KEYWORDS.iter().find(|keyword| **keyword == word);
            return Ok(keyword.map_or_else(|| Token::Name(word.to_owned()), |k| Token::Keyword(k)));
        }
        match first {
            '"' => return self.quoted('"', "a string").map(Token::Text),
            '`' => return self.quoted('`', "a name").map(Token::Name),
            _ => {}
        }
        if let Some(sign) = SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            self.take(sign.len());
            return Ok(Token::Sign(sign));
        }
        let expected = "a name, a number, a string or an operator";
        Err(Fault::unexpected(self.position, format!("{first:?}"), expected))
    }

    fn number(&mut self) -> Result<Token, Fault> {
        let position = self.position;
        let start = self.rest;
        let digits = |reader: &mut Self| reader.take_while(|c| c.is_ascii_digit()).len();
        let mut len = digits(self);
        let mut is_float = false;
        let has_digit_at = |rest: &str, skip: usize| {
            rest.chars().nth(skip).is_some_and(|next| next.is_ascii_digit())
        };
        if self.rest.starts_with('.') && has_digit_at(self.rest, 1) {
            self.take(1);
            len += 1 + digits(self);
            is_float = true;
        }
        if self.rest.starts_with(['e', 'E']) {
            let sign_len =
                usize::from(self.rest.get(1..).is_some_and(|r| r.starts_with(['+', '-'])));
            if has_digit_at(self.rest, 1 + sign_len) {
                self.take(1 + sign_len);
                len += 1 + sign_len + digits(self);
                is_float = true;
            }
        }
        let text = start.get(..len).unwrap_or(start);
        let fault = |problem: &str| Fault::new(position, format!("the number {text} is {problem}"));
        if is_float {
            let value: f64 = text.parse().map_err(|_| fault("invalid"))?;
            return Ok(Token::Float(value));
        }
        text.parse().map(Token::Int).map_err(|_| fault("out of range for 64 bits"))
    }

    fn quoted(&mut self, quote: char, noun: &str) -> Result<String, Fault> {
        let position = self.position;
        self.take(quote.len_utf8());
        let text = self.take_while(|c| c != quote && c != '\n').to_owned();
        if !self.rest.starts_with(quote) {
            return Err(Fault::new(
                position,
                format!("{noun} begins here and has no closing {quote}"),
            ));
        }
        self.take(quote.len_utf8());
        Ok(text)
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn numbers_are_distinct_from_spreads() {
        let read = |text| -> Vec<Token> {
            tokens(text).unwrap().into_iter().map(|(token, _)| token).collect()
        };
        assert_eq!(read("1.. # x"), [Token::Int(1), Token::Sign(".."), Token::End]);
        assert_eq!(read("1.5e-3"), [Token::Float(1.5e-3), Token::End]);
        assert_eq!(read("2e3"), [Token::Float(2e3), Token::End]);
        assert_eq!(read("`in`"), [Token::Name("in".to_owned()), Token::End]);
        assert_eq!(read("a//b").len(), 4);
    }

    #[test]
    fn invalid_tokens_are_errors_with_their_positions() {
        let cases = [
            ("a\n  $", "2:3: found '$', expected a name, a number, a string or an operator"),
            ("\"a", "1:1: a string begins here and has no closing \""),
            (
                "99999999999999999999",
                "1:1: the number 99999999999999999999 is out of range for 64 bits",
            ),
        ];
        for (source, expected) in cases {
            assert_eq!(tokens(source).unwrap_err().to_string(), expected);
        }
        assert!(tokens(&" ".repeat(70_000)).unwrap_err().to_string().contains("70000 bytes"));
    }
}
