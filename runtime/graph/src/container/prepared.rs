//! What stands for the graphs and weights of a model file, and the section that holds what was made of them.

use udo_api::DType;

use super::form::SectionForm;
use super::write::Layout;
use super::{Container, ContainerError, Contents, Section, Stage};
use crate::graph::Compiled;
use crate::memory::{ModelBytes, Tensor};

/// The section that holds what kernels had packed of the weights. Its bytes are those of a file of a cache, which has sums of its own.
const PREPARED: &str = "udo.prepared";

/// What the names of sections begin with that hold programs for an accelerator, whose name is behind.
pub const COMPILED: &str = "udo.hta.";

impl Section {
    /// The section of what was packed for a model.
    ///
    /// # Errors
    /// They are more than a tensor can have.
    pub fn prepared(bytes: Vec<u8>) -> Result<Self, ContainerError> {
        let refused = |error: &dyn std::fmt::Display| {
            ContainerError::malformed("what is packed", error, "a smaller model")
        };
        let shape = udo_api::Shape::new(&[bytes.len()]).map_err(|error| refused(&error))?;
        let bytes =
            Tensor::in_model(DType::U8, shape, bytes.into()).map_err(|error| refused(&error))?;
        Ok(Self { name: PREPARED.to_owned(), network: None, bytes })
    }
}

impl Contents {
    /// Leaves out what was packed for the model.
    pub fn drop_prepared(&mut self) {
        self.sections.retain(|section| section.name != PREPARED);
    }

    /// What stands for the graphs and their tensors, whatever sections there are.
    ///
    /// # Errors
    /// The contents are no model file: as for writing them.
    pub fn content(&self) -> Result<u128, ContainerError> {
        let contents = Self { networks: self.networks.clone(), sections: Vec::new() };
        Layout::of(&contents).map(|layout| layout.content)
    }
}

impl Container {
    /// What stands for the graphs and their tensors, whatever sections there are.
    pub fn content(&self) -> u128 {
        self.content
    }

    /// The bytes of what was packed for the model, if there are any. Nobody looked at them yet: they have sums of their own.
    pub fn prepared(&self) -> Option<ModelBytes> {
        let section = self.sections.iter().find(|section| section.name == PREPARED)?;
        self.tensors.bytes(section)
    }

    /// The programs that go with a stage. Nobody looked at them yet: each has a digest of its own.
    pub(super) fn compiled(&self, of: &Stage<usize>) -> Vec<Compiled> {
        let is_it = |stage: &Stage<usize>| stage.graph == of.graph && stage.shapes == of.shapes;
        // Networks that are the same share programs.
        let stage = |network: Option<&str>| {
            let mut all = self.networks().iter().filter(|known| Some(&*known.name) == network);
            all.find_map(|known| known.stages.iter().position(is_it))
        };
        let compiled = |section: &SectionForm| {
            let target = section.name.strip_prefix(COMPILED)?.to_owned();
            let stage = stage(section.network.as_deref())?;
            Some(Compiled { target, stage, bytes: self.tensors.bytes(section)? })
        };
        self.sections.iter().filter_map(compiled).collect()
    }

    /// Whether bytes are those of a model file that was prepared.
    pub fn is_prepared(bytes: &ModelBytes) -> bool {
        let (bytes, name) = (bytes.as_ref(), PREPARED.as_bytes());
        let header = bytes.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        let header = usize::try_from(header).unwrap_or(0).min(bytes.len());
        let header = bytes.get(..header).unwrap_or_default();
        super::sniff(bytes) && header.windows(name.len()).any(|at| at == name)
    }
}

pub(super) fn is_of_section(sections: &[SectionForm], tensor: &str) -> bool {
    sections.iter().any(|section| section.tensor == tensor)
}
