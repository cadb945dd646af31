//! Tests of the ONNX importer, on models that are built from the messages in `proto.rs`.

use std::path::PathBuf;

use prost::Message;
use udo_api::{Bf16, Bool, DType, F16, Shape};

use super::proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, SparseTensorProto, StringStringEntryProto, TensorProto, TypeProto,
    ValueInfoProto,
};
use super::*;
use crate::graph::{Node, NodeReads, Source};
use crate::import::file;
use crate::memory::Tensor;

mod functions;
mod sparse;
mod subgraphs;

const F32: i32 = 1;

fn options() -> ImportOptions {
    ImportOptions::default()
}

impl NodeProto {
    /// Creates a node of ONNX's own domain without a name and attributes.
    fn new(op_type: &str, input: &[&str], output: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
        let (input, output) = (owned(input), owned(output));
        Self { input, output, op_type: op_type.to_owned(), ..Self::default() }
    }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: F32,
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    ValueInfoProto::tensor(name, F32, dims.iter().map(|&d| DimensionProto::fixed(d)).collect())
}

/// Creates a model with all kinds of attributes, dimensions and declarations.
fn small() -> ModelProto {
    let mut conv = NodeProto::new("Conv", &["x", "w", ""], &["h"]);
    conv.attribute = vec![
        AttributeProto::ints("pads", &[1, 1, 1, 1]),
        AttributeProto::text("auto_pad", "NOTSET"),
        AttributeProto::float("beta", 0.5),
    ];
    let mut twist = NodeProto::new("Twist", &["h", "", "c"], &["y", ""]);
    twist.name = "twist".to_owned();
    twist.domain = "com.acme".to_owned();
    twist.attribute = vec![
        AttributeProto::int("k", -3),
        AttributeProto::floats("scales", &[0.5, 2.0]),
        AttributeProto::strings("modes", &["a", "b"]),
        AttributeProto::tensor("table", floats("", &[2], &[1.0, 2.0])),
    ];
    let mut constant = NodeProto::new("Constant", &[], &["c"]);
    constant.attribute = vec![AttributeProto::ints("value_ints", &[5, 6])];
    let x = ["batch", "", "h"].map(DimensionProto::named);
    let graph = GraphProto {
        node: vec![twist, constant, conv],
        name: "main".to_owned(),
        initializer: vec![floats("w", &[1, 2], &[0.25, -1.0])],
        input: vec![ValueInfoProto::tensor("x", F32, x.to_vec()), value("w", &[1, 2])],
        output: vec![value("y", &[1])],
        value_info: vec![value("h", &[1, 2, 3]), value("gone", &[1])],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![
            OperatorSetIdProto::new("ai.onnx", 17),
            OperatorSetIdProto::new("com.acme", 2),
        ],
        ..ModelProto::default()
    }
}

fn read(model: &ModelProto) -> Result<Graph, ImportError> {
    import(&ModelBytes::copy_of(&model.to_bytes()), "small", &options())
}

#[test]
fn a_model_becomes_a_sorted_graph() {
    let expected = r#"graph "small"
  constant w: f32[1,2]{0.25, -1.0}
  input x: f32[batch,?,h]
  constant c: i64[2]{5, 6}
  h: f32[1,2,3] = Conv@17(x, w) pads=[1, 1, 1, 1] auto_pad="NOTSET" beta=0.5 # Conv_2
  y: f32[1] = com.acme:Twist@2(h, _, c) k=-3 scales=[0.5, 2.0] modes=["a", "b"] table=f32[2]{1.0, 2.0} # twist
  output y
  default w: f32[1,2] 1
"#;
    let graph = read(&small()).unwrap();
    assert_eq!(graph.to_string(), expected);
    let w = graph.value_named("w").and_then(|w| graph.constant(w)).unwrap();
    assert_eq!(w.get::<f32>(), Some(&[0.25, -1.0][..]));
    let h = graph.value(graph.value_named("h").unwrap()).unwrap();
    assert_eq!(h.declared.as_ref().map(ToString::to_string).as_deref(), Some("f32[1,2,3]"));
}

#[test]
fn ir_version_1_needs_no_opset_and_no_attribute_types() {
    let mut model = small();
    model.ir_version = 1;
    model.opset_import.clear();
    let graph = model.graph.as_mut().unwrap();
    for node in &mut graph.node {
        node.domain.clear();
        for attribute in &mut node.attribute {
            attribute.r#type = AttributeProto::UNDEFINED;
        }
    }
    let text = read(&model).unwrap().to_string();
    assert!(
        text.contains("h: f32[1,2,3] = Conv@1(x, w) pads=[1, 1, 1, 1] auto_pad=\"NOTSET\""),
        "{text}"
    );
    assert!(text.contains("table=f32[2]"), "{text}");
}

#[test]
fn constant_nodes_may_use_any_value_attribute() {
    let cases = [
        (AttributeProto::tensor("value", floats("", &[1, 1], &[3.0])), "f32[1,1]{3.0}"),
        (AttributeProto::int("value_int", 3), "i64[]{3}"),
        (AttributeProto::ints("value_ints", &[]), "i64[0]"),
        (AttributeProto::float("value_float", 0.1), "f32[]{0.1}"),
        (AttributeProto::floats("value_floats", &[0.1, 0.2]), "f32[2]{0.1, 0.2}"),
    ];
    for (attribute, expected) in cases {
        let mut model = small();
        model.graph.as_mut().unwrap().node[1].attribute = vec![attribute];
        let text = read(&model).unwrap().to_string();
        assert!(text.contains(&format!("  constant c: {expected}\n")), "{text}");
    }
}

/// Inputs with an initializer are constants, unless the options name them and the IR version has defaults.
#[test]
fn inputs_with_an_initializer_become_inputs_on_request() {
    let lines = |ir_version: i64, given: &[&str], kind: &str| {
        let mut model = small();
        model.ir_version = ir_version;
        let given = given.iter().map(|&name| name.to_owned()).collect();
        let options = ImportOptions { given, ..options() };
        let graph = crate::import::bytes(&model.to_bytes(), "small.onnx", &options).unwrap();
        let lines: Vec<_> = graph.to_string().lines().map(|line| line.trim().to_owned()).collect();
        lines.into_iter().filter(|line| line.starts_with(kind)).collect::<Vec<_>>()
    };
    let inputs = |ir_version, given: &[&str]| lines(ir_version, given, "input");
    let defaults = |ir_version| lines(ir_version, &[], "default");
    let (x, w) = ("input x: f32[batch,?,h]", "input w: f32[1,2]");
    assert_eq!(defaults(8), ["default w: f32[1,2] 1"]);
    assert_eq!(defaults(3), Vec::<String>::new());
    assert_eq!(inputs(8, &[]), [x]);
    assert_eq!(inputs(8, &["w", "c", "h", "none"]), [x, w]);
    assert_eq!(inputs(4, &["w"]), [x, w]);
    assert_eq!(inputs(3, &["w"]), [x], "IR version 3 has no defaults");
}

type Break = fn(&mut GraphProto);

/// Checks that each change of [`small`] is refused with an error.
fn refuses(cases: &[(Break, &str)]) {
    for (break_it, expected) in cases {
        let mut model = small();
        break_it(model.graph.as_mut().unwrap());
        assert_eq!(read(&model).unwrap_err().to_string(), *expected);
    }
}

#[test]
fn errors_of_graphs_name_the_place() {
    refuses(&[
        (
            |g| g.node[2].input[0] = "z".to_owned(),
            r#"node "Conv_2" input 0 is value "z", which nothing makes"#,
        ),
        (
            |g| g.node[2].output[0] = "x".to_owned(),
            r#"node "Conv_2": a second value called "x", expected different names"#,
        ),
        (
            |g| g.node[2].input[0] = "y".to_owned(),
            r#"nodes wait for each other: "Conv_2" -> "twist" -> "Conv_2""#,
        ),
        (|g| g.output[0].name.clear(), r#"output 0 is value "", which nothing makes"#),
        (
            |g| g.output.push(value("y", &[])),
            r#"two outputs are called "y", expected different names"#,
        ),
        (
            |g| g.input.push(value("x", &[])),
            r#"input "x": a duplicate input name, expected different names"#,
        ),
        (
            |g| g.initializer.push(floats("w", &[], &[1.0])),
            r#"initializer "w": a second value called "w", expected different names"#,
        ),
        (
            |g| g.input[1] = value("w", &[3, 2]),
            r#"input "w": type f32[3,2], expected its initializer's, f32[1,2]"#,
        ),
        (
            |g| g.input[0].r#type = None,
            r#"input "x": an unknown type or rank is not supported, expected both known"#,
        ),
        (
            |g| {
                let r#type = TypeProto { sequence_type: Some(vec![]), ..TypeProto::default() };
                g.input[0].r#type = Some(r#type);
            },
            r#"input "x": a sequence is not supported, expected a tensor"#,
        ),
        (
            |g| g.value_info[0] = ValueInfoProto::tensor("h", 22, vec![]),
            r#"value "h": element type int4 is not supported, expected a float, an integer of 8 bits or more, or bool"#,
        ),
        (
            |g| g.node[2].attribute[0].r#type = 5,
            r#"node "Conv_2" attribute "pads": no graph, expected a graph"#,
        ),
        (
            |g| g.node[2].attribute[1].name = "pads".to_owned(),
            r#"node "Conv_2": a second attribute "pads", expected different names"#,
        ),
        (
            |g| g.node[2].attribute[1].s = Some(vec![0xff]),
            r#"node "Conv_2" attribute "auto_pad": bytes that are not text, expected UTF-8"#,
        ),
        (
            |g| g.node[1].attribute = vec![AttributeProto::text("value_string", "t")],
            r#"node "Constant_1": attribute "value_string" is not supported, expected one attribute value, sparse_value, value_float(s) or value_int(s)"#,
        ),
        (
            |g| g.node[0].domain = "org.other".to_owned(),
            r#"node "twist": domain "org.other", which the model does not import, expected an opset import for it"#,
        ),
    ]);
}

#[test]
fn errors_of_constants_name_the_constant() {
    refuses(&[
        (
            |g| g.initializer[0].data_type = 8,
            r#"initializer "w": element type string is not supported, expected a float, an integer of 8 bits or more, or bool"#,
        ),
        (
            |g| g.initializer[0].data_type = 99,
            r#"initializer "w": element type 99 is not supported, expected a float, an integer of 8 bits or more, or bool"#,
        ),
        (
            |g| g.initializer[0].dims = vec![i64::MAX, 0, i64::MAX],
            r#"initializer "w": shape [9223372036854775807, 0, 9223372036854775807] is not supported, expected at most 8 dimensions and an addressable size"#,
        ),
        (
            |g| g.initializer[0].dims = vec![-1],
            r#"initializer "w": shape [-1], expected extents that are not negative"#,
        ),
        (
            |g| g.initializer[0].dims = vec![1 << 40],
            r#"initializer "w": 8 bytes, expected 4398046511104 for f32[1099511627776]"#,
        ),
        (
            |g| g.initializer[0].int32_data = vec![1, 2],
            r#"initializer "w": elements in float_data and int32_data, expected f32 in float_data or raw_data"#,
        ),
        (
            |g| g.initializer[0].data_type = 7,
            r#"initializer "w": elements in float_data, expected i64 in int64_data or raw_data"#,
        ),
        (
            |g| g.initializer[0].segment = Some(vec![]),
            r#"initializer "w": a tensor's segment, a sequence or an optional value is not supported, expected a whole tensor"#,
        ),
        (
            |g| g.initializer[0].data_location = 1,
            r#"initializer "w": external location "", expected a file in the model's folder"#,
        ),
        (
            |g| {
                let values = g.initializer.pop();
                g.sparse_initializer = vec![SparseTensorProto { values, ..Default::default() }];
            },
            r#"initializer "w": no indices, expected a tensor"#,
        ),
    ]);
}

#[test]
fn wrong_opset_imports_are_refused() {
    let mut model = small();
    model.opset_import[0].version = 0;
    let expected = r#"opset import "ai.onnx": version 0, expected a positive number"#;
    assert_eq!(read(&model).unwrap_err().to_string(), expected);
    model.opset_import[0].version = 12;
    model.opset_import.push(OperatorSetIdProto::new("", 13));
    let expected = r#"opset import "": a second version 13, expected one version per domain"#;
    assert_eq!(read(&model).unwrap_err().to_string(), expected);
}

#[test]
fn newer_opsets_and_ir_versions_are_refused() {
    let mut model = small();
    model.opset_import[0].version = 27;
    read(&model).unwrap();
    model.opset_import[0].version = 28;
    let expected = "opset import \"ai.onnx\": version 28 is not supported, expected at most 27: export the model for one of these, or convert it with onnx.version_converter";
    assert_eq!(read(&model).unwrap_err().to_string(), expected);
    model.opset_import[0].version = 17;
    model.opset_import[1].version = 1000;
    model.ir_version = 13;
    read(&model).unwrap();
    model.ir_version = 14;
    let expected = "\"small\": format 14 (ir_version) is not supported, expected at most 13: export it with an older release of ONNX";
    assert_eq!(read(&model).unwrap_err().to_string(), expected);
}

#[test]
fn the_domain_of_onnx_runtime_needs_no_import() {
    let mut model = small();
    model.graph.as_mut().unwrap().node[0].domain = "com.microsoft".to_owned();
    let graph = read(&model).unwrap();
    let node = graph.nodes.iter().find(|node| node.name == "twist").unwrap();
    assert_eq!((node.domain.as_str(), node.opset), ("com.microsoft", 1));
}

#[test]
fn bytes_other_than_a_model_are_refused() {
    let refusal = |bytes: &[u8]| {
        import(&ModelBytes::copy_of(bytes), "m.onnx", &options()).unwrap_err().to_string()
    };
    let expected = "\"m.onnx\" is not an ONNX ModelProto, or is truncated: it has no graph";
    assert_eq!(refusal(b""), expected);
    let start = "\"m.onnx\" is not an ONNX ModelProto, or is truncated: ";
    for bytes in [&b"PK\x03\x04 a zip file"[..], b"{\"json\": true}", b"\x93NUMPY"] {
        let error = refusal(bytes);
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn tensors_of_every_type_are_read_back() {
    let line = Shape::new(&[2]).unwrap();
    let tensors = [
        Tensor::from_slice(line, &[0.5f32, f32::NAN]).unwrap(),
        Tensor::from_slice(line, &[0.5f64, -0.0]).unwrap(),
        Tensor::from_slice(line, &[F16::from_f32(0.5), F16::from_f32(-2.0)]).unwrap(),
        Tensor::from_slice(line, &[Bf16::from_f32(0.5), Bf16::from_f32(-2.0)]).unwrap(),
        Tensor::from_slice(line, &[-1i8, 1]).unwrap(),
        Tensor::from_slice(line, &[-1i16, 1]).unwrap(),
        Tensor::from_slice(line, &[-1i32, 1]).unwrap(),
        Tensor::from_slice(line, &[-1i64, 1]).unwrap(),
        Tensor::from_slice(line, &[1u8, 200]).unwrap(),
        Tensor::from_slice(line, &[1u16, 60000]).unwrap(),
        Tensor::from_slice(line, &[1u32, u32::MAX]).unwrap(),
        Tensor::from_slice(line, &[1u64, u64::MAX]).unwrap(),
        Tensor::from_slice(line, &[Bool::from(true), Bool::from(false)]).unwrap(),
        Tensor::from_slice(Shape::SCALAR, &[7i64]).unwrap(),
        Tensor::zeros(DType::F32, Shape::new(&[3, 0]).unwrap()).unwrap(),
    ];
    for tensor in &tensors {
        let actual = tensor_pb(&to_proto(tensor, "t").to_bytes()).unwrap();
        assert_eq!(actual.desc(), tensor.desc());
        assert_eq!(actual.bytes(), tensor.bytes());
    }
}

#[test]
fn narrow_elements_are_read_from_wide_fields() {
    let decode = |dtype: DType, ints: &[i32]| {
        let dims = vec![i64::try_from(ints.len()).unwrap()];
        let (data_type, int32_data) = (dtype.onnx(), ints.to_vec());
        tensor_pb(&TensorProto { dims, data_type, int32_data, ..Default::default() }.to_bytes())
    };
    let get = |dtype, ints: &[i32]| decode(dtype, ints).unwrap().bytes().to_vec();
    assert_eq!(get(DType::I8, &[-1, 127]), [0xff, 0x7f]);
    assert_eq!(get(DType::U8, &[255]), [0xff]);
    assert_eq!(get(DType::I16, &[-2]), [0xfe, 0xff]);
    assert_eq!(get(DType::U16, &[65535]), [0xff, 0xff]);
    assert_eq!(get(DType::F16, &[0x3c00]), [0x00, 0x3c]);
    assert_eq!(get(DType::Bf16, &[0x3f80]), [0x80, 0x3f]);
    assert_eq!(get(DType::Bool, &[0, 7]), [0, 1]);
    let error = decode(DType::I8, &[128]).unwrap_err().to_string();
    assert_eq!(error, "the tensor: element 128, expected an i8");

    let (dims, uint64_data) = (vec![1], vec![1 << 32]);
    let proto = TensorProto { dims, data_type: 12, uint64_data, ..Default::default() };
    let error = tensor_pb(&proto.to_bytes()).unwrap_err().to_string();
    assert_eq!(error, "the tensor: element 4294967296, expected an u32");

    let (dims, raw_data) = (vec![2], vec![0, 9].into());
    let proto = TensorProto { dims, data_type: 9, raw_data, ..Default::default() };
    assert_eq!(tensor_pb(&proto.to_bytes()).unwrap().bytes(), [0, 1]);
}

/// A temporary folder with external data files: `model/w.bin` next to a model, and `secret.bin` outside of its folder.
struct Outside {
    folder: PathBuf,
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ignored = std::fs::remove_dir_all(&self.folder);
    }
}

impl Outside {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("udo-import-{}-{test}", std::process::id()));
        let bytes: Vec<u8> = [9.0f32, 0.25, -1.0].iter().flat_map(|f| f.to_le_bytes()).collect();
        std::fs::create_dir_all(folder.join("model")).unwrap();
        std::fs::write(folder.join("model/w.bin"), &bytes).unwrap();
        std::fs::write(folder.join("secret.bin"), &bytes).unwrap();
        Self { folder }
    }

    /// Imports a model whose initializer `w` has this external location.
    fn read(&self, entries: &[(&str, &str)]) -> Result<Graph, ImportError> {
        let mut model = small();
        let w = &mut model.graph.as_mut().unwrap().initializer[0];
        w.float_data.clear();
        w.data_location = 1;
        let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        w.external_data = entries.iter().map(entry).collect();
        let path = self.folder.join("model/m.onnx");
        std::fs::write(&path, model.to_bytes()).unwrap();
        file(&path, &options())
    }
}

#[test]
fn external_data_is_read_from_the_models_folder() {
    let outside = Outside::new("near");
    let location = [("location", "./w.bin"), ("offset", "4"), ("length", "8"), ("checksum", "?")];
    for entries in [&location[..], &location[..2]] {
        let graph = outside.read(entries).unwrap();
        assert_eq!(graph.name, "m.onnx");
        let w = graph.value_named("w").and_then(|w| graph.constant(w)).unwrap();
        assert_eq!(w.get::<f32>(), Some(&[0.25, -1.0][..]));
    }
}

#[test]
fn aligned_external_data_is_not_copied() {
    let outside = Outside::new("aligned");
    let external = |name: &str, offset: &str| {
        let mut tensor = floats(name, &[16], &[]);
        tensor.data_location = 1;
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        tensor.external_data = vec![entry("location", "w.bin"), entry("offset", offset)];
        tensor
    };
    let initializer = vec![external("a", "64"), external("b", "128"), external("c", "68")];
    let graph = Some(GraphProto { initializer, ..GraphProto::default() });
    let model = ModelProto {
        ir_version: 8,
        graph,
        opset_import: vec![OperatorSetIdProto::new("", 17)],
        ..ModelProto::default()
    };
    let bytes: Vec<u8> = (0u8..48).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    std::fs::write(outside.folder.join("model/w.bin"), &bytes).unwrap();
    let path = outside.folder.join("model/m.onnx");
    std::fs::write(&path, model.to_bytes()).unwrap();
    let graph = file(&path, &options()).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| {
        let tensor = graph.constant(graph.value_named(name).unwrap()).unwrap();
        (tensor.get::<f32>().unwrap()[0].to_bits(), tensor.bytes().as_ptr().addr())
    });
    let (elements, addresses): (Vec<u32>, Vec<usize>) = [a, b, c].into_iter().unzip();
    assert_eq!(elements, [16.0f32, 32.0, 17.0].map(f32::to_bits));
    if cfg!(target_os = "linux") {
        assert_eq!(addresses[1] - addresses[0], 64, "the distance in the file");
    }
    assert!(addresses.iter().all(|address| address.is_multiple_of(64)));
}

#[test]
fn external_data_outside_of_the_folder_is_refused() {
    let outside = Outside::new("far");
    let place = r#"initializer "w": "#;
    let elsewhere = |name: &str| {
        let error = outside.read(&[("location", name), ("offset", "4")]).unwrap_err().to_string();
        let expected = "expected a file in the model's folder";
        assert_eq!(error, format!("{place}external location {name:?}, {expected}"));
    };
    elsewhere("../secret.bin");
    elsewhere("");
    elsewhere(".");
    elsewhere(outside.folder.join("model/w.bin").to_str().unwrap());
    #[cfg(unix)]
    {
        let link = outside.folder.join("model/link.bin");
        std::os::unix::fs::symlink("../secret.bin", link).unwrap();
        elsewhere("link.bin");
    }

    let cases = [
        (("offset", "5"), r#"12 bytes in "w.bin", expected 8 from byte 5"#),
        (
            ("offset", "18446744073709551615"),
            r#"12 bytes in "w.bin", expected 8 from byte 18446744073709551615"#,
        ),
        (("offset", "-1"), r#"external offset "-1", expected a number of bytes"#),
        (("length", "12"), "12 external bytes, expected 8 for f32[1,2]"),
    ];
    for (entry, expected) in cases {
        let error = outside.read(&[("location", "w.bin"), entry]).unwrap_err().to_string();
        assert_eq!(error, format!("{place}{expected}"));
    }
    assert!(matches!(outside.read(&[("location", "no.bin")]), Err(ImportError::Read { .. })));

    let bytes = std::fs::read(outside.folder.join("model/m.onnx")).unwrap();
    let error = import(&ModelBytes::copy_of(&bytes), "m.onnx", &options()).unwrap_err().to_string();
    let expected = "is not supported, expected a model imported from a file";
    assert_eq!(error, format!("{place}external data in \"no.bin\" {expected}"));
}

/// Caches of models store the model and its data file as links into one folder.
#[cfg(unix)]
#[test]
fn data_files_may_be_links_into_the_folder_of_a_linked_model() {
    use std::os::unix::fs::symlink;

    let outside = Outside::new("links");
    outside.read(&[("location", "w.bin"), ("offset", "4")]).unwrap();
    let path = |name: &str| outside.folder.join(name);
    for folder in ["blobs", "blobs/below", "snap/rev/onnx", "other"] {
        std::fs::create_dir_all(path(folder)).unwrap();
    }
    std::fs::rename(path("model/m.onnx"), path("blobs/aaa")).unwrap();
    std::fs::rename(path("model/w.bin"), path("blobs/bbb")).unwrap();
    let link = |to: &str, name: &str| {
        let _ignored = std::fs::remove_file(path(name));
        symlink(to, path(name)).unwrap();
    };
    let read_w = |model: &str| {
        let graph = file(&path(model), &options())?;
        let w = graph.value_named("w").and_then(|w| graph.constant(w)).unwrap();
        Ok::<_, ImportError>(w.get::<f32>().unwrap().to_vec())
    };
    link("../../../blobs/aaa", "snap/rev/onnx/m.onnx");
    link("../../../blobs/bbb", "snap/rev/onnx/w.bin");
    link("snap/rev", "main");
    // The model, a link to its folder, and a link to a link next to the data file.
    link("../main/onnx/m.onnx", "other/m.onnx");
    link("../snap/rev/onnx/w.bin", "other/w.bin");
    for model in ["snap/rev/onnx/m.onnx", "main/onnx/m.onnx", "other/m.onnx"] {
        assert_eq!(read_w(model).unwrap(), [0.25, -1.0], "{model}");
    }
    // Data files are looked for next to the link only, as ONNX Runtime does.
    std::fs::remove_file(path("other/w.bin")).unwrap();
    assert!(
        matches!(read_w("other/m.onnx"), Err(ImportError::Read { path, .. }) if path.ends_with("w.bin"))
    );
    // Links out of both folders are refused, and links into the other folder if the model is not a link.
    let refused = |model: &str| {
        let error = read_w(model).unwrap_err().to_string();
        let expected = "external location \"w.bin\", expected a file in the model's folder";
        assert!(error.ends_with(expected), "{error}");
    };
    link("../secret.bin", "other/w.bin");
    refused("other/m.onnx");
    link("../../../secret.bin", "snap/rev/onnx/w.bin");
    refused("snap/rev/onnx/m.onnx");
    std::fs::copy(path("blobs/aaa"), path("model/m.onnx")).unwrap();
    link("../blobs/bbb", "model/w.bin");
    refused("model/m.onnx");
}

/// Returns the number of bytes of all constants and names in a graph and its subgraphs.
fn graph_bytes(graph: &Graph) -> usize {
    let constant_bytes = |source: &Source| match source {
        Source::Constant(tensor) => tensor.bytes().len(),
        Source::Input(_) | Source::Computed | Source::Outer => 0,
    };
    let subgraphs = graph.nodes.iter().flat_map(Node::subgraphs);
    let in_subgraphs: usize = subgraphs.map(|subgraph| graph_bytes(subgraph.graph)).sum();
    let value_bytes = graph.values.iter().map(|v| constant_bytes(&v.source) + v.name.len());
    in_subgraphs + value_bytes.sum::<usize>()
}

/// Imports truncated and randomly changed copies of a valid file.
fn break_all(good: &[u8]) {
    let check = |bytes: &[u8]| {
        if let Ok(graph) = import(&ModelBytes::copy_of(bytes), "m", &options()) {
            // One byte of a packed list can stand for an element of eight.
            assert!(graph_bytes(&graph) <= 8 * bytes.len());
            assert_eq!(graph.verify(), Ok(()));
            assert!(!graph.to_string().is_empty());
        }
    };
    for end in 0..good.len() {
        check(&good[..end]);
    }
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..20_000 {
        let mut bad = good.to_vec();
        for _ in 0..=next(3) {
            let offset = next(bad.len());
            match next(4) {
                0 => bad[offset] = u8::try_from(next(256)).unwrap(),
                1 => bad[offset] ^= 1 << next(8),
                2 => drop(bad.remove(offset)),
                _ => bad.insert(offset, [0x00, 0xff, 0x7f, 0x80][next(4)]),
            }
        }
        check(&bad);
    }
}

#[test]
fn broken_files_never_panic_or_use_much_memory() {
    break_all(&small().to_bytes());
}

#[test]
fn broken_tensor_files_never_panic() {
    let good = Tensor::zeros(DType::I16, Shape::new(&[2, 3]).unwrap()).unwrap();
    let good = to_proto(&good, "t").to_bytes();
    for end in 0..good.len() {
        assert!(tensor_pb(&good[..end]).is_err(), "cut at {end}");
    }
    for offset in 0..good.len() {
        for byte in 0..=u8::MAX {
            let mut bad = good.clone();
            bad[offset] = byte;
            if let Ok(tensor) = tensor_pb(&bad) {
                assert!(tensor.bytes().len() <= 8 * bad.len());
            }
        }
    }
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = small().to_bytes();
    // Field 6, the documentation, with bytes that are not UTF-8, and an unknown field.
    bytes.extend([0x32, 2, 0xff, 0xfe, 0xfa, 0x3e, 1, 0]);
    let graph = import(&ModelBytes::copy_of(&bytes), "small", &options()).unwrap();
    assert_eq!(graph.to_string(), read(&small()).unwrap().to_string());
    assert_eq!(ModelProto::decode(&bytes[..]).unwrap(), small());
}
