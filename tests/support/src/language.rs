//! Operators as the tests and the docs write them: a signature, a source, and cases with what they should give.
//!
//! ```text
//! input x: float            float, int or bool; then `optional`, `static`
//! param axis: int = -1      float, int, bool or text; then `tensor`; then a default
//! output y: float
//! ---
//! y = sum(x, axis = axis)
//! ---
//! case
//! x = [2, 2] 1 2 3 4        extents and elements, or extents alone for random elements
//! axis = 0
//! y == [2] 4 6              what an output should be; without any, a function of the test says it
//! ```
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::panic,
    reason = "tests convert small numbers, and have failed where they cannot go on"
)]

use std::collections::BTreeMap;

use udo_reference::{
    Argument, Arguments, Class, Elements, Input, Output, Param, ParamKind, Program, Signature,
    Storage, Tensor, Value,
};

use crate::random::Random;

/// One operator.
#[derive(Debug)]
pub struct Operator {
    /// Its inputs, parameters and outputs.
    pub signature: Signature,
    /// Its text in the language.
    pub source: String,
    /// Calls of it.
    pub cases: Vec<Case>,
}

/// A call with its arguments and expected outputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The inputs.
    pub arguments: Arguments,
    /// The expected outputs, by name.
    pub wanted: BTreeMap<String, Tensor>,
}

impl Operator {
    /// Reads a text of the above kind.
    pub fn parse(text: &str) -> Self {
        let parts: Vec<&str> = text.split("\n---\n").collect();
        let [head, source, cases] = parts.as_slice() else {
            panic!("expected three parts:\n{text}")
        };
        let mut signature = Signature::default();
        for line in head.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            declare(&mut signature, line);
        }
        let mut random = Random::with_state(0x9e37_79b9 + u64::try_from(text.len()).unwrap());
        let cases = cases
            .split("case")
            .skip(1)
            .map(|case| parse_case(&signature, case, &mut random))
            .collect();
        Self { signature, source: (*source).to_owned(), cases }
    }

    /// The source, read.
    pub fn program(&self) -> Program {
        Program::read(&self.source, &self.signature)
            .unwrap_or_else(|faults| panic!("{faults}\n{}", self.source))
    }

    /// Storage that holds every value.
    pub fn storage(&self, floats: Storage) -> Vec<Storage> {
        let of = |port: &Output| match port.class {
            Class::Float => floats,
            Class::Int => Storage::Int { bits: 64, signed: true },
            Class::Bool => Storage::Bool,
        };
        self.signature.outputs.iter().map(of).collect()
    }
}

fn declare(signature: &mut Signature, line: &str) {
    let (left, default) =
        line.split_once('=').map_or((line, None), |(left, right)| (left, Some(right)));
    let (kind, rest) = left.trim().split_once(' ').unwrap();
    let (name, rest) = rest.split_once(':').unwrap();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let class = match words[0] {
        "float" | "text" => Class::Float,
        "int" => Class::Int,
        "bool" => Class::Bool,
        other => panic!("{other} is no class"),
    };
    let (name, has) = (name.trim().trim_matches('`').to_owned(), |word| words.contains(&word));
    match kind {
        "input" => signature.inputs.push(Input {
            name,
            class,
            optional: has("optional"),
            is_static: has("static"),
            default: default.map(|text| tensor(text, class, &mut Random::with_state(1))),
        }),
        "output" => signature.outputs.push(Output { name, class }),
        "param" => {
            let kind = match (has("tensor"), words[0]) {
                (true, _) => ParamKind::Tensor(class),
                (false, "text") => ParamKind::Text,
                (false, _) => ParamKind::Scalar(class),
            };
            let default = default.map(|text| value(text, kind, &mut Random::with_state(1)));
            signature.params.push(Param { name, kind, default });
        }
        other => panic!("{other} is neither input, output nor param"),
    }
}

fn parse_case(signature: &Signature, text: &str, random: &mut Random) -> Case {
    let mut arguments = Arguments {
        inputs: signature.inputs.iter().map(|_| Argument::Absent).collect(),
        params: signature.params.iter().map(|_| None).collect(),
    };
    let mut wanted = BTreeMap::new();
    for line in
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some((name, text)) = line.split_once("==") {
            let port = signature.outputs.iter().find(|port| port.name == name.trim()).unwrap();
            wanted.insert(port.name.clone(), tensor(text, port.class, random));
            continue;
        }
        let (name, text) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
        if let Some(at) = signature.inputs.iter().position(|port| port.name == name.trim()) {
            arguments.inputs[at] =
                Argument::Tensor(tensor(text, signature.inputs[at].class, random));
        } else {
            let at = signature.params.iter().position(|param| param.name == name.trim());
            let at = at.unwrap_or_else(|| panic!("{name}"));
            arguments.params[at] = Some(value(text, signature.params[at].kind, random));
        }
    }
    Case { arguments, wanted }
}

fn value(text: &str, kind: ParamKind, random: &mut Random) -> Value {
    let text = text.trim();
    match kind {
        ParamKind::Tensor(class) => Value::Tensor(tensor(text, class, random)),
        ParamKind::Text => Value::Text(text.trim_matches('"').to_owned()),
        ParamKind::Scalar(Class::Float) => Value::Float(text.parse().unwrap()),
        ParamKind::Scalar(Class::Int) => Value::Int(text.parse().unwrap()),
        ParamKind::Scalar(Class::Bool) => Value::Bool(text.parse().unwrap()),
    }
}

/// `[2, 3] 1 2 3 4 5 6`, or `[2, 3]` with random elements, or `[2, 3] in -1 1` with those between two numbers.
fn tensor(text: &str, class: Class, random: &mut Random) -> Tensor {
    let (dims, rest) =
        text.trim().trim_start_matches('[').split_once(']').unwrap_or_else(|| panic!("{text}"));
    let dims: Vec<usize> = dims
        .split(',')
        .filter(|d| !d.trim().is_empty())
        .map(|d| d.trim().parse().unwrap())
        .collect();
    let len = dims.iter().product();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let values: Vec<f64> = match words.as_slice() {
        [] if len > 0 => (0..len).map(|_| between(random, -2.0, 2.0)).collect(),
        ["in", low, high] => {
            let (low, high) = (low.parse().unwrap(), high.parse().unwrap());
            (0..len).map(|_| between(random, low, high)).collect()
        }
        words => words.iter().map(|word| number(word)).collect(),
    };
    assert_eq!(values.len(), len, "{text}");
    let elements = match class {
        Class::Float => Elements::Float(values),
        Class::Int => Elements::Int(values.iter().map(|value| value.floor() as i64).collect()),
        Class::Bool => Elements::Bool(values.iter().map(|value| *value > 0.0).collect()),
    };
    Tensor { dims, elements }
}

fn number(word: &str) -> f64 {
    match word {
        "true" => 1.0,
        "false" => 0.0,
        word => word.parse().unwrap_or_else(|_| panic!("{word} is no number")),
    }
}

/// A number that half precision holds.
fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    let share = (random.bits() >> 40) as f64 / (1_u64 << 24) as f64;
    ((low + share * (high - low)) * 64.0).round() / 64.0
}

/// The elements as real numbers.
pub fn reals(tensor: &Tensor) -> Vec<f64> {
    match &tensor.elements {
        Elements::Float(values) => values.clone(),
        Elements::Int(values) => values.iter().map(|value| *value as f64).collect(),
        Elements::Bool(values) => values.iter().map(|value| f64::from(u8::from(*value))).collect(),
    }
}
