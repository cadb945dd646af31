//! Splits the fused operators that ONNX Runtime's optimizer makes from several nodes into these nodes. This runtime's
//! passes then fuse them in their own way.

use super::edit::{Edit, new_node, with_ints};
use udo_graph::graph::{Attr, Node, ValueId};

/// `FusedConv`: a convolution with an optional addend and an activation.
pub(super) fn conv(edit: &mut Edit<'_>) -> Result<(), String> {
    let name = edit.take_text("activation")?;
    let numbers = edit.take_floats("activation_params")?.unwrap_or_default();
    let param = |index: usize| numbers.get(index).copied();
    let activation = activation(name.as_deref(), [param(0), param(1)])?;
    let (x, weights) = (edit.required(0)?, edit.required(1)?);
    let (bias, added) = (edit.node.input(2), edit.node.input(3));
    let inputs: Vec<ValueId> = [x, weights].into_iter().chain(bias).collect();
    let mut node = new_node("Conv", &inputs);
    node.attrs = std::mem::take(&mut edit.node.attrs);
    let mut sums = edit.first("sums", node, None)?;
    if let Some(added) = added {
        sums = edit.first("added", new_node("Add", &[sums, added]), None)?;
    }
    end(edit, activation, sums)
}

/// `FusedGemm`: a matrix product with an addend and an activation.
pub(super) fn gemm(edit: &mut Edit<'_>) -> Result<(), String> {
    let name = edit.take_text("activation")?;
    let [alpha, beta, gamma] = ["activation_alpha", "activation_beta", "activation_gamma"]
        .map(|name| edit.take_float(name));
    // No activation has a third parameter.
    gamma?;
    let activation = activation(name.as_deref(), [alpha?, beta?])?;
    let node = Node { inputs: edit.node.inputs.clone(), ..new_node("Gemm", &[]) };
    let attrs = std::mem::take(&mut edit.node.attrs);
    let sums = edit.first("sums", Node { attrs, ..node }, None)?;
    end(edit, activation, sums)
}

/// An activation operator and its parameters.
struct Activation {
    op: &'static str,
    params: Vec<(&'static str, f64)>,
}

/// Returns the activation of this name, with its first and second parameter.
fn activation(name: Option<&str>, [a, b]: [Option<f64>; 2]) -> Result<Activation, String> {
    let mut params = Vec::new();
    let mut set = |name: &'static str, value: Option<f64>| {
        params.extend(value.map(|value| (name, value)));
    };
    let op = match name {
        None | Some("") => "Identity",
        Some("Relu") => "Relu",
        Some("Tanh") => "Tanh",
        Some("Sigmoid") => "Sigmoid",
        Some("LeakyRelu") => {
            set("alpha", a);
            "LeakyRelu"
        }
        Some("Clip") => {
            set("min", a);
            set("max", b);
            "Clip"
        }
        Some("HardSigmoid") => {
            set("alpha", a);
            set("beta", b);
            "HardSigmoid"
        }
        Some(other) => {
            let expected = "expected Relu, Tanh, Sigmoid, LeakyRelu, Clip or HardSigmoid";
            return Err(format!("attribute \"activation\" is {other:?}, {expected}"));
        }
    };
    Ok(Activation { op, params })
}

/// Turns the node into an activation of this value.
fn end(edit: &mut Edit<'_>, activation: Activation, x: ValueId) -> Result<(), String> {
    let Activation { op, params } = activation;
    let mut inputs = vec![x];
    if op == "Clip" {
        for (name, value) in params {
            inputs.push(edit.number(name, value)?);
        }
    } else {
        for (name, value) in params {
            edit.set(name, Attr::Float(value));
        }
    }
    edit.end(op, &inputs);
    Ok(())
}

/// `BiasAdd`: y = x + bias + skip.
pub(super) fn bias_add(edit: &mut Edit<'_>) -> Result<(), String> {
    let (x, bias, skip) = (edit.required(0)?, edit.required(1)?, edit.required(2)?);
    let biased = edit.first("biased", new_node("Add", &[x, bias]), None)?;
    edit.end("Add", &[biased, skip]);
    Ok(())
}

/// `BiasSplitGelu`: y = left * Gelu(right), where `left` and `right` are the left and right part of each row of x +
/// bias.
pub(super) fn bias_split_gelu(edit: &mut Edit<'_>) -> Result<(), String> {
    let (x, bias) = (edit.required(0)?, edit.required(1)?);
    let biased = edit.first("biased", new_node("Add", &[x, bias]), None)?;
    let row = edit.input(1);
    let half = i64::try_from(row.len() / 2).unwrap_or(i64::MAX);
    let [left, right] = edit.split("halves", biased, -1, [("left", half), ("right", half)])?;
    let right = edit.first("gelu", new_node("Gelu", &[right]), None)?;
    edit.end("Mul", &[left, right]);
    Ok(())
}

/// A convolution of channels-last images with channels-last weights.
pub(super) fn nhwc_conv(edit: &mut Edit<'_>) -> Result<(), String> {
    let bias = edit.node.input(2);
    let (weights, x) = (with_channels_second(edit, 1, "weights")?, channels_second(edit)?);
    let inputs: Vec<ValueId> = [x, weights].into_iter().chain(bias).collect();
    edit.end("Conv", &inputs);
    Ok(())
}

/// Max pooling of channels-last images.
pub(super) fn nhwc_max_pool(edit: &mut Edit<'_>) -> Result<(), String> {
    let pooled = channels_second(edit)?;
    edit.end("MaxPool", &[pooled]);
    Ok(())
}

/// A convolution of quantized values; images may be channels-last.
pub(super) fn q_linear_conv(edit: &mut Edit<'_>) -> Result<(), String> {
    let is_channels_last = edit.take_int("channels_last")?.unwrap_or(0) != 0;
    let mut inputs = edit.node.inputs.clone();
    if is_channels_last {
        let x = channels_second(edit)?;
        inputs.splice(..1, [Some(x)]);
    }
    edit.end("QLinearConv", &[]);
    edit.node.inputs = inputs;
    Ok(())
}

/// Transposes input 0 to channels second, and the output back.
fn channels_second(edit: &mut Edit<'_>) -> Result<ValueId, String> {
    let x = with_channels_second(edit, 0, "nchw")?;
    let mut to_last: Vec<i64> = (0i64..).take(edit.input(0).rank()).collect();
    to_last.get_mut(1..).unwrap_or_default().rotate_left(1);
    let (y, second) = (edit.required_output(0)?, edit.value("made"));
    if let Some(output) = edit.node.outputs.first_mut() {
        *output = Some(second);
    }
    edit.after("nhwc", with_ints(new_node("Transpose", &[second]), "perm", &to_last), y);
    Ok(x)
}

/// Returns a channels-last input with its channels second.
fn with_channels_second(edit: &mut Edit<'_>, port: usize, name: &str) -> Result<ValueId, String> {
    let (x, desc) = (edit.required(port)?, edit.input(port));
    let axes: Vec<i64> = (0i64..).take(desc.rank()).collect();
    let [batch, positions @ .., channels] = axes.as_slice() else {
        return Err(format!("input {port} is {desc}, expected rank 3 or more"));
    };
    let to_second = [&[*batch, *channels], positions].concat();
    edit.first(name, with_ints(new_node("Transpose", &[x]), "perm", &to_second), None)
}
