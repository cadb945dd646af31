//! Converts the attention operators of ONNX Runtime (`Attention`, `QAttention`, `MultiHeadAttention`) to ONNX's
//! `Attention`. Unlike ONNX's, they include the input projections and accept integer masks. In names, q, k and v are
//! queries, keys and values.

use udo_api::{Dim, TensorDesc};

use super::edit::{Edit, new_node, own_node, with_int, with_ints};
use udo_graph::graph::{Attr, Node, ValueId};

/// The default of `mask_filter_value`, which is added to the scores of masked keys.
const MASK_FILTER: f64 = -10_000.0;

/// The name parts of nodes that compute queries, keys and values.
const QKV_NAMES: [&str; 3] = ["q", "k", "v"];

/// The inputs of an attention node besides queries, keys and values.
#[derive(Clone, Copy)]
struct AttentionInputs {
    /// The ports of the key mask and of the attention bias.
    ports: [usize; 2],
    /// The batch size, and the number of keys including those of earlier calls.
    extents: [usize; 2],
    /// Keys and values of earlier calls.
    past: [Option<ValueId>; 2],
}

/// Converts `Attention`, whose queries, keys and values are products of the input with parts of one matrix.
pub(super) fn with_one_matrix(edit: &mut Edit<'_>) -> Result<(), String> {
    let [q, k, v] = hidden_sizes(edit, 1)?;
    let (x, weights) = (edit.required(0)?, edit.required(1)?);
    let parts = [("q", q), ("k", k), ("v", v)];
    let weights = edit.split("weights", weights, 1, parts)?;
    let biases = match edit.node.input(2) {
        Some(bias) => edit.split("bias", bias, 0, parts)?.map(Some),
        None => [None; 3],
    };
    let mut qkv = [x; 3];
    for ((projected, name), (weights, bias)) in
        qkv.iter_mut().zip(QKV_NAMES).zip(weights.into_iter().zip(biases))
    {
        *projected =
            edit.first(&format!("{name}.product"), new_node("MatMul", &[x, weights]), None)?;
        if let Some(bias) = bias {
            *projected = edit.first(name, new_node("Add", &[*projected, bias]), None)?;
        }
    }
    with_state(edit, qkv, 4, [3, 5])
}

/// Converts `QAttention`, whose queries, keys and values are one product of quantized matrices.
pub(super) fn with_quantized_matrix(edit: &mut Edit<'_>) -> Result<(), String> {
    let [q, k, v] = hidden_sizes(edit, 1)?;
    // In the order of `MatMulIntegerToFloat`: a, b, their scales, their zero points, bias.
    let inputs = [0, 1, 3, 4, 6, 7, 2].map(|port| edit.node.input(port));
    let node = Node { inputs: inputs.to_vec(), ..own_node("MatMulIntegerToFloat", &[]) };
    let product = edit.first("product", node, None)?;
    let qkv = edit.split("sides", product, 2, [("q", q), ("k", k), ("v", v)])?;
    with_state(edit, qkv, 8, [5, 9])
}

/// Returns the numbers of columns that compute queries, keys and values.
fn hidden_sizes(edit: &mut Edit<'_>, port: usize) -> Result<[i64; 3], String> {
    refuse(edit, "do_rotary", "rotates queries and keys")?;
    refuse(edit, "past_present_share_buffer", SHARED)?;
    edit.take("rotary_embedding_dim");
    let weights = edit.input(port);
    if let Some(sizes) = edit.take_ints("qkv_hidden_sizes")?.filter(|sizes| !sizes.is_empty()) {
        let error = || format!("attribute \"qkv_hidden_sizes\" is {sizes:?}, expected three");
        return <[i64; 3]>::try_from(sizes.as_slice()).map_err(|_| error());
    }
    match *weights.shape() {
        [_, columns] if columns % 3 == 0 => Ok([i64::try_from(columns / 3).unwrap_or(0); 3]),
        _ => Err(format!("input {port} is {weights}, expected columns of three equal sizes")),
    }
}

const SHARED: &str = "shares a buffer of keys and values between calls";

/// Refuses a node with a flag that the conversion does not support.
fn refuse(edit: &mut Edit<'_>, flag: &str, meaning: &str) -> Result<(), String> {
    match edit.take_int(flag)? {
        None | Some(0) => Ok(()),
        Some(value) => Err(format!("attribute {flag:?} is {value}, which {meaning}, expected 0")),
    }
}

/// Completes the conversion of a node whose past keys and values are one tensor (input `past`), as are the new ones
/// (output 1). ONNX's operator has separate ones. `ports` are those of [`AttentionInputs`].
fn with_state(
    edit: &mut Edit<'_>,
    qkv: [ValueId; 3],
    past: usize,
    ports: [usize; 2],
) -> Result<(), String> {
    let (x, state) = (edit.input(0), edit.input(past));
    let (&[batch, len, ..], past_len) = (x.shape(), state.shape().get(3).copied().unwrap_or(0))
    else {
        return Err(format!("input 0 is {x}, expected rank 3"));
    };
    let zero = edit.list("first", &[0])?;
    let mut past_kv = [None; 2];
    if let Some(state) = edit.node.input(past) {
        let parts = split_state(edit, state, past)?;
        for (slot, (part, name)) in
            past_kv.iter_mut().zip(parts.into_iter().zip(["past_k", "past_v"]))
        {
            *slot = Some(edit.first(name, new_node("Squeeze", &[part, zero]), None)?);
        }
    }
    let extents = [batch, past_len.saturating_add(len)];
    let present = edit.node.output(1);
    edit.node.outputs.truncate(1);
    if let Some(present) = present {
        let parts = ["present_k", "present_v"].map(|name| edit.value(name));
        edit.node.outputs.extend(parts.map(Some));
        let mut rows = [present; 2];
        for (row, (part, name)) in rows.iter_mut().zip(parts.into_iter().zip(["k", "v"])) {
            *row = edit.value(&format!("present.{name}"));
            edit.after(&format!("present.{name}"), new_node("Unsqueeze", &[part, zero]), *row);
        }
        edit.after("present", with_int(new_node("Concat", &rows), "axis", 0), present);
    }
    attend(edit, qkv, &AttentionInputs { ports, extents, past: past_kv })
}

/// Splits a state along its first axis into keys and values. If its extents are known only in a run, gathers the two
/// parts, because `Split` needs known lengths.
fn split_state(edit: &mut Edit<'_>, state: ValueId, port: usize) -> Result<[ValueId; 2], String> {
    if edit.input(port).full_shape().is_fixed() {
        return edit.split("past", state, 0, [("k", 1), ("v", 1)]);
    }
    let mut parts = [state; 2];
    for ((part, name), index) in parts.iter_mut().zip(["past.k", "past.v"]).zip(0..) {
        let indices = edit.list(&format!("{name}.at"), &[index])?;
        *part =
            edit.first(name, with_int(new_node("Gather", &[state, indices]), "axis", 0), None)?;
    }
    Ok(parts)
}

/// Converts `MultiHeadAttention`, whose queries, keys and values are separate or packed, with a bias for each.
pub(super) fn multi_head(edit: &mut Edit<'_>) -> Result<(), String> {
    for port in [8, 9] {
        if edit.node.input(port).is_some() {
            return Err(format!("input {port} is present, which {SHARED}, expected none"));
        }
    }
    let (query, key, past) = (edit.input(0), edit.input(1), edit.input(6));
    let batch = query.shape().first().copied().unwrap_or(0);
    let length_axis = if key.rank() == 4 { 2 } else { 1 };
    let keys = if key.is_absent() { &query } else { &key };
    let len = keys.shape().get(length_axis).copied().unwrap_or(0);
    let past_len = past.shape().get(2).copied().unwrap_or(0);
    let past = [6, 7].map(|port| edit.node.input(port));
    let others =
        AttentionInputs { ports: [4, 5], extents: [batch, past_len.saturating_add(len)], past };
    let qkv = match (query.rank(), key.rank()) {
        (5, _) => unpack_rows(edit, 0, QKV_NAMES)?,
        (_, 5) => {
            let [k, v] = unpack_rows(edit, 1, ["k", "v"])?;
            [edit.required(0)?, k, v]
        }
        _ => [edit.required(0)?, edit.required(1)?, edit.required(2)?],
    };
    if edit.node.output(3).is_some() {
        // The output of the attention probabilities.
        edit.set("qk_matmul_output_mode", Attr::Int(3));
    }
    if key.rank() == 4 {
        return separate_heads(edit, qkv, &others);
    }
    let qkv = biased(edit, qkv)?;
    attend(edit, qkv, &others)
}

/// Returns the packed parts of an input `[batch, length, heads, parts, elements]` as rows that contain all heads.
fn unpack_rows<const N: usize>(
    edit: &mut Edit<'_>,
    port: usize,
    names: [&str; N],
) -> Result<[ValueId; N], String> {
    let (x, rows) = (edit.required(port)?, edit.list("rows", &[0, 0, -1])?);
    let mut parts = edit.split("parts", x, 3, names.map(|name| (name, 1)))?;
    for (part, name) in parts.iter_mut().zip(names) {
        *part = edit.first(&format!("{name}.rows"), new_node("Reshape", &[*part, rows]), None)?;
    }
    Ok(parts)
}

/// Adds the parts of the bias to queries, keys and values.
fn biased(edit: &mut Edit<'_>, mut qkv: [ValueId; 3]) -> Result<[ValueId; 3], String> {
    let Some(bias) = edit.node.input(3) else { return Ok(qkv) };
    let width = |value: ValueId| {
        let row = edit.graph.desc(Some(value)).full_shape().dim(2).map_or(0, Dim::bound);
        i64::try_from(row).unwrap_or(i64::MAX)
    };
    let [q, k, v] = qkv.map(width);
    let parts = edit.split("bias", bias, 0, [("q", q), ("k", k), ("v", v)])?;
    for (value, (part, name)) in qkv.iter_mut().zip(parts.into_iter().zip(QKV_NAMES)) {
        *value = edit.first(name, new_node("Add", &[*value, part]), None)?;
    }
    Ok(qkv)
}

/// Completes the conversion of a node whose keys and values are `[batch, heads, length, elements]`: transposes queries
/// to this order, and the result back to rows.
fn separate_heads(
    edit: &mut Edit<'_>,
    [q, k, v]: [ValueId; 3],
    others: &AttentionInputs,
) -> Result<(), String> {
    if edit.node.input(3).is_some() {
        return Err("input 3, a bias, needs keys in rows, and input 1 has them by head".to_owned());
    }
    let heads = match edit.node.attr("num_heads") {
        Some(Attr::Int(heads)) => *heads,
        _ => return Err("attribute \"num_heads\" is missing".to_owned()),
    };
    let by_heads = edit.list("by_heads", &[0, 0, heads, -1])?;
    let q = edit.first("q.heads", new_node("Reshape", &[q, by_heads]), None)?;
    let swap_heads =
        |from: ValueId| with_ints(new_node("Transpose", &[from]), "perm", &[0, 2, 1, 3]);
    let q = edit.first("q.apart", swap_heads(q), None)?;
    let (y, attended, rows) =
        (edit.required_output(0)?, edit.value("apart"), edit.list("rows", &[0, 0, -1])?);
    if let Some(output) = edit.node.outputs.first_mut() {
        *output = Some(attended);
    }
    let transposed = edit.value("heads");
    edit.after("heads", swap_heads(attended), transposed);
    edit.after("rows", new_node("Reshape", &[transposed, rows]), y);
    attend(edit, [q, k, v], others)
}

/// Turns the node into ONNX's `Attention`.
fn attend(edit: &mut Edit<'_>, qkv: [ValueId; 3], others: &AttentionInputs) -> Result<(), String> {
    let heads = edit.take_int("num_heads")?.ok_or("attribute \"num_heads\" is missing")?;
    let is_causal = edit.take_int("unidirectional")?.unwrap_or(0);
    let scale = edit.take_float("scale")?.filter(|scale| *scale != 0.0);
    let mask = mask(edit, others)?;
    edit.end("Attention", &qkv);
    edit.node.inputs.push(mask);
    edit.node.inputs.extend(others.past);
    while edit.node.inputs.last().is_some_and(Option::is_none) {
        edit.node.inputs.pop();
    }
    for (name, value) in [("q_num_heads", heads), ("kv_num_heads", heads), ("is_causal", is_causal)]
    {
        edit.set(name, Attr::Int(value));
    }
    if let Some(scale) = scale {
        edit.set("scale", Attr::Float(scale));
    }
    Ok(())
}

/// Returns the addend of the scores: the attention bias plus the mask filter for masked keys.
fn mask(edit: &mut Edit<'_>, others: &AttentionInputs) -> Result<Option<ValueId>, String> {
    let filter = edit.take_float("mask_filter_value")?.unwrap_or(MASK_FILTER);
    let [key_mask, bias] = others.ports;
    let bias = edit.node.input(bias);
    let Some((unmasked, axes)) = unmasked(edit, key_mask, others.extents)? else { return Ok(bias) };
    // The mask has the type of the scores, which is that of any float input.
    let float_port =
        if edit.input(0).dtype().is_some_and(udo_api::DType::is_float) { 0 } else { 2 };
    let zero = edit.numbers_like(float_port, "taken", &[], &[0.0])?;
    let filter = edit.numbers_like(float_port, "left", &[], &[filter])?;
    let mask = edit.first("mask", new_node("Where", &[unmasked, zero, filter]), None)?;
    let axes = edit.list("mask.axes", &axes)?;
    let mask = edit.first("mask.keys", new_node("Unsqueeze", &[mask, axes]), None)?;
    match bias {
        Some(bias) => edit.first("added", new_node("Add", &[bias, mask]), None).map(Some),
        None => Ok(Some(mask)),
    }
}

/// Returns a bool tensor of the keys that take part, and the axes that must be added to match the scores. The mask's
/// shape tells its meaning: a flag for each key, or the end (and start) of the keys of each sequence.
fn unmasked(
    edit: &mut Edit<'_>,
    port: usize,
    [batch, total]: [usize; 2],
) -> Result<Option<(ValueId, Vec<i64>)>, String> {
    let Some(mask) = edit.node.input(port) else { return Ok(None) };
    let desc = edit.input(port);
    match *desc.shape() {
        // A mask of one element for all keys is ambiguous.
        [_, 1] if total != 1 => Ok(None),
        [sequences, keys] if [sequences, keys] == [batch, total] => {
            Ok(Some((positive(edit, port)?, vec![1, 2])))
        }
        [sequences, _, keys] if [sequences, keys] == [batch, total] => {
            Ok(Some((positive(edit, port)?, vec![1])))
        }
        [ends] if ends == batch => {
            let unmasked = compared(edit, port, "Less", mask, total)?;
            Ok(Some((unmasked, vec![1, 2])))
        }
        [ends_and_starts] if ends_and_starts == 2 * batch => {
            let len = i64::try_from(batch).unwrap_or(i64::MAX);
            let [ends, starts] = edit.split("ends", mask, 0, [("ends", len), ("starts", len)])?;
            let before_end = compared(edit, port, "Less", ends, total)?;
            let after_start = compared(edit, port, "GreaterOrEqual", starts, total)?;
            let unmasked =
                edit.first("between", new_node("And", &[before_end, after_start]), None)?;
            Ok(Some((unmasked, vec![1, 2])))
        }
        _ => Err(mask_error(port, &desc, [batch, total])),
    }
}

fn mask_error(port: usize, desc: &TensorDesc, [batch, total]: [usize; 2]) -> String {
    format!(
        "input {port} is {desc}, expected [{batch}], [{}], [{batch},{total}] or [{batch},queries,{total}]",
        batch.saturating_mul(2)
    )
}

/// Returns which elements of an integer mask are above 0.
fn positive(edit: &mut Edit<'_>, port: usize) -> Result<ValueId, String> {
    let (mask, zero) = (edit.required(port)?, edit.numbers_like(port, "mask.zero", &[], &[0.0])?);
    edit.first("mask.positive", new_node("Greater", &[mask, zero]), None)
}

/// Compares the position of each key with a number for each sequence.
fn compared(
    edit: &mut Edit<'_>,
    port: usize,
    op: &str,
    numbers: ValueId,
    total: usize,
) -> Result<ValueId, String> {
    let name = op.to_lowercase();
    let keys: Vec<f64> = (0u32..).map(f64::from).take(total).collect();
    let keys = edit.numbers_like(port, &format!("{name}.keys"), &[1, total], &keys)?;
    let axis = edit.list(&format!("{name}.axis"), &[1])?;
    let numbers = new_node("Unsqueeze", &[numbers, axis]);
    let numbers = edit.first(&format!("{name}.numbers"), numbers, None)?;
    edit.first(&name, new_node(op, &[keys, numbers]), None)
}
