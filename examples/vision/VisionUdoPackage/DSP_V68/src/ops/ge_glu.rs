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

/// A first kernel: right, and as slow as loops over single elements are. Make it fast; its test holds it to the
/// reference.
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

/// What the reference says, element by element.
#[rustfmt::skip]
mod loops {
    use udo_api::{Encoding, Error, ExecError, FinalizeCx, Io, Node, Quant, Workspace};
    use crate::reference::{
        Fault, List, erf_f32, extents, int_floor_div, list_align, list_broadcast, list_dims, list_item,
        list_join, list_len, list_push, list_slice, list_unravel, place, wanted,
    };

    /// What finalize keeps.
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

    /// What is known of a node with its shapes.
    fn of_node(cx: &Node<'_>) -> Result<Plan, Error> {
        let extents_0 = extents(cx, 0, "x")?;
        let extents_1 = extents(cx, 1, "bias")?;
        plan(extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items))
            .map_err(wanted)
    }

    #[derive(Debug, Clone, Copy, Default)]
    pub struct Plan {
        pub dims_x: List,
        pub dims_bias: List,
        pub has_bias: bool,
        pub half: i64,
        pub value_1: bool,
        pub value_2: bool,
        pub dims_z: List,
        pub dims_y: List,
    }

    pub fn plan(dims_x: Option<&[i64]>, dims_bias: Option<&[i64]>) -> Result<Plan, Fault> {
        let mut plan = Plan {
            dims_x: List::of(dims_x.unwrap_or_default()),
            has_bias: dims_bias.is_some(),
            dims_bias: List::of(dims_bias.unwrap_or_default()),
            ..Plan::default()
        };
        {
            plan.half = int_floor_div(list_item(plan.dims_x, -1_i64)?, 2_i64)?;
        }
        {
            let t1 = list_item(plan.dims_x, -1_i64)? == 2_i64.wrapping_mul(plan.half);
            if !t1 {
                return Err(Fault("an even last axis"));
            }
        }
        {
            plan.value_1 = plan.has_bias;
        }
        {
            let t1: bool = if plan.value_1 {
                let t2: bool = if list_len(plan.dims_bias) == 1_i64 {
                    list_item(plan.dims_bias, 0_i64)? == 2_i64.wrapping_mul(plan.half)
                } else {
                    false
                };
                t2
            } else {
                true
            };
            if !t1 {
                return Err(Fault("a number of bias for each number of the last axis"));
            }
        }
        {
            plan.value_2 = plan.has_bias;
        }
        {
            let t1 = if plan.value_2 {
                list_broadcast(plan.dims_x, plan.dims_bias)?
            } else {
                plan.dims_x
            };
            plan.dims_z = list_dims(t1)?;
        }
        {
            let mut t1 = List::default();
            list_join(&mut t1, list_slice(plan.dims_x, 0, -1_i64))?;
            list_push(&mut t1, plan.half)?;
            plan.dims_y = list_dims(t1)?;
        }
        Ok(plan)
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
                *to = element_of_z(&plan, number, x, bias)?;
            }
        }
        {
            for (number, to) in y.iter_mut().enumerate().take(plan.dims_y.size()) {
                *to = encoding_y.quantize(element_of_y(&plan, number, z)?);
            }
        }
        Ok(plan)
    }

    fn element_of_z(
        plan: &Plan,
        number: usize,
        x: Quant<'_, u8>,
        bias: Quant<'_, u8>,
    ) -> Result<f32, Fault> {
        let here = list_unravel(number as i64, plan.dims_z);
        let t1: f32 = if plan.value_2 {
            let t2 = place(plan.dims_x, list_align(here, plan.dims_x));
            let t3: f32 = if t2 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                x.encoding.dequantize(x.data[t2 as usize])
            };
            let t4 = place(plan.dims_bias, list_align(here, plan.dims_bias));
            let t5: f32 = if t4 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                bias.encoding.dequantize(bias.data[t4 as usize])
            };
            t3 + t5
        } else {
            let t2 = place(plan.dims_x, list_align(here, plan.dims_x));
            let t3: f32 = if t2 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                x.encoding.dequantize(x.data[t2 as usize])
            };
            t3
        };
        Ok(t1)
    }

    fn element_of_y(plan: &Plan, number: usize, z: &[f32]) -> Result<f32, Fault> {
        let at = list_unravel(number as i64, plan.dims_y);
        let t7 = list_len(list_slice(plan.dims_x, 0, -1_i64));
        let b = list_slice(at, 0, t7);
        let j = list_item(at, t7)?;
        let mut t1 = List::default();
        list_join(&mut t1, b)?;
        list_push(&mut t1, j.wrapping_add(plan.half))?;
        let t2 = place(plan.dims_z, t1);
        let t3: f32 = if t2 < 0 {
            return Err(Fault("indices inside of the tensor"));
        } else {
            z[t2 as usize]
        };
        let gate = t3;
        let mut t4 = List::default();
        list_join(&mut t4, b)?;
        list_push(&mut t4, j)?;
        let t5 = place(plan.dims_z, t4);
        let t6: f32 = if t5 < 0 {
            return Err(Fault("indices inside of the tensor"));
        } else {
            z[t5 as usize]
        };
        Ok(((t6 * 0.5_f32) * gate) * (1.0_f32 + erf_f32(gate / 2.0_f32.sqrt())))
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
            assert!(wanted.contains(found), "{found}, wanted one of {wanted:?}");
        }
    }
}
