//! The stages of a model. The inputs of a run select one, which is compiled when it is first needed.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use udo_api::Shape;
use udo_engine::device::{Error, ErrorCode, Result};
use udo_graph::container::StageChoice;

use super::stage::Stage;

/// Compiles the stage with this index.
type Compile = dyn Fn(usize) -> Result<Arc<Stage>> + Send + Sync;

/// The stages of a model.
pub(crate) struct Stages {
    /// The name of the file in messages.
    file: String,
    compiled: Vec<OnceLock<Arc<Stage>>>,
    /// Held while a stage is compiled, so that others wait for it.
    compiling: Mutex<()>,
    /// Chooses a stage by the shapes of inputs; `None` if there is only one for all shapes.
    choice: Option<StageChoice>,
    /// Compiles missing stages.
    compile: Option<Box<Compile>>,
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("compiled", &self.compiled).finish_non_exhaustive()
    }
}

impl Stages {
    /// Returns the stages of a model with a single one.
    pub(crate) fn only(stage: Arc<Stage>) -> Self {
        let (compiled, compiling) = (vec![OnceLock::from(stage)], Mutex::new(()));
        Self { file: "model".to_owned(), compiled, compiling, choice: None, compile: None }
    }

    /// Returns `count` stages, which `choice` selects and `compile` compiles.
    pub(crate) fn with_choice(
        file: &str,
        count: usize,
        choice: Option<StageChoice>,
        compile: impl Fn(usize) -> Result<Arc<Stage>> + Send + Sync + 'static,
    ) -> Self {
        let compiled = (0..count).map(|_| OnceLock::new()).collect();
        let (file, compile): (_, Box<Compile>) = (file.to_owned(), Box::new(compile));
        Self { file, compiled, compiling: Mutex::new(()), choice, compile: Some(compile) }
    }

    pub(crate) fn count(&self) -> usize {
        self.compiled.len()
    }

    /// Returns the stage with this index, compiled if necessary.
    pub(crate) fn get(&self, index: usize) -> Result<&Arc<Stage>> {
        let none = || {
            let (file, count) = (&self.file, self.count());
            let why =
                format!("{file}: there is no stage {index}: the network has {count}, from 0 on");
            Error::new(ErrorCode::InvalidArgument, why)
        };
        let slot = self.compiled.get(index).ok_or_else(none)?;
        if let Some(stage) = slot.get() {
            return Ok(stage);
        }
        let _compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some(compile)) = (slot.get(), &self.compile) {
            let made = compile(index)?;
            return Ok(slot.get_or_init(|| made));
        }
        slot.get().ok_or_else(none)
    }

    /// Returns the stages that are compiled.
    pub(crate) fn compiled(&self) -> impl Iterator<Item = &Arc<Stage>> {
        self.compiled.iter().filter_map(OnceLock::get)
    }

    /// Returns the only stage, if it is compiled.
    pub(crate) fn sole(&self) -> Option<&Arc<Stage>> {
        match self.compiled.as_slice() {
            [only] => only.get(),
            _ => None,
        }
    }

    /// Returns the index of the stage for inputs of these dimensions. Uses no heap unless it fails.
    pub(crate) fn number_for<'a>(
        &self,
        given: impl Fn(&str) -> Option<&'a [usize]>,
    ) -> Result<usize> {
        match &self.choice {
            Some(choice) => choice
                .choose(given)
                .map_err(|reason| Error::new(reason.code(), format!("{}: {reason}", self.file))),
            None => Ok(0),
        }
    }

    /// Returns the stage for inputs of these dimensions. Uses no heap if it is compiled.
    pub(crate) fn choose<'a>(
        &self,
        given: impl Fn(&str) -> Option<&'a [usize]>,
    ) -> Result<&Arc<Stage>> {
        match self.sole() {
            Some(stage) => Ok(stage),
            None => self.get(self.number_for(given)?),
        }
    }

    /// Returns the stage that is planned for these shapes, or would be.
    pub(crate) fn planned_for(&self, names: &[&str], shapes: &[Shape]) -> Result<&Arc<Stage>> {
        let is_its = |stage: &&Arc<Stage>| stage.known_shapes().is_some_and(|of| of == shapes);
        if let Some(stage) = self.compiled().find(is_its) {
            return Ok(stage);
        }
        self.choose(|name| {
            let at = names.iter().position(|input| *input == name)?;
            shapes.get(at).map(Shape::dims)
        })
    }
}
