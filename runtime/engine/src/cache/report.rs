//! Options, errors and reports of caches.

use std::path::PathBuf;

use crate::device::ErrorCode;
use udo_graph::container::ContainerError;
use udo_graph::error::Coded;

/// Where prepacked weights are stored between processes.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The folder. It must exist.
    pub dir: PathBuf,
    /// A user-defined version. Files with an older version are rebuilt; files with a newer one are not
    /// touched.
    pub version: u32,
}

/// The reason why a cache cannot be used. A useless file is not an error: the weights are packed again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The folder cannot be used.
    #[error("cache folder {} cannot be used: {reason}; create it, or choose another folder", dir.display())]
    NoFolder {
        /// The folder.
        dir: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The file has a newer user-defined version.
    #[error(
        "cache file {} has version {found}, expected at most {expected}; use that version, or another folder",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The requested version.
        expected: u32,
    },
    /// The folder contains no such model.
    #[error("cache folder {} has no model{}; compile a model with this folder, or load it from its file", dir.display(), quoted_name(.name.as_deref()))]
    NoModel {
        /// The folder.
        dir: PathBuf,
        /// The requested name.
        name: Option<String>,
    },
    /// The folder contains several models, and no name was given.
    #[error("cache folder {} has several models, expected the name of one of {}", dir.display(), .known.join(", "))]
    SeveralModels {
        /// The folder.
        dir: PathBuf,
        /// Their names.
        known: Vec<String>,
    },
    /// The file has an older user-defined version, so the model cannot be restored.
    #[error("cache file {} has version {found}, expected {expected}; compile the model again", path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The requested version.
        expected: u32,
    },
    /// A file, or the precompiled part of a model file, is damaged.
    #[error("{what} is damaged: {reason}; create it again")]
    Damaged {
        /// The damaged part.
        what: String,
        /// The evidence.
        reason: String,
    },
    /// The graph cannot be stored.
    #[error(transparent)]
    Graph(#[from] ContainerError),
    /// The model was not loaded as exportable.
    #[error("the model does not keep its graph; load or compile it as exportable")]
    NotExportable,
    /// Packers cannot be identified in other processes.
    #[error(
        "caches are not supported on this system, which does not report the positions of functions in their files; load the model without a cache"
    )]
    Unsupported,
}

impl Coded for CacheError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NoFolder { .. } => ErrorCode::InvalidPath,
            Self::NoModel { .. } | Self::SeveralModels { .. } => ErrorCode::InvalidArgument,
            Self::Newer { .. } | Self::Older { .. } | Self::NotExportable => {
                ErrorCode::InvalidState
            }
            Self::Damaged { .. } => ErrorCode::InvalidFile,
            Self::Graph(_) => ErrorCode::Internal,
            Self::Unsupported => ErrorCode::Unsupported,
        }
    }
}

/// Formats the requested name.
fn quoted_name(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" {name:?}"))
}

/// The state of a cache for a model when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// No file.
    Miss,
    /// A file of this model.
    Hit,
    /// A file that is useless, completely or in part, for this reason.
    Rebuilt(String),
    /// A precompiled model file whose prepacked weights are useless, for this reason.
    Unfit(String),
    /// A folder that is neither read nor written, for this reason.
    NotUsed(String),
}

/// The use of a cache for a model so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheReport {
    /// The path of the model's file in the folder; empty without a file.
    pub path: PathBuf,
    /// The state of the cache when it was opened.
    pub outcome: CacheOutcome,
    /// The number of prepacked weights that came from the file.
    pub restored: usize,
    /// The number of weights that had to be packed.
    pub packed: usize,
    /// The reason why the file could not be written.
    pub not_saved: Option<String>,
}

impl CacheReport {
    /// Returns warnings for the user.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        let path = self.path.display();
        let rebuilt = match &self.outcome {
            CacheOutcome::Rebuilt(why) => Some(format!("cache file {path} is rebuilt: {why}")),
            CacheOutcome::Unfit(why) => {
                Some(format!("the prepacked weights in the model file are not used: {why}"))
            }
            CacheOutcome::NotUsed(why) => Some(why.clone()),
            CacheOutcome::Miss | CacheOutcome::Hit => None,
        };
        let not_saved = self
            .not_saved
            .as_ref()
            .map(|why| format!("cache file {path} could not be saved: {why}"));
        rebuilt.into_iter().chain(not_saved)
    }
}
