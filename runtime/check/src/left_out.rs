//! The tensor that a kernel gets for an omitted input: the default of its port, as in the runtime.

use std::sync::Arc;

use udo_api::{DType, Port, Shape, TensorDesc, ValueKind};
use udo_host::Buffer;

use crate::node::Input;
use crate::values::{encoding_of, push, quantized};

/// Returns a port's default as a constant of the kernel's type; `None` if the port has no default.
pub(crate) fn default_of(port: &Port, dtype: DType, is_quantized: bool) -> Option<Input> {
    let (numbers, dims) = numbers(port.default_value())?;
    let desc = TensorDesc::new(dtype, Shape::new(&dims).ok()?);
    let encoding = encoding_of(dtype, &numbers).filter(|_| is_quantized);
    let (desc, bytes) = if let Some(encoding) = encoding {
        (desc.with_encoding(encoding), quantized(dtype, encoding, &numbers)?)
    } else {
        let mut bytes = Vec::new();
        for number in &numbers {
            append(&mut bytes, dtype, *number);
        }
        (desc, bytes)
    };
    Some(Input { desc, dims, constant: Some(Arc::new(Buffer::from_bytes(&bytes).ok()?)) })
}

#[expect(clippy::cast_possible_truncation, reason = "a default is one of its port's numbers")]
fn append(bytes: &mut Vec<u8>, dtype: DType, number: f64) {
    if dtype.is_float() {
        push(bytes, dtype, number);
    } else {
        bytes.extend((number as i64).to_le_bytes().into_iter().take(dtype.size_bytes()));
    }
}

#[expect(clippy::cast_precision_loss, reason = "defaults are small")]
fn numbers(value: ValueKind) -> Option<(Vec<f64>, Vec<usize>)> {
    let real = |value: &i64| *value as f64;
    match value {
        ValueKind::Float(number) => Some((vec![number], Vec::new())),
        ValueKind::Floats(numbers) => Some((numbers.to_vec(), vec![numbers.len()])),
        ValueKind::Int(number) => Some((vec![real(&number)], Vec::new())),
        ValueKind::Ints(numbers) => Some((numbers.iter().map(real).collect(), vec![numbers.len()])),
        ValueKind::None | ValueKind::Str(_) | ValueKind::Strs(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::numbers;
    use udo_api::Value;
    use udo_api::types::{F32, I64, U8};

    #[test]
    fn a_default_is_stored_as_the_kernel_takes_it() {
        const PORT: Port = Port::optional("w", F32.or(U8)).default(Value::floats(&[2.0, 0.5]));
        const WHOLE: Port = Port::optional("n", I64).default(Value::int(-3));
        let whole = default_of(&WHOLE, DType::I64, false).unwrap();
        assert_eq!(whole.constant.unwrap().bytes(), (-3i64).to_le_bytes());
        assert!(whole.dims.is_empty());
        for (dtype, is_quantized) in [(DType::F32, false), (DType::F16, false), (DType::U8, true)] {
            let input = default_of(&PORT, dtype, is_quantized).unwrap();
            let found = numbers(&input.desc, input.constant.unwrap().bytes());
            let near =
                found.iter().zip([2.0, 0.5]).all(|(found, wanted)| (found - wanted).abs() < 0.01);
            assert!(near && input.dims == [2], "{dtype}: {found:?}");
        }
        assert!(default_of(&Port::optional("w", F32), DType::F32, false).is_none());
    }
}
