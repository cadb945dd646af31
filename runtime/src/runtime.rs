//! The start of a program: operators and devices, which load models.

mod error;
mod load;
mod networks;
mod report;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use udo_api::Core;

use crate::builtin;
use udo_compile::compiler::Resources;
use udo_compile::resolve::{self, Coverage};
use udo_engine::constants::Constants;
use udo_engine::contain::Containment;
use udo_engine::device::{self, Device, DeviceSpec, Devices};
use udo_engine::exit_guard::PerProcess;
use udo_engine::operators::Operators;
use udo_engine::package::{Build, OpenError, Trust};
use udo_engine::run::Queues;
use udo_graph::memory::Derived;

pub use error::LoadError;
pub use load::{LoadOptions, LoadSource};
pub use networks::{Network, Networks};
pub use report::{DeviceReport, RuntimeReport};

/// Operators, built in and of packages, and devices. Clones share them, and any thread may use them; what is made of a
/// runtime lives on by itself.
///
/// ```no_run
/// use udo_runtime::{LoadOptions, Runtime};
///
/// let runtime = Runtime::builder().package("SoftmaxUdoPackage").build()?;
/// let model = runtime.load("model.onnx", &LoadOptions::default())?;
/// let mut session = model.session()?;
/// session.input_mut::<f32>("image")?.fill(0.5);
/// session.run()?;
/// let probabilities = session.output::<f32>("probabilities")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Models are compiled with clones of it, which share what they pack of constants.
    resources: Resources,
    queues: Arc<Queues>,
    /// Constants of models, and what is made of them: one that another model of the process has is the same.
    derived: Derived,
}

/// Builds a runtime from packages, devices and trust.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    packages: Vec<(PathBuf, Option<Containment>)>,
    /// How packages are contained that ask for nothing else.
    contain_others: Option<Containment>,
    devices: Vec<DeviceSpec>,
    trust: Trust,
}

impl Builder {
    /// With a package of operators: its folder, `dist` folder or registration library.
    #[must_use]
    pub fn package(mut self, path: impl Into<PathBuf>) -> Self {
        self.packages.push((path.into(), None));
        self
    }

    /// With a package whose code runs in a process of its own: what it does wrong there is an error here. It does so as well where
    /// the same package is named by [`Builder::package`].
    #[must_use]
    pub fn contained(mut self, path: impl Into<PathBuf>, containment: Containment) -> Self {
        self.packages.push((path.into(), Some(containment)));
        self
    }

    /// Contains packages of [`Builder::package`] as well that nobody signed whom [`Builder::trust`] names, instead of refusing them; which of the three
    /// functions comes first does not matter.
    #[must_use]
    pub fn contain_unsigned(mut self, containment: Containment) -> Self {
        self.contain_others = Some(containment);
        self
    }

    /// Takes packages alone that are signed or locked as this says; none of the others is loaded.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// With these devices; where none are asked for there is one of each kind.
    #[must_use]
    pub fn devices(mut self, specs: impl IntoIterator<Item = DeviceSpec>) -> Self {
        self.devices.extend(specs);
        self
    }

    /// Opens the packages and makes the devices.
    ///
    /// # Errors
    /// A package is refused, or a device cannot be as asked.
    pub fn build(self) -> Result<Runtime, LoadError> {
        let devices = match self.devices.as_slice() {
            [] => Devices::default(),
            specs => Devices::new(specs)?,
        };
        let mut operators = builtin::operators()?;
        operators.set_trust(self.trust);
        let contained = self.packages.iter().filter_map(|(path, containment)| {
            // One that cannot be read is refused where it is opened.
            Some((Build::locate(path).ok()?, containment.as_ref()?))
        });
        let contained: Vec<(Build, &Containment)> = contained.collect();
        for (path, containment) in &self.packages {
            // Who names a package twice, once to be contained, gets it contained, however it is spelt.
            let build = if contained.is_empty() { None } else { Build::locate(path).ok() };
            let same = |build: Build| contained.iter().find(|(known, _)| known.is_same(&build));
            let known = build.and_then(same).map(|(_, containment)| *containment);
            match (containment.as_ref().or(known), &self.contain_others) {
                (Some(containment), _) => operators.open_contained(path, containment)?,
                (None, Some(containment)) => operators.open_as_signed(path, containment)?,
                (None, None) => operators.open(path)?,
            };
        }
        let mut runtime = Runtime::from_parts(operators, devices);
        runtime.resources.constants = Shared::of_process().packed;
        Ok(runtime)
    }
}

/// Resources that the runtimes of a process share.
#[derive(Clone, Debug, Default)]
struct Shared {
    /// Prepacked weights.
    packed: Constants,
    /// Constants of models, and what is made of them: equal ones are there once.
    derived: Derived,
}

impl Shared {
    fn of_process() -> Self {
        static SHARED: PerProcess<OnceLock<Shared>> = PerProcess::new(OnceLock::new());
        SHARED.get().get_or_init(Self::default).clone()
    }
}

impl AsRef<Resources> for Runtime {
    fn as_ref(&self) -> &Resources {
        &self.resources
    }
}

impl Runtime {
    /// The built-in operators, and one device of each kind.
    ///
    /// # Errors
    /// The built-in operators break the contract, which is a fault of this library.
    pub fn new() -> Result<Self, LoadError> {
        Self::builder().build()
    }

    /// Returns a builder of runtimes.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// These operators and devices. What it packs of constants, it and its clones alone have.
    pub fn from_parts(operators: Operators, devices: Devices) -> Self {
        let Shared { derived, .. } = Shared::of_process();
        Self { resources: Resources::new(operators), queues: Queues::new(devices), derived }
    }

    /// Returns the operators: those that are built in, and those of the packages.
    pub fn operators(&self) -> &Operators {
        &self.resources.operators
    }

    /// Lists the operators that packages and built-in kernels run on these cores, by name.
    ///
    /// # Errors
    /// An implementation library cannot be opened.
    pub fn coverage(&self, cores: &[Core]) -> Result<Vec<Coverage>, OpenError> {
        resolve::coverage(&self.resources.operators, cores)
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        self.queues.devices()
    }

    /// Returns the current state of the devices.
    pub fn report(&self) -> RuntimeReport {
        RuntimeReport::new(&self.queues)
    }

    /// Has a device go away: runs on it fail, and those that are submitted to it, until [`Runtime::reset_device`]. For
    /// tests of programs that have to live with that.
    pub fn lose_device(&self, device: &Device) {
        self.queues.lose(device);
    }

    /// Brings a device that was lost back. What lies in its memory is as before.
    pub fn reset_device(&self, device: &Device) {
        self.queues.reset(device);
    }

    /// Waits until the submitted runs that have named this core of a device, or are at work on it, have ended or left it; not for
    /// those that are submitted meanwhile.
    ///
    /// # Errors
    /// The device has no such core, or a callback waits.
    pub fn sync_core(&self, device: &Device, core: u32) -> device::Result<()> {
        self.queues.sync_core(device, core)
    }
}
