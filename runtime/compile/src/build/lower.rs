//! Converts an operation of a built graph to nodes. [`Lower`] is the interface that the functions in `nnrt` use: it
//! reads the operation's inputs and attributes, adds nodes, and sets outputs.
//!
//! An operation works on real values even if its tensors are quantized, and its nodes may have other integer types than
//! its tensors. [`Lower::x`] and [`Lower::give`] add the conversions around its nodes, and passes fuse or fold them as
//! in any model.

use udo_api::{AxisEncoding, DType, Element, Encoding, Encodings, Layout, Shape};

use super::param::{Param, Value, describe};
use super::{Result, Slot, TensorId, invalid, unsupported};
use udo_engine::device::{Error, Extent, SpecDetails, TensorSpec};
use udo_graph::graph::{Attr, Graph, NEWEST, Node, ValueId};
use udo_graph::memory::Tensor;

/// The values of tensors that have one so far.
pub(super) struct Values(Vec<Option<ValueId>>);

impl Values {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![None; count])
    }

    pub(super) fn set(&mut self, tensor: TensorId, value: ValueId) {
        if let Some(slot) = self.0.get_mut(tensor.index()) {
            *slot = Some(value);
        }
    }

    pub(super) fn get(&self, tensor: TensorId) -> Option<ValueId> {
        self.0.get(tensor.index()).copied().flatten()
    }

    pub(super) fn has(&self, tensor: TensorId) -> bool {
        self.get(tensor).is_some()
    }
}

/// An operation in a graph.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Its operator and index.
    pub(super) name: String,
    pub(super) attrs: Vec<(String, Attr)>,
    pub(super) inputs: Vec<Option<TensorId>>,
    pub(super) outputs: Vec<Option<TensorId>>,
}

/// The nodes of one operation under construction.
pub(super) struct Lower<'a> {
    graph: &'a mut Graph,
    tensors: &'a [Slot],
    values: &'a Values,
    call: &'a Call,
    params: &'static [Param],
    /// The numbers of nodes and values before this operation.
    first_node: usize,
    first_value: usize,
}

/// The inputs of a node.
pub(super) type Inputs<'a> = &'a [Option<ValueId>];

impl<'a> Lower<'a> {
    /// Starts the nodes of an operation with these parameters.
    pub(super) fn new(
        graph: &'a mut Graph,
        tensors: &'a [Slot],
        values: &'a Values,
        call: &'a Call,
        params: &'static [Param],
    ) -> Self {
        let (first_node, first_value) = (graph.nodes.len(), graph.values.len());
        Self { graph, tensors, values, call, params, first_node, first_value }
    }

    /// Adds a node of one of the runtime's own operators.
    pub(super) fn ours(&mut self, domain: &str, op: &str) -> Result<()> {
        let call = self.call;
        let mut inputs = Vec::with_capacity(call.inputs.len());
        for (port, input) in call.inputs.iter().enumerate() {
            inputs.push(input.is_some().then(|| self.x(port)).transpose()?);
        }
        let outputs = self.add(domain, op, &inputs, call.attrs.clone(), call.outputs.len());
        for (port, value) in outputs.into_iter().enumerate() {
            if call.outputs.get(port).copied().flatten().is_some() {
                self.give(port, value)?;
            }
        }
        Ok(())
    }

    /// Returns the number of inputs.
    pub(super) fn count(&self) -> usize {
        self.call.inputs.len()
    }

    /// Returns the number of outputs.
    pub(super) fn output_count(&self) -> usize {
        self.call.outputs.len()
    }

    fn input_id(&self, port: usize) -> Result<TensorId> {
        let id = self.call.inputs.get(port).copied().flatten();
        id.ok_or_else(|| invalid(format!("input {port} is left out, expected a tensor")))
    }

    fn output_id(&self, port: usize) -> Result<TensorId> {
        let id = self.call.outputs.get(port).copied().flatten();
        id.ok_or_else(|| invalid(format!("output {port} is left out, expected a tensor")))
    }

    fn slot(&self, id: TensorId) -> Result<&Slot> {
        let slot = self.tensors.get(id.index());
        slot.ok_or_else(|| invalid(format!("there is no tensor {}", id.0)))
    }

    /// Returns the description of input `port`.
    pub(super) fn input(&self, port: usize) -> Result<&TensorSpec> {
        Ok(&self.slot(self.input_id(port)?)?.spec)
    }

    /// Returns the description of output `port`.
    pub(super) fn output(&self, port: usize) -> Result<&TensorSpec> {
        Ok(&self.slot(self.output_id(port)?)?.spec)
    }

    /// Returns the rank of input `port`.
    pub(super) fn rank(&self, port: usize) -> Result<usize> {
        self.input(port).map(TensorSpec::rank)
    }

    /// Returns the extents of input `port` from axis `first` on, which must be fixed.
    pub(super) fn extents(&self, port: usize) -> Result<Vec<usize>> {
        let spec = self.input(port)?;
        let fixed = spec.extents().enumerate().map(|(axis, extent)| match extent {
            Extent::Fixed(n) => Ok(n),
            Extent::Range { .. } | Extent::Open => {
                Err(invalid(format!("input {port} is {spec}, expected dimension {axis} fixed")))
            }
        });
        fixed.collect()
    }

    /// Returns the type of the real values of input `port`.
    pub(super) fn real_type(&self, port: usize) -> Result<DType> {
        let spec = self.input(port)?;
        Ok(if spec.encodings().is_some() { DType::F32 } else { spec.dtype() })
    }

    /// Returns whether the images of input `port` have their channels second.
    pub(super) fn is_nchw(&self, port: usize) -> Result<bool> {
        Ok(self.input(port)?.layout() == Layout::Nchw)
    }

    /// Returns the value of input `port` as it is stored.
    pub(super) fn stored(&self, port: usize) -> Result<ValueId> {
        let id = self.input_id(port)?;
        self.values.get(id).ok_or_else(|| invalid(format!("input {port} has no value")))
    }

    /// Returns the real values of input `port`, dequantized if necessary.
    pub(super) fn x(&mut self, port: usize) -> Result<ValueId> {
        let (value, spec) = (self.stored(port)?, *self.input(port)?);
        match spec.encodings() {
            Some(encodings) => self.dequantized(value, spec.dtype(), encodings),
            None => Ok(value),
        }
    }

    /// Dequantizes a value.
    pub(super) fn dequantized(
        &mut self,
        value: ValueId,
        dtype: DType,
        encodings: Encodings,
    ) -> Result<ValueId> {
        self.convert_encoding("DequantizeLinear", value, dtype, encodings)
    }

    /// Adds a quantizing or dequantizing node.
    fn convert_encoding(
        &mut self,
        op: &str,
        value: ValueId,
        dtype: DType,
        encodings: Encodings,
    ) -> Result<ValueId> {
        let (scales, zero_points, axis) = match encodings {
            Encodings::PerTensor(Encoding { scale, zero_point }) => {
                (vec![scale], vec![zero_point], None)
            }
            Encodings::PerAxis(axis) => {
                (axis.scales().to_vec(), axis.zero_points().to_vec(), Some(axis.axis()))
            }
        };
        let dims: &[usize] = if axis.is_some() { &[scales.len()] } else { &[] };
        let scale = self.constant(dims, &scales)?;
        let zero_points = integer_tensor(dtype, dims, &zero_points)?;
        let zero_points = self.add_constant(zero_points);
        let attrs = axis.map(|axis| ("axis", Attr::Int(i64::try_from(axis).unwrap_or(0))));
        Ok(self.node(op, &[value, scale, zero_points], attrs.as_slice()))
    }

    /// Returns the real values of the bias of a product of inputs 0 and 1. Integers without an encoding have the
    /// product of both scales as their scale, as the sums of quantized products do.
    pub(super) fn bias(&mut self, port: usize) -> Result<ValueId> {
        let bias = *self.input(port)?;
        let (Some(x), Some(w)) = (self.input(0)?.encodings(), self.input(1)?.encodings()) else {
            return self.x(port);
        };
        let Encodings::PerTensor(x) = x else { return self.x(port) };
        if bias.dtype() != DType::I32 || bias.encodings().is_some() {
            return self.x(port);
        }
        let encodings = match w {
            Encodings::PerTensor(w) => {
                Encodings::PerTensor(Encoding { scale: x.scale * w.scale, zero_point: 0 })
            }
            Encodings::PerAxis(w) => {
                let scales: Vec<f32> = w.scales().iter().map(|scale| x.scale * scale).collect();
                let encoding = AxisEncoding::intern(0, &scales, &vec![0; scales.len()]);
                Encodings::PerAxis(encoding.map_err(|error| invalid(error.to_string()))?)
            }
        };
        let value = self.stored(port)?;
        self.dequantized(value, DType::I32, encodings)
    }

    /// Returns the integers of input `port`, which must be a constant.
    pub(super) fn known(&self, port: usize) -> Result<Vec<i64>> {
        let slot = self.slot(self.input_id(port)?)?;
        let data = slot.data.as_ref().ok_or_else(|| {
            invalid(format!("input {port} is not known before a run, expected a constant"))
        })?;
        let ints = match data.dtype() {
            DType::I64 => data.get::<i64>().map(<[i64]>::to_vec),
            DType::I32 => data.get::<i32>().map(|x| x.iter().copied().map(i64::from).collect()),
            _ => None,
        };
        ints.ok_or_else(|| invalid(format!("input {port} is {}, expected i32 or i64", slot.spec)))
    }

    /// Returns the only integer of input `port`, which must be a constant.
    pub(super) fn known_int(&self, port: usize) -> Result<i64> {
        match *self.known(port)? {
            [int] => Ok(int),
            ref ints => {
                Err(invalid(format!("input {port} has {} elements, expected 1", ints.len())))
            }
        }
    }

    /// Returns the integers of input `port` as a list of i64.
    pub(super) fn ints(&mut self, port: usize) -> Result<ValueId> {
        let (value, spec) = (self.stored(port)?, *self.input(port)?);
        let value = if spec.dtype() == DType::I64 { value } else { self.cast(value, DType::I64) };
        if spec.rank() == 1 { Ok(value) } else { self.reshaped(value, &[-1]) }
    }

    /// Returns whether the attribute is set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.attr(name).is_some()
    }

    fn attr(&self, name: &str) -> Option<&Attr> {
        self.call.attrs.iter().find(|(known, _)| known == name).map(|(_, attr)| attr)
    }

    /// Returns the default of a parameter.
    fn default(&self, name: &str) -> Option<Value> {
        Param::named(self.params, name).and_then(|param| param.default)
    }

    fn missing(name: &str) -> Error {
        invalid(format!("attribute {name:?} is missing"))
    }

    /// Returns an integer, boolean or choice attribute as a number.
    pub(super) fn int(&self, name: &str) -> Result<i64> {
        match (self.attr(name), self.default(name)) {
            (Some(Attr::Int(value)), _) => Ok(*value),
            (Some(Attr::Text(text)), _) => self.choice(name, text),
            (Some(other), _) => Err(invalid(format!("attribute {name:?} is {}", describe(other)))),
            (None, Some(Value::Int(value))) => Ok(value),
            (None, _) => Err(Self::missing(name)),
        }
    }

    fn choice(&self, name: &str, text: &str) -> Result<i64> {
        let index = Param::named(self.params, name).and_then(|param| param.choice(text));
        index.ok_or_else(|| Self::missing(name))
    }

    /// Returns a boolean attribute.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        self.int(name).map(|value| value != 0)
    }

    /// Returns a real attribute.
    pub(super) fn float(&self, name: &str) -> Result<f64> {
        match (self.attr(name), self.default(name)) {
            (Some(Attr::Float(value)), _) => Ok(*value),
            (Some(Attr::Int(_)), _) => self.int(name).and_then(|value| {
                let exact = i32::try_from(value).map(f64::from);
                exact.map_err(|_| {
                    invalid(format!("attribute {name:?} is {value}, expected a real number"))
                })
            }),
            (Some(other), _) => Err(invalid(format!("attribute {name:?} is {}", describe(other)))),
            (None, Some(Value::Float(value))) => Ok(value),
            (None, _) => Err(Self::missing(name)),
        }
    }

    /// Returns a list of reals; `None` if the attribute is not set and has no default.
    pub(super) fn floats(&self, name: &str) -> Option<Vec<f64>> {
        match self.attr(name) {
            Some(Attr::Floats(values)) => Some(values.clone()),
            _ => None,
        }
    }

    /// Returns a list of integers; `None` if the attribute is not set and has no default.
    pub(super) fn list(&self, name: &str) -> Option<Vec<i64>> {
        match (self.attr(name), self.default(name)) {
            (Some(Attr::Ints(values)), _) => Some(values.clone()),
            (Some(Attr::Int(value)), _) => Some(vec![*value]),
            (None, Some(Value::Ints(values))) => Some(values.to_vec()),
            _ => None,
        }
    }

    /// Returns a list of exactly `N` integers.
    pub(super) fn exactly<const N: usize>(&self, name: &str) -> Result<[i64; N]> {
        let list = self.list(name).ok_or_else(|| Self::missing(name))?;
        list.try_into().map_err(|list: Vec<i64>| {
            invalid(format!("attribute {name:?} has {} numbers, expected {N}", list.len()))
        })
    }

    /// Returns the axis of a tensor of this rank; negative axes count from the end.
    pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize> {
        let count = i64::try_from(rank).unwrap_or(i64::MAX);
        let from_first = if axis < 0 { axis.saturating_add(count) } else { axis };
        let from_first = usize::try_from(from_first).ok().filter(|&axis| axis < rank);
        from_first.ok_or_else(|| {
            invalid(format!(
                "axis {axis} of {rank} dimensions, expected {} to {}",
                -count,
                count - 1
            ))
        })
    }

    /// Adds a constant.
    pub(super) fn constant<T: Element>(
        &mut self,
        dims: &[usize],
        elements: &[T],
    ) -> Result<ValueId> {
        let shape = Shape::new(dims).map_err(|error| invalid(error.to_string()))?;
        let tensor =
            Tensor::from_slice(shape, elements).map_err(|error| invalid(error.to_string()))?;
        Ok(self.add_constant(tensor))
    }

    /// Adds a constant for nodes of this operation.
    fn add_constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("{}/constant_{}", self.call.name, self.graph.values.len());
        self.graph.add_constant(&name, tensor)
    }

    /// Adds a constant list of integers.
    pub(super) fn int_list(&mut self, ints: &[i64]) -> Result<ValueId> {
        self.constant(&[ints.len()], ints)
    }

    /// Adds a scalar of the real type of input `port`.
    pub(super) fn number(&mut self, port: usize, number: f64) -> Result<ValueId> {
        let dtype = self.real_type(port)?;
        let number = self.constant(&[], &[number])?;
        Ok(self.cast(number, dtype))
    }

    /// Casts a value.
    pub(super) fn cast(&mut self, value: ValueId, to: DType) -> ValueId {
        self.node("Cast", &[value], &[("to", Attr::Int(i64::from(to.onnx())))])
    }

    /// Reshapes a value.
    pub(super) fn reshaped(&mut self, value: ValueId, dims: &[i64]) -> Result<ValueId> {
        let dims = self.int_list(dims)?;
        Ok(self.node("Reshape", &[value, dims], &[]))
    }

    /// Transposes a value.
    pub(super) fn transposed(&mut self, value: ValueId, perm: &[i64]) -> ValueId {
        if perm.iter().copied().eq((0..).take(perm.len())) {
            return value;
        }
        self.node("Transpose", &[value], &[("perm", Attr::Ints(perm.to_vec()))])
    }

    /// Adds a node with one output.
    pub(super) fn node(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.node_of(op, &inputs, attrs)
    }

    /// Adds a node with one output and optional inputs.
    pub(super) fn node_of(
        &mut self,
        op: &str,
        inputs: Inputs<'_>,
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        // `nodes` returns as many outputs as requested.
        self.nodes(op, inputs, attrs, 1).first().copied().unwrap_or(ValueId(u32::MAX))
    }

    /// Adds a node with several outputs. Operators of this project's domain are written as in `udo:Crop`.
    pub(super) fn nodes(
        &mut self,
        op: &str,
        inputs: Inputs<'_>,
        attrs: &[(&str, Attr)],
        outputs: usize,
    ) -> Vec<ValueId> {
        let (domain, op) = op.split_once(':').unwrap_or(("", op));
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone()));
        self.add(domain, op, inputs, attrs.collect(), outputs)
    }

    fn add(
        &mut self,
        domain: &str,
        op: &str,
        inputs: Inputs<'_>,
        attrs: Vec<(String, Attr)>,
        outputs: usize,
    ) -> Vec<ValueId> {
        let index = self.graph.nodes.len() - self.first_node;
        let name = format!("{}/{op}_{index}", self.call.name);
        let outputs: Vec<ValueId> = (0..outputs).map(|port| self.value(&name, port)).collect();
        let mut node = Node::new(op, NEWEST, &[], &outputs);
        node.inputs = inputs.to_vec();
        (node.name, node.attrs) = (name, attrs);
        domain.clone_into(&mut node.domain);
        self.graph.add_node(node);
        outputs
    }

    /// Adds a value for output `port` of a node.
    fn value(&mut self, node: &str, port: usize) -> ValueId {
        let name = if port == 0 { node.to_owned() } else { format!("{node}.{port}") };
        self.graph.add_value(&name)
    }

    /// Sets output `port` to real values, quantized if the tensor is.
    pub(super) fn give(&mut self, port: usize, value: ValueId) -> Result<()> {
        let spec = *self.output(port)?;
        let value = match spec.encodings() {
            Some(encodings) => {
                self.convert_encoding("QuantizeLinear", value, spec.dtype(), encodings)?
            }
            None => value,
        };
        self.put(port, value)
    }

    /// Sets output `port` to real values, cast to the tensor's type.
    pub(super) fn give_cast(&mut self, port: usize, value: ValueId) -> Result<()> {
        let spec = *self.output(port)?;
        if spec.encodings().is_some() {
            return self.give(port, value);
        }
        let value = self.cast(value, spec.dtype());
        self.put(port, value)
    }

    /// Sets output 0 to real values, after the activation that the operation states.
    pub(super) fn give_active(&mut self, value: ValueId) -> Result<()> {
        let value = match self.int("activation")? {
            0 => value,
            1 => self.node("Relu", &[value], &[]),
            _ => self.clipped(value, Some(0.0), Some(6.0))?,
        };
        self.give(0, value)
    }

    /// Clips values to bounds, in the type of input 0.
    pub(super) fn clipped(
        &mut self,
        value: ValueId,
        min: Option<f64>,
        max: Option<f64>,
    ) -> Result<ValueId> {
        let min = min.map(|min| self.number(0, min)).transpose()?;
        let max = max.map(|max| self.number(0, max)).transpose()?;
        Ok(self.node_of("Clip", &[Some(value), min, max], &[]))
    }

    /// Makes `value` the value of output `port`: the nodes of this operation use the output's id instead. A value that
    /// the operation did not compute is copied.
    fn put(&mut self, port: usize, value: ValueId) -> Result<()> {
        let id = self.output_id(port)?;
        let output =
            self.values.get(id).ok_or_else(|| invalid(format!("output {port} has no value")))?;
        let is_computed_here =
            value.index() >= self.first_value && self.graph.constant(value).is_none();
        if !is_computed_here {
            let copied = self.node("Identity", &[value], &[]);
            return self.put(port, copied);
        }
        for node in self.graph.nodes.iter_mut().skip(self.first_node) {
            let uses = node.inputs.iter_mut().chain(&mut node.outputs);
            uses.filter(|used| **used == Some(value)).for_each(|used| *used = Some(output));
        }
        Ok(())
    }

    /// Names the node that computes the first output like the operation.
    pub(super) fn name_last(&mut self) {
        let first = self.call.outputs.iter().flatten().next();
        let Some(value) = first.and_then(|id| self.values.get(*id)) else { return };
        let mut nodes = self.graph.nodes.iter_mut().skip(self.first_node);
        if let Some(node) = nodes.find(|node| node.outputs.contains(&Some(value))) {
            self.call.name.clone_into(&mut node.name);
        }
    }

    /// Returns an error for something that the runtime does not support.
    pub(super) fn refuse(message: impl Into<String>) -> Error {
        unsupported(message)
    }
}

/// Returns zero points in the type of the quantized values.
fn integer_tensor(dtype: DType, dims: &[usize], points: &[i32]) -> Result<Tensor> {
    fn converted<T: Element + TryFrom<i32>>(dims: &[usize], points: &[i32]) -> Result<Tensor> {
        let stored = points.iter().map(|&point| {
            T::try_from(point)
                .map_err(|_| invalid(format!("zero point {point} is none of {}", T::DTYPE)))
        });
        let stored = stored.collect::<Result<Vec<T>>>()?;
        let shape = Shape::new(dims).map_err(|error| invalid(error.to_string()))?;
        Tensor::from_slice(shape, &stored).map_err(|error| invalid(error.to_string()))
    }
    match dtype {
        DType::U8 => converted::<u8>(dims, points),
        DType::I8 => converted::<i8>(dims, points),
        DType::U16 => converted::<u16>(dims, points),
        DType::I16 => converted::<i16>(dims, points),
        DType::I32 => converted::<i32>(dims, points),
        other => Err(invalid(format!("elements {other} are quantized, expected integers"))),
    }
}
