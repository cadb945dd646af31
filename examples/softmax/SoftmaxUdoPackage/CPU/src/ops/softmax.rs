//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 838c9ccdbf23d184
//!
//! Softmax on the CPU, along the last axis: `exp(x - max) / sum(exp(x - max))`.

use udo_api::{
    Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, input, output, types,
};

pub(crate) const KERNEL: KernelDef =
    KernelDef::new::<SoftmaxF32>("Softmax", Core::CPU).ports(PORTS);

const PORTS: &[PortRule] = &[input(0, types::F32), output(0, types::F32)];

/// The state that `finalize` computes for `execute`.
struct SoftmaxF32 {
    cols: usize,
}

impl Kernel for SoftmaxF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        match *cx.input(0)?.shape() {
            [.., cols] if cols > 0 => Ok(Self { cols }),
            _ => Err(Error::new(
                "softmax wants a last axis with at least one element",
            )),
        }
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io {
            inputs,
            mut outputs,
            ..
        } = io;
        let x = inputs.get::<f32>(0)?;
        let y = outputs.take::<f32>(0)?;
        for (x, y) in x.chunks_exact(self.cols).zip(y.chunks_exact_mut(self.cols)) {
            let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for (y, x) in y.iter_mut().zip(x) {
                *y = (x - max).exp();
                sum += *y;
            }
            for y in y {
                *y /= sum;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn rows_become_shares_however_large_their_numbers_are() {
        let x = [1f32, 2.0, 3.0, 4.0, 1e30, 1e30, 1e30, 1e30];
        let bench = Bench::kernel(KERNEL)
            .input(tensor(&[2, 4], &x))
            .like_input();
        let wanted = [
            0.0320586, 0.0871443, 0.2368828, 0.6439143, 0.25, 0.25, 0.25, 0.25,
        ];
        assert_near(&bench.one().values::<f32>(), &wanted, 1e-6);
    }
}
