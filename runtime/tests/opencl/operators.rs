//! Built-in operators of every family that has GPU kernels: the device and the work items, held against the CPU.

use udo_api::Core;
use udo_engine::cores::{GpuStorage, OpenCl, Profile};
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model};
use udo_test_support::random::noise;

use crate::device;
use udo_test_support::compile::{built_in, compile_graph};

/// The extents of inputs `a`, `b` and so on, constants, and nodes that compute the output `y`.
struct Case {
    inputs: &'static [&'static [usize]],
    constants: &'static str,
    nodes: &'static str,
}

const fn case(inputs: &'static [&'static [usize]], nodes: &'static str) -> Case {
    Case { inputs, constants: "", nodes }
}

impl Case {
    const fn with(self, constants: &'static str) -> Self {
        Self { constants, ..self }
    }

    fn text(&self) -> String {
        let inputs = self.inputs.iter().zip(["a", "b", "c"]);
        let inputs = inputs.map(|(dims, name)| {
            let dims: Vec<_> = dims.iter().map(ToString::to_string).collect();
            format!(" input {name}: f32[{}]\n", dims.join(","))
        });
        let (inputs, Self { constants, nodes, .. }) = (inputs.collect::<String>(), self);
        format!("graph g\n{inputs}{constants}{nodes} output y\n")
    }
}

const CASES: &[Case] = &[
    // elementwise
    case(&[&[5, 7]], " y = Tanh@13(a) # unary\n"),
    case(&[&[2, 1, 4], &[3, 1]], " y = Sub@14(a, b) # binary\n"),
    case(&[&[2, 3], &[3]], " l = Less@13(a, b) # compare\n y = Where@16(l, a, b) # ternary\n"),
    case(
        &[&[2, 3], &[3]],
        " l = Less@13(a, b) # compare\n g = Greater@13(a, zero) # compare\n o = Or@7(l, g) # logic\n \
         m = And@7(l, g) # logic\n n = Not@1(m) # predicate\n x = Xor@7(o, n) # logic\n f = Cast@13(x) to=1 # to_f32\n \
         i = Cast@13(a) to=7 # to_i64\n e = Equal@13(i, none) # integers\n r = Cast@13(e) to=1 # of_truths\n \
         s = Add@14(f, r) # sum\n y = Sub@14(s, b) # last\n",
    )
    .with(" constant zero: f32[]{0.0}\n constant none: i64[]{0}\n"),
    case(&[&[2, 3], &[3], &[2, 1]], " y = Sum@13(a, b, c) # repeated\n"),
    case(&[&[2, 3], &[3], &[2, 1]], " y = Mean@13(a, b, c) # repeated\n"),
    case(&[&[9]], " y = Clip@13(a, low) # limited\n").with(" constant low: f32[]{-0.25}\n"),
    // reduce
    case(&[&[3, 5, 4]], " y = ReduceMean@18(a, axes) # reduce\n").with(" constant axes: i64[1]{1}\n"),
    case(&[&[3, 5, 4]], " y = ReduceSumSquare@18(a, axes) # apart\n").with(" constant axes: i64[2]{0, 2}\n"),
    // select
    case(&[&[3, 5, 4]], " i = ArgMax@13(a) axis=1 # extreme\n y = Cast@13(i) to=1 # to_f32\n"),
    case(&[&[3, 5, 4]], " i = ArgMin@13(a) axis=2 select_last_index=1 # extreme\n y = Cast@13(i) to=1 # to_f32\n"),
    case(&[&[3, 5, 4]], " v, i = TopK@11(a, k) axis=1 # top\n f = Cast@13(i) to=1 # to_f32\n y = Add@14(v, f) # both\n")
        .with(" constant k: i64[1]{3}\n"),
    // norm
    case(&[&[3, 5, 4]], " y = Softmax@13(a) axis=1 # lanes\n"),
    case(&[&[3, 5, 4]], " y = LogSoftmax@13(a) # lanes\n"),
    case(&[&[3, 5], &[5], &[5]], " y = LayerNormalization@17(a, b, c) # rows\n"),
    case(&[&[3, 5], &[5]], " y = RMSNormalization@23(a, b) # rows\n"),
    case(&[&[2, 3, 5], &[3], &[3]], " y = BatchNormalization@15(a, b, c, mean, variance) # channels\n")
        .with(" constant mean: f32[3]{0.5, 0.0, -1.0}\n constant variance: f32[3]{0.5, 1.0, 2.0}\n"),
    case(&[&[2, 7, 3, 2]], " y = LRN@13(a) size=3 alpha=0.5 # lrn\n"),
    case(&[&[2, 4, 5], &[4], &[4]], " y = GroupNormalization@21(a, b, c) num_groups=2 # groups\n"),
    // pooling
    case(&[&[2, 3, 9, 8]], " y = MaxPool@12(a) kernel_shape=[3, 2] strides=[2, 2] pads=[1, 0, 1, 1] # windows\n"),
    case(
        &[&[2, 3, 9, 8]],
        " y = AveragePool@19(a) kernel_shape=[3, 2] strides=[2, 3] pads=[1, 0, 1, 1] ceil_mode=1 count_include_pad=1 # windows\n",
    ),
    case(&[&[2, 3, 9, 8]], " y = GlobalAveragePool@1(a) # global\n"),
    // products
    case(
        &[&[2, 4, 9, 11], &[6, 2, 3, 3], &[6]],
        " y = Conv@11(a, b, c) group=2 strides=[2, 1] pads=[1, 0, 1, 2] dilations=[1, 2] # conv\n",
    ),
    case(&[&[1, 6, 9, 11], &[6, 1, 3, 3]], " y = Conv@11(a, b) group=6 # depthwise\n"),
    case(
        &[&[2, 4, 5, 6], &[4, 3, 3, 2]],
        " y = ConvTranspose@11(a, b) group=2 strides=[2, 3] pads=[1, 0, 1, 1] # transposed\n",
    ),
    case(&[&[2, 1, 5, 7], &[3, 7, 6]], " y = MatMul@13(a, b) # products\n"),
    case(
        &[&[1, 3, 6, 7], &[5, 3, 3, 3], &[1, 5, 6, 7]],
        " t = Conv@11(a, b) pads=[1, 1, 1, 1] # conv\n s = Add@14(t, bias) # bias\n r = Add@14(s, c) # residual\n \
         y = Relu@14(r) # activation\n",
    )
    .with(" constant bias: f32[5, 1, 1]{0.5, -0.5, 0.25, 1.0, -1.0}\n"),
    case(
        &[&[2, 5, 7], &[7, 6], &[2, 5, 6]],
        " t = MatMul@13(a, b) # products\n s = Add@14(t, bias) # bias\n r = Add@14(c, s) # residual\n y = Gelu@20(r) # gelu\n",
    )
    .with(" constant bias: f32[6]{0.5, -0.5, 0.25, 1.0, -1.0, 2.0}\n"),
    case(
        &[&[7, 5], &[6, 7], &[6]],
        " t = Gemm@13(a, b, c) transA=1 transB=1 # gemm\n y = Clip@13(t, low, high) # clip\n",
    )
    .with(" constant low: f32[]{-0.5}\n constant high: f32[]{0.75}\n"),
    case(&[&[7, 5], &[6, 7], &[6]], " y = Gemm@13(a, b, c) transA=1 transB=1 alpha=0.5 beta=2.0 # gemm\n"),
    // movement and shape
    case(&[&[2, 3, 4, 5]], " y = Transpose@13(a) perm=[2, 0, 3, 1] # strided\n"),
    case(&[&[1, 8, 2, 3]], " y = DepthToSpace@13(a) blocksize=2 # strided\n"),
    case(&[&[4, 5]], " y = Slice@13(a, starts, ends, axes, steps) # walked\n").with(
        " constant starts: i64[2]{3, 1}\n constant ends: i64[2]{-9, 5}\n constant axes: i64[2]{0, 1}\n constant steps: i64[2]{-2, 3}\n",
    ),
    case(&[&[2, 3]], " y = Pad@19(a, pads, value) # walked\n")
        .with(" constant pads: i64[4]{1, 2, 0, 3}\n constant value: f32[]{1.5}\n"),
    case(&[&[2, 3]], " y = Pad@19(a, pads) mode=\"reflect\" # walked\n")
        .with(" constant pads: i64[4]{1, 2, 0, 3}\n"),
    case(&[&[3, 1]], " y = Expand@13(a, shape) # walked\n").with(" constant shape: i64[3]{2, 1, 4}\n"),
    case(&[&[2, 3]], " y = Tile@13(a, times) # walked\n").with(" constant times: i64[2]{2, 3}\n"),
    case(&[&[2, 3], &[2, 1], &[2, 4]], " y = Concat@13(a, b, c) axis=1 # joined\n"),
    case(&[&[2, 5]], " p, q = Split@18(a) axis=1 num_outputs=2 # cut\n y = Concat@13(q, p) axis=1 # turned\n"),
    case(&[&[1, 6]], " t = Tanh@13(a) # unary\n y = Concat@13(t, t, a) axis=1 # twice\n"),
    case(&[&[1, 6]], " p, q = Split@18(a, lens) axis=1 # parts\n y = Concat@13(q, p) axis=1 # turned\n")
        .with(" constant lens: i64[2]{1, 5}\n"),
    case(&[&[2, 5]], " y = Gather@13(a, indices) axis=1 # gather\n")
        .with(" constant indices: i64[3]{4, -5, 1}\n"),
    case(&[&[1, 2, 3, 4]], " y = Resize@19(a, _, scales) mode=\"linear\" # resize\n")
        .with(" constant scales: f32[4]{1.0, 1.0, 2.0, 1.5}\n"),
    // bf16 is stored as f32 there
    case(&[&[5, 7]], " r = Cast@13(a) to=16 # to_bf16\n y = Cast@13(r) to=1 # to_f32\n"),
    case(&[&[5, 7]], " m = Mul@14(a, wide) # product\n i = Cast@13(m) to=7 # to_i64\n r = Cast@13(i) to=16 # to_bf16\n y = Cast@13(r) to=1 # to_f32\n")
        .with(" constant wide: f32[]{30000.0}\n"),
    case(&[&[2, 6]], " y = Reshape@21(a, shape) # view\n").with(" constant shape: i64[2]{4, 3}\n"),
];

fn compute(case: &Case, core: Core, profile: Profile) -> (Model, Vec<f32>) {
    compute_of(case, noise, core, profile)
}

fn compute_of(
    case: &Case,
    numbers: fn(usize, u64) -> Vec<f32>,
    core: Core,
    profile: Profile,
) -> (Model, Vec<f32>) {
    let mut options = CompileOptions::default();
    options.place.cores = vec![core];
    options.place.profile = profile;
    let graph = Graph::parse(&case.text()).unwrap();
    let model = compile_graph(graph, &built_in(), &options).unwrap();
    let mut session = model.session().unwrap();
    for (seed, (dims, name)) in (1..).zip(case.inputs.iter().zip(["a", "b", "c"])) {
        let numbers = numbers(dims.iter().product(), seed);
        session.input_mut::<f32>(name).unwrap().copy_from_slice(&numbers);
    }
    session.run().unwrap();
    let y = session.output::<f32>("y").unwrap().to_vec();
    (model, y)
}

#[test]
fn operators_of_every_family_match_the_cpu() {
    for case in CASES {
        let (_, wanted) = compute(case, Core::CPU, Profile::default());
        let largest = wanted.iter().fold(0.0f32, |most, y| most.max(y.abs()));
        assert!(largest > 0.0, "{}", case.nodes);
        for (gpu_storage, within) in [(GpuStorage::F32, 1e-5), (GpuStorage::F16, 2e-2)] {
            for opencl in [OpenCl::Auto, OpenCl::Off] {
                let profile = Profile { opencl, gpu_storage, ..Profile::default() };
                let (model, found) = compute(case, Core::GPU, profile);
                let is_device = opencl == OpenCl::Auto && device().is_some();
                let mut backends = model.report().nodes.iter().filter_map(|n| n.backend.as_deref());
                assert!(backends.all(|b| b.starts_with("opencl") == is_device), "{}", case.nodes);
                assert_eq!(found.len(), wanted.len());
                for (i, (y, wanted)) in found.iter().zip(&wanted).enumerate() {
                    let apart = (y - wanted).abs() / largest;
                    let of = case.nodes;
                    assert!(
                        apart <= within,
                        "{of} by {profile:?}: element {i} is {y}, not {wanted}"
                    );
                }
            }
        }
    }
}

/// Numbers, among them those that are none or beyond all others.
fn special(len: usize, seed: u64) -> Vec<f32> {
    let mut numbers = noise(len, seed);
    let all = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 100.0, -100.0];
    for (at, number) in (usize::from(!seed.is_multiple_of(2))..len).step_by(2).zip(all) {
        numbers[at] = number;
    }
    numbers
}

/// Functions of the device's own answer for these as they like, so formulas may not leave it to them.
#[test]
fn nan_and_infinity_match_the_cpu() {
    let unary = "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish \
        LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh \
        ThresholdedRelu";
    let binary = "Add Div Max Min Mul Pow Sub";
    let of_rows = "LogSoftmax Softmax";
    let reduced = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare";
    let unary = unary.split_whitespace().map(|op| (op, "a"));
    let binary = binary.split_whitespace().map(|op| (op, "a, b"));
    let of_rows = of_rows.split_whitespace().map(|op| (op, "a"));
    let reduced = reduced.split_whitespace().map(|op| (op, "a, axes"));
    for (op, inputs) in unary.chain(binary).chain(of_rows).chain(reduced) {
        let nodes = format!(" y = {op}@24({inputs}) # special\n");
        let is_of_two = inputs.ends_with('b');
        let inputs: &[&[usize]] = if is_of_two { &[&[4, 6], &[4, 6]] } else { &[&[4, 6]] };
        let constants = " constant axes: i64[1]{1}\n";
        let case = Case { inputs, constants, nodes: nodes.leak() };
        let (_, wanted) = compute_of(&case, special, Core::CPU, Profile::default());
        for opencl in [OpenCl::Auto, OpenCl::Off] {
            let profile = Profile { opencl, ..Profile::default() };
            let (_, found) = compute_of(&case, special, Core::GPU, profile);
            for (at, (y, wanted)) in found.iter().zip(&wanted).enumerate() {
                let is_same = y.total_cmp(wanted).is_eq() || y.is_nan() && wanted.is_nan();
                let is_near = (y - wanted).abs() <= 1e-5 * wanted.abs().max(1.0);
                assert!(
                    is_same || is_near,
                    "{op} by {opencl:?}: element {at} is {y}, not {wanted}"
                );
            }
        }
    }
}

#[test]
fn denormal_results_are_the_nearest_numbers() {
    for (op, f) in
        [("Exp@13", (|x| f64::exp(x)) as fn(f64) -> f64), ("Softplus@1", |x| f64::exp(x).ln_1p())]
    {
        let nodes = format!(" s = Sub@14(a, far) # far\n y = {op}(s) # function\n");
        let case = Case {
            inputs: &[&[40]],
            constants: " constant far: f32[]{99.0}\n",
            nodes: nodes.leak(),
        };
        for opencl in [OpenCl::Auto, OpenCl::Off] {
            let (_, found) = compute(&case, Core::GPU, Profile { opencl, ..Profile::default() });
            for (x, y) in noise(40, 1).into_iter().zip(found) {
                let wanted = f(f64::from(x - 99.0));
                // Half a step of the denormal numbers, and what the function is off before it is rounded.
                let off = (f64::from(y) - wanted).abs() / f64::from(f32::from_bits(1));
                assert!(off <= 0.501, "{op} of {}: {y:e} is {off} steps off {wanted:e}", x - 99.0);
            }
        }
    }
}

#[test]
fn values_cross_to_the_device_and_back_and_nowhere_else() {
    // A product that ends in an activation, a value that is twice in a join, and parts that do not begin where a device lets
    // buffers begin.
    let case = case(
        &[&[1, 6, 5, 7], &[6, 6, 1, 1]],
        " t = Conv@11(a, b) # conv\n r = Relu@14(t) # relu\n j = Concat@13(r, r, a) axis=1 # join\n \
         p, q = Split@18(j, lens) axis=1 # parts\n s = Tanh@13(q) # tanh\n y = Concat@13(s, p) axis=1 # turned\n",
    )
    .with(" constant lens: i64[2]{1, 17}\n");
    for opencl in [OpenCl::Auto, OpenCl::Off] {
        let (model, _) = compute(&case, Core::GPU, Profile { opencl, ..Profile::default() });
        let report = model.report();
        assert_eq!(
            report.steps.iter().filter(|step| step.is_transfer()).count(),
            3,
            "{:?}",
            report.steps
        );
        let on_host: Vec<_> = report.steps.iter().filter(|step| step.core != Core::GPU).collect();
        assert!(on_host.iter().all(|step| step.op == "Transfer"), "{on_host:?}");
        assert!(report.steps.iter().all(|step| step.op != "Relu"), "{:?}", report.steps);
    }
}
