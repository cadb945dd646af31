//! Parameter values to try operators with.

use std::sync::Arc;

use udo_api::{DType, OpDef, Param, ParamKind, Shape, TensorDesc};
use udo_host::{Buffer, ParamSetting, TensorSetting};

/// Values of all parameters of a node.
pub(crate) type Params = Vec<(&'static str, ParamSetting)>;

/// Values of required integers, in order of trial.
const INTS: [i64; 5] = [1, 0, 2, -1, 3];

/// Returns parameter sets with optional parameters left out; several if some are required.
pub(crate) fn guesses(op: &OpDef, rank: usize) -> Vec<Params> {
    let params = op.schema().params();
    let is_wanted = |param: &Param| !param.is_optional();
    let count = if params.iter().any(is_wanted) { INTS.len() } else { 1 };
    let guess = |turn: usize| -> Params {
        let mut floats = 0;
        let setting = |param: &Param| {
            if param.is_optional() {
                return (param.name(), ParamSetting::default_of(param));
            }
            floats += 1;
            (param.name(), required(param, turn, floats, rank))
        };
        params.iter().map(setting).collect()
    };
    (0..count).map(guess).collect()
}

/// Returns a value of a required parameter.
fn required(param: &Param, turn: usize, number: u8, rank: usize) -> ParamSetting {
    let int = INTS.get(turn).copied().unwrap_or(1);
    // Later numbers are larger, as upper limits are.
    let float = 0.75 * f64::from(number) - 1.25;
    let is_float = param.dtype().is_some_and(DType::is_float);
    let len = if turn == 2 { rank.max(1) } else { turn.max(1) };
    match param.kind() {
        Some(ParamKind::Scalar) if is_float => ParamSetting::Float(float),
        Some(ParamKind::Scalar) if param.dtype() == Some(DType::Bool) => ParamSetting::Int(int & 1),
        Some(ParamKind::Scalar) => ParamSetting::Int(int),
        Some(ParamKind::Text) => ParamSetting::Text(String::new()),
        Some(ParamKind::Texts) => ParamSetting::Texts(vec![String::new(); len]),
        Some(ParamKind::Tensor) if is_float => ParamSetting::Floats(vec![0.5; len]),
        Some(ParamKind::Tensor) => ParamSetting::Ints(vec![int.max(1); len]),
        Some(ParamKind::TypedTensor) => typed(param),
        Some(ParamKind::Graph) | None => ParamSetting::Absent,
    }
}

fn typed(param: &Param) -> ParamSetting {
    let made = param.types().iter().next().and_then(|dtype| {
        let desc = TensorDesc::new(dtype, Shape::new(&[1]).ok()?);
        TensorSetting::new(desc, Arc::new(Buffer::zeroed(dtype.size_bytes()).ok()?))
    });
    made.map_or(ParamSetting::Absent, ParamSetting::Tensor)
}

/// Returns copies of `base` with one numeric parameter changed at a time.
pub(crate) fn variations(op: &OpDef, base: &Params) -> Vec<Params> {
    let mut made = Vec::new();
    for (at, param) in op.schema().params().iter().enumerate() {
        let Some((_, setting)) = base.get(at) else { continue };
        for other in others(param, setting) {
            let mut params = base.clone();
            if let Some(slot) = params.get_mut(at) {
                slot.1 = other;
            }
            made.push(params);
        }
    }
    made
}

/// An integer that does not fit 32 bits, or the fraction of a real number.
pub(crate) const WIDE: i64 = (1 << 60) + 3;

/// Returns other values of a numeric parameter.
fn others(param: &Param, setting: &ParamSetting) -> Vec<ParamSetting> {
    let is_float = param.dtype().is_some_and(DType::is_float);
    match (param.kind(), setting) {
        (Some(ParamKind::Scalar), ParamSetting::Float(value)) => {
            let less = if *value == 0.0 { -0.5 } else { value * 0.5 };
            [value * 1.25 + 0.125, less].map(ParamSetting::Float).to_vec()
        }
        (Some(ParamKind::Scalar), ParamSetting::Int(value)) => {
            let other = if matches!(value, 0 | 1) { 1 - value } else { value.wrapping_sub(1) };
            let is_truth = param.dtype() == Some(DType::Bool);
            let more = (!is_truth).then(|| value.wrapping_add(1).max(2));
            let first = (*value < 0).then_some(0);
            let wide = (param.dtype() == Some(DType::I64)).then_some(WIDE);
            let below = (!is_truth && *value == 0).then_some(-1);
            let all = [Some(other), more, first, below, wide, wide.map(i64::wrapping_neg)];
            let all = all.into_iter().flatten();
            all.map(ParamSetting::Int).collect()
        }
        (Some(ParamKind::Scalar), ParamSetting::Absent) if is_float => {
            vec![ParamSetting::Float(0.5)]
        }
        (Some(ParamKind::Scalar), ParamSetting::Absent) => vec![ParamSetting::Int(1)],
        (Some(ParamKind::Tensor), ParamSetting::Absent) if !is_float => {
            vec![ParamSetting::Ints(vec![0])]
        }
        _ => Vec::new(),
    }
}

/// Returns copies of `base` with one parameter at a time set to an unusual value.
pub(crate) fn oddities(op: &OpDef, base: &Params) -> Vec<(String, Params)> {
    let mut made = Vec::new();
    for (at, param) in op.schema().params().iter().enumerate() {
        let is_float = param.dtype().is_some_and(DType::is_float);
        let odd: Vec<ParamSetting> = match param.kind() {
            Some(ParamKind::Scalar) if is_float => {
                [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300].map(ParamSetting::Float).to_vec()
            }
            Some(ParamKind::Scalar) if param.dtype() == Some(DType::Bool) => {
                [0, 1].map(ParamSetting::Int).to_vec()
            }
            Some(ParamKind::Scalar) => {
                [0, -1, -9, 7, 1 << 20, i64::MAX, i64::MIN].map(ParamSetting::Int).to_vec()
            }
            Some(ParamKind::Text) => vec![ParamSetting::Text("no such word".to_owned())],
            Some(ParamKind::Tensor) if is_float => {
                vec![ParamSetting::Floats(Vec::new()), ParamSetting::Floats(vec![f64::NAN; 9])]
            }
            Some(ParamKind::Tensor) => vec![
                ParamSetting::Ints(Vec::new()),
                ParamSetting::Ints(vec![0; 2]),
                ParamSetting::Ints(vec![-7; 3]),
                ParamSetting::Ints(vec![i64::MAX; 9]),
            ],
            Some(ParamKind::Texts) => vec![ParamSetting::Texts(Vec::new())],
            Some(ParamKind::TypedTensor | ParamKind::Graph) | None => Vec::new(),
        };
        for setting in odd {
            let mut params = base.clone();
            let said = format!("{} = {setting:?}", param.name());
            if let Some(slot) = params.get_mut(at) {
                slot.1 = setting;
            }
            made.push((said, params));
        }
    }
    made
}
