//! Names of element and parameter types in generated code.

use crate::{
    config::{Core, DataType, Family, Op, QuantizationMode, Tensor},
    names,
};

/// Returns the SDK's name of an element type, such as `F32`.
pub(super) fn dtype(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Float16 => "F16",
        DataType::Float32 => "F32",
        DataType::Fixed4 | DataType::Fixed8 | DataType::Uint8 => "U8",
        DataType::Fixed16 | DataType::Uint16 => "U16",
        DataType::Fixed32 | DataType::Int32 => "I32",
        DataType::Uint32 => "U32",
        DataType::Int8 => "I8",
        DataType::Int16 => "I16",
        DataType::Int64 => "I64",
        DataType::Bool8 => "Bool",
        DataType::String => "Str",
    }
}

/// Returns the Rust type of an element, such as `f32`.
pub(super) fn element(data_type: DataType) -> &'static str {
    match dtype(data_type) {
        "F32" => "f32",
        "F16" => "F16",
        "U8" => "u8",
        "U16" => "u16",
        "U32" => "u32",
        "I8" => "i8",
        "I16" => "i16",
        "I64" => "i64",
        "Bool" => "Bool",
        _ => "i32",
    }
}

/// Returns the type if `udo-api` defines it, so that generated code must import it.
pub(super) fn own_type(element: &'static str) -> Option<&'static str> {
    matches!(element, "F16" | "Bool").then_some(element)
}

/// Returns the types that a kernel must accept for a tensor of this type: on a GPU, floats may be f32 or f16.
pub(super) fn type_set(core: Core, data_type: DataType) -> Vec<&'static str> {
    match (core, data_type) {
        (Core::Gpu, DataType::Float16 | DataType::Float32) => vec!["F32", "F16"],
        (Core::Cpu | Core::Gpu | Core::Dsp(_), _) => vec![dtype(data_type)],
    }
}

/// Prints a set of types, as in `types::F32.or(types::F16)`.
pub(super) fn type_set_code(names: &[&str]) -> String {
    let mut code = String::new();
    for name in names.iter().map(|name| name.to_ascii_uppercase()) {
        if code.is_empty() {
            code = format!("types::{name}");
        } else {
            code = format!("{code}.or(types::{name})");
        }
    }
    code
}

/// Prints a core, such as `Core::dsp(68)`.
pub(super) fn core_code(core: Core) -> String {
    match core {
        Core::Cpu => "Core::CPU".to_owned(),
        Core::Gpu => "Core::GPU".to_owned(),
        Core::Dsp(arch) => format!("Core::dsp({arch})"),
    }
}

/// Returns the element type of a list parameter, which the schema declares once for all cores: the first core's type.
pub(super) fn list_element(tensor: &Tensor) -> &'static str {
    let dtype = tensor.types.first().map_or(DataType::Float32, |entry| entry.dtype);
    match dtype.family() {
        Family::Integer(..) if !tensor.has_real_default() => element(dtype),
        Family::Truth if !tensor.has_real_default() => "bool",
        Family::Integer(..) | Family::Truth | Family::Float(_) | Family::Fixed | Family::Text => {
            "f32"
        }
    }
}

/// Returns the name of the struct of an operator's GPU kernel.
pub(super) fn gpu_type(op: &Op) -> String {
    names::to_upper_camel_case(&op.name) + "Gpu"
}

/// Whether the elements of a tensor are quantized on some core.
pub(super) fn is_quantized(tensor: &Tensor) -> bool {
    tensor.quantization == Some(QuantizationMode::Tf)
        || tensor.types.iter().any(|entry| entry.dtype.family() == Family::Fixed)
}

/// Returns the type of a port's elements; f32 for floats on a GPU.
pub(super) fn type_on(tensor: &Tensor, core: Core) -> &'static str {
    let dtype = tensor.type_on(core).unwrap_or(DataType::Float32);
    match (core, dtype.family()) {
        (Core::Gpu, Family::Float(_)) => "f32",
        (Core::Cpu | Core::Gpu | Core::Dsp(_), _) => element(dtype),
    }
}

/// Whether a kernel on this core reads quantized values of the tensor, which need their encoding (scale and zero
/// point).
pub(super) fn is_encoded(tensor: &Tensor, core: Core) -> bool {
    is_quantized(tensor) && !matches!(type_on(tensor, core), "f32" | "F16")
}
