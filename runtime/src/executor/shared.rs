//! Inputs and outputs that a run has in one place, where the plan says that they may be.

use udo_api::InPlace;

use super::Executor;
use super::extents::SharedArg;
use udo_compile::plan::SharedPlace;

/// The two tensors of a step that are one while a run has them in one place, each with the other one's port.
pub(super) struct Replaced {
    of: SharedPlace,
    sides: [(usize, u16); 2],
    is_one: bool,
}

impl Replaced {
    fn set(&mut self, is_one: bool, tensors: &[SharedArg]) {
        if self.is_one == is_one {
            return;
        }
        self.is_one = is_one;
        for (tensor, other) in self.sides {
            if let Some(arg) = tensors.get(tensor) {
                arg.pair_with(Some(other).filter(|_| is_one));
            }
        }
    }
}

impl Executor {
    /// The steps that work in place for pairs that a run has in one place.
    pub(super) fn lay_replaced(&mut self) {
        for &of in &self.plan.shared {
            let Some((step, InPlace { input, output })) = of.step else { continue };
            let (Some(at), Some(&first)) = (self.plan.steps.get(step), self.first_tensor.get(step))
            else {
                continue;
            };
            let from = first + usize::from(input);
            let to = first + at.inputs.len() + usize::from(output);
            let sides = [(from, output), (to, input)];
            self.replaced.push(Replaced { of, sides, is_one: false });
        }
    }

    /// Has kernels see the tensors of all pairs as two.
    pub(super) fn set_apart(&mut self) {
        for replaced in &mut self.replaced {
            replaced.set(false, &self.tensors);
        }
    }

    /// Has a kernel that reads an input as it writes an output see that they are one.
    pub(super) fn join(&mut self, of: SharedPlace) {
        for replaced in self.replaced.iter_mut().filter(|replaced| replaced.of == of) {
            replaced.set(true, &self.tensors);
        }
    }
}
