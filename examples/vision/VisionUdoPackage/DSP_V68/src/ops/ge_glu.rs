//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config ed6e8b6cf4296404
//!
//! GeGlu on the DSP from V68 on.
//!
//!     # One half of the last axis, gated by the other.
//!     let half = dim(x, -1) // 2
//!     require dim(x, -1) == 2 * half, "an even last axis"
//!     require if present(bias) then rank(bias) == 1 and dim(bias, 0) == 2 * half else true, "a number of bias for each number of the last axis"
//!     let z = if present(bias) then x + bias else x
//!     y[b.. < dims(x)[:-1], j < half] =
//!         let gate = z[b.., j + half] in z[b.., j] * 0.5 * gate * (1 + erf(gate / sqrt(2.0)))

use udo_api::{
    Core, Cost, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, Workspace, input,
    output, types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::new::<GeGluDsp>("GeGlu", Core::dsp(crate::ARCH))
    .ports(PORTS)
    .cost(Cost::Snail);

const PORTS: &[PortRule] = &[
    input(0, types::U8),
    input(1, types::U8),
    output(0, types::U8),
];

/// A first kernel: correct, but slow, because it loops over single elements. Make it fast; its test
/// compares it with the reference.
struct GeGluDsp {
    loops: loops::Kept,
}

impl Kernel for GeGluDsp {
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
    use udo_api::{Encoding, Error, ExecError, FinalizeCx, Io, Quant, Workspace};
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
            let input_0 = Quant::<u8>::of(inputs, 0)?;
            let input_1 = if inputs.has(1) { Quant::<u8>::of(inputs, 1)? } else { Quant::default() };
            let scratch_0 = scratch.take::<f32>(self.plan.dims_z.size())?;
            let output_0 = outputs.take::<u8>(0)?;
            let encoding_0 = outputs.encoding(0).unwrap_or(Encoding { scale: 1.0, zero_point: 0 });
            execute(&self.plan, input_0, input_1, scratch_0, output_0, encoding_0)?;
            Ok(())
        }
    }

    pub fn execute(
        plan: &Plan,
        x: Quant<'_, u8>,
        bias: Quant<'_, u8>,
        z: &mut [f32],
        y: &mut [u8],
        encoding_y: Encoding,
    ) -> Result<Plan, Fault> {
        let plan = *plan;
        {
            for (number, to) in z.iter_mut().enumerate().take(plan.dims_z.size()) {
                *to = element_of_z(&plan, number, |at| Ok::<_, Fault>(x.encoding.dequantize(x.data[at])), |at| Ok(bias.encoding.dequantize(bias.data[at])))?;
            }
        }
        {
            for (number, to) in y.iter_mut().enumerate().take(plan.dims_y.size()) {
                *to = encoding_y.quantize(element_of_y(&plan, number, |at| Ok::<_, Fault>(z[at]))?);
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, tensor};

    use super::KERNEL;

    #[test]
    fn a_small_node_is_as_the_reference_says() {
        let outputs = Bench::kernel(KERNEL)
            .input(tensor(&[4], &[13u8, 9, 14, 10]).encoded(0.5, 10))
            .input(tensor(&[4], &[13u8, 9, 14, 10]).encoded(0.5, 10))
            .output_of::<u8>(&[2])
            .output_encoding(0, 0.5, 10)
            .all();
        let wanted_0 = &[33u8..=34, 9..=11];
        assert_eq!(outputs[0].dims(), [2]);
        for (found, wanted) in outputs[0].values::<u8>().iter().zip(wanted_0) {
            assert!(wanted.contains(found), "{found}, not one of {wanted:?}");
        }
    }
}
