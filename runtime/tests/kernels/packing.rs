//! Prepacked constants: packed by recipe, once, after finalize, and in place of the constants.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Packed, Param, Port, Shape, Sources, Value,
};
use udo_runtime::compile::CompileError;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::{CompileOptions, Model, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 = PackageV1::new("Packing", "1.0.0")
    .ops(&[OpDef::of::<Scaled>()])
    .kernels(&[KernelDef::new::<ScaledF32>("Scaled", Core::CPU)])
    .guarded();

/// `x * sum(w) * factor`, and whatever else `mode` asks for.
struct Scaled;

impl Op for Scaled {
    const SCHEMA: OpSchema = OpSchema::new(
        "Scaled",
        &[Port::required("x", F32), Port::required("w", F32).constant()],
        &[Port::required("y", F32)],
        &[
            Param::scalar("factor", DType::F32).default(Value::float(1.0)),
            Param::text("mode").default(Value::text("pack")),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// Calls of [`counted`]; tests run side by side, and only one of them asks for it.
static PACKINGS: AtomicUsize = AtomicUsize::new(0);

struct ScaledF32 {
    sum: Packed<f32>,
    /// Whether execute finds the weights themselves.
    keeps: bool,
}

fn counted(recipe: &[u64], sources: &Sources<'_>, packed: &mut [f32]) -> Result<(), Error> {
    PACKINGS.fetch_add(1, Ordering::Relaxed);
    sum(recipe, sources, packed)
}

fn sum(recipe: &[u64], sources: &Sources<'_>, packed: &mut [f32]) -> Result<(), Error> {
    let &[factor] = recipe else { return Err(Error::new("one factor is expected")) };
    #[expect(clippy::cast_possible_truncation, reason = "the recipe has the bits of an f32")]
    let factor = f32::from_bits(factor as u32);
    packed[0] = factor * sources.get::<f32>(0)?.iter().sum::<f32>();
    Ok(())
}

fn wrong_type(_: &[u64], sources: &Sources<'_>, _: &mut [f32]) -> Result<(), Error> {
    sources.get::<i32>(0).map(|_| ())
}

fn wrong_source(_: &[u64], sources: &Sources<'_>, _: &mut [f32]) -> Result<(), Error> {
    sources.get::<f32>(1).map(|_| ())
}

#[expect(clippy::unnecessary_wraps, reason = "the signature is the contract's")]
fn panics(_: &[u64], _: &Sources<'_>, packed: &mut [f32]) -> Result<(), Error> {
    packed[1] = 0.0;
    Ok(())
}

impl Kernel for ScaledF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let fill = match cx.text("mode")? {
            "wrong type" => wrong_type,
            "wrong source" => wrong_source,
            "panic" => panics,
            "count" => counted,
            _ => sum,
        };
        let input = usize::from(cx.text("mode")? != "not constant");
        let keeps = cx.text("mode")? == "keep";
        if keeps {
            cx.keep(1)?;
        }
        let recipe = [u64::from(cx.float32("factor")?.to_bits())];
        Ok(Self { sum: cx.pack(&[input], &recipe, 1, fill)?, keeps })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, packed, .. } = io;
        assert_eq!(inputs.has(1), self.keeps);
        let factor = packed.get(self.sum)?[0];
        for (y, x) in outputs.take::<f32>(0)?.iter_mut().zip(inputs.get::<f32>(0)?) {
            *y = factor * x;
        }
        Ok(())
    }
}

/// A model with a node for each factor, all of them with the same weights.
fn compile(mode: &str, factors: &[f32], threads: usize) -> Result<Model, CompileError> {
    let mut graph = Graph::new("packing");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(2)]);
    let weights = Tensor::from_slice::<f32>(Shape::new(&[3]).unwrap(), &[0.5, 1.0, 1.5]).unwrap();
    let w = graph.add_constant("w", weights);
    for (index, &factor) in factors.iter().enumerate() {
        let y = graph.add_value(&format!("y{index}"));
        let mut node = Node::new("Scaled", 0, &[x, w], &[y]);
        node.name = format!("node{index}");
        node.attrs.push(("factor".to_owned(), Attr::Float(factor.into())));
        node.attrs.push(("mode".to_owned(), Attr::Text(mode.to_owned())));
        graph.add_node(node);
        graph.outputs.push(y);
    }
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let threads = NonZero::new(threads).unwrap();
    compile_graph(graph, &operators, &CompileOptions { threads, ..CompileOptions::default() })
}

#[test]
fn other_recipes_make_other_constants_and_the_same_one_is_shared() {
    for threads in [1, 3] {
        let before = PACKINGS.load(Ordering::Relaxed);
        let model = compile("count", &[1.0, 2.0, 1.0, 3.0, 2.0, 1.0], threads).unwrap();
        assert_eq!(PACKINGS.load(Ordering::Relaxed) - before, 3, "{threads} threads");
        let mut session = model.session().unwrap();
        session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 10.0]);
        session.run().unwrap();
        for (output, factor) in [("y0", 1.0), ("y1", 2.0), ("y2", 1.0), ("y3", 3.0)] {
            assert_eq!(session.output::<f32>(output).unwrap(), [3.0 * factor, 30.0 * factor]);
        }
        let packed = model.report().memories[0].packed_bytes;
        assert_eq!(packed, 3 * size_of::<f32>(), "each constant once");
    }
}

#[test]
fn a_packed_input_is_absent_unless_it_is_kept() {
    for mode in ["pack", "keep"] {
        let mut session = compile(mode, &[1.0], 1).unwrap().session().unwrap();
        session.run().unwrap();
    }
}

#[test]
fn packers_that_fail_name_their_node() {
    // As every package that is a library of its own does.
    udo_api::guard::install_panic_hook();
    let says = |mode: &str| compile(mode, &[1.0, 2.0], 2).unwrap_err().to_string();
    let place = "node \"node0\": package Packing's Scaled";
    let when = "while it packs its constants";
    assert_eq!(says("wrong type"), format!("{place} source 0 is f32, expected i32 {when}"));
    assert_eq!(says("wrong source"), format!("{place} source 1 was asked for, there are 1 {when}"));
    let panic = says("panic");
    assert!(panic.starts_with(&format!("{place} panicked: index out of bounds")), "{panic}");
    assert!(panic.ends_with(when), "{panic}");
    assert_eq!(
        says("not constant"),
        "node \"node0\" (Scaled) runs on none of the cores asked for: \
         cpu: input 0 is not constant, so it cannot be packed"
    );
}
