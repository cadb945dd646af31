//! Pooling: over windows of a channel (`MaxPool`, `AveragePool`, `LpPool`), or over the whole channel (`GlobalAveragePool`).

mod global;
mod gpu;
mod images;
mod windows;

pub(crate) use global::{GlobalPool, global_pool};
pub(crate) use gpu::{PoolGpu, gpu};
pub(crate) use images::{Images, PoolImage, pixels};
pub(crate) use windows::{
    FoldWindow, Pool, each_window, fold_places, pool, stored_windows, windows,
};
