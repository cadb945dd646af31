//! The identity of a model's graphs and weights, and the section with its prepacked weights.

use udo_api::DType;

use super::schema::SectionJson;
use super::write::Layout;
use super::{Container, ContainerError, Contents, Section, Stage};
use crate::graph::Compiled;
use crate::memory::{ModelBytes, Tensor};

/// The section with prepacked weights. Its content is a cache file, which has checksums of its own.
const PREPARED: &str = "udo.prepared";

/// The prefix of sections with precompiled programs. The name of the accelerator follows it.
pub const COMPILED: &str = "udo.hta.";

impl Section {
    /// Creates the section of a model's prepacked weights.
    ///
    /// # Errors
    /// Fails if they are larger than a tensor can be.
    pub fn prepared(bytes: Vec<u8>) -> Result<Self, ContainerError> {
        let refused = |error: &dyn std::fmt::Display| {
            ContainerError::malformed("the prepacked weights", error, "a smaller model")
        };
        let shape = udo_api::Shape::new(&[bytes.len()]).map_err(|error| refused(&error))?;
        let bytes =
            Tensor::in_model(DType::U8, shape, bytes.into()).map_err(|error| refused(&error))?;
        Ok(Self { name: PREPARED.to_owned(), network: None, bytes })
    }
}

impl Contents {
    /// Removes the prepacked weights.
    pub fn drop_prepared(&mut self) {
        self.sections.retain(|section| section.name != PREPARED);
    }

    /// Returns the identity of the graphs and their tensors. It does not depend on sections.
    ///
    /// # Errors
    /// Fails if the content cannot be written as a model file.
    pub fn content(&self) -> Result<u128, ContainerError> {
        let contents = Self { networks: self.networks.clone(), sections: Vec::new() };
        Layout::new(&contents).map(|layout| layout.content)
    }
}

impl Container {
    /// Returns the identity of the graphs and their tensors. It does not depend on sections.
    pub fn content(&self) -> u128 {
        self.content
    }

    /// Returns the bytes of the prepacked weights, if the file has any. They are not validated here: they have checksums of their
    /// own.
    pub fn prepared(&self) -> Option<ModelBytes> {
        let section = self.sections.iter().find(|section| section.name == PREPARED)?;
        self.tensors.bytes(section)
    }

    /// Returns the precompiled programs of a stage. They are not validated here: each has a digest of its own.
    pub(super) fn compiled(&self, of: &Stage<usize>) -> Vec<Compiled> {
        let is_it = |stage: &Stage<usize>| stage.graph == of.graph && stage.shapes == of.shapes;
        // Equal networks share programs.
        let stage = |network: Option<&str>| {
            let mut all = self.networks().iter().filter(|known| Some(&*known.name) == network);
            all.find_map(|known| known.stages.iter().position(is_it))
        };
        let compiled = |section: &SectionJson| {
            let target = section.name.strip_prefix(COMPILED)?.to_owned();
            let stage = stage(section.network.as_deref())?;
            Some(Compiled { target, stage, bytes: self.tensors.bytes(section)? })
        };
        self.sections.iter().filter_map(compiled).collect()
    }

    /// Whether bytes are a model file with prepacked weights.
    pub fn is_prepared(bytes: &ModelBytes) -> bool {
        let (bytes, name) = (bytes.as_ref(), PREPARED.as_bytes());
        let header = bytes.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        let header = usize::try_from(header).unwrap_or(0).min(bytes.len());
        let header = bytes.get(..header).unwrap_or_default();
        super::sniff(bytes) && header.windows(name.len()).any(|at| at == name)
    }
}

pub(super) fn is_of_section(sections: &[SectionJson], tensor: &str) -> bool {
    sections.iter().any(|section| section.tensor == tensor)
}
