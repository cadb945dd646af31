//! Prints the syntax of Rust.

use super::{
    Port, Printer,
    language::{End, Kind, Language, Real},
    literal::literal,
};
use crate::{function::Binary, ir::Source, signature::Class};

/// Rust, with its access to the elements of tensors.
pub(super) enum Rust {
    /// In the plan: static inputs are functions of an element's index, and parameters are as in the node.
    Plan,
    /// In element functions: each tensor is a fallible function of an element's index.
    Elements,
    /// In kernels: slices.
    Slices,
}

pub(super) fn type_of(class: Class, real: Real) -> &'static str {
    match class {
        Class::Float => real.word(),
        Class::Int => "i64",
        Class::Bool => "bool",
    }
}

/// Converts a number to the stored type.
pub(super) fn stored(value: &str, class: Class, element: &str) -> String {
    match (class, element) {
        (Class::Float, "F16") => format!("F16::from_f32({value})"),
        (Class::Float, "f32") | (Class::Int, "i64") | (Class::Bool, "bool") => value.to_owned(),
        (Class::Int, "Bool") => format!("Bool::from({value} != 0)"),
        (Class::Bool, _) => format!("{element}::from({value})"),
        (Class::Float | Class::Int, _) => format!("{value} as {element}"),
    }
}

/// Converts a stored element to a number.
pub(super) fn loaded(element: &str, class: Class, stored_type: &str, real: Real) -> String {
    match (class, stored_type) {
        (Class::Bool, "bool") => element.to_owned(),
        (Class::Bool, "Bool") => format!("{element}.get()"),
        (Class::Bool, _) => format!("{element} != 0"),
        (Class::Int, "Bool") => format!("i64::from({element}.0)"),
        (Class::Float, "F16") => format!("{element}.to_f32()"),
        // Kernels store parameters in single precision.
        (Class::Float, "f64") if real == Real::F64 => format!("f64::from({element} as f32)"),
        _ if stored_type == type_of(class, real) => element.to_owned(),
        _ => format!("{element} as {}", type_of(class, real)),
    }
}

/// The maximum width of a function's declaration: rustfmt's default.
const WIDTH: usize = 100;

/// Prints a function with any number of parameters.
pub(super) fn function(
    declaration: &str,
    parameters: &[String],
    result: &str,
    body: &str,
) -> String {
    let line = format!("{declaration}({}) -> {result} {{", parameters.join(", "));
    let line = if line.len() <= WIDTH {
        line
    } else {
        format!("{declaration}(\n    {},\n) -> {result} {{", parameters.join(",\n    "))
    };
    let attribute = if parameters.len() > 7 {
        "#[expect(clippy::too_many_arguments, reason = \"as many as are read\")]\n"
    } else {
        ""
    };
    format!("{attribute}{line}\n{body}}}\n")
}

/// Returns the type for the declaration of a number; declarations of lists need none.
fn kind_words(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Number(class, real) => Some(type_of(class, real)),
        Kind::List => None,
    }
}

impl Language for Rust {
    fn shadows(&self) -> bool {
        true
    }

    fn int(&self, value: i64) -> String {
        if value < 0 { format!("({value}_i64)") } else { format!("{value}_i64") }
    }

    fn float(&self, value: f64, real: Real) -> String {
        let word = real.word();
        if value.is_nan() {
            return format!("{word}::NAN");
        }
        if value.is_infinite() {
            return format!("{word}::{}", if value > 0.0 { "INFINITY" } else { "NEG_INFINITY" });
        }
        if real == Real::F32 && crate::number::single(value).is_infinite() {
            return format!("({value:?}_f64 as f32)");
        }
        literal(value, real)
    }

    fn end(&self, class: Class, end: End, real: Real) -> String {
        let name = match (class, end) {
            (Class::Float, End::Lowest) => "NEG_INFINITY",
            (Class::Float, End::Highest) => "INFINITY",
            (Class::Int | Class::Bool, End::Lowest) => "MIN",
            (Class::Int | Class::Bool, End::Highest) => "MAX",
        };
        format!("{}::{name}", type_of(class, real))
    }

    fn cast(&self, to: Class, from: Class, operand: &str, real: Real) -> String {
        match (to, from) {
            (Class::Float, Class::Bool) => format!("{}::from(u8::from({operand}))", real.word()),
            (Class::Int, Class::Bool) => format!("i64::from({operand})"),
            (Class::Bool, Class::Float) => format!("({operand} != 0.0)"),
            (Class::Bool, Class::Int) => format!("({operand} != 0)"),
            _ => format!("({operand} as {})", type_of(to, real)),
        }
    }

    fn unary(&self, name: &str, class: Class, x: &str, real: Real) -> String {
        if class == Class::Int {
            return match name {
                "neg" => format!("{x}.wrapping_neg()"),
                "abs" => format!("{x}.wrapping_abs()"),
                _ => format!("{x}.signum()"),
            };
        }
        let real = real.word();
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

    fn binary(&self, op: Binary, class: Class, [a, b]: [&str; 2], real: Real) -> String {
        let real = real.word();
        let infix = |sign: &str| format!("({a} {sign} {b})");
        match (op, class) {
            (Binary::Eq, _) => infix("=="),
            (Binary::Ne, _) => infix("!="),
            (Binary::Lt, _) => infix("<"),
            (Binary::Le, _) => infix("<="),
            (Binary::Gt, _) => infix(">"),
            (Binary::Ge, _) => infix(">="),
            (Binary::Add, Class::Int) => format!("{a}.wrapping_add({b})"),
            (Binary::Sub, Class::Int) => format!("{a}.wrapping_sub({b})"),
            (Binary::Mul, Class::Int) => format!("{a}.wrapping_mul({b})"),
            (Binary::Min, Class::Int) => format!("{a}.min({b})"),
            (Binary::Max, Class::Int) => format!("{a}.max({b})"),
            (Binary::Mod, Class::Int) => format!("int_mod({a}, {b})?"),
            (Binary::Rem, Class::Int) => format!("int_rem({a}, {b})?"),
            (Binary::Pow, Class::Int) => format!("int_pow({a}, {b})"),
            (Binary::Add, _) => infix("+"),
            (Binary::Sub, _) => infix("-"),
            (Binary::Mul, _) => infix("*"),
            (Binary::Div, _) => infix("/"),
            (Binary::Rem, _) => infix("%"),
            (Binary::Min, _) => format!("smaller_{real}({a}, {b})"),
            (Binary::Max, _) => format!("larger_{real}({a}, {b})"),
            (Binary::Mod, _) => format!("floor_mod_{real}({a}, {b})"),
            (Binary::Pow, _) => format!("{a}.powf({b})"),
            (Binary::Atan2, _) => format!("{a}.atan2({b})"),
            (Binary::FloorDiv, _) => format!("int_floor_div({a}, {b})?"),
            (Binary::CeilDiv, _) => format!("int_ceil_div({a}, {b})?"),
            (Binary::TruncDiv, _) => format!("int_trunc_div({a}, {b})?"),
            (Binary::BitAnd, _) => infix("&"),
            (Binary::BitOr, _) => infix("|"),
            (Binary::BitXor, _) => infix("^"),
            (Binary::ShiftLeft, _) => format!("int_shift_left({a}, {b})"),
            (Binary::ShiftRight, _) => format!("int_shift_right({a}, {b})"),
        }
    }

    fn clamp(&self, x: &str, [low, high]: [&str; 2], _real: Real) -> String {
        format!("{x}.clamp({low}, {high})")
    }

    fn assign(&self, op: Binary, class: Class, [a, b]: [&str; 2]) -> Option<String> {
        match (op, class) {
            (Binary::Add, Class::Float) => Some(format!("{a} += {b};")),
            (Binary::Mul, Class::Float) => Some(format!("{a} *= {b};")),
            _ => None,
        }
    }

    fn is_nan(&self, x: &str) -> String {
        format!("{x}.is_nan()")
    }

    fn helper(&self, name: &str, arguments: &[&str]) -> String {
        format!("{name}_f32({})", arguments.join(", "))
    }

    fn fallible(&self, call: String) -> String {
        call + "?"
    }

    fn list_of(&self, items: &[String]) -> String {
        format!("List::of(&[{}])", items.join(", "))
    }

    fn no_list(&self) -> &'static str {
        "List::default()"
    }

    fn changed(&self, list: &str) -> String {
        format!("&mut {list}")
    }

    fn size(&self, dims: &str) -> String {
        format!("{dims}.size()")
    }

    fn counted(&self, number: &str) -> String {
        format!("{number} as i64")
    }

    fn field(&self, name: &str, class: Class, real: Real) -> String {
        match (class, real) {
            (Class::Float, Real::F32) => format!("(plan.{name} as f32)"),
            _ => format!("plan.{name}"),
        }
    }

    fn bind(&self, _kind: Kind, name: &str, value: &str) -> String {
        format!("let {name} = {value};")
    }

    fn variable(&self, _kind: Kind, name: &str, value: &str) -> String {
        format!("let mut {name} = {value};")
    }

    fn when(&self, condition: &str) -> String {
        format!("if {condition}")
    }

    fn each(&self, name: &str, bound: &str) -> String {
        format!("for {name} in 0..{bound}")
    }

    fn choose(&self, kind: Kind, result: &str, condition: &str) -> String {
        let annotation = kind_words(kind).map_or(String::new(), |word| format!(": {word}"));
        format!("let {result}{annotation} = if {condition}")
    }

    fn block(&self, _kind: Kind, result: &str) -> String {
        format!("let {result} =")
    }

    fn give(&self, _result: &str, value: &str) -> String {
        value.to_owned()
    }

    fn result(&self, _class: Class, value: &str) -> String {
        format!("Ok({value})")
    }

    fn close(&self) -> &'static str {
        "};"
    }

    fn refuse(&self, _kind: Kind, _result: &str, requirement: &str) -> String {
        let end = match self {
            Self::Plan | Self::Slices => "",
            Self::Elements => ".into()",
        };
        format!("return Err(Fault({requirement:?}){end});")
    }

    fn refuse_if(&self, condition: &str, requirement: &str) -> Option<[String; 3]> {
        let return_fault = self.refuse(Kind::List, "", requirement);
        Some([self.when(condition), return_fault, "}".to_owned()])
    }

    fn count(&self, counter: &str, condition: &str) -> String {
        format!("{counter} += i64::from({condition});")
    }

    fn load(&self, printer: &Printer<'_>, source: Source, index_code: &str, real: Real) -> String {
        let at = format!("{index_code} as usize");
        let name = printer.names.source(source);
        match (self, source) {
            (Self::Plan, Source::Param(_)) => {
                let class = printer.class(source);
                loaded(&format!("{name}[{at}]"), class, listed(class), real)
            }
            (Self::Plan, _) => format!("{name}({at})"),
            (Self::Elements, _) => format!("{name}({at})?"),
            (Self::Slices, _) => of_slice(printer, source, &at, real),
        }
    }
}

/// Prints the element of a slice as a number.
pub(super) fn of_slice(printer: &Printer<'_>, source: Source, at: &str, real: Real) -> String {
    let name = printer.names.source(source);
    if let Some(Port { codes: Some(codes), .. }) = printer.port(source) {
        return codes.load.replace("{port}", name).replace("{at}", at);
    }
    let (class, element_type) = (printer.class(source), printer.element(source));
    loaded(&format!("{name}[{at}]"), class, &element_type, real)
}

/// Returns the type of a tensor parameter's elements in a node.
pub(super) fn listed(class: Class) -> &'static str {
    match class {
        Class::Float => "f64",
        Class::Int | Class::Bool => "i64",
    }
}
