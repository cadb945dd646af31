//! Computes the digest that ties a program to the nodes, weights and encodings that it was compiled from. `install`
//! accepts a program only if its digest still matches the model.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::piece::Piece;
use super::record::Port;
use udo_graph::graph::{Attr, Source, ValueId};
use udo_graph::memory::{Tensor, TensorStorage};

/// Returns the SHA-256 digest, in hexadecimal digits, of a part, its target and its program. It ignores the names of
/// values: a value is identified by its first occurrence.
pub(super) fn digest(
    piece: &Piece,
    (soc, stage): (&str, usize),
    ports: [&[Port]; 2],
    program: &[u8],
) -> String {
    let mut hash = Sha256::new();
    let [inputs, outputs] = ports.map(<[Port]>::len);
    let version = udo_hta::VERSION;
    let mut text = format!("udo.hta {version} {soc} {stage} {inputs} {outputs}");
    for port in ports.concat() {
        let _ = write!(text, "; {port:?}");
    }
    let mut numbers = vec![None; piece.graph.values.len()];
    let mut count = 0usize;
    // Appends the number of a value, and returns whether this is its first occurrence.
    let mut push_value = |text: &mut String, id: Option<ValueId>| {
        let Some(id) = id else {
            text.push_str(" -");
            return false;
        };
        let Some(slot) = numbers.get_mut(id.index()) else { return false };
        let is_new = slot.is_none();
        let number = *slot.get_or_insert_with(|| {
            count += 1;
            count
        });
        let _ = write!(text, " {number}");
        is_new
    };
    for &input in &piece.graph.inputs {
        push_value(&mut text, Some(input));
    }
    for node in &piece.graph.nodes {
        let _ = write!(text, "\n{}:{}@{}", node.domain, node.op, node.opset);
        for &input in &node.inputs {
            let is_new = push_value(&mut text, input);
            let value = input.filter(|_| is_new).and_then(|id| piece.graph.value(id).ok());
            if let Some(Source::Constant(tensor)) = value.map(|value| &value.source) {
                hash_tensor(&mut hash, &mut text, tensor);
            }
        }
        text.push_str(" ->");
        for &output in &node.outputs {
            push_value(&mut text, output);
        }
        for (name, attr) in &node.attrs {
            let _ = write!(text, " {name:?}={attr}");
            if let Attr::Tensor(tensor) = attr {
                hash_tensor(&mut hash, &mut text, tensor);
            }
        }
    }
    for &output in &piece.graph.outputs {
        push_value(&mut text, Some(output));
    }
    hash.update(text.len().to_le_bytes());
    hash.update(&text);
    hash.update(program);
    let mut digits = String::new();
    for byte in hash.finalize() {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Hashes the text so far and a tensor, each after its length so that their boundary is unambiguous. Clears the text.
fn hash_tensor(hash: &mut Sha256, text: &mut String, tensor: &Tensor) {
    let _ = write!(text, " {}", tensor.desc());
    for bytes in [text.as_bytes(), tensor.stored()] {
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    }
    text.clear();
}
