//! Bugs that were written after all cases stood, to see what these find of what nobody thought of; they are counted apart.

use super::{Base, Mutant, mutant};

const fn blend(
    name: &'static str,
    find: &'static str,
    put: &'static str,
    core: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    mutant(Base::OwnBlend, (name, "lib"), (find, put), (core, caught_by))
}

pub(crate) const MUTANTS: &[Mutant] = &[
    blend(
        "late_mean_of_one_less",
        "x.iter().sum::<f32>() / x.len() as f32",
        "x.iter().sum::<f32>() / (x.len() - 1).max(1) as f32",
        "cpu",
        &["numbers/reference", "numbers/random"],
    ),
    blend(
        "late_sums_by_halves",
        "x.iter().sum::<f32>()",
        "x.iter().map(|x| f32::from(udo_api::F16::from_f32(*x).to_f32())).sum::<f32>()",
        "cpu",
        &["numbers/reference", "numbers/random"],
    ),
    blend(
        "late_heap_at_large_means",
        "let mean = x.iter().sum::<f32>() / x.len() as f32;",
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            if mean.abs() > 1e4 { std::hint::black_box(vec![mean]); }",
        "cpu",
        &["memory/heap"],
    ),
    blend(
        "late_wide_rows_by_eights",
        "for ((y, x), w) in y.iter_mut().zip(x).zip(scaled) {",
        "let end = if x.len() >= 32 { x.len() / 8 * 8 } else { x.len() };\n            for ((y, x), w) in y.iter_mut().zip(x).zip(scaled).take(end) {",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "late_default_of_gain",
        "Param::scalar(\"gain\", DType::F32).default(Value::float(1.5))",
        "Param::scalar(\"gain\", DType::F32).default(Value::float(1.0))",
        "cpu",
        &["contract/defaults"],
    ),
    blend(
        "late_gpu_mean_without_the_first",
        "sum += buffers.load(0, row + i)?;",
        "if i > 0 {\n            sum += buffers.load(0, row + i)?;\n        }",
        "gpu",
        &["numbers/reference", "numbers/random"],
    ),
    blend(
        "late_gpu_weights_squared",
        "buffers.store(0, row + i, kernel.formula.at(x, w, mean))?;",
        "buffers.store(0, row + i, kernel.formula.at(x, w * w, mean))?;",
        "gpu",
        &["numbers/reference", "numbers/random"],
    ),
    blend(
        "late_dsp_first_row_left",
        ".zip(x.data.chunks_exact(cols)) {",
        ".zip(x.data.chunks_exact(cols)).skip(1) {",
        "dsp:v68",
        &["memory/written"],
    ),
    blend(
        "late_dsp_wraps_at_the_end",
        "*to = y.encoding.quantize(formula.at(x, w, mean));",
        "*to = ((formula.at(x, w, mean) / y.encoding.scale).round_ties_even() as i64 + i64::from(y.encoding.zero_point)).clamp(0, 256) as u8;",
        "dsp:v68",
        &["numbers/reference", "numbers/large", "numbers/steps", "numbers/random"],
    ),
    mutant(
        Base::Softmax,
        ("late_softmax_nan_is_nothing", "cpu"),
        ("*y = (x - max).exp();", "*y = if x.is_nan() { 0.0 } else { (x - max).exp() };"),
        ("cpu", &["numbers/special"]),
    ),
    mutant(
        Base::Clip,
        ("late_c_adds_to_the_output", "clip_scale.c"),
        ("y[i] = node->scale * v;", "y[i] += node->scale * v;"),
        ("cpu", &["memory/written"]),
    ),
    mutant(
        Base::TopK,
        ("late_topk_says_fewer_indices", "cpu"),
        ("outputs.set_shape(1, &[found])", "outputs.set_shape(1, &[found / 2])"),
        ("cpu", &["memory/written", "shapes/runs", "shapes/bounds", "contract/nodes"]),
    ),
];
