//! The launches of a GPU kernel, copied and checked.

use std::ffi::c_void;

use udo_api::abi::{GpuArg, GpuArgKind, GpuLaunch, GpuSink, GpuTable, read_block};
use udo_api::{Error, KernelInfo, Launch, Status};

use crate::{PlacedNode, Refusal};

/// The description received so far.
#[derive(Default)]
struct Description {
    info: KernelInfo,
    fault: Option<String>,
}

/// Returns how a device runs the kernel of `state`, which has `packed` packed constants.
///
/// # Errors
/// The kernel does not describe it, or the description is invalid.
///
/// # Safety
/// `state` must be from the finalize that belongs to `gpu`.
pub(crate) unsafe fn info(
    gpu: &GpuTable,
    state: *const c_void,
    placed: &PlacedNode<'_>,
    packed: usize,
) -> Result<KernelInfo, Refusal> {
    let mut description = Description::default();
    let sink = GpuSink {
        size: GpuSink::SIZE,
        reserved: 0,
        ctx: (&raw mut description).cast(),
        scratch,
        launch,
        reserved_words: [0; 4],
    };
    // SAFETY: the caller guarantees `state`; `sink` and its target outlive the call.
    let status = unsafe { (gpu.info)(state, &raw const sink) };
    let Description { info, fault } = description;
    let checked = match fault {
        Some(fault) => Err(fault),
        None if status != Status::OK.code() => {
            Err("the kernel does not describe how a device runs it".to_owned())
        }
        None => check(&info, gpu.work_items, placed, packed),
    };
    checked.map_err(|message| Refusal { status: Status::BAD_CALL, message })?;
    Ok(info)
}

// SAFETY: called only through the sink of `info`, whose `ctx` is a `Description`.
unsafe extern "C" fn scratch(ctx: *mut c_void, bytes: usize) -> u32 {
    // SAFETY: `ctx` is the `Description` that `info` owns during the call.
    let description = unsafe { &mut *ctx.cast::<Description>() };
    description.info.push_scratch(bytes);
    Status::OK.code()
}

// SAFETY: called only through the sink of `info`, whose `ctx` is a `Description`.
unsafe extern "C" fn launch(ctx: *mut c_void, launch: *const GpuLaunch) -> u32 {
    // SAFETY: `ctx` is the `Description` that `info` owns during the call.
    let description = unsafe { &mut *ctx.cast::<Description>() };
    // SAFETY: the package passes one launch for the call.
    let raw = unsafe { read_block(launch) };
    // SAFETY: its pointers are valid for the call.
    let copied = raw.map(|raw| unsafe { raw.to_launch() });
    match copied.unwrap_or_else(|| Err(Error::new("the launch has a size of no known version"))) {
        Ok(launch) => {
            description.info.push_launch(launch);
            Status::OK.code()
        }
        Err(error) => {
            let launch = description.info.launches.len();
            description.fault.get_or_insert_with(|| format!("launch {launch}: {error}"));
            Status::BAD_CALL.code()
        }
    }
}

/// Checks the launches.
fn check(
    info: &KernelInfo,
    work_items: u32,
    placed: &PlacedNode<'_>,
    packed: usize,
) -> Result<(), String> {
    let count = info.launches.len();
    if count == 0 {
        return Err("the kernel has no launches, expected at least one".to_owned());
    }
    if work_items != 0 && work_items as usize != count {
        return Err(format!("the kernel has {count} launches and work items for {work_items}"));
    }
    let counts = [placed.node.inputs.len(), placed.outputs.len(), info.scratch.len(), packed];
    let has_elements = placed.outputs.iter().any(|desc| !desc.is_absent() && !desc.is_empty());
    for (index, launch) in info.launches.iter().enumerate() {
        let fault = |fault| format!("launch {index} {fault}");
        check_sizes(launch, has_elements).map_err(fault)?;
        for (index, &arg) in launch.args.iter().enumerate() {
            check_arg(arg, counts).map_err(|why| fault(format!("has argument {index}: {why}")))?;
        }
    }
    Ok(())
}

fn check_sizes(launch: &Launch, has_elements: bool) -> Result<(), String> {
    let global = launch.global_size;
    if global.contains(&0) && has_elements {
        return Err(format!("has {global:?} work items, but an output has elements"));
    }
    match launch.local_size {
        Some(local) if local.contains(&0) => Err(format!("has groups of {local:?} work items")),
        Some(_) | None => Ok(()),
    }
}

fn check_arg(arg: GpuArg, [inputs, outputs, scratch, packed]: [usize; 4]) -> Result<(), String> {
    let (kind, index, count) = match arg.get() {
        None => return Err("of an unknown kind".to_owned()),
        Some(GpuArgKind::Local(0)) => return Err("local memory of 0 bytes".to_owned()),
        Some(
            GpuArgKind::I32(_) | GpuArgKind::U32(_) | GpuArgKind::F32(_) | GpuArgKind::Local(_),
        ) => return Ok(()),
        Some(GpuArgKind::Input(index)) => ("input", index, inputs),
        Some(GpuArgKind::Output(index)) => ("output", index, outputs),
        Some(GpuArgKind::Scratch(index)) => ("scratch", index, scratch),
        Some(GpuArgKind::Packed(index)) => ("packed constant", index, packed),
    };
    if (index as usize) < count {
        return Ok(());
    }
    Err(format!("{kind} {index}, but there are only {count}"))
}
