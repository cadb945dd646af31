//! Kernels that quantize their own outputs instead of a downstream `QuantizeLinear` node.

use udo_api::types::F32;
use udo_api::{
    AcceptCx, Activation, Core, Encoding, EpilogueOp, EpilogueStep, Error, ExecError, FinalizeCx,
    InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema, PackageV1, Port,
};
use udo_runtime::compile::CompileError;
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model};
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 = PackageV1::new("QuantizedAs", "1.0.0")
    .ops(&[OpDef::of::<Negated>(), OpDef::of::<Deaf>(), OpDef::of::<Liar>()])
    .kernels(&[
        KernelDef::new::<NegatedF32>("Negated", Core::CPU),
        KernelDef::new::<DeafF32>("Deaf", Core::CPU),
        KernelDef::new::<LiarF32>("Liar", Core::CPU),
    ])
    .guarded();

const IN: &[Port] = &[Port::required("x", F32)];
const OUT: &[Port] = &[Port::required("y", F32)];

/// `-x`, a Relu after that, and quantized values of 8 bits after either.
struct Negated;

impl Op for Negated {
    const SCHEMA: OpSchema = OpSchema::new("Negated", IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct NegatedF32 {
    lowest: f32,
    quantized: Option<Encoding>,
}

/// Whether there is a Relu first, and the encoding of the quantized values that are stored behind it.
fn leading(steps: &[EpilogueStep]) -> (usize, Option<Encoding>) {
    let relu = EpilogueOp::Activation(Activation::Relu);
    let relus = usize::from(steps.first().is_some_and(|step| step.op() == Some(relu)));
    let last = steps.get(relus).filter(|step| step.op() == Some(EpilogueOp::Quantize));
    let bytes = last.filter(|step| step.output().dtype() == Some(udo_api::DType::U8));
    (relus, bytes.and_then(|step| step.output().encoding()))
}

impl Kernel for NegatedF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        let (relus, quantized) = leading(cx.epilogue());
        Ok(relus + usize::from(quantized.is_some()))
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (relus, quantized) = leading(cx.epilogue());
        assert_eq!(
            cx.output(0)?.encoding(),
            quantized,
            "the output is as it is after the last step"
        );
        Ok(Self { lowest: if relus == 1 { 0.0 } else { f32::NEG_INFINITY }, quantized })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let x = inputs.get::<f32>(0)?.iter().map(|x| (-x).max(self.lowest));
        match self.quantized {
            Some(quantized) => {
                let y = outputs.take::<u8>(0)?;
                y.iter_mut().zip(x).for_each(|(y, x)| *y = quantized.quantize(x));
            }
            None => outputs.take::<f32>(0)?.iter_mut().zip(x).for_each(|(y, x)| *y = x),
        }
        Ok(())
    }
}

/// `-x`; its kernel takes every step, and looks at none.
struct Deaf;

impl Op for Deaf {
    const SCHEMA: OpSchema = OpSchema::new("Deaf", IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Negated::infer(cx)
    }
}

struct DeafF32;

impl Kernel for DeafF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(cx.epilogue().len())
    }

    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        NegatedF32 { lowest: f32::NEG_INFINITY, quantized: None }.execute(io)
    }
}

/// `-x`; its kernel takes every step, looks at them, and stores numbers all the same.
struct Liar;

impl Op for Liar {
    const SCHEMA: OpSchema = OpSchema::new("Liar", IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Negated::infer(cx)
    }
}

struct LiarF32;

impl Kernel for LiarF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(cx.epilogue().len())
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let _ = cx.epilogue();
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        DeafF32.execute(io)
    }
}

/// A model of `[-1, 2, -3, 4]` as the lines of a graph without its inputs and outputs, of which `y` comes first.
fn compile(lines: &str, outputs: &str, cores: &[Core]) -> Result<Model, CompileError> {
    let text = format!(
        "graph quantized
          input x: f32[1,2,1,2]
          input z: f32[1,2,1,2]
          constant w: f32[2,2,1,1]{{-1.0, 0.0, 0.0, -1.0}}
          constant b: f32[1,2,1,1]{{10.0, 20.0}}
          constant s: f32[]{{0.3}}
          constant zero: u8[]{{3}}
          constant signed: i8[]{{-3}}
          constant wide: i16[]{{5}}
          {lines}
          output y{outputs}
        "
    );
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let mut options = CompileOptions::default();
    options.place.cores = cores.to_vec();
    compile_graph(Graph::parse(&text).unwrap(), &operators, &options)
}

/// Returns the output, and the steps that compute something.
fn run(model: &Model) -> (Vec<f32>, Vec<String>) {
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-1., 2., -3., 4.]);
    if let Ok(z) = session.input_mut::<f32>("z") {
        z.copy_from_slice(&[0.1, -7., 0.45, 1e9]);
    }
    session.run().unwrap();
    let steps = model.report().steps.iter().map(|step| step.op.clone());
    let is_node = |op: &String| op != "Transpose" && op != "Transfer";
    (session.output("y").unwrap().to_vec(), steps.filter(is_node).collect())
}

/// The lines of a graph, then what is read of `last` by another output so that nothing quantizes it on its way.
#[track_caller]
fn assert_alike(lines: &str, last: &str, wanted: &[&str]) {
    let (found, steps) = run(&compile(lines, "", &[Core::CPU]).unwrap());
    let (apart, all) = run(&compile(lines, &format!(", {last}"), &[Core::CPU]).unwrap());
    assert_eq!(found, apart, "{lines}");
    assert_eq!(steps, wanted, "{lines}");
    assert!(all.contains(&"QuantizeLinear".to_owned()), "{all:?}");
}

#[test]
fn products_quantize_behind_every_other_step() {
    let ends = "q = QuantizeLinear@21(last, s, zero)
          y = DequantizeLinear@21(q, s, zero)";
    let conv = format!(
        "sums = Conv@21(x, w)
          biased = Add@21(sums, b)
          added = Add@21(biased, z)
          last = Relu@21(added)
          {ends}"
    );
    assert_alike(&conv, "last", &["Conv", "DequantizeLinear"]);
    let matrix = "constant m: f32[2,2]{-1.0, 0.5, 0.0, -1.0}";
    let product = format!("{matrix}\n last = MatMul@21(x, m)\n {ends}");
    assert_alike(&product, "last", &["MatMul", "DequantizeLinear"]);
    let gemm = format!(
        "{matrix}
          flat = Flatten@21(x) axis=2
          last = Gemm@21(flat, m)
          {ends}"
    );
    assert_alike(&gemm, "last", &["Gemm", "DequantizeLinear"]);
}

#[test]
fn nodes_in_between_quantize_where_the_first_does_not_do_their_work() {
    for zero in ["zero", "signed", "wide"] {
        let lines = format!(
            "sums = Add@21(x, z)
          last = Relu@21(sums)
          q = QuantizeLinear@21(last, s, {zero})
          y = DequantizeLinear@21(q, s, {zero})"
        );
        assert_alike(&lines, "last", &["Add", "Relu", "DequantizeLinear"]);
    }
}

#[test]
fn kernels_of_packages_quantize() {
    let lines = "a = Negated@1(x)
          last = Relu@21(a)
          q = QuantizeLinear@21(last, s, zero)
          y = DequantizeLinear@21(q, s, zero)";
    assert_alike(lines, "last", &["Negated", "DequantizeLinear"]);
    let plain = lines.replace("last = Relu@21(a)", "").replace("(last", "(a");
    assert_alike(&plain, "a", &["Negated", "DequantizeLinear"]);
    // It stores no other quantized values.
    let wanted = ["Negated", "QuantizeLinear", "DequantizeLinear"];
    assert_alike(
        &plain.replace("zero", "signed").replace("constant signed", "constant zero"),
        "a",
        &wanted,
    );
}

#[test]
fn kernels_that_take_it_and_do_not_do_it_are_found_out() {
    let lines = "a = Deaf@1(x)
          q = QuantizeLinear@21(a, s, zero)
          y = DequantizeLinear@21(q, s, zero)";
    let refusal = compile(lines, "", &[Core::CPU]).unwrap_err().to_string();
    let wanted = "cpu: accept took 1 steps of the epilogue, and finalize did not ask for them";
    assert!(refusal.ends_with(wanted), "{refusal}");
    let model = compile(&lines.replace("Deaf", "Liar"), "", &[Core::CPU]).unwrap();
    let error = model.session().unwrap().run().unwrap_err().to_string();
    assert!(error.contains("type"), "{error}");
}

#[test]
fn explain_says_who_quantizes() {
    let lines = "a = Relu@21(x) # relu
          q = QuantizeLinear@21(a, s, zero) # quantize
          y = DequantizeLinear@21(q, s, zero) # dequantize";
    let model = compile(lines, "", &[Core::CPU]).unwrap();
    let report = model.report();
    let into: Vec<_> = report.nodes.iter().map(|n| n.fused_into.as_deref()).collect();
    assert_eq!(into, [None, Some("relu"), None]);
    assert_eq!(report.nodes[0].outputs, ["u8[1,2,1,2]"]);
}

#[test]
fn cores_that_store_quantized_values_anyway_quantize_as_before() {
    // The DSP stores what Relu makes in the encoding that its reader asks for.
    let lines = "xq = QuantizeLinear@21(x, s, zero)
          xr = DequantizeLinear@21(xq, s, zero)
          a = Relu@21(xr)
          q = QuantizeLinear@21(a, s, zero)
          y = DequantizeLinear@21(q, s, zero)";
    let cpu = compile(lines, "", &[Core::CPU]).unwrap();
    let dsp = compile(lines, "", &[Core::DSP_V68, Core::CPU]).unwrap();
    assert_eq!(run(&dsp).0, run(&cpu).0);
    let ops = |model: &Model| -> Vec<String> {
        model.report().nodes.iter().map(|node| node.op.clone()).collect()
    };
    assert_eq!(ops(&cpu), ["QuantizeLinear", "Lookup", "DequantizeLinear"]);
    let nodes = &dsp.report().nodes;
    let on_dsp = nodes.iter().all(|node| node.core == Core::DSP_V68 && node.fused_into.is_none());
    assert!(on_dsp && nodes.len() == 3, "{nodes:?}");
}

/// The DSP would store such results in the encoding that their reader has, and the kernels know none but that of an input.
#[test]
fn products_that_no_input_quantizes_stay_numbers_on_the_dsp() {
    let right = "constant m: i8[4,2]{1, 2, -3, 4, 5, -6, 7, 8}
          constant mz: i8[]{0}
          xq = QuantizeLinear@21(x, s, zero)
          xr = Flatten@21(xq)";
    let products = [
        "com.microsoft:QGemm@1(xr, s, zero, m, s, mz)",
        "com.microsoft:MatMulIntegerToFloat@1(xr, m, s, s, zero, mz)",
    ];
    for product in products {
        let lines = format!(
            "{right}
          p = {product} # product
          q = QuantizeLinear@21(p, s, zero)
          d = DequantizeLinear@21(q, s, zero)
          y = Relu@21(d)"
        );
        let cpu = compile(&lines, "", &[Core::CPU]).unwrap();
        let dsp = compile(&lines, "", &[Core::DSP_V68, Core::CPU]).unwrap();
        let of_product = dsp.report().nodes.iter().find(|node| node.name == "product").unwrap();
        assert_eq!(of_product.core, Core::DSP_V68, "{of_product:?}");
        let wanted = run(&cpu).0;
        assert!(wanted.iter().any(|y| *y > 0.0), "{wanted:?}");
        // The DSP stores what Relu makes in 16 bits, in steps of less than 0.0012.
        let found = run(&dsp).0;
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() < 0.001;
        assert!(found.iter().zip(&wanted).all(is_near), "{product}: {found:?} and {wanted:?}");
    }
}
