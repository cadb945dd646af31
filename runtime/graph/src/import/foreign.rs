//! Recognizes models of other tools by their bytes, and names the tool that converts each to ONNX.

use std::path::Path;

use super::ImportError;

/// A model format of another tool.
struct Foreign {
    /// The name of the format, for messages.
    name: &'static str,
    /// Returns whether bytes are of this format.
    matches: fn(&[u8]) -> bool,
    /// The command or function that converts a model to ONNX.
    tool: &'static str,
}

const FOREIGN: &[Foreign] = &[
    Foreign { name: "a TensorFlow Lite model", matches: is_tflite, tool: TF2ONNX_LITE },
    Foreign { name: "a PyTorch file", matches: is_pytorch, tool: TORCH },
    Foreign { name: "a Keras model", matches: is_keras, tool: TF2ONNX_KERAS },
    Foreign { name: "a TensorFlow SavedModel", matches: is_saved_model, tool: TF2ONNX_SAVED },
    Foreign { name: "a TensorFlow graph", matches: is_graph_def, tool: TF2ONNX_GRAPH },
    Foreign { name: "a Caffe network", matches: is_caffe, tool: CAFFE },
];

const TF2ONNX_LITE: &str = "`python -m tf2onnx.convert --tflite MODEL.tflite --output MODEL.onnx`";
const TF2ONNX_KERAS: &str = "`tf2onnx.convert.from_keras` in Python";
const TF2ONNX_SAVED: &str = "`python -m tf2onnx.convert --saved-model FOLDER --output MODEL.onnx`";
const TF2ONNX_GRAPH: &str =
    "`python -m tf2onnx.convert --graphdef GRAPH.pb --inputs .. --outputs .. --output MODEL.onnx`";
const TORCH: &str = "`torch.onnx.export` in Python";
const CAFFE: &str =
    "`python -m caffe2onnx.convert --prototxt NET.prototxt --caffemodel NET.caffemodel`";

/// Refuses bytes in the format of another tool.
pub(super) fn refuse(bytes: &[u8], name: &str) -> Result<(), ImportError> {
    let Some(format) = FOREIGN.iter().find(|format| (format.matches)(bytes)) else { return Ok(()) };
    let expected = format!("an ONNX file: convert the model with {}", format.tool);
    Err(ImportError::unsupported(format_args!("{name:?}"), format.name, expected))
}

/// Refuses a folder that holds a TensorFlow `SavedModel`.
pub(super) fn refuse_folder(path: &Path) -> Result<(), ImportError> {
    if !path.join("saved_model.pb").is_file() {
        return Ok(());
    }
    let (found, expected) = (
        "a TensorFlow SavedModel",
        format!("an ONNX file: convert the model with {TF2ONNX_SAVED}"),
    );
    Err(ImportError::unsupported(format_args!("{}", path.display()), found, expected))
}

fn is_tflite(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(b"TFL3")
}

/// Whether bytes are a `PyTorch` file: a zip archive with `data.pkl` inside, or a bare pickle as releases before 1.6 wrote.
fn is_pytorch(bytes: &[u8]) -> bool {
    // A pickle of protocol 2 that starts with PyTorch's magic number, 0x1950a86a20f9469cfc6c.
    const PICKLED: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    bytes.starts_with(PICKLED) || is_zip(bytes) && contains(bytes, b"data.pkl")
}

fn is_keras(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89HDF\r\n\x1a\n") || is_zip(bytes) && contains(bytes, b"model.weights.h5")
}

fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

/// Whether a zip archive contains `text` in its first or last 64 KiB, where the names of its entries are.
fn contains(bytes: &[u8], text: &[u8]) -> bool {
    const SEARCHED_BYTES: usize = 1 << 16;
    let start = bytes.get(..SEARCHED_BYTES.min(bytes.len())).unwrap_or_default();
    let end = bytes.get(bytes.len().saturating_sub(SEARCHED_BYTES)..).unwrap_or_default();
    [start, end].iter().any(|part| part.windows(text.len()).any(|window| window == text))
}

/// Reads one protobuf field: its key, its bytes (empty for a varint) and the bytes after it. A key is `number * 8 + type`;
/// type 0 is a varint, type 2 is a length and bytes.
fn field(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (key, rest) = varint(bytes)?;
    let wire_type = key % 8;
    if wire_type == 0 {
        let (_, rest) = varint(rest)?;
        return Some((key, &[], rest));
    }
    let (len, rest) = varint(rest).filter(|_| wire_type == 2)?;
    let (content, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    Some((key, content, rest))
}

/// Reads a number of protobuf: 7 bits per byte, the lowest first; the top bit of a byte means that another one follows.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().take(9).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

/// Whether bytes are printable ASCII text.
fn is_printable(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// The keys of protobuf fields 1 and 2 with bytes, and of field 1 with a varint.
const FIRST: u64 = 1 << 3 | 2;
const SECOND: u64 = 2 << 3 | 2;
const FIRST_VARINT: u64 = 1 << 3;

/// Whether bytes are a `SavedModel` message: a version, then a `MetaGraphDef` whose first field is a message. Field 2 of an
/// ONNX file is the producer's name.
fn is_saved_model(bytes: &[u8]) -> bool {
    let graph = || {
        let (_, _, rest) = field(bytes).filter(|(key, ..)| *key == FIRST_VARINT)?;
        let (graph_key, graph, _) = field(rest)?;
        let (meta_info_key, meta_info, _) = field(graph)?;
        Some(graph_key == SECOND && meta_info_key == FIRST && !is_printable(meta_info))
    };
    graph() == Some(true)
}

/// Whether bytes are a `GraphDef` message: its first field is a node with a name and an operator.
fn is_graph_def(bytes: &[u8]) -> bool {
    let node = || {
        let (key, node, _) = field(bytes)?;
        let (name_key, name, rest) = field(node)?;
        let (op_key, op, _) = field(rest)?;
        let has_keys = key == FIRST && name_key == FIRST && op_key == SECOND;
        Some(has_keys && is_printable(name) && is_printable(op))
    };
    node() == Some(true)
}

/// Whether bytes are a `NetParameter` message of Caffe or its text format: a name and layers. Layers are field 100, or
/// field 2 in older files.
fn is_caffe(bytes: &[u8]) -> bool {
    const LAYER: u64 = 100 << 3 | 2;
    let message = || {
        let (key, name, rest) = field(bytes)?;
        let (next_key, ..) = field(rest)?;
        let is_layer = next_key == LAYER || next_key == SECOND;
        Some(key == FIRST && is_printable(name) && is_layer)
    };
    let text = || {
        // The whole lines of the first 16 KiB.
        let start = bytes.get(..bytes.len().min(1 << 14))?;
        let end = start.iter().rposition(|&byte| byte == b'\n').unwrap_or(start.len());
        let text = std::str::from_utf8(start.get(..end)?).ok()?;
        let starts = |line: &str, words: &[&str]| words.iter().any(|word| line.starts_with(word));
        let mut lines = text.lines().map(str::trim);
        let first = lines.clone().find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let layers = ["layer {", "layers {", "layer{", "layers{"];
        let is_start = starts(first, &["name:", "input:", "input_shape"]) || starts(first, &layers);
        Some(is_start && lines.any(|line| starts(line, &layers)))
    };
    message() == Some(true) || text() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{ImportOptions, bytes};

    /// Encodes a protobuf field of bytes.
    fn message(number: u8, content: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        field.extend(content);
        field
    }

    #[test]
    fn files_of_other_tools_are_refused_by_name() {
        let node = [message(1, b"x"), message(2, b"Placeholder")].concat();
        let saved = [&[8, 1][..], &message(2, &message(1, &[8, 1]))].concat();
        let caffe = [message(1, b"net"), vec![0xa2, 6, 0]].concat();
        let old_caffe = [message(1, b"net"), message(2, b"")].concat();
        let cases: [(&[u8], &str, &str); 11] = [
            (b"\x1c\0\0\0TFL3\0\0", "a TensorFlow Lite model", "--tflite"),
            (b"PK\x03\x04..archive/data.pkl..", "a PyTorch file", "torch.onnx.export"),
            (
                b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                "a PyTorch file",
                "torch",
            ),
            (b"\x89HDF\r\n\x1a\n..", "a Keras model", "from_keras"),
            (b"PK\x03\x04..model.weights.h5..", "a Keras model", "from_keras"),
            (&saved, "a TensorFlow SavedModel", "--saved-model"),
            (&message(1, &node), "a TensorFlow graph", "--graphdef"),
            (&caffe, "a Caffe network", "caffe2onnx"),
            (&old_caffe, "a Caffe network", "caffe2onnx"),
            (b"# a net\nname: \"net\"\nlayer {\n}\n", "a Caffe network", "caffe2onnx"),
            (b"layers{\n}\n", "a Caffe network", "caffe2onnx"),
        ];
        for (content, format, tool) in cases {
            // The name of the file does not matter.
            for name in ["m", "m.onnx", "m.udm", "m.pt"] {
                let error =
                    bytes(content, name, &ImportOptions::default()).unwrap_err().to_string();
                let expected =
                    format!("{name:?}: {format} is not supported, expected an ONNX file: ");
                assert!(error.starts_with(&expected) && error.contains(tool), "{error}");
            }
        }
    }

    #[test]
    fn similar_bytes_are_not_refused() {
        let onnx = [&[8, 8][..], &message(2, b"pytorch")].concat();
        let incomplete = message(1, &message(1, b"x"));
        let printed_graph = b"graph \"layer {\"\n  layer {";
        let cases: [&[u8]; 6] =
            [b"", b"PK\x03\x04", &onnx, &incomplete, printed_graph, &[0xff; 20]];
        for content in cases {
            assert!(refuse(content, "m").is_ok(), "{content:?}");
        }
    }
}
