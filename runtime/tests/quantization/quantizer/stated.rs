//! Ranges and encodings that the user says something of.

use udo_api::DType;
use udo_runtime::graph::Graph;
use udo_runtime::quant::{Encodings, Quantizer, Settings};
use udo_runtime::{CompileOptions, Tensor};

/// The minimum width of ranges in SNPE.
const WIDTH: f64 = 0.01;
use udo_runtime::Runtime;
use udo_runtime::compile::BindOptions;

use super::{Numbers, quantize, refusal};

const NET: &str = "graph net
  input x: f32[1,2,4,4]
  constant w: f32[3,2,1,1]{0.5,-0.25, 1.0,0.75, -0.5,0.125}
  constant b: f32[3]{0.1,-0.1,0.2}
  constant gain: f32[3]{1.0,2.0,0.5}
  constant zero: f32[3]{0.0}
  constant one: f32[3]{1.0}
  c = Conv@17(x, w, b) # conv
  n = BatchNormalization@17(c, gain, zero, zero, one) # norm
  r = Relu@17(n) # relu
  d = Dropout@17(r) # copy
  y = Sigmoid@17(d) # gate
  output y
";

fn sets(scale: f32) -> Vec<Vec<(String, Tensor)>> {
    let set = |seed| vec![("x".to_owned(), Numbers::new(seed).tensor(&[1, 2, 4, 4], scale))];
    (1..=3).map(set).collect()
}

fn settings(text: &str) -> Settings {
    Settings { encodings: text.parse::<Encodings>().unwrap(), ..Settings::default() }
}

#[test]
fn ranges_below_the_least_width_are_reported_with_their_loss() {
    let text = "graph g\n  input x: f32[1,2,4,4]\n  constant w: f32[3,2,1,1]{0.5,-0.25, 1.0,0.75, -0.5,0.125}\n  \
                y = Conv@17(x, w)\n  output y\n";
    let graph = Graph::parse(text).unwrap();
    let wide = || Settings { least_width: WIDTH, ..Settings::default() };
    for (scale, least, most) in [(1e-6, -0.1, 0.1), (1e-4, 5.0, 25.0), (1e-3, 20.0, 40.0)] {
        let (quantized, decibels) = quantize(&graph, wide(), &sets(scale));
        let narrow: Vec<&str> = quantized.narrow.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(narrow, ["x", "y"], "{scale}");
        for of in &quantized.narrow {
            assert!(of.width < WIDTH && of.width > f64::from(scale), "{of:?}");
            assert!((least..most).contains(&of.decibels), "{of:?}");
        }
        let told = quantized.narrow.iter().find(|of| of.name == "y").unwrap().decibels;
        // The ratio of the result has that of its operand in it.
        assert!(decibels < told + 1.0, "{decibels} dB, told {told}");
        let (quantized, decibels) = quantize(&graph, Settings::default(), &sets(scale));
        assert!(quantized.narrow.is_empty() && decibels > 30.0, "{scale}: {decibels} dB");
    }
    let (quantized, _) = quantize(&graph, wide(), &sets(1.0));
    assert!(quantized.narrow.is_empty(), "{:?}", quantized.narrow);
    let (quantized, _) = quantize(&graph, wide(), &sets(0.0));
    assert!(quantized.narrow.is_empty(), "of zeros nothing is lost: {:?}", quantized.narrow);
    // Weights of one scale have a range as values do.
    let small =
        text.replace("{0.5,-0.25, 1.0,0.75, -0.5,0.125}", "{5e-6,-2e-6,1e-6,7e-6,-5e-6,1e-6}");
    let (quantized, _) = quantize(&Graph::parse(&small).unwrap(), wide(), &sets(1.0));
    assert!(quantized.narrow.iter().any(|of| of.name == "w"), "{:?}", quantized.narrow);
}

#[test]
fn encodings_for_names_that_the_model_lacks_are_refused() {
    let text = r#"{"activation_encodings": {"x": [{"bitwidth": 8, "min": -1, "max": 1}], "lost": [{"bitwidth": 8, "min": -1, "max": 1}]},
                   "param_encodings": {"none": [{"bitwidth": 8, "min": -1, "max": 1}]}}"#;
    let said = refusal(Graph::parse(NET).unwrap(), settings(text));
    assert_eq!(said, "encodings are given for [\"lost\", \"none\"], which the model does not have");
}

#[test]
fn encodings_that_have_no_say_are_told() {
    let one = r#"[{"bitwidth": 8, "min": -1.0, "max": 1.5}]"#;
    let text = format!(
        r#"{{"activation_encodings": {{"x": {one}, "c": {one}, "n": {one}, "r": {one}, "d": {one}, "y": {one}}},
            "param_encodings": {{"w": {one}, "b": {one}, "gain": {one}}}}}"#
    );
    let (quantized, _) = quantize(&Graph::parse(NET).unwrap(), settings(&text), &sets(1.0));
    let told: Vec<(&str, &str)> =
        quantized.unused.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    let names: Vec<&str> = told.iter().map(|(name, _)| *name).collect();
    // A normalization is folded into the convolution, whose result the Relu cuts off, and a copy is what it copies.
    assert_eq!(names, ["b", "c", "d", "gain", "n"], "{told:?}");
    assert!(told[0].1.contains("scale of their products"), "{told:?}");
    let used = quantized.encoded.iter().find(|of| of.name == "x").unwrap();
    assert!((f64::from(used.encodings[0].scale) - 2.5 / 255.0).abs() < 1e-8, "{used:?}");
    let (quantized, _) = quantize(&Graph::parse(NET).unwrap(), Settings::default(), &sets(1.0));
    assert!(quantized.unused.is_empty());
}

#[test]
fn encodings_in_onnx_terms_are_those_of_values_and_constants() {
    let text = r#"{"version": "2.0.0", "encodings": [
        {"name": "x", "output_dtype": "uint8", "y_scale": 0.0125, "y_zero_point": 130},
        {"name": "y", "output_dtype": "int8", "y_scale": 0.01, "y_zero_point": -28},
        {"name": "w", "output_dtype": "int8", "y_scale": [0.004, 0.008, 0.006], "axis": 0}]}"#;
    let (quantized, decibels) = quantize(&Graph::parse(NET).unwrap(), settings(text), &sets(1.0));
    assert!(decibels > 20.0, "{decibels} dB");
    let of = |name: &str| {
        let of = quantized.encoded.iter().find(|of| of.name == name).unwrap();
        let pairs = of.encodings.iter().map(|encoding| (encoding.scale, encoding.zero_point));
        (of.levels.dtype, pairs.collect::<Vec<_>>())
    };
    assert_eq!(of("x"), (DType::U8, vec![(0.0125, 130)]));
    assert_eq!(of("y"), (DType::U8, vec![(0.01, 100)]), "values are stored from 0 on");
    assert_eq!(of("w"), (DType::I8, vec![(0.004, 0), (0.008, 0), (0.006, 0)]));
    assert!(quantized.unused.is_empty(), "{:?}", quantized.unused);
}

#[test]
fn encodings_along_another_axis_are_refused() {
    let text = r#"{"version": "2.0.0", "encodings": [{"name": "w", "output_dtype": "int8", "y_scale": [0.01, 0.02], "axis": 1}]}"#;
    let runtime = Runtime::new().unwrap();
    let bind = BindOptions::default();
    let graph = Graph::parse(NET).unwrap();
    let source = Quantizer::new(graph, &runtime, &bind, settings(text)).unwrap();
    let mut calibration = source.calibration(&runtime, &CompileOptions::default()).unwrap();
    calibration.add(&sets(1.0)[0]).unwrap();
    let said = source.finish(&calibration).unwrap_err().to_string();
    assert!(
        said.starts_with(
            "value \"w\" is given encodings along axis 1, expected 1, or those along axis 0"
        ),
        "{said}"
    );
}

#[test]
fn a_wrong_file_in_onnx_terms_is_refused_with_the_name() {
    let cases = [
        (r#"{"output_dtype": "uint8", "y_scale": 1.0}"#, "encodings[0]: found no name"),
        (
            r#"{"name": "x", "output_dtype": "int32", "y_scale": 1.0}"#,
            "encodings[0] \"x\": found output_dtype int32",
        ),
        (r#"{"name": "x", "output_dtype": "uint8"}"#, "encodings[0] \"x\": found no y_scale"),
        (
            r#"{"name": "x", "output_dtype": "uint8", "y_scale": 0.0}"#,
            "encodings[0] \"x\": found y_scale 0 and y_zero_point 0",
        ),
        (
            r#"{"name": "x", "output_dtype": "uint8", "y_scale": 1.0, "y_zero_point": 300}"#,
            "encodings[0] \"x\": found y_scale 1 and",
        ),
        (
            r#"{"name": "x", "output_dtype": "int8", "y_scale": 1.0, "y_zero_point": 1.5}"#,
            "encodings[0] \"x\": found y_scale 1 and",
        ),
        (
            r#"{"name": "x", "output_dtype": "int8", "y_scale": [1.0, 2.0], "y_zero_point": 1}"#,
            "encodings[0] \"x\": found 2 scales and 1",
        ),
        (
            r#"{"name": "x", "output_dtype": "int4", "y_scale": [1.0], "block_size": 32}"#,
            "encodings[0] \"x\": found block_size",
        ),
    ];
    for (member, wanted) in cases {
        let text = format!(r#"{{"version": "2.0.0", "encodings": [{member}]}}"#);
        let found = text.parse::<Encodings>().unwrap_err().to_string();
        assert!(found.starts_with(wanted), "{found}");
    }
    let text = r#"{"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "float16"}]}"#;
    assert_eq!(text.parse::<Encodings>().unwrap(), Encodings::default(), "it stays floating-point");
}
