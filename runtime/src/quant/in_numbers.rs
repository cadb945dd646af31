//! Quantized models for cores that compute with numbers: they are dequantized while they are loaded.
//!
//! Weights and biases become the numbers that they stand for. What nodes compute is cut off where the stored values end, as models rely on
//! that: a Relu is often nothing else; and rounded to what values stand for, so that results are those that the model was made for. Values
//! that the model gives or takes as integers are made of numbers, or numbers of them, by operators on numbers.

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

/// The operator that rounds numbers to a step.
const ROUND_TO: (&str, u32) = ("RoundTo", 1);

/// Its domain.
const DOMAIN: &str = "udo";

/// A graph in numbers.
pub(super) struct InNumbers {
    pub(super) graph: Graph,
    /// How many values were stored, and how many constants.
    pub(super) values: usize,
    pub(super) constants: usize,
}

/// Whether a graph says something of quantized values.
pub(crate) fn speaks(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| Form::of(node).is_some_and(Form::speaks))
}

/// The graph with numbers in the place of quantized values. What has no form in numbers stays as it is.
///
/// # Errors
/// There is no memory for it.
pub(super) fn in_numbers(graph: &Graph) -> Result<InNumbers, QuantError> {
    let mut rewrite = Rewrite {
        graph: Graph { nodes: Vec::new(), ..graph.clone() },
        names: Names::of(graph),
        lifted: HashMap::new(),
        cut: HashMap::new(),
        instead: HashMap::new(),
        dequantized: HashMap::new(),
    };
    for node in &graph.nodes {
        rewrite.add(node)?;
    }
    let Rewrite { mut graph, lifted, dequantized, .. } = rewrite;
    sweep(&mut graph);
    graph.verify()?;
    Ok(InNumbers { graph, values: lifted.len(), constants: dequantized.len() })
}

/// How values of one scale are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stored {
    dtype: DType,
    encoding: Encoding,
}

impl Stored {
    /// The least and the largest integer.
    fn ends(self) -> Option<[i32; 2]> {
        Some(match self.dtype {
            DType::U8 => [0, 255],
            DType::I8 => [-128, 127],
            DType::U16 => [0, 65_535],
            DType::I16 => [-32_768, 32_767],
            _ => return None,
        })
    }

    /// What ONNX calls the type.
    fn code(self) -> i64 {
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
    /// What is made.
    graph: Graph,
    names: Names,
    /// The numbers of stored values, and how they were stored.
    lifted: HashMap<ValueId, (ValueId, Stored)>,
    /// Numbers that are what stored ones stand for.
    cut: HashMap<ValueId, Stored>,
    /// Values that nodes read in the place of others.
    instead: HashMap<ValueId, ValueId>,
    /// The numbers of constants, by the constant and its scale.
    dequantized: HashMap<(ValueId, ValueId), ValueId>,
}

impl Rewrite {
    fn add(&mut self, node: &Node) -> Result<(), QuantError> {
        let done = match Form::of(node) {
            Some(Form::Quantize) => self.quantize(node)?,
            Some(Form::Dequantize) => self.dequantize(node)?,
            Some(Form::Numbers(row)) => self.compute(node, row)?,
            Some(Form::Moves(moved)) => {
                self.move_numbers(node, moved);
                None
            }
            Some(Form::Finds) => self.find(node),
            None => None,
        };
        if done.is_none() {
            self.push(node.clone());
        }
        Ok(())
    }

    /// Adds a node that reads what is there in the place of its values.
    fn push(&mut self, mut node: Node) {
        let instead = &self.instead;
        redirect(&mut node, &|id| instead.get(&id).copied().unwrap_or(id));
        self.graph.nodes.push(node);
    }

    fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let name = self.names.fresh(name);
        self.graph.add_constant(&name, tensor)
    }

    fn scalar(&mut self, name: &str, number: f32) -> Result<ValueId, QuantError> {
        let tensor = Tensor::of(Shape::SCALAR, &[number])?;
        Ok(self.constant(name, tensor))
    }

    fn name(&self, id: ValueId) -> String {
        self.graph.value(id).map_or_else(|_| String::new(), |value| value.value().name.clone())
    }

    /// A new value that is called after another.
    fn value(&mut self, of: ValueId, what: &str) -> ValueId {
        let name = self.names.fresh(&format!("{}_{what}", self.name(of)));
        self.graph.add_value(&name)
    }

    /// Adds a node that makes a value of others, and is called after what it makes.
    fn step(&mut self, (op, opset): (&str, u32), inputs: &[ValueId], output: ValueId) {
        let mut node = Node::new(op, opset, inputs, &[output]);
        node.name = self.names.fresh(&format!("{}_{op}", self.name(output)));
        self.push(node);
    }

    /// The scales and zero points at two inputs of a node, and the type of what is stored so.
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

    /// The same, if there is one scale.
    fn stored(&self, node: &Node, port: usize) -> Option<Stored> {
        let (scales, zeros, dtype) = self.encodings(node, port)?;
        let (&[scale], &[zero_point]) = (scales.as_slice(), zeros.as_slice()) else { return None };
        let stored = Stored { dtype, encoding: Encoding { scale, zero_point } };
        let is_one = scale.is_finite() && scale > 0.0 && stored.ends().is_some();
        is_one.then_some(stored)
    }

    /// Has `to` stand for stored numbers: they are cut off where those end, and rounded as they are.
    fn lift(&mut self, real: ValueId, to: ValueId, stored: Stored) -> Result<(), QuantError> {
        let Some(ends) = stored.ends() else { return Ok(()) };
        let Encoding { scale, zero_point } = stored.encoding;
        let real = self.instead.get(&real).copied().unwrap_or(real);
        if self.cut.get(&real) == Some(&stored) {
            self.lifted.insert(to, (real, stored));
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
        self.lifted.insert(to, (rounded, stored));
        self.cut.insert(rounded, stored);
        self.store(rounded, to, stored)
    }

    /// What the last node takes the negative numbers of, if it makes `real`: what is cut off at 0 needs no Relu before.
    fn before_relu(&self, real: ValueId) -> Option<ValueId> {
        let last = self.graph.nodes.last().filter(|node| node.output(0) == Some(real))?;
        if last.op == "Relu" && last.domain.is_empty() { last.input(0) } else { None }
    }

    /// Makes the integers of numbers, for who wants them: the sweep takes the nodes out otherwise.
    fn store(&mut self, real: ValueId, to: ValueId, stored: Stored) -> Result<(), QuantError> {
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
            cast.attrs.push(("to".to_owned(), Attr::Int(stored.code())));
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
        self.lift(from, to, stored).map(Some)
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
            return Ok(self.constant_operand(node, 0, along)?.map(|real| self.stand_in(real, to)));
        }
        let Some(stored) = self.stored(node, 1) else { return Ok(None) };
        let real = match self.lifted.get(&from) {
            Some(&(real, how)) if how == stored => real,
            Some(_) | None => self.number(from, stored)?,
        };
        self.stand_in(real, to);
        Ok(Some(()))
    }

    /// Has nodes read `real` where they read `to`, which is made of it where the graph gives it.
    fn stand_in(&mut self, real: ValueId, to: ValueId) {
        if self.graph.outputs.contains(&to) {
            self.step(("Identity", 13), &[real], to);
        }
        self.instead.insert(to, real);
    }

    /// The numbers of integers that are no node's of this graph in numbers.
    fn number(&mut self, from: ValueId, stored: Stored) -> Result<ValueId, QuantError> {
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

    /// The numbers of a constant operand, whose scale and zero point are behind it.
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
        if let Some(&known) = self.dequantized.get(&(id, scale)) {
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
        let tensor = Tensor::of(tensor.desc().full_shape(), &numbers(tensor, &all, axis))?;
        let real = self.constant(&format!("{}_numbers", self.name(id)), tensor);
        self.dequantized.insert((id, scale), real);
        Ok(Some(real))
    }

    /// The numbers of an operand, whose scale and zero point are behind it.
    fn operand(
        &mut self,
        node: &Node,
        port: usize,
        row: &Numbers,
    ) -> Result<Option<ValueId>, QuantError> {
        let Some(id) = node.input(port) else { return Ok(None) };
        if self.graph.constant(id).is_some() {
            return self.constant_operand(node, port, |rank| Some(row.axis(node, rank)));
        }
        let Some(stored) = self.stored(node, port + 1) else { return Ok(None) };
        match self.lifted.get(&id) {
            Some(&(real, how)) if how == stored => Ok(Some(real)),
            Some(_) | None => Ok(Some(self.number(id, stored)?)),
        }
    }

    /// A bias of sums of the first two operands.
    fn bias(
        &mut self,
        node: &Node,
        port: usize,
        row: &Numbers,
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
        let tensor = Tensor::of(tensor.desc().full_shape(), &all)?;
        Ok(Some(self.constant(&format!("{}_numbers", self.name(id)), tensor)))
    }

    /// An operator on numbers in the place of one on values; nothing where an operand has no numbers.
    fn compute(&mut self, node: &Node, row: &Numbers) -> Result<Option<()>, QuantError> {
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
        self.lift(real, to, stored).map(Some)
    }

    /// Moves numbers as a node does the values that stand for them.
    fn move_numbers(&mut self, node: &Node, moved: Moved) {
        let count = match moved {
            Moved::First => 1,
            Moved::All => node.inputs.len(),
        };
        let of = |id: &Option<ValueId>| id.and_then(|id| self.lifted.get(&id)).copied();
        let found: Option<Vec<_>> = node.inputs.iter().take(count).map(of).collect();
        let Some(found) = found else { return self.keep_cut(node, count) };
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
            self.lifted.insert(*output, (real, stored));
            *output = real;
        }
        self.push(own);
    }

    /// Knows of numbers that are moved what they stand for.
    fn keep_cut(&mut self, node: &Node, count: usize) {
        let last = |id: ValueId| self.instead.get(&id).copied().unwrap_or(id);
        let of = |id: &Option<ValueId>| id.and_then(|id| self.cut.get(&last(id))).copied();
        let found: Option<Vec<_>> = node.inputs.iter().take(count).map(of).collect();
        let Some([first, others @ ..]) = found.as_deref() else { return };
        if others.iter().all(|other| other == first) {
            self.cut.extend(node.outputs.iter().flatten().map(|&output| (output, *first)));
        }
    }

    /// Looks for numbers where a node looks for the values that stand for them.
    fn find(&mut self, node: &Node) -> Option<()> {
        let &(real, _) = self.lifted.get(&node.input(0)?)?;
        let mut own = node.clone();
        *own.inputs.first_mut()? = Some(real);
        self.push(own);
        Some(())
    }
}

/// What becomes of a node where values are numbers.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// It stores numbers: they stay what they are, cut off where the stored values end.
    Quantize,
    /// It makes numbers of what is stored: these are there.
    Dequantize,
    /// An operator on numbers.
    Numbers(&'static Numbers),
    /// It moves or chooses values, of this many of its first inputs.
    Moves(Moved),
    /// It says where the first or the largest number is, which is where that was among the values.
    Finds,
}

/// Which inputs are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    First,
    All,
}

/// An operator on numbers in the place of one on values.
#[derive(Debug)]
struct Numbers {
    op: &'static str,
    domain: &'static str,
    /// The operator on numbers, and its operator set.
    is: &'static str,
    opset: u32,
    ports: Ports,
}

/// Where an operator has its operands; a scale and a zero point are behind each.
#[derive(Clone, Copy, Debug)]
enum Ports {
    /// Operands at these inputs, others that are as they are, the scale and the zero point of the result, and a bias in steps
    /// of the sums of the first two operands.
    At { plain: &'static [usize], operands: &'static [usize], result: usize, bias: Option<usize> },
    /// The scale and the zero point of the result, then all operands.
    Joined,
}

const MICROSOFT: &str = "com.microsoft";

/// The domain of our own.
const UDO: &str = "udo";

const fn of(op: &'static str, is: (&'static str, u32), operands: &'static [usize]) -> Numbers {
    let result = 3 * operands.len();
    let ports = Ports::At { plain: &[], operands, result, bias: None };
    Numbers { op, domain: MICROSOFT, is: is.0, opset: is.1, ports }
}

const NUMBERS: &[Numbers] = &[
    Numbers {
        domain: "",
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 6, bias: Some(8) },
        ..of("QLinearConv", ("Conv", 11), &[0, 3])
    },
    Numbers {
        domain: UDO,
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 6, bias: Some(8) },
        ..of("QLinearConvTranspose", ("ConvTranspose", 11), &[0, 3])
    },
    Numbers { domain: "", ..of("QLinearMatMul", ("MatMul", 13), &[0, 3]) },
    Numbers {
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
    Numbers {
        ports: Ports::At { plain: &[0], operands: &[1, 4], result: 7, bias: None },
        ..of("QLinearWhere", ("Where", 16), &[1, 4])
    },
    Numbers { ports: Ports::Joined, ..of("QLinearConcat", ("Concat", 13), &[]) },
];

/// Operators of ONNX on quantized values that choose from their first input.
const CHOOSES_FROM_ONE: &[&str] = &["MaxPool", "ReduceMax", "ReduceMin"];

/// Operators of ONNX whose results are values of all their inputs.
const OF_ALL: &[&str] = &["Concat", LARGEST_OF_ALL, LEAST_OF_ALL];

/// An attribute that has channels last, which operators on numbers do not.
const CHANNELS_LAST: &str = "channels_last";

/// The operator set by which `QLinearSoftmax` says what it means.
const OPSET: &str = "opset";

impl Form {
    /// That of a node; nothing where it is computed as it is.
    fn of(node: &Node) -> Option<Self> {
        let op = node.op.as_str();
        let named = |names: &[&str]| node.domain.is_empty() && names.contains(&op);
        let is_own = node.domain.is_empty() || node.domain == MICROSOFT;
        if node.op == QUANTIZE && is_own {
            return Some(Self::Quantize);
        }
        if node.op == DEQUANTIZE && is_own {
            return Some(Self::Dequantize);
        }
        let is_of_first = named(CHOOSES_FROM_ONE) || node.domain.is_empty() && moves_elements(op);
        if is_of_first && node.outputs.iter().flatten().count() <= outputs_of(node) {
            return Some(Self::Moves(Moved::First));
        }
        if named(OF_ALL) {
            return Some(Self::Moves(Moved::All));
        }
        if named(&[FINDS_LARGEST, FINDS_LEAST]) {
            return Some(Self::Finds);
        }
        let is_last = node.int_attr(CHANNELS_LAST).is_some_and(|last| last != 0);
        let of = |row: &&Numbers| row.op == node.op && row.domain == node.domain;
        NUMBERS.iter().find(of).filter(|_| !is_last).map(Self::Numbers)
    }

    /// Whether it says something of quantized values.
    fn speaks(self) -> bool {
        matches!(self, Self::Quantize | Self::Dequantize | Self::Numbers(_))
    }
}

/// How many outputs a node that moves values may have: the second of a pooling are positions.
fn outputs_of(node: &Node) -> usize {
    if node.op == "Split" { usize::MAX } else { 1 }
}

impl Numbers {
    /// The node on numbers, without its tensors.
    fn node(&self, of: &Node) -> Node {
        let mut node = Node { name: of.name.clone(), ..Node::new(self.is, self.opset, &[], &[]) };
        if let Some(opset) = of.int_attr(OPSET) {
            node.opset = u32::try_from(opset).unwrap_or(self.opset);
        }
        let own = of.attrs.iter().filter(|(name, _)| name != CHANNELS_LAST && name != OPSET);
        node.attrs = own.cloned().collect();
        node
    }

    /// The axis of a constant operand's scales, where it has several.
    fn axis(&self, of: &Node, rank: usize) -> usize {
        match self.is {
            "ConvTranspose" => 1,
            "MatMul" => rank.saturating_sub(1),
            "Gemm" => usize::from(of.int_attr(TRANSPOSED) != Some(1)),
            _ => 0,
        }
    }

    /// What sums of products are multiplied by besides.
    fn factor(&self, of: &Node) -> f64 {
        let alpha = of.float_attr("alpha").filter(|_| self.is == "Gemm");
        alpha.unwrap_or(1.0)
    }
}
