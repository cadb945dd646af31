//! Bugs in the examples: a package in C, the public samples' of SELU, bounded outputs, three cores.

use super::{Base, Mutant, mutant};

const C_LOOP: &str = "for (size_t i = 0; i < args->tensors[0].len; i++) {";
const C_STORE: &str = "y[i] = node->scale * v;";
const C_STATE: &str = "clip_scale *state = malloc(sizeof(*state));";

const fn clip(
    name: &'static str,
    find: &'static str,
    put: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    mutant(Base::Clip, (name, "clip_scale.c"), (find, put), ("cpu", caught_by))
}

const fn selu(
    name: &'static str,
    find: &'static str,
    put: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    mutant(Base::Selu, (name, "cpu"), (find, put), ("cpu", caught_by))
}

const fn topk(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    put: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    mutant(Base::TopK, (name, file), (find, put), ("cpu", caught_by))
}

const fn softmax(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    put: &'static str,
    core: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    mutant(Base::Softmax, (name, file), (find, put), (core, caught_by))
}

pub(crate) const MUTANTS: &[Mutant] = &[
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
    mutant(
        Base::Clip,
        ("c_constructor", "clip_scale.c"),
        (
            "/* What finalize works out",
            "static volatile int ready;\n__attribute__((constructor)) static void set_up(void) { ready = getenv(\"HOME\") != NULL; }\n\n/* What finalize works out",
        ),
        ("", &["binary/constructors"]),
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
        "c_knows_of_another",
        C_STATE,
        "static int number;\n    if (number == 0) {\n        number = getenv(\"CLIP_SCALE\") == NULL ? 1 : 2;\n        setenv(\"CLIP_SCALE\", \"1\", 1);\n    }\n    node.scale *= number;\n    clip_scale *state = malloc(sizeof(*state));",
        &["behaviour/beside"],
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
    mutant(
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
        "below: gamma * alpha,",
        "below: { let _ = alpha; gamma * 1.673_263_2 },",
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
