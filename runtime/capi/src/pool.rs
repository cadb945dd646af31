//! Sessions that threads have together.

use std::mem::MaybeUninit;
use std::num::NonZero;

use udo_runtime::device::Result;
use udo_runtime::{model, network};

use crate::argument::{invalid, need};
use crate::born::{Born, handles, live};
use crate::error::Error;
use crate::ffi::{guard, hand_out, release};
use crate::model::Model;
use crate::network::Network;
use crate::run::{Run, RunOptionsAt, run_options};
use crate::session::{self, SessionOptionsAt};
use crate::tensor::{RunTensors, TensorPlaces, Tensors};

/// Sessions of one model, for servers: any thread submits, and each run goes to the first session that is free. Threads share it.
#[derive(Debug)]
pub struct SessionPool(model::SessionPool, pub(crate) Born);

handles! {
    NetworkPool, 1;
    SessionPool, 1;
}

fn sessions(count: u32) -> Result<NonZero<usize>> {
    let count = usize::try_from(count).ok().and_then(NonZero::new);
    count.ok_or_else(|| invalid("count is 0; wanted one session at least"))
}

/// Makes `count` sessions of a model, each with as many frames and as much depth as the options say, and takes their memory. A
/// submission beyond all of them is refused with `UDO_ERROR_BUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_pool_create(
    model: Option<&Model>,
    options: SessionOptionsAt,
    count: u32,
    out: Option<&mut MaybeUninit<Option<Box<SessionPool>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        let (options, count) = (session::options(options)?, sessions(count)?);
        hand_out(out, SessionPool(model.inner.pool(count, &options)?, Born::here()));
        Ok(())
    })
}

/// Submits a run as `udo_session_submit` does, of whichever session is free, and returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_pool_submit(
    pool: Option<&SessionPool>,
    inputs: Tensors,
    input_count: usize,
    outputs: TensorPlaces,
    output_count: usize,
    options: RunOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Run>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (pool, out) = (live(pool, "pool")?, need(out, "out")?);
        let tensors = RunTensors { inputs, input_count, outputs, output_count }.get()?;
        let options = run_options(options)?;
        hand_out(
            out,
            Run(pool.0.submit(&tensors.inputs, &tensors.outputs, options)?, Born::here()),
        );
        Ok(())
    })
}

/// Releases a pool; NULL is fine. Runs that are in flight go on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_pool_release(pool: Option<Box<SessionPool>>) {
    release(pool);
}

/// Sessions of a network, for servers: any thread submits, and each run goes to the first session that is free of the stage for the
/// shapes of its inputs. Threads share it.
#[derive(Debug)]
pub struct NetworkPool(network::NetworkPool, pub(crate) Born);

/// Makes `count` sessions of each stage of a network, each with as many frames and as much depth as the options say. Those of a stage
/// take their memory when a run first wants it, or in `udo_network_pool_reserve`. A submission beyond all sessions of its stage is
/// refused with `UDO_ERROR_BUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_create(
    network: Option<&Network>,
    options: SessionOptionsAt,
    count: u32,
    out: Option<&mut MaybeUninit<Option<Box<NetworkPool>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        let (options, count) = (session::options(options)?, sessions(count)?);
        hand_out(out, NetworkPool(network.inner.pool(count, &options)?, Born::here()));
        Ok(())
    })
}

/// Makes the sessions of all stages, whose memory the first runs take otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_reserve(pool: Option<&NetworkPool>) -> Option<Box<Error>> {
    guard(|| live(pool, "pool")?.0.reserve())
}

/// Submits a run as `udo_session_submit` does, of whichever session is free of the stage that `udo_network_stage_for` finds, and
/// returns at once: but for the first run of a stage, which makes its sessions.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_submit(
    pool: Option<&NetworkPool>,
    inputs: Tensors,
    input_count: usize,
    outputs: TensorPlaces,
    output_count: usize,
    options: RunOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Run>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (pool, out) = (live(pool, "pool")?, need(out, "out")?);
        let tensors = RunTensors { inputs, input_count, outputs, output_count }.get()?;
        let options = run_options(options)?;
        hand_out(
            out,
            Run(pool.0.submit(&tensors.inputs, &tensors.outputs, options)?, Born::here()),
        );
        Ok(())
    })
}

/// Releases a pool; NULL is fine. Runs that are in flight go on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_release(pool: Option<Box<NetworkPool>>) {
    release(pool);
}
