//! Graphs as they are built: what is refused, what a refusal leaves, and what finished graphs are compiled to.

use udo_api::DType::{F32, I32, U8};
use udo_api::{Core, Encoding, Encodings};
use udo_compile::build::{FinishedGraph, GraphBuilder, Operation, TensorId};
use udo_compile::build::{Kind, NNRT_OPS as OPS};
use udo_compile::compiler::Resources;
use udo_engine::cores::OpenCl;
use udo_engine::device::{Packing, SpecDetails};
use udo_runtime::compile::{BindOptions, Fallback, PlaceOptions, support};
use udo_runtime::device::{ErrorCode, Extent, TensorSpec};
use udo_runtime::graph::Attr;
use udo_runtime::{CompileOptions, Error, Model};

use super::support::{Nd, near};
use udo_test_support::compile::{built_in, compile_graph};

fn spec(dims: &[usize]) -> TensorSpec {
    TensorSpec::fixed(F32, dims).unwrap()
}

/// A graph with so many tensors of four numbers.
fn tensors<const N: usize>() -> (GraphBuilder, [TensorId; N]) {
    let mut graph = GraphBuilder::new("test");
    let ids = std::array::from_fn(|_| graph.tensor("", spec(&[4])).unwrap());
    (graph, ids)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(call: Result<T, impl Into<Error>>, code: ErrorCode, words: &str) {
    let error: Error = call.unwrap_err().into();
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(error.code(), code, "{error}");
}

const INVALID: ErrorCode = ErrorCode::InvalidArgument;
const STATE: ErrorCode = ErrorCode::InvalidState;

fn relu(x: TensorId, y: TensorId) -> Operation {
    Operation::nnrt("RELU").reads(&[x]).makes(&[y])
}

fn add(a: TensorId, b: TensorId, y: TensorId) -> Operation {
    Operation::nnrt("ADD").reads(&[a, b]).makes(&[y])
}

/// The sum of two inputs without what is below 0.
fn add_relu() -> FinishedGraph {
    let (mut graph, [a, b, sum, y]) = tensors();
    // What runs last may be added first.
    graph.op(relu(sum, y)).unwrap();
    graph.op(add(a, b, sum)).unwrap();
    graph.set_io(&[a, b], &[y]).unwrap();
    graph.finish().unwrap()
}

fn compile(graph: &FinishedGraph, options: &CompileOptions) -> Result<Model, String> {
    let mut options = options.clone();
    options.bind.ranges = graph.ranges();
    let compiled = compile_graph(graph.graph().clone(), &built_in(), &options);
    compiled.map_err(|error| error.to_string())
}

fn run(model: &Model, inputs: &[&Nd]) -> Result<Vec<Nd>, String> {
    let mut session = model.session().unwrap();
    for (input, of) in model.inputs().iter().zip(inputs) {
        session.set_input(&input.name, &of.tensor(F32)).map_err(|error| error.to_string())?;
    }
    session.run().map_err(|error| error.to_string())?;
    let outputs = model.outputs().iter();
    Ok(outputs.map(|name| Nd::of_tensor(&session.output_tensor(name).unwrap())).collect())
}

fn on(core: Core, fallback: Fallback) -> CompileOptions {
    let mut place = PlaceOptions { cores: vec![core], fallback, ..PlaceOptions::default() };
    place.profile.opencl = OpenCl::Off;
    CompileOptions { place, ..CompileOptions::default() }
}

/// N01.
#[test]
fn a_sum_and_an_activation_run_on_every_core() {
    let graph = add_relu();
    let (a, b) = (Nd::list(&[1.0, -2.0, 3.0, 0.5]), Nd::list(&[1.0, 1.0, -4.0, 0.5]));
    for core in [Core::CPU, Core::GPU, Core::DSP_V68, Core::HTA] {
        let model = compile(&graph, &on(core, Fallback::To(Core::CPU))).unwrap();
        for _ in 0..3 {
            let made = run(&model, &[&a, &b]).unwrap();
            near(&made, &[&Nd::list(&[2.0, 0.0, 0.0, 1.0])], 1e-6);
        }
    }
}

/// N02.
#[test]
fn open_dimensions_take_their_shapes_from_a_run() {
    let mut graph = GraphBuilder::new("open");
    let range = [Extent::Range { min: 1, max: 3 }, Extent::Fixed(2)];
    for open in
        [TensorSpec::from_dims(F32, &[-1, 2]).unwrap(), TensorSpec::new(F32, &range).unwrap()]
    {
        let x = graph.tensor("x", open).unwrap();
        let y = graph.tensor("y", TensorSpec::from_dims(F32, &[-1, 2]).unwrap()).unwrap();
        graph.op(add(x, x, y)).unwrap();
        graph.set_io(&[x], &[y]).unwrap();
        let finished = std::mem::replace(&mut graph, GraphBuilder::new("next")).finish().unwrap();
        let has_range = !finished.ranges().is_empty();
        let model = compile(&finished, &CompileOptions::default()).unwrap();
        for rows in [1, 3] {
            let x = Nd::noise(&[rows, 2], 1);
            near(&run(&model, &[&x]).unwrap(), &[&x.map(|x| x + x)], 1e-6);
        }
        let beyond = run(&model, &[&Nd::noise(&[4, 2], 1)]);
        assert_eq!(beyond.is_err(), has_range, "{beyond:?}");
    }
}

/// N06: each of these is refused by what it names, and the graph finishes without it.
#[test]
fn a_refused_operation_leaves_the_graph_as_it_was() {
    let (mut graph, [a, b, y, z]) = tensors();
    let constant = graph.constant("c", spec(&[1]), &1f32.to_le_bytes()).unwrap();
    graph.op(add(a, b, y)).unwrap();
    let nowhere = TensorId(99);
    let none = "there is no tensor 99, expected one of the graph's 5";
    refused(graph.op(relu(nowhere, z)), INVALID, &format!("RELU_1: input 0: {none}"));
    refused(graph.op(relu(a, nowhere)), INVALID, &format!("RELU_1: output 0: {none}"));
    refused(graph.op(relu(z, z)), INVALID, "is output 0 and an input of the same operation");
    refused(graph.op(add(a, b, y)), INVALID, "operation ADD_0 makes it already");
    refused(graph.op(relu(a, constant)), INVALID, "which is a constant");
    refused(graph.op(add(a, b, z).makes(&[z])), INVALID, "it has 2 outputs, expected 1");
    let twice = Operation::nnrt("TOP_K").reads(&[a, b]).makes(&[z, z]);
    refused(graph.op(twice), INVALID, "is two outputs, expected one for each");
    refused(graph.op(Operation::nnrt("RELU").makes(&[z])), INVALID, "it has 0 inputs, expected 1");
    refused(graph.op(relu(a, z).leaves_out()), INVALID, "it has 2 inputs, expected 1");
    let left = Operation::nnrt("ADD").reads(&[a]).leaves_out().makes(&[z]);
    refused(graph.op(left), INVALID, "input 1 is left out, expected a tensor");
    let attr = |value: i64| ("activation", Attr::Int(value));
    let with = |(name, attr): (&str, Attr)| add(a, b, z).attr(name, attr);
    let wanted = "attribute \"activation\" is 3, expected 0 none, 1 relu, 2 relu6";
    refused(graph.op(with(attr(3))), INVALID, wanted);
    refused(graph.op(with(attr(1)).attr("activation", Attr::Int(1))), INVALID, "given twice");
    refused(graph.op(Operation::ours("", "").makes(&[z])), INVALID, "has no operator");
    graph.set_io(&[a, b], &[y]).unwrap();
    refused(graph.op(relu(y, a)), INVALID, "cannot be output 0: it is an input of the graph");
    assert_eq!(graph.finish().unwrap().operations().collect::<Vec<_>>(), ["ADD_0"]);
}

#[test]
fn tensor_data_is_set_once_and_must_match_its_description() {
    let (mut graph, [a, b, y]) = tensors();
    refused(graph.set_data(a, &[0; 15]), INVALID, "is given 15 bytes, expected 16");
    refused(graph.set_data(TensorId(7), &[]), INVALID, "there is no tensor 7");
    graph.set_data(a, &[0; 16]).unwrap();
    refused(graph.set_data(a, &[0; 16]), STATE, "has its elements already");
    let open = graph.tensor("open", TensorSpec::from_dims(F32, &[-1]).unwrap()).unwrap();
    refused(graph.set_data(open, &[0; 16]), ErrorCode::DynamicShape, "dimension 0 is open");
    graph.op(relu(a, y)).unwrap();
    refused(graph.set_data(y, &[0; 16]), INVALID, "operation RELU_0 makes it already");
    refused(
        graph.tensor("open", spec(&[1])),
        ErrorCode::AlreadyExists,
        "is called \"open\" already",
    );
    let short = graph.constant("short", spec(&[2]), &[0; 4]);
    refused(short, INVALID, "is given 4 bytes, expected 8");
    graph.constant("short", spec(&[2]), &[0; 8]).unwrap();
    let packed = TensorSpec::fixed(udo_api::DType::I8, &[4, 2]).unwrap();
    let packed = packed.with_packing(Packing::N4).unwrap();
    refused(graph.tensor("packed", packed), INVALID, "expected batches one behind the other");
    let encoding = Encodings::PerTensor(Encoding { scale: 0.5, zero_point: 0 });
    refused(graph.set_quantization(b, encoding), INVALID, "an encoding, expected elements");
    let whole = graph.tensor("whole", TensorSpec::fixed(I32, &[2]).unwrap()).unwrap();
    graph.set_quantization(whole, encoding).unwrap();
    refused(graph.set_quantization(whole, encoding), STATE, "is quantized already");
    assert!(TensorSpec::fixed(F32, &[usize::MAX, 2]).is_err());
}

#[test]
fn inputs_and_outputs_are_tensors_of_their_own() {
    let (mut graph, [a, b, y]) = tensors();
    graph.op(relu(a, y)).unwrap();
    graph.set_data(b, &[0; 16]).unwrap();
    refused(graph.set_io(&[a], &[]), INVALID, "there are 0 outputs");
    refused(graph.set_io(&[a, a], &[y]), INVALID, "input 1 is tensor 0");
    refused(graph.set_io(&[a], &[y, y]), INVALID, "output 1 is tensor 2");
    refused(graph.set_io(&[a], &[a]), INVALID, "expected each tensor once");
    refused(graph.set_io(&[b], &[y]), INVALID, "which is a constant");
    refused(graph.set_io(&[a], &[b]), INVALID, "which is a constant");
    refused(graph.set_io(&[y], &[a]), INVALID, "which operation RELU_0 makes");
    refused(graph.set_io(&[TensorId(8)], &[y]), INVALID, "input 0: there is no tensor 8");
    graph.set_io(&[a], &[y]).unwrap();
    refused(graph.set_io(&[a], &[y]), STATE, "set already");
    refused(graph.set_data(a, &[0; 16]), INVALID, "it is an input of the graph");
}

/// Checks the reason why an incomplete graph is refused; with the missing part it finishes.
#[test]
fn unfinished_graphs_report_missing_parts_and_can_be_completed() {
    refused(GraphBuilder::new("empty").finish(), STATE, "graph \"empty\" has no tensors yet");
    let (graph, [a, b, y]) = tensors();
    let unfinished = graph.finish().unwrap_err();
    assert_eq!(unfinished.to_string(), "graph \"test\" has no operations yet");
    let mut graph = *unfinished.builder;
    graph.op(add(a, b, y)).unwrap();
    let unfinished = graph.finish().unwrap_err();
    assert_eq!(unfinished.error.code(), STATE);
    let mut graph = *unfinished.builder;
    graph.set_io(&[a], &[y]).unwrap();
    let unfinished = graph.finish().unwrap_err();
    let words = "ADD_0: input 1 is tensor 1 (\"tensor_1\", f32[4]), which nothing makes";
    assert!(unfinished.to_string().starts_with(words), "{unfinished}");
    let mut graph = *unfinished.builder;
    graph.set_data(b, &[0; 16]).unwrap();
    graph.finish().unwrap();
    let (mut graph, [a, y, z]) = tensors();
    graph.op(relu(a, y)).unwrap();
    graph.set_io(&[a], &[z]).unwrap();
    refused(graph.finish(), INVALID, "output 0 is tensor 2");
}

#[test]
fn operations_that_wait_for_each_other_are_refused() {
    let (mut graph, [a, x, y]) = tensors();
    graph.op(add(a, x, y)).unwrap();
    graph.op(relu(y, x)).unwrap();
    graph.set_io(&[a], &[y]).unwrap();
    refused(graph.finish(), INVALID, "wait for each other");
}

/// N10.
#[test]
fn support_says_which_operation_a_core_lacks_and_why() {
    let (mut graph, [a, b, c, d, e, y]) = tensors();
    graph.op(relu(a, b)).unwrap();
    graph.op(Operation::nnrt("ABS").reads(&[b]).makes(&[c])).unwrap();
    graph.op(Operation::nnrt("ERF").reads(&[c]).makes(&[d])).unwrap();
    let truth =
        graph.constant("truth", TensorSpec::fixed(udo_api::DType::Bool, &[]).unwrap(), &[1]);
    let assert = Operation::nnrt("ASSERT").reads(&[truth.unwrap(), d]).makes(&[e]);
    graph.op(assert).unwrap();
    graph.op(relu(e, y)).unwrap();
    graph.set_io(&[a], &[y]).unwrap();
    let graph = graph.finish().unwrap();
    let resources = Resources::new(built_in());
    let bind = BindOptions::default();
    let on_cpu = support(&graph, &resources, &bind, Core::CPU);
    assert!(on_cpu.iter().all(|(_, reason)| reason.is_none()), "{on_cpu:?}");
    let by_core = support(&graph, &resources, &bind, Core::GPU);
    let lacking: Vec<_> = by_core.iter().filter(|(_, reason)| reason.is_some()).collect();
    let [(name, reason)] = lacking[..] else { panic!("{by_core:?}") };
    assert_eq!(name, "ASSERT_3");
    assert!(reason.as_deref().unwrap().starts_with("Assert: "), "{reason:?}");
    // Without a fallback a model is refused by both names; with one the report has all four.
    let error = compile(&graph, &on(Core::GPU, Fallback::Off)).unwrap_err();
    assert!(error.contains("ASSERT_3") && error.contains("gpu"), "{error}");
    let model = compile(&graph, &on(Core::GPU, Fallback::To(Core::CPU))).unwrap();
    let node = model.report().nodes.iter().find(|node| node.name == "ASSERT_3").unwrap();
    assert!(node.fell_back && node.core == Core::CPU);
    assert_eq!(node.refusals[0].core, Core::GPU);
    assert!(!node.refusals[0].reason.is_empty());
    let x = Nd::list(&[0.5, -1.0, 2.0, 0.0]);
    let made = run(&model, &[&x]).unwrap();
    assert!(made[0].of[1] == 0.0 && (made[0].of[0] - 0.520_499_88).abs() < 1e-5, "{made:?}");
}

/// Where the graph does not resolve as a whole, what is known of each operation is still said.
#[test]
fn support_looks_at_each_operation_where_one_does_not_resolve() {
    let (mut graph, [a, b, y]) = tensors();
    let flat = graph.tensor("flat", spec(&[3])).unwrap();
    graph.op(relu(a, b)).unwrap();
    graph.op(add(b, flat, y)).unwrap();
    graph.set_io(&[a, flat], &[y]).unwrap();
    let graph = graph.finish().unwrap();
    let resources = Resources::new(built_in());
    let all = support(&graph, &resources, &BindOptions::default(), Core::CPU);
    assert!(all[0].1.is_none() && all[1].1.is_some(), "{all:?}");
    assert!(all[1].1.as_deref().unwrap().contains("ADD_1"), "{all:?}");
}

/// N12.
#[test]
fn one_graph_is_compiled_many_times() {
    let graph = add_relu();
    let refused = CompileOptions { max_memory: Some(1), ..CompileOptions::default() };
    assert!(compile(&graph, &refused).is_err());
    let models = [0, 1].map(|_| compile(&graph, &CompileOptions::default()).unwrap());
    drop(graph);
    let x = Nd::list(&[1.0, -1.0, 2.0, 0.0]);
    let [first, second] = models;
    let wanted = Nd::list(&[2.0, 0.0, 4.0, 0.0]);
    near(&run(&first, &[&x, &x]).unwrap(), &[&wanted], 1e-6);
    drop(first);
    near(&run(&second, &[&x, &x]).unwrap(), &[&wanted], 1e-6);
}

#[test]
fn graphs_are_built_on_any_thread_and_many_at_once() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(add_relu)).collect();
    for thread in threads {
        compile(&thread.join().unwrap(), &CompileOptions::default()).unwrap();
    }
}

/// Operators of the runtime's own stand beside those of `NNRt`, quantized tensors included.
#[test]
fn our_own_operators_are_used_by_name() {
    let (mut graph, [a, y]) = tensors();
    let stored =
        graph.tensor("stored", TensorSpec::fixed(udo_api::DType::I8, &[4]).unwrap()).unwrap();
    let encoding = Encoding { scale: 0.5, zero_point: 1 };
    graph.set_quantization(stored, Encodings::PerTensor(encoding)).unwrap();
    let elu = Operation::ours("", "Elu").attr("alpha", Attr::Float(2.0));
    graph.op(elu.reads(&[a]).makes(&[stored])).unwrap();
    graph.op(relu(stored, y)).unwrap();
    graph.set_io(&[a], &[y]).unwrap();
    let graph = graph.finish().unwrap();
    let x = Nd::list(&[1.0, -1.0, 2.2, 0.0]);
    let made = run(&compile(&graph, &CompileOptions::default()).unwrap(), &[&x]).unwrap();
    let elu = x.map(|x| if x < 0.0 { 2.0 * (x.exp() - 1.0) } else { x });
    near(&made, &[&elu.map(|x| ((x / 0.5).round_ties_even() * 0.5).max(0.0))], 1e-6);
    let (mut graph, [a, y]) = tensors();
    graph.op(Operation::ours("udo", "NoSuch").reads(&[a]).makes(&[y])).unwrap();
    graph.set_io(&[a], &[y]).unwrap();
    let error = compile(&graph.finish().unwrap(), &CompileOptions::default()).unwrap_err();
    assert!(error.contains("NoSuch"), "{error}");
}

/// Images go from one operation to the next as the kernels have them.
#[test]
fn channels_are_moved_at_the_edge_of_a_graph_alone() {
    let mut graph = GraphBuilder::new("images");
    let mut tensor = |dims: &[usize]| graph.tensor("", spec(dims)).unwrap();
    let (x, a) = (tensor(&[1, 8, 8, 4]), tensor(&[1, 8, 8, 8]));
    let (b, y) = (tensor(&[1, 4, 4, 8]), tensor(&[1, 4, 4, 8]));
    let (w, v, bias) = (tensor(&[8, 3, 3, 4]), tensor(&[8, 3, 3, 8]), tensor(&[8]));
    for (id, count) in [(w, 288), (v, 576), (bias, 8)] {
        graph.set_data(id, &0.5f32.to_le_bytes().repeat(count)).unwrap();
    }
    let conv = |x, w, y| {
        let conv = Operation::nnrt("CONV2D").attr("pad_mode", Attr::Int(0));
        conv.attr("activation", Attr::Int(1)).reads(&[x, w, bias]).makes(&[y])
    };
    let pool = Operation::nnrt("MAX_POOL").attr("kernel_size", Attr::Ints(vec![2, 2]));
    let pool = pool.attr("stride", Attr::Ints(vec![2, 2])).reads(&[a]).makes(&[b]);
    for operation in [conv(x, w, a), pool, conv(b, v, y)] {
        graph.op(operation).unwrap();
    }
    graph.set_io(&[x], &[y]).unwrap();
    let model = compile(&graph.finish().unwrap(), &CompileOptions::default()).unwrap();
    let steps: Vec<_> = model.report().steps.iter().map(|step| step.op.as_str()).collect();
    assert_eq!(steps, ["Transpose", "Conv", "MaxPool", "Conv"]);
}

/// A fixed-point core holds what lies between quantized tensors as their integers.
#[test]
fn quantized_graphs_run_on_a_fixed_point_core() {
    let mut graph = GraphBuilder::new("quantized");
    let mut tensor = |dtype, dims: &[usize], encoding: Option<f32>| {
        let id = graph.tensor("", TensorSpec::fixed(dtype, dims).unwrap()).unwrap();
        if let Some(scale) = encoding {
            let encodings = Encodings::PerTensor(Encoding { scale, zero_point: 0 });
            graph.set_quantization(id, encodings).unwrap();
        }
        id
    };
    let (x, a) = (tensor(U8, &[1, 8, 8, 16], Some(0.5)), tensor(U8, &[1, 8, 8, 16], Some(0.5)));
    let (b, y) = (tensor(U8, &[1, 4, 4, 16], Some(0.5)), tensor(U8, &[1, 256], Some(0.5)));
    let pool = Operation::nnrt("MAX_POOL").attr("kernel_size", Attr::Ints(vec![2, 2]));
    let pool = pool.attr("stride", Attr::Ints(vec![2, 2]));
    graph.op(relu(x, a)).unwrap();
    graph.op(pool.reads(&[a]).makes(&[b])).unwrap();
    graph.op(Operation::nnrt("FLATTEN").reads(&[b]).makes(&[y])).unwrap();
    graph.set_io(&[x], &[y]).unwrap();
    let graph = graph.finish().unwrap();
    let model = compile(&graph, &on(Core::DSP_V68, Fallback::To(Core::CPU))).unwrap();
    let pool = model.report().nodes.iter().find(|node| node.op == "MaxPool").unwrap();
    assert!(!pool.fell_back && pool.inputs[0].starts_with("u8"), "{pool:?}");
}

/// Numbers at the ends of what attributes take are refused or computed with.
#[test]
fn strange_attributes_are_no_fault() {
    let options = CompileOptions { max_memory: Some(1 << 24), ..CompileOptions::default() };
    let operators = built_in();
    let dims = [2, 4, 2, 4];
    let data: Vec<u8> = (0..64).flat_map(|n: i32| (n % 3).to_le_bytes()).collect();
    let mut finished = 0;
    for (op, param) in OPS.iter().flat_map(|op| op.params.iter().map(move |param| (op, param))) {
        let ints = [i64::MIN, -5, -1, 0, 1, 2, 5, i64::MAX];
        let floats = [f64::NAN, f64::INFINITY, -1.0, 0.0, f64::MAX];
        let mut strange: Vec<Attr> = ints.map(Attr::Int).to_vec();
        strange.extend(floats.map(Attr::Float));
        strange.extend([0, 1, 2, 4, 9].iter().flat_map(|&len| {
            ints.map(|of| Attr::Ints(vec![of; len]))
                .into_iter()
                .chain([Attr::Floats(vec![f64::NAN; len])])
        }));
        for attr in strange {
            let mut graph = GraphBuilder::new("strange");
            let x = graph.tensor("x", spec(&dims)).unwrap();
            let list = TensorSpec::fixed(I32, &[4]).unwrap();
            let mut inputs = vec![x];
            for _ in 1..op.inputs[0] {
                inputs.push(graph.constant("", list, &data[..16]).unwrap());
            }
            inputs.truncate(op.inputs[0].max(1));
            let made = [0; 4].map(|_| graph.tensor("", spec(&dims)).unwrap());
            let mut operation =
                Operation::nnrt(op.name).reads(&inputs).makes(&made[..op.outputs[0]]);
            // What has to be said, so that the strange one is looked at.
            for other in op.params.iter().filter(|other| other.name != param.name) {
                let of = match (other.default, other.of) {
                    (None, Kind::Int) => Attr::Int(2),
                    (None, Kind::Ints) => Attr::Ints(vec![2, 2]),
                    (None, Kind::Float) => Attr::Float(0.5),
                    _ => continue,
                };
                operation = operation.attr(other.name, of);
            }
            if graph.op(operation.attr(param.name, attr)).is_err() {
                continue;
            }
            graph.set_io(&[x], &made[..op.outputs[0]]).unwrap();
            let Ok(graph) = graph.finish() else { continue };
            finished += 1;
            let compiled = compile_graph(graph.graph().clone(), &operators.clone(), &options);
            drop(compiled);
        }
    }
    assert!(finished > 200, "{finished} graphs were finished");
}
