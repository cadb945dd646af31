//! Runs beside their caller.

use std::mem::MaybeUninit;
use std::time::Duration;

use udo_engine::device::Result;
use udo_engine::run::{self, Callback};

use crate::argument::need;
use crate::born::{Born, handles, live};
use crate::codes::{PriorityCode, priority};
use crate::cores::listed;
use crate::error::Error;
use crate::ffi::{
    HandleAt, Indices, Options, OptionsAt, User, guard, hand_out, named_pointers, release,
};
use crate::handles::Device;
use crate::tensor::Tensor;

/// A submitted run. Threads may share it, and any of them may wait for it. Releasing it does not
/// affect the run.
#[derive(Debug)]
pub struct Run(pub(crate) run::Run, pub(crate) Born);

/// A recorded launch. Threads may share it. It can be in flight only once at a time.
#[derive(Debug)]
pub struct Launch(pub(crate) run::Launch, pub(crate) Born);

/// A queue of runs that start one after the other. Threads may share it.
#[derive(Debug)]
pub struct Stream(run::Stream, pub(crate) Born);

/// Memory that sessions share in turns. Threads may share it.
#[derive(Debug)]
pub struct Workspace(pub(crate) run::SharedWorkspace, pub(crate) Born);

/// Copies that a run made between its tensors and the memory of its session. It uses other tensors
/// in place.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// Number of inputs copied.
    pub inputs: usize,
    /// Number of outputs copied.
    pub outputs: usize,
    /// Bytes copied.
    pub bytes: u64,
}

/// Called when a run has ended and before waiting threads continue, on a thread of the library. The
/// arguments are the `user` pointer of the run and NULL or the error, which lives until the call
/// returns. The callback may submit runs, also to the run's own session and before the submission
/// has returned, and release handles. It must not wait for runs; that is refused with
/// `UDO_ERROR_INVALID_STATE`.
pub type DoneFn = Option<extern "C" fn(user: User, error: Option<&Error>)>;

/// Options of a submitted run. NULL or zeros select the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct RunOptions {
    /// `sizeof(udo_run_options_t)`.
    pub size: usize,
    /// Timeout in nanoseconds from submission to end; 0 means none. A run that takes longer is told
    /// to stop, and keeps its tensors until it does.
    pub timeout_ns: u64,
    /// The priority; 0 means that of the model.
    pub priority: PriorityCode,
    /// The stream, whose runs start one after the other; NULL means none.
    pub stream: StreamAt,
    /// Called exactly once for each submission; NULL means no callback.
    pub on_done: DoneFn,
    /// The argument of the callback.
    pub user: User,
    /// The numbers of the cores of the session's device to run on; NULL means those of the session.
    pub cores: Indices,
    /// Length of the array above.
    pub core_count: usize,
}

handles! {
    Launch, 1;
    Run, 1;
    Stream, 1;
    Workspace, 1;
}

named_pointers! {
    /// A stream, or NULL.
    StreamAt(HandleAt<Stream>);
    /// A workspace, or NULL.
    WorkspaceAt(HandleAt<Workspace>);
    /// Options, or NULL.
    RunOptionsAt(OptionsAt<RunOptions>);
}

// SAFETY: its fields are a size, numbers and pointers, of which that of a function may be NULL.
unsafe impl Options for RunOptions {}

/// The options as the runtime has them.
pub(crate) fn run_options(asked: RunOptionsAt) -> Result<run::RunOptions> {
    let asked = asked.get()?;
    let (on_done, user) = (asked.on_done, asked.user);
    Ok(run::RunOptions {
        timeout: Some(asked.timeout_ns).filter(|&ns| ns > 0).map(Duration::from_nanos),
        priority: priority(asked.priority)?,
        cores: listed(asked.cores, asked.core_count)?,
        stream: asked.stream.get("options.stream")?.map(|stream| stream.0.clone()),
        on_done: on_done.map(|call| callback(call, user)),
    })
}

/// A function of C as the runtime calls it.
fn callback(call: extern "C" fn(User, Option<&Error>), user: User) -> Callback {
    Box::new(move |outcome| {
        // All of it, and not the pointer in it, goes to another thread.
        let user: User = user;
        let error = outcome.as_ref().err().map(|error| Error::from(error.clone()));
        call(user, error.as_ref());
    })
}

/// Submits a recorded launch, and returns at once. It must not be in flight.
#[unsafe(no_mangle)]
pub extern "C" fn udo_launch_submit(
    launch: Option<&Launch>,
    out: Option<&mut MaybeUninit<Option<Box<Run>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (launch, out) = (live(launch, "launch")?, need(out, "out")?);
        hand_out(out, Run(launch.0.submit()?, Born::here()));
        Ok(())
    })
}

/// Releases a launch. NULL is allowed. Its run in flight continues.
#[unsafe(no_mangle)]
pub extern "C" fn udo_launch_release(launch: Option<Box<Launch>>) {
    release(launch);
}

/// Waits for the end of a run, any number of times, and returns its error, if it failed:
/// `UDO_ERROR_TIMEOUT` if its time limit expired, `UDO_ERROR_CANCELLED`, `UDO_ERROR_DEVICE_LOST`,
/// or an error of its inputs or kernels.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_wait(run: Option<&Run>) -> Option<Box<Error>> {
    guard(|| live(run, "run")?.0.wait())
}

/// Waits at most this number of nanoseconds for the end of a run. `UDO_ERROR_TIMEOUT` means that
/// the run continues, unless `udo_run_is_done` is true: then the run's own time limit expired.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_wait_timeout(run: Option<&Run>, timeout_ns: u64) -> Option<Box<Error>> {
    guard(|| live(run, "run")?.0.wait_timeout(Duration::from_nanos(timeout_ns)))
}

/// Returns whether a run, including its callback, has ended.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_is_done(
    run: Option<&Run>,
    out: Option<&mut MaybeUninit<bool>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (run, out) = (live(run, "run")?, need(out, "out")?);
        out.write(run.0.is_done());
        Ok(())
    })
}

/// Asks a run to stop: at once if it has not started, otherwise between two of its steps. No effect
/// if it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_cancel(run: Option<&Run>) -> Option<Box<Error>> {
    guard(|| {
        live(run, "run")?.0.cancel();
        Ok(())
    })
}

/// Returns an output of a run that succeeded, as a tensor with the shape that the run set. Its
/// memory is that of the output given to the run, or memory of the session's device, which the next
/// run of the same launch overwrites. A run that has not ended is refused with `UDO_ERROR_BUSY`. A
/// run that failed, was cancelled, timed out or lost its device, or whose launch was submitted
/// again, is refused with `UDO_ERROR_INVALID_STATE`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_output(
    run: Option<&Run>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<Tensor>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (run, out) = (live(run, "run")?, need(out, "out")?);
        hand_out(out, Tensor(run.0.output(index)?, Born::here()));
        Ok(())
    })
}

/// Returns the copies of inputs and outputs that an ended run made.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_copies(
    run: Option<&Run>,
    out: Option<&mut MaybeUninit<Copies>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (run, out) = (live(run, "run")?, need(out, "out")?);
        let run::Copies { inputs, outputs, bytes } = run.0.copies()?;
        out.write(Copies { inputs, outputs, bytes });
        Ok(())
    })
}

/// Releases a run. NULL is allowed. The run continues.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_release(run: Option<Box<Run>>) {
    release(run);
}

/// Creates a stream.
#[unsafe(no_mangle)]
pub extern "C" fn udo_stream_create(
    out: Option<&mut MaybeUninit<Option<Box<Stream>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        hand_out(need(out, "out")?, Stream(run::Stream::default(), Born::here()));
        Ok(())
    })
}

/// Waits until all runs submitted to a stream before this call have ended. Returns the error of the
/// first of them that failed and that no earlier wait has covered. All threads that wait for it get
/// the error.
#[unsafe(no_mangle)]
pub extern "C" fn udo_stream_sync(stream: Option<&Stream>) -> Option<Box<Error>> {
    guard(|| live(stream, "stream")?.0.sync())
}

/// Returns whether runs of a stream are in flight.
#[unsafe(no_mangle)]
pub extern "C" fn udo_stream_is_busy(
    stream: Option<&Stream>,
    out: Option<&mut MaybeUninit<bool>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (stream, out) = (live(stream, "stream")?, need(out, "out")?);
        out.write(stream.0.is_busy());
        Ok(())
    })
}

/// Releases a stream. NULL is allowed. Its runs continue.
#[unsafe(no_mangle)]
pub extern "C" fn udo_stream_release(stream: Option<Box<Stream>>) {
    release(stream);
}

/// Creates a workspace for sessions to share: memory for the largest of them, used by one run at a
/// time.
#[unsafe(no_mangle)]
pub extern "C" fn udo_workspace_create(
    out: Option<&mut MaybeUninit<Option<Box<Workspace>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        hand_out(need(out, "out")?, Workspace(run::SharedWorkspace::default(), Born::here()));
        Ok(())
    })
}

/// Returns the bytes of a workspace on a device.
#[unsafe(no_mangle)]
pub extern "C" fn udo_workspace_bytes(
    workspace: Option<&Workspace>,
    device: Option<&Device>,
    out: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (workspace, device) = (live(workspace, "workspace")?, live(device, "device")?);
        need(out, "out")?.write(workspace.0.bytes(&device.inner));
        Ok(())
    })
}

/// Releases a handle of a workspace. NULL is allowed. Sessions that share it continue.
#[unsafe(no_mangle)]
pub extern "C" fn udo_workspace_release(workspace: Option<Box<Workspace>>) {
    release(workspace);
}
