//! Broadcasting of a node's operands, planned in finalize or in each run.

use udo_api::{Error, ExecError, FinalizeCx, Io, Status};

use super::Broadcast;

/// Returns how the first `N` inputs broadcast, or `None` if an extent is known only in the run.
pub(super) fn plan<const N: usize>(cx: &FinalizeCx<'_>) -> Result<Option<Broadcast<N>>, Error> {
    let inputs = (0..N).map(|port| cx.input(port)).collect::<Result<Vec<_>, _>>()?;
    if inputs.iter().any(|input| !input.full_shape().is_fixed()) {
        return Ok(None);
    }
    let plan = Broadcast::from_shapes(std::array::from_fn(|port| inputs[port].shape()));
    plan.map(Some).ok_or_else(|| {
        let shapes: Vec<_> = inputs.iter().map(|input| input.full_shape().to_string()).collect();
        Error::new(format!("shapes {} do not broadcast", shapes.join(" and ")))
    })
}

/// The execute function of a kernel, for given types of its `N` operands.
pub(crate) type Run<const N: usize = 2> = fn(&Broadcast<N>, &mut Io<'_>) -> Result<(), ExecError>;

/// Calls `run` with the plan from finalize if there is one, else with a plan for the shapes of this run.
#[inline]
pub(super) fn run_with<const N: usize>(
    fixed: Option<&Broadcast<N>>,
    mut io: Io<'_>,
    run: impl Fn(&Broadcast<N>, &mut Io<'_>) -> Result<(), ExecError>,
) -> Result<(), ExecError> {
    match fixed {
        Some(plan) => run(plan, &mut io),
        None => run_bounded(io, run),
    }
}

#[cold]
fn run_bounded<const N: usize>(
    mut io: Io<'_>,
    run: impl Fn(&Broadcast<N>, &mut Io<'_>) -> Result<(), ExecError>,
) -> Result<(), ExecError> {
    let mut shapes: [&[usize]; N] = [&[]; N];
    for (port, shape) in shapes.iter_mut().enumerate() {
        *shape = io.inputs.shape(port)?;
    }
    let plan = Broadcast::from_shapes(shapes).ok_or(ExecError::new(Status::BAD_VALUE))?;
    run(&plan, &mut io)?;
    io.outputs.set_shape(0, plan.shape())
}
