//! The tables: a line per operator, in the order of their names.

use udo_api::{KernelDef, OpDef};

mod add;
mod average_pool;
mod batch_normalization;
mod cast;
mod clip;
mod concat;
mod conv;
mod dequantize_linear;
mod div;
mod dropout;
mod erf;
mod flatten;
mod gather;
mod gemm;
mod global_average_pool;
mod identity;
mod layer_normalization;
mod lrn;
mod lstm;
mod mat_mul;
mod max_pool;
mod mul;
mod non_zero;
mod q_linear_conv;
mod quantize_linear;
mod relu;
mod reshape;
mod sigmoid;
mod softmax;
mod split;
mod sub;
mod sum;
mod transpose;
mod unsqueeze;

const ENTRIES: &[(OpDef, &[KernelDef])] = &[
    (add::OP, add::KERNELS),
    (average_pool::OP, average_pool::KERNELS),
    (batch_normalization::OP, batch_normalization::KERNELS),
    (cast::OP, cast::KERNELS),
    (clip::OP, clip::KERNELS),
    (concat::OP, concat::KERNELS),
    (conv::OP, conv::KERNELS),
    (dequantize_linear::OP, dequantize_linear::KERNELS),
    (div::OP, div::KERNELS),
    (dropout::OP, dropout::KERNELS),
    (erf::OP, erf::KERNELS),
    (flatten::OP, flatten::KERNELS),
    (gather::OP, gather::KERNELS),
    (gemm::OP, gemm::KERNELS),
    (global_average_pool::OP, global_average_pool::KERNELS),
    (identity::OP, identity::KERNELS),
    (layer_normalization::OP, layer_normalization::KERNELS),
    (lrn::OP, lrn::KERNELS),
    (lstm::OP, lstm::KERNELS),
    (mat_mul::OP, mat_mul::KERNELS),
    (max_pool::OP, max_pool::KERNELS),
    (mul::OP, mul::KERNELS),
    (non_zero::OP, non_zero::KERNELS),
    (q_linear_conv::OP, q_linear_conv::KERNELS),
    (quantize_linear::OP, quantize_linear::KERNELS),
    (relu::OP, relu::KERNELS),
    (reshape::OP, reshape::KERNELS),
    (sigmoid::OP, sigmoid::KERNELS),
    (softmax::OP, softmax::KERNELS),
    (split::OP, split::KERNELS),
    (sub::OP, sub::KERNELS),
    (sum::OP, sum::KERNELS),
    (transpose::OP, transpose::KERNELS),
    (unsqueeze::OP, unsqueeze::KERNELS),
];

/// Every operator.
pub(crate) const OPS: &[OpDef] = &ops();

/// Every operator's kernels, one after the other.
pub(crate) const KERNELS: &[KernelDef] = &kernels();

const fn ops() -> [OpDef; ENTRIES.len()] {
    let mut all = [add::OP; ENTRIES.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = ENTRIES[i].0;
        i += 1;
    }
    all
}

const fn kernel_count() -> usize {
    let (mut count, mut i) = (0, 0);
    while i < ENTRIES.len() {
        count += ENTRIES[i].1.len();
        i += 1;
    }
    count
}

const fn kernels() -> [KernelDef; kernel_count()] {
    let mut all = [add::KERNELS[0]; kernel_count()];
    let (mut to, mut entry) = (0, 0);
    while entry < ENTRIES.len() {
        let mut i = 0;
        while i < ENTRIES[entry].1.len() {
            all[to] = ENTRIES[entry].1[i];
            to += 1;
            i += 1;
        }
        entry += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_op_has_a_cpu_kernel_and_every_kernel_its_op() {
        for (op, kernels) in ENTRIES {
            let name = op.schema().name();
            assert!(kernels.iter().any(|k| k.core() == udo_api::Core::CPU), "{name}");
            assert!(kernels.iter().all(|k| k.op() == name), "{name}");
        }
    }
}
