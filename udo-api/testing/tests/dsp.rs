//! DSP functions with every kind of port and parameter of a schema.
#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "the signatures are the contract's"
)]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the numbers are small"
)]

use udo_api::{
    Core, DType, Dim, Error, ExecError, F16, GuardAlloc, InferCx, KernelDef, Op, OpDef, OpSchema,
    Param, Port, PortRule, Quant, QuantMut, Quants, QuantsMut, Scratch, Shape, Strings, TensorDesc,
    TypedTensor, Value, dsp_kernel, output, types,
};
use udo_testing::{Bench, Fault, Tensor, tensor};

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

const V68: Core = Core::dsp(68);

/// Computes a number from each kind of parameter, so that a test can check the arguments.
struct Everything;

impl Op for Everything {
    const SCHEMA: OpSchema = OpSchema::new(
        "Everything",
        &[Port::required("x", types::F32)],
        &[Port::required("y", types::F32)],
        &[
            Param::scalar("scale", DType::F32),
            Param::scalar("count", DType::U8).default(Value::int(3)),
            Param::scalar("keep", DType::Bool).optional(),
            Param::text("mode").default(Value::text("linear")),
            Param::text("note").optional(),
            Param::tensor("axes", DType::I32).optional(),
            Param::tensor("weights", DType::F32).default(Value::ints(&[1, 2])),
            Param::strings("names").optional(),
            Param::typed_tensor("table", types::F32.or(types::F16)).optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        cx.set_output(0, TensorDesc::new(DType::F32, Shape::new(&[9])?))
    }
}

dsp_kernel!(EverythingDsp = everything(
    out: [f32],
    in: [f32],
    params: {
        scale: f64, count: u8, keep: Option<bool>, mode: &str, note: Option<&str>, axes: Option<&[i32]>,
        shares: &[f32] = "weights", names: Option<Strings<'_>>, table: Option<TypedTensor<'_, F16>>
    }
));

#[expect(clippy::too_many_arguments, reason = "one of each")]
fn everything(
    out: QuantMut<'_, f32>,
    _x: Quant<'_, f32>,
    scale: f64,
    count: u8,
    keep: Option<bool>,
    mode: &str,
    note: Option<&str>,
    axes: Option<&[i32]>,
    shares: &[f32],
    names: Option<Strings<'_>>,
    table: Option<TypedTensor<'_, F16>>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let names = names.map_or(-1.0, |names| {
        let lens: f32 = names.iter().map(|name| name.len() as f32).sum();
        lens * 10.0 + names.get(names.len() - 1).map_or(0.0, |last| last.len() as f32)
    });
    let table = table.map_or(-1.0, |table| {
        let sum: f32 = table.data.iter().map(|x| x.to_f32()).sum();
        sum + 100.0 * table.shape.iter().product::<usize>() as f32
            + 1000.0 * table.shape.len() as f32
    });
    out.data.copy_from_slice(&[
        scale as f32,
        f32::from(count),
        keep.map_or(-1.0, |keep| f32::from(u8::from(keep))),
        mode.len() as f32,
        note.map_or(-1.0, |note| note.len() as f32),
        axes.map_or(-99.0, |axes| axes.iter().sum::<i32>() as f32),
        shares.iter().sum(),
        names,
        table,
    ]);
    Ok(())
}

fn everything_bench() -> Bench {
    let bench =
        Bench::op(OpDef::of::<Everything>(), &[KernelDef::new::<EverythingDsp>("Everything", V68)]);
    bench.on(V68).input(tensor(&[1], &[0f32]))
}

#[test]
fn parameters_of_every_kind_arrive_and_cost_no_heap() {
    let bench = everything_bench()
        .float("scale", 1.5)
        .int("count", 200)
        .int("keep", 1)
        .text("mode", "cubic")
        .text("note", "ab")
        .ints("axes", &[-1, 4])
        .floats("weights", &[0.25, 0.5])
        .strings("names", &["one", "three"])
        .tensor("table", &tensor(&[1, 2], &[F16::from_f32(1.0), F16::from_f32(2.0)]));
    let outcomes = bench.run().unwrap();
    assert_eq!(outcomes[0].heap_calls, 0);
    let expected = [1.5, 200.0, 1.0, 5.0, 2.0, 3.0, 0.75, 85.0, 2203.0];
    assert_eq!(outcomes[0].outputs[0].values::<f32>(), expected);
}

#[test]
fn parameters_that_a_node_leaves_out_have_their_default_or_none() {
    let expected = [2.0, 3.0, -1.0, 6.0, -1.0, -99.0, 3.0, -1.0, -1.0];
    assert_eq!(everything_bench().int("scale", 2).one().values::<f32>(), expected);
}

#[test]
fn parameters_that_do_not_fit_are_refused_in_finalize() {
    type Case = (fn(Bench) -> Bench, &'static str);
    let cases: &[Case] = &[
        (|b| b.int("count", 256), "parameter \"count\" is 256, expected u8"),
        (|b| b.int("mode", 1), "parameter \"mode\" is an integer, expected a string"),
        (
            |b| b.text("note", "x").text("axes", "1"),
            "parameter \"axes\" is a string, expected integers",
        ),
        (|b| b.ints("axes", &[1, 1 << 40]), "parameter \"axes\" is 1099511627776, expected i32"),
        (|b| b.text("weights", "1"), "parameter \"weights\" is a string, expected floats"),
        (|b| b.text("names", "a"), "parameter \"names\" is a string, expected strings"),
        (
            |b| b.tensor("table", &tensor(&[1], &[1f32])),
            "parameter \"table\" is a tensor of f32, expected f16",
        ),
    ];
    for (with, expected) in cases {
        let fault = with(everything_bench().float("scale", 1.0)).fault();
        assert!(matches!(fault, Fault::Finalize(_)), "{fault}");
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

#[test]
fn optional_parameters_must_be_in_the_schema() {
    dsp_kernel!(StrayDsp = stray(out: [f32], in: [f32], params: { limit: Option<f32> }));

    fn stray(
        out: QuantMut<'_, f32>,
        _x: Quant<'_, f32>,
        limit: Option<f32>,
        _vtcm: Scratch<'_>,
    ) -> Result<(), ExecError> {
        out.data.fill(limit.unwrap_or(0.0));
        Ok(())
    }

    let bench =
        Bench::kernel(KernelDef::new::<StrayDsp>("Stray", V68)).input(tensor(&[1], &[0f32]));
    let error = bench.clone().like_input().error();
    assert!(error.contains("parameter \"limit\" is not in the schema"), "{error}");
    assert_eq!(bench.float("limit", 2.0).like_input().one().values::<f32>(), [2.0]);
}

dsp_kernel!(BlendDsp = blend(out: [u8, Option<i32>], in: [u8, Option<i32>, [u8]], params: {}));

/// Sums the dequantized elements of all inputs, and optionally returns the number of tensors.
fn blend(
    out: QuantMut<'_, u8>,
    count: Option<QuantMut<'_, i32>>,
    first: Quant<'_, u8>,
    bias: Option<Quant<'_, i32>>,
    rest: Quants<'_, u8>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    if let Some(count) = count {
        count.data.fill(i32::try_from(rest.len()).unwrap_or(-1));
    }
    for (element, y) in out.data.iter_mut().enumerate() {
        let mut sum = first.encoding.dequantize(first.data[element]);
        if let Some(bias) = bias {
            sum += bias.encoding.dequantize(bias.data[element]);
        }
        for index in 0..rest.len() {
            let tensor = rest.get(index)?;
            sum += tensor.encoding.dequantize(tensor.data[element]);
        }
        *y = out.encoding.quantize(sum);
    }
    Ok(())
}

const BLEND: KernelDef = KernelDef::new::<BlendDsp>("Blend", V68);

fn quantized(values: [u8; 2], scale: f32) -> Tensor {
    tensor(&[2], &values).encoded(scale, 0)
}

#[test]
fn optional_and_repeated_inputs_come_as_the_node_has_them() {
    let bench = Bench::kernel(BLEND).input(quantized([1, 2], 1.0));
    let ends = |bench: Bench| bench.like_input().output_encoding(0, 0.5, 10);
    assert_eq!(ends(bench.clone()).one().values::<u8>(), [12, 14]);
    let without_bias =
        bench.clone().absent().input(quantized([3, 4], 0.5)).input(quantized([1, 1], 2.0));
    assert_eq!(ends(without_bias).one().values::<u8>(), [19, 22]);
    let bias = tensor(&[2], &[4, -4]).encoded(0.25, 0);
    let with_all = ends(bench.input(bias).input(quantized([3, 4], 0.5)));
    let count = with_all.output(DType::I32, Shape::new(&[1]).unwrap());
    let outcomes = count.run().unwrap();
    assert_eq!(outcomes[0].heap_calls, 0);
    assert_eq!(outcomes[0].outputs[0].values::<u8>(), [17, 16]);
    assert_eq!(outcomes[0].outputs[1].values::<i32>(), [1]);
}

#[test]
fn finalize_refuses_nodes_with_other_ports_than_the_function() {
    dsp_kernel!(PlainDsp = plain(out: [u8], in: [u8], params: {}));

    fn plain(out: QuantMut<'_, u8>, x: Quant<'_, u8>, _vtcm: Scratch<'_>) -> Result<(), ExecError> {
        out.data.copy_from_slice(x.data);
        Ok(())
    }

    let plain = || Bench::kernel(KernelDef::new::<PlainDsp>("Plain", V68));
    let blend = || Bench::kernel(BLEND);
    let input = || quantized([0, 0], 1.0);
    let shape = || Shape::new(&[2]).unwrap();
    let floats = || tensor(&[2], &[0f32, 0.0]);
    let cases = [
        (plain().absent().output(DType::U8, shape()), "input 0 is missing, expected u8"),
        (plain().input(floats()).output(DType::U8, shape()), "input 0 is f32, expected u8"),
        (plain().input(input()).output(DType::I8, shape()), "output 0 is i8, expected u8"),
        (
            plain().input(input()).input(input()).like_input(),
            "the node has input 1, which the function does not take",
        ),
        (
            plain().input(input()).like_input().like_input(),
            "the node has output 1, which the function does not take",
        ),
        (blend().input(input()).input(input()).like_input(), "input 1 is u8, expected i32"),
        (
            blend().input(input()).absent().input(input()).input(floats()).like_input(),
            "input 3 is f32, expected u8",
        ),
        (
            blend().input(input()).absent().absent().input(input()).like_input(),
            "input 2 is missing, expected u8",
        ),
    ];
    for (bench, expected) in cases {
        let fault = bench.fault();
        assert!(matches!(fault, Fault::Finalize(_)), "{fault}");
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

const BOUNDED: &[PortRule] = &[output(0, types::U8).bounded(), output(1, types::I32).bounded()];

/// Two outputs whose dimensions depend on the data.
#[test]
fn each_of_two_outputs_sets_its_dimensions() {
    dsp_kernel!(SplitDsp = split(out: [u8, i32], in: [i8], params: {}));

    fn split(
        mut low: QuantMut<'_, u8>,
        mut high: QuantMut<'_, i32>,
        x: Quant<'_, i8>,
        _vtcm: Scratch<'_>,
    ) -> Result<(), ExecError> {
        let (mut lows, mut highs) = (0, 0);
        for &x in x.data {
            if x < 0 {
                low.data[lows] = x.unsigned_abs();
                lows += 1;
            } else {
                high.data[highs] = i32::from(x);
                highs += 1;
            }
        }
        low.set_shape(&[lows])?;
        assert_eq!((low.shape(), high.shape()), (&[lows][..], &[5][..]));
        high.set_shape(&[highs])
    }

    let bound = Shape::from_dims(&[Dim::UpTo(5)]).unwrap();
    let kernel = KernelDef::new::<SplitDsp>("Split", V68).ports(BOUNDED);
    let bench = Bench::kernel(kernel).input(tensor(&[5], &[-1i8, 2, -3, -4, 5]));
    let outputs = bench.output(DType::U8, bound).output(DType::I32, bound).all();
    assert_eq!((outputs[0].dims(), outputs[0].values::<u8>()), (vec![3], vec![1, 3, 4]));
    assert_eq!((outputs[1].dims(), outputs[1].values::<i32>()), (vec![2], vec![2, 5]));
}

dsp_kernel!(CopiesDsp = copies(out: [u8, [u8]], in: [u8], params: { missed: i32 }));

/// Copies the input, then the input plus one to all outputs of the repeated port except `missed`.
fn copies(
    first: QuantMut<'_, u8>,
    mut rest: QuantsMut<'_, u8>,
    x: Quant<'_, u8>,
    missed: i32,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    first.data.copy_from_slice(x.data);
    for index in (0..rest.len()).filter(|&index| i32::try_from(index) != Ok(missed)) {
        for (y, &x) in rest.take(index)?.data.iter_mut().zip(x.data) {
            *y = x + 1;
        }
    }
    Ok(())
}

#[test]
fn every_tensor_of_a_repeated_output_must_be_taken() {
    let kernel =
        || Bench::kernel(KernelDef::new::<CopiesDsp>("Copies", V68)).input(quantized([1, 2], 1.0));
    let outputs = kernel().int("missed", -1).like_input().like_input().like_input().all();
    let values: Vec<Vec<u8>> = outputs.iter().map(Tensor::values).collect();
    assert_eq!(values, [[1, 2], [2, 3], [2, 3]]);
    assert_eq!(kernel().int("missed", -1).like_input().all().len(), 1);
    let error = kernel().int("missed", 1).like_input().like_input().like_input().error();
    assert!(error.contains("returned without taking an output: port 2"), "{error}");
}

dsp_kernel!(AgainDsp = again(out: [[u8]], in: [u8], params: {}));

/// Takes an empty output twice, and sets its dimensions through one view while the other is borrowed.
fn again(
    mut all: QuantsMut<'_, u8>,
    _x: Quant<'_, u8>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let (first_view, mut second_view) = (all.take(0)?, all.take(0)?);
    let borrowed_shape = first_view.shape();
    second_view.set_shape(&[3, 0])?;
    assert_eq!((borrowed_shape, second_view.shape()), (&[5, 0][..], &[3, 0][..]));
    Ok(())
}

#[test]
fn a_borrowed_shape_is_unchanged_when_dimensions_are_set() {
    const RULES: &[PortRule] = &[output(0, types::U8).bounded()];
    let bounded = Shape::from_dims(&[Dim::UpTo(5), Dim::Fixed(0)]).unwrap();
    let kernel = Bench::kernel(KernelDef::new::<AgainDsp>("Again", V68).ports(RULES));
    let y = kernel.input(quantized([1, 2], 1.0)).output(DType::U8, bounded).one();
    assert_eq!(y.dims(), [3, 0]);
}
