//! Bugs in packages whose configs say what their operators compute: no other kernel is needed to find them.

use super::{Base, Mutant, mutant};

const fn selu(name: &'static str, find: &'static str, put: &'static str) -> Mutant {
    mutant(Base::OwnSelu, (name, "cpu"), (find, put), ("cpu", &["numbers/reference"]))
}

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
    // The two public samples of SELU.
    selu(
        "own_selu_minus_the_largest",
        "for (y, &x) in y.iter_mut().zip(x) {\n                    *y = self.selu(x);",
        "let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);\n                for (y, &x) in y.iter_mut().zip(x) {\n                    *y = self.selu(x - max);",
    ),
    selu(
        "own_selu_largest_not_written",
        "for (y, &x) in y.iter_mut().zip(x) {\n                    *y = self.selu(x);",
        "let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);\n                for (y, &x) in y.iter_mut().zip(x).filter(|(_, x)| **x != max) {\n                    *y = self.selu(x);",
    ),
    selu("own_selu_gamma_lost", "self.gamma * x\n", "1.05 * x\n"),
    // What is wrong on all cores alike.
    blend(
        "own_blend_mean_doubled",
        "self.gain * (self.share * w * x + (1.0 - self.share) * mean)",
        "self.gain * (self.share * w * x + 2.0 * (1.0 - self.share) * mean)",
        "cpu",
        &["numbers/reference"],
    ),
    blend(
        "own_blend_share_off_by_a_little",
        "self.gain * (self.share * w * x + (1.0 - self.share) * mean)",
        "self.gain * (self.share * w * x + (1.0 - self.share) * mean * 1.00001)",
        "cpu",
        &["numbers/reference"],
    ),
    blend(
        "own_blend_dsp_formula",
        "self.gain * (self.share * w * x + (1.0 - self.share) * mean)",
        "self.gain * (self.share * w * x + (1.0 - self.share) * x)",
        "dsp:v68",
        &["numbers/reference"],
    ),
    blend(
        "own_blend_gpu_rows",
        "let row = item.global_id[0] * cols;",
        "let row = item.global_id[0] / 2 * cols;",
        "gpu",
        &["memory/written", "numbers/reference"],
    ),
    // What refuses elements of which the reference makes something.
    blend(
        "own_blend_dsp_refuses_all",
        "    let formula = Formula { share, gain };\n",
        "    let formula = Formula { share, gain };\n    if y.encoding.scale > 0.0 {\n        return Err(ExecError::new(udo_api::Status::BAD_VALUE));\n    }\n",
        "dsp:v68",
        &["shapes/runs"],
    ),
    blend(
        "own_blend_refuses_large_means",
        "            let mean = x.iter().sum::<f32>() / x.len() as f32;\n",
        "            let mean = x.iter().sum::<f32>() / x.len() as f32;\n            if mean.abs() > 100.0 {\n                return Err(ExecError::new(udo_api::Status::BAD_VALUE));\n            }\n",
        "cpu",
        &["numbers/large"],
    ),
    blend(
        "own_blend_infers_another_rank",
        "udo_api::TensorDesc::new(x.dtype().unwrap_or(DType::F32), x.full_shape())",
        "{ let mut dims = x.shape().to_vec(); dims.push(1); udo_api::TensorDesc::new(x.dtype().unwrap_or(DType::F32), udo_api::Shape::new(&dims)?) }",
        "cpu",
        &["shapes/inferred"],
    ),
];
