//! Sessions that threads have together.

use std::mem::MaybeUninit;
use std::num::NonZero;
use std::sync::Arc;

use udo_engine::device::Result;

use crate::argument::{invalid, need};
use crate::born::{Born, handles, live};
use crate::error::Error;
use crate::ffi::{guard, hand_out, release};
use crate::model::Model;
use crate::network::Network;
use crate::ports::Ports;
use crate::run::{Run, RunOptionsAt, run_options};
use crate::session::{self, SessionOptionsAt};
use crate::tensor::{RunTensors, TensorPlaces, Tensors};

/// Sessions of one model, for servers. Any thread submits runs, and each run uses the first free
/// session. Threads may share it.
#[derive(Debug)]
pub struct SessionPool(udo_runtime::SessionPool, pub(crate) Born);

handles! {
    NetworkPool, born;
    SessionPool, 1;
}

fn sessions(count: u32) -> Result<NonZero<usize>> {
    let count = usize::try_from(count).ok().and_then(NonZero::new);
    count.ok_or_else(|| invalid("count is 0; expected one session at least"))
}

/// Creates `count` sessions of a model, each with the frames and depth of the options, and
/// allocates their memory. A submission that exceeds them all is refused with `UDO_ERROR_BUSY`.
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

/// Allocates the memory for runs of all known shapes, those of all stages of the model, which
/// otherwise the first such run does. It is refused with `UDO_ERROR_BUSY` while submitted runs use
/// some of the memory.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_pool_reserve(pool: Option<&SessionPool>) -> Option<Box<Error>> {
    guard(|| live(pool, "pool")?.0.reserve())
}

/// Submits a run to any free session, like `udo_session_submit`, and returns at once.
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

/// Releases a pool. NULL is allowed. Runs in flight continue.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_pool_release(pool: Option<Box<SessionPool>>) {
    release(pool);
}

/// Sessions of a network, for servers. Any thread submits runs. Each run uses the first free
/// session and the stage for the shapes of its inputs. Threads may share it. Prefer
/// `udo_session_pool_t` with a model of all stages.
#[derive(Debug)]
pub struct NetworkPool {
    inner: udo_runtime::SessionPool,
    /// Those of a network of one stage, which takes as many elements in another shape.
    fits: Option<Arc<Ports>>,
    pub(crate) born: Born,
}

/// Creates `count` sessions of a network, each with the frames and depth of the options. The memory
/// of a stage is allocated by its first run, or by `udo_network_pool_reserve`. A submission that
/// exceeds all sessions is refused with `UDO_ERROR_BUSY`. Prefer `udo_network_model_of_stages` and
/// `udo_session_pool_create`.
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
        let fits = (network.inner.stage_count() == 1).then(|| Arc::clone(network.ports()));
        let inner = network.inner.model()?.pool(count, &options)?;
        hand_out(out, NetworkPool { inner, fits, born: Born::here() });
        Ok(())
    })
}

/// Like `udo_session_pool_reserve`, which new programs should use.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_reserve(pool: Option<&NetworkPool>) -> Option<Box<Error>> {
    guard(|| live(pool, "pool")?.inner.reserve())
}

/// Like `udo_session_pool_submit`, which new programs should use.
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
        let run = match &pool.fits {
            Some(ports) => {
                let inputs = session::fit(&ports.inputs, &tensors.inputs)?;
                pool.inner.submit(&inputs, &tensors.outputs, options)?
            }
            None => pool.inner.submit(&tensors.inputs, &tensors.outputs, options)?,
        };
        hand_out(out, Run(run, Born::here()));
        Ok(())
    })
}

/// Releases a pool. NULL is allowed. Runs in flight continue.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_release(pool: Option<Box<NetworkPool>>) {
    release(pool);
}
