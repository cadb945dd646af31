//! How caches are asked for, why they are refused, and what they did.

use std::path::PathBuf;

use crate::device::ErrorCode;
use udo_graph::container::ContainerError;
use udo_graph::error::Coded;

/// Where packed constants are kept between processes.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// A folder, which is there.
    pub dir: PathBuf,
    /// The caller's own count: what an older one left is made again, and what a newer one left is not touched.
    pub version: u32,
}

/// Why a cache cannot be used at all. Everything else is a reason to pack, and no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// There is no such folder.
    #[error("the cache's folder {} cannot be used: {reason}; make it, or name another", dir.display())]
    NoFolder {
        /// The folder.
        dir: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Somebody with a newer version wrote the file.
    #[error(
        "the cache's file {} is of version {found}, wanted {wanted} or older; ask for that version, or name another folder",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version asked for.
        wanted: u32,
    },
    /// There is nothing to make a model of.
    #[error("the cache's folder {} has no model{}; compile one with this folder, or give the model", dir.display(), of(.name.as_deref()))]
    NoModel {
        /// The folder.
        dir: PathBuf,
        /// The name asked for.
        name: Option<String>,
    },
    /// There are several models.
    #[error("the cache's folder {} has several models; wanted the name of one of {}", dir.display(), .known.join(", "))]
    SeveralModels {
        /// The folder.
        dir: PathBuf,
        /// Their names.
        known: Vec<String>,
    },
    /// A model is to be made of what an older version left.
    #[error("the cache's file {} is of version {found}, wanted {wanted}; compile the model again", path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version asked for.
        wanted: u32,
    },
    /// A file, or the part of a model file that was prepared, is not as it was written.
    #[error("{what} is damaged: {reason}; make it again")]
    Damaged {
        /// What it is.
        what: String,
        /// How that shows.
        reason: String,
    },
    /// The graph cannot be stored.
    #[error(transparent)]
    Graph(#[from] ContainerError),
    /// The model was not asked to be one that can be exported.
    #[error("the model does not hold its graph; load or compile it as one that can be exported")]
    NotExportable,
    /// Nothing can stand for a packer in another process.
    #[error(
        "this system does not say where functions lie in their files, which a cache has to know; load without one"
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

/// The name asked for, in words.
fn of(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" {name:?}"))
}

/// What a cache had for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// Nothing.
    Miss,
    /// A file of this model.
    Hit,
    /// A file that is of no use, or not in whole, for this reason.
    Rebuilt(String),
    /// What a model file was prepared with, which is of no use for this reason.
    Unfit(String),
}

/// What a cache did for a model so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheReport {
    /// The model's file in the folder; empty where there is none.
    pub path: PathBuf,
    /// What it was.
    pub outcome: CacheOutcome,
    /// How many packed constants came from it.
    pub restored: usize,
    /// How many had to be packed.
    pub packed: usize,
    /// Why the file could not be written, if it had to be and could not.
    pub not_saved: Option<String>,
}

impl CacheReport {
    /// What the user should know.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        let path = self.path.display();
        let rebuilt = match &self.outcome {
            CacheOutcome::Rebuilt(why) => {
                Some(format!("the cache's file {path} is made again: {why}"))
            }
            CacheOutcome::Unfit(why) => {
                Some(format!("what the model file was prepared with is not used: {why}"))
            }
            CacheOutcome::Miss | CacheOutcome::Hit => None,
        };
        let not_saved = self
            .not_saved
            .as_ref()
            .map(|why| format!("the cache's file {path} is not saved: {why}"));
        rebuilt.into_iter().chain(not_saved)
    }
}
