//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 86cba3543dc2c288
//!
//! BoxNms on the CPU.
//!
//!     # Boxes x0, y0, x1, y1 by score, without those that have too much in common with one that is kept.
//!     let n = dim(boxes, 0)
//!     require rank(boxes) == 2 and rank(scores) == 1 and dim(boxes, 1) == 4 and dim(scores, 0) == n, "four corners and a score for each box"
//!     let area[i < n] = (boxes[i, 2] - boxes[i, 0]) * (boxes[i, 3] - boxes[i, 1])
//!     let common[i < n, j < n] =
//!         max(0, min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0]))
//!         * max(0, min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1]))
//!     kept = select[r < n; s](true, by = scores[r], limit = limit,
//!         unless = common[s, r] > threshold * (area[s] + area[r] - common[s, r]))

use udo_api::{
    Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, Workspace, input, output,
    types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::new::<BoxNmsF32>("BoxNms", Core::CPU).ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32),
    input(1, types::F32),
    output(0, types::I32).bounded(),
];

/// A first kernel: correct, but slow, because it loops over single elements. Make it fast; its test
/// compares it with the reference.
struct BoxNmsF32 {
    loops: loops::Kept,
}

impl Kernel for BoxNmsF32 {
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
    use crate::formulas::box_nms::{Plan, element_of_area, element_of_common, element_of_kept, of_node};
    use crate::reference::{Fault, List, comes_before, list_dims, place};

    /// The state from finalize.
    pub struct Kept {
        plan: Plan,
    }

    impl Kept {
        pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self {
                plan: of_node(cx, false)?,
            })
        }

        pub fn workspace(&self) -> Workspace {
            Workspace::NONE.and::<f32>(self.plan.dims_area.size()).and::<f32>(self.plan.dims_common.size()).and::<i64>(self.plan.dims_part_2.size())
        }

        pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
            let Io { inputs, mut outputs, mut scratch, .. } = io;
            let input_0 = inputs.get::<f32>(0)?;
            let input_1 = inputs.get::<f32>(1)?;
            let scratch_0 = scratch.take::<f32>(self.plan.dims_area.size())?;
            let scratch_1 = scratch.take::<f32>(self.plan.dims_common.size())?;
            let scratch_2 = scratch.take::<i64>(self.plan.dims_part_2.size())?;
            let output_0 = outputs.take::<i32>(0)?;
            let done = execute(&self.plan, input_0, input_1, scratch_0, scratch_1, scratch_2, output_0)?;
            let mut dims = [0; 8];
            let rank = done.dims_kept.items().len();
            for (to, dim) in dims.iter_mut().zip(done.dims_kept.items()) {
                *to = *dim as usize;
            }
            outputs.set_shape(0, &dims[..rank])?;
            Ok(())
        }
    }

    pub fn execute(
        plan: &Plan,
        boxes: &[f32],
        scores: &[f32],
        area: &mut [f32],
        common: &mut [f32],
        part_2: &mut [i64],
        kept: &mut [i32],
    ) -> Result<Plan, Fault> {
        let mut plan = *plan;
        {
            for (number, to) in area.iter_mut().enumerate().take(plan.dims_area.size()) {
                *to = element_of_area(&plan, number, |at| Ok::<_, Fault>(boxes[at]))?;
            }
        }
        {
            for (number, to) in common.iter_mut().enumerate().take(plan.dims_common.size()) {
                *to = element_of_common(&plan, number, |at| Ok::<_, Fault>(boxes[at]))?;
            }
        }
        {
            let t1 = plan.n;
            let bound = plan.dims_part_2.size();
            let mut found = 0_usize;
            let (mut last, mut last_score) = (-1_i64, f64::INFINITY);
            while found < bound {
                let (mut best, mut best_score) = (-1_i64, 0.0_f64);
                for r in 0..t1 {
                    if true {
                        let t2 = place(plan.dims_scores, List::of(&[r]));
                        let t3: f32 = if t2 < 0 {
                            return Err(Fault("indices inside of the tensor"));
                        } else {
                            scores[t2 as usize]
                        };
                        let score = t3 as f64;
                        let is_behind = last < 0 || comes_before(last_score, last, score, r);
                        if is_behind && (best < 0 || comes_before(score, r, best_score, best)) {
                            (best, best_score) = (r, score);
                        }
                    }
                }
                if best < 0 {
                    break;
                }
                (last, last_score) = (best, best_score);
                let r = best;
                let mut is_dropped = false;
                for before in &part_2[..found] {
                    let s = *before;
                    let t4 = place(plan.dims_common, List::of(&[s, r]));
                    let t5: f32 = if t4 < 0 {
                        return Err(Fault("indices inside of the tensor"));
                    } else {
                        common[t4 as usize]
                    };
                    let t6 = place(plan.dims_area, List::of(&[s]));
                    let t7: f32 = if t6 < 0 {
                        return Err(Fault("indices inside of the tensor"));
                    } else {
                        area[t6 as usize]
                    };
                    let t8 = place(plan.dims_area, List::of(&[r]));
                    let t9: f32 = if t8 < 0 {
                        return Err(Fault("indices inside of the tensor"));
                    } else {
                        area[t8 as usize]
                    };
                    let t10 = place(plan.dims_common, List::of(&[s, r]));
                    let t11: f32 = if t10 < 0 {
                        return Err(Fault("indices inside of the tensor"));
                    } else {
                        common[t10 as usize]
                    };
                    is_dropped |= t5 > ((plan.threshold as f32) * ((t7 + t9) - t11));
                }
                if is_dropped {
                    continue;
                }
                part_2[found] = best;
                found += 1;
            }
            plan.dims_part_2 = List::of(&[found as i64]);
        }
        {
            plan.dims_kept = list_dims(plan.dims_part_2)?;
        }
        {
            for (number, to) in kept.iter_mut().enumerate().take(plan.dims_kept.size()) {
                *to = element_of_kept(&plan, number, |at| Ok::<_, Fault>(part_2[at]))? as i32;
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{DType, Dim, Shape};
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn a_small_node_is_as_the_reference_says() {
        #[rustfmt::skip]
        let outputs = Bench::kernel(KERNEL)
            .input(tensor(&[2, 4], &[1.5f32, -0.5, 0.25, 2.0, -1.25, 0.75, 3.0, -2.5]))
            .input(tensor(&[2], &[1.5f32, -0.5]))
            .float("threshold", 0.5)
            .int("limit", 100)
            .output(DType::I32, Shape::of_dims(&[Dim::UpTo(2)]).unwrap())
            .all();
        let wanted_0 = &[0.0];
        assert_eq!(outputs[0].dims(), [1]);
        assert_near(&outputs[0].values::<i32>(), wanted_0, 1e-7);
    }
}
