//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config ecfc21a161c33c9e
//!
//! GridWarp on the CPU.
//!
//!     # Pixels at places between -1 and 1, of the four around.
//!     require rank(image) == 4 and rank(grid) == 4 and dim(grid, 0) == dim(image, 0) and dim(grid, 3) == 2, "x and y for each pixel of each image"
//!     require outside == "fill" or outside == "border", "outside to be fill or border"
//!     require size(fill) == 1, "one number to fill with"
//!     warped[n < dim(image, 0), i < dim(grid, 1), j < dim(grid, 2), c < dim(image, 3)] =
//!         let x = ((grid[n, i, j, 0] + 1) * dim(image, 2) - 1) / 2 in
//!         let y = ((grid[n, i, j, 1] + 1) * dim(image, 1) - 1) / 2 in
//!         let u = if outside == "border" then clamp(x, 0, dim(image, 2) - 1) else x in
//!         let v = if outside == "border" then clamp(y, 0, dim(image, 1) - 1) else y in
//!         let left = int(floor(u)) in let right = u - left in
//!         let top = int(floor(v)) in let down = v - top in
//!         let above = (1 - right) * image[n, top, left, c else fill[0]] + right * image[n, top, left + 1, c else fill[0]] in
//!         let below = (1 - right) * image[n, top + 1, left, c else fill[0]] + right * image[n, top + 1, left + 1, c else fill[0]] in
//!         (1 - down) * above + down * below

use udo_api::{
    Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, Workspace, input, output,
    types,
};

pub(crate) const KERNEL: KernelDef =
    KernelDef::new::<GridWarpF32>("GridWarp", Core::CPU).ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32),
    input(1, types::F32),
    output(0, types::F32),
];

/// A first kernel: correct, but slow, because it loops over single elements. Make it fast; its test
/// compares it with the reference.
struct GridWarpF32 {
    loops: loops::Kept,
}

impl Kernel for GridWarpF32 {
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
    use crate::formulas::grid_warp::{Plan, element_of_warped, of_node};
    use crate::reference::Fault;

    /// The state from finalize.
    pub struct Kept {
        plan: Plan,
        list_0: Reals,
    }

    impl Kept {
        pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self {
                plan: of_node(cx)?,
                list_0: cx.floats("fill")?.iter().map(|value| *value as f32).collect::<Reals>(),
            })
        }

        pub fn workspace(&self) -> Workspace {
            Workspace::NONE
        }

        pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
            let Io { inputs, mut outputs, .. } = io;
            let input_0 = inputs.get::<f32>(0)?;
            let input_1 = inputs.get::<f32>(1)?;
            let output_0 = outputs.take::<f32>(0)?;
            execute(&self.plan, input_0, input_1, &self.list_0, output_0)?;
            Ok(())
        }
    }

    type Reals = Box<[f32]>;

    pub fn execute(
        plan: &Plan,
        image: &[f32],
        grid: &[f32],
        fill: &[f32],
        warped: &mut [f32],
    ) -> Result<Plan, Fault> {
        let plan = *plan;
        {
            for (number, to) in warped.iter_mut().enumerate().take(plan.dims_warped.size()) {
                *to = element_of_warped(&plan, number, |at| Ok::<_, Fault>(grid[at]), |at| Ok(image[at]), |at| Ok(fill[at]))?;
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
            .input(tensor(&[1, 2, 2, 1], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[1, 1, 2, 2], &[1.5f32, -0.5, 0.25, 2.0]))
            .text("outside", "fill")
            .floats("fill", &[0.0])
            .output_of::<f32>(&[1, 1, 2, 1])
            .all();
        let wanted_0 = &[0.0, 0.0];
        assert_eq!(outputs[0].dims(), [1, 1, 2, 1]);
        assert_near(&outputs[0].values::<f32>(), wanted_0, 1e-7);
    }
}
