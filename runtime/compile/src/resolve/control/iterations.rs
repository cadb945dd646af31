//! Binds `Loop` and `Scan`, which run a subgraph repeatedly. An iteration passes states to the next one; a `Scan` also
//! reads a slice of each sliced input. The values that all iterations compute for an output are stacked.

use udo_api::{Bool, DType, Dim, Shape, TensorDesc, resolve_axis};
use udo_host::ParamSetting;

use super::body::BodyPorts;
use super::unrolled::unroll;
use super::{Along, Control, Parent, as_bool};
use crate::compiler::Compiler;
use crate::resolve::control::body::bind_body;
use crate::resolve::{Binding, ResolveError, TypedGraph};
use udo_graph::graph::{Graph, Source, TensorType, ValueId};
use udo_graph::memory::{Tensor, TensorError};

/// The number of iterations, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Exactly(usize),
    /// The condition may end the loop earlier.
    AtMost(usize),
    Unknown,
}

/// The largest stacked output whose length depends on the condition, in bytes.
const MAX_BOUNDED_BYTES: usize = 1 << 30;

/// How a subgraph is repeated, independent of the operator.
struct Repetition {
    count: Count,
    /// The maximum number of iterations, if it is limited.
    limit: Option<ValueId>,
    /// The condition of the first iteration, unless the first one always runs.
    condition: Option<ValueId>,
    /// Whether the first inputs of the subgraph are the iteration number and a condition, and its first output is the
    /// condition for the next iteration.
    is_counted: bool,
    /// The initial states.
    states: Vec<ValueId>,
    /// The sliced inputs.
    slices: Vec<(ValueId, Along)>,
    stacks: Stacks,
}

/// How the values of the iterations are stacked.
enum Stacks {
    /// Along a new first axis, for any number of outputs.
    First,
    /// Along axes and in directions from the node's attributes, one for each of `count` outputs. Axes may be negative.
    Along { axes: Vec<i64>, directions: Vec<i64>, count: usize },
}

pub(super) fn bind_loop(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    parent: &Parent,
) -> Result<(), ResolveError> {
    let graph = &binding.graph;
    graph.check_single(parent, 0)?;
    graph.check_single(parent, 1)?;
    let (limit, condition) = (parent.node.input(0), parent.node.input(1));
    let known_limit = graph.known(limit).and_then(|limit| limit.get::<i64>()?.first().copied());
    let max_count = known_limit.map(|n| usize::try_from(n.max(0)).unwrap_or(usize::MAX));
    let initial = condition.map_or(Some(true), |c| graph.known(Some(c)).and_then(as_bool));
    let count = match (max_count, initial) {
        (_, Some(false)) => Count::Exactly(0),
        (Some(n), Some(true)) => Count::Exactly(n),
        (Some(n), None) => Count::AtMost(n),
        (None, _) => Count::Unknown,
    };
    let condition = condition.filter(|_| initial != Some(true));
    let states = parent.node.inputs.iter().skip(2).copied().collect::<Option<_>>();
    let states: Vec<ValueId> =
        states.ok_or_else(|| parent.refuse("a state is missing".to_owned()))?;
    if states.iter().any(|&state| binding.sequences.items(state).is_some()) {
        return unroll(binding, parent, "one of its states is a sequence");
    }
    let (slices, stacks) = (Vec::new(), Stacks::First);
    let repetition =
        Repetition { count, limit, condition, is_counted: true, states, slices, stacks };
    let mark = binding.mark();
    match bind_iterations(compiler, binding, parent.clone(), repetition) {
        Err(ResolveError::Wants(want)) if want.is_in_loop => {
            binding.return_to(mark);
            unroll(binding, parent, &want.reason)
        }
        bound => bound,
    }
}

pub(super) fn bind_scan(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    parent: Parent,
) -> Result<(), ResolveError> {
    let inputs = parent.node.inputs.iter().copied().collect::<Option<Vec<_>>>();
    let inputs = inputs.ok_or_else(|| parent.refuse("an input is missing".to_owned()))?;
    let count = usize::try_from(int(&parent, "num_scan_inputs")).ok();
    let states = count.filter(|&n| n > 0).and_then(|n| inputs.len().checked_sub(n));
    let Some(states) = states else {
        let (found, count) = (int(&parent, "num_scan_inputs"), inputs.len());
        return Err(parent.refuse(format!(
            "attribute \"num_scan_inputs\" is {found}, expected one of 1 to {count} inputs"
        )));
    };
    let (states, wholes) = inputs.split_at(states);
    let axes = list(&parent, "scan_input_axes", wholes.len())?;
    let directions = list(&parent, "scan_input_directions", wholes.len())?;
    let mut slices = Vec::with_capacity(wholes.len());
    let mut extent = None;
    for ((&value, axis), direction) in wholes.iter().zip(axes).zip(directions) {
        let desc = binding.graph.desc(Some(value));
        let along = along(&parent, axis, direction, desc.rank())?;
        let slice_count = desc.full_shape().dim(along.axis).and_then(Dim::exact);
        let name = binding.graph.name_of(value);
        let fits = slice_count.is_some() && *extent.get_or_insert(slice_count) == slice_count;
        if !fits || !desc.full_shape().is_fixed() {
            let expected = extent.flatten().map_or_else(String::new, |n| format!(" of {n}"));
            let axis = along.axis;
            return Err(parent.refuse(format!(
                "input {name:?} is {desc} and sliced along axis {axis}, expected a fixed extent{expected} there"
            )));
        }
        slices.push((value, along));
    }
    let extent = extent.flatten().unwrap_or(0);
    let limit = int_tensor(extent).map_err(|why| parent.refuse(why.to_string()))?;
    let limit = binding.graph.add_constant(&format!("{}.trips", parent.node.name), limit);
    let count = parent.node.outputs.len().saturating_sub(states.len());
    let axes = list(&parent, "scan_output_axes", count)?;
    let directions = list(&parent, "scan_output_directions", count)?;
    let repetition = Repetition {
        count: Count::Exactly(extent),
        limit: Some(limit),
        condition: None,
        is_counted: false,
        states: states.to_vec(),
        slices,
        stacks: Stacks::Along { axes, directions, count },
    };
    bind_iterations(compiler, binding, parent, repetition)
}

/// Binds a subgraph that runs repeatedly.
fn bind_iterations(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    mut parent: Parent,
    mut repetition: Repetition,
) -> Result<(), ResolveError> {
    let (attribute, body) = parent.next_graph()?;
    let outside = binding.outside_loop;
    binding.outside_loop = outside.or(Some(binding.graph.values.len()));
    let graph = &mut binding.graph;
    let (parent, inputs) = (&parent, Vec::new());
    let opening = Opening { graph, parent, attribute: &attribute, body: &body, inputs };
    let (inputs, states) = opening.open(&repetition)?;
    let ports = BodyPorts { inputs: &inputs, outputs: &[] };
    let body = (attribute.clone(), body);
    let results =
        bind_body(compiler, binding, parent, body, &ports).map_err(|error| match error {
            ResolveError::Wants(want) => binding.refused_in_loop(want),
            other => other,
        })?;
    if let Some(&result) = results.iter().find(|&&value| binding.sequences.items(value).is_some()) {
        let name = binding.graph.name_of(result);
        let reason = format!("it computes the sequence {name:?} in each iteration");
        return Err(parent.want_per_iteration(reason));
    }
    binding.outside_loop = outside;
    let graph = &mut binding.graph;
    let conditions = usize::from(repetition.is_counted);
    let (condition, values) = results.split_at(conditions.min(results.len()));
    let condition = condition.first().copied();
    let continues = condition.and_then(|value| graph.known(Some(value)).and_then(as_bool));
    // A condition that is always true is not read.
    let condition = condition.filter(|_| continues != Some(true));
    let is_unconditional = condition.is_none();
    if !is_unconditional && let Count::Exactly(n) = repetition.count {
        repetition.count = if n == 0 { Count::Exactly(0) } else { Count::AtMost(n) };
    }
    let state_count = states.len();
    let output_count = parent.node.outputs.len();
    if results.len() < conditions + state_count || output_count > values.len() {
        let found = results.len();
        let expected = conditions + output_count.max(state_count);
        return Err(parent.refuse(format!(
            "its {attribute:?} has {found} outputs, expected {expected} as the node has states and outputs"
        )));
    }
    let (next_states, rows) = values.split_at(state_count);
    for (&state, &next) in states.iter().zip(next_states) {
        check_state(graph, parent, state, next)?;
    }
    if is_unconditional && repetition.limit.is_none() {
        return Err(parent.refuse(
            "its iterations have no limit and its condition stays true, expected one that ends it"
                .to_owned(),
        ));
    }
    let mut outputs = parent.node.outputs.clone();
    outputs.resize(outputs.len().max(state_count), None);
    let stacked = outputs.iter().skip(state_count).copied().zip(rows.iter().copied());
    let mut stacks = Vec::new();
    let mut read = vec![condition];
    read.extend(next_states.iter().copied().map(Some));
    for (port, (output, row)) in stacked.enumerate() {
        let along = stack_along(graph, parent, &repetition.stacks, port, row)?;
        if let Some(output) = output {
            let desc = stacked_desc(graph, parent, (output, row), along, &repetition)?;
            set_desc(graph, output, desc);
        }
        stacks.push(along);
        read.push(Some(row));
    }
    for (&output, &state) in outputs.iter().zip(&states) {
        let desc = graph.desc(Some(state));
        if let Some(output) = output {
            set_desc(graph, output, desc);
        }
    }
    graph.nodes.push(parent.part(Control::EndLoop { stacks }, read, outputs));
    Ok(())
}

/// A subgraph that is being opened.
struct Opening<'a> {
    graph: &'a mut TypedGraph,
    parent: &'a Parent,
    attribute: &'a str,
    body: &'a Graph,
    /// The inputs of the subgraph so far.
    inputs: Vec<ValueId>,
}

impl Opening<'_> {
    /// Adds the node that opens the subgraph. Returns the subgraph's inputs, and the states among them.
    fn open(
        mut self,
        repetition: &Repetition,
    ) -> Result<(Vec<ValueId>, Vec<ValueId>), ResolveError> {
        let number = if repetition.is_counted {
            let number = self.add(self.single(DType::I64))?;
            // The condition is true in every iteration that runs.
            let condition = self.add(self.single(DType::Bool))?;
            let tensor = Tensor::from_slice(
                self.graph.desc(Some(condition)).full_shape(),
                &[Bool::from(true)],
            );
            let tensor = tensor.map_err(|why| self.parent.refuse(why.to_string()))?;
            if let Some(value) = self.graph.values.get_mut(condition.index()) {
                value.value.source = Source::Constant(tensor);
            }
            number
        } else {
            let number = self.graph.add_value(&self.path("trip"));
            set_desc(self.graph, number, TensorDesc::new(DType::I64, Shape::SCALAR));
            number
        };
        let descs = repetition.states.iter().map(|&state| self.graph.desc(Some(state)));
        let descs: Vec<_> = descs.collect();
        let states = descs.into_iter().map(|desc| self.add(desc)).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = vec![Some(number)];
        outputs.extend(states.iter().copied().map(Some));
        for &(value, along) in &repetition.slices {
            let desc = self.graph.desc(Some(value));
            let mut dims: Vec<Dim> = desc.full_shape().iter().collect();
            dims.remove(along.axis);
            let shape =
                Shape::from_dims(&dims).map_err(|why| self.parent.refuse(why.to_string()))?;
            outputs.push(Some(self.add(desc.with_shape(shape))?));
        }
        let wholes = repetition.slices.iter().map(|&(value, _)| value);
        let read = repetition.states.iter().copied().chain(wholes).map(Some);
        let read = [repetition.limit, repetition.condition].into_iter().chain(read).collect();
        let slices = repetition.slices.iter().map(|&(_, along)| along).collect();
        self.graph.nodes.push(self.parent.part(Control::Loop { slices }, read, outputs));
        Ok((self.inputs, states))
    }

    /// Adds the next input of the subgraph.
    fn add(&mut self, desc: TensorDesc) -> Result<ValueId, ResolveError> {
        let (name, declared) = self.declared();
        if let Some(declared) = declared.filter(|declared| Some(declared.dtype) != desc.dtype()) {
            let attribute = self.attribute;
            return Err(self.parent.refuse(format!(
                "its {attribute:?} declares input {name:?} {declared}, and is given {desc}"
            )));
        }
        let value = self.graph.add_value(&self.path(name));
        set_desc(self.graph, value, desc);
        self.inputs.push(value);
        Ok(value)
    }

    /// Returns the next input's name and its declared type.
    fn declared(&self) -> (&str, Option<&TensorType>) {
        let input = self.body.inputs.get(self.inputs.len());
        let value = input.and_then(|&input| self.body.value(input).ok());
        value.map_or(("input", None), |value| (value.name.as_str(), value.declared.as_ref()))
    }

    /// Returns one element, with the rank that the model declares for the next input.
    fn single(&self, dtype: DType) -> TensorDesc {
        let (_, declared) = self.declared();
        let is_list = declared.is_some_and(|declared| declared.dims.len() == 1);
        let list = Shape::new(&[1]).ok().filter(|_| is_list);
        TensorDesc::new(dtype, list.unwrap_or(Shape::SCALAR))
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.parent.node.name, self.attribute)
    }
}

fn set_desc(graph: &mut TypedGraph, value: ValueId, desc: TensorDesc) {
    if let Some(value) = graph.values.get_mut(value.index()) {
        value.desc = desc;
    }
}

/// Refuses a state whose type or shape differs between iterations.
fn check_state(
    graph: &TypedGraph,
    parent: &Parent,
    state: ValueId,
    next: ValueId,
) -> Result<(), ResolveError> {
    let [current_desc, next_desc] = [state, next].map(|value| graph.desc(Some(value)));
    if current_desc == next_desc {
        return Ok(());
    }
    let has_same_type = current_desc.dtype() == next_desc.dtype();
    let grows = has_same_type && next_desc.len() > current_desc.len();
    let verb = if grows { "grows" } else { "changes" };
    let [name, next_name] = [state, next].map(|value| graph.name_of(value));
    let reason = format!(
        "a state {verb} from iteration to iteration: {name:?} is {current_desc}, and the next one, {next_name:?}, is {next_desc}"
    );
    if !has_same_type {
        return Err(parent.refuse(format!("{reason}, expected one type")));
    }
    Err(parent.want_per_iteration(reason))
}

/// Returns the axis and direction along which a value is stacked.
fn stack_along(
    graph: &TypedGraph,
    parent: &Parent,
    stacks: &Stacks,
    port: usize,
    row: ValueId,
) -> Result<Along, ResolveError> {
    match stacks {
        Stacks::First => Ok(Along { axis: 0, is_reversed: false }),
        Stacks::Along { axes, directions, count } => {
            let (Some(&axis), Some(&direction)) = (axes.get(port), directions.get(port)) else {
                return Err(parent.refuse(format!("it stacks {count} outputs, expected more")));
            };
            along(parent, axis, direction, graph.desc(Some(row)).rank() + 1)
        }
    }
}

/// Returns the description of a stacked output.
fn stacked_desc(
    graph: &TypedGraph,
    parent: &Parent,
    (output, row): (ValueId, ValueId),
    along: Along,
    repetition: &Repetition,
) -> Result<TensorDesc, ResolveError> {
    let (name, desc) = (graph.name_of(output), graph.desc(Some(row)));
    let reason = |why: &str| format!("output {name:?} is {desc} in each iteration, and {why}");
    if !desc.full_shape().is_fixed() {
        return Err(parent.want_per_iteration(reason("each iteration computes its extents")));
    }
    let extent = match repetition.count {
        Count::Exactly(n) => Dim::Fixed(n),
        Count::AtMost(n) => Dim::UpTo(n),
        Count::Unknown => {
            let why = "the number of iterations is computed";
            let Some(limit) = repetition.limit else {
                return Err(parent.want_per_iteration(reason(why)));
            };
            return Err(parent.want(reason(why), vec![limit]));
        }
    };
    let mut dims: Vec<Dim> = desc.full_shape().iter().collect();
    dims.insert(along.axis.min(dims.len()), extent);
    let is_bound = matches!(repetition.count, Count::AtMost(_));
    match Shape::from_dims(&dims).map(|shape| desc.with_shape(shape)) {
        Ok(desc) if !is_bound || desc.size_bytes() <= MAX_BOUNDED_BYTES => Ok(desc),
        Ok(_) => Err(parent.want_per_iteration(reason("its bound takes too much memory"))),
        Err(_) if is_bound => {
            Err(parent.want_per_iteration(reason("it has no bound that fits memory")))
        }
        Err(why) => Err(parent.refuse(reason(&format!("there are too many: {why}")))),
    }
}

fn along(parent: &Parent, axis: i64, direction: i64, rank: usize) -> Result<Along, ResolveError> {
    let resolved = resolve_axis(axis, rank);
    let Some(axis) = resolved.filter(|_| matches!(direction, 0 | 1)) else {
        return Err(parent.refuse(format!(
            "it has axis {axis} and direction {direction} for rank {rank}, expected an existing axis, and 0 or 1"
        )));
    };
    Ok(Along { axis, is_reversed: direction == 1 })
}

/// Returns an integer parameter, or 0.
fn int(parent: &Parent, name: &str) -> i64 {
    match setting(parent, name) {
        Some(ParamSetting::Int(value)) => *value,
        _ => 0,
    }
}

/// Returns a list of `count` integers, which are zero if the node omits it.
fn list(parent: &Parent, name: &str, count: usize) -> Result<Vec<i64>, ResolveError> {
    match setting(parent, name) {
        Some(ParamSetting::Ints(values)) if values.len() == count => Ok(values.clone()),
        Some(ParamSetting::Ints(values)) if !values.is_empty() => Err(parent
            .refuse(format!("attribute {name:?} has {} numbers, expected {count}", values.len()))),
        _ => Ok(vec![0; count]),
    }
}

fn setting<'a>(parent: &'a Parent, name: &str) -> Option<&'a ParamSetting> {
    parent.params.settings().iter().find(|(known, _)| *known == name).map(|(_, setting)| setting)
}

fn int_tensor(value: usize) -> Result<Tensor, TensorError> {
    Tensor::from_slice(Shape::SCALAR, &[i64::try_from(value).unwrap_or(i64::MAX)])
}
