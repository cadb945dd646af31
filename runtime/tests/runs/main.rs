//! Models that are submitted: what comes out, what waits, what ends early, and what it costs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod device_memory;
mod first;
mod gate;
mod heap;
mod in_place;
mod models;
mod places;
mod pool;
mod random;
mod report;
mod subnets;
mod trace;
mod workspaces;

use std::num::NonZero;
use std::time::Duration;

use udo_api::{CoreKind, Element, Shape};
use udo_runtime::device::DeviceTensor;
use udo_runtime::graph::Graph;
use udo_runtime::run::{SessionOptions, SharedWorkspace, Workspace};
use udo_runtime::{CompileOptions, Device, LoadOptions, Model, Runtime, Session, Tensor};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_mins(1);

fn compile(runtime: &Runtime, text: &str, options: &CompileOptions) -> Model {
    runtime.load(Graph::parse(text).unwrap(), &LoadOptions::from(options.clone())).unwrap()
}

fn cpu(runtime: &Runtime) -> Device {
    runtime.devices().get(CoreKind::Cpu, 0).unwrap()
}

fn with_frames(model: &Model, frames: usize) -> Session {
    let frames = NonZero::new(frames).unwrap();
    model.session_with(&SessionOptions { frames, ..SessionOptions::default() }).unwrap()
}

fn sharing(model: &Model, workspace: &SharedWorkspace, frames: usize) -> Session {
    let (frames, workspace) = (NonZero::new(frames).unwrap(), Workspace::Shared(workspace.clone()));
    model.session_with(&SessionOptions { frames, workspace, ..SessionOptions::default() }).unwrap()
}

fn on<T: Element>(device: &Device, dims: &[usize], elements: &[T]) -> DeviceTensor {
    let tensor = Tensor::from_slice(Shape::new(dims).unwrap(), elements).unwrap();
    DeviceTensor::from_tensor(device, &tensor).unwrap()
}

fn elements<T: Element>(tensor: &DeviceTensor) -> Vec<T> {
    tensor.to_host().unwrap().get::<T>().unwrap().to_vec()
}
