//! Bugs that are put into good packages, one at a time, and the cases of `udo check` that must find each.
//!
//! A line replaces one text of one file of a good package. It is caught if one of `caught_by` does not pass on `core`; an empty
//! core stands for the package as a whole.

/// A good package that bugs are put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Base {
    /// `good/blend.rs`: one operator on three cores.
    Blend,
    /// `examples/c-package`.
    Clip,
    /// `examples/softmax`.
    Softmax,
    /// `examples/selu`.
    Selu,
    /// `examples/topk`.
    TopK,
}

/// A bug.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) base: Base,
    /// The file of the package, as `sources` calls it.
    pub(crate) file: &'static str,
    pub(crate) find: &'static str,
    pub(crate) put: &'static str,
    pub(crate) core: &'static str,
    pub(crate) caught_by: &'static [&'static str],
}

const fn of(
    base: Base,
    (name, file): (&'static str, &'static str),
    (find, put): (&'static str, &'static str),
    (core, caught_by): (&'static str, &'static [&'static str]),
) -> Mutant {
    Mutant { name, base, file, find, put, core, caught_by }
}

const fn blend(
    name: &'static str,
    find: &'static str,
    put: &'static str,
    core: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    of(Base::Blend, (name, "lib"), (find, put), (core, caught_by))
}

const fn clip(
    name: &'static str,
    find: &'static str,
    put: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    of(Base::Clip, (name, "clip_scale.c"), (find, put), ("cpu", caught_by))
}

const fn selu(
    name: &'static str,
    find: &'static str,
    put: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    of(Base::Selu, (name, "cpu"), (find, put), ("cpu", caught_by))
}

const fn topk(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    put: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    of(Base::TopK, (name, file), (find, put), ("cpu", caught_by))
}

const fn softmax(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    put: &'static str,
    core: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    of(Base::Softmax, (name, file), (find, put), (core, caught_by))
}

const CPU_LOOP: &str = "for ((y, x), w) in y.iter_mut().zip(x).zip(scaled) {";
const CPU_MEAN: &str = "let mean = x.iter().sum::<f32>() / x.len() as f32;";
const CPU_STATE: &str = "let cols = cx.input(1)?.len();\n        Ok(Self {";
const CPU_TAKE: &str = "let scaled = scratch.take::<f32>(self.cols)?;";
const INFER: &str = "cx.set_output(0, y)";
const GPU_LOAD: &str = "let (x, w) = (buffers.load(0, row + i)?, buffers.load(1, i)?);";
const GPU_MEAN: &str = "let mean = sum / cols as f32;\n    for i in 0..cols {";
const DSP_LOAD: &str = "let (x, w) = (x.encoding.dequantize(q), w.encoding.dequantize(weight));";
const DSP_STORE: &str = "*to = y.encoding.quantize(formula.at(x, w, mean));";
const DSP_MEAN: &str = "let mean = sum / cols as f32;\n        for";
const C_LOOP: &str = "for (size_t i = 0; i < args->tensors[0].len; i++) {";
const C_STORE: &str = "y[i] = node->scale * v;";
const C_STATE: &str = "clip_scale *state = malloc(sizeof(*state));";

/// Every bug.
pub(crate) const MUTANTS: &[Mutant] = &[
    // What is written, and where.
    blend(
        "last_column_left",
        CPU_LOOP,
        "let end = x.len() - 1;\n            for ((y, x), w) in y.iter_mut().zip(x).zip(scaled).take(end) {",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "first_column_left",
        CPU_LOOP,
        "for ((y, x), w) in y.iter_mut().zip(x).zip(scaled).skip(1) {",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "third_row_left",
        "let Some(x) = x.get(index) else",
        "let Some(x) = x.get(index).filter(|_| index != 2) else",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "never_runs",
        "let scaled = &*scaled;",
        "let scaled = &*scaled;\n        if self.cols > 0 { return Ok(()); }",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "tail_of_sixteen_left",
        CPU_LOOP,
        "let end = if x.len() > 16 { x.len() / 16 * 16 } else { x.len() };\n            for ((y, x), w) in y.iter_mut().zip(x).zip(scaled).take(end) {",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "reads_stale_scratch",
        "for (scaled, w) in scaled.iter_mut().zip(w) {",
        "for (scaled, w) in scaled.iter_mut().zip(w).step_by(2) {",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "adds_to_the_output",
        "*y = self.formula.at(*x, *w, mean);",
        "*y = if y.is_finite() { *y } else { 0.0 } + self.formula.at(*x, *w, mean);",
        "cpu",
        &["memory/written"],
    ),
    blend(
        "infers_a_column_more",
        "udo_api::TensorDesc::new(x.dtype().unwrap_or(DType::F32), x.full_shape())",
        "{ let mut dims = x.shape().to_vec(); dims[x.rank() - 1] += 1; udo_api::TensorDesc::new(x.dtype().unwrap_or(DType::F32), udo_api::Shape::new(&dims)?) }",
        "cpu",
        &["memory/written"],
    ),
    // The heap.
    blend(
        "heap_always",
        "let scaled = &*scaled;",
        "let scaled = &scaled.to_vec()[..];",
        "cpu",
        &["memory/heap"],
    ),
    blend(
        "heap_at_nan",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            if mean.is_nan() { std::hint::black_box(vec![mean]); }",
        "cpu",
        &["memory/heap", "behaviour/numbers"],
    ),
    blend(
        "heap_at_many_columns",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            if x.len() > 1000 { std::hint::black_box(vec![mean]); }",
        "cpu",
        &["memory/heap"],
    ),
    blend(
        "heap_by_format",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            std::hint::black_box(format!(\"{mean}\"));",
        "cpu",
        &["memory/heap"],
    ),
    blend(
        "heap_on_a_worker",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            if index == 1 { std::hint::black_box(Box::new(mean)); }",
        "cpu",
        &["memory/heap"],
    ),
    // Scratch.
    blend(
        "scratch_undeclared",
        "Workspace::of::<f32>(self.cols)",
        "Workspace::NONE",
        "cpu",
        &["memory/workspace", "shapes/runs"],
    ),
    blend(
        "scratch_too_small",
        "Workspace::of::<f32>(self.cols)",
        "Workspace::of::<f32>(self.cols / 20)",
        "cpu",
        &["memory/workspace", "shapes/runs"],
    ),
    blend(
        "scratch_absurd",
        "Workspace::of::<f32>(self.cols)",
        "Workspace::of::<f32>(self.cols + (1 << 23))",
        "cpu",
        &["memory/workspace"],
    ),
    // What calls depend on.
    blend(
        "result_counts_calls",
        "*y = self.formula.at(*x, *w, mean);",
        "static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);\n                *y = self.formula.at(*x, *w, mean) + CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) as f32;",
        "cpu",
        &["behaviour/twice"],
    ),
    blend(
        "keeps_the_first_mean",
        CPU_MEAN,
        "static FIRST: std::sync::OnceLock<f32> = std::sync::OnceLock::new();\n            let mean = *FIRST.get_or_init(|| x.iter().sum::<f32>() / x.len() as f32);",
        "cpu",
        &["behaviour/twice", "behaviour/threads"],
    ),
    blend(
        "keeps_the_last_mean",
        CPU_MEAN,
        "static LAST: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);\n            let own = x.iter().sum::<f32>() / x.len() as f32;\n            let mean = 0.5 * own + 0.5 * f32::from_bits(LAST.swap(own.to_bits(), std::sync::atomic::Ordering::Relaxed));",
        "cpu",
        &["behaviour/twice"],
    ),
    blend(
        "second_session_differs",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);\n        let made = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);\n        if made > 0 { return Ok(Self { formula: Formula { share: 0.0, gain: made as f32 }, cols }); }\n        Ok(Self {",
        "cpu",
        &["behaviour/sessions"],
    ),
    blend(
        "mean_in_a_static",
        CPU_MEAN,
        "static MEAN: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);\n            MEAN.store((x.iter().sum::<f32>() / x.len() as f32).to_bits(), std::sync::atomic::Ordering::SeqCst);\n            for _ in 0..2000 { std::hint::spin_loop(); }\n            let mean = f32::from_bits(MEAN.load(std::sync::atomic::Ordering::SeqCst));",
        "cpu",
        &["behaviour/threads", "behaviour/widths"],
    ),
    blend(
        "depends_on_threads",
        "*scaled = *w;",
        "*scaled = *w * if parallel.width() > 3 { 1.001 } else { 1.0 };",
        "cpu",
        &["behaviour/widths"],
    ),
    blend(
        "rows_in_order_alone",
        CPU_MEAN,
        "static BEFORE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);\n            let before = BEFORE.swap(index, std::sync::atomic::Ordering::Relaxed);\n            let mean = if index > 0 && before + 1 != index { 0.0 } else { x.iter().sum::<f32>() / x.len() as f32 };",
        "cpu",
        &["behaviour/widths", "behaviour/threads", "behaviour/pitched"],
    ),
    blend(
        "another_thread_differs",
        CPU_MEAN,
        "thread_local! { static SEEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) }; }\n            let mean = if SEEN.replace(true) { x.iter().sum::<f32>() / x.len() as f32 } else { 0.0 };",
        "cpu",
        &["behaviour/threads", "behaviour/twice", "memory/written"],
    ),
    // What is taken and refused.
    blend(
        "infer_panics_at_scalars",
        "if w.shape() != [cols] {",
        "if w.shape()[0] != cols || w.rank() > 1 {",
        "cpu",
        &["contract/refusals"],
    ),
    blend(
        "infer_says_no_reason",
        "Error::new(format!(\"input \\\"w\\\" is {w}, wanted a vector of {cols}\"))",
        "Error::new(String::new())",
        "cpu",
        &["contract/refusals"],
    ),
    blend(
        "infer_changes_its_mind",
        INFER,
        "static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);\n        if ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 200 { return Err(Error::new(\"asked too often\")); }\n        cx.set_output(0, y)",
        "cpu",
        &["shapes/inferred", "contract/nodes", "contract/finalize"],
    ),
    blend(
        "finalize_panics_at_17",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        assert!(cols != 17);\n        Ok(Self {",
        "cpu",
        &["contract/refusals"],
    ),
    blend(
        "finalize_leaks",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        std::mem::forget(vec![1u8; 1000]);\n        Ok(Self {",
        "cpu",
        &["contract/finalize"],
    ),
    blend(
        "drop_leaks",
        "impl Kernel for BlendF32 {",
        "impl Drop for BlendF32 {\n    fn drop(&mut self) {\n        Box::leak(Box::new([self.cols; 4]));\n    }\n}\n\nimpl Kernel for BlendF32 {",
        "cpu",
        &["contract/finalize"],
    ),
    blend(
        "infer_not_written",
        INFER,
        "let _ = y;\n        Err(Error::not_implemented())",
        "cpu",
        &["contract/written"],
    ),
    blend(
        "finalize_not_written",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        if cols < 100_000 { return Err(Error::not_implemented()); }\n        Ok(Self {",
        "cpu",
        &["contract/written"],
    ),
    blend(
        "execute_not_written",
        CPU_TAKE,
        "if self.cols < 100_000 { return Err(ExecError::not_implemented()); }\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["contract/written"],
    ),
    blend(
        "refuses_everything",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        if cols < 100_000 { return Err(Error::new(\"input \\\"w\\\" is too short\")); }\n        Ok(Self {",
        "cpu",
        &["contract/nodes"],
    ),
    blend(
        "execute_panics_at_one",
        CPU_TAKE,
        "assert!(self.cols != 1);\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["shapes/runs"],
    ),
    blend(
        "divides_by_no_columns",
        CPU_TAKE,
        "std::hint::black_box(100 / self.cols);\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["shapes/runs"],
    ),
    blend(
        "error_swallowed_as_failure",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            if mean.is_infinite() { return Err(ExecError::of(udo_api::Status::FAILED)); }",
        "cpu",
        &["behaviour/numbers"],
    ),
    blend(
        "a_parameter_panics",
        "Ok(Self { share: cx.float32(\"share\")?, gain: cx.float32(\"gain\")? })",
        "assert!(cx.float32(\"share\")? > -0.5);\n        Ok(Self { share: cx.float32(\"share\")?, gain: cx.float32(\"gain\")? })",
        "cpu",
        &["contract/parameters"],
    ),
    // Ends of the process, and no end.
    blend(
        "exits_in_infer",
        INFER,
        "if x.rank() == 2 { std::process::exit(0); }\n        cx.set_output(0, y)",
        "cpu",
        &["contract/written"],
    ),
    blend(
        "exits_in_finalize",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        if cols == 3 { std::process::exit(0); }\n        Ok(Self {",
        "cpu",
        &["contract/written"],
    ),
    blend(
        "exits_in_execute",
        CPU_TAKE,
        "if self.cols == 3 { std::process::exit(0); }\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["shapes/runs"],
    ),
    blend(
        "exits_in_drop",
        "impl Kernel for BlendF32 {",
        "impl Drop for BlendF32 {\n    fn drop(&mut self) {\n        if self.cols == 3 { std::process::exit(0); }\n    }\n}\n\nimpl Kernel for BlendF32 {",
        "cpu",
        &["contract/written"],
    ),
    blend(
        "aborts_at_nan",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            if mean.is_nan() { std::process::abort(); }",
        "cpu",
        &["behaviour/numbers", "memory/heap"],
    ),
    blend(
        "overflows_the_stack",
        CPU_TAKE,
        "fn deep(n: u64) -> u64 { let a = std::hint::black_box([n; 64]); if n == 0 { 0 } else { deep(n - 1) + a[3] } }\n        std::hint::black_box(deep(10_000_000));\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["shapes/runs"],
    ),
    blend(
        "loops_at_equal_elements",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            while x.len() > 1 && x.iter().all(|v| *v == x[0] && x[0] == 0.75) { std::hint::spin_loop(); }",
        "cpu",
        &["behaviour/twice", "memory/heap"],
    ),
    blend(
        "locks_twice",
        CPU_TAKE,
        "static LOCK: std::sync::Mutex<u32> = std::sync::Mutex::new(0);\n        let held = LOCK.lock();\n        if self.cols == 3 { let again = LOCK.lock(); drop(again); }\n        drop(held);\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["shapes/runs"],
    ),
    // What is around.
    blend(
        "leaves_a_file_open",
        CPU_TAKE,
        "std::mem::forget(std::fs::File::open(\"/dev/null\"));\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["behaviour/surroundings"],
    ),
    blend(
        "changes_the_folder",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        let _ = std::env::set_current_dir(\"/\");\n        Ok(Self {",
        "cpu",
        &["behaviour/surroundings"],
    ),
    blend(
        "changes_the_environment",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        unsafe { std::env::set_var(\"OMP_NUM_THREADS\", \"1\") };\n        Ok(Self {",
        "cpu",
        &["behaviour/surroundings"],
    ),
    blend(
        "changes_the_rounding",
        CPU_TAKE,
        "let control = 0x9fc0u32;\n        unsafe { std::arch::asm!(\"ldmxcsr [{}]\", in(reg) &raw const control) };\n        let scaled = scratch.take::<f32>(self.cols)?;",
        "cpu",
        &["behaviour/surroundings"],
    ),
    blend(
        "leaves_a_thread",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        std::thread::spawn(|| loop { std::thread::park() });\n        Ok(Self {",
        "cpu",
        &["behaviour/surroundings"],
    ),
    blend(
        "takes_a_signal",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        unsafe extern \"C\" { fn signal(number: i32, handler: usize) -> usize; }\n        unsafe { signal(13, 0) };\n        unsafe { signal(15, 1) };\n        Ok(Self {",
        "cpu",
        &["behaviour/surroundings"],
    ),
    blend(
        "prints",
        CPU_STATE,
        "let cols = cx.input(1)?.len();\n        println!(\"blending {cols} columns\");\n        Ok(Self {",
        "cpu",
        &["behaviour/prints"],
    ),
    blend(
        "works_quadratically",
        CPU_MEAN,
        "let mean = x.iter().sum::<f32>() / x.len() as f32;\n            for a in x { for b in x { std::hint::black_box(a * b); } }",
        "cpu",
        &["behaviour/time"],
    ),
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
        "Ok(Self { formula: Formula::of(cx)?, rows,",
        "Ok(Self { formula: Formula { share: 0.75, ..Formula::of(cx)? }, rows,",
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
    // A package in C.
    clip(
        "c_heap",
        C_STORE,
        "volatile char *t = malloc(32);\n        if (t != NULL) t[0] = 1;\n        free((void *)t);\n        y[i] = node->scale * v;",
        &["memory/heap"],
    ),
    clip(
        "c_writes_behind",
        C_LOOP,
        "for (size_t i = 0; i <= args->tensors[0].len; i++) {",
        &["memory/guards"],
    ),
    clip(
        "c_reads_behind",
        "float v = x[i];",
        "float v = x[i] + 0.0f * x[i + 1];",
        &["memory/guards"],
    ),
    clip(
        "c_writes_before",
        C_STORE,
        "y[i] = node->scale * v;\n        if (i == 0) y[-1] = 0.0f;",
        &["memory/guards"],
    ),
    clip(
        "c_changes_the_input",
        C_STORE,
        "y[i] = node->scale * v;\n        ((float *)x)[i] = v;",
        &["memory/guards"],
    ),
    clip(
        "c_leaks",
        C_STATE,
        "volatile char *kept = malloc(100);\n    if (kept != NULL) kept[0] = 1;\n    clip_scale *state = malloc(sizeof(*state));",
        &["contract/finalize"],
    ),
    clip(
        "c_keeps_a_value",
        "float v = x[i];",
        "static float last;\n        float v = x[i] + (i == 0 ? last : 0.0f);\n        last = x[i] > 0.5f ? 0.125f : 0.0f;",
        &["behaviour/twice", "behaviour/sessions", "memory/written"],
    ),
    clip(
        "c_exits",
        C_LOOP,
        "if (args->tensors[0].len == 7) exit(0);\n    for (size_t i = 0; i < args->tensors[0].len; i++) {",
        &["shapes/runs"],
    ),
    clip(
        "c_reads_no_element",
        C_LOOP,
        "volatile float first = x[0];\n    (void)first;\n    for (size_t i = 0; i < args->tensors[0].len; i++) {",
        &["memory/guards"],
    ),
    clip(
        "c_constructor",
        "/* What finalize works out",
        "static volatile int ready;\n__attribute__((constructor)) static void set_up(void) { ready = getenv(\"HOME\") != NULL; }\n\n/* What finalize works out",
        &["binary/constructors"],
    ),
    clip(
        "c_first_element_left",
        C_LOOP,
        "for (size_t i = 1; i < args->tensors[0].len; i++) {",
        &["memory/written"],
    ),
    clip(
        "c_reversed_in_place",
        "float v = x[i];",
        "float v = x[args->tensors[0].len - 1 - i];",
        &["behaviour/in-place"],
    ),
    clip(
        "c_value_in_a_static",
        "float v = x[i];",
        "static volatile float at;\n        at = x[i];\n        for (volatile int k = 0; k < 50; k++) {}\n        float v = at;",
        &["behaviour/threads"],
    ),
    clip(
        "c_divides_by_zero",
        C_LOOP,
        "volatile int len = (int)args->tensors[0].len;\n    volatile int rest = 17 % len;\n    (void)rest;\n    for (size_t i = 0; i < args->tensors[0].len; i++) {",
        &["shapes/runs"],
    ),
    clip(
        "c_quadratic",
        "float v = x[i];",
        "for (volatile size_t k = 0; k < args->tensors[0].len; k++) {}\n        float v = x[i];",
        &["behaviour/time"],
    ),
    clip(
        "c_infers_nothing",
        "args->outputs[0] = args->node.inputs[0];",
        "(void)args;",
        &["contract/nodes"],
    ),
    clip(
        "c_not_written",
        C_STATE,
        "if (node.scale < 1e9f) return UDO_NOT_IMPLEMENTED;\n    clip_scale *state = malloc(sizeof(*state));",
        &["contract/written"],
    ),
    clip(
        "c_no_state",
        C_STATE,
        "if (node.scale < 1e9f) { *out = (udo_finalized){.state = NULL}; return UDO_OK; }\n    clip_scale *state = malloc(sizeof(*state));",
        &["shapes/runs"],
    ),
    clip(
        "c_refuses_in_silence",
        "return fail(args->node.errors, \"parameter \\\"low\\\" is above \\\"high\\\"\");",
        "return UDO_FAILED;",
        &["contract/refusals", "contract/parameters"],
    ),
    clip(
        "c_aborts_in_free",
        "static const udo_kernel_vtable vtable = {\n    .size = sizeof(udo_kernel_vtable), .finalize = finalize, .execute = execute, .free = free};",
        "static void drop_state(void *state) { free(state); abort(); }\nstatic const udo_kernel_vtable vtable = {\n    .size = sizeof(udo_kernel_vtable), .finalize = finalize, .execute = execute, .free = drop_state};",
        &["contract/written"],
    ),
    of(
        Base::Clip,
        ("c_manifest_of_another", "manifest.json.in"),
        ("\"name\": \"scale\"", "\"name\": \"factor\""),
        ("", &["binary/manifest", "binary/opens"]),
    ),
    // Public samples of SELU are wrong in two ways.
    selu(
        "selu_minus_the_largest",
        "for (y, &x) in y.iter_mut().zip(x) {\n                    *y = self.selu(x);",
        "let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);\n                for (y, &x) in y.iter_mut().zip(x) {\n                    *y = self.selu(x - max);",
        &["numbers/random"],
    ),
    selu(
        "selu_largest_not_written",
        "for (y, &x) in y.iter_mut().zip(x) {\n                    *y = self.selu(x);",
        "let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);\n                for (y, &x) in y.iter_mut().zip(x).filter(|(_, x)| **x != max) {\n                    *y = self.selu(x);",
        &["memory/written"],
    ),
    selu(
        "selu_alpha_fixed",
        "below: gamma * cx.float32(\"alpha\")?",
        "below: gamma * 1.673_263_2",
        &["numbers/random"],
    ),
    selu(
        "selu_in_place_differs",
        "*y = self.selu(*y);",
        "*y = self.gamma * *y;",
        &["behaviour/in-place"],
    ),
    selu("selu_turns_at_one", "if x > 0.0 {", "if x > 1.0 {", &["numbers/random"]),
    selu(
        "selu_nan_is_zero",
        "if x > 0.0 {",
        "if x.is_nan() {\n            0.0\n        } else if x > 0.0 {",
        &["numbers/special"],
    ),
    selu(
        "selu_limits_infinity",
        "self.gamma * x\n",
        "self.gamma * x.min(1e30)\n",
        &["numbers/special"],
    ),
    // Outputs whose extents a run says.
    topk("topk_extent_not_said", "cpu", "outputs.set_shape(0, &[found])?;", "", &["shapes/runs"]),
    topk(
        "topk_writes_behind",
        "cpu",
        "let room = values.len();",
        "values.fill(0.0);\n    let room = values.len();",
        &["shapes/runs"],
    ),
    topk(
        "topk_one_too_many",
        "cpu",
        "outputs.set_shape(1, &[found])",
        "outputs.set_shape(1, &[found.max(1)])",
        &["shapes/bounds", "memory/written"],
    ),
    topk(
        "topk_panics_at_nan",
        "cpu",
        ".filter(|&(_, &value)| value > threshold)",
        ".filter(|&(_, &value)| {\n        assert!(!value.is_nan());\n        value > threshold\n    })",
        &["behaviour/numbers", "shapes/bounds"],
    ),
    topk(
        "topk_panics_at_negative_k",
        "reg",
        "usize::try_from(k).ok().filter(|&k| k > 0)",
        "Some(usize::try_from(k).unwrap())",
        &["contract/parameters", "contract/refusals"],
    ),
    // Three cores that should say the same.
    softmax(
        "softmax_without_the_largest",
        "cpu",
        "*y = (x - max).exp();",
        "*y = (x - max * 0.0).exp();",
        "cpu",
        &["numbers/large", "numbers/random"],
    ),
    softmax(
        "softmax_largest_from_zero",
        "cpu",
        "fold(f32::NEG_INFINITY, f32::max)",
        "fold(0.0, f32::max)",
        "cpu",
        &["numbers/large"],
    ),
    softmax(
        "softmax_of_the_first_axis",
        "cpu",
        "[.., cols] if cols > 0 => Ok(Self { cols }),",
        "[cols, ..] if cols > 0 => Ok(Self { cols }),",
        "cpu",
        &["numbers/random", "shapes/runs"],
    ),
    softmax(
        "softmax_gpu_without_the_largest",
        "gpu",
        "max = max.max(buffers.load(0, i)?);",
        "max = 0.0f32.max(buffers.load(0, i)? * 0.0);",
        "gpu",
        &["numbers/large"],
    ),
    softmax(
        "softmax_dsp_scale_lost",
        "dsp",
        "exp_f32(-placeholder.encoding.scale * distance as f32)",
        "exp_f32(-0.05 * distance as f32)",
        "dsp:v68",
        &["numbers/random", "numbers/encodings"],
    ),
    softmax(
        "softmax_dsp_few_terms",
        "dsp",
        "for k in 1..12 {",
        "for k in 1..2 {",
        "dsp:v68",
        &["numbers/random", "numbers/steps"],
    ),
];
