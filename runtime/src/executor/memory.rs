//! The memory of a session: arenas and scratch, owned or shared, and what it charges to the devices' heaps.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use super::{PlanMemoryError, SessionError};
use udo_compile::plan::{Place, Plan, PlanLayout, Step};
use udo_engine::cores::{Memory, PerMemory};
use udo_engine::device::{Charge, Device, Share, SharedCharges};
use udo_engine::run::{SharedWorkspace, UseWorkspace};
use udo_graph::memory::{ALIGN_BYTES, Budget, Buffer};

/// The sources of a session's memory: the devices that hold values, and a workspace that is shared with other sessions.
#[derive(Clone, Debug)]
pub(crate) struct MemorySource {
    pub(crate) devices: PerMemory<Device>,
    pub(crate) workspace: Option<SharedWorkspace>,
}

/// The memory of one plan. Buffers of a shared workspace are only accessed during the session's turn.
pub(super) struct PlanMemory {
    pub(super) arenas: PerMemory<Buffer>,
    pub(super) scratch: PerMemory<Buffer>,
    /// The memory for inputs and outputs if arenas are shared, one after another.
    pub(super) ports: Option<Buffer>,
    pub(super) held: Charges,
}

/// Charges and memory that are released when a session is dropped.
#[derive(Debug, Default)]
pub(super) struct Charges {
    #[expect(dead_code, reason = "it counts until it is dropped")]
    own: Vec<Charge>,
    constants: Vec<SharedCharges>,
    #[expect(dead_code, reason = "the memory is there until it is dropped")]
    shares: Vec<Share>,
}

/// Returns the bytes of inputs and outputs, each aligned to 64.
pub(super) fn port_bytes(plan: &Plan) -> usize {
    let bytes = plan.movable.iter().map(|movable| aligned(movable.bytes));
    bytes.fold(0, usize::saturating_add)
}

pub(super) fn aligned(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(ALIGN_BYTES).unwrap_or(usize::MAX)
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl MemorySource {
    /// Allocates the memory of `plan`.
    pub(super) fn take(&self, plan: &Plan, budget: &Budget) -> Result<PlanMemory, PlanMemoryError> {
        let constants = constants(plan, &self.devices)?;
        let shared = self.workspace.as_ref().filter(|_| plan.may_share());
        let mut taken = match shared {
            Some(workspace) => self.share(plan, budget, workspace)?,
            None => self.own(plan, budget)?,
        };
        taken.held.constants = constants;
        Ok(taken)
    }

    fn own(&self, plan: &Plan, budget: &Budget) -> Result<PlanMemory, PlanMemoryError> {
        let filled = |bytes| {
            let mut buffer = budget.zeroed(bytes)?;
            // Touches the pages now, so that the first run does not wait for them.
            buffer.populate();
            if plan.fill != 0 {
                buffer.bytes_mut().fill(plan.fill);
            }
            Ok(buffer)
        };
        let arenas = plan.arena_bytes.try_map(&filled);
        let (arenas, scratch) = arenas
            .and_then(|arenas| Ok((arenas, plan.scratch_bytes.try_map(&filled)?)))
            .map_err(|memory| SessionError::new(plan, memory))?;
        let mut charges = Vec::new();
        for memory in Memory::ALL {
            let mut bytes = plan.arena_bytes[memory].saturating_add(plan.scratch_bytes[memory]);
            if memory == Memory::Host {
                bytes = plan.geometry().fold(bytes, |sum, (_, more)| sum.saturating_add(more));
            }
            if bytes > 0 {
                charges.push(Charge::take(&self.devices[memory], count(bytes), "workspace")?);
            }
        }
        let held = Charges { own: charges, ..Charges::default() };
        Ok(PlanMemory { arenas, scratch, ports: None, held })
    }

    fn share(
        &self,
        plan: &Plan,
        budget: &Budget,
        workspace: &SharedWorkspace,
    ) -> Result<PlanMemory, PlanMemoryError> {
        let geometry = plan.geometry().fold(0, |sum: usize, (_, bytes)| sum.saturating_add(bytes));
        let bytes = port_bytes(plan);
        let ports = budget.zeroed(bytes).map_err(|memory| SessionError::new(plan, memory))?;
        let own = count(bytes.saturating_add(geometry));
        let charges = vec![Charge::take(&self.devices[Memory::Host], own, "io")?];
        let mut shares = Vec::new();
        let mut lent = |memory: Memory| {
            let (arena, scratch) = (plan.arena_bytes[memory], plan.scratch_bytes[memory]);
            let behind = aligned(arena);
            let wanted = behind.saturating_add(scratch);
            if wanted == 0 {
                return Ok::<_, PlanMemoryError>((Buffer::zeroed(0), Buffer::zeroed(0)));
            }
            let (share, first) = workspace.memory().share(&self.devices[memory], count(wanted))?;
            shares.push(share);
            Ok((lend(first, arena), lend(first.wrapping_add(behind), scratch)))
        };
        let [host, gpu, dsp] = [lent(Memory::Host)?, lent(Memory::Gpu)?, lent(Memory::Dsp)?];
        let of = |[host, gpu, dsp]: [_; 3]| {
            let mut all = [Some(host), Some(gpu), Some(dsp)].into_iter().flatten();
            PerMemory::from_fn(|_| all.next())
                .try_map(|buffer| buffer.unwrap_or_else(|| Buffer::zeroed(0)))
        };
        let arenas =
            of([host.0, gpu.0, dsp.0]).map_err(|memory| SessionError::new(plan, memory))?;
        let scratch =
            of([host.1, gpu.1, dsp.1]).map_err(|memory| SessionError::new(plan, memory))?;
        let held = Charges { own: charges, shares, ..Charges::default() };
        Ok(PlanMemory { arenas, scratch, ports: Some(ports), held })
    }
}

/// Returns the bytes of a shared workspace from `first` on.
fn lend(first: *mut u8, len: usize) -> Result<Buffer, udo_graph::memory::OutOfMemory> {
    match NonNull::new(first).filter(|_| len > 0) {
        // SAFETY: the share has as many zeroed or written bytes there and is held beside the buffer; whoever shares
        // them accesses them only during its turn.
        Some(first) => Ok(unsafe { Buffer::lent(first, len) }),
        None => Buffer::zeroed(0),
    }
}

/// Charges the constants that steps read to the memories in which they read them. Sessions with the same constants
/// share the charge.
fn constants(
    plan: &Plan,
    devices: &PerMemory<Device>,
) -> Result<Vec<SharedCharges>, PlanMemoryError> {
    let mut of = PerMemory::from_fn(|_| BTreeMap::<usize, u64>::new());
    for step in &plan.steps {
        let all = &mut of[Memory::for_core(step.core)];
        let read = step.inputs.iter().filter_map(|operand| match &operand.place {
            Some(Place::Constant(tensor)) => Some(tensor.bytes()),
            Some(Place::Window(_) | Place::Device(_)) | None => None,
        });
        let packed = packed(step);
        for bytes in read.chain(packed) {
            all.insert(bytes.as_ptr().addr(), count(bytes.len()));
        }
    }
    let charged = Memory::ALL.into_iter().filter(|&memory| !of[memory].is_empty());
    let charge = |memory: Memory| {
        let all = of[memory].iter().map(|(&at, &bytes)| (at, bytes));
        Ok(SharedCharges::take(&devices[memory], all, "constants")?)
    };
    charged.map(charge).collect()
}

fn packed(step: &Step) -> impl Iterator<Item = &[u8]> {
    step.kernel.packed().iter().map(|buffer| buffer.bytes())
}
