//! Nodes of older operator sets: what they become, as text in `upgrades/`, and what they compute.

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Param, Port,
};
use udo_compile::resolve::UPGRADES;
use udo_graph::graph::Origin;
use udo_runtime::CompileOptions;
use udo_runtime::compile::BindOptions;
use udo_runtime::graph::Graph;
use udo_test_support::compile::{built_in, compile_graph, resolve_graph};
use udo_test_support::graph_files;

#[test]
fn imported_nodes_match_their_files() {
    graph_files::check("graphs/upgrades", |graph| {
        let operators = built_in();
        let resolved = resolve_graph(graph, &operators, &BindOptions::default()).unwrap();
        resolved.graph.verify().unwrap();
        resolved.graph.to_string()
    });
}

#[test]
fn every_upgrade_is_in_a_file() {
    let graphs: Vec<Graph> =
        graph_files::files_in("graphs/upgrades").iter().map(graph_files::Text::before).collect();
    for row in UPGRADES {
        let taken = graphs.iter().flat_map(|graph| &graph.nodes).any(|node| row.takes(node));
        assert!(taken, "no file in tests/upgrades has a node for {row:?}");
    }
}

fn resolved(text: &str) -> Result<String, String> {
    let graph = Graph::parse(text).unwrap();
    let resolved = resolve_graph(graph, &built_in(), &BindOptions::default());
    resolved.map(|resolved| resolved.graph.to_string()).map_err(|e| e.to_string())
}

/// Nodes of older sets, and what is said of them.
const REFUSED: &[(&str, &str)] = &[
    (
        "y = Add@6(x, x) axis=1 # n",
        "(Add): input 1 is f32[2,2], expected a shape that fits into f32[2,2] from axis 1 on",
    ),
    (
        "y = Add@7(x, x) axis=0 # n",
        "(Add): attribute \"axis\" is not a parameter of operator Add, which has none",
    ),
    (
        "y = BatchNormalization@6(x, w, w, w, w) is_test=0 # n",
        "(BatchNormalization): attribute \"is_test\" is 0, which is for training",
    ),
    (
        "y = BatchNormalization@7(x, x, w, w, w) spatial=0 # n",
        "(BatchNormalization): input 1 is f32[2,2], expected [2] because attribute \"spatial\" is 0: a number for each position of f32[2,2]",
    ),
    (
        "y, mean = BatchNormalization@9(x, w, w, w, w) # n",
        "(BatchNormalization): output 1 is a statistic of the batch, which is for training",
    ),
    (
        "y = Cast@1(x) to=\"COMPLEX64\" # n",
        "(Cast): attribute \"to\" is \"COMPLEX64\", expected a known type",
    ),
    ("y = Clip@6(x) min=\"low\" # n", "(Clip): attribute \"min\" is \"low\", expected a number"),
    ("y = GlobalLpPool@2(x) # n", "(GlobalLpPool): input 0 is f32[2,2], expected rank 3 or more"),
    (
        "y, deviation = SimplifiedLayerNormalization@17(x, w) # n",
        "(SimplifiedLayerNormalization): output 1 is a statistic of rows, which is for training",
    ),
    (
        "y = com.microsoft:SkipLayerNormalization@1(x) # n",
        "(SkipLayerNormalization): input 1 is missing",
    ),
    (
        "y, mean = com.microsoft:SkipSimplifiedLayerNormalization@1(x, x, w) # n",
        "(SkipSimplifiedLayerNormalization): output 1 is a statistic of rows, which is for training",
    ),
    ("y = com.microsoft:BiasGelu@1(x) # n", "(BiasGelu): input 1 is missing"),
    (
        "y = com.microsoft:FusedMatMul@1(x, w) transA=0.5 # n",
        "(FusedMatMul): attribute \"transA\" is 0.5, expected an integer",
    ),
    (
        "y = com.microsoft:BiasGelu@1(x, w) alpha=2.0 # n",
        "(Gelu): attribute \"alpha\" is not a parameter of operator Gelu, which has approximate",
    ),
    (
        "y = com.microsoft:Attention@1(x, w) num_heads=1 # n",
        "(Attention): input 1 is f32[2], expected columns of three equal sizes",
    ),
    (
        "y = com.microsoft:Attention@1(x, w) do_rotary=1 # n",
        "(Attention): attribute \"do_rotary\" is 1, which rotates queries and keys, expected 0",
    ),
    (
        "y = com.microsoft:Attention@1(x, w) past_present_share_buffer=1 # n",
        "(Attention): attribute \"past_present_share_buffer\" is 1, which shares a buffer of keys and values between calls, expected 0",
    ),
    (
        "y = com.microsoft:MultiHeadAttention@1(x, x, x) # n",
        "(MultiHeadAttention): attribute \"num_heads\" is missing",
    ),
    (
        "y = com.microsoft:MultiHeadAttention@1(x, x, x, _, three) num_heads=1 # n",
        "(MultiHeadAttention): input 4 is i32[3], expected [2], [4], [2,2] or [2,queries,2]",
    ),
    (
        "y = com.microsoft:RotaryEmbedding@1(x, x, x, x) # n",
        "(RotaryEmbedding): input 0 is f32[2,2], expected rank 3 or 4",
    ),
    (
        "y = com.microsoft:GridSample@1(x, x) mode=\"area\" # n",
        "(GridSample): attribute \"mode\" is \"area\", expected \"bilinear\", \"nearest\" or \"bicubic\"",
    ),
    (
        "y = com.microsoft:FusedConv@1(x, x) activation=\"Mish\" # n",
        "(FusedConv): attribute \"activation\" is \"Mish\", expected Relu, Tanh, Sigmoid, LeakyRelu, Clip or HardSigmoid",
    ),
    (
        "y = Dropout@6(x) is_test=0 # n",
        "(Dropout): attribute \"is_test\" is 0, which is for training",
    ),
    ("y = Softmax@11(x) axis=3 # n", "(Softmax): attribute \"axis\" is 3, input 0 is f32[2,2]"),
    ("y = Upsample@9(x) # n", "(Resize): input 1, the scales, is missing"),
    (
        "y = Unsqueeze@11(x) axes=1 # n",
        "(Unsqueeze): attribute \"axes\" is 1, expected a list of integers",
    ),
];

#[test]
fn attributes_removed_in_newer_opsets_are_refused_by_name() {
    for (node, reason) in REFUSED {
        let text = format!(
            "graph g\n input x: f32[2,2]\n constant w: f32[2]{{1.0}}\n constant three: i32[3]{{1}}\n {node}\n output y\n"
        );
        assert_eq!(resolved(&text), Err(format!("node \"n\" {reason}")));
    }
}

const OLD: &str = "graph net
  input x: f32[1,2,3,3]
  constant w: f32[2,2,1,1]{0.5, -1.0, 2.0, 0.25}
  constant ones: f32[2]{1.0}
  constant bias: f32[2]{0.5, -0.5}
  sums = Conv@6(x, w) # conv
  normal = BatchNormalization@6(sums, ones, ones, ones, ones) is_test=1 # norm
  clipped = Clip@6(normal) min=0.0 max=6.0 # clip
  moved = Add@6(clipped, bias) axis=1 broadcast=1 # add
  pooled = GlobalAveragePool@6(moved) # pool
  flat = Reshape@4(pooled) shape=[0, -1] # flat
  kept = Dropout@6(flat) is_test=1 ratio=0.5 # drop
  y = Softmax@6(kept) # softmax
  output y
";

const NEW: &str = "graph net
  input x: f32[1,2,3,3]
  constant w: f32[2,2,1,1]{0.5, -1.0, 2.0, 0.25}
  constant ones: f32[2]{1.0}
  constant bias: f32[2]{0.5, -0.5}
  constant clip.min: f32[]{0.0}
  constant clip.max: f32[]{6.0}
  constant add.unsqueeze.axes: i64[2]{1, 2}
  constant flat.shape: i64[2]{0, -1}
  constant drop.ratio: f32[]{0.5}
  sums = Conv@22(x, w) # conv
  normal = BatchNormalization@15(sums, ones, ones, ones, ones) # norm
  clipped = Clip@13(normal, clip.min, clip.max) # clip
  add.unsqueeze = Unsqueeze@21(bias, add.unsqueeze.axes) # add.unsqueeze
  moved = Add@14(clipped, add.unsqueeze) # add
  pooled = GlobalAveragePool@22(moved) # pool
  flat = Reshape@21(pooled, flat.shape) # flat
  kept = Dropout@22(flat, drop.ratio) # drop
  y = Softmax@13(kept) # softmax
  output y
";

#[test]
fn models_of_two_operator_sets_have_one_plan() {
    assert_eq!(resolved(OLD), resolved(NEW));
    let run = |text: &str| {
        let operators = built_in();
        let graph = Graph::parse(text).unwrap();
        let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
        let mut session = model.session().unwrap();
        let x = session.input_mut::<f32>("x").unwrap();
        x.iter_mut().zip(-4i8..).for_each(|(x, i)| *x = f32::from(i));
        session.run().unwrap();
        let y: Vec<u32> = session.output::<f32>("y").unwrap().iter().map(|y| y.to_bits()).collect();
        // Ids are of the nodes that each of them has.
        let mut report = model.report().clone();
        report.nodes.iter_mut().for_each(|node| node.ids = Origin::default());
        report.subnets.iter_mut().for_each(|subnet| subnet.nodes = Origin::default());
        (format!("{report:#?}"), y)
    };
    assert_eq!(run(OLD), run(NEW));
}

/// A package's idea of Clip, which is that of operator set 6.
struct Clip;

impl Op for Clip {
    const SCHEMA: OpSchema = OpSchema::new(
        "Clip",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::scalar("min", DType::F32), Param::scalar("max", DType::F32)],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if cx.opset() != 6 {
            return Err(Error::new(format!("the operator set is {}, expected 6", cx.opset())));
        }
        cx.set_output(0, x)
    }
}

struct Clipped([f32; 2]);

impl Kernel for Clipped {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self([cx.float32("min")?, cx.float32("max")?]))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        for (y, x) in outputs.take::<f32>(0)?.iter_mut().zip(inputs.get::<f32>(0)?) {
            *y = x.clamp(self.0[0], self.0[1]);
        }
        Ok(())
    }
}

static PACKAGE: PackageV1 = PackageV1::new("Clips", "1.0.0")
    .ops(&[OpDef::of::<Clip>()])
    .kernels(&[KernelDef::new::<Clipped>("Clip", Core::CPU)])
    .guarded();

#[test]
fn a_convolution_may_have_its_channels_last() {
    let text = |body: &str| {
        format!(
            "graph net\n input x: f32[1,3,4,2]\n constant w: f32[2,2,1,2]{{0.5, -1.0, 2.0, 0.25, 1.5, -2.0, 0.75, 3.0}}\n \
             constant b: f32[2]{{0.5, -0.5}}\n {body}\n output y\n"
        )
    };
    let run = |text: &str| {
        let graph = Graph::parse(text).unwrap();
        let operators = built_in();
        let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
        let mut session = model.session().unwrap();
        let x = session.input_mut::<f32>("x").unwrap();
        x.iter_mut().zip(-9i8..).for_each(|(x, i)| *x = f32::from(i));
        session.run().unwrap();
        session.output::<f32>("y").unwrap().to_vec()
    };
    let y = run(&text("y = com.microsoft:NhwcConv@1(x, w, b) pads=[0, 0, 1, 0] # n"));
    // Windows of two rows, of which the last one's second is padding.
    let x: Vec<f32> = (-9i8..15).map(f32::from).collect();
    let w = [[0.5, -1.0, 2.0, 0.25], [1.5, -2.0, 0.75, 3.0]];
    let at =
        |row: usize, col: usize, c: usize| if row < 3 { x[(row * 4 + col) * 2 + c] } else { 0.0 };
    let mut wanted = Vec::new();
    for (row, col) in (0..3).flat_map(|row| (0..4).map(move |col| (row, col))) {
        for (w, b) in w.iter().zip([0.5, -0.5]) {
            let window =
                [at(row, col, 0), at(row, col, 1), at(row + 1, col, 0), at(row + 1, col, 1)];
            wanted.push(w.iter().zip(window).map(|(w, x)| w * x).sum::<f32>() + b);
        }
    }
    assert_eq!(y, wanted);
}

/// Runs a graph with one input.
fn computed(text: &str, x: &[f32]) -> Vec<f32> {
    let graph = Graph::parse(text).unwrap();
    let operators = built_in();
    let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(x);
    session.run().unwrap();
    session.output::<f32>("y").unwrap().to_vec()
}

#[test]
fn scales_of_half_precision_are_the_numbers_that_they_are() {
    let x: Vec<f32> = (-8i8..8).map(|x| f32::from(x) * 0.77).collect();
    for type_of in [DType::F16, DType::Bf16].map(DType::onnx) {
        for (scale, zero) in [(0.0625f32, 3), (0.25, 0)] {
            // A scale that is known before the run, and one that a node makes of the input.
            let known = format!("s = Cast@21(wide) to={type_of} # s");
            let made = format!(
                "m = ReduceMean@18(x) keepdims=0 # m\n nil = Mul@14(m, zero) # nil\n sum = Add@14(nil, wide) # sum\n \
                 s = Cast@21(sum) to={type_of} # s"
            );
            for nodes in [known, made] {
                let text = format!(
                    "graph g\n input x: f32[16]\n constant wide: f32[]{{{scale}}}\n constant zero: f32[]{{0.0}}\n \
                     constant z: u8[]{{{zero}}}\n h = Cast@21(x) to={type_of} # h\n {nodes}\n \
                     q = QuantizeLinear@21(h, s, z) # q\n d = DequantizeLinear@21(q, s, z) # d\n \
                     y = Cast@21(d) to=1 # y\n output y\n"
                );
                for (y, x) in computed(&text, &x).iter().zip(&x) {
                    let stored =
                        (x / scale).round_ties_even() + f32::from(i8::try_from(zero).unwrap());
                    let wanted =
                        (stored.clamp(0.0, 255.0) - f32::from(i8::try_from(zero).unwrap())) * scale;
                    // A half is rounded before, by less than half of a step.
                    assert!(
                        (y - wanted).abs() <= scale * 1.001,
                        "{y}, expected {wanted}, of {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_mean_that_is_large_beside_the_deviation_costs_no_digits() {
    let text =
        "graph g\n input x: f32[1,1,4,16]\n y = MeanVarianceNormalization@13(x) # n\n output y\n";
    for (mean, spread) in [(1e4f32, 0.02f32), (-3e5, 0.5)] {
        let x: Vec<f32> =
            (0..64u16).map(|at| mean + spread * f32::from(at * 37 % 64) / 64.0).collect();
        let y = computed(text, &x);
        let wide: Vec<f64> = x.iter().copied().map(f64::from).collect();
        let of = |values: &[f64]| values.iter().sum::<f64>() / 64.0;
        let mean = of(&wide);
        let squares: Vec<f64> = wide.iter().map(|x| (x - mean).powi(2)).collect();
        for (y, x) in y.iter().zip(&wide) {
            let wanted = (x - mean) / of(&squares).sqrt();
            assert!((f64::from(*y) - wanted).abs() < 1e-4, "{y}, expected {wanted}");
        }
    }
}

#[test]
fn a_package_gets_the_node_that_the_model_has() {
    let text = "graph g\n input x: f32[3]\n y = Clip@6(x) min=-1.0 max=2.0 # n\n output y\n";
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let graph = Graph::parse(text).unwrap();
    let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
    assert_eq!(model.report().nodes[0].package, "Clips");
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-3.0, 0.5, 3.0]);
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [-1.0, 0.5, 2.0]);
}
