//! The digest that ties a program to the nodes, weights and encodings that it was compiled from.

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
    let mut sum = Sha256::new();
    let [inputs, outputs] = ports.map(<[Port]>::len);
    let version = udo_hta::VERSION;
    let mut text = format!("udo.hta {version} {soc} {stage} {inputs} {outputs}");
    for port in ports.concat() {
        let _ = write!(text, "; {port:?}");
    }
    let mut places = vec![None; piece.graph.values.len()];
    let mut count = 0usize;
    let mut place = |text: &mut String, id: Option<ValueId>| {
        let Some(id) = id else {
            text.push_str(" -");
            return false;
        };
        let Some(slot) = places.get_mut(id.index()) else { return false };
        let is_new = slot.is_none();
        let at = *slot.get_or_insert_with(|| {
            count += 1;
            count
        });
        let _ = write!(text, " {at}");
        is_new
    };
    for &input in &piece.graph.inputs {
        place(&mut text, Some(input));
    }
    for node in &piece.graph.nodes {
        let _ = write!(text, "\n{}:{}@{}", node.domain, node.op, node.opset);
        for &input in &node.inputs {
            let is_new = place(&mut text, input);
            let value = input.filter(|_| is_new).and_then(|id| piece.graph.value(id).ok());
            if let Some(Source::Constant(tensor)) = value.map(|value| &value.source) {
                add(&mut sum, &mut text, tensor);
            }
        }
        text.push_str(" ->");
        for &output in &node.outputs {
            place(&mut text, output);
        }
        for (name, attr) in &node.attrs {
            let _ = write!(text, " {name:?}={attr}");
            if let Attr::Tensor(tensor) = attr {
                add(&mut sum, &mut text, tensor);
            }
        }
    }
    for &output in &piece.graph.outputs {
        place(&mut text, Some(output));
    }
    sum.update(text.len().to_le_bytes());
    sum.update(&text);
    sum.update(program);
    let mut digits = String::new();
    for byte in sum.finalize() {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Adds the text so far, and a tensor.
fn add(sum: &mut Sha256, text: &mut String, tensor: &Tensor) {
    let _ = write!(text, " {}", tensor.desc());
    for bytes in [text.as_bytes(), tensor.stored()] {
        sum.update(bytes.len().to_le_bytes());
        sum.update(bytes);
    }
    text.clear();
}
