//! The syntax tree of a source: `parse` creates it, and `lower` resolves its names and types.
//!
//! Variants without a doc comment are what their names say; the others show their syntax.

use crate::fault::Position;

/// An expression and its position.
#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) at: Position,
    pub(crate) kind: Kind,
    /// The height of the subtree, which is limited so that walks cannot overflow the stack.
    pub(crate) height: u32,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Name(String),
    Unary(Prefix, Box<Expr>),
    Binary(Infix, Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `let name = value in body`
    Let(String, Box<Expr>, Box<Expr>),
    /// `name(args, key = value)`
    Call(String, Args),
    /// `name[binders; kept](args)`, as in `sum[k < n](x[k])`
    Fold(String, Vec<Binder>, Option<String>, Args),
    /// `base[items else outside]`
    Index(Box<Expr>, Vec<Item>, Option<Box<Expr>>),
    /// `[items]`
    List(Vec<Item>),
    /// `[for name < count: body]`
    For(String, Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    Neg,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Infix {
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
}

impl Infix {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Or => "or",
            Self::And => "and",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::FloorDiv => "//",
            Self::Mod => "%",
        }
    }
}

/// The arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Args {
    pub(crate) plain: Vec<Expr>,
    pub(crate) named: Vec<(String, Position, Expr)>,
}

/// An index and its range: `name < bound`; or a pack, which is a list of indices and their ranges: `name.. < bounds`.
#[derive(Debug)]
pub(crate) struct Binder {
    pub(crate) name: String,
    pub(crate) at: Position,
    pub(crate) is_pack: bool,
    pub(crate) bound: Expr,
}

/// An item of a list, or of the indices of a tensor.
#[derive(Debug)]
pub(crate) enum Item {
    One(Expr),
    /// `list..`
    Spread(Expr),
    /// `from:to`
    Slice(Option<Expr>, Option<Expr>),
}

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) at: Position,
    pub(crate) kind: StatementKind,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    /// `let name[binders] = value`
    Let(String, Vec<Binder>, Expr),
    /// `name[binders] = value`
    Output(String, Vec<Binder>, Expr),
    /// `require condition, "requirement"`
    Require(Expr, String),
    Tolerance(Tolerance),
}

/// `tolerance name relative r absolute a because "reason"`
#[derive(Debug)]
pub(crate) struct Tolerance {
    pub(crate) output: String,
    pub(crate) relative: f64,
    pub(crate) absolute: f64,
    pub(crate) reason: String,
}
