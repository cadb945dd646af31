//! Prints the syntax of OpenCL C. Device code cannot return an error: where Rust kernels fail, the result is 0 or NaN.

use super::{
    Printer,
    access::Reads,
    language::{End, Kind, Language, Real},
};
use crate::{function::Binary, ir::Source, signature::Class};

/// OpenCL C, with its access to the elements of tensors.
pub(super) struct OpenClC<'a> {
    pub(super) reads: &'a Reads<'a>,
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Number(class, _) => number_type(class),
        Kind::List => "List",
    }
}

fn number_type(class: Class) -> &'static str {
    match class {
        Class::Float => "float",
        Class::Int => "long",
        Class::Bool => "bool",
    }
}

/// Returns the type in which scratch memory stores numbers between two launches.
pub(super) fn stored_type(class: Class) -> &'static str {
    match class {
        Class::Float => "float",
        Class::Int => "long",
        Class::Bool => "uchar",
    }
}

impl Language for OpenClC<'_> {
    fn shadows(&self) -> bool {
        false
    }

    fn int(&self, value: i64) -> String {
        if value == i64::MIN {
            "LONG_MIN".to_owned()
        } else if value < 0 {
            format!("({value}L)")
        } else {
            format!("{value}L")
        }
    }

    fn float(&self, value: f64, _real: Real) -> String {
        let value = crate::number::narrow(value);
        if value.is_nan() {
            return "NAN".to_owned();
        }
        let literal =
            if value.is_infinite() { "INFINITY".to_owned() } else { format!("{:?}f", value.abs()) };
        if value.is_sign_negative() { format!("(-{literal})") } else { literal }
    }

    fn end(&self, class: Class, end: End, _real: Real) -> String {
        let word = match (class, end) {
            (Class::Float, End::Lowest) => "-INFINITY",
            (Class::Float, End::Highest) => "INFINITY",
            (Class::Int | Class::Bool, End::Lowest) => "LONG_MIN",
            (Class::Int | Class::Bool, End::Highest) => "LONG_MAX",
        };
        word.to_owned()
    }

    fn cast(&self, to: Class, from: Class, operand: &str, _real: Real) -> String {
        match (to, from) {
            (Class::Bool, Class::Float) => format!("({operand} != 0.0f)"),
            (Class::Bool, Class::Int) => format!("({operand} != 0L)"),
            (Class::Int, Class::Float) => format!("whole({operand})"),
            _ => format!("(({}){operand})", number_type(to)),
        }
    }

    fn unary(&self, name: &str, class: Class, x: &str, _real: Real) -> String {
        if class == Class::Int {
            return format!("int_{name}({x})");
        }
        match name {
            "neg" => format!("(-{x})"),
            "abs" => format!("fabs({x})"),
            "round" => format!("rint({x})"),
            "rsqrt" => format!("(1.0f / sqrt({x}))"),
            "recip" => format!("(1.0f / {x})"),
            "sign" | "sigmoid" => format!("float_{name}({x})"),
            name => format!("{name}({x})"),
        }
    }

    fn binary(&self, op: Binary, class: Class, [a, b]: [&str; 2], _real: Real) -> String {
        let infix = |infix: &str| format!("({a} {infix} {b})");
        let call = |name: &str| format!("{name}({a}, {b})");
        let is_int = class == Class::Int;
        let call_by_class = |int: &str, float: &str| call(if is_int { int } else { float });
        match op {
            Binary::Eq => infix("=="),
            Binary::Ne => infix("!="),
            Binary::Lt => infix("<"),
            Binary::Le => infix("<="),
            Binary::Gt => infix(">"),
            Binary::Ge => infix(">="),
            // Integers wrap as in Rust; signed overflow in C is undefined.
            Binary::Add if is_int => call("int_add"),
            Binary::Sub if is_int => call("int_sub"),
            Binary::Mul if is_int => call("int_mul"),
            Binary::Add => infix("+"),
            Binary::Sub => infix("-"),
            Binary::Mul => infix("*"),
            Binary::Div => infix("/"),
            Binary::Min => call_by_class("int_min", "smaller"),
            Binary::Max => call_by_class("int_max", "larger"),
            Binary::Mod => call_by_class("int_mod", "floor_mod"),
            Binary::Rem => call_by_class("int_rem", "fmod"),
            Binary::Pow => call_by_class("int_pow", "pow"),
            Binary::Atan2 => call("atan2"),
            Binary::FloorDiv => call("int_floor_div"),
            Binary::CeilDiv => call("int_ceil_div"),
            Binary::TruncDiv => call("int_trunc_div"),
            Binary::BitAnd => infix("&"),
            Binary::BitOr => infix("|"),
            Binary::BitXor => infix("^"),
            Binary::ShiftLeft => call("int_shift_left"),
            Binary::ShiftRight => call("int_shift_right"),
        }
    }

    fn assign(&self, _op: Binary, _class: Class, _operands: [&str; 2]) -> Option<String> {
        None
    }

    fn is_nan(&self, x: &str) -> String {
        format!("isnan({x})")
    }

    fn helper(&self, name: &str, arguments: &[&str]) -> String {
        format!("{name}({})", arguments.join(", "))
    }

    fn fallible(&self, call: String) -> String {
        call
    }

    fn list_of(&self, items: &[String]) -> String {
        match items {
            [] => self.no_list().to_owned(),
            items => format!("(List){{{}, {{{}}}}}", items.len(), items.join(", ")),
        }
    }

    fn no_list(&self) -> &'static str {
        "(List){0, {0}}"
    }

    fn changed(&self, list: &str) -> String {
        format!("&{list}")
    }

    fn size(&self, dims: &str) -> String {
        format!("list_count({dims})")
    }

    fn counted(&self, number: &str) -> String {
        number.to_owned()
    }

    fn field(&self, name: &str, _class: Class, _real: Real) -> String {
        format!("plan.{name}")
    }

    fn bind(&self, kind: Kind, name: &str, value: &str) -> String {
        format!("const {} {name} = {value};", type_of(kind))
    }

    fn variable(&self, kind: Kind, name: &str, value: &str) -> String {
        format!("{} {name} = {value};", type_of(kind))
    }

    fn when(&self, condition: &str) -> String {
        format!("if ({condition})")
    }

    fn each(&self, name: &str, bound: &str) -> String {
        format!("for (long {name} = 0; {name} < {bound}; ++{name})")
    }

    fn choose(&self, kind: Kind, result: &str, condition: &str) -> String {
        format!("{} {result};\nif ({condition})", type_of(kind))
    }

    fn block(&self, kind: Kind, result: &str) -> String {
        format!("{} {result};\n", type_of(kind))
    }

    fn give(&self, result: &str, value: &str) -> String {
        format!("{result} = {value};")
    }

    fn result(&self, class: Class, value: &str) -> String {
        self.bind(Kind::Number(class, Real::F32), "value", value)
    }

    fn close(&self) -> &'static str {
        "}"
    }

    fn refuse(&self, kind: Kind, result: &str, _requirement: &str) -> String {
        let default_value = match kind {
            Kind::Number(Class::Float, _) => "NAN",
            Kind::Number(Class::Int, _) => "0L",
            Kind::Number(Class::Bool, _) => "false",
            Kind::List => self.no_list(),
        };
        self.give(result, default_value)
    }

    fn refuse_if(&self, _condition: &str, _requirement: &str) -> Option<[String; 3]> {
        None
    }

    fn count(&self, counter: &str, condition: &str) -> String {
        format!("{counter} += {condition} ? 1L : 0L;")
    }

    fn load(&self, printer: &Printer<'_>, source: Source, index: &str, _real: Real) -> String {
        let name = printer.names.source(source);
        match source {
            Source::Input(input) => {
                let port = self.reads.accesses.inputs.get(input);
                port.map_or(String::new(), |port| port.opencl.load(name, index))
            }
            Source::Param(_) => format!("{name}[{index}]"),
            Source::Def(def) => {
                let buffer = printer.kept_name(def);
                match printer.class(source) {
                    Class::Bool => format!("({buffer}[{index}] != 0)"),
                    Class::Float | Class::Int => format!("{buffer}[{index}]"),
                }
            }
        }
    }
}
