//! Maps the arithmetic, activations, matrix products and type conversions of `NNRt`.

use udo_api::DType;

use super::{Lower, Result, invalid};
use udo_graph::graph::{Attr, ValueId};

/// The numbers of element types in `NNRt`.
const TYPES: [(i64, DType); 12] = [
    (1, DType::Bool),
    (2, DType::I8),
    (3, DType::I16),
    (4, DType::I32),
    (5, DType::I64),
    (6, DType::U8),
    (7, DType::U16),
    (8, DType::U32),
    (9, DType::U64),
    (10, DType::F16),
    (11, DType::F32),
    (12, DType::F64),
];

/// Refuses a type attribute that contradicts the tensor's type.
pub(super) fn check_type(what: &str, number: i64, dtype: DType) -> Result<()> {
    let number_of = |dtype: DType| TYPES.iter().find(|(_, known)| *known == dtype);
    let expected = number_of(dtype).map_or(0, |(expected, _)| *expected);
    if expected == number && expected != 0 {
        return Ok(());
    }

    Err(invalid(format!("{what} is {number}, expected {expected}, as its tensor is {dtype}")))
}

pub(super) fn cast(lower: &mut Lower<'_>) -> Result<()> {
    let to = lower.output(0)?.dtype();
    check_type("input 1", lower.known_int(1)?, to)?;
    let x = lower.x(0)?;
    lower.give_cast(0, x)
}

pub(super) fn quant_dtype_cast(lower: &mut Lower<'_>) -> Result<()> {
    let (from, to) = (*lower.input(0)?, *lower.output(0)?);
    for (name, dtype) in [("src_t", from.dtype()), ("dst_t", to.dtype())] {
        if lower.has(name) {
            check_type(&format!("attribute {name:?}"), lower.int(name)?, dtype)?;
        }
    }
    if from.encodings().is_none() && to.encodings().is_none() {
        return Err(invalid(format!(
            "input 0 is {from} and output 0 is {to}, expected one of them quantized"
        )));
    }
    let x = lower.x(0)?;
    lower.give(0, x)
}

pub(super) fn eltwise(lower: &mut Lower<'_>) -> Result<()> {
    let op = match lower.int("mode")? {
        0 => "Mul",
        1 => "Add",
        _ => "Max",
    };
    let inputs = [lower.x(0)?, lower.x(1)?];
    let y = lower.node(op, &inputs, &[]);
    lower.give(0, y)
}

/// Returns x * scale + shift of input 0 and two attributes, without nodes for a scale of 1 or a shift of 0.
fn affine(lower: &mut Lower<'_>) -> Result<ValueId> {
    let mut x = lower.x(0)?;
    let (scale, shift) = (lower.float("scale")?, lower.float("shift")?);
    for (op, number, neutral) in [("Mul", scale, 1f64), ("Add", shift, 0.0)] {
        if number.to_bits() != neutral.to_bits() {
            let number = lower.number(0, number)?;
            x = lower.node(op, &[x, number], &[]);
        }
    }
    Ok(x)
}

pub(super) fn pow(lower: &mut Lower<'_>) -> Result<()> {
    let base = affine(lower)?;
    let exponent = lower.x(1)?;
    let y = lower.node("Pow", &[base, exponent], &[]);
    lower.give(0, y)
}

pub(super) fn exp(lower: &mut Lower<'_>) -> Result<()> {
    let base = lower.float("base")?;
    let mut x = affine(lower)?;
    // A base of -1 means e.
    if base.to_bits() != (-1f64).to_bits() {
        if base.is_nan() || base <= 0.0 {
            return Err(invalid(format!(
                "attribute \"base\" is {base}, expected a number above 0, or -1 for e"
            )));
        }
        let log = lower.number(0, base.ln())?;
        x = lower.node("Mul", &[x, log], &[]);
    }
    let y = lower.node("Exp", &[x], &[]);
    lower.give(0, y)
}

pub(super) fn scale(lower: &mut Lower<'_>) -> Result<()> {
    let axis = Lower::axis_of(lower.int("axis")?, lower.rank(0)?)?;
    let mut y = lower.x(0)?;
    for (port, op) in [(1, "Mul"), (2, "Add")] {
        let rank = lower.rank(port)?;
        // The axes of input 0 after those that the scale has, to which it must be broadcast.
        let later_axes = lower.rank(0)?.checked_sub(axis).and_then(|left| left.checked_sub(rank));
        let later_axes = later_axes.ok_or_else(|| {
            invalid(format!(
                "input {port} has {rank} dimensions from axis {axis} on, expected fewer"
            ))
        })?;
        let mut value = lower.x(port)?;
        if later_axes > 0 {
            let first = i64::try_from(rank).unwrap_or(i64::MAX);
            let axes: Vec<i64> = (first..).take(later_axes).collect();
            let axes = lower.int_list(&axes)?;
            value = lower.node("Unsqueeze", &[value, axes], &[]);
        }
        y = lower.node(op, &[y, value], &[]);
    }
    lower.give_active(y)
}

pub(super) fn full_connection(lower: &mut Lower<'_>) -> Result<()> {
    let has_bias = lower.count() > 2;
    if lower.has("has_bias") && lower.flag("has_bias")? != has_bias {
        let count = lower.count();
        return Err(invalid(format!(
            "attribute \"has_bias\" does not go with {count} inputs, expected 3 with a bias, else 2"
        )));
    }
    let rank = lower.rank(0)?;
    let [_, depth] = lower.extents(1)?[..] else {
        return Err(invalid(format!("input 1 is {}, expected 2 dimensions", lower.input(1)?)));
    };
    let depth = i64::try_from(depth).unwrap_or(i64::MAX);
    let axis = if lower.flag("use_axis")? {
        Some(Lower::axis_of(lower.int("axis")?, rank)?)
    } else {
        None
    };
    let (x, w) = (lower.x(0)?, lower.x(1)?);
    let bias = if has_bias { Some(lower.bias(2)?) } else { None };
    let y = match axis {
        Some(axis) if axis != 1 => {
            let mut dims = vec![0; axis];
            dims.push(depth);
            let rows = lower.reshaped(x, &dims)?;
            let w = lower.transposed(w, &[1, 0]);
            let y = lower.node("MatMul", &[rows, w], &[]);
            bias.map_or(y, |bias| lower.node("Add", &[y, bias], &[]))
        }
        _ => {
            let rows = if rank == 2 { x } else { lower.reshaped(x, &[-1, depth])? };
            lower.node_of("Gemm", &[Some(rows), Some(w), bias], &[("transB", Attr::Int(1))])
        }
    };
    lower.give_active(y)
}

pub(super) fn mat_mul(lower: &mut Lower<'_>) -> Result<()> {
    let inputs = [operand(lower, 0, "transpose_a")?, operand(lower, 1, "transpose_b")?];
    let y = lower.node("MatMul", &inputs, &[]);
    lower.give_active(y)
}

/// Returns an operand of a matrix product, transposed if the attribute of this name is set.
fn operand(lower: &mut Lower<'_>, port: usize, name: &str) -> Result<ValueId> {
    let (x, rank) = (lower.x(port)?, lower.rank(port)?);
    if !lower.flag(name)? {
        return Ok(x);
    }
    let mut perm: Vec<i64> = (0i64..).take(rank).collect();
    let [.., row, column] = perm.as_mut_slice() else {
        let found = lower.input(port)?;
        return Err(invalid(format!(
            "input {port} is {found}, expected two dimensions to transpose"
        )));
    };
    std::mem::swap(row, column);
    Ok(lower.transposed(x, &perm))
}

pub(super) fn rsqrt(lower: &mut Lower<'_>) -> Result<()> {
    let x = lower.x(0)?;
    let root = lower.node("Sqrt", &[x], &[]);
    let y = lower.node("Reciprocal", &[root], &[]);
    lower.give(0, y)
}

pub(super) fn square(lower: &mut Lower<'_>) -> Result<()> {
    let x = lower.x(0)?;
    let y = lower.node("Mul", &[x, x], &[]);
    lower.give(0, y)
}

pub(super) fn relu6(lower: &mut Lower<'_>) -> Result<()> {
    let x = lower.x(0)?;
    let y = lower.clipped(x, Some(0.0), Some(6.0))?;
    lower.give(0, y)
}

pub(super) fn clip(lower: &mut Lower<'_>) -> Result<()> {
    let bound = |name| if lower.has(name) { lower.float(name).map(Some) } else { Ok(None) };
    let (min, max) = (bound("min")?, bound("max")?);
    let x = lower.x(0)?;
    let y = lower.clipped(x, min, max)?;
    lower.give(0, y)
}

pub(super) fn gelu(lower: &mut Lower<'_>) -> Result<()> {
    let approximation = if lower.flag("approximate")? { "tanh" } else { "none" };
    let x = lower.x(0)?;
    let y = lower.node("Gelu", &[x], &[("approximate", Attr::Text(approximation.to_owned()))]);
    lower.give(0, y)
}

pub(super) fn leaky_relu(lower: &mut Lower<'_>) -> Result<()> {
    let slope = lower.float("negative_slope")?;
    let x = lower.x(0)?;
    let y = lower.node("LeakyRelu", &[x], &[("alpha", Attr::Float(slope))]);
    lower.give(0, y)
}

/// Lowers y = clip((x + 3) / 6, 0, 1).
pub(super) fn hard_sigmoid(lower: &mut Lower<'_>) -> Result<()> {
    let x = lower.x(0)?;
    let attrs = [("alpha", Attr::Float(1.0 / 6.0)), ("beta", Attr::Float(0.5))];
    let y = lower.node("HardSigmoid", &[x], &attrs);
    lower.give(0, y)
}

pub(super) fn not_equal(lower: &mut Lower<'_>) -> Result<()> {
    let inputs = [lower.x(0)?, lower.x(1)?];
    let equal = lower.node("Equal", &inputs, &[]);
    let y = lower.node("Not", &[equal], &[]);
    lower.give(0, y)
}

/// Lowers y = a - b * trunc(a / b), which has the sign of a.
pub(super) fn modulus(lower: &mut Lower<'_>) -> Result<()> {
    let inputs = [lower.x(0)?, lower.x(1)?];
    let y = lower.node("Mod", &inputs, &[("fmod", Attr::Int(1))]);
    lower.give(0, y)
}
