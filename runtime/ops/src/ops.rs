//! The tables: a line per operator, in the order of their names.

use udo_api::{KernelDef, OpDef};

ops! {
    add,
    average_pool,
    batch_normalization,
    cast,
    clip,
    concat,
    conv,
    dequantize_linear,
    div,
    dropout,
    erf,
    flatten,
    gather,
    gemm,
    global_average_pool,
    global_max_pool,
    greater,
    hard_swish,
    identity,
    layer_normalization,
    less,
    lrn,
    lstm,
    mat_mul,
    max,
    max_pool,
    min,
    mul,
    non_zero,
    pow,
    q_linear_conv,
    quantize_linear,
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
    shape,
    sigmoid,
    size,
    softmax,
    split,
    squeeze,
    sub,
    sum,
    tanh,
    transpose,
    unsqueeze,
    r#where,
}

/// Every operator.
pub(crate) const OPS: &[OpDef] = &{
    let mut all = [DEFS[0].op; DEFS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = DEFS[i].op;
        i += 1;
    }
    all
};

/// Every operator's kernels, one after the other.
pub(crate) const KERNELS: &[KernelDef] = &{
    let mut all = [DEFS[0].kernels[0]; kernel_count()];
    let (mut to, mut at) = (0, 0);
    while at < DEFS.len() {
        let mut i = 0;
        while i < DEFS[at].kernels.len() {
            all[to] = DEFS[at].kernels[i];
            to += 1;
            i += 1;
        }
        at += 1;
    }
    all
};

const fn kernel_count() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < DEFS.len() {
        count += DEFS[at].kernels.len();
        at += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Def;

    #[test]
    fn every_file_is_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.trim_end_matches(".rs").replace('_', ""))
            .collect();
        files.sort();
        let ops: Vec<String> = OPS.iter().map(|op| op.schema().name().to_lowercase()).collect();
        assert_eq!(ops, files);
    }

    #[test]
    fn what_operators_share_lies_in_a_family() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let wanted = ["def.rs", "family", "lib.rs", "number.rs", "ops", "ops.rs", "testing.rs"];
        assert_eq!(files, wanted);
    }

    #[test]
    fn every_op_has_a_cpu_kernel_and_every_kernel_its_op() {
        for Def { op, kernels, .. } in DEFS {
            let name = op.schema().name();
            assert!(kernels.iter().any(|k| k.core() == udo_api::Core::CPU), "{name}");
            assert!(kernels.iter().all(|k| k.op() == name), "{name}");
        }
    }

    #[test]
    fn members_pass_the_tests_of_their_family() {
        for Def { op, test, .. } in DEFS {
            if let Some(test) = test {
                test(op.schema().name());
            }
        }
    }
}
