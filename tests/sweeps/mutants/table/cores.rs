//! Bugs in kernels for the GPU and the DSP.

use super::{Mutant, blend};

const GPU_LOAD: &str = "let (x, w) = (buffers.load(0, row + i)?, buffers.load(1, i)?);";
const GPU_MEAN: &str = "let mean = sum / cols as f32;\n    for i in 0..cols {";
const DSP_LOAD: &str = "let (x, w) = (x.encoding.dequantize(q), w.encoding.dequantize(weight));";
const DSP_STORE: &str = "*to = y.encoding.quantize(formula.at(x, w, mean));";
const DSP_MEAN: &str = "let mean = sum / cols as f32;\n        for";

pub(crate) const MUTANTS: &[Mutant] = &[
    // The GPU.
    blend(
        "gpu_last_column_left",
        GPU_LOAD,
        "if i > 0 && i + 1 == cols { continue; }\n        let (x, w) = (buffers.load(0, row + i)?, buffers.load(1, i)?);",
        "gpu",
        &["memory/written"],
    ),
    blend(
        "gpu_last_row_left",
        "launch.global_size([self.rows, 1, 1])",
        "launch.global_size([self.rows.max(2) - 1, 1, 1])",
        "gpu",
        &["memory/written"],
    ),
    blend(
        "gpu_wrong_mean",
        GPU_MEAN,
        "let mean = sum / (cols + 1) as f32;\n    for i in 0..cols {",
        "gpu",
        &["numbers/random"],
    ),
    blend(
        "gpu_weights_reversed",
        GPU_LOAD,
        "let (x, w) = (buffers.load(0, row + i)?, buffers.load(1, cols - 1 - i)?);",
        "gpu",
        &["numbers/random"],
    ),
    blend(
        "gpu_reads_a_column_on",
        GPU_LOAD,
        "let (x, w) = (buffers.load(0, row + i + 1)?, buffers.load(1, i)?);",
        "gpu",
        &["shapes/runs"],
    ),
    blend(
        "gpu_parameter_fixed",
        "Ok(Self { formula: Formula::new(cx)?, rows,",
        "Ok(Self { formula: Formula { share: 0.75, ..Formula::new(cx)? }, rows,",
        "gpu",
        &["numbers/random"],
    ),
    blend(
        "gpu_source_a_skeleton",
        "    const size_t row = get_global_id(0) * cols;\n    float sum",
        "#error \\\"Blend is not implemented yet\\\"\n    const size_t row = get_global_id(0) * cols;\n    float sum",
        "gpu",
        &["contract/written"],
    ),
    blend(
        "gpu_source_stores_nothing",
        "UDO_STORE(y, row + i, gain * (own + (1.0f - share) * mean));",
        "(void)(gain * (own + (1.0f - share) * mean));",
        "gpu",
        &["contract/written"],
    ),
    blend(
        "gpu_kernel_of_another_name",
        "Launch::new(SOURCE, \"blend\")",
        "Launch::new(SOURCE, \"blend_rows\")",
        "gpu",
        &["contract/written"],
    ),
    blend(
        "gpu_not_written",
        GPU_LOAD,
        "if cols < 100_000 { return Err(ExecError::not_implemented()); }\n        let (x, w) = (buffers.load(0, row + i)?, buffers.load(1, i)?);",
        "gpu",
        &["contract/written"],
    ),
    blend(
        "gpu_heap",
        GPU_LOAD,
        "std::hint::black_box(vec![mean]);\n        let (x, w) = (buffers.load(0, row + i)?, buffers.load(1, i)?);",
        "gpu",
        &["memory/heap"],
    ),
    blend(
        "gpu_counts_calls",
        GPU_MEAN,
        "static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);\n    let mean = sum / cols as f32 + CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as f32;\n    for i in 0..cols {",
        "gpu",
        &["behaviour/twice"],
    ),
    blend(
        "gpu_ignores_nan",
        "sum += buffers.load(0, row + i)?;",
        "sum += buffers.load(0, row + i)?.max(-1e30);",
        "gpu",
        &["numbers/special"],
    ),
    // The DSP.
    blend(
        "dsp_zero_point_fixed",
        DSP_LOAD,
        "let (x, w) = ((f32::from(q) - 128.0) * x.encoding.scale, w.encoding.dequantize(weight));",
        "dsp:v68",
        &["numbers/random", "numbers/steps"],
    ),
    blend(
        "dsp_weight_zero_point_lost",
        DSP_LOAD,
        "let (x, w) = (x.encoding.dequantize(q), f32::from(weight) * w.encoding.scale);",
        "dsp:v68",
        &["numbers/random"],
    ),
    blend(
        "dsp_other_inputs_scale",
        DSP_LOAD,
        "let (x, w) = (x.encoding.dequantize(q), x.encoding.dequantize(weight));",
        "dsp:v68",
        &["numbers/random"],
    ),
    blend(
        "dsp_wraps_around",
        DSP_STORE,
        "*to = ((formula.at(x, w, mean) / y.encoding.scale).round() as i32 + y.encoding.zero_point) as u8;",
        "dsp:v68",
        &["numbers/random", "numbers/steps", "numbers/large"],
    ),
    blend(
        "dsp_two_steps_off",
        DSP_STORE,
        "*to = y.encoding.quantize::<u8>(formula.at(x, w, mean)).saturating_add(2);",
        "dsp:v68",
        &["numbers/random"],
    ),
    blend(
        "dsp_output_encoding_fixed",
        DSP_STORE,
        "*to = udo_api::Encoding { scale: 0.03, zero_point: 100 }.quantize(formula.at(x, w, mean));",
        "dsp:v68",
        &["numbers/random"],
    ),
    blend(
        "dsp_one_value_wrong",
        DSP_LOAD,
        "let q = if q == 200 { 20 } else { q };\n            let (x, w) = (x.encoding.dequantize(q), w.encoding.dequantize(weight));",
        "dsp:v68",
        &["numbers/steps", "numbers/random", "numbers/large"],
    ),
    blend(
        "dsp_tail_of_eight_left",
        "for ((to, &q), &weight) in y_row.iter_mut().zip(x_row).zip(w.data) {",
        "let end = if cols > 8 { cols / 8 * 8 } else { cols };\n        for ((to, &q), &weight) in y_row.iter_mut().zip(x_row).zip(w.data).take(end) {",
        "dsp:v68",
        &["memory/written"],
    ),
    blend(
        "dsp_mean_of_codes",
        DSP_MEAN,
        "let mean = (sum / cols as f32).floor();\n        for",
        "dsp:v68",
        &["numbers/random"],
    ),
    blend(
        "dsp_not_written",
        "let formula = Formula { share, gain };",
        "if share < 1e9 { return Err(ExecError::not_implemented()); }\n    let formula = Formula { share, gain };",
        "dsp:v68",
        &["contract/written"],
    ),
    blend(
        "dsp_kernel_missing",
        "    KernelDef::new::<BlendDsp>(\"Blend\", Core::dsp(68)).ports(DSP_PORTS),\n",
        "",
        "dsp:v68",
        &["contract/kernels"],
    ),
    blend(
        "dsp_index_out_of_range",
        DSP_MEAN,
        "std::hint::black_box(w.data[cols]);\n        let mean = sum / cols as f32;\n        for",
        "dsp:v68",
        &["shapes/runs"],
    ),
    blend(
        "dsp_parameters_swapped",
        "params: { share: f32, gain: f32 }",
        "params: { gain: f32, share: f32 }",
        "dsp:v68",
        &["numbers/random"],
    ),
];
