//! Converts the type names of early operator sets to ONNX's type numbers.

use udo_api::DType;

use super::edit::Edit;
use udo_graph::graph::Attr;

/// The types' names before operator set 6, and their numbers in ONNX's `TensorProto.DataType`.
const TYPES: &[(&str, DType, i64)] = &[
    ("FLOAT", DType::F32, 1),
    ("UINT8", DType::U8, 2),
    ("INT8", DType::I8, 3),
    ("UINT16", DType::U16, 4),
    ("INT16", DType::I16, 5),
    ("INT32", DType::I32, 6),
    ("INT64", DType::I64, 7),
    ("BOOL", DType::Bool, 9),
    ("FLOAT16", DType::F16, 10),
    ("DOUBLE", DType::F64, 11),
    ("UINT32", DType::U32, 12),
    ("UINT64", DType::U64, 13),
];

pub(super) fn name_to_number(edit: &mut Edit<'_>) -> Result<(), String> {
    let to = match edit.take("to") {
        Some(Attr::Text(name)) => {
            let row = TYPES.iter().find(|(known, ..)| *known == name);
            let unknown = || format!("attribute \"to\" is {name:?}, expected a known type");
            let &(.., number) = row.ok_or_else(unknown)?;
            Attr::Int(number)
        }
        Some(other) => other,
        None => return Ok(()),
    };
    edit.set("to", to);
    Ok(())
}

/// Returns the ONNX number of a type, for the types of the first operator sets.
pub(super) fn number_of(dtype: DType) -> Option<i64> {
    TYPES.iter().find(|(_, known, _)| *known == dtype).map(|(.., number)| *number)
}
