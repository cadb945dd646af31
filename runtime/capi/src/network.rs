//! Networks of a model's file, and their stages.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::sync::Arc;

use udo_engine::device::Result;
use udo_runtime::device::{self, Extent};

use crate::argument::{invalid, need, place};
use crate::born::{Born, handles, live};
use crate::error::Error;
use crate::ffi::{Bytes, Text, guard, hand_out, release};
use crate::handles::Runtime;
use crate::model::{self, LoadOptionsAt, Model};
use crate::ports::{self, HasPorts, Port, Ports, Side};
use crate::session::{self, Session, SessionOptionsAt};
use crate::spec::TensorSpec;
use crate::tensor::{Tensor, Tensors};
use crate::text::text;

/// The networks of a model file. A file of another format is one network with one stage. Threads
/// may share it.
#[derive(Debug)]
pub struct Networks(udo_runtime::Networks, pub(crate) Born);

/// A network of a model file. It has a stage for each set of shapes that it was made for; a stage
/// is compiled at its first use. Threads may share it. It outlives the handle that it came from.
#[derive(Debug)]
pub struct Network {
    pub(crate) inner: udo_runtime::Network,
    name: CString,
    text: CString,
    /// Their inputs are what all stages agree on.
    ports: Arc<Ports>,
    pub(crate) born: Born,
}

handles! {
    Network, born;
    Networks, 1;
}

impl HasPorts for Network {
    const ARGUMENT: &'static str = "network";

    fn ports(&self) -> &Ports {
        &self.ports
    }
}

impl Network {
    /// Its inputs and outputs, as all stages have them.
    pub(crate) fn ports(&self) -> &Arc<Ports> {
        &self.ports
    }

    fn new(network: udo_runtime::Network) -> Result<Self> {
        let inputs = agreed_inputs(&network)?;
        let inputs = inputs.iter().map(|(name, spec)| Port::new(name, Some(*spec))).collect();
        let outputs = network.outputs()?.iter().map(|name| Port::new(name, None)).collect();
        let ports = Arc::new(Ports { inputs, outputs });
        let (name, text) = (text(network.name()), text(&network.to_string()));
        Ok(Self { inner: network, name, text, ports, born: Born::here() })
    }
}

/// Returns the names of a network's inputs, and what all its stages agree on: dimensions that differ are open.
fn agreed_inputs(network: &udo_runtime::Network) -> Result<Vec<(String, device::TensorSpec)>> {
    let mut agreed = network.inputs(0)?;
    for stage in 1..network.stage_count() {
        for ((_, spec), (_, other)) in agreed.iter_mut().zip(network.inputs(stage)?) {
            let extent = |(a, b): (Extent, Extent)| if a == b { a } else { Extent::Open };
            let extents: Vec<_> = spec.extents().zip(other.extents()).map(extent).collect();
            *spec = device::TensorSpec::new(spec.dtype(), &extents)?;
        }
    }
    Ok(agreed)
}

/// Opens the networks of a model file. The file is opened read-only and must not change while they
/// exist.
#[unsafe(no_mangle)]
pub extern "C" fn udo_networks_open_file(
    runtime: Option<&Runtime>,
    path: Text,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Networks>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let (path, options) = (path.path("path")?, model::options(options)?);
        hand_out(out, Networks(runtime.0.networks(path, &options)?, Born::here()));
        Ok(())
    })
}

/// Opens the networks in the bytes of such a file, which are copied.
#[unsafe(no_mangle)]
pub extern "C" fn udo_networks_open_bytes(
    runtime: Option<&Runtime>,
    bytes: Bytes,
    len: usize,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Networks>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let (bytes, options) = (bytes.get(len, "bytes")?, model::options(options)?);
        hand_out(out, Networks(runtime.0.networks(bytes, &options)?, Born::here()));
        Ok(())
    })
}

/// Returns the number of networks.
#[unsafe(no_mangle)]
pub extern "C" fn udo_networks_count(
    networks: Option<&Networks>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (networks, out) = (live(networks, "networks")?, need(out, "out")?);
        out.write(networks.0.iter().len());
        Ok(())
    })
}

/// Returns the network of a file at an index, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn udo_networks_at(
    networks: Option<&Networks>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<Network>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (networks, out) = (live(networks, "networks")?, need(out, "out")?);
        let all: Vec<_> = networks.0.iter().collect();
        let network = place(&all, "network", index)?.clone();
        hand_out(out, Network::new(network)?);
        Ok(())
    })
}

/// Returns the network of a file with this name.
#[unsafe(no_mangle)]
pub extern "C" fn udo_networks_find(
    networks: Option<&Networks>,
    network_name: Text,
    out: Option<&mut MaybeUninit<Option<Box<Network>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (networks, out) = (live(networks, "networks")?, need(out, "out")?);
        let network = networks.0.get(Some(network_name.get("network_name")?))?;
        hand_out(out, Network::new(network)?);
        Ok(())
    })
}

/// Releases networks. NULL is allowed. Networks that were returned, and their models, stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn udo_networks_release(networks: Option<Box<Networks>>) {
    release(networks);
}

/// Returns the name of a network. The string lives as long as the handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_name(
    network: Option<&Network>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        out.write(network.name.as_ptr());
        Ok(())
    })
}

/// Returns the number of stages of a network.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_stage_count(
    network: Option<&Network>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        out.write(network.inner.stage_count());
        Ok(())
    })
}

/// Returns a readable description of a network: its name, and the inputs and outputs of its stages.
/// The string lives as long as the handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_text(
    network: Option<&Network>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        out.write(network.text.as_ptr());
        Ok(())
    })
}

/// Returns the number of inputs of a network.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_input_count(
    network: Option<&Network>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    ports::count(network, Side::Input, out)
}

/// Returns the number of outputs of a network.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_output_count(
    network: Option<&Network>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    ports::count(network, Side::Output, out)
}

/// Returns the name of an input of a network. The string lives as long as the handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_input_name(
    network: Option<&Network>,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    ports::name(network, Side::Input, index, out)
}

/// Returns the name of an output of a network. The string lives as long as the handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_output_name(
    network: Option<&Network>,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    ports::name(network, Side::Output, index, out)
}

/// Returns the description of an input in a stage, as a new object. Its dimensions may be open or
/// have ranges.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_input_spec(
    network: Option<&Network>,
    stage: usize,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        let inputs = network.inner.inputs(stage)?;
        let (_, spec) = place(&inputs, "input", index)?;
        hand_out(out, TensorSpec(*spec, Born::here()));
        Ok(())
    })
}

/// Returns the description of an output in a stage, as a new object. Compiles the stage if
/// necessary. If the shape depends on those of the inputs, see `udo_model_output_spec`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_output_spec(
    network: Option<&Network>,
    stage: usize,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        let model = model::for_c(network.inner.stage(stage)?)?;
        hand_out(out, model.ports.spec(Side::Output, index)?);
        Ok(())
    })
}

/// Returns the stage for tensors of these shapes, in the order of the inputs: the stage for exactly
/// these shapes, otherwise the one with the tightest ranges that include them. A network with one
/// stage also accepts another shape with the same number of elements. Other shapes are refused with
/// `UDO_ERROR_SHAPE_MISMATCH`, and the message lists the shapes of all stages.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_stage_for(
    network: Option<&Network>,
    inputs: Tensors,
    input_count: usize,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        let names = network.inner.inputs(0)?;
        if input_count != names.len() {
            let wanted = names.len();
            return Err(invalid(format!("{input_count} inputs, expected {wanted}")));
        }
        let given = inputs.get(input_count, "inputs")?;
        let shape = |((name, _), tensor): ((String, _), &&Tensor)| {
            Ok((name, tensor.0.spec().dims()?.to_vec()))
        };
        let shapes = names.into_iter().zip(&given).map(shape).collect::<Result<Vec<_>>>()?;
        out.write(network.inner.stage_for(&shapes)?);
        Ok(())
    })
}

/// Returns the model of a stage. It is compiled at the first call; later calls return the same
/// model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_model(
    network: Option<&Network>,
    stage: usize,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        hand_out(out, model::for_c(network.inner.stage(stage)?)?);
        Ok(())
    })
}

/// Returns the model of all stages of a network. Each run of its sessions and pools uses the stage
/// for the shapes of its inputs, which is compiled at its first use. For a file with one network,
/// `udo_model_load_file` returns the same.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_model_of_stages(
    network: Option<&Network>,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        hand_out(out, model::for_c(network.inner.model()?)?);
        Ok(())
    })
}

/// Creates a session of one stage of a network, from 0, or of all stages if `stage` is -1. Each run
/// then uses the stage that `udo_network_stage_for` finds for the shapes of its inputs. A stage
/// takes no memory before its first run.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_session(
    network: Option<&Network>,
    stage: i32,
    options: SessionOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Session>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (network, out) = (live(network, "network")?, need(out, "out")?);
        let options = session::options(options)?;
        let made = if stage == -1 {
            Session::of_network(&network.ports, &network.inner, &options)?
        } else {
            let found = usize::try_from(stage).map_err(|_| {
                invalid(format!(
                    "stage is {stage}; expected a stage's number, or -1 for all of them"
                ))
            })?;
            Session::of_model(&model::for_c(network.inner.stage(found)?)?, &options)?
        };
        hand_out(out, made);
        Ok(())
    })
}

/// Releases a network. NULL is allowed. Its models stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn udo_network_release(network: Option<Box<Network>>) {
    release(network);
}
