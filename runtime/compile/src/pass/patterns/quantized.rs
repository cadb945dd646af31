//! Replaces a float operator between `DequantizeLinear` and `QuantizeLinear` by one on quantized values:
//!
//! * QuantizeLinear(op(DequantizeLinear(x), ..)) -> QLinear-op(x, ..)
//! * QuantizeLinear(f(DequantizeLinear(x))) with an elementwise f and 8 bits -> Lookup(x), a table of 256 entries

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
const MOST_BIAS: f64 = (1u32 << 30) as f64;

/// The replacement of a group, or the reason why it stays.
type GroupResult = Result<Replacement, String>;

/// Returns the operator on quantized values whose last step is this node.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Match {
    if node.op() != Some("QuantizeLinear") {
        return Match::Nothing;
    }
    let stored = node.output().dtype().and_then(|dtype| Encoded::read(node, dtype, None));
    let Some(result) = stored.and_then(Encoded::for_all) else {
        let why = "it quantizes to a type other than 8 or 16 bits with one known scale";
        return Match::Stays(why.to_owned());
    };
    if let Some(table) = looked_up(node, &result) {
        return Match::Instead(table);
    }
    if let Some((of, at)) = node.producer_and_output(0).filter(|(of, _)| of.op() == Some("Split")) {
        let put = Group { of, result }.piece(at);
        return put.map_or_else(Match::Stays, Match::Instead);
    }
    // An operand that was not dequantized has no quantized form.
    let Some(producer) = node.sole_producer(0).filter(reads_dequantized) else {
        return Match::Nothing;
    };
    if producer.op().is_none() {
        return Match::Stays(named(&producer, "is of a package, which computes in floating point"));
    }
    let put = match result.unclipped(producer) {
        Some(of) => Group { of, result }.quantized_op(),
        None => Err(named(&producer, "clips values inside the quantized range")),
    };
    put.map_or_else(Match::Stays, Match::Instead)
}

/// Returns whether a node, or the node whose result it clips, reads a dequantized value or a product of one.
fn reads_dequantized(node: &Candidate<'_>) -> bool {
    let is_of = |node: &Candidate<'_>| {
        let mut ports = 0..node.node().node.inputs.len();
        ports.any(|port| {
            node.producer(port).is_some_and(|producer| producer.op() == Some(DEQUANTIZE))
        })
    };
    let is_sum = |node: &Candidate<'_>| {
        let of_product =
            |port: usize| node.sole_producer(port).is_some_and(|before| is_of(&before));
        node.op() == Some("Add") && (0..2).any(of_product)
    };
    let reads = |node: &Candidate<'_>| is_of(node) || is_sum(node);
    reads(node) || node.sole_producer(0).is_some_and(|before| reads(&before))
}

fn named(node: &Candidate<'_>, does: &str) -> String {
    let of = &node.node().node;
    format!("node {:?} ({}) {does}", of.name, of.op)
}

/// Returns a table lookup, if all nodes between dequantizing and quantizing are functions of one element.
fn looked_up(last: &Candidate<'_>, result: &Encoded<'_>) -> Option<Replacement> {
    let (mut nodes, mut reader, mut port) = (vec![(last.id(), 0)], *last, 0);
    let values = loop {
        let node = reader.producer(port)?;
        if node.op_or_folded() == Some(DEQUANTIZE) {
            let encoded = Encoded::read(&node, node.input(0).dtype()?, node.input_id(0))?;
            nodes.push((node.id(), 0));
            let is_as = |encoded: &Encoded<'_>| encoded.dtype == result.dtype && encoded.is_byte();
            break encoded.for_all().filter(is_as)?.values?;
        }
        reader = reader.sole_producer(port)?;
        port = function_of(&reader)?;
        nodes.push((reader.id(), port));
    };
    let named_after = nodes.get(1).filter(|_| nodes.len() > 2).map(|(id, _)| *id);
    nodes.reverse();
    let shape = Shape::new(&[256]).ok()?;
    let bits: Vec<u8> = (0..=u8::MAX).collect();
    let all = Tensor::from_bytes(result.dtype, shape, &bits).ok()?;
    let table = last.applied(&nodes, all).filter(|table| table.bytes().len() == bits.len())?;
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
    let mut open = ports.clone().filter(|&port| node.tensor(port).is_none());
    let port = open.next().filter(|_| open.next().is_none())?;
    let is_one = |port: usize| node.tensor(port).is_none_or(|tensor| tensor.desc().len() == 1);
    let is_function = node.facts().has(Facts::ELEMENTWISE)
        && node.makes_one()
        && ports.all(is_one)
        && node.input(port).dtype() == Some(DType::F32)
        && node.is_shaped_alike(port);
    is_function.then_some(port)
}

impl Group<'_> {
    /// Returns the operator on quantized values that computes the group.
    fn quantized_op(&self) -> GroupResult {
        match self.of.op().unwrap_or_default() {
            "Add" => self.biased().unwrap_or_else(|| self.of_operands("QLinearAdd", 2)),
            "AveragePool" => self.of_operands("QLinearAveragePool", 1),
            "Concat" => self.joined(),
            "Conv" => self.convolved(("", "QLinearConv"), 0),
            "ConvTranspose" => self.convolved((UDO, "QLinearConvTranspose"), 1),
            "Gemm" => self.gemm(),
            "GlobalAveragePool" => self.of_operands("QLinearGlobalAveragePool", 1),
            "MatMul" => self.multiplied(),
            "Mul" => self.of_operands("QLinearMul", 2),
            "Pad" => self.padded(),
            "Softmax" => self.shares(),
            "Sum" if self.of.node().node.inputs.len() == 2 => self.of_operands("QLinearAdd", 2),
            _ => self.moved(),
        }
    }
}

/// A float operator whose result is quantized.
struct Group<'a> {
    of: Candidate<'a>,
    result: Encoded<'a>,
}

impl<'a> Group<'a> {
    /// Formats the reason why the group stays.
    fn stays(&self, why: &str) -> String {
        named(&self.of, why)
    }

    /// Returns the encoding of a dequantized operand.
    fn operand(&self, port: usize) -> Option<Encoded<'a>> {
        let node = self.of.producer(port)?;
        let is_it = node.op_or_folded() == Some(DEQUANTIZE);
        let dtype = node.input(0).dtype().filter(|_| is_it)?;
        Encoded::read(&node, dtype, node.input_id(0))
    }

    /// Returns an operand with one scale.
    fn activation(&self, port: usize) -> Result<Encoded<'a>, String> {
        self.operand(port).and_then(Encoded::for_all).ok_or_else(|| {
            self.stays(&format!(
                "has an input, {port}, that is not dequantized from 8 or 16 bits with one scale"
            ))
        })
    }

    /// Returns an 8-bit operand with one scale, or with one scale for each result along `axis`.
    fn weights(&self, port: usize, axis: usize) -> Result<Encoded<'a>, String> {
        let weights = self.operand(port);
        let fits = |of: &Encoded<'_>| of.is_byte() && of.axis.is_none_or(|own| own == axis);
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
    fn triple(&self, of: &Encoded<'_>) -> Result<[Operand; 3], String> {
        of.triple().ok_or_else(|| self.stays("reads values that have no quantized form"))
    }

    /// Returns scale and zero point of the result.
    fn result(&self) -> Result<[Operand; 2], String> {
        self.result.numbers().ok_or_else(|| self.stays("has a result without a known scale"))
    }

    /// Returns the quantized operator, with the attributes that both operators have.
    fn by(&self, domain: &'static str, op: &'static str, inputs: Vec<Operand>) -> GroupResult {
        let of = Replacement::from_node(&self.of);
        let Replacement { attrs, .. } =
            of.ok_or_else(|| self.stays("has attributes that the quantized operator lacks"))?;
        // Float values that other nodes read as well are still computed.
        let shared = self.of.node().node.inputs.iter().flatten().copied().collect();
        let named_after = Some(self.of.id());
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
    fn of_operands(&self, op: &'static str, count: usize) -> GroupResult {
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
        self.by(MICROSOFT, op, inputs)
    }

    fn shares(&self) -> GroupResult {
        let mut shares = self.of_operands("QLinearSoftmax", 1)?;
        shares.set("opset", Attr::Int(ONE_AXIS));
        Ok(shares)
    }

    fn joined(&self) -> GroupResult {
        self.check_bytes()?;
        let mut inputs: Vec<_> = self.result()?.into();
        for port in 0..self.of.node().node.inputs.len() {
            inputs.extend(self.triple(&self.activation(port)?)?);
        }
        self.by(MICROSOFT, "QLinearConcat", inputs)
    }

    /// Returns a convolution. The output channels of its weights, of all groups or of one, lie along `axis`.
    fn convolved(&self, (domain, op): (&'static str, &'static str), axis: usize) -> GroupResult {
        let (x, w) = (self.activation(0)?, self.weights(1, axis)?);
        let groups = self.of.int("group").and_then(|groups| usize::try_from(groups).ok());
        let weights = self.of.input(1);
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
        let mut inputs = both(self.triple(&x)?, self.triple(&w)?);
        inputs.extend(self.result()?);
        inputs.extend(bias);
        self.by(domain, op, inputs)
    }

    /// y = MatMul(a, b) + bias -> QLinearMatMulAdd(a, b, bias)
    fn biased(&self) -> Option<GroupResult> {
        let of_product = |port: usize, bias: usize| {
            let of = self.of.sole_producer(port).filter(|of| of.op() == Some("MatMul"))?;
            let product = Self { of, result: self.result.clone() };
            let (a, b) = (product.activation(0).ok()?, product.weights(1, 1).ok()?);
            let columns = *product.of.input(1).shape().get(1)?;
            let desc = self.of.input(bias);
            if desc.len() != columns || desc.shape().last() != Some(&columns) {
                return None;
            }
            let addend = self.sums(bias, (&a, &b), columns)?;
            let mut put = product.multiplied().ok()?;
            put.inputs.push(addend);
            Some(Replacement { domain: UDO, op: "QLinearMatMulAdd", ..put })
        };
        Candidate::either(of_product).map(Ok)
    }

    fn multiplied(&self) -> GroupResult {
        let columns = self.of.input(1).rank().saturating_sub(1);
        let (a, b) = (self.activation(0)?, self.weights(1, columns)?);
        if b.axis.is_some() && columns != 1 {
            return Err(self.stays("has a scale for each column of several matrices"));
        }
        self.check_depth(self.of.input(0).shape().last().copied().unwrap_or_default())?;
        let mut inputs = both(self.triple(&a)?, self.triple(&b)?);
        inputs.extend(self.result()?);
        self.by("", "QLinearMatMul", inputs)
    }

    fn gemm(&self) -> GroupResult {
        let is_one = |name: &str| {
            self.of.float(name).is_some_and(|factor| factor.to_bits() == 1f64.to_bits())
        };
        // With beta = 0 the bias has no effect.
        let has_bias = self.of.input_id(2).is_some() && self.of.float("beta") != Some(0.0);
        if !is_one("alpha") || has_bias && !is_one("beta") {
            return Err(self.stays("scales its product or its bias by a number other than 1"));
        }
        let columns = usize::from(self.of.int("transB") == Some(0));
        let (a, b) = (self.activation(0)?, self.weights(1, columns)?);
        let &[rows, cols] = self.of.input(1).shape() else {
            return Err(self.stays("has weights that are not a matrix"));
        };
        let (count, depth) = if columns == 1 { (cols, rows) } else { (rows, cols) };
        self.check_depth(depth)?;
        let bias = if has_bias { self.bias(2, (&a, &b), count)? } else { None };
        let mut inputs = both(self.triple(&a)?, self.triple(&b)?);
        inputs.push(bias.unwrap_or(Operand::Absent));
        inputs.extend(self.result()?);
        if self.is_wide(&a) && self.of.int("transA") != Some(0) {
            return Err(self.stays("has a transposed left operand of 16 bits"));
        }
        let mut product = self.by(MICROSOFT, "QGemm", inputs)?;
        product.attrs.retain(|(name, _)| *name != "beta");
        Ok(product)
    }

    /// An operator that only moves or selects elements works the same on quantized values.
    fn moved(&self) -> GroupResult {
        // An interpolated result would keep the encoding, but the float kernels are vectorized and faster.
        let samples = self.of.op() == Some("Resize") && self.of.text("mode") != Some("nearest");
        if !self.of.facts().has(Facts::SAME_ENCODING) || samples || !self.of.makes_one() {
            return Err(self.stays("has no quantized form"));
        }
        if self.of.text("coordinate_transformation_mode") == Some("tf_crop_and_resize") {
            return Err(self.stays("has a value for elements outside its input"));
        }
        self.of_moved(&self.same_encoding()?)
    }

    /// Returns the operand if its encoding is that of the result.
    fn same_encoding(&self) -> Result<Encoded<'a>, String> {
        let x = self.activation(0)?;
        if x.is_as(&self.result) {
            return Ok(x);
        }
        Err(self.stays("moves values whose encoding differs from that of its result"))
    }

    /// Returns the same operator on quantized values.
    fn of_moved(&self, x: &Encoded<'_>) -> GroupResult {
        let of_values = Replacement::from_node(&self.of).zip(x.values);
        let (mut of_values, values) = of_values
            .ok_or_else(|| self.stays("has attributes that the quantized operator lacks"))?;
        if let Some(first) = of_values.inputs.first_mut() {
            *first = Operand::Value(values);
        }
        of_values.shared.extend(self.of.input_id(0));
        of_values.named_after = Some(self.of.id());
        Ok(of_values)
    }

    /// `Pad`: quantizes the pad value.
    fn padded(&self) -> GroupResult {
        let x = self.same_encoding()?;
        let mut pad = self.of_moved(&x)?;
        if self.of.text("mode") == Some("constant") {
            let number = match self.of.input_id(2) {
                None => Some(0.0),
                Some(_) => self.of.scalar(2),
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
    fn piece(&self, at: usize) -> GroupResult {
        let x = self.same_encoding()?;
        let axis = self.of.int("axis").and_then(|axis| resolve_axis(axis, self.of.input(0).rank()));
        let lengths = self.of.outputs().take(at + 1).map(|piece| {
            let Dim::Fixed(len) = piece.full_shape().dim(axis?)? else { return None };
            i64::try_from(len).ok()
        });
        let ends = lengths.scan(0, |end, len| {
            *end += len?;
            Some(*end)
        });
        let mut ends: Vec<i64> = ends.collect();
        let cut = (|| {
            let end = ends.pop().filter(|_| ends.len() == at)?;
            let start = ends.last().copied().unwrap_or(0);
            let one = |number: i64| {
                Some(Operand::Constant(Tensor::from_slice(Shape::new(&[1]).ok()?, &[number]).ok()?))
            };
            let axis = i64::try_from(axis?).ok()?;
            Some(vec![Operand::Value(x.values?), one(start)?, one(end)?, one(axis)?])
        })();
        let inputs = cut.ok_or_else(|| self.stays("has parts of computed lengths"))?;
        let node = &self.of.node().node;
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
        if self.of.input_id(port).is_none() {
            return Ok(None);
        }
        self.sums(port, (x, w), count).map(Some).ok_or_else(|| {
            self.stays("has a bias that is not a constant in the scale of its products")
        })
    }

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
        let numbers = self.of.constant::<f32>(port)?;
        let fits = numbers.len() == count && self.of.input(port).shape().last() == Some(&count);
        let scales = products.iter().cycle().filter(|_| fits);
        let ints = numbers.iter().zip(scales).map(|(&number, &scale)| {
            let sum = (f64::from(number) / f64::from(scale)).round_ties_even();
            #[expect(clippy::cast_possible_truncation, reason = "it is below")]
            (sum.abs() < MOST_BIAS).then_some(sum as i32)
        });
        let ints = ints.collect::<Option<Vec<i32>>>()?;
        let shape = self.of.input(port).full_shape();
        Tensor::from_slice(shape, &ints).ok().map(Operand::Constant)
    }
}

/// Returns the inputs of two operands, one after the other.
fn both(a: [Operand; 3], b: [Operand; 3]) -> Vec<Operand> {
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
        let are_numbers = scales.iter().all(|scale| scale.is_normal() && *scale > 0.0);
        let is_plain = node.int("block_size") == Some(0) && are_numbers;
        let axis = match scales {
            [_] => None,
            _ => Some(resolve_axis(node.int("axis")?, node.input(0).rank())?),
        };
        is_plain.then_some(Self { node: *node, dtype, values, scales, zeros, axis })
    }

    /// Returns the encoding if it has one scale and 8 or 16 bits.
    fn for_all(self) -> Option<Self> {
        let is_value = self.is_byte() || matches!(self.dtype, DType::U16 | DType::I16);
        (self.axis.is_none() && is_value).then_some(self)
    }

    /// Returns whether values have 8 bits.
    fn is_byte(&self) -> bool {
        matches!(self.dtype, DType::U8 | DType::I8)
    }

    fn is_as(&self, other: &Self) -> bool {
        let bits = |of: &Self| of.scales.first().map(|scale| scale.to_bits());
        self.dtype == other.dtype && bits(self) == bits(other) && self.zeros == other.zeros
    }

    /// Returns the node whose result is quantized, skipping a clip that has no effect because quantizing saturates at
    /// the same bounds. Quantizing is monotonic, so a bound has no effect if it quantizes to the end of the type's
    /// range.
    fn unclipped(&self, node: Candidate<'a>) -> Option<Candidate<'a>> {
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
        is_cut.then(|| node.sole_producer(0)).flatten()
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
    fn numbers(&self) -> Option<[Operand; 2]> {
        Some([self.scale()?, self.zero()?])
    }

    /// Returns values, scale and zero point.
    fn triple(&self) -> Option<[Operand; 3]> {
        let [scale, zero] = self.numbers()?;
        Some([Operand::Value(self.values?), scale, zero])
    }
}
