//! Prints how generated code requests the plan of a node, the data that depends on its shapes: the call of `of_node` in
//! the formula's file, and the reads of its parameters.

use udo_reference::Class;

use super::{OpFormula, indented, list_element, stored_type};
use crate::{
    config::{Core, Family, Op, Tensor},
    reference,
};

/// The code that requests the plan of a node.
pub(super) struct PlanCall {
    pub(super) call: String,
    /// The definition of the function that `call` uses if the formula's `of_node` needs elements; else empty.
    pub(super) function: String,
}

/// Prints the request of a node's plan. `least` is the Rust expression of a bool: whether dimensions that depend on
/// elements get their smallest value instead of their largest. `core` is `None` in shape inference, and the core in
/// finalize.
pub(super) fn plan(source: &OpFormula<'_>, least: &str, core: Option<Core>) -> PlanCall {
    let op = source.op;
    let is_bounded = source.formula.is_bounded;
    let least = if is_bounded { format!(", {least}") } else { String::new() };
    let static_inputs: Vec<(usize, &Tensor)> =
        op.inputs.iter().enumerate().filter(|(index, _)| source.reads(*index)).collect();
    if static_inputs.is_empty() {
        return PlanCall { call: format!("of_node(cx{least})"), function: String::new() };
    }
    let mut arguments = vec!["cx".to_owned()];
    if is_bounded {
        arguments.push("least".to_owned());
    }
    let mut lines = Vec::new();
    for (index, port) in static_inputs {
        let StaticElements { tensor, element } = elements(index, port, core);
        lines.push(format!("let elements_{index} = {tensor}?;"));
        arguments.push(format!("elements_{index}.map(|all| move |at: usize| {element})"));
    }
    lines.push(format!("of_node({})", arguments.join(", ")));
    let flag = if is_bounded { ", least: bool" } else { "" };
    let function = format!(
        "/// Returns the data of a node that depends on its shapes, and on the elements that determine shapes.\nfn plan_of(cx: &Node<'_>{flag}) -> Result<Plan, Error> {{\n{}}}\n",
        indented(&lines, 1)
    );
    PlanCall { call: format!("plan_of(cx{least})"), function }
}

/// The elements of a static input: all of them, and the conversion of element `at` of `all` for `plan`.
struct StaticElements {
    tensor: String,
    element: &'static str,
}

fn elements(index: usize, port: &Tensor, core: Option<Core>) -> StaticElements {
    let class = reference::class(port);
    let Some(core) = core else {
        let (reader, element) = match class {
            Class::Int => ("integers", "all[at]"),
            Class::Bool => ("integers", "all[at] != 0"),
            Class::Float => ("reals", "f64::from(all[at])"),
        };
        return StaticElements { tensor: format!("{reader}(cx, {index})"), element };
    };
    let element_type = stored_type(port, core);
    let element = match (class, element_type) {
        (Class::Int, "i64") => "all[at]",
        (Class::Int, "Bool") => "i64::from(all[at].get())",
        (Class::Int, _) => "i64::from(all[at])",
        (Class::Bool, _) => "all[at].get()",
        (Class::Float, "i64") => "all[at] as f64",
        (Class::Float, "Bool") => "f64::from(u8::from(all[at].get()))",
        (Class::Float, _) => "f64::from(all[at])",
    };
    StaticElements { tensor: format!("cx.constant::<{element_type}>({index})"), element }
}

/// The code that reads the parameters of a node.
pub(super) struct ParamReads {
    pub(super) lines: Vec<String>,
    /// The arguments of `plan`.
    pub(super) arguments: Vec<String>,
}

pub(super) fn params(op: &Op) -> ParamReads {
    let (mut lines, mut arguments) = (Vec::new(), Vec::new());
    for param in &op.scalar_params {
        let method = match param.dtype.family() {
            Family::Float(_) | Family::Fixed => "float",
            Family::Integer(..) => "int",
            Family::Truth => "flag",
            Family::Text => "text",
        };
        arguments.push(format!("cx.{method}({:?})?", param.name));
    }
    for (index, param) in op.tensor_params.iter().enumerate() {
        let method = if list_element(param) == "f32" { "floats" } else { "ints" };
        lines.push(format!("let list_{index} = cx.{method}({:?})?;", param.name));
        arguments.push(format!("&[list_{index}.len() as i64]"));
        arguments.push(format!("list_{index}"));
    }
    ParamReads { lines, arguments }
}

/// Prints how kernels store a tensor parameter.
pub(super) fn list(param: &Tensor) -> String {
    let name = &param.name;
    match list_element(param) {
        "f32" => {
            format!("cx.floats({name:?})?.iter().map(|value| *value as f32).collect::<Reals>()")
        }
        _ => format!("Integers::from(cx.ints({name:?})?)"),
    }
}

/// Returns the type of `list`.
pub(super) fn list_type(param: &Tensor) -> &'static str {
    match list_element(param) {
        "f32" => "Reals",
        _ => "Integers",
    }
}

/// Prints the types of stored lists. Crates for the DSP have no name for a box, but may store function results.
pub(super) fn list_types(op: &Op, core: Core) -> String {
    let named = [("Reals", "f32"), ("Integers", "i64")].into_iter();
    let used =
        named.filter(|(name, _)| op.tensor_params.iter().any(|param| list_type(param) == *name));
    let types = used.map(|(name, element)| match core {
        Core::Dsp(_) => format!("type {name} = <fn(&[{element}]) as DspParam>::Kept;\n"),
        Core::Cpu | Core::Gpu => format!("type {name} = Box<[{element}]>;\n"),
    });
    types.collect()
}
