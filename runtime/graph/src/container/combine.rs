//! Combines model files, and extracts networks and stages. A stage is a network for certain input shapes.

use super::stage::extents;
use super::{ContainerError, Contents, Extent, Network, Section, Stage};
use crate::graph::{Source, TensorType};
use crate::memory::TensorStorage;

impl Contents {
    /// Adds the content of another file. Networks with new names are added as they are. The stages of networks with known
    /// names are added to those networks.
    ///
    /// # Errors
    /// Fails without a change if networks of one name differ in more than input shapes, if they have stages with equal
    /// shapes, or if sections of one name differ.
    pub fn combine(&mut self, other: Self) -> Result<(), ContainerError> {
        let mut combined = self.clone();
        for network in other.networks {
            match combined.networks.iter_mut().find(|known| known.name == network.name) {
                Some(known) => known.combine(network)?,
                None => combined.networks.push(network),
            }
        }
        for section in other.sections {
            combined.add_section(section)?;
        }
        *self = combined;
        Ok(())
    }

    /// Adds a section, unless an equal one exists.
    fn add_section(&mut self, section: Section) -> Result<(), ContainerError> {
        let Some(known) = self.sections.iter().find(|known| known.name == section.name) else {
            self.sections.push(section);
            return Ok(());
        };
        if known.network == section.network && known.bytes.stored() == section.bytes.stored() {
            return Ok(());
        }
        let place = format!("section {:?}", section.name);
        Err(conflict(place, "different content in each file", "equal content or different names"))
    }

    /// Extracts one network or one of its stages, with the sections that belong to it or to all networks.
    ///
    /// # Errors
    /// Fails if the network or stage does not exist.
    pub fn extract(self, network: &str, stage: Option<usize>) -> Result<Self, ContainerError> {
        let Some(source) = self.networks.iter().find(|known| known.name == network) else {
            let known = self.networks.iter().map(|known| known.name.clone()).collect();
            return Err(ContainerError::NoSuchNetwork { found: network.to_owned(), known });
        };
        let stages = match stage {
            Some(index) => vec![source.stage(index)?.clone()],
            None => source.stages.clone(),
        };
        let networks = vec![Network { name: network.to_owned(), stages }];
        let belongs = |section: &&Section| section.network.as_deref().is_none_or(|n| n == network);
        let sections = self.sections.iter().filter(belongs).cloned().collect();
        Ok(Self { networks, sections })
    }
}

impl Network {
    /// Adds the stages of another network of the same name.
    fn combine(&mut self, other: Self) -> Result<(), ContainerError> {
        for stage in other.stages {
            let place = |index: usize| format!("network {:?} stage {index}", self.name);
            let new_ports = ports(&stage);
            for (index, known) in self.stages.iter().enumerate() {
                let known_ports = ports(known);
                if known_ports.names != new_ports.names {
                    let (known, new) = (known_ports.names_text(), new_ports.names_text());
                    let expected = "the same input and output names and types";
                    return Err(conflict(place(index), format!("{known} and {new}"), expected));
                }
                if known_ports.shapes == new_ports.shapes {
                    let found = format!("the shapes {} in both files", new_ports.shapes_text());
                    return Err(conflict(place(index), found, "different shapes in each stage"));
                }
            }
            self.stages.push(stage);
        }
        Ok(())
    }
}

fn conflict(place: String, found: impl Into<String>, expected: &str) -> ContainerError {
    ContainerError::Conflict { place, found: found.into(), expected: expected.to_owned() }
}

/// The inputs and outputs of a stage.
struct Ports {
    /// The names and types of the inputs, and the names of the outputs.
    names: (Vec<(String, String)>, Vec<String>),
    /// The shapes of the inputs.
    shapes: Vec<Vec<Extent>>,
}

impl Ports {
    fn names_text(&self) -> String {
        let (inputs, outputs) = &self.names;
        let input = |(name, type_text): &(String, String)| format!("{name} {type_text}");
        let inputs: Vec<String> = inputs.iter().map(input).collect();
        format!("{} -> {}", inputs.join(", "), outputs.join(", "))
    }

    fn shapes_text(&self) -> String {
        let shape = |((name, _), extents): (&(String, String), &Vec<Extent>)| {
            let extents: Vec<String> = extents.iter().map(Extent::to_string).collect();
            format!("{name} [{}]", extents.join(","))
        };
        let inputs = self.names.0.iter().zip(&self.shapes).map(shape);
        inputs.collect::<Vec<_>>().join(", ")
    }
}

fn ports(stage: &Stage) -> Ports {
    let graph = &stage.graph.graph;
    let values = |ids: &[crate::graph::ValueId]| {
        let values = ids.iter().filter_map(|&id| graph.value(id).ok());
        values.cloned().collect::<Vec<_>>()
    };
    let (mut inputs, mut shapes) = (Vec::new(), Vec::new());
    for value in values(&graph.inputs) {
        let Source::Input(tensor_type) = &value.source else { continue };
        let TensorType { dtype, dims } = tensor_type;
        inputs.push((value.name.clone(), format!("{dtype} of rank {}", dims.len())));
        shapes.push(extents(tensor_type, stage.shapes.get(&value.name)));
    }
    let outputs = values(&graph.outputs).into_iter().map(|value| value.name).collect();
    Ports { names: (inputs, outputs), shapes }
}
