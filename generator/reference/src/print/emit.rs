//! Numbers as Rust: an expression for each, and statements before it where one does not do.

use std::fmt::Write as _;

use super::{
    Printer,
    plain::{bare, plain},
};
use crate::{
    function::Binary,
    ir::{Binder, Fold, FoldLoop, Read, Scalar, Source},
    signature::{Class, ParamKind},
};

/// What real numbers are worked out in: double precision where they are known with the shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Real {
    F32,
    F64,
}

impl Real {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

pub(super) fn type_of(class: Class, real: Real) -> &'static str {
    match class {
        Class::Float => real.word(),
        Class::Int => "i64",
        Class::Bool => "bool",
    }
}

/// A number as what is stored.
pub(super) fn stored(value: &str, class: Class, element: &str) -> String {
    match (class, element) {
        (Class::Float, "f32") | (Class::Int, "i64") | (Class::Bool, "bool") => value.to_owned(),
        (Class::Bool, _) => format!("{element}::from({value})"),
        (Class::Float | Class::Int, _) => format!("{value} as {element}"),
    }
}

pub(super) struct Emitter<'a> {
    pub(super) printer: &'a Printer<'a>,
    real: Real,
    text: String,
    depth: usize,
    temporaries: usize,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(printer: &'a Printer<'a>, real: Real) -> Self {
        Self { printer, real, text: String::new(), depth: 0, temporaries: 0 }
    }

    /// The statements, as the body of a function.
    pub(super) fn function(&self) -> String {
        self.indented(1)
    }

    /// The statements, as a block in one.
    pub(super) fn block(&self) -> String {
        self.indented(2)
    }

    fn indented(&self, by: usize) -> String {
        let line = |line: &str| format!("{}{line}\n", "    ".repeat(by));
        self.text.lines().map(line).collect()
    }

    pub(super) fn line(&mut self, line: &str) {
        for line in line.lines() {
            let _ = writeln!(self.text, "{}{}", "    ".repeat(self.depth), plain(line));
        }
    }

    pub(super) fn open(&mut self, line: &str) {
        self.line(&format!("{line} {{"));
        self.depth += 1;
    }

    pub(super) fn close(&mut self, end: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(end);
    }

    pub(super) fn deeper(&mut self) {
        self.depth += 1;
    }

    /// Puts statements of another before those here.
    pub(super) fn after(&mut self, before: &Self) {
        self.text.insert_str(0, &before.text);
    }

    /// Counts temporaries from where another stopped.
    pub(super) fn beside(&self) -> Self {
        Self { text: String::new(), ..*self }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn temporary(&mut self) -> String {
        self.temporaries += 1;
        format!("t{}", self.temporaries)
    }

    pub(super) fn bound(&mut self, value: &str) -> String {
        let name = self.temporary();
        self.line(&format!("let {name} = {};", bare(value)));
        name
    }

    fn type_of(&self, class: Class) -> &'static str {
        type_of(class, self.real)
    }

    /// A field of the plan as a number here.
    fn field(&self, name: &str, class: Class) -> String {
        match (class, self.real) {
            (Class::Float, Real::F32) => format!("(plan.{name} as f32)"),
            _ => format!("plan.{name}"),
        }
    }

    pub(super) fn class(&self, scalar: &Scalar) -> Class {
        let printer = self.printer;
        match scalar {
            Scalar::Float(_) => Class::Float,
            Scalar::Int(_)
            | Scalar::Item(..)
            | Scalar::Len(_)
            | Scalar::Product(_)
            | Scalar::Ravel(..) => Class::Int,
            Scalar::Bool(_)
            | Scalar::Present(_)
            | Scalar::TextIs(..)
            | Scalar::Not(_)
            | Scalar::And(..)
            | Scalar::Or(..) => Class::Bool,
            Scalar::Param(param) => {
                match printer.signature.params.get(*param).map(|param| param.kind) {
                    Some(ParamKind::Scalar(class)) => class,
                    _ => Class::Bool,
                }
            }
            Scalar::Var(slot) => {
                printer.code.scalars.get(*slot).map_or(Class::Int, |local| local.class)
            }
            Scalar::Read(read) => printer.class(read.source),
            Scalar::Unary(_, operand) => self.class(operand),
            Scalar::Binary(op, left, _, _) => op.result(self.class(left)),
            Scalar::Cast(class, _) => *class,
            Scalar::If(_, then, _) => self.class(then),
            Scalar::Let(_, _, body) | Scalar::There(_, body) => self.class(body),
            Scalar::Fold(fold) => match fold.fold {
                Fold::Sum | Fold::Prod | Fold::Max | Fold::Min => fold.class,
                Fold::Mean => Class::Float,
                Fold::ArgMax | Fold::ArgMin | Fold::Count => Class::Int,
                Fold::Any | Fold::All => Class::Bool,
            },
        }
    }

    pub(super) fn scalar(&mut self, scalar: &Scalar) -> String {
        match scalar {
            Scalar::Float(value) => self.literal(*value),
            Scalar::Int(value) if *value < 0 => format!("({value}_i64)"),
            Scalar::Int(value) => format!("{value}_i64"),
            Scalar::Bool(value) => value.to_string(),
            Scalar::Param(param) => {
                self.field(self.printer.names.param(*param), self.class(scalar))
            }
            Scalar::Var(slot) => {
                let name = self.printer.names.scalar(*slot);
                let is_local =
                    self.printer.code.scalars.get(*slot).is_some_and(|local| local.inner);
                if is_local { name.to_owned() } else { self.field(name, self.class(scalar)) }
            }
            Scalar::Item(list, at, _) => {
                let (list, at) = (self.list(list), self.scalar(at));
                format!("list_item({list}, {at})?")
            }
            Scalar::Len(list) => format!("list_len({})", self.list(list)),
            Scalar::Product(list) => format!("list_size({})", self.list(list)),
            Scalar::Ravel(coords, dims) => {
                let (coords, dims) = (self.list(coords), self.list(dims));
                format!("list_ravel({coords}, {dims})")
            }
            Scalar::Present(input) => format!("plan.{}", self.printer.names.present(*input)),
            Scalar::TextIs(left, right) => format!("plan.{}", self.printer.names.text(left, right)),
            Scalar::Read(read) => self.read(read),
            Scalar::Unary(function, operand) => {
                let class = self.class(operand);
                let operand = self.scalar(operand);
                self.unary(function.row().name, class, &operand)
            }
            Scalar::Binary(op, left, right, _) => {
                let class = self.class(left);
                let (left, right) = (self.scalar(left), self.scalar(right));
                self.binary(*op, class, &left, &right)
            }
            Scalar::Cast(class, operand) => {
                let found = self.class(operand);
                let operand = self.scalar(operand);
                self.cast(*class, found, &operand)
            }
            Scalar::Not(operand) => format!("!{}", self.scalar(operand)),
            Scalar::And(left, right) => self.choice(left, right, &Scalar::Bool(false)),
            Scalar::Or(left, right) => self.choice(left, &Scalar::Bool(true), right),
            Scalar::If(condition, then, otherwise) => self.choice(condition, then, otherwise),
            Scalar::Let(slot, value, body) => {
                let value = self.scalar(value);
                let name = self.printer.names.scalar(*slot).to_owned();
                self.line(&format!("let {name} = {};", bare(&value)));
                self.scalar(body)
            }
            Scalar::There(list, body) => {
                let there = self.list(list);
                let result = self.temporary();
                self.open(&format!("let {result} ="));
                self.line(&format!("let here = {there};"));
                let body = self.scalar(body);
                self.line(bare(&body));
                self.close("};");
                result
            }
            Scalar::Fold(fold) => self.fold(fold),
        }
    }

    fn literal(&self, value: f64) -> String {
        let real = self.real.word();
        if value.is_nan() {
            return format!("{real}::NAN");
        }
        if value.is_infinite() {
            return format!("{real}::{}", if value > 0.0 { "INFINITY" } else { "NEG_INFINITY" });
        }
        // Rounded here, so that no digits are left that the type does not have.
        let said = match self.real {
            Real::F32 if crate::number::single(value).is_infinite() => {
                return format!("({value:?}_f64 as f32)");
            }
            Real::F32 => format!("{:?}", crate::number::narrow(value)),
            Real::F64 => format!("{value:?}"),
        };
        if value.is_sign_negative() { format!("({said}_{real})") } else { format!("{said}_{real}") }
    }

    fn cast(&self, to: Class, from: Class, operand: &str) -> String {
        match (to, from) {
            (Class::Float, Class::Bool) => {
                format!("{}::from(u8::from({operand}))", self.real.word())
            }
            (Class::Int, Class::Bool) => format!("i64::from({operand})"),
            (Class::Bool, Class::Float) => format!("({operand} != 0.0)"),
            (Class::Bool, Class::Int) => format!("({operand} != 0)"),
            _ if to == from => operand.to_owned(),
            _ => format!("({operand} as {})", self.type_of(to)),
        }
    }

    fn unary(&self, name: &str, class: Class, x: &str) -> String {
        if class == Class::Int {
            return match name {
                "neg" => format!("{x}.wrapping_neg()"),
                "abs" => format!("{x}.wrapping_abs()"),
                _ => format!("{x}.signum()"),
            };
        }
        let real = self.real.word();
        match name {
            "neg" => format!("(-{x})"),
            "round" => format!("{x}.round_ties_even()"),
            "expm1" => format!("{x}.exp_m1()"),
            "log" => format!("{x}.ln()"),
            "log1p" => format!("{x}.ln_1p()"),
            "rsqrt" => format!("(1.0 / {x}.sqrt())"),
            "recip" => format!("(1.0 / {x})"),
            "sign" | "sigmoid" | "asinh" | "erf" => format!("{name}_{real}({x})"),
            name => format!("{x}.{name}()"),
        }
    }

    fn binary(&self, op: Binary, class: Class, a: &str, b: &str) -> String {
        let real = self.real.word();
        let compared = |sign: &str| format!("({a} {sign} {b})");
        match (op, class) {
            (Binary::Eq, _) => compared("=="),
            (Binary::Ne, _) => compared("!="),
            (Binary::Lt, _) => compared("<"),
            (Binary::Le, _) => compared("<="),
            (Binary::Gt, _) => compared(">"),
            (Binary::Ge, _) => compared(">="),
            (Binary::Add, Class::Int) => format!("{a}.wrapping_add({b})"),
            (Binary::Sub, Class::Int) => format!("{a}.wrapping_sub({b})"),
            (Binary::Mul, Class::Int) => format!("{a}.wrapping_mul({b})"),
            (Binary::Min, Class::Int) => format!("{a}.min({b})"),
            (Binary::Max, Class::Int) => format!("{a}.max({b})"),
            (Binary::Mod, Class::Int) => format!("int_mod({a}, {b})?"),
            (Binary::Rem, Class::Int) => format!("int_rem({a}, {b})?"),
            (Binary::Pow, Class::Int) => format!("int_pow({a}, {b})"),
            (Binary::Add, _) => compared("+"),
            (Binary::Sub, _) => compared("-"),
            (Binary::Mul, _) => compared("*"),
            (Binary::Div, _) => compared("/"),
            (Binary::Rem, _) => compared("%"),
            (Binary::Min, _) => format!("smaller_{real}({a}, {b})"),
            (Binary::Max, _) => format!("larger_{real}({a}, {b})"),
            (Binary::Mod, _) => format!("floor_mod_{real}({a}, {b})"),
            (Binary::Pow, _) => format!("{a}.powf({b})"),
            (Binary::Atan2, _) => format!("{a}.atan2({b})"),
            (Binary::FloorDiv, _) => format!("int_floor_div({a}, {b})?"),
            (Binary::CeilDiv, _) => format!("int_ceil_div({a}, {b})?"),
            (Binary::TruncDiv, _) => format!("int_trunc_div({a}, {b})?"),
            (Binary::BitAnd, _) => compared("&"),
            (Binary::BitOr, _) => compared("|"),
            (Binary::BitXor, _) => compared("^"),
            (Binary::ShiftLeft, _) => format!("int_shift_left({a}, {b})"),
            (Binary::ShiftRight, _) => format!("int_shift_right({a}, {b})"),
        }
    }

    /// One of two, of which the other is not worked out.
    fn choice(&mut self, condition: &Scalar, then: &Scalar, otherwise: &Scalar) -> String {
        let class = self.type_of(self.class(then));
        let condition = self.scalar(condition);
        let result = self.temporary();
        self.open(&format!("let {result}: {class} = if {}", bare(&condition)));
        let value = self.scalar(then);
        self.line(bare(&value));
        self.close("} else {");
        self.depth += 1;
        let value = self.scalar(otherwise);
        self.line(bare(&value));
        self.close("};");
        result
    }

    fn read(&mut self, read: &Read) -> String {
        let coords = self.list(&read.coords);
        let place = self.temporary();
        let dims = self.printer.names.dims(read.source);
        self.line(&format!("let {place} = place(plan.{dims}, {coords});"));
        let class = self.printer.class(read.source);
        let result = self.temporary();
        self.open(&format!("let {result}: {} = if {place} < 0", self.type_of(class)));
        match &read.outside {
            Some(outside) => {
                let outside = self.scalar(outside);
                self.line(bare(&outside));
            }
            None => self.line("return Err(Fault(\"indices inside of the tensor\"));"),
        }
        self.close("} else {");
        self.depth += 1;
        let name = self.printer.names.source(read.source);
        let loaded = self.loaded(read.source, &format!("{name}[{place} as usize]"));
        self.line(&loaded);
        self.close("};");
        result
    }

    /// A stored element as a number.
    pub(super) fn loaded(&self, source: Source, element: &str) -> String {
        let (class, of) = (self.printer.class(source), self.printer.element(source));
        match (class, of.as_str()) {
            (Class::Bool, "bool") => element.to_owned(),
            (Class::Bool, _) => format!("{element} != 0"),
            _ if of == self.type_of(class) => element.to_owned(),
            _ => format!("{element} as {}", self.type_of(class)),
        }
    }

    /// Loops over the indices, and says how many have to be closed.
    pub(super) fn loops(&mut self, binders: &[Binder]) -> usize {
        // The bounds of one index know nothing of the others.
        let bounds: Vec<String> = binders
            .iter()
            .map(|binder| match binder {
                Binder::Index(_, count) => {
                    let count = self.scalar(count);
                    self.bound(&count)
                }
                Binder::Pack(_, extents) => {
                    let extents = self.list(extents);
                    self.bound(&extents)
                }
            })
            .collect();
        for (binder, bound) in binders.iter().zip(&bounds) {
            match binder {
                Binder::Index(slot, _) => {
                    let name = self.printer.names.scalar(*slot).to_owned();
                    self.open(&format!("for {name} in 0..{bound}"));
                }
                Binder::Pack(slot, _) => {
                    let (name, number) =
                        (self.printer.names.list(*slot).to_owned(), self.temporary());
                    self.open(&format!("for {number} in 0..{bound}.size()"));
                    self.line(&format!("let {name} = list_unravel({number} as i64, {bound});"));
                }
            }
        }
        binders.len()
    }

    fn fold(&mut self, fold: &FoldLoop) -> String {
        let of = fold.class;
        let class = self.type_of(of);
        let all = self.temporary();
        let is_float = of == Class::Float;
        let start = match fold.fold {
            Fold::Sum | Fold::Mean => self.cast(of, Class::Int, "0_i64"),
            Fold::Prod => self.cast(of, Class::Int, "1_i64"),
            Fold::Max | Fold::ArgMax => {
                format!("{class}::{}", if is_float { "NEG_INFINITY" } else { "MIN" })
            }
            Fold::Min | Fold::ArgMin => {
                format!("{class}::{}", if is_float { "INFINITY" } else { "MAX" })
            }
            Fold::Any => "false".to_owned(),
            Fold::All => "true".to_owned(),
            Fold::Count => "0_i64".to_owned(),
        };
        self.line(&format!("let mut {all} = {};", bare(&start)));
        let has_number = matches!(fold.fold, Fold::Mean | Fold::ArgMax | Fold::ArgMin);
        let (number, best) = (self.temporary(), self.temporary());
        if has_number {
            self.line(&format!("let mut {number} = 0_i64;"));
        }
        if matches!(fold.fold, Fold::ArgMax | Fold::ArgMin) {
            self.line(&format!("let mut {best} = -1_i64;"));
        }
        let loops = self.loops(&fold.binders);
        let value = self.scalar(&fold.body);
        let value = self.bound(&value);
        match fold.fold {
            Fold::Sum | Fold::Mean => {
                let sum = self.binary(Binary::Add, of, &all, &value);
                self.line(&format!("{all} = {};", bare(&sum)));
            }
            Fold::Prod => {
                let product = self.binary(Binary::Mul, of, &all, &value);
                self.line(&format!("{all} = {};", bare(&product)));
            }
            Fold::Max | Fold::Min => {
                let op = if fold.fold == Fold::Max { Binary::Max } else { Binary::Min };
                let extreme = self.binary(op, of, &all, &value);
                self.line(&format!("{all} = {};", bare(&extreme)));
            }
            Fold::ArgMax | Fold::ArgMin => {
                let sign = if fold.fold == Fold::ArgMax { ">" } else { "<" };
                let nan = if is_float {
                    format!(" || {value}.is_nan() && !{all}.is_nan()")
                } else {
                    String::new()
                };
                self.open(&format!("if {best} < 0 || {value} {sign} {all}{nan}"));
                self.line(&format!("{all} = {value};\n{best} = {number};"));
                self.close("}");
            }
            Fold::Any => self.line(&format!("{all} |= {value};")),
            Fold::All => self.line(&format!("{all} &= {value};")),
            Fold::Count => self.line(&format!("{all} += i64::from({value});")),
        }
        if has_number {
            self.line(&format!("{number} += 1;"));
        }
        for _ in 0..loops {
            self.close("}");
        }
        match fold.fold {
            Fold::Mean => format!("({all} / {number} as {class})"),
            Fold::ArgMax | Fold::ArgMin => {
                self.open(&format!("if {best} < 0"));
                self.line("return Err(Fault(\"elements to find the extreme of\"));");
                self.close("}");
                best
            }
            _ => all,
        }
    }
}
