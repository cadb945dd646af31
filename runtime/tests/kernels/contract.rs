//! The contract with operators, tested through its public traits.

use std::sync::atomic::{AtomicUsize, Ordering};

use udo_api::types::F32;
use udo_api::{
    Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel, KernelDef,
    Op, OpDef, OpSchema, PackageV1, Packed, Pair, Port, Shape, any_input, any_output,
};
use udo_engine::operators::Operators;
use udo_runtime::device::Devices;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::{CompileOptions, LoadOptions, Runtime, Tensor};
use udo_test_support::close::assert_close;
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::positive::{Positive, PositiveF32};

static PACKAGE: PackageV1 = PackageV1::new("Contract", "1.0.0")
    .ops(&[
        OpDef::of::<Twice>(),
        OpDef::of::<Beside>(),
        OpDef::of::<Counted>(),
        OpDef::of::<Plus>(),
        OpDef::of::<Scaled>(),
        OpDef::of::<Positive>(),
        OpDef::of::<Careless>(),
    ])
    .kernels(&[
        KernelDef::new::<TwiceF32>("Twice", Core::CPU)
            .ports(&[any_input(0).pitched(), any_output(0).pitched()]),
        KernelDef::new::<BesideF32>("Beside", Core::CPU),
        KernelDef::new::<CountedF32>("Counted", Core::CPU)
            .ports(&[any_input(0).bounded(), any_output(0).bounded()]),
        KernelDef::new::<PlusF32>("Plus", Core::CPU).in_place(&[InPlace { input: 0, output: 0 }]),
        KernelDef::new::<ScaledF32>("Scaled", Core::CPU),
        PositiveF32::DEF,
        KernelDef::new::<TwiceF32>("Careless", Core::CPU),
    ])
    .guarded();

/// Twice its input, row by row.
struct Twice;

impl Op for Twice {
    const SCHEMA: OpSchema =
        OpSchema::new("Twice", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct TwiceF32;

impl Kernel for TwiceF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let x = inputs.rows::<f32>(0)?;
        let mut y = outputs.take_rows::<f32>(0)?;
        for (i, x) in x.iter().enumerate() {
            let Some(y) = y.get_mut(i) else { break };
            for (y, x) in y.iter_mut().zip(x) {
                *y = 2.0 * x;
            }
        }
        Ok(())
    }
}

/// Its inputs side by side along the last axis.
struct Beside;

impl Op for Beside {
    const SCHEMA: OpSchema = OpSchema::new(
        "Beside",
        &[Port::required("xs", F32).repeated()],
        &[Port::required("y", F32)],
        &[],
    )
    .facts(Facts::CONCAT);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let first = cx.input(0)?;
        let mut dims = first.shape().to_vec();
        let mut cols = 0;
        for i in 0..cx.input_count() {
            cols += cx.input(i)?.shape().last().copied().unwrap_or(0);
        }
        if let Some(last) = dims.last_mut() {
            *last = cols;
        }
        cx.set_output(0, first.with_shape(Shape::new(&dims)?))
    }
}

struct BesideF32;

impl Kernel for BesideF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let mut y = outputs.take_rows::<f32>(0)?;
        for row in 0..y.len() {
            let Some(y) = y.get_mut(row) else { break };
            let mut at = 0;
            for port in 0..inputs.len() {
                let x = inputs.rows::<f32>(port)?.get(row).unwrap_or_default();
                y[at..at + x.len()].copy_from_slice(x);
                at += x.len();
            }
        }
        Ok(())
    }
}

/// Vectors side by side, with an extent that only the run says.
struct Counted;

impl Op for Counted {
    const SCHEMA: OpSchema = OpSchema::new(
        "Counted",
        &[Port::required("xs", F32).repeated()],
        &[Port::required("y", F32)],
        &[],
    )
    .facts(Facts::CONCAT);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let first = cx.input(0)?;
        let mut len = 0;
        for i in 0..cx.input_count() {
            len += cx.input(i)?.len();
        }
        cx.set_output(0, first.with_shape(Shape::from_dims(&[Dim::UpTo(len)])?))
    }
}

struct CountedF32;

impl Kernel for CountedF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let y = outputs.take::<f32>(0)?;
        let mut len = 0;
        for port in 0..inputs.len() {
            let x = inputs.get::<f32>(port)?;
            y[len..len + x.len()].copy_from_slice(x);
            len += x.len();
        }
        outputs.set_shape(0, &[len])
    }
}

/// The sum of two tensors of one shape, in the place of the first if it may.
struct Plus;

impl Op for Plus {
    const SCHEMA: OpSchema = OpSchema::new(
        "Plus",
        &[Port::required("a", F32), Port::required("b", F32)],
        &[Port::required("y", F32)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let a = cx.input(0)?;
        cx.set_output(0, a)
    }
}

static ADDED_IN_PLACE: AtomicUsize = AtomicUsize::new(0);

struct PlusF32;

impl Kernel for PlusF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let b = io.inputs.get::<f32>(1)?;
        match io.pair::<f32>(0, 0)? {
            Pair::Same(y) => {
                ADDED_IN_PLACE.fetch_add(1, Ordering::Relaxed);
                for (y, b) in y.iter_mut().zip(b) {
                    *y += b;
                }
            }
            Pair::Apart(a, y) => {
                for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                    *y = a + b;
                }
            }
        }
        Ok(())
    }
}

/// Each element times the sum of constant weights, which are packed.
struct Scaled;

impl Op for Scaled {
    const SCHEMA: OpSchema = OpSchema::new(
        "Scaled",
        &[Port::required("x", F32), Port::required("w", F32).constant()],
        &[Port::required("y", F32)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

static PACKINGS: AtomicUsize = AtomicUsize::new(0);

struct ScaledF32 {
    sums: Packed<f32>,
}

impl Kernel for ScaledF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sums = cx.pack::<f32>(&[1], &[], 16, |_, sources, sums| {
            PACKINGS.fetch_add(1, Ordering::Relaxed);
            sums[0] = sources.get::<f32>(0)?.iter().sum();
            Ok(())
        })?;
        Ok(Self { sums })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, packed, .. } = io;
        let factor = packed.get(self.sums)?.first().copied().unwrap_or(0.0);
        for (y, x) in outputs.take::<f32>(0)?.iter_mut().zip(inputs.get::<f32>(0)?) {
            *y = factor * x;
        }
        Ok(())
    }
}

/// As `Positive`, with a kernel that does not know that its output is bounded.
struct Careless;

impl Op for Careless {
    const SCHEMA: OpSchema =
        OpSchema::new("Careless", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Positive::infer(cx)
    }
}

fn fixed(dims: &[usize]) -> Vec<DimSpec> {
    dims.iter().map(|&d| DimSpec::Fixed(d)).collect()
}

fn add(graph: &mut Graph, op: &str, inputs: &[ValueId], output: &str) -> ValueId {
    let y = graph.add_value(output);
    graph.add_node(Node::new(op, 21, inputs, &[y]));
    y
}

fn own() -> Operators {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    operators
}

#[test]
fn a_concat_of_rows_happens_where_its_parts_are_made() {
    let graph = Graph::parse(
        "graph join
          input x: f32[2,3]
          input z: f32[2,1]
          a = Twice@21(x)
          b = Twice@21(z)
          joined = Beside@21(a, b)
          y = Twice@21(joined)
          output y
        ",
    )
    .unwrap();
    let model = compile_graph(graph, &own(), &CompileOptions::default()).unwrap();
    let ops: Vec<&str> = model.report().steps.iter().map(|s| s.op.as_str()).collect();
    assert_eq!(ops, ["Twice", "Twice", "Twice"], "the join itself is left out");
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    session.input_mut::<f32>("z").unwrap().copy_from_slice(&[7.0, 8.0]);
    session.run().unwrap();
    assert_close(
        session.output("y").unwrap(),
        &[4.0, 8.0, 12.0, 28.0, 16.0, 20.0, 24.0, 32.0],
        1e-6,
    );
}

#[test]
fn a_concat_of_parts_that_others_need_dense_is_a_copy() {
    let graph = Graph::parse(
        "graph join
          input x: f32[1,2]
          a = Twice@21(x)
          y = Beside@21(a, x)
          dense = Plus@21(a, a)
          output y, dense
        ",
    )
    .unwrap();
    let model = compile_graph(graph, &own(), &CompileOptions::default()).unwrap();
    assert!(model.report().steps.iter().any(|s| s.op == "Beside"));
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0]);
    session.run().unwrap();
    assert_close(session.output("y").unwrap(), &[2.0, 4.0, 1.0, 2.0], 1e-6);
    assert_close(session.output("dense").unwrap(), &[4.0, 8.0], 1e-6);
}

#[test]
fn a_concat_of_a_concatenated_tensor_or_of_a_view_gives_the_same_numbers() {
    let graph = Graph::parse(
        "graph nested
          input x: f32[2,2]
          input z: f32[2,1]
          a = Twice@21(x)
          b = Twice@21(z)
          inner = Beside@21(a, b)
          c = Twice@21(z)
          y = Beside@21(c, inner)
          output y
        ",
    )
    .unwrap();
    let mut session =
        compile_graph(graph, &own(), &CompileOptions::default()).unwrap().session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    session.input_mut::<f32>("z").unwrap().copy_from_slice(&[5.0, 6.0]);
    session.run().unwrap();
    assert_close(session.output("y").unwrap(), &[10.0, 2.0, 4.0, 10.0, 12.0, 6.0, 8.0, 12.0], 1e-6);

    let mut graph = Graph::new("view");
    let flat = graph.add_input("x", DType::F32, fixed(&[4]));
    let other = graph.add_input("z", DType::F32, fixed(&[2, 1]));
    let a = add(&mut graph, "Twice", &[flat], "a");
    let dims = Tensor::from_slice::<i64>(Shape::new(&[2]).unwrap(), &[2, 2]).unwrap();
    let dims = graph.add_constant("dims", dims);
    let square = add(&mut graph, "Reshape", &[a, dims], "square");
    let b = add(&mut graph, "Twice", &[other], "b");
    let y = add(&mut graph, "Beside", &[square, b], "y");
    graph.outputs = vec![y];
    let mut session =
        compile_graph(graph, &own(), &CompileOptions::default()).unwrap().session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    session.input_mut::<f32>("z").unwrap().copy_from_slice(&[5.0, 6.0]);
    session.run().unwrap();
    assert_close(session.output("y").unwrap(), &[2.0, 4.0, 10.0, 6.0, 8.0, 12.0], 1e-6);
}

#[test]
fn a_concat_that_says_its_extent_runs_and_all_its_readers_get_that_extent() {
    let graph = Graph::parse(
        "graph join
          input x: f32[2]
          input z: f32[3]
          a = Twice@21(x)
          b = Twice@21(z)
          joined = Counted@21(a, b)
          p = Positive@21(joined)
          q = Relu@21(joined)
          output p, q
        ",
    )
    .unwrap();
    let model = compile_graph(graph, &own(), &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, -1.0]);
    session.input_mut::<f32>("z").unwrap().copy_from_slice(&[-3.0, -4.0, 5.0]);
    session.run().unwrap();
    assert_close(session.output("p").unwrap(), &[2.0, 10.0], 1e-6);
    assert_close(session.output("q").unwrap(), &[2.0, 0.0, 0.0, 0.0, 10.0], 1e-6);
}

#[test]
fn a_node_with_more_ports_than_a_call_can_count_is_refused() {
    let mut graph = Graph::new("wide");
    let x = graph.add_input("x", DType::F32, fixed(&[1, 1]));
    let y = add(&mut graph, "Beside", &vec![x; 65_600], "y");
    graph.outputs = vec![y];
    let error = compile_graph(graph, &own(), &CompileOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "node \"Beside_0\" has 65600 inputs, a call takes at most 65534");
}

#[test]
fn a_bounded_output_wants_a_kernel_that_says_its_extent() {
    let graph = Graph::parse(
        "graph careless
          input x: f32[5]
          y = Careless@21(x)
          output y
        ",
    )
    .unwrap();
    let error = compile_graph(graph, &own(), &CompileOptions::default()).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "output \"y\" is f32[<=5], and the kernel does not support bounded ones there"
        ),
        "{error}"
    );
}

#[test]
fn an_output_takes_the_place_of_an_input_that_dies_and_of_no_other() {
    let graph = Graph::parse(
        "graph in_place
          input x: f32[4]
          a = Twice@21(x)
          b = Plus@21(a, x)
          c = Plus@21(x, b)
          output b, c
        ",
    )
    .unwrap();
    let model = compile_graph(graph, &own(), &CompileOptions::default()).unwrap();
    let in_place: Vec<bool> = model.report().steps.iter().map(|s| !s.in_place.is_empty()).collect();
    assert_eq!(in_place, [false, true, false], "a dies in the first sum, the input stays");
    let before = ADDED_IN_PLACE.load(Ordering::Relaxed);
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    for _ in 0..2 {
        session.run().unwrap();
        assert_close(session.output("b").unwrap(), &[3.0, 6.0, 9.0, 12.0], 1e-6);
        assert_close(session.output("c").unwrap(), &[4.0, 8.0, 12.0, 16.0], 1e-6);
    }
    assert_eq!(ADDED_IN_PLACE.load(Ordering::Relaxed), before + 2);
}

#[test]
fn packed_weights_are_shared_by_models_and_sessions() {
    let weights = Tensor::from_slice::<f32>(Shape::new(&[3]).unwrap(), &[0.5, 1.0, 1.5]).unwrap();
    let graph = |len: usize| {
        let mut graph = Graph::new("scaled");
        let x = graph.add_input("x", DType::F32, fixed(&[len]));
        let w = graph.add_constant("w", weights.clone());
        let y = add(&mut graph, "Scaled", &[x, w], "y");
        graph.outputs = vec![y];
        graph
    };
    let runtime = Runtime::from_parts(own(), Devices::default());
    let before = PACKINGS.load(Ordering::Relaxed);
    let small = runtime.load(graph(4), &LoadOptions::default()).unwrap();
    let large = runtime.load(graph(400), &LoadOptions::default()).unwrap();
    assert_eq!(PACKINGS.load(Ordering::Relaxed), before + 1, "packed once for both shapes");
    for model in [&small, &large] {
        assert_eq!(model.report().memories[0].packed_bytes, 64);
    }
    for mut session in
        [small.session().unwrap(), small.session().unwrap(), large.session().unwrap()]
    {
        session.input_mut::<f32>("x").unwrap().fill(2.0);
        session.run().unwrap();
        assert!(session.output::<f32>("y").unwrap().iter().all(|y| (y - 6.0).abs() < 1e-6));
    }
}

#[test]
fn bounded_outputs_say_their_extent_in_each_run() {
    let graph = Graph::parse(
        "graph bounded
          input x: f32[5]
          p = Positive@21(x)
          y = Positive@21(p)
          output y
        ",
    )
    .unwrap();
    let mut session =
        compile_graph(graph, &own(), &CompileOptions::default()).unwrap().session().unwrap();
    let cases: [(&[f32], &[f32]); 3] = [
        (&[1.0, -2.0, 3.0, -4.0, 5.0], &[1.0, 3.0, 5.0]),
        (&[-1.0; 5], &[]),
        (&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 5.0]),
    ];
    for (x, wanted) in cases {
        session.input_mut::<f32>("x").unwrap().copy_from_slice(x);
        session.run().unwrap();
        assert_close(session.output("y").unwrap(), wanted, 1e-6);
        assert_eq!(session.output_desc("y").unwrap().shape(), [wanted.len()]);
    }
}

#[test]
fn a_kernel_that_wants_fixed_dimensions_is_planned_for_those_of_the_run() {
    let graph = Graph::parse(
        "graph bounded
          input x: f32[5]
          p = Positive@21(x)
          y = Twice@21(p)
          output y
        ",
    )
    .unwrap();
    let model = compile_graph(graph, &own(), &CompileOptions::default()).unwrap();
    let notices = &model.report().notices;
    let why = "planned in the run, for the extents of \"p\": no kernel supports bounded extents";
    assert!(notices.iter().any(|notice| notice.ends_with(why)), "{notices:?}");
    let mut session = model.session().unwrap();
    for (x, wanted) in [([1.0, -2.0, 3.0, -4.0, 5.0], &[2.0, 6.0, 10.0][..]), ([-1.0; 5], &[])] {
        session.input_mut::<f32>("x").unwrap().copy_from_slice(&x);
        session.run().unwrap();
        assert_close(session.output("y").unwrap(), wanted, 1e-6);
    }
    assert_eq!(session.replans(), 2);
}

#[test]
fn a_core_that_wants_fixed_dimensions_says_so() {
    let graph = Graph::parse(
        "graph bounded
          input x: f32[5]
          input keep: bool[5]
          p = Compress@11(x, keep) axis=0
          y = Relu@14(p)
          output y
        ",
    )
    .unwrap();
    let mut options = CompileOptions::default();
    options.place.cores = vec![Core::GPU, Core::CPU];
    let model = compile_graph(graph, &own(), &options).unwrap();
    let relu = model.report().nodes.iter().find(|node| node.op == "Relu").unwrap();
    assert_eq!(relu.core, Core::CPU);
    let why = "input \"X\" is f32[<=5], and the kernel needs fixed dimensions";
    assert_eq!(relu.refusals[0].reason, why);
}

#[test]
fn bounds_pass_through_built_in_operators() {
    // The elements of x that are not zero, plus one.
    let mut graph = Graph::new("non-zero");
    let x = graph.add_input("x", DType::F32, fixed(&[6]));
    let one = graph
        .add_constant("one", Tensor::from_slice::<f32>(Shape::new(&[1]).unwrap(), &[1.0]).unwrap());
    let places = add(&mut graph, "NonZero", &[x], "places");
    let found = graph.add_value("found");
    let mut gather = Node::new("Gather", 21, &[x, places], &[found]);
    gather.attrs.push(("axis".to_owned(), Attr::Int(0)));
    graph.add_node(gather);
    let y = add(&mut graph, "Add", &[found, one], "y");
    graph.outputs = vec![places, y];
    let mut session =
        compile_graph(graph, &built_in(), &CompileOptions::default()).unwrap().session().unwrap();
    for (x, places, y) in [
        ([0.0, 2.0, 0.0, 4.0, 0.0, -1.0], vec![1i64, 3, 5], vec![3.0f32, 5.0, 0.0]),
        ([0.0; 6], vec![], vec![]),
    ] {
        session.input_mut::<f32>("x").unwrap().copy_from_slice(&x);
        session.run().unwrap();
        assert_eq!(session.output::<i64>("places").unwrap(), places);
        assert_close(session.output("y").unwrap(), &y, 1e-6);
        assert_eq!(session.output_desc("y").unwrap().shape(), [1, y.len()]);
    }
}
