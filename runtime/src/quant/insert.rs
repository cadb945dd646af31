//! Inserts `QuantizeLinear` and `DequantizeLinear` nodes around the operators of a graph.

use std::collections::{BTreeMap, HashMap};

use udo_api::{DType, Encoding, Shape, resolve_axis};

use super::edit::{Names, sweep};
use super::encoded::{Encoded, Kind};
use super::encodings::Given;
use super::masks::Levels as MaskLevels;
use super::noise::Noise;
use super::operators::{DEQUANTIZE, QUANTIZE, StoredFor};
use super::range::{Bits, Levels, Range, to_single};
use super::sites::{Constant, Sites};
use super::weights::{self, Along, Scheme, Stored};
use super::{BiasStorage, QuantError, Settings, WeightEncoding};
use udo_graph::graph::{Attr, Graph, GraphValue, Node, NodeId, ValueId};
use udo_graph::memory::{Tensor, TensorError};

/// The operator set of these nodes, the first with scales along an axis.
const OPSET: u32 = 13;

/// The operator set for values of 16 bits.
const WIDE_OPSET: u32 = 21;

/// The result of the insertion.
pub(super) struct Inserted {
    pub(super) graph: Graph,
    pub(super) encoded: Vec<Encoded>,
}

/// Returns the quantized graph, with an encoding for each group of values.
///
/// # Errors
/// There is not enough memory.
pub(super) fn insert(
    graph: &Graph,
    sites: &Sites,
    of_groups: &[(Levels, Encoding)],
    of_constants: &Constants<'_>,
) -> Result<Inserted, QuantError> {
    let mut insertion = Insertion {
        graph: Graph { nodes: Vec::new(), ..graph.clone() },
        names: Names::new(graph),
        sites,
        of_groups,
        of_constants,
        numbers: vec![None; of_groups.len()],
        back: HashMap::new(),
        encoded: Vec::new(),
    };
    for &input in &graph.inputs {
        insertion.store_value(input)?;
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        insertion.add(NodeId::new(at), node)?;
    }
    let Insertion { mut graph, encoded, .. } = insertion;
    sweep(&mut graph);
    graph.verify()?;
    Ok(Inserted { graph, encoded })
}

/// How constants are quantized.
pub(super) struct Constants<'a> {
    pub(super) settings: &'a Settings,
    /// The user's encodings, by name.
    pub(super) given: &'a BTreeMap<String, Given>,
    /// Biases that replace the graph's.
    pub(super) biases: &'a HashMap<NodeId, Vec<f32>>,
    /// The levels at which constant masks are stored.
    pub(super) masks: &'a MaskLevels,
}

struct Insertion<'a> {
    /// The new graph.
    graph: Graph,
    names: Names,
    sites: &'a Sites,
    of_groups: &'a [(Levels, Encoding)],
    of_constants: &'a Constants<'a>,
    /// Scale and zero point of each group, once they exist.
    numbers: Vec<Option<[ValueId; 2]>>,
    /// The dequantized value of each quantized one.
    back: HashMap<ValueId, ValueId>,
    encoded: Vec<Encoded>,
}

impl Insertion<'_> {
    fn name(&self, id: ValueId) -> String {
        self.graph.value(id).map_or_else(|_| String::new(), |value| value.value().name.clone())
    }

    fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let name = self.names.fresh(name);
        self.graph.add_constant(&name, tensor)
    }

    fn value(&mut self, name: &str) -> ValueId {
        let name = self.names.fresh(name);
        self.graph.add_value(&name)
    }

    /// Adds a node that computes `output`, with a given name.
    fn step(
        &mut self,
        (name, op): (&str, &str),
        levels: Levels,
        inputs: &[ValueId],
        output: ValueId,
    ) {
        let is_wide = matches!(levels.dtype, DType::U16 | DType::I16);
        let opset = if is_wide { WIDE_OPSET } else { OPSET };
        let mut node = Node::new(op, opset, inputs, &[output]);
        node.name = self.names.fresh(&format!("{name}_{op}"));
        self.graph.nodes.push(node);
    }

    /// Adds a node that reads dequantized values, and quantizes its outputs.
    fn add(&mut self, id: NodeId, node: &Node) -> Result<(), QuantError> {
        let mut own = node.clone();
        for (port, input) in own.inputs.iter_mut().enumerate() {
            let Some(value) = *input else { continue };
            if let Some(&back) = self.back.get(&value) {
                *input = Some(back);
            } else if let Some(constant) = self.sites.constants.get(&(id, port))
                && let Constant::Operand(stored_for) = *constant
            {
                *input = Some(self.store_operand(value, stored_for)?);
            }
        }
        self.store_weights(id, node, &mut own)?;
        let mut outputs = Vec::new();
        for output in &mut own.outputs {
            // A graph output keeps its name: the node computes another value, which is quantized and dequantized into
            // the output.
            if let Some(id) =
                output.filter(|id| self.graph.outputs.contains(id) && self.group(*id).is_some())
            {
                let made = self.value(&format!("{}_QuantizeLinear_Input", self.name(id)));
                *output = Some(made);
                outputs.push((id, made, Some(id)));
            } else if let Some(id) = *output {
                outputs.push((id, id, None));
            }
        }
        self.graph.nodes.push(own);
        for (id, made, back) in outputs {
            self.store_made(id, made, back)?;
        }
        Ok(())
    }

    /// Returns the group whose encoding a value has.
    fn group(&self, id: ValueId) -> Option<usize> {
        let own = self.sites.of.get(id).copied().flatten();
        own.or_else(|| {
            let cut = self.sites.cuts.get(&id)?;
            let group = self.sites.of.get(cut.after).copied().flatten()?;
            let &(levels, encoding) = self.of_groups.get(group)?;
            (!cut.is_fused(levels, encoding)).then_some(group)
        })
    }

    fn store_value(&mut self, id: ValueId) -> Result<(), QuantError> {
        self.store_made(id, id, None)
    }

    /// Quantizes `made`, which the graph calls `id`, and dequantizes it to `back` or a new value.
    fn store_made(
        &mut self,
        id: ValueId,
        made: ValueId,
        back: Option<ValueId>,
    ) -> Result<(), QuantError> {
        let Some(group) = self.group(id) else { return Ok(()) };
        let (Some(&(levels, encoding)), Some(of)) =
            (self.of_groups.get(group), self.sites.groups.get(group))
        else {
            return Ok(());
        };
        let known = self.numbers.get(group).copied().flatten();
        let [scale, zero] = if let Some(known) = known {
            known
        } else {
            let numbers = self.numbers_of(&self.name(of.root), levels, &[encoding], None)?;
            self.numbers[group] = Some(numbers);
            numbers
        };
        let name = self.name(id);
        let stored = self.value(&format!("{name}_QuantizeLinear_Output"));
        self.step((&name, QUANTIZE), levels, &[made, scale, zero], stored);
        let back = back.unwrap_or_else(|| self.value(&format!("{name}_DequantizeLinear_Output")));
        self.step((&name, DEQUANTIZE), levels, &[stored, scale, zero], back);
        self.back.insert(id, back);
        let (encodings, back) = (vec![encoding], self.name(back));
        let kind = Kind::Activation;
        let (noise, width) = (None, None);
        // Elements that the consumer clips are no loss.
        let unmasked = self.sites.cuts.get(&id).map(|_| levels.range(encoding));
        self.encoded.push(Encoded { name, kind, levels, encodings, back, noise, width, unmasked });
        Ok(())
    }

    /// Adds constants with scales and zero points.
    fn numbers_of(
        &mut self,
        name: &str,
        levels: Levels,
        encodings: &[Encoding],
        axis: Option<usize>,
    ) -> Result<[ValueId; 2], QuantError> {
        let shape = match axis {
            None => Shape::SCALAR,
            Some(_) => Shape::new(&[encodings.len()]).map_err(|_| QuantError::Encodings {
                value: name.to_owned(),
                found: format!("{} encodings", encodings.len()),
                wanted: "as many as a tensor may have".to_owned(),
            })?,
        };
        let scales: Vec<f32> = encodings.iter().map(|encoding| encoding.scale).collect();
        let zeros = encodings.iter().map(|encoding| encoding.zero_point);
        let zeros = weights::of_ints(levels.dtype, shape, zeros)?;
        let scale = self.constant(&format!("{name}_scale"), Tensor::from_slice(shape, &scales)?);
        Ok([scale, self.constant(&format!("{name}_zero_point"), zeros)])
    }

    /// Adds a quantized constant and the node that dequantizes it.
    fn add_stored(
        &mut self,
        (name, tensor): (&str, &Tensor),
        kind: Kind,
        stored: Stored,
    ) -> Result<ValueId, QuantError> {
        let exact = tensor.get::<f32>().unwrap_or_default();
        let noise = Some(Noise::measure(exact, &stored.numbers()));
        let Stored { values, levels, encodings, axis } = stored;
        let ranges = Along::new(tensor.dims(), axis).ranges(exact).into_iter();
        let width = ranges.map(Range::width).min_by(f64::total_cmp);
        let [scale, zero] = self.numbers_of(name, levels, &encodings, axis)?;
        let values = self.constant(&format!("{name}_quantized"), values);
        let back = self.value(&format!("{name}_DequantizeLinear_Output"));
        self.step((name, DEQUANTIZE), levels, &[values, scale, zero], back);
        if let Some(axis) = axis.and_then(|axis| i64::try_from(axis).ok())
            && let Some(node) = self.graph.nodes.last_mut()
        {
            node.attrs.push(("axis".to_owned(), Attr::Int(axis)));
        }
        let (name, back) = (name.to_owned(), self.name(back));
        let unmasked = None;
        self.encoded.push(Encoded { name, kind, levels, encodings, back, noise, width, unmasked });
        Ok(back_id(&self.graph))
    }

    /// Quantizes a constant operand like other operands.
    fn store_operand(&mut self, id: ValueId, stored_for: StoredFor) -> Result<ValueId, QuantError> {
        if let Some(&back) = self.back.get(&id) {
            return Ok(back);
        }
        let Some(tensor) = self.sites.known.get(&id) else { return Ok(id) };
        let bits = stored_for.bits(self.of_constants.settings.activation_bits);
        let scheme = Scheme::Asymmetric(bits);
        let name = self.name(id);
        let (levels, encodings) = match self.of_constants.given.get(&name) {
            Some((levels, encodings)) if encodings.len() == 1 => (*levels, encodings.clone()),
            Some(_) | None => {
                let numbers = tensor.get::<f32>().unwrap_or_default();
                let range = self.of_constants.masks.constant(id);
                let range = range.unwrap_or_else(|| Range::from_numbers(numbers));
                check(&name, numbers, range)?;
                let least_width = self.of_constants.settings.least_width;
                (scheme.levels(), vec![scheme.encoding(range, least_width)])
            }
        };
        let cut = self.of_constants.masks.constant(id).map(|range| cut_to(tensor, range));
        let cut = cut.transpose()?;
        let tensor = cut.as_ref().unwrap_or(tensor);
        let stored = weights::store(tensor, levels, encodings, None)?;
        let back = self.add_stored((&name, tensor), Kind::Weights, stored)?;
        self.back.insert(id, back);
        Ok(back)
    }

    /// Quantizes the weights of a product, and its bias in units of the product's scales.
    fn store_weights(&mut self, id: NodeId, node: &Node, own: &mut Node) -> Result<(), QuantError> {
        let sites = self.sites;
        let of = sites.constants.range((id, 0)..=(id, usize::MAX));
        for (&(_, port), &constant) in of {
            let Constant::Weights { axis, bias } = constant else { continue };
            let (Some(value), Some(other)) = (node.input(port), node.input(1 - port.min(1))) else {
                continue;
            };
            let Some(tensor) = sites.known.get(&value) else { continue };
            let scale = self.group(other).and_then(|group| self.of_groups.get(group));
            let scale = scale.map(|(_, encoding)| encoding.scale);
            let stored_bias = bias.and_then(|port| self.bias(id, node, port));
            let numbers = stored_bias.as_ref().and_then(|bias| bias.get::<f32>());
            let fitted = numbers.zip(scale);
            let stored = self.of_constants.weights(&self.name(value), tensor, axis, fitted)?;
            if let (Some(bias), Some(port), Some(scale)) = (&stored_bias, bias, scale) {
                let encodings = &stored.encodings;
                let steps = self.of_constants.bias(bias, scale, encodings)?;
                let name = match node.input(port) {
                    Some(own) => self.name(own),
                    None => format!("{}_bias", self.name(value)),
                };
                let numbers = bias.get::<f32>().unwrap_or_default();
                check(&name, numbers, Range::from_numbers(numbers))?;
                let back = self.add_stored((&name, bias), Kind::Bias, steps)?;
                own.inputs.resize(own.inputs.len().max(port + 1), None);
                own.inputs[port] = Some(back);
            }
            let name = self.name(value);
            own.inputs[port] = Some(self.add_stored((&name, tensor), Kind::Weights, stored)?);
        }
        Ok(())
    }

    /// Returns the elements of a bias, if it has one for each result.
    fn bias(&self, id: NodeId, node: &Node, port: usize) -> Option<Tensor> {
        let corrected = self.of_constants.biases.get(&id);
        if let Some(bias) = corrected {
            return Tensor::from_slice(Shape::new(&[bias.len()]).ok()?, bias).ok();
        }
        let tensor = self.sites.known.get(&node.input(port)?)?;
        (tensor.dtype() == DType::F32 && tensor.dims().len() == 1).then(|| tensor.clone())
    }
}

/// Returns the output of the last node.
fn back_id(graph: &Graph) -> ValueId {
    let last = graph.nodes.last().and_then(|node| node.output(0));
    last.unwrap_or(ValueId::new(usize::MAX))
}

impl Constants<'_> {
    /// Quantizes weights. Their scales are at least as large as the bias needs in units of the product's scales.
    pub(super) fn weights(
        &self,
        name: &str,
        tensor: &Tensor,
        axis: Option<usize>,
        bias: Option<(&[f32], f32)>,
    ) -> Result<Stored, QuantError> {
        let scheme = self.settings.weights();
        if let Some((levels, encodings)) = self.given.get(name) {
            let said = self.settings.encodings.axes.get(name).copied();
            let axis = axis_of_given((name, said), tensor, axis, encodings)?;
            return Ok(weights::store(tensor, *levels, encodings.clone(), axis)?);
        }
        let axis = axis.filter(|_| self.settings.weight_encoding == WeightEncoding::PerChannel);
        let numbers = tensor.get::<f32>().unwrap_or_default();
        check(name, numbers, Range::from_numbers(numbers))?;
        let scheme_of = (scheme, self.settings.least_width);
        let mut encodings = weights::encodings(numbers, Along::new(tensor.dims(), axis), scheme_of);
        if let Some((bias, scale)) = bias.filter(|_| self.settings.bias == BiasStorage::Sums) {
            weights::fit_bias(&mut encodings, bias, scale);
        }
        Ok(weights::store(tensor, scheme.levels(), encodings, axis)?)
    }

    fn bias(
        &self,
        tensor: &Tensor,
        scale: f32,
        weights: &[Encoding],
    ) -> Result<Stored, QuantError> {
        match self.settings.bias {
            BiasStorage::Sums => Ok(weights::store_bias(tensor, scale, weights)?),
            BiasStorage::Eight => {
                let scheme = Scheme::Symmetric(Bits::Eight);
                let numbers = tensor.get::<f32>().unwrap_or_default();
                let along = Along::new(tensor.dims(), None);
                let scheme_of = (scheme, self.settings.least_width);
                let encodings = weights::encodings(numbers, along, scheme_of);
                Ok(weights::store(tensor, scheme.levels(), encodings, None)?)
            }
        }
    }
}

/// Returns a tensor whose masks are moved to the ends of a range.
fn cut_to(tensor: &Tensor, range: Range) -> Result<Tensor, TensorError> {
    let [min, max] = [range.min, range.max].map(to_single);
    let numbers = tensor.get::<f32>().unwrap_or_default().iter();
    let numbers: Vec<f32> = numbers.map(|number| number.max(min).min(max)).collect();
    Tensor::from_slice(tensor.desc().full_shape(), &numbers)
}

/// Refuses a constant with NaN elements, or with infinite elements that are not only masks.
fn check(name: &str, numbers: &[f32], range: Range) -> Result<(), QuantError> {
    let value = || name.to_owned();
    if numbers.iter().any(|number| number.is_nan()) {
        return Err(QuantError::NotANumber { value: value() });
    }
    if !range.is_empty() && !range.is_finite() {
        return Err(QuantError::Infinite { value: value() });
    }
    Ok(())
}

/// Returns the axis of the user's encodings: `None` if there is one, else the axis of the results.
fn axis_of_given(
    (name, said): (&str, Option<i64>),
    tensor: &Tensor,
    axis: Option<usize>,
    encodings: &[Encoding],
) -> Result<Option<usize>, QuantError> {
    let count = axis.and_then(|axis| tensor.dims().get(axis).copied());
    let is_other = |said| resolve_axis(said, tensor.dims().len()) != axis;
    match encodings.len() {
        1 => Ok(None),
        _ if said.is_some_and(is_other) => Err(QuantError::Encodings {
            value: name.to_owned(),
            found: format!("encodings along axis {}", said.unwrap_or_default()),
            wanted: axis.map_or("1".to_owned(), |axis| {
                format!("1, or those along axis {axis} of its results")
            }),
        }),
        found if count == Some(found) => Ok(axis),
        found => Err(QuantError::Encodings {
            value: name.to_owned(),
            found: format!("{found} encodings"),
            wanted: count
                .map_or("1".to_owned(), |count| format!("1, or {count}, one for each result")),
        }),
    }
}
