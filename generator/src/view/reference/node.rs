//! What is known of a node with its shapes: the call of the printed `plan`.

use udo_reference::Class;

use super::{indented, list_element, stored};
use crate::{
    config::{Core, Family, Op, Tensor},
    reference,
};

/// What a printed `plan` asks for.
pub(super) struct Known<'a> {
    pub(super) is_bounded: bool,
    /// Whether it reads the elements of a static input.
    pub(super) reads_static: &'a [bool],
}

/// The argument that asks for the least extents, where there is one.
pub(super) fn least(is_bounded: bool, value: &str) -> String {
    if is_bounded { format!(", {value}") } else { String::new() }
}

/// The function that makes the plan of a node: in `infer` without a core, else in finalize on one.
pub(super) fn of_node(op: &Op, known: &Known<'_>, core: Option<Core>) -> String {
    let (mut lines, mut arguments) = (Vec::new(), Vec::new());
    if known.is_bounded {
        arguments.push("least".to_owned());
    }
    let reads = known.reads_static.iter().copied().chain(std::iter::repeat(false));
    for ((index, port), is_read) in op.inputs.iter().enumerate().zip(reads) {
        let name = &port.name;
        lines.push(format!("let extents_{index} = extents(cx, {index}, {name:?})?;"));
        arguments.push(format!("extents_{index}.as_ref().map(List::items)"));
        if !port.is_static {
            continue;
        }
        if !is_read {
            arguments.push("&[]".to_owned());
            continue;
        }
        let elements = match (core, reference::class(port)) {
            (None, Class::Int | Class::Bool) => format!("integers(cx, {index})?"),
            (None, Class::Float) => format!("reals(cx, {index})?"),
            (Some(core), _) => format!("cx.constant::<{}>({index})?", stored(port, core)),
        };
        lines.push(format!("let elements_{index} = {elements};"));
        lines.push(format!("if extents_{index}.is_some() && elements_{index}.is_none() {{"));
        lines.push(format!(
            "    return Err(Error::new(\"input {name} is no constant of the model\"));"
        ));
        lines.push("}".to_owned());
        lines.push(format!("let elements_{index} = elements_{index}.unwrap_or_default();"));
        // A list of its own, or a part of the model.
        let borrow = if core.is_none() { "&" } else { "" };
        arguments.push(format!("{borrow}elements_{index}"));
    }
    let (params, settings) = params(op);
    lines.extend(params);
    arguments.extend(settings);
    let (lines, arguments) = (indented(&lines, 1), arguments.join(", "));
    let least = if known.is_bounded { ", least: bool" } else { "" };
    let lists = list_types(op, core);
    format!(
        "{lists}/// What is known of a node with its shapes.\nfn of_node(cx: &Node<'_>{least}) -> Result<Plan, Error> {{\n\
         {lines}    plan({arguments})\n        .map_err(wanted)\n}}\n"
    )
}

/// The statements that read the parameters of a node, and what `plan` gets of them.
pub(super) fn params(op: &Op) -> (Vec<String>, Vec<String>) {
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
        lines.push(format!("let list_{index} = {};", list(param)));
        arguments.push(format!("&[list_{index}.len() as i64]"));
        arguments.push(format!("&list_{index}"));
    }
    (lines, arguments)
}

/// A tensor parameter as the printed parts read it.
pub(super) fn list(param: &Tensor) -> String {
    let name = &param.name;
    match list_element(param) {
        "f32" => {
            format!("cx.floats({name:?})?.iter().map(|value| *value as f32).collect::<Reals>()")
        }
        _ => format!("Integers::from(cx.ints({name:?})?)"),
    }
}

/// The type that `list` gives.
pub(super) fn list_type(param: &Tensor) -> &'static str {
    match list_element(param) {
        "f32" => "Reals",
        _ => "Integers",
    }
}

/// What lists are kept as. Crates for the DSP have no name for a box, but may keep what functions of theirs are given.
fn list_types(op: &Op, core: Option<Core>) -> String {
    let named = [("Reals", "f32"), ("Integers", "i64")].into_iter();
    let used =
        named.filter(|(name, _)| op.tensor_params.iter().any(|param| list_type(param) == *name));
    let types: Vec<String> = used
        .map(|(name, element)| match core {
            Some(Core::Dsp(_)) => format!("type {name} = <fn(&[{element}]) as DspParam>::Kept;\n"),
            Some(Core::Cpu | Core::Gpu) | None => format!("type {name} = Box<[{element}]>;\n"),
        })
        .collect();
    let types = types.concat();
    if types.is_empty() { types } else { types + "\n" }
}
