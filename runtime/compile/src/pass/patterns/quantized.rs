//! Replaces a float operator between `DequantizeLinear` and `QuantizeLinear` nodes (a group) by an operator on
//! quantized values, so that cores compute in integers:
//!
//! * QuantizeLinear(op(DequantizeLinear(x), ..)) -> QLinear-op(x, ..)
//! * QuantizeLinear(f(DequantizeLinear(x))) with an elementwise f and 8 bits -> Lookup(x), a table of 256 entries
//!
//! If a group stays, the pass reports the reason.

use udo_api::{DType, Dim, Facts, Shape, resolve_axis};
use udo_simd::gemm_u8::MAX_K;

use crate::pass::{Candidate, Match, Operand, Replacement};
use udo_graph::graph::{Attr, ValueId};
use udo_graph::memory::Tensor;

const DEQUANTIZE: &str = "DequantizeLinear";

/// The domain of most operators on quantized values.
const MICROSOFT: &str = "com.microsoft";

/// The first operator set in which `Softmax` normalizes over one axis.
const ONE_AXIS: i64 = 13;

/// The domain of this project's own operators.
const UDO: &str = "udo";

/// The largest bias, so that 32-bit sums with it do not overflow.
const MAX_BIAS: f64 = (1u32 << 30) as f64;

/// The replacement of a group, or the reason why it stays.
type GroupResult = Result<Replacement, String>;

/// Returns the operator on quantized values whose last step is this node.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Match {
    if node.op() != Some("QuantizeLinear") {
        return Match::Nothing;
    }
    let encoding = node.output().dtype().and_then(|dtype| Encoded::read(node, dtype, None));
    let Some(result) = encoding.and_then(Encoded::with_one_scale) else {
        let why = "it quantizes to a type other than 8 or 16 bits with one known scale";
        return Match::Stays(why.to_owned());
    };
    if let Some(table) = looked_up(node, &result) {
        return Match::Instead(table);
    }
    if let Some((split, index)) =
        node.producer_and_output(0).filter(|(producer, _)| producer.op() == Some("Split"))
    {
        let slice = Group { op: split, result }.piece(index);
        return slice.map_or_else(Match::Stays, Match::Instead);
    }
    // An operand that was not dequantized has no quantized form.
    let Some(producer) = node.sole_producer(0).filter(reads_dequantized) else {
        return Match::Nothing;
    };
    if producer.op().is_none() {
        return Match::Stays(named(&producer, "is of a package, which computes in floating point"));
    }
    let replacement = match result.unclipped(producer) {
        Some(op) => Group { op, result }.quantized_op(),
        None => Err(named(&producer, "clips values inside the quantized range")),
    };
    replacement.map_or_else(Match::Stays, Match::Instead)
}

/// Returns whether a node, or the node whose result it clips, reads a dequantized value or a product of one.
fn reads_dequantized(node: &Candidate<'_>) -> bool {
    let reads_directly = |node: &Candidate<'_>| {
        let mut ports = 0..node.node().node.inputs.len();
        ports.any(|port| {
            node.producer(port).is_some_and(|producer| producer.op() == Some(DEQUANTIZE))
        })
    };
    let is_sum = |node: &Candidate<'_>| {
        let is_product = |port: usize| {
            node.sole_producer(port).is_some_and(|producer| reads_directly(&producer))
        };
        node.op() == Some("Add") && (0..2).any(is_product)
    };
    let reads = |node: &Candidate<'_>| reads_directly(node) || is_sum(node);
    reads(node) || node.sole_producer(0).is_some_and(|producer| reads(&producer))
}

/// Formats a reason with the node's name and operator.
fn named(node: &Candidate<'_>, reason: &str) -> String {
    let node = &node.node().node;
    format!("node {:?} ({}) {reason}", node.name, node.op)
}

/// Returns a table lookup, if all nodes between dequantizing and quantizing are functions of one element. The table is
/// the result of these nodes for all 256 quantized values.
fn looked_up(last: &Candidate<'_>, result: &Encoded<'_>) -> Option<Replacement> {
    let (mut nodes, mut reader, mut port) = (vec![(last.id(), 0)], *last, 0);
    let values = loop {
        let node = reader.producer(port)?;
        if node.op_or_folded() == Some(DEQUANTIZE) {
            let encoded = Encoded::read(&node, node.input(0).dtype()?, node.input_id(0))?;
            nodes.push((node.id(), 0));
            let has_result_type =
                |encoded: &Encoded<'_>| encoded.dtype == result.dtype && encoded.is_byte();
            break encoded.with_one_scale().filter(has_result_type)?.values?;
        }
        reader = reader.sole_producer(port)?;
        port = function_of(&reader)?;
        nodes.push((reader.id(), port));
    };
    let named_after = nodes.get(1).filter(|_| nodes.len() > 2).map(|(id, _)| *id);
    nodes.reverse();
    let shape = Shape::new(&[256]).ok()?;
    let bits: Vec<u8> = (0..=u8::MAX).collect();
    let all_values = Tensor::from_bytes(result.dtype, shape, &bits).ok()?;
    let table =
        last.applied(&nodes, all_values).filter(|table| table.bytes().len() == bits.len())?;
    let entries = table.bytes().iter().map(|&bits| bits.into()).collect();
    Some(Replacement {
        attrs: vec![("table", Attr::Ints(entries))],
        named_after,
        shared: vec![reader.input_id(port)?],
        ..Replacement::new("udo", "Lookup", vec![Operand::Value(values)])
    })
}

/// Returns the port of the only variable input of an elementwise function, if its constants have one element each.
fn function_of(node: &Candidate<'_>) -> Option<usize> {
    node.op()?;
    let inputs = node.node().node.inputs.iter().enumerate();
    let mut ports = inputs.filter(|(_, input)| input.is_some()).map(|(port, _)| port);
    let mut variable = ports.clone().filter(|&port| node.tensor(port).is_none());
    let port = variable.next().filter(|_| variable.next().is_none())?;
    let has_one_element =
        |port: usize| node.tensor(port).is_none_or(|tensor| tensor.desc().len() == 1);
    let is_function = node.facts().has(Facts::ELEMENTWISE)
        && node.makes_one()
        && ports.all(has_one_element)
        && node.input(port).dtype() == Some(DType::F32)
        && node.is_shaped_alike(port);
    is_function.then_some(port)
}

impl Group<'_> {
    /// Returns the operator on quantized values that computes the group.
    fn quantized_op(&self) -> GroupResult {
        match self.op.op().unwrap_or_default() {
            "Add" => self.biased().unwrap_or_else(|| self.with_operands("QLinearAdd", 2)),
            "AveragePool" => self.with_operands("QLinearAveragePool", 1),
            "Concat" => self.concat(),
            "Conv" => self.convolution(("", "QLinearConv"), 0),
            "ConvTranspose" => self.convolution((UDO, "QLinearConvTranspose"), 1),
            "Gemm" => self.gemm(),
            "GlobalAveragePool" => self.with_operands("QLinearGlobalAveragePool", 1),
            "MatMul" => self.matmul(),
            "Mul" => self.with_operands("QLinearMul", 2),
            "Pad" => self.pad(),
            "Softmax" => self.softmax(),
            "Sum" if self.op.node().node.inputs.len() == 2 => self.with_operands("QLinearAdd", 2),
            _ => self.movement(),
        }
    }
}

/// A float operator whose result is quantized.
struct Group<'a> {
    /// The float operator.
    op: Candidate<'a>,
    /// The encoding of its result.
    result: Encoded<'a>,
}

impl<'a> Group<'a> {
    /// Formats the reason why the group stays.
    fn stays(&self, why: &str) -> String {
        named(&self.op, why)
    }

    /// Returns the encoding of a dequantized operand.
    fn operand(&self, port: usize) -> Option<Encoded<'a>> {
        let node = self.op.producer(port)?;
        let is_dequantize = node.op_or_folded() == Some(DEQUANTIZE);
        let dtype = node.input(0).dtype().filter(|_| is_dequantize)?;
        Encoded::read(&node, dtype, node.input_id(0))
    }

    /// Returns an operand with one scale.
    fn activation(&self, port: usize) -> Result<Encoded<'a>, String> {
        self.operand(port).and_then(Encoded::with_one_scale).ok_or_else(|| {
            self.stays(&format!(
                "has an input, {port}, that is not dequantized from 8 or 16 bits with one scale"
            ))
        })
    }

    /// Returns an 8-bit operand with one scale, or with one scale for each result along `axis`.
    fn weights(&self, port: usize, axis: usize) -> Result<Encoded<'a>, String> {
        let weights = self.operand(port);
        let fits = |weights: &Encoded<'_>| {
            weights.is_byte() && weights.axis.is_none_or(|scale_axis| scale_axis == axis)
        };
        weights.filter(fits).ok_or_else(|| {
            self.stays("has weights that are not dequantized from 8 bits with one scale, or one for each output channel")
        })
    }

    /// Refuses sums of more products than the kernels support.
    fn check_depth(&self, depth: usize) -> Result<(), String> {
        if depth > MAX_K {
            return Err(self.stays(&format!("sums {depth} products, more than {MAX_K}")));
        }
        Ok(())
    }

    /// Returns values, scale and zero point of an operand.
    fn triple(&self, operand: &Encoded<'_>) -> Result<[Operand; 3], String> {
        operand.triple().ok_or_else(|| self.stays("reads values that have no quantized form"))
    }

    /// Returns scale and zero point of the result.
    fn result(&self) -> Result<[Operand; 2], String> {
        self.result.scale_and_zero().ok_or_else(|| self.stays("has a result without a known scale"))
    }

    /// Returns the quantized operator, with the attributes that both operators have.
    fn replacement(
        &self,
        domain: &'static str,
        op: &'static str,
        inputs: Vec<Operand>,
    ) -> GroupResult {
        let float_node = Replacement::from_node(&self.op);
        let Replacement { attrs, .. } = float_node
            .ok_or_else(|| self.stays("has attributes that the quantized operator lacks"))?;
        // Float values that other nodes read as well are still computed.
        let shared = self.op.node().node.inputs.iter().flatten().copied().collect();
        let named_after = Some(self.op.id());
        Ok(Replacement { attrs, named_after, shared, ..Replacement::new(domain, op, inputs) })
    }

    /// Returns whether 16-bit activations are read or written.
    fn is_wide(&self, x: &Encoded<'_>) -> bool {
        !(x.is_byte() && self.result.is_byte())
    }

    /// Refuses 16-bit results of operators that have no 16-bit kernels.
    fn check_bytes(&self) -> Result<(), String> {
        if self.result.is_byte() {
            return Ok(());
        }
        Err(self.stays("has a 16-bit result, which is computed in floating point"))
    }

    /// Returns an operator on `count` operands with one scale each.
    fn with_operands(&self, op: &'static str, count: usize) -> GroupResult {
        self.check_bytes()?;
        let mut inputs = Vec::new();
        for port in 0..count {
            let operand = self.activation(port)?;
            if operand.dtype != self.result.dtype {
                return Err(self.stays("has inputs of another type than its output"));
            }
            inputs.extend(self.triple(&operand)?);
        }
        inputs.extend(self.result()?);
        self.replacement(MICROSOFT, op, inputs)
    }

    fn softmax(&self) -> GroupResult {
        let mut softmax = self.with_operands("QLinearSoftmax", 1)?;
        softmax.set("opset", Attr::Int(ONE_AXIS));
        Ok(softmax)
    }

    fn concat(&self) -> GroupResult {
        self.check_bytes()?;
        let mut inputs: Vec<_> = self.result()?.into();
        for port in 0..self.op.node().node.inputs.len() {
            inputs.extend(self.triple(&self.activation(port)?)?);
        }
        self.replacement(MICROSOFT, "QLinearConcat", inputs)
    }

    /// Returns a convolution. The output channels of its weights, of all groups or of one, lie along `axis`.
    fn convolution(&self, (domain, op): (&'static str, &'static str), axis: usize) -> GroupResult {
        let (x, w) = (self.activation(0)?, self.weights(1, axis)?);
        let groups = self.op.int("group").and_then(|groups| usize::try_from(groups).ok());
        let weights = self.op.input(1);
        let (&[first, second, ref window @ ..], Some(groups @ 1..)) = (weights.shape(), groups)
        else {
            return Err(self.stays("has weights without axes"));
        };
        let (channels, depth) =
            if axis == 0 { (first, second) } else { (second * groups, first / groups) };
        self.check_depth(depth * window.iter().product::<usize>())?;
        if self.is_wide(&x) && depth == 1 && groups > 1 {
            // The primitives take a 16-bit depthwise filter one tap at a time, which is slower than f32.
            return Err(self.stays(
                "is a depthwise convolution of 16-bit values, which is faster in floating point",
            ));
        }
        let bias = self.bias(2, (&x, &w), channels)?;
        let mut inputs = concat_inputs(self.triple(&x)?, self.triple(&w)?);
        inputs.extend(self.result()?);
        inputs.extend(bias);
        self.replacement(domain, op, inputs)
    }

    /// Matches `y = MatMul(a, b) + bias`, which becomes `QLinearMatMulAdd(a, b, bias)`.
    fn biased(&self) -> Option<GroupResult> {
        let with_bias = |port: usize, bias: usize| {
            let op = self.op.sole_producer(port).filter(|op| op.op() == Some("MatMul"))?;
            let product = Self { op, result: self.result.clone() };
            let (a, b) = (product.activation(0).ok()?, product.weights(1, 1).ok()?);
            let columns = *product.op.input(1).shape().get(1)?;
            let desc = self.op.input(bias);
            if desc.len() != columns || desc.shape().last() != Some(&columns) {
                return None;
            }
            let addend = self.sums(bias, (&a, &b), columns)?;
            let mut replacement = product.matmul().ok()?;
            replacement.inputs.push(addend);
            Some(Replacement { domain: UDO, op: "QLinearMatMulAdd", ..replacement })
        };
        Candidate::either(with_bias).map(Ok)
    }

    fn matmul(&self) -> GroupResult {
        let columns = self.op.input(1).rank().saturating_sub(1);
        let (a, b) = (self.activation(0)?, self.weights(1, columns)?);
        if b.axis.is_some() && columns != 1 {
            return Err(self.stays("has a scale for each column of several matrices"));
        }
        self.check_depth(self.op.input(0).shape().last().copied().unwrap_or_default())?;
        let mut inputs = concat_inputs(self.triple(&a)?, self.triple(&b)?);
        inputs.extend(self.result()?);
        self.replacement("", "QLinearMatMul", inputs)
    }

    fn gemm(&self) -> GroupResult {
        let is_unit = |name: &str| {
            self.op.float(name).is_some_and(|factor| factor.to_bits() == 1f64.to_bits())
        };
        // With beta = 0 the bias has no effect.
        let has_bias = self.op.input_id(2).is_some() && self.op.float("beta") != Some(0.0);
        if !is_unit("alpha") || has_bias && !is_unit("beta") {
            return Err(self.stays("scales its product or its bias by a number other than 1"));
        }
        let columns = usize::from(self.op.int("transB") == Some(0));
        let (a, b) = (self.activation(0)?, self.weights(1, columns)?);
        let &[rows, cols] = self.op.input(1).shape() else {
            return Err(self.stays("has weights that are not a matrix"));
        };
        let (count, depth) = if columns == 1 { (cols, rows) } else { (rows, cols) };
        self.check_depth(depth)?;
        let bias = if has_bias { self.bias(2, (&a, &b), count)? } else { None };
        let mut inputs = concat_inputs(self.triple(&a)?, self.triple(&b)?);
        inputs.push(bias.unwrap_or(Operand::Absent));
        inputs.extend(self.result()?);
        if self.is_wide(&a) && self.op.int("transA") != Some(0) {
            return Err(self.stays("has a transposed left operand of 16 bits"));
        }
        let mut product = self.replacement(MICROSOFT, "QGemm", inputs)?;
        product.attrs.retain(|(name, _)| *name != "beta");
        Ok(product)
    }

    /// Returns an operator that only moves or selects elements, which works the same on quantized values.
    fn movement(&self) -> GroupResult {
        // An interpolated result would keep the encoding, but the float kernels are vectorized and faster.
        let samples = self.op.op() == Some("Resize") && self.op.text("mode") != Some("nearest");
        if !self.op.facts().has(Facts::SAME_ENCODING) || samples || !self.op.makes_one() {
            return Err(self.stays("has no quantized form"));
        }
        if self.op.text("coordinate_transformation_mode") == Some("tf_crop_and_resize") {
            return Err(self.stays("has a value for elements outside its input"));
        }
        self.with_quantized_input(&self.same_encoding()?)
    }

    /// Returns the operand if its encoding is that of the result.
    fn same_encoding(&self) -> Result<Encoded<'a>, String> {
        let x = self.activation(0)?;
        if x.has_same_encoding(&self.result) {
            return Ok(x);
        }
        Err(self.stays("moves values whose encoding differs from that of its result"))
    }

    /// Returns the same operator on quantized values.
    fn with_quantized_input(&self, x: &Encoded<'_>) -> GroupResult {
        let replacement = Replacement::from_node(&self.op).zip(x.values);
        let (mut replacement, values) = replacement
            .ok_or_else(|| self.stays("has attributes that the quantized operator lacks"))?;
        if let Some(first) = replacement.inputs.first_mut() {
            *first = Operand::Value(values);
        }
        replacement.shared.extend(self.op.input_id(0));
        replacement.named_after = Some(self.op.id());
        Ok(replacement)
    }

    /// `Pad`: quantizes the pad value.
    fn pad(&self) -> GroupResult {
        let x = self.same_encoding()?;
        let mut pad = self.with_quantized_input(&x)?;
        if self.op.text("mode") == Some("constant") {
            let number = match self.op.input_id(2) {
                None => Some(0.0),
                Some(_) => self.op.scalar(2),
            };
            let stored = number.and_then(|number| x.constant(number));
            let stored = stored.ok_or_else(|| self.stays("pads with a computed number"))?;
            pad.inputs.resize_with(pad.inputs.len().max(3), || Operand::Absent);
            if let Some(number) = pad.inputs.get_mut(2) {
                *number = stored;
            }
        }
        Ok(pad)
    }

    /// Returns one part of a split as a slice of the quantized values.
    fn piece(&self, index: usize) -> GroupResult {
        let x = self.same_encoding()?;
        let axis = self.op.int("axis").and_then(|axis| resolve_axis(axis, self.op.input(0).rank()));
        let lengths = self.op.outputs().take(index + 1).map(|piece| {
            let Dim::Fixed(len) = piece.full_shape().dim(axis?)? else { return None };
            i64::try_from(len).ok()
        });
        let ends = lengths.scan(0, |end, len| {
            *end += len?;
            Some(*end)
        });
        let mut ends: Vec<i64> = ends.collect();
        let slice_inputs = (|| {
            let end = ends.pop().filter(|_| ends.len() == index)?;
            let start = ends.last().copied().unwrap_or(0);
            let int = |number: i64| {
                Some(Operand::Constant(Tensor::from_slice(Shape::new(&[1]).ok()?, &[number]).ok()?))
            };
            let axis = i64::try_from(axis?).ok()?;
            Some(vec![Operand::Value(x.values?), int(start)?, int(end)?, int(axis)?])
        })();
        let inputs = slice_inputs.ok_or_else(|| self.stays("has parts of computed lengths"))?;
        let node = &self.op.node().node;
        let shared = node.inputs.first().into_iter().chain(&node.outputs).flatten().copied();
        Ok(Replacement { shared: shared.collect(), ..Replacement::new("", "Slice", inputs) })
    }

    /// Returns a bias as i32 in units of scale(x) * scale(w), for `count` results. This changes no bias by more than
    /// half a unit.
    fn bias(
        &self,
        port: usize,
        (x, w): (&Encoded<'_>, &Encoded<'_>),
        count: usize,
    ) -> Result<Option<Operand>, String> {
        if self.op.input_id(port).is_none() {
            return Ok(None);
        }
        self.sums(port, (x, w), count).map(Some).ok_or_else(|| {
            self.stays("has a bias that is not a constant in the scale of its products")
        })
    }

    /// Returns the bias, or `None` if it is not a constant in that unit.
    fn sums(
        &self,
        port: usize,
        (x, w): (&Encoded<'_>, &Encoded<'_>),
        count: usize,
    ) -> Option<Operand> {
        let distinct = if w.axis.is_some() { count } else { 1 };
        let scales = w.scales.iter().cycle().take(distinct);
        let products: Vec<f32> = scales.map(|scale| scale * x.scales[0]).collect();
        if let Some(stored) = self.operand(port).filter(|stored| stored.dtype == DType::I32)
            && stored.zeros.iter().all(|&zero| zero == 0)
            && stored.scales.len() == products.len()
            && stored.scales.iter().zip(&products).all(|(a, b)| a.to_bits() == b.to_bits())
        {
            return stored.values.map(Operand::Value);
        }
        let numbers = self.op.constant::<f32>(port)?;
        let fits = numbers.len() == count && self.op.input(port).shape().last() == Some(&count);
        let scales = products.iter().cycle().filter(|_| fits);
        let ints = numbers.iter().zip(scales).map(|(&number, &scale)| {
            let sum = (f64::from(number) / f64::from(scale)).round_ties_even();
            #[expect(clippy::cast_possible_truncation, reason = "it is below")]
            (sum.abs() < MAX_BIAS).then_some(sum as i32)
        });
        let ints = ints.collect::<Option<Vec<i32>>>()?;
        let shape = self.op.input(port).full_shape();
        Tensor::from_slice(shape, &ints).ok().map(Operand::Constant)
    }
}

/// Returns the inputs of two operands, one after the other.
fn concat_inputs(a: [Operand; 3], b: [Operand; 3]) -> Vec<Operand> {
    a.into_iter().chain(b).collect()
}

/// The encoding that a quantize or dequantize node states.
#[derive(Clone)]
struct Encoded<'a> {
    node: Candidate<'a>,
    dtype: DType,
    /// The quantized values, if the node dequantizes.
    values: Option<ValueId>,
    scales: &'a [f32],
    zeros: Vec<i32>,
    /// The axis of the scales; `None` if there is one scale.
    axis: Option<usize>,
}

impl<'a> Encoded<'a> {
    /// Reads the encoding from a node.
    fn read(node: &Candidate<'a>, dtype: DType, values: Option<ValueId>) -> Option<Self> {
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
        let are_valid = scales.iter().all(|scale| scale.is_normal() && *scale > 0.0);
        let is_plain = node.int("block_size") == Some(0) && are_valid;
        let axis = match scales {
            [_] => None,
            _ => Some(resolve_axis(node.int("axis")?, node.input(0).rank())?),
        };
        is_plain.then_some(Self { node: *node, dtype, values, scales, zeros, axis })
    }

    /// Returns the encoding if it has one scale and 8 or 16 bits.
    fn with_one_scale(self) -> Option<Self> {
        let has_supported_type = self.is_byte() || matches!(self.dtype, DType::U16 | DType::I16);
        (self.axis.is_none() && has_supported_type).then_some(self)
    }

    /// Returns whether values have 8 bits.
    fn is_byte(&self) -> bool {
        matches!(self.dtype, DType::U8 | DType::I8)
    }

    fn has_same_encoding(&self, other: &Self) -> bool {
        let bits = |encoded: &Self| encoded.scales.first().map(|scale| scale.to_bits());
        self.dtype == other.dtype && bits(self) == bits(other) && self.zeros == other.zeros
    }

    /// Returns the node whose result is quantized, skipping a clip that has no effect because quantizing saturates at
    /// the same bounds. Quantizing is monotonic, so a bound has no effect if it quantizes to the end of the type's
    /// range.
    fn unclipped(&self, node: Candidate<'a>) -> Option<Candidate<'a>> {
        let (min, max) = match self.dtype {
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
        let has_no_effect = low.is_none_or(|low| stored(low).is_some_and(|low| low <= min))
            && high.is_none_or(|high| stored(high).is_some_and(|high| high >= max));
        has_no_effect.then(|| node.sole_producer(0)).flatten()
    }

    /// Returns the quantized value of a number before saturation; `None` if there are several scales.
    fn stored(&self, number: f32) -> Option<f64> {
        let (&[scale], &[zero]) = (self.scales, self.zeros.as_slice()) else { return None };
        Some(f64::from((number / scale).round_ties_even()) + f64::from(zero))
    }

    /// Returns a number as a quantized constant.
    fn constant(&self, number: f32) -> Option<Operand> {
        let stored = self.stored(number).filter(|stored| !stored.is_nan())?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let tensor = match self.dtype {
            DType::U8 => Tensor::from_slice(Shape::SCALAR, &[stored as u8]),
            DType::U16 => Tensor::from_slice(Shape::SCALAR, &[stored as u16]),
            DType::I16 => Tensor::from_slice(Shape::SCALAR, &[stored as i16]),
            _ => Tensor::from_slice(Shape::SCALAR, &[stored as i8]),
        };
        tensor.ok().map(Operand::Constant)
    }

    fn scale(&self) -> Option<Operand> {
        self.node.input_id(1).map(Operand::Value)
    }

    fn zero(&self) -> Option<Operand> {
        if let Some(zero) = self.node.input_id(2) {
            return Some(Operand::Value(zero));
        }
        Tensor::zeros(self.dtype, Shape::SCALAR).ok().map(Operand::Constant)
    }

    /// Returns scale and zero point.
    fn scale_and_zero(&self) -> Option<[Operand; 2]> {
        Some([self.scale()?, self.zero()?])
    }

    /// Returns values, scale and zero point.
    fn triple(&self) -> Option<[Operand; 3]> {
        let [scale, zero] = self.scale_and_zero()?;
        Some([Operand::Value(self.values?), scale, zero])
    }
}
