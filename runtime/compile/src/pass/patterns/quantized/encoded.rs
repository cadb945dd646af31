//! How numbers are stored between a dequantize node and a quantize one.

use udo_api::{DType, Shape, resolve_axis};

use crate::pass::{Candidate, Operand};
use udo_graph::graph::ValueId;
use udo_graph::memory::Tensor;

/// How numbers are stored as values: the node that says so, and what it says.
#[derive(Clone)]
pub(super) struct Encoded<'a> {
    pub(super) node: Candidate<'a>,
    pub(super) dtype: DType,
    /// The stored values, of numbers that are made of such.
    pub(super) values: Option<ValueId>,
    pub(super) scales: &'a [f32],
    pub(super) zeros: Vec<i32>,
    /// The axis that scales lie along; none where there is one for all.
    pub(super) axis: Option<usize>,
}

impl<'a> Encoded<'a> {
    /// What a quantize or dequantize node says.
    pub(super) fn of(node: &Candidate<'a>, dtype: DType, values: Option<ValueId>) -> Option<Self> {
        let scales = node.constant::<f32>(1)?;
        let zeros = match (node.input_id(2), dtype) {
            (None, DType::U8 | DType::I8 | DType::U16 | DType::I16 | DType::I32) => vec![0],
            (Some(_), DType::U8) => node.constant::<u8>(2)?.iter().map(|&z| z.into()).collect(),
            (Some(_), DType::I8) => node.constant::<i8>(2)?.iter().map(|&z| z.into()).collect(),
            (Some(_), DType::U16) => node.constant::<u16>(2)?.iter().map(|&z| z.into()).collect(),
            (Some(_), DType::I16) => node.constant::<i16>(2)?.iter().map(|&z| z.into()).collect(),
            (Some(_), DType::I32) => node.constant::<i32>(2)?.to_vec(),
            _ => return None,
        };
        let are_numbers = scales.iter().all(|scale| scale.is_normal() && *scale > 0.0);
        let is_plain = node.int("block_size") == Some(0) && are_numbers;
        let axis = match scales {
            [_] => None,
            _ => Some(resolve_axis(node.int("axis")?, node.input(0).rank())?),
        };
        is_plain.then_some(Self { node: *node, dtype, values, scales, zeros, axis })
    }

    /// The same, if it is one scale for all.
    pub(super) fn for_all(self) -> Option<Self> {
        let is_value = self.is_byte() || matches!(self.dtype, DType::U16 | DType::I16);
        (self.axis.is_none() && is_value).then_some(self)
    }

    /// Whether values have 8 bits.
    pub(super) fn is_byte(&self) -> bool {
        matches!(self.dtype, DType::U8 | DType::I8)
    }

    pub(super) fn is_as(&self, other: &Self) -> bool {
        let bits = |of: &Self| of.scales.first().map(|scale| scale.to_bits());
        self.dtype == other.dtype && bits(self) == bits(other) && self.zeros == other.zeros
    }

    /// The node that makes the numbers which are stored, where those between cut off what cannot be stored anyway. Quantizing keeps
    /// order, so a bound changes nothing where it is stored as the least or the largest value.
    pub(super) fn unclipped(&self, node: Candidate<'a>) -> Option<Candidate<'a>> {
        let (least, most) = match self.dtype {
            DType::U8 => (0.0, 255.0),
            DType::U16 => (0.0, 65_535.0),
            DType::I16 => (-32_768.0, 32_767.0),
            _ => (-128.0, 127.0),
        };
        let bound = |port: usize| match node.input_id(port) {
            None => Some(None),
            Some(_) => node.scalar(port).map(Some),
        };
        let (low, high) = match node.op()? {
            "Relu" => (Some(0.0), None),
            "Clip" => (bound(1)?, bound(2)?),
            _ => return Some(node),
        };
        let stored = |bound: f32| self.stored(bound);
        let is_cut = low.is_none_or(|low| stored(low).is_some_and(|low| low <= least))
            && high.is_none_or(|high| stored(high).is_some_and(|high| high >= most));
        is_cut.then(|| node.before(0)).flatten()
    }

    /// What a number is stored as, were there no end of values; none where there is no one scale.
    pub(super) fn stored(&self, number: f32) -> Option<f64> {
        let (&[scale], &[zero]) = (self.scales, self.zeros.as_slice()) else { return None };
        Some(f64::from((number / scale).round_ties_even()) + f64::from(zero))
    }

    /// A number as it is stored.
    pub(super) fn constant(&self, number: f32) -> Option<Operand> {
        let stored = self.stored(number).filter(|stored| !stored.is_nan())?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let tensor = match self.dtype {
            DType::U8 => Tensor::of(Shape::SCALAR, &[stored as u8]),
            DType::U16 => Tensor::of(Shape::SCALAR, &[stored as u16]),
            DType::I16 => Tensor::of(Shape::SCALAR, &[stored as i16]),
            _ => Tensor::of(Shape::SCALAR, &[stored as i8]),
        };
        tensor.ok().map(Operand::Constant)
    }

    pub(super) fn scale(&self) -> Option<Operand> {
        self.node.input_id(1).map(Operand::Value)
    }

    pub(super) fn zero(&self) -> Option<Operand> {
        if let Some(zero) = self.node.input_id(2) {
            return Some(Operand::Value(zero));
        }
        Tensor::zeros(self.dtype, Shape::SCALAR).ok().map(Operand::Constant)
    }

    /// Scale and zero point.
    pub(super) fn numbers(&self) -> Option<[Operand; 2]> {
        Some([self.scale()?, self.zero()?])
    }

    /// Values, scale and zero point.
    pub(super) fn triple(&self) -> Option<[Operand; 3]> {
        let [scale, zero] = self.numbers()?;
        Some([Operand::Value(self.values?), scale, zero])
    }
}
