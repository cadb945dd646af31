//! Models that leave extents of their inputs open: planned for the shapes that sessions meet, and run as if each were
//! the only one.

use std::num::NonZero;

use udo_api::Shape;
use udo_api::guard::thread_heap_calls;
use udo_compile::plan::PlanLayout;
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model, Session, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

/// A product with packed weights, on rows that the model leaves open, whose shape comes and goes by shape arithmetic.
const PRODUCT: &str = "graph product
  input x: f32[batch,seq,4]
  input shift: f32[seq,1]
  constant w: f32[4,3]{0.5}
  constant flat: i64[2]{-1, 4}
  constant three: i64[1]{3}
  shape = Shape@21(x) end=2 # shape
  rows = Reshape@21(x, flat) # rows
  sums = MatMul@13(rows, w) # product
  wanted = Concat@13(shape, three) axis=0 # wanted
  back = Reshape@21(sums, wanted) # back
  y = Add@14(back, shift) # y
  output y
";

fn model(text: &str, options: &CompileOptions) -> Model {
    compile_graph(Graph::parse(text).unwrap(), &built_in(), options).unwrap()
}

fn tensor(dims: &[usize], first: f32) -> Tensor {
    let count: usize = dims.iter().product();
    let elements: Vec<f32> = (0u16..).take(count).map(|i| first + f32::from(i)).collect();
    Tensor::from_slice(Shape::new(dims).unwrap(), &elements).unwrap()
}

type Shapes<'a> = &'a [(&'a str, &'a [usize])];

/// Computes the expected product by the formula.
fn product(x: &Tensor, shift: &Tensor) -> Vec<f32> {
    let (x, shift) = (x.get::<f32>().unwrap(), shift.get::<f32>().unwrap());
    let rows = x.chunks_exact(4).zip(shift.iter().cycle());
    rows.flat_map(|(row, shift)| [row.iter().sum::<f32>() * 0.5 + shift; 3]).collect()
}

fn run(session: &mut Session, batch: usize, seq: usize) {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let first = (batch * 10 + seq) as f32;
    let (x, shift) = (tensor(&[batch, seq, 4], first), tensor(&[seq, 1], -first));
    session.set_input("x", &x).unwrap();
    session.set_input("shift", &shift).unwrap();
    session.run().unwrap();
    let y = session.output_tensor("y").unwrap();
    assert_eq!(y.dims(), [batch, seq, 3]);
    assert_eq!(y.get::<f32>().unwrap(), product(&x, &shift));
}

#[test]
fn a_session_plans_for_each_shape_that_it_meets() {
    let model = model(PRODUCT, &CompileOptions::default());
    assert!(model.plan().is_none());
    assert_eq!(
        model.report().notices,
        [
            "each new shape of input \"x\", f32[batch,seq,4], input \"shift\", f32[seq,1] is planned at its first run"
        ]
    );
    let mut session = model.session().unwrap();
    assert!(session.plans().next().is_none());
    for (batch, seq, replans) in [(1, 2, 1), (3, 5, 2), (1, 2, 2), (2, 1, 3), (3, 5, 3)] {
        run(&mut session, batch, seq);
        assert_eq!(session.replans(), replans, "{batch},{seq}");
    }
    let report = session.plans().next().unwrap().report();
    assert!(
        report
            .nodes
            .iter()
            .all(|node| node.is_folded == (node.name == "shape" || node.name == "wanted"))
    );
}

#[test]
fn prepared_shapes_run_without_the_heap() {
    let model = model(PRODUCT, &CompileOptions::default());
    let mut session = model.session().unwrap();
    session.prepare(&[("x", &[1, 2, 4])]).unwrap();
    session.prepare(&[("x", &[2, 3, 4])]).unwrap();
    let inputs: Vec<[Tensor; 2]> = [[1, 2], [2, 3]]
        .map(|[batch, seq]| [tensor(&[batch, seq, 4], 1.0), tensor(&[seq, 1], 2.0)])
        .to_vec();
    // Each thread's first run looks its guards up.
    session.run().unwrap();
    for [x, shift] in inputs.iter().chain(&inputs) {
        let before = thread_heap_calls();
        session.set_input("x", x).unwrap();
        session.set_input("shift", shift).unwrap();
        session.run().unwrap();
        assert_eq!(thread_heap_calls() - before, 0);
        assert_eq!(session.output::<f32>("y").unwrap(), product(x, shift));
    }
    assert_eq!(session.replans(), 0);
}

#[test]
fn inputs_that_keep_their_shape_keep_their_elements() {
    let model = model(PRODUCT, &CompileOptions::default());
    let mut session = model.session().unwrap();
    let shift = tensor(&[2, 1], 7.0);
    session.set_input("shift", &shift).unwrap();
    for batch in [1, 4, 1] {
        let x = tensor(&[batch, 2, 4], 3.0);
        session.set_input("x", &x).unwrap();
        session.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), product(&x, &shift));
    }
    session.input_mut::<f32>("shift").unwrap().fill(0.0);
    session.prepare(&[("x", &[4, 2, 4])]).unwrap();
    assert_eq!(session.input_mut::<f32>("shift").unwrap(), [0.0; 2], "the next shape's as well");
    assert_eq!(session.replans(), 2);
}

#[test]
fn equal_names_are_equal_extents() {
    let model = model(PRODUCT, &CompileOptions::default());
    let mut session = model.session().unwrap();
    session.set_input("x", &tensor(&[1, 2, 4], 0.0)).unwrap();
    session.set_input("shift", &tensor(&[3, 1], 0.0)).unwrap();
    let unequal =
        "dimension \"seq\" is 2 in input \"x\" and 3 in input \"shift\", expected one extent";
    assert_eq!(session.run().unwrap_err().to_string(), unequal);
    let error = session.prepare(&[("x", &[1, 2, 4]), ("shift", &[3, 1])]).unwrap_err();
    assert_eq!(error.to_string(), unequal);
    // The extent of an input that is not said follows from the name.
    session.prepare(&[("x", &[5, 6, 4])]).unwrap();
    assert_eq!(session.input_mut::<f32>("shift").unwrap().len(), 6);
}

#[test]
fn shapes_that_the_model_does_not_take_are_refused_and_the_session_goes_on() {
    let model = model(PRODUCT, &CompileOptions::default());
    let mut session = model.session().unwrap();
    let refused: [(Shapes<'_>, &str); 5] = [
        (&[], "graph input \"x\" has the open shape batch,seq,4, expected a shape for it"),
        (
            &[("shift", &[2, 1])],
            "graph input \"x\" has the open shape batch,2,4, expected a shape for it",
        ),
        (&[("x", &[1, 2])], "graph input \"x\" has the shape 1,2, expected one of batch,seq,4"),
        (
            &[("x", &[1, 2, 5])],
            "graph input \"x\" has the shape 1,2,5, expected one of batch,seq,4",
        ),
        (&[("z", &[1])], "the model has no input \"z\", expected one of \"x\", \"shift\""),
    ];
    for (shapes, wanted) in refused {
        assert_eq!(session.prepare(shapes).unwrap_err().to_string(), wanted);
    }
    let wrong = session.set_input("x", &tensor(&[1, 4], 0.0)).unwrap_err();
    assert_eq!(wrong.to_string(), "input \"x\" is f32[1,4], expected f32[batch,seq,4]");
    let early = session.output::<f32>("y").unwrap_err().to_string();
    assert_eq!(
        early,
        "output \"y\" has no shape yet, expected prepared shapes, or inputs and a run"
    );
    assert_eq!(
        session.input_mut::<f32>("x").unwrap_err().to_string(),
        early.replace("output \"y\"", "input \"x\"")
    );
    run(&mut session, 2, 2);
}

#[test]
fn a_fixed_model_takes_its_own_shapes_alone() {
    let text = "graph fixed\n input x: f32[2]\n y = Relu@14(x)\n output y\n";
    let model = model(text, &CompileOptions::default());
    assert!(model.plan().is_some());
    let mut session = model.session().unwrap();
    session.prepare(&[("x", &[2])]).unwrap();
    let error = session.prepare(&[("x", &[3])]).unwrap_err().to_string();
    assert_eq!(error, "graph input \"x\" has the shape 3, expected one of 2");
    let error = session.set_input("x", &tensor(&[3], 0.0)).unwrap_err().to_string();
    assert_eq!(error, "input \"x\" is f32[3], expected f32[2]");
}

#[test]
fn fixed_dimensions_are_not_dynamic() {
    let mut options = CompileOptions::default();
    options.bind.dims.insert("seq".to_owned(), 2);
    let model = model(PRODUCT, &options);
    assert_eq!(model.inputs()[0].of.to_string(), "f32[batch,2,4]");
    let mut session = model.session().unwrap();
    run(&mut session, 3, 2);
    let error = session.set_input("shift", &tensor(&[3, 1], 0.0)).unwrap_err().to_string();
    assert_eq!(error, "input \"shift\" is f32[3,1], expected f32[2,1]");
}

#[test]
fn sessions_share_plans_and_plans_share_prepacked_weights() {
    let operators = built_in();
    let open =
        compile_graph(Graph::parse(PRODUCT).unwrap(), &operators, &CompileOptions::default())
            .unwrap();
    let (mut first, mut second) = (open.session().unwrap(), open.session().unwrap());
    run(&mut first, 1, 2);
    let taken = || open.budget().used_bytes();
    let one_plan = taken();
    let session_bytes = first.plans().next().unwrap().session_bytes();
    run(&mut second, 1, 2);
    assert_eq!(taken() - one_plan, session_bytes, "the second session's own memory");
    assert!(std::ptr::eq(first.plans().next().unwrap(), second.plans().next().unwrap()));
    let before = taken();
    run(&mut first, 40, 3);
    let packed: usize =
        first.plans().next().unwrap().report().memories.iter().map(|m| m.packed_bytes).sum();
    assert!(packed > 0, "the weights are packed");
    assert_eq!(taken() - before, first.plans().next().unwrap().session_bytes(), "and not again");
}

#[test]
fn constants_that_are_computed_with_each_plan_are_packed_once() {
    // The weights come from integers, and the normalization goes into them; the second convolution has its own.
    let text = "graph pictures
  input x: f32[1,16,height,width]
  constant stored: i8[32,16,3,3]{3}
  constant scale: f32[]{0.25}
  constant w: f32[8,32,1,1]{0.5}
  constant ones: f32[32]{2.0}
  constant zeros: f32[32]{0.125}
  weights = DequantizeLinear@21(stored, scale) # weights
  sums = Conv@22(x, weights) pads=[1, 1, 1, 1] # conv
  normal = BatchNormalization@15(sums, ones, zeros, zeros, ones) # normal
  y = Conv@22(normal, w) # y
  output y
";
    let operators = built_in();
    let model =
        compile_graph(Graph::parse(text).unwrap(), &operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    let taken = || model.budget().used_bytes();
    session.prepare(&[("x", &[1, 16, 12, 12])]).unwrap();
    let report = session.plans().next().unwrap().report();
    assert_eq!(report.nodes[0].name, "weights");
    assert!(report.nodes[0].is_folded);
    let has_step = report.steps.iter().any(|step| step.name == "normal");
    assert!(!has_step, "the normalization goes into the convolution: {:?}", report.steps);
    for side in [20, 12, 33] {
        let before = taken();
        session.prepare(&[("x", &[1, 16, side, side])]).unwrap();
        let plan = session.plans().next().unwrap();
        let geometry: usize = plan.report().memories.iter().map(|m| m.geometry_bytes).sum();
        let own = if side == 12 { 0 } else { plan.session_bytes() + geometry };
        assert_eq!(taken() - before, own, "{side}");
    }
}

#[test]
fn the_shapes_met_last_are_kept() {
    let options =
        CompileOptions { max_plans: NonZero::new(2).unwrap(), ..CompileOptions::default() };
    let model = model(PRODUCT, &options);
    let mut session = model.session().unwrap();
    for (batch, replans) in [(1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4)] {
        run(&mut session, batch, 1);
        assert_eq!(session.replans(), replans, "{batch}");
    }
    let options = CompileOptions { max_plans: NonZero::<usize>::MIN, ..CompileOptions::default() };
    let mut session = self::model(PRODUCT, &options).session().unwrap();
    let shift = tensor(&[1, 1], 4.0);
    session.set_input("shift", &shift).unwrap();
    for batch in [1, 2, 1] {
        let x = tensor(&[batch, 1, 4], 1.0);
        session.set_input("x", &x).unwrap();
        session.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), product(&x, &shift), "what stays moves on");
    }
}

#[test]
fn memory_of_other_shapes_goes_where_there_is_too_little() {
    let options = |max_memory| CompileOptions { max_memory, ..CompileOptions::default() };
    let free = model(PRODUCT, &options(None));
    let mut session = free.session().unwrap();
    run(&mut session, 16, 16);
    let plan = session.plans().next().unwrap();
    let packed: usize = plan.report().memories.iter().map(|m| m.packed_bytes).sum();
    let whole = plan.session_bytes() + packed;

    let tight = model(PRODUCT, &options(Some(whole + 512)));
    let mut session = tight.session().unwrap();
    let shapes = [[16, 16], [16, 15], [1, 1], [15, 16], [16, 16]];
    for [batch, seq] in shapes {
        run(&mut session, batch, seq);
    }
    assert_eq!(session.replans(), shapes.len());
    let error = session.prepare(&[("x", &[64, 64, 4])]).unwrap_err().to_string();
    assert!(error.contains(" that max_memory allows are in use"), "{error}");
    run(&mut session, 16, 16);
}

#[test]
fn models_and_sessions_go_to_other_threads() {
    let model = model(PRODUCT, &CompileOptions::default());
    std::thread::scope(|scope| {
        for batch in 1..4 {
            let model = model.clone();
            scope.spawn(move || {
                let mut session = model.session().unwrap();
                for seq in [1, 2, 1] {
                    run(&mut session, batch, seq);
                }
            });
        }
    });
}
