//! Sections of a model file with results of compilation: prepacked weights (weights in the layout that kernels read) and
//! programs for accelerators. Also the identity of a model's content, which tells whether they fit the model.

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
    pub(super) fn compiled(&self, requested: &Stage<usize>) -> Vec<Compiled> {
        let is_equal = |stage: &Stage<usize>| {
            stage.graph == requested.graph && stage.shapes == requested.shapes
        };
        // Networks with equal stages share programs, so the stage is looked up in the section's network.
        let equal_stage = |network: Option<&str>| {
            let mut named = self.networks().iter().filter(|known| Some(&*known.name) == network);
            named.find_map(|known| known.stages.iter().position(is_equal))
        };
        let compiled = |section: &SectionJson| {
            let target = section.name.strip_prefix(COMPILED)?.to_owned();
            let stage = equal_stage(section.network.as_deref())?;
            Some(Compiled { target, stage, bytes: self.tensors.bytes(section)? })
        };
        self.sections.iter().filter_map(compiled).collect()
    }

    /// Whether bytes are a model file with prepacked weights. Searches the header for the section's name without parsing
    /// it, which is fast.
    pub fn is_prepared(bytes: &ModelBytes) -> bool {
        let (bytes, name) = (bytes.as_ref(), PREPARED.as_bytes());
        let header_len = bytes.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        let header_len = usize::try_from(header_len).unwrap_or(0).min(bytes.len());
        let header = bytes.get(..header_len).unwrap_or_default();
        super::sniff(bytes) && header.windows(name.len()).any(|window| window == name)
    }
}

/// Whether a tensor of the file is the content of a section.
pub(super) fn is_of_section(sections: &[SectionJson], tensor: &str) -> bool {
    sections.iter().any(|section| section.tensor == tensor)
}
