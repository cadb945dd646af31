//! Sessions that threads have together.

use std::mem::MaybeUninit;
use std::num::NonZero;
use std::sync::Arc;

use udo_runtime::device::Result;
use udo_runtime::session as runs;

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

/// Sessions of one model, for servers: any thread submits, and each run goes to the first session that is free. Threads share it.
#[derive(Debug)]
pub struct SessionPool(runs::SessionPool, pub(crate) Born);

handles! {
    NetworkPool, born;
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

/// Takes the memory that runs of all known shapes need, those of all stages of the model, which the first such run takes otherwise. It
/// is refused with `UDO_ERROR_BUSY` while submitted runs have some of it.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_pool_reserve(pool: Option<&SessionPool>) -> Option<Box<Error>> {
    guard(|| live(pool, "pool")?.0.reserve())
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

/// Sessions of a network, for servers: any thread submits, and each run goes to the first session that is free and takes the stage for
/// the shapes of its inputs. Threads share it. An older form of `udo_session_pool_t`, which takes a model of all stages.
#[derive(Debug)]
pub struct NetworkPool {
    inner: runs::SessionPool,
    /// Those of a network of one stage, which takes as many elements in another shape.
    fits: Option<Arc<Ports>>,
    pub(crate) born: Born,
}

/// Makes `count` sessions of a network, each with as many frames and as much depth as the options say. What a stage needs is taken when
/// a run first wants it, or in `udo_network_pool_reserve`. A submission beyond all sessions is refused with `UDO_ERROR_BUSY`. An older
/// form of `udo_network_model_of_stages` and `udo_session_pool_create`.
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

/// As `udo_session_pool_reserve`, of which it is an older form.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_reserve(pool: Option<&NetworkPool>) -> Option<Box<Error>> {
    guard(|| live(pool, "pool")?.inner.reserve())
}

/// As `udo_session_pool_submit`, of which it is an older form.
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

/// Releases a pool; NULL is fine. Runs that are in flight go on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_pool_release(pool: Option<Box<NetworkPool>>) {
    release(pool);
}
