//! Lays out Rust expressions of any length as rustfmt does with its default settings, so that
//! generated code is formatted whatever the names in it are.

pub(crate) const WIDTH: usize = 100;
/// The maximum width of arguments, arrays and chains on one line.
const SHORT: usize = 60;
/// Elements up to this width share lines in an array that does not fit on one line.
const SMALL_ELEMENT: usize = 10;
const INDENT: usize = 4;

/// An expression of a generated table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr {
    /// An expression that cannot be broken.
    Atom(String),
    /// `path(args)`.
    Call(String, Vec<Expr>),
    /// `base.method(args)..`.
    Chain(Box<Expr>, Vec<(&'static str, Vec<Expr>)>),
    /// `&[items]`.
    Array(Vec<Expr>),
}

impl Expr {
    pub(crate) fn atom(text: impl Into<String>) -> Self {
        Self::Atom(text.into())
    }

    /// Creates a string literal.
    pub(crate) fn text(text: &str) -> Self {
        Self::Atom(format!("{text:?}"))
    }

    pub(crate) fn call(path: impl Into<String>, args: impl IntoIterator<Item = Self>) -> Self {
        Self::Call(path.into(), args.into_iter().collect())
    }

    /// Appends a method call.
    pub(crate) fn then(self, method: &'static str, args: impl IntoIterator<Item = Self>) -> Self {
        let args = args.into_iter().collect();
        match self {
            Self::Chain(base, mut calls) => {
                calls.push((method, args));
                Self::Chain(base, calls)
            }
            base @ (Self::Atom(_) | Self::Call(..) | Self::Array(_)) => {
                Self::Chain(Box::new(base), vec![(method, args)])
            }
        }
    }

    fn flat(&self) -> String {
        match self {
            Self::Atom(text) => text.clone(),
            Self::Call(path, args) => format!("{path}({})", joined(args)),
            Self::Chain(base, calls) => {
                let mut text = base.flat();
                for call in calls {
                    text.push_str(&method(call));
                }
                text
            }
            Self::Array(items) => format!("&[{}]", joined(items)),
        }
    }

    /// Whether it fits on one line of `room` characters.
    fn is_short(&self, room: usize) -> bool {
        let args_are_short = |args: &[Self]| {
            joined(args).len() <= SHORT && args.iter().all(|arg| arg.is_short(usize::MAX))
        };
        self.flat().len() <= room
            && match self {
                Self::Atom(_) => true,
                Self::Call(_, args) | Self::Array(args) => args_are_short(args),
                Self::Chain(base, calls) => {
                    let is_short = calls.len() == 1 || self.flat().len() <= SHORT;
                    let args = calls.iter().all(|(_, args)| args_are_short(args));
                    is_short && args && base.is_short(usize::MAX)
                }
            }
    }

    /// Whether names are too long to predict rustfmt's layout; the constant then gets
    /// `#[rustfmt::skip]`.
    fn is_odd(&self, column: usize) -> bool {
        match self {
            Self::Atom(_) => false,
            Self::Chain(base, calls) => {
                let are_short = calls.iter().all(|(_, args)| joined(args).len() <= SHORT);
                !are_short || !base.is_short(WIDTH - INDENT)
            }
            Self::Call(_, items) | Self::Array(items) => {
                matches!(items.as_slice(), [Self::Atom(_)])
                    && !self.is_short(WIDTH.saturating_sub(column + 1))
            }
        }
    }

    /// Prints the expression from column `column` on, in a block indented by `indent`, with `tail`
    /// characters to follow on its last line.
    fn print(&self, indent: usize, column: usize, tail: usize) -> String {
        if self.is_short(WIDTH.saturating_sub(column + tail)) {
            return self.flat();
        }
        let inner = indent + INDENT;
        match self {
            Self::Atom(text) => text.clone(),
            Self::Call(path, args) => match args.as_slice() {
                [only @ (Self::Call(..) | Self::Array(_))] => {
                    let start = column + path.len() + 1;
                    format!("{path}({})", only.print(indent, start, tail + 1))
                }
                _ => format!("{path}({})", block(args, indent)),
            },
            Self::Chain(base, calls) => {
                let base = base.print(indent, column, 0);
                let indent = if base.contains('\n') { indent } else { inner };
                let mut text = base;
                for call in calls {
                    text.push_str(&new_line(indent));
                    text.push_str(&method(call));
                }
                text
            }
            Self::Array(items) => {
                if let [Self::Call(path, args)] = items.as_slice() {
                    return format!("&[{path}({})]", block(args, indent));
                }
                // A range always has a line of its own.
                let is_small = |item: &str| item.len() <= SMALL_ELEMENT && !item.contains("..");
                let are_small = items.iter().all(|item| is_small(&item.flat()));
                let body = if are_small { filled(items, indent) } else { block(items, indent) };
                format!("&[{body}]")
            }
        }
    }
}

fn joined(items: &[Expr]) -> String {
    items.iter().map(Expr::flat).collect::<Vec<_>>().join(", ")
}

fn method((name, args): &(&'static str, Vec<Expr>)) -> String {
    format!(".{name}({})", joined(args))
}

fn new_line(indent: usize) -> String {
    format!("\n{:indent$}", "")
}

/// Prints one item per line.
fn block(items: &[Expr], indent: usize) -> String {
    let inner = indent + INDENT;
    let mut text = String::new();
    for item in items {
        text.push_str(&new_line(inner));
        text.push_str(&item.print(inner, inner, 1));
        text.push(',');
    }
    text + &new_line(indent)
}

/// Prints as many items per line as fit.
fn filled(items: &[Expr], indent: usize) -> String {
    let inner = indent + INDENT;
    let words = items.iter().map(|item| item.flat() + ",");
    wrap(words, inner, WIDTH) + &new_line(indent)
}

fn wrap(words: impl Iterator<Item = String>, indent: usize, width: usize) -> String {
    let mut text = String::new();
    let mut column = width;
    for word in words {
        if column + 1 + word.len() > width {
            text.push_str(&new_line(indent));
            column = indent;
        } else {
            text.push(' ');
            column += 1;
        }
        column += word.len();
        text.push_str(&word);
    }
    text
}

/// Prints `const NAME: TYPE = value;`.
pub(crate) fn constant(head: &str, value: &Expr) -> String {
    let column = head.len() + " = ".len();
    let skip = if value.is_odd(column) { "#[rustfmt::skip]\n" } else { "" };
    // A value that fits better below the head goes there, whole or as the base of a broken chain.
    let first = match value {
        Expr::Chain(base, _) if !value.is_short(WIDTH - INDENT - 1) => base,
        Expr::Atom(_) | Expr::Call(..) | Expr::Chain(..) | Expr::Array(_) => value,
    };
    let fits_below = !first.is_short(WIDTH.saturating_sub(column + 1))
        && first.is_short(WIDTH - INDENT - 1)
        && !matches!(first, Expr::Array(_));
    if fits_below {
        let below = value.print(INDENT, INDENT, 1);
        return format!("{skip}{head} ={}{below};", new_line(INDENT));
    }
    format!("{skip}{head} = {};", value.print(0, column, 1))
}

/// Prints `let name = value;` at this block depth.
pub(crate) fn binding(name: &str, value: &Expr, depth: usize) -> String {
    let (indent, head) = (depth * INDENT, format!("let {name} = "));
    let column = indent + head.len();
    let margin = format!("{:indent$}", "");
    let skip =
        if value.is_odd(column) { format!("{margin}#[rustfmt::skip]\n") } else { String::new() };
    format!("{skip}{margin}{head}{};", value.print(indent, column, 1))
}

/// Prints `use path::{names};` with the names sorted.
pub(crate) fn import(path: &str, names: &[&str]) -> String {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    if let [only] = names.as_slice() {
        return format!("use {path}::{only};");
    }
    let line = format!("use {path}::{{{}}};", names.join(", "));
    if line.len() <= WIDTH {
        return line;
    }
    let words = names.iter().map(|name| format!("{name},"));
    let body = wrap(words.clone(), INDENT, WIDTH - 1);
    // Only the last line may have the full width.
    let wide = wrap(words, INDENT, WIDTH);
    let fits = wide.lines().rev().skip(1).all(|line| line.len() < WIDTH);
    format!("use {path}::{{{}\n}};", if fits { wide } else { body })
}

/// Prints `fn name(params) -> result {`, for any number of parameters.
pub(crate) fn signature(name: &str, params: &[String], result: &str) -> String {
    let expected = if params.len() > 7 {
        "#[expect(clippy::too_many_arguments, reason = \"as many as the operator has\")]\n"
    } else {
        ""
    };
    let line = format!("fn {name}({}) -> {result} {{", params.join(", "));
    if line.len() <= WIDTH {
        return expected.to_owned() + &line;
    }
    // rustfmt breaks inside the type of a parameter that is wider than a line.
    let skip = if params.iter().any(|param| INDENT + param.len() + 1 > WIDTH) {
        "#[rustfmt::skip]\n"
    } else {
        ""
    };
    let mut text = format!("{expected}{skip}fn {name}(");
    for param in params {
        text.push_str(&new_line(INDENT));
        text.push_str(param);
        text.push(',');
    }
    text + &format!("\n) -> {result} {{")
}

/// Prints `name!(head(parts));`, whose arguments rustfmt does not change.
pub(crate) fn untouched_macro(name: &str, head: &str, parts: &[String]) -> String {
    let line = format!("{name}!({head}({}));", parts.join(", "));
    if line.len() <= WIDTH {
        return line;
    }
    let inner = new_line(INDENT);
    format!("{name}!({head}({inner}{}\n));", parts.join(&format!(",{inner}")))
}

/// Prints `head { fields }` as an argument of such a macro, with one field per line if it is too
/// long.
pub(crate) fn fields(head: &str, fields: &[String]) -> String {
    if fields.is_empty() {
        return format!("{head}{{}}");
    }
    let line = format!("{head}{{ {} }}", fields.join(", "));
    if INDENT + line.len() <= WIDTH {
        return line;
    }
    let inner = new_line(2 * INDENT);
    format!("{head}{{{inner}{}{}}}", fields.join(&format!(",{inner}")), new_line(INDENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str) -> Expr {
        Expr::call("Port::required", [Expr::text(name), Expr::atom("types::F32")])
    }

    #[test]
    fn short_tables_stay_on_one_line() {
        let text = constant("const INPUTS: &[Port]", &Expr::Array(vec![port("x")]));
        assert_eq!(text, "const INPUTS: &[Port] = &[Port::required(\"x\", types::F32)];");
    }

    #[test]
    fn long_tables_have_an_entry_per_line() {
        let items = vec![port("x"), port("y").then("constant", [])];
        let want = "const A: &[Port] = &[\n    Port::required(\"x\", types::F32),\n    \
                    Port::required(\"y\", types::F32).constant(),\n];";
        assert_eq!(constant("const A: &[Port]", &Expr::Array(items)), want);
    }

    #[test]
    fn long_chains_have_a_call_per_line() {
        let long = port(&"n".repeat(30)).then("constant", []).then("repeated", []);
        let want = format!(
            "const A: &[Port] = &[\n    Port::required({:?}, types::F32)\n        .constant()\n        \
             .repeated(),\n];",
            "n".repeat(30)
        );
        assert_eq!(constant("const A: &[Port]", &Expr::Array(vec![long])), want);
    }

    #[test]
    fn numbers_fill_lines() {
        let items = (0..40).map(|i| Expr::atom(i.to_string())).collect();
        let text = constant("const A: &[i64]", &Expr::Array(items));
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }

    #[test]
    fn imports_wrap_at_the_width() {
        assert_eq!(import("a", &["B"]), "use a::B;");
        assert_eq!(import("a", &["b", "A", "b"]), "use a::{A, b};");
        let names = ["N".repeat(50), "M".repeat(50)];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(import("a", &names).lines().count(), 4);
    }
}
