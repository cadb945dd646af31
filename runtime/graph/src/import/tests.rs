//! Tests of the choice of an importer.

use super::onnx::proto::{GraphProto, ModelProto};
use super::*;
use crate::container::{Contents, Network, Provenance, Stage, StoredGraph};

fn model() -> Vec<u8> {
    let graph = Some(GraphProto::default());
    ModelProto { ir_version: 8, graph, ..ModelProto::default() }.to_bytes()
}

/// Returns the error of an import of these bytes.
fn refusal(content: &[u8], name: &str) -> String {
    bytes(content, name, &ImportOptions::default()).unwrap_err().to_string()
}

#[test]
fn the_format_follows_from_the_suffix_or_else_from_the_bytes() {
    for name in ["m.onnx", "M.ONNX", "m", "m.bin", "onnx"] {
        let graph = bytes(&model(), name, &ImportOptions::default()).unwrap();
        assert_eq!(graph.name, name);
    }
    let no_model = "is not an ONNX ModelProto, or is truncated: it has no graph";
    assert_eq!(refusal(b"", "m.onnx"), format!("\"m.onnx\" {no_model}"));
}

#[test]
fn an_unknown_file_is_refused_with_the_known_formats() {
    for (content, name) in [(&b""[..], "m"), (b"PK\x03\x04", "m.zip"), (b"\x08\x00", ".onnx")] {
        let expected = format!(
            "{name:?} has an unknown format, expected one of ONNX (.onnx), model file (.udm), text (.graph)"
        );
        assert_eq!(refusal(content, name), expected);
    }
    let path = std::env::temp_dir().join(format!("udo-format-{}.txt", std::process::id()));
    std::fs::write(&path, "a text").unwrap();
    let error = file(&path, &ImportOptions::default()).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(matches!(error, ImportError::UnknownFormat { name: found } if found == name));
    assert!(matches!(file(&path, &ImportOptions::default()), Err(ImportError::Read { .. })));
}

#[test]
fn a_printed_graph_can_be_imported() {
    let text =
        "graph \"small\"\n  input x: f32[n,2]\n  y: f32[n,2] = Relu@17(x) # act\n  output y\n";
    for name in ["m.graph", "m", "m.txt"] {
        let graph = bytes(text.as_bytes(), name, &ImportOptions::default()).unwrap();
        assert_eq!(graph.to_string(), text);
    }
    let cases: [(&[u8], &str); 4] = [
        (b"graph g\n  input x: f32[2\n", "\"m.graph\", line 2: \"\", expected \"]\""),
        (
            b"\xff",
            "\"m.graph\" is not a graph in UTF-8, or is truncated: invalid utf-8 sequence of 1 bytes from index 0",
        ),
        (b"graph g\n  output y\n", "output 0 is value \"y\", which nothing makes"),
        (
            b"graph g\n  constant w: f32[99999999999]{1.0}\n",
            "\"m.graph\", line 2: \"\", expected up to 16777216 elements that are the same",
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(refusal(content, "m.graph"), expected);
    }
}

#[test]
fn names_and_suffixes_of_formats_are_unique() {
    let mut seen = std::collections::BTreeSet::new();
    for importer in IMPORTERS {
        assert!(seen.insert(importer.name.to_owned()), "{}", importer.name);
        assert!(!importer.suffixes.is_empty(), "{}", importer.name);
        for suffix in importer.suffixes {
            assert!(seen.insert(format!(".{}", suffix.to_lowercase())), "{suffix}");
        }
    }
}

#[test]
fn a_copied_file_may_change_after_the_import() {
    let text = "graph \"small\"\n  constant w: f32[40]{0.5}\n  output w\n";
    let graph = Graph::parse(text).unwrap();
    let networks = vec![Network {
        name: "small".to_owned(),
        stages: vec![Stage {
            shapes: std::collections::BTreeMap::new(),
            source: Provenance::default(),
            graph: StoredGraph::new(graph),
        }],
    }];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    Contents { networks, sections: Vec::new() }.write(&path).unwrap();
    let options = ImportOptions { reading: Reading::Copied, ..ImportOptions::default() };
    let graph = file(&path, &options).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3).unwrap();
    let elements = graph.constant(graph.outputs[0]).and_then(|tensor| tensor.get::<f32>());
    assert_eq!(elements, Some(&[0.5; 40][..]));
    let error = file(&path, &options).unwrap_err().to_string();
    let expected =
        "it is not a safetensors file, or is truncated: it has 3 bytes, expected at least 8";
    assert_eq!(error, format!("\"m.udm\": {expected}"));
    let options = ImportOptions { network: Some("none".to_owned()), ..ImportOptions::default() };
    let error = file(folder.path(), &options).unwrap_err();
    assert!(matches!(error, ImportError::Read { .. }));
}
