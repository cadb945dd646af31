//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 28c68010fd628d9d
//!
//! GeGlu on the CPU.
//!
//!     # One half of the last axis, gated by the other.
//!     let half = dim(x, -1) // 2
//!     require dim(x, -1) == 2 * half, "an even last axis"
//!     require if present(bias) then rank(bias) == 1 and dim(bias, 0) == 2 * half else true, "a number of bias for each number of the last axis"
//!     let z = if present(bias) then x + bias else x
//!     y[b.. < dims(x)[:-1], j < half] =
//!         let gate = z[b.., j + half] in z[b.., j] * 0.5 * gate * (1 + erf(gate / sqrt(2.0)))

use udo_api::{
    Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, Workspace, input, output,
    types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::new::<GeGluF32>("GeGlu", Core::CPU).ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32),
    input(1, types::F32),
    output(0, types::F32),
];

/// A first kernel: correct, but slow, because it loops over single elements. Make it fast; its test
/// compares it with the reference.
struct GeGluF32 {
    loops: loops::Kept,
}

impl Kernel for GeGluF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let loops = loops::Kept::of(cx)?;
        Ok(Self { loops })
    }

    fn workspace(&self) -> Workspace {
        self.loops.workspace()
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.loops.execute(io)
    }
}

/// The computation that the reference defines, element by element.
#[rustfmt::skip]
mod loops {
    use udo_api::{Error, ExecError, FinalizeCx, Io, Workspace};
    use crate::formulas::ge_glu::{Plan, element_of_y, element_of_z, of_node};
    use crate::reference::Fault;

    /// The state from finalize.
    pub struct Kept {
        plan: Plan,
    }

    impl Kept {
        pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self {
                plan: of_node(cx)?,
            })
        }

        pub fn workspace(&self) -> Workspace {
            Workspace::NONE.and::<f32>(self.plan.dims_z.size())
        }

        pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
            let Io { inputs, mut outputs, mut scratch, .. } = io;
            let input_0 = inputs.get::<f32>(0)?;
            let input_1 = if inputs.has(1) { inputs.get::<f32>(1)? } else { &[] };
            let scratch_0 = scratch.take::<f32>(self.plan.dims_z.size())?;
            let output_0 = outputs.take::<f32>(0)?;
            execute(&self.plan, input_0, input_1, scratch_0, output_0)?;
            Ok(())
        }
    }

    pub fn execute(
        plan: &Plan,
        x: &[f32],
        bias: &[f32],
        z: &mut [f32],
        y: &mut [f32],
    ) -> Result<Plan, Fault> {
        let plan = *plan;
        {
            for (number, to) in z.iter_mut().enumerate().take(plan.dims_z.size()) {
                *to = element_of_z(&plan, number, |at| Ok::<_, Fault>(x[at]), |at| Ok(bias[at]))?;
            }
        }
        {
            for (number, to) in y.iter_mut().enumerate().take(plan.dims_y.size()) {
                *to = element_of_y(&plan, number, |at| Ok::<_, Fault>(z[at]))?;
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn a_small_node_is_as_the_reference_says() {
        let outputs = Bench::kernel(KERNEL)
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .output_of::<f32>(&[2])
            .all();
        let wanted_0 = &[1.0371936919110194, -3.9998733150326675];
        assert_eq!(outputs[0].dims(), [2]);
        assert_near(&outputs[0].values::<f32>(), wanted_0, 1e-5);
    }
}
