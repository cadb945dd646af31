//! Limits of devices that are narrower than those of the kernels: each rule refuses exactly the cases it names.

use udo_api::types::{F32, U8, U16};
use udo_api::{
    Core, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Port, input, output,
};
use udo_engine::cores::DeviceLimits;
use udo_runtime::compile::Fallback;
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model};
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 =
    PackageV1::new("Limits", "1.0.0").ops(&[OpDef::of::<Same>(), OpDef::of::<Many>()]).kernels(&[
        KernelDef::new::<Nothing>("Same", Core::dsp(65))
            .ports(&[input(0, F32.or(U8).or(U16)), output(0, F32.or(U8).or(U16))]),
        KernelDef::new::<Nothing>("Many", Core::dsp(65)).ports(&[input(0, U8), output(0, U8)]),
    ]);

/// An operator of a package for a layer that the DSP does not take.
static ELU: PackageV1 =
    PackageV1::new("OwnElu", "1.0.0").ops(&[OpDef::of::<Elu>()]).kernels(&[KernelDef::new::<
        Nothing,
    >(
        "Elu", Core::DSP_V68
    )
    .ports(&[input(0, U8), output(0, U8)])]);

struct Elu;

impl Op for Elu {
    const SCHEMA: OpSchema = OpSchema::new(
        "Elu",
        &[Port::required("x", F32.or(U8))],
        &[Port::required("y", F32.or(U8))],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct Same;

impl Op for Same {
    const SCHEMA: OpSchema = OpSchema::new(
        "Same",
        &[Port::required("x", F32.or(U8).or(U16))],
        &[Port::required("y", F32.or(U8).or(U16))],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct Many;

impl Op for Many {
    const SCHEMA: OpSchema = OpSchema::new(
        "Many",
        &[Port::required("xs", F32.or(U8)).repeated()],
        &[Port::required("y", F32.or(U8))],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// These models are placed, and never run.
struct Nothing;

impl Kernel for Nothing {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        Err(ExecError::not_implemented())
    }
}

/// A network of `node`, which makes `b` of `a`, both quantized to this type.
fn net(shape: &str, node: &str, dtype: &str) -> String {
    format!(
        "graph net
  input x: f32[{shape}]
  constant s: f32[]{{0.0625}}
  constant z: {dtype}[]{{100}}
  constant one: f32[]{{1.0}}
  constant two: f32[]{{2.0}}
  constant sides: i64[8]{{0,0,1,1, 0,0,1,1}}
  constant batch: i64[8]{{1,0,0,0, 0,0,0,0}}
  constant side: i64[2]{{1,1}}
  constant last: i64[1]{{-1}}
  constant first: i64[1]{{-4}}
  constant sides2: i64[4]{{0,1, 0,1}}
  constant flat: i64[2]{{1,-1}}
  constant deep: i64[5]{{1,1,1,-1,1}}
  ai = QuantizeLinear@17(x, s, z)
  a = DequantizeLinear@17(ai, s, z)
  {node}
  bi = QuantizeLinear@17(b, s, z)
  y = DequantizeLinear@17(bi, s, z)
  output y
"
    )
}

const IMAGE: &str = "1,2,4,4";

fn options(core: Core, limits: DeviceLimits) -> CompileOptions {
    let mut options = CompileOptions::default();
    options.place.cores = vec![core];
    options.place.profile.limits = limits;
    options
}

fn compile(text: &str, options: &CompileOptions) -> Result<Model, String> {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let graph = Graph::parse(text).unwrap();
    compile_graph(graph, &operators, options).map_err(|error| error.to_string())
}

/// Compiles a network for a core, and holds it against a refusal, or against none.
fn hold(text: &str, core: Core, limits: DeviceLimits, wanted: Option<&str>) {
    let found = compile(text, &options(core, limits)).err();
    let is_wanted = match (&found, wanted) {
        (None, None) => true,
        (Some(error), Some(wanted)) => error.contains(&format!("{core}: {wanted}")),
        (Some(_), None) | (None, Some(_)) => false,
    };
    assert!(is_wanted, "found {found:?}\nwanted {wanted:?}\non {core} of {text}");
}

const OWN: DeviceLimits = DeviceLimits::OfKernels;
const ASKED: DeviceLimits = DeviceLimits::Documented;

#[test]
fn versions_before_the_first_that_is_known_take_nothing() {
    let text = net(IMAGE, "b = Sigmoid@13(a)", "u8");
    let none =
        "dsp:v60 is not one of them, and the known DSPs begin with v65 (docs/dsp.md, Versions)";
    hold(&text, Core::dsp(60), OWN, Some(none));
    for arch in [65, 66, 67, 68, 69, 73, 75, 79, 81, 90] {
        hold(&text, Core::dsp(arch), OWN, None);
        hold(&text, Core::dsp(arch), ASKED, None);
    }
}

#[test]
fn values_of_16_bits_are_stored_from_v68_on() {
    let rule = "u16 of 4 dimensions, and DSPs before v68 store values in 8 bits, not in 16 (docs/dsp.md, Types)";
    for node in ["b = Sigmoid@13(a)", "b = Same@1(a)"] {
        let text = net(IMAGE, node, "u16");
        for arch in [65, 66] {
            let error = compile(&text, &options(Core::dsp(arch), OWN)).unwrap_err();
            assert!(error.contains(rule), "{error}");
        }
        for arch in [68, 73, 81] {
            hold(&text, Core::dsp(arch), OWN, None);
            hold(&text, Core::dsp(arch), ASKED, None);
        }
    }
}

#[test]
fn v66_takes_no_built_in_operator_on_numbers() {
    let plain = |op: &str| format!("graph g\n  input x: f32[{IMAGE}]\n  y = {op}(x)\n  output y\n");
    let rule = "input \"x\" is f32 of 4 dimensions, and v66 supports only quantized models (docs/dsp.md, Types)";
    hold(&plain("Sigmoid@13"), Core::dsp(66), OWN, Some(rule));
    for arch in [65, 66, 68] {
        hold(&plain("Same@1"), Core::dsp(arch), OWN, None);
    }
    let text =
        "graph g\n  input x: f32[1,4,2,2]\n  y = DepthToSpace@13(x) blocksize=2\n  output y\n";
    hold(text, Core::dsp(66), OWN, Some(rule));
    for arch in [65, 68] {
        hold(text, Core::dsp(arch), OWN, None);
    }
}

#[test]
fn other_types_than_those_documented_are_refused_where_that_is_asked_for() {
    let rule = "and values are of u8, u16 (from v68 on), f32, i32 or u32 (docs/dsp.md, Types)";
    for (dtype, node) in [("i8", "b = Sigmoid@13(a)"), ("i16", "b = Sigmoid@13(a)")] {
        let text = net(IMAGE, node, dtype);
        hold(&text, Core::DSP_V68, OWN, None);
        let found = format!("input \"x\" is {dtype} of 4 dimensions, {rule}");
        hold(&text, Core::DSP_V68, ASKED, Some(&found));
    }
}

#[test]
fn values_have_four_dimensions_at_most() {
    let text = net(
        IMAGE,
        "c = Reshape@14(a, deep)\n  ci = QuantizeLinear@17(c, s, z)\n  d = DequantizeLinear@17(ci, s, z)\n  b = Sigmoid@13(d)",
        "u8",
    );
    hold(&text, Core::DSP_V68, OWN, None);
    let found = "u8 of 5 dimensions, and values have at most 4 dimensions (docs/dsp.md, Shapes)";
    let error = compile(&text, &options(Core::DSP_V68, ASKED)).unwrap_err();
    assert!(error.contains(found), "{error}");
    let text = net(
        IMAGE,
        "c = Reshape@14(a, flat)\n  ci = QuantizeLinear@17(c, s, z)\n  d = DequantizeLinear@17(ci, s, z)\n  b = Sigmoid@13(d)",
        "u8",
    );
    hold(&text, Core::DSP_V68, ASKED, None);
}

#[test]
fn inputs_of_networks_have_four_dimensions() {
    let text = net("1,8", "b = Sigmoid@13(a)", "u8");
    hold(&text, Core::DSP_V68, OWN, None);
    let rule = "u8 of 2 dimensions, and a network's inputs have 4 dimensions, the batch first (docs/dsp.md, Shapes)";
    hold(&text, Core::DSP_V68, ASKED, Some(&format!("input \"x\" is {rule}")));
    // One that the CPU quantizes first is an input all the same.
    let mut with_cpu = options(Core::DSP_V68, ASKED);
    with_cpu.place.cores.push(Core::CPU);
    let model = compile(&text, &with_cpu).unwrap();
    let nodes = &model.report().nodes;
    let reading: Vec<&str> = nodes
        .iter()
        .filter(|node| node.refusals.iter().any(|of| of.reason.ends_with(rule)))
        .map(|node| node.op.as_str())
        .collect();
    assert_eq!(reading, ["QuantizeLinear", "Lookup"], "{nodes:#?}");
}

#[test]
fn operators_of_packages_have_a_fixed_number_of_tensors() {
    let text = net(IMAGE, "b = Many@1(a, a)", "u8");
    hold(&text, Core::DSP_V68, OWN, None);
    let rule = "port \"xs\" stands for any number, and operators of packages have a fixed number of tensors (docs/dsp.md, Packages)";
    hold(&text, Core::DSP_V68, ASKED, Some(rule));
    // Built-in operators may have such ports.
    hold(&net(IMAGE, "b = Concat@13(a, a) axis=1", "u8"), Core::DSP_V68, ASKED, None);
    hold(&net(IMAGE, "b = Same@1(a)", "u8"), Core::DSP_V68, ASKED, None);
}

#[test]
fn unsupported_dsp_layers_are_refused_with_all_pass_settings() {
    let refused = [
        ("b = Elu@6(a) # l", "Elu", "ELU runs only on the CPU and the GPU"),
        (
            "b = LpNormalization@1(a) axis=1 p=2 # l",
            "LpNormalization",
            "L2Norm runs only on the CPU and the GPU",
        ),
        (
            "b = LpNormalization@1(a) # l",
            "LpNormalization",
            "L2Norm runs only on the CPU and the GPU",
        ),
        ("b = Pow@15(a, two) # l", "Pow", "the DSP's Power has an exponent of 1"),
        ("b = Pad@18(a, batch) # l", "Pad", "the DSP's Pad does not pad the batch"),
        ("b = Pad@18(a, side, _, first) # l", "Pad", "the DSP's Pad does not pad the batch"),
        (
            "c = Reshape@14(a, flat)\n  b = Pad@18(c, sides2) # l",
            "Pad",
            "the DSP's Pad has 4 dimensions",
        ),
        (
            "c = Sigmoid@13(a)\n  d = Elu@6(c) # l\n  b = Tanh@13(d)",
            "Elu",
            "ELU runs only on the CPU and the GPU",
        ),
    ];
    for (node, op, says) in refused {
        let text = net(IMAGE, node, "u8");
        hold(&text, Core::DSP_V68, OWN, None);
        let found = format!("layer \"l\" is {op}, and {says} (docs/dsp.md, Layers)");
        hold(&text, Core::DSP_V68, ASKED, Some(&found));
    }
    let taken = [
        "b = LpNormalization@1(a) axis=1 p=1",
        "b = Pow@15(a, one)",
        "b = Pad@18(a, sides)",
        "b = Pad@18(a, side, _, last)",
        "b = HardSwish@14(a)",
        "c = Sigmoid@13(a)\n  b = Tanh@13(c)",
    ];
    for node in taken {
        hold(&net(IMAGE, node, "u8"), Core::DSP_V68, ASKED, None);
    }
}

#[test]
fn an_operator_of_a_package_stands_for_a_layer_that_the_dsp_does_not_take() {
    let mut operators = built_in();
    operators.add_static(&ELU).unwrap();
    let graph = Graph::parse(&net(IMAGE, "b = Elu@6(a) # l", "u8")).unwrap();
    let model =
        compile_graph(graph, &operators, &options(Core::DSP_V68, ASKED)).map_err(|e| e.to_string());
    let model = model.unwrap();
    let node = model.report().nodes.iter().find(|node| node.name == "l").unwrap();
    assert_eq!((node.package.as_str(), node.core), ("OwnElu", Core::DSP_V68));
}

#[test]
fn refused_nodes_fall_back_with_a_reason() {
    let text = net(
        IMAGE,
        "c = Elu@6(a) # l\n  ci = QuantizeLinear@17(c, s, z)\n  d = DequantizeLinear@17(ci, s, z)\n  b = Sigmoid@13(d)",
        "u8",
    );
    let mut options = options(Core::DSP_V68, ASKED);
    options.place.fallback = Fallback::To(Core::CPU);
    let model = compile(&text, &options).unwrap();
    let fell: Vec<_> = model.report().nodes.iter().filter(|node| node.fell_back).collect();
    let [node] = fell[..] else { panic!("{fell:#?}") };
    assert_eq!((node.name.as_str(), node.core), ("l", Core::CPU));
    assert!(node.refusals[0].reason.contains("(docs/dsp.md, Layers)"), "{node:?}");
    // Other cores have no such limits.
    for core in [Core::CPU, Core::GPU] {
        hold(&net("1,8", "b = Elu@6(a)", "u8"), Core::CPU, ASKED, None);
        let plain = "graph g\n  input x: f32[1,8]\n  y = Elu@6(x)\n  output y\n";
        hold(plain, core, ASKED, None);
    }
}
