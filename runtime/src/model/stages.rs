//! The stages of a model, one of which takes the inputs of a run, each compiled when somebody first asks for it.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use udo_api::Shape;
use udo_engine::device::{Error, ErrorCode, Result};
use udo_graph::container::StageChoice;

use super::stage::Stage;

/// What compiles a stage, by its number.
type Compile = dyn Fn(usize) -> Result<Arc<Stage>> + Send + Sync;

/// The stages of a model.
pub(crate) struct Stages {
    /// What to call the file in messages.
    file: String,
    compiled: Vec<OnceLock<Arc<Stage>>>,
    /// Held while one is compiled, so that who wants the same waits for that.
    compiling: Mutex<()>,
    /// What chooses among them; nothing where any inputs are for the only one.
    choice: Option<StageChoice>,
    /// What makes those that are not there.
    compile: Option<Box<Compile>>,
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("compiled", &self.compiled).finish_non_exhaustive()
    }
}

impl Stages {
    /// The only one there is.
    pub(crate) fn only(stage: Arc<Stage>) -> Self {
        let (compiled, compiling) = (vec![OnceLock::from(stage)], Mutex::new(()));
        Self { file: "model".to_owned(), compiled, compiling, choice: None, compile: None }
    }

    /// `count` of them, which `choice` knows and `compile` makes.
    pub(crate) fn of(
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

    /// The stage of a number, compiled if it was not.
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

    /// Those that are compiled.
    pub(crate) fn compiled(&self) -> impl Iterator<Item = &Arc<Stage>> {
        self.compiled.iter().filter_map(OnceLock::get)
    }

    /// The only one there is, once it is compiled.
    pub(crate) fn sole(&self) -> Option<&Arc<Stage>> {
        match self.compiled.as_slice() {
            [only] => only.get(),
            _ => None,
        }
    }

    /// The number of the stage for inputs of the dimensions that `given` knows. No heap but for errors.
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

    /// The stage for inputs of the dimensions that `given` knows. No heap, if it is compiled.
    pub(crate) fn choose<'a>(
        &self,
        given: impl Fn(&str) -> Option<&'a [usize]>,
    ) -> Result<&Arc<Stage>> {
        match self.sole() {
            Some(stage) => Ok(stage),
            None => self.get(self.number_for(given)?),
        }
    }

    /// The stage that was planned for inputs of these shapes, or is to be.
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
