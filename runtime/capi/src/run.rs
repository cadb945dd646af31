//! Runs beside their caller.

use std::mem::MaybeUninit;
use std::time::Duration;

use udo_engine::run::{self, Callback};
use udo_runtime::device::Result;

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

/// A run that was submitted. Threads may share it, and any of them may wait for it. Releasing it changes nothing: the run goes
/// on, and keeps what it needs.
#[derive(Debug)]
pub struct Run(pub(crate) run::Run, pub(crate) Born);

/// A launch that was recorded. Threads may share it; it is in flight once at a time.
#[derive(Debug)]
pub struct Launch(pub(crate) run::Launch, pub(crate) Born);

/// Runs that begin one after the other. Threads may share it.
#[derive(Debug)]
pub struct Stream(run::Stream, pub(crate) Born);

/// Memory that sessions share, in turns. Threads may share it.
#[derive(Debug)]
pub struct Workspace(pub(crate) run::SharedWorkspace, pub(crate) Born);

/// What a run copied between its tensors and memory of its session. It uses the others where they lie.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// How many inputs were copied.
    pub inputs: usize,
    /// How many outputs were copied.
    pub outputs: usize,
    /// Bytes of both.
    pub bytes: u64,
}

/// What is called once a run has ended, before who waits for it goes on, on some thread of the library: with what was given
/// for it, and NULL or the error, which is there until the call returns. It may submit, to the run's own session as well, whether or not
/// the submission of the run has returned, and release; it must not wait for runs, which is refused with `UDO_ERROR_INVALID_STATE`.
pub type DoneFn = Option<extern "C" fn(user: User, error: Option<&Error>)>;

/// How a run is submitted. NULL in its place, or zeros, are the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct RunOptions {
    /// `sizeof(udo_run_options_t)`.
    pub size: usize,
    /// How many nanoseconds it may take from its submission to its end; 0 is for as many as it takes. One that takes longer is told
    /// to end, and keeps its tensors until it does.
    pub timeout_ns: u64,
    /// What matters most; 0 is for what the model says.
    pub priority: PriorityCode,
    /// Behind which other runs it begins; NULL is for none.
    pub stream: StreamAt,
    /// What is called exactly once for each submission; NULL is for nothing.
    pub on_done: DoneFn,
    /// What it is called with.
    pub user: User,
    /// The numbers of the cores that it is on, of the session's device; NULL is for what the session says.
    pub cores: Indices,
    /// How many there are.
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

/// Releases a launch; NULL is fine. A run of it that is in flight goes on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_launch_release(launch: Option<Box<Launch>>) {
    release(launch);
}

/// Waits for the end of a run, as often as wanted, and says how it failed, if it did: `UDO_ERROR_TIMEOUT` where its time was up,
/// `UDO_ERROR_CANCELLED`, `UDO_ERROR_DEVICE_LOST`, or what its inputs and kernels led to.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_wait(run: Option<&Run>) -> Option<Box<Error>> {
    guard(|| live(run, "run")?.0.wait())
}

/// Waits for the end of a run for so many nanoseconds at most. `UDO_ERROR_TIMEOUT` says that it goes on, unless
/// `udo_run_is_done` says that its own time was up.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_wait_timeout(run: Option<&Run>, timeout_ns: u64) -> Option<Box<Error>> {
    guard(|| live(run, "run")?.0.wait_timeout(Duration::from_nanos(timeout_ns)))
}

/// Whether a run has ended, its callback included.
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

/// Asks a run to end: at once where it has not begun, else between two of its steps. Nothing, if it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_cancel(run: Option<&Run>) -> Option<Box<Error>> {
    guard(|| {
        live(run, "run")?.0.cancel();
        Ok(())
    })
}

/// An output of a run that has ended well, as a tensor in the shape that the run gave it. It lies where the output given to the
/// run does, or in memory of the session's device, which the next run of the same launch writes again. One that has not ended is
/// refused with `UDO_ERROR_BUSY`; one that failed, was cancelled, timed out or lost its device with `UDO_ERROR_INVALID_STATE`, and so is
/// one whose launch was submitted again since.
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

/// What a run that has ended copied of its inputs and outputs.
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

/// Releases a run; NULL is fine. It goes on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_run_release(run: Option<Box<Run>>) {
    release(run);
}

/// Makes a stream.
#[unsafe(no_mangle)]
pub extern "C" fn udo_stream_create(
    out: Option<&mut MaybeUninit<Option<Box<Stream>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        hand_out(need(out, "out")?, Stream(run::Stream::new(), Born::here()));
        Ok(())
    })
}

/// Waits until all runs have ended that were submitted to a stream before. The error is that of the first of them that failed, of
/// those behind the ones that somebody waited for before; everybody who waits for it gets it.
#[unsafe(no_mangle)]
pub extern "C" fn udo_stream_sync(stream: Option<&Stream>) -> Option<Box<Error>> {
    guard(|| live(stream, "stream")?.0.sync())
}

/// Whether runs of a stream are in flight.
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

/// Releases a stream; NULL is fine. Its runs go on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_stream_release(stream: Option<Box<Stream>>) {
    release(stream);
}

/// Makes a workspace for sessions to share: memory as large as the largest of them wants, which one run at a time uses.
#[unsafe(no_mangle)]
pub extern "C" fn udo_workspace_create(
    out: Option<&mut MaybeUninit<Option<Box<Workspace>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        hand_out(need(out, "out")?, Workspace(run::SharedWorkspace::new(), Born::here()));
        Ok(())
    })
}

/// How many bytes of a device a workspace has.
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

/// Releases a handle of a workspace; NULL is fine. Sessions that share it go on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_workspace_release(workspace: Option<Box<Workspace>>) {
    release(workspace);
}
