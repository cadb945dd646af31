//! The values that runs are to give: the model's outputs, or others by name.

use udo_runtime::graph::Graph;
use udo_runtime::run::PortError;

use super::RunModel;
use crate::input_list::{self as list, List};
use crate::layers;
use crate::output::Failure;
use crate::stages::load_with_shapes;
use udo_graph::graph::values_named;

impl RunModel {
    /// The values that are wanted, where it is not the model's outputs, and has the model give them.
    pub(super) fn request_outputs(
        &mut self,
        list: Option<&List>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let heading = list.map_or(&[][..], |list| &list.wanted);
        if !heading.is_empty() && !self.set_output_tensors.is_empty() {
            let text = "both the list's first line and --set-output-tensors say which outputs are expected";
            return Err(Failure::usage(text).help("leave one of them out"));
        }
        let names: Vec<(Option<usize>, &String)> = match heading {
            [] => self.set_output_tensors.iter().map(|name| (None, name)).collect(),
            _ => heading.iter().map(|(line, name)| (Some(*line), name)).collect(),
        };
        let (mut wanted, mut more) = (Vec::<String>::new(), Vec::new());
        if !names.is_empty() {
            let graph = self.model.graph()?;
            for (line, name) in names {
                let made = graph
                    .as_ref()
                    .map_or_else(|| Some(vec![name.clone()]), |graph| values_of(graph, name));
                let made = match (made, line, &self.input_list) {
                    (Some(made), ..) => made,
                    (None, Some(line), Some(path)) => {
                        let known = graph.as_ref().map(outputs).unwrap_or_default();
                        return Err(unknown(name, &known).at(list::place(path, line)));
                    }
                    (None, ..) => vec![name.clone()],
                };
                for name in made {
                    if !wanted.contains(&name) {
                        wanted.push(name);
                    }
                }
            }
            let known = graph.as_ref().map(outputs).unwrap_or_default();
            more.extend(wanted.iter().filter(|name| !known.contains(name)).cloned());
        }
        if self.capture.is_some() && wanted.is_empty() && !self.debug {
            // The outputs of nodes are computed to be captured, but the results are the model's outputs.
            wanted = self.model.graph()?.as_ref().map(outputs).unwrap_or_default();
        }
        if self.debug || self.capture.is_some() {
            let loaded = load_with_shapes(&self.model.clone().without_programs())?;
            let layers = layers::named(loaded.model.report(), &loaded.runtime, &self.model.model);
            more.extend(layers.into_iter().map(|layer| layer.value));
        }
        self.model.more_outputs = more;
        Ok(Some(wanted).filter(|wanted| !wanted.is_empty()))
    }
}

/// The names of the values that a name is of, a value's own or that of the node that makes them.
fn values_of(graph: &Graph, name: &str) -> Option<Vec<String>> {
    let values = values_named(graph, name)?;
    Some(values.iter().filter_map(|&id| Some(graph.value(id).ok()?.name.clone())).collect())
}

fn outputs(graph: &Graph) -> Vec<String> {
    let values = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
    values.map(|value| value.name.clone()).collect()
}

fn unknown(name: &str, outputs: &[String]) -> Failure {
    let known = outputs.iter().map(|name| format!("{name:?}")).collect();
    Failure::new(PortError::NoSuchPort { side: "output", name: name.to_owned(), known }).help(
        "a remark has a blank behind its #; without one, names of outputs, values or nodes follow",
    )
}
