//! DSP functions with ports and parameters that a node may leave out or repeat, in a model.
#![expect(clippy::needless_pass_by_value, reason = "the signature is the contract's")]

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, InferCx, KernelDef, Op, OpDef, OpSchema, PackageV1, Param, Port,
    Quant, QuantMut, Quants, Scratch, Strings, Value, dsp_kernel,
};
use udo_runtime::compile::{Fallback, PlaceOptions};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::{CompileOptions, Session};
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 = PackageV1::new("Functions", "1.0.0")
    .ops(&[OpDef::of::<Mix>()])
    .kernels(&[KernelDef::new::<MixDsp>("Mix", Core::DSP_V68)])
    .guarded();

struct Mix;

impl Op for Mix {
    const SCHEMA: OpSchema = OpSchema::new(
        "Mix",
        &[
            Port::required("x", F32),
            Port::optional("bias", F32),
            Port::required("rest", F32).repeated(),
        ],
        &[Port::required("y", F32), Port::optional("negated", F32), Port::required("doubled", F32)],
        &[
            Param::text("mode").default(Value::text("add")),
            Param::tensor("weights", DType::F32),
            Param::strings("names").optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        (0..cx.output_count()).try_for_each(|output| cx.set_output(output, x))
    }
}

dsp_kernel!(MixDsp = mix(
    out: [f32, Option<f32>, f32],
    in: [f32, Option<f32>, [f32]],
    params: { mode: &str, weights: &[f32], names: Option<Strings<'_>> }
));

/// `x`, plus or minus the weighted sum of the rest, plus the bias, plus the length of all names.
#[expect(clippy::too_many_arguments, reason = "one of each")]
#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn mix(
    y: QuantMut<'_, f32>,
    negated: Option<QuantMut<'_, f32>>,
    doubled: QuantMut<'_, f32>,
    x: Quant<'_, f32>,
    bias: Option<Quant<'_, f32>>,
    rest: Quants<'_, f32>,
    mode: &str,
    weights: &[f32],
    names: Option<Strings<'_>>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let sign = if mode == "add" { 1.0 } else { -1.0 };
    y.data.copy_from_slice(x.data);
    for (index, weight) in weights.iter().enumerate().take(rest.len()) {
        for (y, x) in y.data.iter_mut().zip(rest.get(index)?.data) {
            *y += sign * weight * x;
        }
    }
    if let Some(bias) = bias {
        y.data.iter_mut().zip(bias.data).for_each(|(y, b)| *y += b);
    }
    let letters: usize = names.map_or(0, |names| names.iter().map(str::len).sum());
    y.data.iter_mut().for_each(|y| *y += letters as f32);
    doubled.data.iter_mut().zip(&*y.data).for_each(|(d, y)| *d = 2.0 * y);
    if let Some(negated) = negated {
        negated.data.iter_mut().zip(&*y.data).for_each(|(n, y)| *n = -y);
    }
    Ok(())
}

/// A node of `Mix` on the DSP, of `x` and what `shape` makes of it.
fn session(shape: fn(&mut Graph, &mut Node)) -> Session {
    let mut graph = Graph::new("one node");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(2)]);
    let [y, doubled] = ["y", "doubled"].map(|name| graph.add_value(name));
    let mut node = Node::new("Mix", 0, &[x], &[y]);
    node.outputs.extend([None, Some(doubled)]);
    node.attrs.push(("weights".to_owned(), Attr::Floats(vec![1.0, 10.0])));
    graph.outputs = vec![y, doubled];
    shape(&mut graph, &mut node);
    graph.add_node(node);
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let place = PlaceOptions {
        cores: vec![Core::DSP_V68],
        fallback: Fallback::Off,
        ..PlaceOptions::default()
    };
    let options = CompileOptions { place, ..CompileOptions::default() };
    let model = compile_graph(graph, &operators, &options).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0]);
    session
}

#[test]
fn omitted_optional_inputs_are_absent() {
    let mut session = session(|graph, node| {
        let rest = graph.add_input("rest", DType::F32, [DimSpec::Fixed(2)]);
        node.inputs.extend([None, Some(rest)]);
    });
    session.input_mut::<f32>("rest").unwrap().copy_from_slice(&[3.0, 4.0]);
    for _ in 0..2 {
        session.run().unwrap();
    }
    assert_eq!(session.output::<f32>("y").unwrap(), [4.0, 6.0]);
    assert_eq!(session.output::<f32>("doubled").unwrap(), [8.0, 12.0]);
}

#[test]
fn inputs_and_attributes_reach_the_operator() {
    let mut session = session(|graph, node| {
        let inputs = ["bias", "first", "second"];
        let inputs = inputs.map(|name| graph.add_input(name, DType::F32, [DimSpec::Fixed(2)]));
        node.inputs.extend(inputs.map(Some));
        let negated = graph.add_value("negated");
        node.outputs[1] = Some(negated);
        graph.outputs.push(negated);
        node.attrs.push(("mode".to_owned(), Attr::Text("sub".to_owned())));
        let names = ["ab", "c"].map(str::to_owned).to_vec();
        node.attrs.push(("names".to_owned(), Attr::Texts(names)));
    });
    for (name, values) in
        [("bias", [100.0f32, 200.0]), ("first", [3.0, 4.0]), ("second", [5.0, 6.0])]
    {
        session.input_mut::<f32>(name).unwrap().copy_from_slice(&values);
    }
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [51.0, 141.0]);
    assert_eq!(session.output::<f32>("negated").unwrap(), [-51.0, -141.0]);
}
