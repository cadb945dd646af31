//! Pairs of an input and an output of a graph that may share memory, such as the caches of a language model: each run
//! reads the cache and writes its next state.

use super::{Graph, GraphNode, GraphValue, ValueId};

/// The reason why an input and an output cannot share memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InPlaceError {
    /// The graph has no such input or output.
    #[error(
        "{name:?} is to be the {side} of a pair in one place, and is none of the model: {side}s are {}",
        .known.join(", ")
    )]
    NoSuchPort {
        /// `input` or `output`.
        side: &'static str,
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// An input or output is in two pairs.
    #[error("{side} {name:?} is in two pairs in one place; expected one at most")]
    Twice {
        /// `input` or `output`.
        side: &'static str,
        /// Its name.
        name: String,
    },
    /// The input and the output have different types or shapes.
    #[error(
        "input {input:?} is {found} and output {output:?}, which is to be in its place, is {other}; expected the same"
    )]
    Unlike {
        /// The input.
        input: String,
        /// The type and shape of the input.
        found: String,
        /// The output.
        output: String,
        /// The type and shape of the output.
        other: String,
    },
}

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// Returns the index of the port with this name.
    fn port(
        &self,
        side: &'static str,
        ports: &[ValueId],
        name: &str,
    ) -> Result<usize, InPlaceError> {
        let names =
            ports.iter().map(|&id| self.value(id).map_or("", |value| value.value().name.as_str()));
        names.clone().position(|port| port == name).ok_or_else(|| InPlaceError::NoSuchPort {
            side,
            name: name.to_owned(),
            known: names.map(|name| format!("{name:?}")).collect(),
        })
    }
}

/// The pairs of inputs and outputs that may share memory.
pub trait InPlace {
    /// Adds pairs of an input's and an output's name, unless they are listed already.
    fn add_in_place(&mut self, pairs: &[(String, String)]);

    /// Checks the names of the pairs.
    ///
    /// # Errors
    /// Fails if an input or output does not exist, or is in two pairs.
    fn check_in_place(&self) -> Result<(), InPlaceError>;

    /// Returns the pairs as indices of an input and an output.
    ///
    /// # Errors
    /// Fails if an input or output does not exist, or is in two pairs.
    fn pairs(&self) -> Result<Vec<(usize, usize)>, InPlaceError>;
}

impl<N: GraphNode, V: GraphValue> InPlace for Graph<N, V> {
    fn add_in_place(&mut self, pairs: &[(String, String)]) {
        for pair in pairs {
            if !self.in_place.contains(pair) {
                self.in_place.push(pair.clone());
            }
        }
    }

    fn check_in_place(&self) -> Result<(), InPlaceError> {
        self.pairs().map(|_| ())
    }

    fn pairs(&self) -> Result<Vec<(usize, usize)>, InPlaceError> {
        let mut pairs: Vec<(usize, usize)> = Vec::with_capacity(self.in_place.len());
        for (input, output) in &self.in_place {
            let input_index = self.port("input", &self.inputs, input)?;
            let output_index = self.port("output", &self.outputs, output)?;
            let twice = |side, name: &String| InPlaceError::Twice { side, name: name.clone() };
            if pairs.iter().any(|&(known, _)| known == input_index) {
                return Err(twice("input", input));
            }
            if pairs.iter().any(|&(_, known)| known == output_index) {
                return Err(twice("output", output));
            }
            pairs.push((input_index, output_index));
        }
        Ok(pairs)
    }
}
