//! Operators on quantized values, in the place of those on numbers that lie between steps that make numbers of such values and
//! the one that quantizes again.

use udo_api::{DType, Facts, Shape, resolve_axis};
use udo_simd::gemm_u8::MAX_K;

use crate::graph::{Attr, ValueId};
use crate::memory::Tensor;
use crate::pass::{Candidate, Found, Operand, Replacement};

const DEQUANTIZE: &str = "DequantizeLinear";

/// The domain of most operators on quantized values.
const MICROSOFT: &str = "com.microsoft";

/// The operator set from which on `Softmax` goes along one axis.
const ONE_AXIS: i64 = 13;

/// The most that a bias may be, so that sums with it stay sums.
const MOST_BIAS: f64 = (1u32 << 30) as f64;

/// What stands in the place of a group, or why it stays.
type Put = Result<Replacement, String>;

/// The operator on quantized values that ends at this node.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Found {
    if node.op() != Some("QuantizeLinear") {
        return Found::Nothing;
    }
    let stored = node.output().dtype().and_then(|dtype| Encoded::of(node, dtype, None));
    let Some(result) = stored.and_then(Encoded::for_all) else {
        let why = "it is quantized to values that no one scale of 8 bits is known for";
        return Found::Stays(why.to_owned());
    };
    if let Some(table) = looked_up(node, &result) {
        return Found::Instead(table);
    }
    // What nobody made of quantized values is none of it.
    let Some(maker) = node.before(0).filter(reads_dequantized) else { return Found::Nothing };
    if maker.op().is_none() {
        return Found::Stays(named(&maker, "is of a package, which computes with the numbers"));
    }
    let put = match result.unclipped(maker) {
        Some(of) => Group { of, result }.on_values(),
        None => Err(named(&maker, "cuts off what could be stored")),
    };
    put.map_or_else(Found::Stays, Found::Instead)
}

/// Whether a node, or the one that it cuts off the results of, reads what a dequantize node makes.
fn reads_dequantized(node: &Candidate<'_>) -> bool {
    let is_of = |node: &Candidate<'_>| {
        let mut ports = 0..node.node().node.inputs.len();
        ports.any(|port| node.maker(port).is_some_and(|maker| maker.op() == Some(DEQUANTIZE)))
    };
    is_of(node) || node.before(0).is_some_and(|before| is_of(&before))
}

fn named(node: &Candidate<'_>, does: &str) -> String {
    let of = &node.node().node;
    format!("node {:?} ({}) {does}", of.name, of.op)
}

/// A table of what each value becomes, where what lies between are functions of one number.
fn looked_up(last: &Candidate<'_>, result: &Encoded<'_>) -> Option<Replacement> {
    let (mut nodes, mut reader, mut port) = (vec![(last.id(), 0)], *last, 0);
    let values = loop {
        let node = reader.maker(port)?;
        if node.op_or_folded() == Some(DEQUANTIZE) {
            let encoded = Encoded::of(&node, node.input(0).dtype()?, node.input_id(0))?;
            nodes.push((node.id(), 0));
            break encoded.for_all().filter(|encoded| encoded.dtype == result.dtype)?.values?;
        }
        reader = reader.before(port)?;
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

/// The one input that a node makes each number of its output of, by constants of one number each, if it does.
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
    /// The operator on quantized values that does what the group does.
    fn on_values(&self) -> Put {
        match self.of.op().unwrap_or_default() {
            "Add" => self.of_operands("QLinearAdd", 2),
            "AveragePool" => self.of_operands("QLinearAveragePool", 1),
            "Concat" => self.joined(),
            "Conv" => self.convolved(),
            "Gemm" => self.gemm(),
            "GlobalAveragePool" => self.of_operands("QLinearGlobalAveragePool", 1),
            "MatMul" => self.multiplied(),
            "Mul" => self.of_operands("QLinearMul", 2),
            "Softmax" => self.shares(),
            "Sum" if self.of.node().node.inputs.len() == 2 => self.of_operands("QLinearAdd", 2),
            _ => self.moved(),
        }
    }
}

/// How numbers are stored as 8-bit values: the node that says so, and what it says.
struct Encoded<'a> {
    node: Candidate<'a>,
    dtype: DType,
    /// The stored values, of numbers that are made of such.
    values: Option<ValueId>,
    scales: &'a [f32],
    zeros: Vec<i32>,
    /// The axis that scales lie along; none where there is one for all.
    axis: Option<usize>,
}

impl<'a> Encoded<'a> {
    /// What a quantize or dequantize node says.
    fn of(node: &Candidate<'a>, dtype: DType, values: Option<ValueId>) -> Option<Self> {
        let scales = node.constant::<f32>(1)?;
        let zeros = match (node.input_id(2), dtype) {
            (None, DType::U8 | DType::I8 | DType::I32) => vec![0],
            (Some(_), DType::U8) => node.constant::<u8>(2)?.iter().map(|&z| z.into()).collect(),
            (Some(_), DType::I8) => node.constant::<i8>(2)?.iter().map(|&z| z.into()).collect(),
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
    fn for_all(self) -> Option<Self> {
        let is_value = matches!(self.dtype, DType::U8 | DType::I8);
        (self.axis.is_none() && is_value).then_some(self)
    }

    fn is_as(&self, other: &Self) -> bool {
        let bits = |of: &Self| of.scales.first().map(|scale| scale.to_bits());
        self.dtype == other.dtype && bits(self) == bits(other) && self.zeros == other.zeros
    }

    /// The node that makes the numbers which are stored, where those between cut off what cannot be stored anyway. Quantizing keeps
    /// order, so a bound changes nothing where it is stored as the least or the largest value.
    fn unclipped(&self, node: Candidate<'a>) -> Option<Candidate<'a>> {
        let (least, most) = match self.dtype {
            DType::U8 => (0.0, 255.0),
            _ => (-128.0, 127.0),
        };
        let (&[scale], &[zero]) = (self.scales, self.zeros.as_slice()) else { return None };
        let stored = |bound: f32| f64::from((bound / scale).round_ties_even()) + f64::from(zero);
        let bound = |port: usize| match node.input_id(port) {
            None => Some(None),
            Some(_) => node.scalar(port).map(Some),
        };
        let (low, high) = match node.op()? {
            "Relu" => (Some(0.0), None),
            "Clip" => (bound(1)?, bound(2)?),
            _ => return Some(node),
        };
        let is_cut = low.is_none_or(|low| stored(low) <= least)
            && high.is_none_or(|high| stored(high) >= most);
        is_cut.then(|| node.before(0)).flatten()
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

    /// Scale and zero point.
    fn numbers(&self) -> Option<[Operand; 2]> {
        Some([self.scale()?, self.zero()?])
    }

    /// Values, scale and zero point.
    fn triple(&self) -> Option<[Operand; 3]> {
        let [scale, zero] = self.numbers()?;
        Some([Operand::Value(self.values?), scale, zero])
    }
}

/// An operator on numbers whose result is quantized.
struct Group<'a> {
    of: Candidate<'a>,
    result: Encoded<'a>,
}

impl<'a> Group<'a> {
    /// Why the group stays.
    fn stays(&self, why: &str) -> String {
        named(&self.of, why)
    }

    /// What an operand is made of.
    fn operand(&self, port: usize) -> Option<Encoded<'a>> {
        let node = self.of.maker(port)?;
        let is_it = node.op_or_folded() == Some(DEQUANTIZE);
        let dtype = node.input(0).dtype().filter(|_| is_it)?;
        Encoded::of(&node, dtype, node.input_id(0))
    }

    /// An operand of one scale.
    fn activation(&self, port: usize) -> Result<Encoded<'a>, String> {
        self.operand(port).and_then(Encoded::for_all).ok_or_else(|| {
            self.stays(&format!(
                "has an input, {port}, that is not made of values of 8 bits with one scale"
            ))
        })
    }

    /// An operand of one scale, or of one for each result, which lie along `axis`.
    fn weights(&self, port: usize, axis: usize) -> Result<Encoded<'a>, String> {
        let weights = self.operand(port);
        let is_value = |of: &Encoded<'_>| matches!(of.dtype, DType::U8 | DType::I8);
        let fits = |of: &Encoded<'_>| is_value(of) && of.axis.is_none_or(|own| own == axis);
        weights.filter(fits).ok_or_else(|| {
            self.stays("has weights that are not made of values of 8 bits with one scale, or one for each result")
        })
    }

    /// Refuses sums of more products than kernels add up.
    fn check_depth(&self, depth: usize) -> Result<(), String> {
        if depth > MAX_K {
            return Err(self.stays(&format!("adds up {depth} products, more than {MAX_K}")));
        }
        Ok(())
    }

    /// Values, scale and zero point of an operand.
    fn triple(&self, of: &Encoded<'_>) -> Result<[Operand; 3], String> {
        of.triple().ok_or_else(|| self.stays("reads values that are not known by themselves"))
    }

    /// Scale and zero point of the result.
    fn result(&self) -> Result<[Operand; 2], String> {
        self.result.numbers().ok_or_else(|| self.stays("has a result of no known scale"))
    }

    /// The operator that does the same, with the attributes that it shares.
    fn by(&self, domain: &'static str, op: &'static str, inputs: Vec<Operand>) -> Put {
        let of = Replacement::of(&self.of);
        let Replacement { attrs, .. } =
            of.ok_or_else(|| self.stays("has attributes of its own"))?;
        // Numbers that others read as well go on being made.
        let shared = self.of.node().node.inputs.iter().flatten().copied().collect();
        let named_after = Some(self.of.id());
        Ok(Replacement { attrs, named_after, shared, ..Replacement::new(domain, op, inputs) })
    }

    /// An operator of `count` operands of one scale each, and of as many inputs.
    fn of_operands(&self, op: &'static str, count: usize) -> Put {
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

    fn shares(&self) -> Put {
        let mut shares = self.of_operands("QLinearSoftmax", 1)?;
        shares.set("opset", Attr::Int(ONE_AXIS));
        Ok(shares)
    }

    fn joined(&self) -> Put {
        let mut inputs: Vec<_> = self.result()?.into();
        for port in 0..self.of.node().node.inputs.len() {
            inputs.extend(self.triple(&self.activation(port)?)?);
        }
        self.by(MICROSOFT, "QLinearConcat", inputs)
    }

    fn convolved(&self) -> Put {
        let (x, w) = (self.activation(0)?, self.weights(1, 0)?);
        let weights = self.of.input(1);
        let Some((&channels, window)) = weights.shape().split_first() else {
            return Err(self.stays("has weights without axes"));
        };
        self.check_depth(window.iter().product())?;
        let bias = self.bias(2, (&x, &w), channels)?;
        let mut inputs = both(self.triple(&x)?, self.triple(&w)?);
        inputs.extend(self.result()?);
        inputs.extend(bias);
        self.by("", "QLinearConv", inputs)
    }

    fn multiplied(&self) -> Put {
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

    fn gemm(&self) -> Put {
        let is_one = |name: &str| {
            self.of.float(name).is_some_and(|factor| factor.to_bits() == 1f64.to_bits())
        };
        if !is_one("alpha") || !is_one("beta") && self.of.input_id(2).is_some() {
            return Err(self.stays("multiplies its product or its bias by another number than 1"));
        }
        let columns = usize::from(self.of.int("transB") == Some(0));
        let (a, b) = (self.activation(0)?, self.weights(1, columns)?);
        let &[rows, cols] = self.of.input(1).shape() else {
            return Err(self.stays("has weights that are no matrix"));
        };
        let (count, depth) = if columns == 1 { (cols, rows) } else { (rows, cols) };
        self.check_depth(depth)?;
        let bias = self.bias(2, (&a, &b), count)?;
        let mut inputs = both(self.triple(&a)?, self.triple(&b)?);
        inputs.push(bias.unwrap_or(Operand::Absent));
        inputs.extend(self.result()?);
        let mut product = self.by(MICROSOFT, "QGemm", inputs)?;
        product.attrs.retain(|(name, _)| *name != "beta");
        Ok(product)
    }

    /// What only moves or chooses values does the same to those that are stored.
    fn moved(&self) -> Put {
        let samples = self.of.op() == Some("Resize") && self.of.text("mode") != Some("nearest");
        if !self.of.facts().has(Facts::SAME_ENCODING) || samples || !self.of.makes_one() {
            return Err(self.stays("computes what no operator on quantized values does"));
        }
        let x = self.activation(0)?;
        if !x.is_as(&self.result) {
            return Err(self.stays("moves values that are stored in another way behind it"));
        }
        let of_values = Replacement::of(&self.of).zip(x.values);
        let (mut of_values, values) =
            of_values.ok_or_else(|| self.stays("has attributes of its own"))?;
        if let Some(first) = of_values.inputs.first_mut() {
            *first = Operand::Value(values);
        }
        of_values.shared.extend(self.of.input_id(0));
        of_values.named_after = Some(self.of.id());
        Ok(of_values)
    }

    /// A bias as it is added to sums of products, for one of `count` results each: no number of the model is changed by more than half
    /// of what a product of values of one stands for.
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
            self.stays(
                "has a bias that is no multiple of what its products are of, known before the run",
            )
        })
    }

    fn sums(
        &self,
        port: usize,
        (x, w): (&Encoded<'_>, &Encoded<'_>),
        count: usize,
    ) -> Option<Operand> {
        let products: Vec<f32> = w.scales.iter().map(|scale| scale * x.scales[0]).collect();
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
        Tensor::of(shape, &ints).ok().map(Operand::Constant)
    }
}

/// The inputs of two operands, behind each other.
fn both(a: [Operand; 3], b: [Operand; 3]) -> Vec<Operand> {
    a.into_iter().chain(b).collect()
}
