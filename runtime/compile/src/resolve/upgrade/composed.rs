//! Replaces operators that are defined by other operators, such as `MeanVarianceNormalization`, with nodes of these.
//! Passes may fuse the nodes again.

use udo_api::{Dim, TensorDesc};

use super::edit::{Edit, new_node, with_ints};
use udo_graph::graph::{Attr, ValueId};

/// ONNX Runtime's default epsilon of its skip-normalization operators.
pub(super) const EPSILON: f64 = 1e-12;

/// The epsilon that ONNX's function body of `MeanVarianceNormalization` adds to the deviation.
const DEVIATION_EPSILON: f64 = 1e-9;

/// The default axes of `MeanVarianceNormalization`, all but the channels.
const IMAGE_AXES: [i64; 3] = [0, 2, 3];

pub(super) fn bias_gelu(edit: &mut Edit<'_>) -> Result<(), String> {
    edit.required(1)?;
    let biased = biased(edit, 1)?;
    edit.end("Gelu", &[biased]);
    Ok(())
}

pub(super) fn fast_gelu(edit: &mut Edit<'_>) -> Result<(), String> {
    let biased = biased(edit, 1)?;
    edit.end("Gelu", &[biased]);
    edit.set("approximate", Attr::Text("tanh".to_owned()));
    Ok(())
}

/// `FusedMatMul`: alpha * op(A) * op(B), where `op` may transpose.
pub(super) fn fused_mat_mul(edit: &mut Edit<'_>) -> Result<(), String> {
    let alpha = edit.take_float("alpha")?.unwrap_or(1.0);
    let a = side(edit, 0, ["a", "transA", "transBatchA"])?;
    let b = side(edit, 1, ["b", "transB", "transBatchB"])?;
    if alpha.to_bits() == 1f64.to_bits() {
        edit.end("MatMul", &[a, b]);
        return Ok(());
    }
    let product = edit.first("product", new_node("MatMul", &[a, b]), None)?;
    edit.end("Mul", &[product]);
    edit.set_number(1, "alpha", alpha)
}

/// Transposes one operand of `FusedMatMul`: the last two axes if attribute `matrices` is set, and the first axis to the
/// position before the last if attribute `batch` is set.
fn side(
    edit: &mut Edit<'_>,
    port: usize,
    [name, matrices, batch]: [&str; 3],
) -> Result<ValueId, String> {
    let mut is_set = |name: &str| Ok::<_, String>(edit.take_int(name)?.unwrap_or(0) != 0);
    let (matrices, batch) = (is_set(matrices)?, is_set(batch)?);
    let x = edit.required(port)?;
    let axes: Vec<i64> = (0i64..).take(edit.input(port).rank()).collect();
    let mut order = axes.clone();
    if let [others @ .., _] = &mut *order
        && batch
        && !others.is_empty()
    {
        others.rotate_left(1);
    }
    if let [.., row, column] = &mut *order
        && matrices
    {
        std::mem::swap(row, column);
    }
    if order == axes {
        return Ok(x);
    }
    edit.first(name, with_ints(new_node("Transpose", &[x]), "perm", &order), None)
}

pub(super) fn skip_layer_norm(edit: &mut Edit<'_>) -> Result<(), String> {
    let sum = skipped(edit, 4)?;
    let inputs = [sum, edit.required(2)?].into_iter().chain(edit.node.input(3));
    edit.end("LayerNormalization", &inputs.collect::<Vec<_>>());
    edit.node.outputs.truncate(3);
    Ok(())
}

pub(super) fn skip_rms_norm(edit: &mut Edit<'_>) -> Result<(), String> {
    let sum = skipped(edit, 3)?;
    let scale = edit.required(2)?;
    // The remaining third output is the sum, which another node computes.
    edit.node.outputs.truncate(3);
    refuse_statistics(edit)?;
    edit.end("RMSNormalization", &[sum, scale]);
    Ok(())
}

pub(super) fn rms_norm(edit: &mut Edit<'_>) -> Result<(), String> {
    refuse_statistics(edit)?;
    let inputs = [edit.required(0)?, edit.required(1)?];
    edit.end("RMSNormalization", &inputs);
    Ok(())
}

/// Returns the sum of inputs 0 and 1 and of an optional bias at port `bias`. The sum is also output 3 of the node.
fn skipped(edit: &mut Edit<'_>, bias: usize) -> Result<ValueId, String> {
    if edit.node.attr("epsilon").is_none() {
        edit.set("epsilon", Attr::Float(EPSILON));
    }
    // The bias comes first, because a product can fuse both additions in this order.
    let (biased, skip) = (biased(edit, bias)?, edit.required(1)?);
    edit.first("sum", new_node("Add", &[biased, skip]), edit.node.output(3))
}

/// Returns input 0 with an optional bias added.
fn biased(edit: &mut Edit<'_>, port: usize) -> Result<ValueId, String> {
    let x = edit.required(0)?;
    match edit.node.input(port) {
        Some(bias) => edit.first("biased", new_node("Add", &[x, bias]), None),
        None => Ok(x),
    }
}

fn refuse_statistics(edit: &mut Edit<'_>) -> Result<(), String> {
    if let Some(index) = edit.node.outputs.iter().skip(1).position(Option::is_some) {
        return Err(format!("output {} is a statistic of rows, which is for training", index + 1));
    }
    edit.node.outputs.truncate(1);
    Ok(())
}

/// y = (x - mean(x)) / (std(x) + epsilon) along some axes. The mean is subtracted twice, which removes the rounding
/// error of the first mean; that error matters where the deviation is small compared with the mean.
pub(super) fn mean_variance_norm(edit: &mut Edit<'_>) -> Result<(), String> {
    let axes = edit.take_ints("axes")?;
    let axes = edit.list("axes", axes.as_deref().unwrap_or(&IMAGE_AXES))?;
    let x = edit.required(0)?;
    let mean = edit.first("mean", new_node("ReduceMean", &[x, axes]), None)?;
    let centered = edit.first("near", new_node("Sub", &[x, mean]), None)?;
    let mean_error = edit.first("rest", new_node("ReduceMean", &[centered, axes]), None)?;
    let difference = edit.first("apart", new_node("Sub", &[centered, mean_error]), None)?;
    let squares = edit.first("squares", new_node("Mul", &[difference, difference]), None)?;
    let variance = edit.first("variance", new_node("ReduceMean", &[squares, axes]), None)?;
    let deviation = edit.first("deviation", new_node("Sqrt", &[variance]), None)?;
    let epsilon = edit.number("least", DEVIATION_EPSILON)?;
    let divisor = edit.first("divisor", new_node("Add", &[deviation, epsilon]), None)?;
    edit.end("Div", &[difference, divisor]);
    Ok(())
}

/// The p-norm of each channel: a reduction for p = 1 or 2, else an `LpPool` with a window of the image's size.
pub(super) fn global_lp_pool(edit: &mut Edit<'_>) -> Result<(), String> {
    let degree = edit.take_float("p")?.unwrap_or(2.0);
    let (x, input) = (edit.required(0)?, edit.input(0));
    let axes: Vec<i64> = (0i64..).take(input.rank()).skip(2).collect();
    if axes.is_empty() {
        return Err(format!("input 0 is {input}, expected rank 3 or more"));
    }
    let norm = match degree {
        1.0 => "ReduceL1",
        2.0 => "ReduceL2",
        _ => {
            let degree = integer_degree(degree)?;
            let window = window(&input).ok_or_else(|| {
                format!(
                    "input 0 is {input}, expected known extents because attribute \"p\" is {degree}"
                )
            })?;
            edit.end("LpPool", &[x]);
            edit.set("kernel_shape", Attr::Ints(window));
            edit.set("p", degree);
            return Ok(());
        }
    };
    let axes = edit.list("axes", &axes)?;
    edit.end(norm, &[x, axes]);
    Ok(())
}

/// Returns the extents of the image if they are known.
fn window(input: &TensorDesc) -> Option<Vec<i64>> {
    let extent = |dim: Dim| match dim {
        Dim::Fixed(extent) => i64::try_from(extent).ok(),
        _ => None,
    };
    input.full_shape().iter().skip(2).map(extent).collect()
}

/// Returns the degree p as an integer; only the first version of the operator allows fractions.
#[expect(clippy::cast_possible_truncation, reason = "numbers without a fraction in these bounds")]
fn integer_degree(degree: f64) -> Result<Attr, String> {
    // Above this limit, powers of numbers other than 1 are 0 or infinite.
    if degree.fract() == 0.0 && (1.0..=1e6).contains(&degree) {
        return Ok(Attr::Int(degree as i64));
    }
    Err(format!("attribute \"p\" is {degree}, expected a whole number of 1 or more"))
}
