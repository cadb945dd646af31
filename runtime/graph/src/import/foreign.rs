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

/// A zip archive with `data.pkl` inside, or a bare pickle as older releases wrote.
fn is_pytorch(bytes: &[u8]) -> bool {
    const PICKLED: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    bytes.starts_with(PICKLED) || is_zip(bytes) && contains(bytes, b"data.pkl")
}

fn is_keras(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89HDF\r\n\x1a\n") || is_zip(bytes) && contains(bytes, b"model.weights.h5")
}

fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

/// Whether the first or last 64 KiB of a zip archive, where its entries' names are, contain
/// `words`.
fn contains(bytes: &[u8], words: &[u8]) -> bool {
    const ENDS: usize = 1 << 16;
    let head = bytes.get(..ENDS.min(bytes.len())).unwrap_or_default();
    let tail = bytes.get(bytes.len().saturating_sub(ENDS)..).unwrap_or_default();
    [head, tail].iter().any(|part| part.windows(words.len()).any(|at| at == words))
}

/// Reads one protobuf field: its key, its bytes (empty for a varint) and the bytes after it.
fn field(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (key, rest) = varint(bytes)?;
    let wire_type = key % 8;
    if wire_type == 0 {
        let (_, rest) = varint(rest)?;
        return Some((key, &[], rest));
    }
    let (len, rest) = varint(rest).filter(|_| wire_type == 2)?;
    let (own, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    Some((key, own, rest))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().take(9).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((number, bytes.get(at + 1..)?));
        }
    }
    None
}

fn is_words(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

const FIRST: u64 = 1 << 3 | 2;
const SECOND: u64 = 2 << 3 | 2;

/// A `SavedModel` message: a version, then a `MetaGraphDef` whose first field is a message. The
/// same field of an ONNX file is the producer's name.
fn is_saved_model(bytes: &[u8]) -> bool {
    let graph = || {
        let (key, _, rest) = field(bytes).filter(|(key, ..)| *key == 1 << 3)?;
        let (second, graph, _) = field(rest)?;
        let (first, about, _) = field(graph)?;
        Some(key == 1 << 3 && second == SECOND && first == FIRST && !is_words(about))
    };
    graph() == Some(true)
}

/// A `GraphDef` message: its first field is a node with a name and an operator.
fn is_graph_def(bytes: &[u8]) -> bool {
    let node = || {
        let (key, node, _) = field(bytes)?;
        let (first, name, rest) = field(node)?;
        let (second, op, _) = field(rest)?;
        Some(key == FIRST && first == FIRST && second == SECOND && is_words(name) && is_words(op))
    };
    node() == Some(true)
}

/// A `NetParameter` message or its text format: a name and layers.
fn is_caffe(bytes: &[u8]) -> bool {
    const LAYER: u64 = 100 << 3 | 2;
    let message = || {
        let (key, name, rest) = field(bytes)?;
        let (next, ..) = field(rest)?;
        Some(key == FIRST && is_words(name) && (next == LAYER || next == SECOND))
    };
    let text = || {
        let head = bytes.get(..bytes.len().min(1 << 14))?;
        let end = head.iter().rposition(|&byte| byte == b'\n').unwrap_or(head.len());
        let text = std::str::from_utf8(head.get(..end)?).ok()?;
        let starts = |line: &str, words: &[&str]| words.iter().any(|word| line.starts_with(word));
        let mut lines = text.lines().map(str::trim);
        let begins = lines.clone().find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let layers = ["layer {", "layers {", "layer{", "layers{"];
        let opens = starts(begins, &["name:", "input:", "input_shape"]) || starts(begins, &layers);
        Some(opens && lines.any(|line| starts(line, &layers)))
    };
    message() == Some(true) || text() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{ImportOptions, bytes};

    fn message(number: u8, of: &[u8]) -> Vec<u8> {
        let mut all = vec![number << 3 | 2, u8::try_from(of.len()).unwrap()];
        all.extend(of);
        all
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
        for (of, name, tool) in cases {
            // Whatever the file is called.
            for called in ["m", "m.onnx", "m.udm", "m.pt"] {
                let error = bytes(of, called, &ImportOptions::default()).unwrap_err().to_string();
                let expected =
                    format!("{called:?}: {name} is not supported, expected an ONNX file: ");
                assert!(error.starts_with(&expected) && error.contains(tool), "{error}");
            }
        }
    }

    #[test]
    fn what_only_looks_so_is_none_of_them() {
        let producer = [&[8, 8][..], &message(2, b"pytorch")].concat();
        let cut = message(1, &message(1, b"x"));
        let cases: [&[u8]; 6] =
            [b"", b"PK\x03\x04", &producer, &cut, b"graph \"layer {\"\n  layer {", &[0xff; 20]];
        for of in cases {
            assert!(refuse(of, "m").is_ok(), "{of:?}");
        }
    }
}
