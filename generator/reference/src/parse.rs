//! Statements out of tokens. The grammar is in `docs/reference-language.md`.

mod expr;

use crate::{
    fault::{Fault, Position},
    syntax::{Binder, Expr, Statement, StatementKind, Tolerance},
    token::{Token, tokens},
};

/// How deep brackets and operators may be nested: parts further in are named by a `let` instead.
const MAX_DEPTH: u32 = 48;

/// How many arguments a call takes at most, and how many items a list.
const MAX_ARGS: usize = 16;

const MAX_STATEMENTS: usize = 512;

/// The statements of a source.
pub(crate) fn parse(source: &str) -> Result<Vec<Statement>, Fault> {
    let tokens = tokens(source)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let mut statements = Vec::new();
    while *parser.peek() != Token::End {
        if statements.len() == MAX_STATEMENTS {
            let message = format!("more than {MAX_STATEMENTS} statements are too many");
            return Err(Fault::new(parser.position(), message));
        }
        statements.push(parser.statement()?);
    }
    Ok(statements)
}

/// A name with its indices, and what it stands for.
struct Definition {
    name: String,
    binders: Vec<Binder>,
    value: Expr,
}

struct Parser<'a> {
    tokens: &'a [(Token, Position)],
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a Token {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> &'a Token {
        self.tokens.get(self.at + by).map_or(&Token::End, |(token, _)| token)
    }

    fn position(&self) -> Position {
        let last = self.tokens.last().map_or(Position { line: 1, column: 1 }, |(_, at)| *at);
        self.tokens.get(self.at).map_or(last, |(_, at)| *at)
    }

    fn next(&mut self) -> &'a Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// Whether the sign or keyword is next; it is taken then.
    fn takes(&mut self, word: &str) -> bool {
        let is = self.is_next(word);
        self.at += usize::from(is);
        is
    }

    fn is_next(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Sign(next) | Token::Keyword(next) if *next == word)
    }

    fn want(&mut self, word: &str) -> Result<(), Fault> {
        if self.takes(word) { Ok(()) } else { Err(self.wanted(&format!("`{word}`"))) }
    }

    fn wanted(&self, what: &str) -> Fault {
        Fault::new(self.position(), format!("found {}, wanted {what}", self.peek().said()))
    }

    fn name(&mut self, what: &str) -> Result<String, Fault> {
        let Token::Name(name) = self.peek() else { return Err(self.wanted(what)) };
        self.at += 1;
        Ok(name.clone())
    }

    fn text(&mut self, what: &str) -> Result<String, Fault> {
        let Token::Text(text) = self.peek() else { return Err(self.wanted(what)) };
        self.at += 1;
        Ok(text.clone())
    }

    fn statement(&mut self) -> Result<Statement, Fault> {
        let at = self.position();
        let kind = match self.peek() {
            Token::Keyword("let") => {
                self.at += 1;
                let Definition { name, binders, value } = self.definition("a name")?;
                if self.is_next("in") {
                    let message = "found `in`: a `let` of its own has none, wanted a statement";
                    return Err(Fault::new(self.position(), message));
                }
                StatementKind::Let(name, binders, value)
            }
            Token::Keyword("require") => {
                self.at += 1;
                let condition = self.expr()?;
                self.want(",")?;
                StatementKind::Require(condition, self.text("a text that says what is wanted")?)
            }
            Token::Keyword("tolerance") => {
                self.at += 1;
                StatementKind::Tolerance(self.tolerance()?)
            }
            Token::Name(_) => {
                let Definition { name, binders, value } = self.definition("a name")?;
                StatementKind::Output(name, binders, value)
            }
            _ => return Err(self.wanted("`let`, `require`, `tolerance` or the name of an output")),
        };
        Ok(Statement { at, kind })
    }

    fn definition(&mut self, what: &str) -> Result<Definition, Fault> {
        let name = self.name(what)?;
        let binders = if self.takes("[") { self.binders()? } else { Vec::new() };
        self.want("=")?;
        Ok(Definition { name, binders, value: self.expr()? })
    }

    /// `i < n, c.. < dims]`, with the bracket.
    fn binders(&mut self) -> Result<Vec<Binder>, Fault> {
        let mut binders = Vec::new();
        loop {
            let at = self.position();
            let name = self.name("the name of an index")?;
            let is_pack = self.takes("..");
            self.want("<")?;
            binders.push(Binder { name, at, is_pack, bound: self.sum()? });
            if !self.takes(",") {
                break;
            }
        }
        if !self.is_next(";") {
            self.want("]")?;
        }
        Ok(binders)
    }

    fn tolerance(&mut self) -> Result<Tolerance, Fault> {
        let output = self.name("the name of an output")?;
        let (mut relative, mut absolute) = (None, None);
        loop {
            let at = self.position();
            let word = self.name("`relative`, `absolute` or `because`")?;
            let place = match word.as_str() {
                "relative" => &mut relative,
                "absolute" => &mut absolute,
                "because" => break,
                _ => {
                    let message =
                        format!("found `{word}`, wanted `relative`, `absolute` or `because`");
                    return Err(Fault::new(at, message));
                }
            };
            let value = match self.next() {
                Token::Float(value) => *value,
                Token::Int(value) => crate::number::real(*value),
                _ => {
                    self.at -= 1;
                    return Err(self.wanted("a number"));
                }
            };
            if place.replace(value).is_some() {
                return Err(Fault::new(at, format!("`{word}` is said twice")));
            }
        }
        let at = self.position();
        let reason = self.text("a text that says why")?;
        if reason.trim().is_empty() {
            return Err(Fault::new(at, "the text is empty, wanted the reason"));
        }
        if relative.is_none() && absolute.is_none() {
            return Err(Fault::new(at, "wanted `relative` or `absolute` with a number"));
        }
        let (relative, absolute) = (relative.unwrap_or(0.0), absolute.unwrap_or(0.0));
        Ok(Tolerance { output, relative, absolute, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn errors_say_where_what_and_what_was_wanted() {
        let cases = [
            ("y = ", "1:5: found the end, wanted an expression"),
            ("y = x +", "1:8: found the end, wanted an expression"),
            ("y = (x", "1:7: found the end, wanted `)`"),
            ("let = x", "1:5: found `=`, wanted a name"),
            ("y = a < b < c", "1:11: comparisons do not chain; wanted `a < b and b < c`"),
            ("y[i < 3 = x", "1:9: found `=`, wanted `]`"),
            ("y[i] = x", "1:4: found `]`, wanted `<`"),
            ("y = if a then b", "1:16: found the end, wanted `else`"),
            ("let a = x in a", "1:11: found `in`: a `let` of its own has none, wanted a statement"),
            (
                "3 = x",
                "1:1: found the number 3, wanted `let`, `require`, `tolerance` or the name of an output",
            ),
            ("require x", "1:10: found the end, wanted `,`"),
            ("tolerance y relative 1 because \"\"", "1:32: the text is empty, wanted the reason"),
            ("tolerance y because \"x\"", "1:21: wanted `relative` or `absolute` with a number"),
            ("tolerance y relative 1 relative 2 because \"x\"", "1:24: `relative` is said twice"),
            ("y = sum[i < 3](x", "1:17: found the end, wanted `)`"),
            ("y = x[1, else 0]", "1:10: found `else`, wanted an expression"),
            (
                "y = sum(x, axis = 1, 2)",
                "1:22: found the number 2, wanted a named argument behind the first of them",
            ),
        ];
        for (source, wanted) in cases {
            assert_eq!(parse(source).unwrap_err().to_string(), wanted, "{source}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_whichever_way() {
        let deep = |open: &str, n: usize| format!("y = {}", open.repeat(n));
        for open in
            ["(", "[", "-", "not ", "x[", "f(", "if ", "let a = ", "sum[i < ", "1 + (", "[for a < "]
        {
            let said = parse(&deep(open, 5000)).unwrap_err().to_string();
            assert!(said.ends_with("nested too deep; name a part of it with `let`"), "{said}");
        }
        for chain in [" + x", "[1]", " * x", " and x"] {
            let said = parse(&format!("y = x{}", chain.repeat(5000))).unwrap_err().to_string();
            assert!(said.ends_with("nested too deep; name a part of it with `let`"), "{said}");
        }
        assert!(parse(&format!("y = x{}", " + x".repeat(40))).is_ok());
        let many = parse(&"y = x\n".repeat(600)).unwrap_err().to_string();
        assert_eq!(many, "513:1: more than 512 statements are too many");
    }
}
