//! Dequantizes quantized models at load, for cores that compute in floating point.
//!
//! Weights and biases become the real values that they represent. Computed values are clipped to the range of their
//! quantized type, because models rely on saturation (a Relu is often nothing else), and rounded to multiples of the
//! scale, so that results match those of the quantized model. Quantized inputs and outputs of the model keep their
//! types: nodes convert them.

use std::collections::HashMap;

use udo_api::{DType, Encoding, Shape, resolve_axis};

use super::QuantError;
use super::edit::{Names, redirect, sweep};
use super::weights::{numbers, whole};
use crate::quant::operators::{
    DEQUANTIZE, FINDS_LARGEST, FINDS_LEAST, LARGEST_OF_ALL, LEAST_OF_ALL, NumberAttrs, QUANTIZE,
    TRANSPOSED, moves_elements,
};
use udo_graph::graph::{Attr, Graph, GraphValue, Node, ValueId};
use udo_graph::memory::Tensor;

/// The operator that rounds to multiples of a step.
const ROUND_TO: (&str, u32) = ("RoundTo", 1);

/// Its domain.
const DOMAIN: &str = "udo";

/// A dequantized graph.
pub(super) struct Dequantized {
    pub(super) graph: Graph,
    /// The number of dequantized values, and of constants.
    pub(super) values: usize,
    pub(super) constants: usize,
}

/// Returns whether a graph has quantized values.
pub(crate) fn has_encodings(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| Conversion::from_node(node).is_some_and(Conversion::has_encoding))
}

/// Returns the graph with floating-point values replaced of quantized ones. Nodes without a float form stay as they are.
///
/// # Errors
/// There is not enough memory.
pub(super) fn dequantize(graph: &Graph) -> Result<Dequantized, QuantError> {
    let mut rewrite = Rewrite {
        graph: Graph { nodes: Vec::new(), ..graph.clone() },
        names: Names::new(graph),
        floats: HashMap::new(),
        rounded: HashMap::new(),
        replaced: HashMap::new(),
        constants: HashMap::new(),
    };
    for node in &graph.nodes {
        rewrite.add(node)?;
    }
    let Rewrite { mut graph, floats, constants, .. } = rewrite;
    sweep(&mut graph);
    graph.verify()?;
    Ok(Dequantized { graph, values: floats.len(), constants: constants.len() })
}

/// The quantized type of a value with one scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct QuantizedType {
    dtype: DType,
    encoding: Encoding,
}

impl QuantizedType {
    /// Returns the smallest and the largest integer.
    fn ends(self) -> Option<[i32; 2]> {
        Some(match self.dtype {
            DType::U8 => [0, 255],
            DType::I8 => [-128, 127],
            DType::U16 => [0, 65_535],
            DType::I16 => [-32_768, 32_767],
            _ => return None,
        })
    }

    /// Returns ONNX's number of the type.
    fn onnx_type(self) -> i64 {
        match self.dtype {
            DType::I8 => 3,
            DType::U16 => 4,
            DType::I16 => 5,
            DType::I32 => 6,
            _ => 2,
        }
    }
}

struct Rewrite {
    /// The new graph.
    graph: Graph,
    names: Names,
    /// The float values of quantized values, with their quantized types.
    floats: HashMap<ValueId, (ValueId, QuantizedType)>,
    /// Float values that are clipped and rounded to a quantized type.
    rounded: HashMap<ValueId, QuantizedType>,
    /// The replacements of values.
    replaced: HashMap<ValueId, ValueId>,
    /// The float values of constants, by constant and scale.
    constants: HashMap<(ValueId, ValueId), ValueId>,
}

impl Rewrite {
    fn add(&mut self, node: &Node) -> Result<(), QuantError> {
        let done = match Conversion::from_node(node) {
            Some(Conversion::Quantize) => self.quantize(node)?,
            Some(Conversion::Dequantize) => self.dequantize(node)?,
            Some(Conversion::FloatOp(row)) => self.compute(node, row)?,
            Some(Conversion::Moves(moved)) => {
                self.move_floats(node, moved);
                None
            }
            Some(Conversion::Searches) => self.search(node),
            None => None,
        };
        if done.is_none() {
            self.push(node.clone());
        }
        Ok(())
    }

    /// Adds a node, with its inputs replaced.
    fn push(&mut self, mut node: Node) {
        let replaced = &self.replaced;
        redirect(&mut node, &|id| replaced.get(&id).copied().unwrap_or(id));
        self.graph.nodes.push(node);
    }

    fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let name = self.names.fresh(name);
        self.graph.add_constant(&name, tensor)
    }

    fn scalar(&mut self, name: &str, number: f32) -> Result<ValueId, QuantError> {
        let tensor = Tensor::from_slice(Shape::SCALAR, &[number])?;
        Ok(self.constant(name, tensor))
    }

    fn name(&self, id: ValueId) -> String {
        self.graph.value(id).map_or_else(|_| String::new(), |value| value.value().name.clone())
    }

    /// Adds a value that is named after another one.
    fn value(&mut self, of: ValueId, what: &str) -> ValueId {
        let name = self.names.fresh(&format!("{}_{what}", self.name(of)));
        self.graph.add_value(&name)
    }

    /// Adds a node that is named after its output.
    fn step(&mut self, (op, opset): (&str, u32), inputs: &[ValueId], output: ValueId) {
        let mut node = Node::new(op, opset, inputs, &[output]);
        node.name = self.names.fresh(&format!("{}_{op}", self.name(output)));
        self.push(node);
    }

    /// Returns the scales and zero points at two inputs of a node, and the quantized type.
    fn encodings(&self, node: &Node, port: usize) -> Option<(Vec<f32>, Vec<i32>, DType)> {
        let scales = self.graph.constant(node.input(port)?)?.get::<f32>()?.to_vec();
        let (zeros, dtype) = match node.input(port + 1) {
            None => (vec![0; scales.len()], DType::U8),
            Some(id) => {
                let tensor = self.graph.constant(id)?;
                (whole(tensor)?, tensor.dtype())
            }
        };
        let is_whole = zeros.len() == scales.len() && !scales.is_empty();
        is_whole.then_some((scales, zeros, dtype))
    }

    /// Returns the quantized type if there is one scale.
    fn stored(&self, node: &Node, port: usize) -> Option<QuantizedType> {
        let (scales, zeros, dtype) = self.encodings(node, port)?;
        let (&[scale], &[zero_point]) = (scales.as_slice(), zeros.as_slice()) else { return None };
        let stored = QuantizedType { dtype, encoding: Encoding { scale, zero_point } };
        let is_one = scale.is_finite() && scale > 0.0 && stored.ends().is_some();
        is_one.then_some(stored)
    }

    /// Replaces the quantized value `to` by `real`, clipped to the type's range and rounded to its steps.
    fn replace_by_float(
        &mut self,
        real: ValueId,
        to: ValueId,
        stored: QuantizedType,
    ) -> Result<(), QuantError> {
        let Some(ends) = stored.ends() else { return Ok(()) };
        let Encoding { scale, zero_point } = stored.encoding;
        let real = self.replaced.get(&real).copied().unwrap_or(real);
        if self.rounded.get(&real) == Some(&stored) {
            self.floats.insert(to, (real, stored));
            return self.store(real, to, stored);
        }
        let is_positive = zero_point == ends[0];
        let real = self.before_relu(real).filter(|_| is_positive).unwrap_or(real);
        #[expect(clippy::cast_possible_truncation, reason = "ends of a range are rounded")]
        let number = |end: i32| (f64::from(end - zero_point) * f64::from(scale)) as f32;
        let mut bounds = Vec::new();
        for (end, name) in ends.into_iter().zip(["least", "most"]) {
            let name = format!("{}_{name}", self.name(to));
            bounds.push(self.scalar(&name, number(end))?);
        }
        let [cut, rounded] = ["cut", "numbers"].map(|what| self.value(to, what));
        self.step(("Clip", 13), &[real, bounds[0], bounds[1]], cut);
        self.step(ROUND_TO, &[cut], rounded);
        if let Some(round) = self.graph.nodes.last_mut() {
            DOMAIN.clone_into(&mut round.domain);
            round.attrs.push(("step".to_owned(), Attr::Float(scale.into())));
        }
        self.floats.insert(to, (rounded, stored));
        self.rounded.insert(rounded, stored);
        self.store(rounded, to, stored)
    }

    /// Returns the input of the last node if that is a Relu that computes `real`: clipping at 0 makes it unnecessary.
    fn before_relu(&self, real: ValueId) -> Option<ValueId> {
        let last = self.graph.nodes.last().filter(|node| node.output(0) == Some(real))?;
        if last.op == "Relu" && last.domain.is_empty() { last.input(0) } else { None }
    }

    /// Adds nodes that quantize a float value. They are removed again if nothing reads the integers.
    fn store(
        &mut self,
        real: ValueId,
        to: ValueId,
        stored: QuantizedType,
    ) -> Result<(), QuantError> {
        let Some([least, most]) = stored.ends() else { return Ok(()) };
        let Encoding { scale, zero_point } = stored.encoding;
        #[expect(clippy::cast_precision_loss, reason = "integers of 16 bits are exact")]
        let numbers = [scale, zero_point as f32, least as f32, most as f32];
        let mut constants = Vec::new();
        for (number, name) in numbers.into_iter().zip(["scale", "zero", "first", "last"]) {
            let name = format!("{}_{name}", self.name(to));
            constants.push(self.scalar(&name, number)?);
        }
        let [steps, rounded, moved, cut] =
            ["steps", "rounded", "moved", "cut"].map(|what| self.value(to, what));
        self.step(("Div", 14), &[real, constants[0]], steps);
        self.step(("Round", 11), &[steps], rounded);
        self.step(("Add", 14), &[rounded, constants[1]], moved);
        self.step(("Clip", 13), &[moved, constants[2], constants[3]], cut);
        self.step(("Cast", 13), &[cut], to);
        if let Some(cast) = self.graph.nodes.last_mut() {
            cast.attrs.push(("to".to_owned(), Attr::Int(stored.onnx_type())));
        }
        Ok(())
    }

    fn quantize(&mut self, node: &Node) -> Result<Option<()>, QuantError> {
        let (Some(from), Some(to), Some(stored)) =
            (node.input(0), node.output(0), self.stored(node, 1))
        else {
            return Ok(None);
        };
        if node.attr("output_dtype").is_some() || self.graph.constant(from).is_some() {
            return Ok(None);
        }
        self.replace_by_float(from, to, stored).map(Some)
    }

    fn dequantize(&mut self, node: &Node) -> Result<Option<()>, QuantError> {
        let (Some(from), Some(to)) = (node.input(0), node.output(0)) else { return Ok(None) };
        if self.graph.constant(from).is_some() {
            let axis = node.int_attr("axis").unwrap_or(1);
            let is_blocked = node.int_attr("block_size").is_some_and(|size| size != 0);
            if is_blocked {
                return Ok(None);
            }
            let along = |rank: usize| resolve_axis(axis, rank);
            return Ok(self.constant_operand(node, 0, along)?.map(|real| self.replace(real, to)));
        }
        let Some(stored) = self.stored(node, 1) else { return Ok(None) };
        let real = match self.floats.get(&from) {
            Some(&(real, how)) if how == stored => real,
            Some(_) | None => self.dequantize_integers(from, stored)?,
        };
        self.replace(real, to);
        Ok(Some(()))
    }

    /// Replaces `to` by `real`. If `to` is an output of the graph, it is copied from `real`.
    fn replace(&mut self, real: ValueId, to: ValueId) {
        if self.graph.outputs.contains(&to) {
            self.step(("Identity", 13), &[real], to);
        }
        self.replaced.insert(to, real);
    }

    /// Adds nodes that dequantize integers that no node of this graph replaces, such as inputs.
    fn dequantize_integers(
        &mut self,
        from: ValueId,
        stored: QuantizedType,
    ) -> Result<ValueId, QuantError> {
        let Encoding { scale, zero_point } = stored.encoding;
        #[expect(clippy::cast_precision_loss, reason = "integers of 16 bits are exact")]
        let zero = self.scalar(&format!("{}_zero", self.name(from)), zero_point as f32)?;
        let scale = self.scalar(&format!("{}_scale", self.name(from)), scale)?;
        let [cast, moved, real] = ["cast", "moved", "numbers"].map(|what| self.value(from, what));
        self.step(("Cast", 13), &[from], cast);
        if let Some(cast) = self.graph.nodes.last_mut() {
            cast.attrs.push(("to".to_owned(), Attr::Int(1)));
        }
        self.step(("Sub", 14), &[cast, zero], moved);
        self.step(("Mul", 14), &[moved, scale], real);
        Ok(real)
    }

    /// Returns the float values of a constant operand, which is followed by its scale and zero point.
    fn constant_operand(
        &mut self,
        node: &Node,
        port: usize,
        along: impl Fn(usize) -> Option<usize>,
    ) -> Result<Option<ValueId>, QuantError> {
        let (Some(id), Some((scales, zeros, _)), Some(scale)) =
            (node.input(port), self.encodings(node, port + 1), node.input(port + 1))
        else {
            return Ok(None);
        };
        if let Some(&known) = self.constants.get(&(id, scale)) {
            return Ok(Some(known));
        }
        let Some(tensor) = self.graph.constant(id).filter(|tensor| whole(tensor).is_some()) else {
            return Ok(None);
        };
        let axis = if scales.len() == 1 { None } else { along(tensor.dims().len()) };
        let positions = axis.and_then(|axis| tensor.dims().get(axis).copied());
        if scales.len() != positions.unwrap_or(1) {
            return Ok(None);
        }
        let all = scales.iter().zip(&zeros);
        let all: Vec<Encoding> =
            all.map(|(&scale, &zero_point)| Encoding { scale, zero_point }).collect();
        let tensor = Tensor::from_slice(tensor.desc().full_shape(), &numbers(tensor, &all, axis))?;
        let real = self.constant(&format!("{}_numbers", self.name(id)), tensor);
        self.constants.insert((id, scale), real);
        Ok(Some(real))
    }

    /// Returns the float values of an operand, which is followed by its scale and zero point.
    fn operand(
        &mut self,
        node: &Node,
        port: usize,
        row: &FloatOp,
    ) -> Result<Option<ValueId>, QuantError> {
        let Some(id) = node.input(port) else { return Ok(None) };
        if self.graph.constant(id).is_some() {
            return self.constant_operand(node, port, |rank| Some(row.axis(node, rank)));
        }
        let Some(stored) = self.stored(node, port + 1) else { return Ok(None) };
        match self.floats.get(&id) {
            Some(&(real, how)) if how == stored => Ok(Some(real)),
            Some(_) | None => Ok(Some(self.dequantize_integers(id, stored)?)),
        }
    }

    /// Returns the bias of a product of the first two operands.
    fn bias(
        &mut self,
        node: &Node,
        port: usize,
        row: &FloatOp,
    ) -> Result<Option<ValueId>, QuantError> {
        let sides = [1, 4].map(|port| self.encodings(node, port));
        let (Some(id), [Some((left, ..)), Some((right, ..))]) = (node.input(port), sides) else {
            return Ok(None);
        };
        let &[left] = left.as_slice() else { return Ok(None) };
        let Some(tensor) = self.graph.constant(id) else { return Ok(None) };
        let Some(sums) = whole(tensor) else { return Ok(None) };
        let step = |at: usize| {
            let of = right.get(at % right.len()).copied().unwrap_or(1.0);
            f64::from(left) * f64::from(of) * row.factor(node)
        };
        #[expect(clippy::cast_possible_truncation, reason = "a bias is rounded once")]
        let all = sums.iter().enumerate().map(|(at, &sum)| (f64::from(sum) * step(at)) as f32);
        let all: Vec<f32> = all.collect();
        let tensor = Tensor::from_slice(tensor.desc().full_shape(), &all)?;
        Ok(Some(self.constant(&format!("{}_numbers", self.name(id)), tensor)))
    }

    /// Replaces a quantized operator by a float operator; returns `None` if an operand has no float values.
    fn compute(&mut self, node: &Node, row: &FloatOp) -> Result<Option<()>, QuantError> {
        let Some(to) = node.output(0) else { return Ok(None) };
        let mut own = row.node(node);
        let result = match row.ports {
            Ports::At { plain, operands, result, bias } => {
                own.inputs.extend(plain.iter().map(|&port| node.input(port)));
                for &port in operands {
                    let Some(real) = self.operand(node, port, row)? else { return Ok(None) };
                    own.inputs.push(Some(real));
                }
                if let Some(port) = bias.filter(|&port| node.input(port).is_some()) {
                    let Some(real) = self.bias(node, port, row)? else { return Ok(None) };
                    own.inputs.push(Some(real));
                }
                result
            }
            Ports::Joined => {
                for port in (2..node.inputs.len()).step_by(3) {
                    let Some(real) = self.operand(node, port, row)? else { return Ok(None) };
                    own.inputs.push(Some(real));
                }
                0
            }
        };
        if node.input(result).is_none() {
            own.outputs = vec![Some(to)];
            self.push(own);
            return Ok(Some(()));
        }
        let Some(stored) = self.stored(node, result) else { return Ok(None) };
        let real = self.value(to, "result");
        own.outputs = vec![Some(real)];
        self.push(own);
        self.replace_by_float(real, to, stored).map(Some)
    }

    /// Applies a node that moves quantized values to the float values.
    fn move_floats(&mut self, node: &Node, moved: Moved) {
        let count = match moved {
            Moved::First => 1,
            Moved::All => node.inputs.len(),
        };
        let of = |id: &Option<ValueId>| id.and_then(|id| self.floats.get(&id)).copied();
        let found: Option<Vec<_>> = node.inputs.iter().take(count).map(of).collect();
        let Some(found) = found else { return self.keep_rounding(node, count) };
        let Some(&(_, stored)) = found.first() else { return };
        if found.iter().any(|(_, other)| *other != stored) {
            return;
        }
        let mut own = node.clone();
        own.name = self.names.fresh(&format!("{}_numbers", node.name));
        for (input, (real, _)) in own.inputs.iter_mut().zip(&found) {
            *input = Some(*real);
        }
        for output in own.outputs.iter_mut().flatten() {
            let real = self.value(*output, "numbers");
            self.floats.insert(*output, (real, stored));
            *output = real;
        }
        self.push(own);
    }

    /// Records that moved values are still clipped and rounded.
    fn keep_rounding(&mut self, node: &Node, count: usize) {
        let last = |id: ValueId| self.replaced.get(&id).copied().unwrap_or(id);
        let of = |id: &Option<ValueId>| id.and_then(|id| self.rounded.get(&last(id))).copied();
        let found: Option<Vec<_>> = node.inputs.iter().take(count).map(of).collect();
        let Some([first, others @ ..]) = found.as_deref() else { return };
        if others.iter().all(|other| other == first) {
            self.rounded.extend(node.outputs.iter().flatten().map(|&output| (output, *first)));
        }
    }

    /// Applies a node that searches quantized values to the float values.
    fn search(&mut self, node: &Node) -> Option<()> {
        let &(real, _) = self.floats.get(&node.input(0)?)?;
        let mut own = node.clone();
        *own.inputs.first_mut()? = Some(real);
        self.push(own);
        Some(())
    }
}

/// How a node of the quantized model is converted.
#[derive(Clone, Copy, Debug)]
enum Conversion {
    /// It quantizes: the float value is clipped and rounded.
    Quantize,
    /// It dequantizes: the float value exists already.
    Dequantize,
    /// It becomes a float operator.
    FloatOp(&'static FloatOp),
    /// It moves or selects elements of its first input, or of all inputs.
    Moves(Moved),
    /// It returns the position of an extreme, which is the same in float values.
    Searches,
}

/// The inputs that are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    First,
    All,
}

/// A quantized operator with its float form.
#[derive(Debug)]
struct FloatOp {
    op: &'static str,
    domain: &'static str,
    /// The float operator and its operator set.
    is: &'static str,
    opset: u32,
    ports: Ports,
}

/// The positions of an operator's operands, each of which is followed by scale and zero point.
#[derive(Clone, Copy, Debug)]
enum Ports {
    /// Operands at these inputs, further inputs that stay unchanged, the scale and zero point of the result, and a bias
    /// in units of the product of the first two scales.
    At { plain: &'static [usize], operands: &'static [usize], result: usize, bias: Option<usize> },
    /// The scale and zero point of the result, then all operands.
    Joined,
}

const MICROSOFT: &str = "com.microsoft";

/// The domain of this project's own operators.
const UDO: &str = "udo";

const fn of(op: &'static str, is: (&'static str, u32), operands: &'static [usize]) -> FloatOp {
    let result = 3 * operands.len();
    let ports = Ports::At { plain: &[], operands, result, bias: None };
    FloatOp { op, domain: MICROSOFT, is: is.0, opset: is.1, ports }
}

const FLOAT_OPS: &[FloatOp] = &[
    FloatOp {
        domain: "",
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 6, bias: Some(8) },
        ..of("QLinearConv", ("Conv", 11), &[0, 3])
    },
    FloatOp {
        domain: UDO,
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 6, bias: Some(8) },
        ..of("QLinearConvTranspose", ("ConvTranspose", 11), &[0, 3])
    },
    FloatOp { domain: "", ..of("QLinearMatMul", ("MatMul", 13), &[0, 3]) },
    FloatOp {
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 7, bias: Some(6) },
        ..of("QGemm", ("Gemm", 13), &[0, 3])
    },
    of("QLinearAdd", ("Add", 14), &[0, 3]),
    of("QLinearMul", ("Mul", 14), &[0, 3]),
    of("QLinearAveragePool", ("AveragePool", 11), &[0]),
    of("QLinearGlobalAveragePool", ("GlobalAveragePool", 1), &[0]),
    of("QLinearLeakyRelu", ("LeakyRelu", 16), &[0]),
    of("QLinearReduceMean", ("ReduceMean", 13), &[0]),
    of("QLinearSigmoid", ("Sigmoid", 13), &[0]),
    of("QLinearSoftmax", ("Softmax", 13), &[0]),
    FloatOp {
        ports: Ports::At { plain: &[0], operands: &[1, 4], result: 7, bias: None },
        ..of("QLinearWhere", ("Where", 16), &[1, 4])
    },
    FloatOp { ports: Ports::Joined, ..of("QLinearConcat", ("Concat", 13), &[]) },
];

/// ONNX operators on quantized values that select elements of their first input.
const SELECTS_FROM_ONE: &[&str] = &["MaxPool", "ReduceMax", "ReduceMin"];

/// ONNX operators whose results are elements of all inputs.
const SELECTS_FROM_ALL: &[&str] = &["Concat", LARGEST_OF_ALL, LEAST_OF_ALL];

/// The attribute for channels-last images, which float operators do not have.
const CHANNELS_LAST: &str = "channels_last";

/// The attribute of `QLinearSoftmax` with the operator set whose semantics it has.
const OPSET: &str = "opset";

impl Conversion {
    /// Returns how a node is converted; `None` if it stays as it is.
    fn from_node(node: &Node) -> Option<Self> {
        let op = node.op.as_str();
        let named = |names: &[&str]| node.domain.is_empty() && names.contains(&op);
        let is_own = node.domain.is_empty() || node.domain == MICROSOFT;
        if node.op == QUANTIZE && is_own {
            return Some(Self::Quantize);
        }
        if node.op == DEQUANTIZE && is_own {
            return Some(Self::Dequantize);
        }
        let is_of_first = named(SELECTS_FROM_ONE) || node.domain.is_empty() && moves_elements(op);
        if is_of_first && node.outputs.iter().flatten().count() <= outputs_of(node) {
            return Some(Self::Moves(Moved::First));
        }
        if named(SELECTS_FROM_ALL) {
            return Some(Self::Moves(Moved::All));
        }
        if named(&[FINDS_LARGEST, FINDS_LEAST]) {
            return Some(Self::Searches);
        }
        let is_last = node.int_attr(CHANNELS_LAST).is_some_and(|last| last != 0);
        let of = |row: &&FloatOp| row.op == node.op && row.domain == node.domain;
        FLOAT_OPS.iter().find(of).filter(|_| !is_last).map(Self::FloatOp)
    }

    /// Returns whether it has an encoding.
    fn has_encoding(self) -> bool {
        matches!(self, Self::Quantize | Self::Dequantize | Self::FloatOp(_))
    }
}

/// Returns the number of outputs of a node that moves values; the second output of a pooling are indices.
fn outputs_of(node: &Node) -> usize {
    if node.op == "Split" { usize::MAX } else { 1 }
}

impl FloatOp {
    /// Returns the float node, without its tensors.
    fn node(&self, of: &Node) -> Node {
        let mut node = Node { name: of.name.clone(), ..Node::new(self.is, self.opset, &[], &[]) };
        if let Some(opset) = of.int_attr(OPSET) {
            node.opset = u32::try_from(opset).unwrap_or(self.opset);
        }
        let own = of.attrs.iter().filter(|(name, _)| name != CHANNELS_LAST && name != OPSET);
        node.attrs = own.cloned().collect();
        node
    }

    /// Returns the axis of a constant operand with several scales.
    fn axis(&self, of: &Node, rank: usize) -> usize {
        match self.is {
            "ConvTranspose" => 1,
            "MatMul" => rank.saturating_sub(1),
            "Gemm" => usize::from(of.int_attr(TRANSPOSED) != Some(1)),
            _ => 0,
        }
    }

    /// Returns a further factor of the products.
    fn factor(&self, of: &Node) -> f64 {
        let alpha = of.float_attr("alpha").filter(|_| self.is == "Gemm");
        alpha.unwrap_or(1.0)
    }
}
