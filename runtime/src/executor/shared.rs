//! Inputs and outputs that a run binds to the same memory, where the plan supports it.

use udo_api::InPlace;

use super::Executor;
use super::extents::SharedArg;
use udo_compile::plan::SharedPlace;

/// The tensors of a step that form an in-place pair while a run binds both to the same memory, each with the port of
/// the other.
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
    /// Finds the steps that work in place for such pairs.
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

    /// Presents the tensors of all pairs to kernels as separate.
    pub(super) fn set_apart(&mut self) {
        for replaced in &mut self.replaced {
            replaced.set(false, &self.tensors);
        }
    }

    /// Presents an input and an output to a kernel as an in-place pair.
    pub(super) fn join(&mut self, of: SharedPlace) {
        for replaced in self.replaced.iter_mut().filter(|replaced| replaced.of == of) {
            replaced.set(true, &self.tensors);
        }
    }
}
