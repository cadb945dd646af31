//! Tables of all operators, one per domain, sorted by name.

use udo_api::{KernelDef, OpDef};

use crate::Def;

ops! {
    abs,
    acos,
    acosh,
    add,
    affine_grid,
    and,
    arg_max,
    arg_min,
    asin,
    asinh,
    atan,
    atanh,
    attention,
    average_pool,
    batch_normalization,
    bernoulli,
    bit_cast,
    bit_shift,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    blackman_window,
    cast,
    cast_like,
    causal_conv_with_state,
    ceil,
    celu,
    center_crop_pad,
    clip,
    col2im,
    compress,
    concat,
    constant_of_shape,
    conv,
    conv_integer,
    conv_transpose,
    cos,
    cosh,
    cum_prod,
    cum_sum,
    deform_conv,
    depth_to_space,
    dequantize_linear,
    det,
    dft,
    div,
    dropout,
    dynamic_quantize_linear,
    einsum,
    elu,
    equal,
    erf,
    exp,
    expand,
    eye_like,
    flatten,
    floor,
    gather,
    gather_elements,
    gather_nd,
    gelu,
    gemm,
    global_average_pool,
    global_max_pool,
    greater,
    greater_or_equal,
    grid_sample,
    group_normalization,
    gru,
    hamming_window,
    hann_window,
    hardmax,
    hard_sigmoid,
    hard_swish,
    identity,
    r#if,
    instance_normalization,
    is_inf,
    is_nan,
    layer_normalization,
    leaky_relu,
    less,
    less_or_equal,
    linear_attention,
    log,
    log_softmax,
    r#loop,
    lp_normalization,
    lp_pool,
    lrn,
    lstm,
    mat_mul,
    mat_mul_integer,
    max,
    max_pool,
    max_roi_pool,
    max_unpool,
    mean,
    mel_weight_matrix,
    min,
    mish,
    modulus,
    mul,
    multinomial,
    neg,
    non_max_suppression,
    non_zero,
    not,
    one_hot,
    or,
    pad,
    pow,
    p_relu,
    q_linear_conv,
    q_linear_mat_mul,
    quantize_linear,
    random_normal,
    random_normal_like,
    random_uniform,
    random_uniform_like,
    range,
    reciprocal,
    reduce_l1,
    reduce_l2,
    reduce_log_sum,
    reduce_log_sum_exp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    reduce_sum_square,
    relu,
    reshape,
    resize,
    reverse_sequence,
    rms_normalization,
    rnn,
    roi_align,
    rotary_embedding,
    round,
    scan,
    scatter,
    scatter_elements,
    scatter_nd,
    selu,
    shape,
    shrink,
    sigmoid,
    sign,
    sin,
    sinh,
    size,
    slice,
    softmax,
    softplus,
    softsign,
    space_to_depth,
    split,
    sqrt,
    squeeze,
    stft,
    sub,
    sum,
    swish,
    tan,
    tanh,
    tensor_scatter,
    thresholded_relu,
    tile,
    top_k,
    transpose,
    trilu,
    unique,
    unsqueeze,
    r#where,
    xor,
}

/// Operators of the domain `com.microsoft`, found in models from ONNX Runtime and its tools.
mod microsoft {
    ops! {
        dequantize_linear,
        dynamic_quantize_lstm,
        dynamic_quantize_mat_mul,
        gather_block_quantized,
        gelu,
        group_query_attention,
        mat_mul_integer_to_float,
        mat_mul_n_bits,
        q_gemm,
        q_linear_add,
        q_linear_average_pool,
        q_linear_concat,
        q_linear_global_average_pool,
        q_linear_leaky_relu,
        q_linear_mul,
        q_linear_sigmoid,
        q_linear_softmax,
        quantize_linear,
        quick_gelu,
    }
}

/// Operators of the domain `udo`: those that other formats have and ONNX does not, and those that passes insert.
mod udo {
    ops! {
        assert,
        attention,
        batch_to_space,
        bounded_constant_of_shape,
        bounded_expand,
        bounded_range,
        bounded_reshape,
        channel_shuffle,
        crop,
        detection_post_process,
        lookup,
        q_linear_conv_transpose,
        q_linear_mat_mul_add,
        round_to,
        space_to_batch,
        squared_difference,
    }
}

/// The operators of each domain. ONNX's domain has the empty name.
const DOMAINS: [(&str, &[Def]); 3] =
    [("", DEFS), ("com.microsoft", microsoft::DEFS), ("udo", udo::DEFS)];

/// All operators.
pub(crate) const OPS: &[OpDef] = &OP_TABLE;

/// The kernels of all operators.
pub(crate) const KERNELS: &[KernelDef] = &KERNEL_TABLE;

// Statics, so that the kernels are compiled in this crate instead of in each crate that names the tables.
static OP_TABLE: [OpDef; op_count()] = {
    let mut all = [DEFS[0].op; op_count()];
    let (mut to, mut domain) = (0, 0);
    while domain < DOMAINS.len() {
        let (name, defs) = DOMAINS[domain];
        let mut i = 0;
        while i < defs.len() {
            all[to] = defs[i].op.in_domain(name);
            (to, i) = (to + 1, i + 1);
        }
        domain += 1;
    }
    all
};

static KERNEL_TABLE: [KernelDef; kernel_count()] = {
    let mut all = [DEFS[0].kernels[0]; kernel_count()];
    let (mut to, mut domain) = (0, 0);
    while domain < DOMAINS.len() {
        let (name, defs) = DOMAINS[domain];
        let mut at = 0;
        while at < defs.len() {
            let mut i = 0;
            while i < defs[at].kernels.len() {
                all[to] = defs[at].kernels[i].in_domain(name);
                (to, i) = (to + 1, i + 1);
            }
            at += 1;
        }
        domain += 1;
    }
    all
};

const fn op_count() -> usize {
    let (mut count, mut domain) = (0, 0);
    while domain < DOMAINS.len() {
        count += DOMAINS[domain].1.len();
        domain += 1;
    }
    count
}

const fn kernel_count() -> usize {
    let (mut count, mut domain) = (0, 0);
    while domain < DOMAINS.len() {
        let (defs, mut at) = (DOMAINS[domain].1, 0);
        while at < defs.len() {
            count += defs[at].kernels.len();
            at += 1;
        }
        domain += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the source folder of a domain's operators.
    fn folder(domain: &str) -> String {
        let folder = domain.rsplit('.').next().unwrap_or_default();
        format!("{}/src/ops/{folder}", env!("CARGO_MANIFEST_DIR"))
    }

    fn defs() -> impl Iterator<Item = (&'static str, &'static Def)> {
        DOMAINS.into_iter().flat_map(|(domain, defs)| defs.iter().map(move |def| (domain, def)))
    }

    #[test]
    fn every_file_is_in_the_table() {
        for (domain, defs) in DOMAINS {
            // A domain without operators has no folder.
            let entries = std::fs::read_dir(folder(domain)).into_iter().flatten();
            let mut files: Vec<String> = entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|end| end == "rs"))
                .map(|path| path.file_stem().unwrap().to_str().unwrap().replace('_', ""))
                .collect();
            files.sort();
            let ops = defs.iter().map(|def| match def.op.schema().name() {
                // `mod` is a keyword of Rust.
                "Mod" => "modulus".to_owned(),
                name => name.to_lowercase(),
            });
            assert_eq!(ops.collect::<Vec<_>>(), files, "domain {domain:?}");
        }
    }

    #[test]
    fn every_folder_is_a_domain() {
        let mut folders: Vec<_> = std::fs::read_dir(folder(""))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .collect();
        folders.retain(|actual| DOMAINS.iter().all(|(domain, _)| *actual != *folder(domain)));
        assert!(folders.is_empty(), "no domain lies in {folders:?}");
    }

    #[test]
    fn shared_code_is_in_a_family() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let expected =
            ["def.rs", "family", "family.rs", "lib.rs", "number.rs", "ops", "ops.rs", "testing.rs"];
        assert_eq!(files, expected);
    }

    #[test]
    fn every_op_has_a_cpu_kernel_and_every_kernel_its_op() {
        for (_, Def { op, kernels, .. }) in defs() {
            let name = op.schema().name();
            let has_cpu_kernel = kernels.iter().any(|k| k.core() == udo_api::Core::CPU);
            // Control-flow operators run on the host and have no kernels; operators compiled for a core have one on
            // that core only.
            let is_control = op.schema().known_facts().has_any(udo_api::Facts::CONTROL);
            let is_program = name == "HtaSubnet";
            assert_eq!(has_cpu_kernel, !is_control && !is_program, "{name}");
            assert!(kernels.iter().all(|k| k.op() == name), "{name}");
        }
    }

    #[test]
    fn ops_and_kernels_are_of_the_domain_of_their_table() {
        let named = |domain: &str| OPS.iter().filter(|op| op.schema().domain() == domain).count();
        for (domain, defs) in DOMAINS {
            assert_eq!(named(domain), defs.len(), "{domain:?}");
            let kernels: usize = defs.iter().map(|def| def.kernels.len()).sum();
            assert_eq!(KERNELS.iter().filter(|k| k.domain() == domain).count(), kernels);
        }
    }

    #[test]
    fn members_pass_the_tests_of_their_family() {
        for (domain, Def { op, test, .. }) in defs() {
            let name = op.schema().name();
            if let Some(test) = test {
                test(&if domain.is_empty() { name.to_owned() } else { format!("{domain}:{name}") });
            }
        }
    }
}
