//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 928a88596fd7e7f2
//!
//! Selu on the CPU, as ONNX defines it: `gamma * x` where x is positive, else
//! `gamma * alpha * (exp(x) - 1)`.
//!
//! Every element is computed from itself alone: the largest is not subtracted first, as in a
//! softmax, and it is written like any other.

use udo_api::{
    Core, Error, ExecError, FinalizeCx, InPlace, Io, Kernel, KernelDef, Pair, PortRule, input,
    output, types,
};

use crate::params::selu::Params;

pub(crate) const KERNEL: KernelDef = KernelDef::new::<SeluF32>("Selu", Core::CPU)
    .ports(PORTS)
    .in_place(IN_PLACE);

const PORTS: &[PortRule] = &[input(0, types::F32), output(0, types::F32)];

const IN_PLACE: &[InPlace] = &[InPlace {
    input: 0,
    output: 0,
}];

/// The state that `finalize` computes for `execute`.
struct SeluF32 {
    gamma: f32,
    /// `gamma * alpha`.
    below: f32,
}

impl Kernel for SeluF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let Params { alpha, gamma } = Params::read(cx)?;
        Ok(Self {
            gamma,
            below: gamma * alpha,
        })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        match io.pair(0, 0)? {
            Pair::Apart(x, y) => {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = self.selu(x);
                }
            }
            Pair::Same(y) => {
                for y in y {
                    *y = self.selu(*y);
                }
            }
        }
        Ok(())
    }
}

impl SeluF32 {
    fn selu(&self, x: f32) -> f32 {
        // `exp_m1` is `exp(x) - 1` without its loss of digits near 0.
        if x > 0.0 {
            self.gamma * x
        } else {
            self.below * x.exp_m1()
        }
    }
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn each_side_of_zero_has_its_formula() {
        let bench = Bench::kernel(KERNEL)
            .input(tensor(&[5], &[2f32, 0.0, -0.0, -1e-6, f32::NEG_INFINITY]))
            .float("alpha", 1.5)
            .float("gamma", 2.0)
            .like_input();
        let wanted = [4.0, 0.0, 0.0, -3e-6, -3.0];
        assert_near(&bench.one().values::<f32>(), &wanted, 1e-9);
    }
}
