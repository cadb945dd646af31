//! Parses tokens into statements and expressions. The grammar is in `docs/reference-language.md`.

use crate::{
    fault::{Fault, Position},
    syntax::{Args, Binder, Expr, Infix, Item, Kind, Prefix, Statement, StatementKind, Tolerance},
    token::{Token, tokens},
};

/// The maximum nesting depth of brackets and operators.
const MAX_DEPTH: u32 = 48;

/// The maximum number of arguments of a call, and of items of a list.
const MAX_ARGS: usize = 16;

const MAX_STATEMENTS: usize = 512;

/// Parses the statements of a source.
pub(crate) fn parse(source: &str) -> Result<Vec<Statement>, Fault> {
    let tokens = tokens(source)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let mut statements = Vec::new();
    while *parser.peek() != Token::End {
        if statements.len() == MAX_STATEMENTS {
            let found = format!("more than {MAX_STATEMENTS} statements");
            let expected = format!("at most {MAX_STATEMENTS}");
            return Err(Fault::unexpected(parser.position(), found, expected));
        }
        statements.push(parser.statement()?);
    }
    Ok(statements)
}

/// A name with its indices, and its value.
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

    /// Consumes the operator or keyword if it is next; returns whether it was.
    fn takes(&mut self, word: &str) -> bool {
        let is = self.is_next(word);
        self.at += usize::from(is);
        is
    }

    fn is_next(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Sign(next) | Token::Keyword(next) if *next == word)
    }

    fn expect(&mut self, word: &str) -> Result<(), Fault> {
        if self.takes(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    fn expected(&self, what: &str) -> Fault {
        Fault::unexpected(self.position(), self.peek().describe(), what)
    }

    fn name(&mut self, what: &str) -> Result<String, Fault> {
        let Token::Name(name) = self.peek() else { return Err(self.expected(what)) };
        self.at += 1;
        Ok(name.clone())
    }

    fn text(&mut self, what: &str) -> Result<String, Fault> {
        let Token::Text(text) = self.peek() else { return Err(self.expected(what)) };
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
                    let fault = Fault::unexpected(self.position(), "`in`", "a statement");
                    return Err(fault.with_help("a `let` statement has no `in`"));
                }
                StatementKind::Let(name, binders, value)
            }
            Token::Keyword("require") => {
                self.at += 1;
                let condition = self.expr()?;
                self.expect(",")?;
                StatementKind::Require(
                    condition,
                    self.text("a string that describes the requirement")?,
                )
            }
            Token::Keyword("tolerance") => {
                self.at += 1;
                StatementKind::Tolerance(self.tolerance()?)
            }
            Token::Name(_) => {
                let Definition { name, binders, value } = self.definition("a name")?;
                StatementKind::Output(name, binders, value)
            }
            _ => {
                return Err(self.expected("`let`, `require`, `tolerance` or the name of an output"));
            }
        };
        Ok(Statement { at, kind })
    }

    fn definition(&mut self, what: &str) -> Result<Definition, Fault> {
        let name = self.name(what)?;
        let binders = if self.takes("[") { self.binders()? } else { Vec::new() };
        self.expect("=")?;
        Ok(Definition { name, binders, value: self.expr()? })
    }

    /// Parses `i < n, c.. < dims]`, including the bracket.
    fn binders(&mut self) -> Result<Vec<Binder>, Fault> {
        let mut binders = Vec::new();
        loop {
            let at = self.position();
            let name = self.name("the name of an index")?;
            let is_pack = self.takes("..");
            self.expect("<")?;
            binders.push(Binder { name, at, is_pack, bound: self.sum()? });
            if !self.takes(",") {
                break;
            }
        }
        if !self.is_next(";") {
            self.expect("]")?;
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
                    let expected = "`relative`, `absolute` or `because`";
                    return Err(Fault::unexpected(at, format!("`{word}`"), expected));
                }
            };
            let value = match self.next() {
                Token::Float(value) => *value,
                Token::Int(value) => crate::number::real(*value),
                _ => {
                    self.at -= 1;
                    return Err(self.expected("a number"));
                }
            };
            if place.replace(value).is_some() {
                return Err(Fault::new(at, format!("`{word}` is given twice")));
            }
        }
        let at = self.position();
        let reason = self.text("a string with the reason")?;
        if reason.trim().is_empty() {
            return Err(Fault::unexpected(at, "an empty string", "the reason"));
        }
        if relative.is_none() && absolute.is_none() {
            let expected = "`relative` or `absolute` with a number";
            return Err(Fault::unexpected(at, "a tolerance without a number", expected));
        }
        let (relative, absolute) = (relative.unwrap_or(0.0), absolute.unwrap_or(0.0));
        Ok(Tolerance { output, relative, absolute, reason })
    }
}

const EQUALITIES: &[(&str, Infix)] = &[
    ("==", Infix::Eq),
    ("!=", Infix::Ne),
    ("<=", Infix::Le),
    (">=", Infix::Ge),
    ("<", Infix::Lt),
    (">", Infix::Gt),
];

const SUMS: &[(&str, Infix)] = &[("+", Infix::Add), ("-", Infix::Sub)];

const PRODUCTS: &[(&str, Infix)] =
    &[("*", Infix::Mul), ("/", Infix::Div), ("//", Infix::FloorDiv), ("%", Infix::Mod)];

/// Expressions, with one function per level of precedence.
impl Parser<'_> {
    fn expr(&mut self) -> Result<Expr, Fault> {
        self.chain(&[("or", Infix::Or)], Self::conjunction)
    }

    fn conjunction(&mut self) -> Result<Expr, Fault> {
        self.chain(&[("and", Infix::And)], Self::negation)
    }

    fn negation(&mut self) -> Result<Expr, Fault> {
        let at = self.position();
        if !self.takes("not") {
            return self.comparison();
        }
        let operand = self.deeper(Self::negation)?;
        node(at, Kind::Unary(Prefix::Not, Box::new(operand)))
    }

    fn comparison(&mut self) -> Result<Expr, Fault> {
        let left = self.sum()?;
        let at = self.position();
        let Some(op) = self.takes_one(EQUALITIES) else { return Ok(left) };
        let right = self.sum()?;
        if EQUALITIES.iter().any(|(sign, _)| self.is_next(sign)) {
            let fault = Fault::new(self.position(), "comparisons cannot be chained");
            return Err(fault.with_help("write `a < b and b < c`"));
        }
        node(at, Kind::Binary(op, Box::new(left), Box::new(right)))
    }

    fn sum(&mut self) -> Result<Expr, Fault> {
        self.chain(SUMS, |parser| parser.chain(PRODUCTS, Self::sign))
    }

    fn sign(&mut self) -> Result<Expr, Fault> {
        let at = self.position();
        if !self.takes("-") {
            return self.postfix();
        }
        let operand = self.deeper(Self::sign)?;
        node(at, Kind::Unary(Prefix::Neg, Box::new(operand)))
    }

    /// Parses operands of one level, left-associative.
    fn chain(
        &mut self,
        ops: &[(&str, Infix)],
        operand: impl Fn(&mut Self) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        let mut left = operand(self)?;
        loop {
            let at = self.position();
            let Some(op) = self.takes_one(ops) else { return Ok(left) };
            let right = operand(self)?;
            left = node(at, Kind::Binary(op, Box::new(left), Box::new(right)))?;
        }
    }

    fn takes_one(&mut self, ops: &[(&str, Infix)]) -> Option<Infix> {
        ops.iter().find(|(sign, _)| self.takes(sign)).map(|(_, op)| *op)
    }

    fn postfix(&mut self) -> Result<Expr, Fault> {
        let mut base = self.primary()?;
        loop {
            let at = self.position();
            if !self.takes("[") {
                return Ok(base);
            }
            let items = self.items(true)?;
            let outside =
                if self.takes("else") { Some(Box::new(self.deeper(Self::expr)?)) } else { None };
            self.expect("]")?;
            base = node(at, Kind::Index(Box::new(base), items, outside))?;
        }
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let at = self.position();
        let kind = match self.peek() {
            Token::Int(value) => Kind::Int(*value),
            Token::Float(value) => Kind::Float(*value),
            Token::Text(text) => Kind::Text(text.clone()),
            Token::Keyword("true") => Kind::Bool(true),
            Token::Keyword("false") => Kind::Bool(false),
            Token::Keyword("inf") => Kind::Float(f64::INFINITY),
            Token::Keyword("nan") => Kind::Float(f64::NAN),
            Token::Keyword("pi") => Kind::Float(std::f64::consts::PI),
            Token::Keyword("if") => return self.deeper(|parser| parser.choice(at)),
            Token::Keyword("let") => return self.deeper(|parser| parser.local(at)),
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.deeper(Self::expr)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Sign("[") => {
                self.at += 1;
                return self.deeper(|parser| parser.list(at));
            }
            Token::Name(name) => return self.deeper(|parser| parser.named(at, name)),
            _ => return Err(self.expected("an expression")),
        };
        self.at += 1;
        node(at, kind)
    }

    fn choice(&mut self, at: Position) -> Result<Expr, Fault> {
        self.expect("if")?;
        let condition = self.expr()?;
        self.expect("then")?;
        let then = self.expr()?;
        self.expect("else")?;
        let otherwise = self.expr()?;
        node(at, Kind::If(Box::new(condition), Box::new(then), Box::new(otherwise)))
    }

    fn local(&mut self, at: Position) -> Result<Expr, Fault> {
        self.expect("let")?;
        let name = self.name("a name")?;
        self.expect("=")?;
        let value = self.expr()?;
        self.expect("in")?;
        let body = self.expr()?;
        node(at, Kind::Let(name, Box::new(value), Box::new(body)))
    }

    /// Parses the rest of a list after `[`.
    fn list(&mut self, at: Position) -> Result<Expr, Fault> {
        if self.takes("for") {
            let name = self.name("the name of an index")?;
            self.expect("<")?;
            let count = self.sum()?;
            self.expect(":")?;
            let body = self.expr()?;
            self.expect("]")?;
            return node(at, Kind::For(name, Box::new(count), Box::new(body)));
        }
        let items = self.items(false)?;
        self.expect("]")?;
        node(at, Kind::List(items))
    }

    /// Parses a name, a call or a fold.
    fn named(&mut self, at: Position, name: &str) -> Result<Expr, Fault> {
        self.at += 1;
        if self.takes("(") {
            let args = self.args()?;
            return node(at, Kind::Call(name.to_owned(), args));
        }
        let binds = match (self.peek(), self.ahead(1), self.ahead(2), self.ahead(3)) {
            (Token::Sign("["), Token::Name(_), Token::Sign("<"), _) => crate::ir::is_fold(name),
            (Token::Sign("["), Token::Name(_), Token::Sign(".."), Token::Sign("<")) => true,
            _ => false,
        };
        if !binds {
            return node(at, Kind::Name(name.to_owned()));
        }
        self.expect("[")?;
        let binders = self.binders()?;
        let kept = if self.takes(";") {
            let name = self.name("a name for an index that is already selected")?;
            self.expect("]")?;
            Some(name)
        } else {
            None
        };
        self.expect("(")?;
        let args = self.args()?;
        node(at, Kind::Fold(name.to_owned(), binders, kept, args))
    }

    /// Parses the arguments after `(`, including the closing bracket.
    fn args(&mut self) -> Result<Args, Fault> {
        let mut args = Args::default();
        if self.takes(")") {
            return Ok(args);
        }
        loop {
            let at = self.position();
            if args.plain.len() + args.named.len() == MAX_ARGS {
                let found = format!("more than {MAX_ARGS} arguments");
                return Err(Fault::unexpected(at, found, format!("at most {MAX_ARGS}")));
            }
            if let (Token::Name(name), Token::Sign("=")) = (self.peek(), self.ahead(1)) {
                self.at += 2;
                if args.named.iter().any(|(other, ..)| other == name) {
                    return Err(Fault::new(at, format!("the argument `{name}` is given twice")));
                }
                args.named.push((name.clone(), at, self.expr()?));
            } else if args.named.is_empty() {
                args.plain.push(self.expr()?);
            } else {
                return Err(self.expected("a named argument after the first named one"));
            }
            if !self.takes(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(args)
    }

    /// Parses items up to `]` or `else`, which are not consumed; slices only if `slices` allows them.
    fn items(&mut self, slices: bool) -> Result<Vec<Item>, Fault> {
        let mut items = Vec::new();
        if self.is_next("]") {
            return Ok(items);
        }
        loop {
            if items.len() == MAX_ARGS {
                let found = format!("more than {MAX_ARGS} items");
                let expected = format!("at most {MAX_ARGS}");
                return Err(Fault::unexpected(self.position(), found, expected));
            }
            items.push(self.deeper(|parser| parser.item(slices))?);
            if !self.takes(",") {
                return Ok(items);
            }
        }
    }

    fn item(&mut self, slices: bool) -> Result<Item, Fault> {
        if slices && self.takes(":") {
            let to = if self.is_next("]") { None } else { Some(self.expr()?) };
            return Ok(Item::Slice(None, to));
        }
        let expr = self.expr()?;
        if self.takes("..") {
            return Ok(Item::Spread(expr));
        }
        if !slices || !self.takes(":") {
            return Ok(Item::One(expr));
        }
        let to = if self.is_next("]") { None } else { Some(self.expr()?) };
        Ok(Item::Slice(Some(expr), to))
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep(self.position()));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }
}

fn too_deep(at: Position) -> Fault {
    Fault::new(at, "the expression is nested too deep").with_help("name a part of it with `let`")
}

/// Creates a node above its parts, unless it gets too high.
fn node(at: Position, kind: Kind) -> Result<Expr, Fault> {
    let height = 1 + below(&kind);
    if height > MAX_DEPTH { Err(too_deep(at)) } else { Ok(Expr { at, kind, height }) }
}

fn below(kind: &Kind) -> u32 {
    let of_items = |items: &[Item]| items.iter().map(item_height).max().unwrap_or(0);
    let of_args = |args: &Args| {
        let named = args.named.iter().map(|(_, _, expr)| expr);
        args.plain.iter().chain(named).map(|expr| expr.height).max().unwrap_or(0)
    };
    match kind {
        Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) | Kind::Text(_) | Kind::Name(_) => 0,
        Kind::Unary(_, operand) => operand.height,
        Kind::Binary(_, left, right) => left.height.max(right.height),
        Kind::If(a, b, c) => a.height.max(b.height).max(c.height),
        Kind::Let(_, value, body) => value.height.max(body.height),
        Kind::For(_, count, body) => count.height.max(body.height),
        Kind::Call(_, args) => of_args(args),
        Kind::Fold(_, binders, _, args) => {
            binders.iter().map(|binder| binder.bound.height).max().unwrap_or(0).max(of_args(args))
        }
        Kind::Index(base, items, outside) => {
            let outside = outside.as_ref().map_or(0, |expr| expr.height);
            base.height.max(of_items(items)).max(outside)
        }
        Kind::List(items) => of_items(items),
    }
}

fn item_height(item: &Item) -> u32 {
    let of = |expr: &Option<Expr>| expr.as_ref().map_or(0, |expr| expr.height);
    match item {
        Item::One(expr) | Item::Spread(expr) => expr.height,
        Item::Slice(from, to) => of(from).max(of(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn errors_name_place_found_and_expected() {
        let cases = [
            ("y = ", "1:5: found the end of the source, expected an expression"),
            ("y = x +", "1:8: found the end of the source, expected an expression"),
            ("y = (x", "1:7: found the end of the source, expected `)`"),
            ("let = x", "1:5: found `=`, expected a name"),
            ("y = a < b < c", "1:11: comparisons cannot be chained; write `a < b and b < c`"),
            ("y[i < 3 = x", "1:9: found `=`, expected `]`"),
            ("y[i] = x", "1:4: found `]`, expected `<`"),
            ("y = if a then b", "1:16: found the end of the source, expected `else`"),
            (
                "let a = x in a",
                "1:11: found `in`, expected a statement; a `let` statement has no `in`",
            ),
            (
                "3 = x",
                "1:1: found the number 3, expected `let`, `require`, `tolerance` or the name of an output",
            ),
            ("require x", "1:10: found the end of the source, expected `,`"),
            (
                "tolerance y relative 1 because \"\"",
                "1:32: found an empty string, expected the reason",
            ),
            (
                "tolerance y because \"x\"",
                "1:21: found a tolerance without a number, expected `relative` or `absolute` with a number",
            ),
            ("tolerance y relative 1 relative 2 because \"x\"", "1:24: `relative` is given twice"),
            ("y = sum[i < 3](x", "1:17: found the end of the source, expected `)`"),
            ("y = x[1, else 0]", "1:10: found `else`, expected an expression"),
            (
                "y = sum(x, axis = 1, 2)",
                "1:22: found the number 2, expected a named argument after the first named one",
            ),
        ];
        for (source, expected) in cases {
            assert_eq!(parse(source).unwrap_err().to_string(), expected, "{source}");
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
        assert_eq!(many, "513:1: found more than 512 statements, expected at most 512");
    }
}
