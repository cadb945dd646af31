//! Tensors of ONNX files: element types, and elements in typed fields, raw bytes or external files.

use std::fmt::Arguments;

use prost::Message;
use prost::bytes::Bytes;
use udo_api::{Bf16, Bool, DType, F16, Shape};

use super::ImportError;
use super::external::Files;
use super::proto::TensorProto;
use super::raw::{from_raw, size_error};
use crate::memory::{Tensor, TensorStorage};

/// Returns the element type with this code, or an error that names the type as ONNX does.
pub(super) fn dtype_of_code(place: Arguments<'_>, code: i32) -> Result<DType, ImportError> {
    // The names of types from 8 on in `TensorProto.DataType` of onnx.proto. Supported types are left empty.
    const FIRST: i32 = 8;
    const NAMES: [&str; 19] = [
        "string",
        "",
        "",
        "",
        "",
        "",
        "complex64",
        "complex128",
        "",
        "float8e4m3fn",
        "float8e4m3fnuz",
        "float8e5m2",
        "float8e5m2fnuz",
        "uint4",
        "int4",
        "float4e2m1",
        "float8e8m0",
        "uint2",
        "int2",
    ];
    DType::from_onnx(code.into()).ok_or_else(|| {
        let index = code.checked_sub(FIRST).and_then(|index| usize::try_from(index).ok());
        let found = match index.and_then(|index| NAMES.get(index)) {
            Some(name) if !name.is_empty() => format!("element type {name}"),
            Some(_) | None => format!("element type {code}"),
        };
        ImportError::unsupported(place, found, "a float, an integer of 8 bits or more, or bool")
    })
}

/// Returns the tensor of an ONNX message. `files` has the external data.
pub(super) fn tensor(
    place: Arguments<'_>,
    proto: &TensorProto,
    files: &Files<'_>,
) -> Result<Tensor, ImportError> {
    if proto.segment.is_some() {
        // Field 3 of a `TensorProto` is also a field of the messages of sequences and optional values.
        let found = "a tensor's segment, a sequence or an optional value";
        return Err(ImportError::unsupported(place, found, "a whole tensor"));
    }
    let dtype = dtype_of_code(place, proto.data_type)?;
    let shape = shape(place, &proto.dims)?;
    match proto.data_location {
        0 => inline(place, proto, dtype, shape),
        1 => files.tensor(place, &proto.external_data, dtype, shape),
        other => Err(ImportError::malformed(
            place,
            format!("data location {other}"),
            "0 (this file) or 1 (another file)",
        )),
    }
}

/// Returns the shape with the dimensions of a message.
pub(super) fn shape(place: Arguments<'_>, dims: &[i64]) -> Result<Shape, ImportError> {
    let negative = |_| {
        ImportError::malformed(place, format!("shape {dims:?}"), "extents that are not negative")
    };
    let extents = dims.iter().map(|&d| usize::try_from(d)).collect::<Result<Vec<_>, _>>();
    let extents = extents.map_err(negative)?;
    shape_of(place, &extents)
}

/// Returns the shape with these extents.
pub(super) fn shape_of(place: Arguments<'_>, extents: &[usize]) -> Result<Shape, ImportError> {
    const EXPECTED: &str = "at most 8 dimensions and an addressable size";
    Shape::new(extents)
        .map_err(|_| ImportError::unsupported(place, format!("shape {extents:?}"), EXPECTED))
}

/// Returns a tensor whose elements are in the message: in `raw_data`, or in the field for its type.
fn inline(
    place: Arguments<'_>,
    proto: &TensorProto,
    dtype: DType,
    shape: Shape,
) -> Result<Tensor, ImportError> {
    let typed_field = match dtype {
        DType::F32 => "float_data",
        DType::F64 => "double_data",
        DType::I64 => "int64_data",
        DType::U32 | DType::U64 => "uint64_data",
        DType::Str => "string_data",
        DType::I8
        | DType::I16
        | DType::I32
        | DType::U8
        | DType::U16
        | DType::F16
        | DType::Bf16
        | DType::Bool => "int32_data",
    };
    let lengths = [
        ("raw_data", proto.raw_data.len()),
        ("float_data", proto.float_data.len()),
        ("int32_data", proto.int32_data.len()),
        ("string_data", proto.string_data.len()),
        ("int64_data", proto.int64_data.len()),
        ("double_data", proto.double_data.len()),
        ("uint64_data", proto.uint64_data.len()),
    ];
    let used: Vec<_> = lengths.iter().filter(|(_, len)| *len > 0).map(|(name, _)| *name).collect();
    match *used.as_slice() {
        [] => {}
        ["raw_data"] => return in_model(place, dtype, shape, &proto.raw_data),
        [field] if field == typed_field => {}
        _ => {
            let found = format!("elements in {}", used.join(" and "));
            let expected = format!("{dtype} in {typed_field} or raw_data");
            return Err(ImportError::malformed(place, found, expected));
        }
    }
    let ints = &proto.int32_data;
    let tensor = match dtype {
        DType::F32 => Tensor::from_slice(shape, &proto.float_data),
        DType::F64 => Tensor::from_slice(shape, &proto.double_data),
        DType::I32 => Tensor::from_slice(shape, ints),
        DType::I64 => Tensor::from_slice(shape, &proto.int64_data),
        DType::U64 => Tensor::from_slice(shape, &proto.uint64_data),
        DType::U32 => {
            Tensor::from_slice(shape, &narrow::<u32, _>(place, dtype, &proto.uint64_data)?)
        }
        DType::I8 => Tensor::from_slice(shape, &narrow::<i8, _>(place, dtype, ints)?),
        DType::I16 => Tensor::from_slice(shape, &narrow::<i16, _>(place, dtype, ints)?),
        DType::U8 => Tensor::from_slice(shape, &narrow::<u8, _>(place, dtype, ints)?),
        DType::U16 => Tensor::from_slice(shape, &narrow::<u16, _>(place, dtype, ints)?),
        DType::F16 => {
            let bits: Vec<u16> = narrow(place, dtype, ints)?;
            Tensor::from_slice(shape, &bits.into_iter().map(F16).collect::<Vec<_>>())
        }
        DType::Bf16 => {
            let bits: Vec<u16> = narrow(place, dtype, ints)?;
            Tensor::from_slice(shape, &bits.into_iter().map(Bf16).collect::<Vec<_>>())
        }
        DType::Bool => {
            Tensor::from_slice(shape, &ints.iter().map(|&i| Bool::from(i != 0)).collect::<Vec<_>>())
        }
        DType::Str => {
            return Err(ImportError::unsupported(place, "a tensor of strings", "numbers"));
        }
    };
    tensor.map_err(|e| size_error(place, &e))
}

/// Converts the elements of a wider field to the tensor's element type.
fn narrow<To, From>(
    place: Arguments<'_>,
    dtype: DType,
    wide: &[From],
) -> Result<Vec<To>, ImportError>
where
    From: Copy + std::fmt::Display,
    To: TryFrom<From>,
{
    let element = |&value: &From| {
        To::try_from(value).map_err(|_| {
            ImportError::malformed(place, format!("element {value}"), format!("an {dtype}"))
        })
    };
    wide.iter().map(element).collect()
}

/// Tensors of fewer bytes are copied from the model file at once: they are not worth keeping the file in memory.
const LAZY_BYTES: usize = 64 << 10;

/// Creates a tensor from raw bytes of the model file. Large tensors of weight types refer to the file until they are first
/// read. Types of shapes and indices are read at once.
fn in_model(
    place: Arguments<'_>,
    dtype: DType,
    shape: Shape,
    raw: &Bytes,
) -> Result<Tensor, ImportError> {
    let is_weight_type = dtype.is_float() || matches!(dtype, DType::I8 | DType::U8);
    if !is_weight_type || raw.len() < LAZY_BYTES {
        return from_raw(place, dtype, shape, raw);
    }
    Tensor::in_model(dtype, shape, raw.clone()).map_err(|e| size_error(place, &e.into()))
}

/// Decodes a `TensorProto` file, the format of ONNX's own test data.
///
/// # Errors
/// Fails if the bytes are not such a file, the element type is not supported, or the elements do not match type and shape.
pub fn tensor_pb(bytes: &[u8]) -> Result<Tensor, ImportError> {
    let proto = TensorProto::decode(bytes).map_err(|e| ImportError::WrongBytes {
        name: "the tensor".to_owned(),
        expected: "an ONNX TensorProto",
        reason: e.to_string(),
    })?;
    let tensor = match proto.name.as_str() {
        "" => tensor(format_args!("the tensor"), &proto, &Files::empty()),
        name => tensor(format_args!("tensor {name:?}"), &proto, &Files::empty()),
    };
    tensor?.apart().map_err(|e| size_error(format_args!("the tensor"), &e.into()))
}

/// Encodes `tensor` as an ONNX message.
pub(crate) fn to_proto(tensor: &Tensor, name: &str) -> TensorProto {
    TensorProto {
        // No buffer has more bytes than an i64 can count.
        dims: tensor.dims().iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect(),
        data_type: tensor.dtype().onnx(),
        name: name.to_owned(),
        raw_data: Bytes::copy_from_slice(tensor.bytes()),
        ..TensorProto::default()
    }
}
