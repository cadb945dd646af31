//! Models by way of caches and buffers: what the next process need not pack again.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::PoisonError;

use udo_engine::device;
use udo_runtime::LoadSource;
use udo_runtime::cache::CacheOutcome;

use crate::argument::{invalid, need};
use crate::born::live;
use crate::codes::{
    CacheOutcomeCode, UDO_CACHE_HIT, UDO_CACHE_MISS, UDO_CACHE_NONE, UDO_CACHE_REBUILT,
    UDO_CACHE_SAVE_FAILED, UDO_CACHE_UNFIT,
};
use crate::error::Error;
use crate::ffi::{BytesMut, Text, guard, hand_out};
use crate::handles::Runtime;
use crate::model::{self, LoadOptionsAt, Model};
use udo_engine::device::{Coded, ErrorContext};

/// Creates the model that an earlier process left in the folder `options->cache_dir`: a model
/// compiled from a graph, or one loaded as exportable. `name` is the name of its graph; NULL means
/// the only one in the folder.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_restore(
    runtime: Option<&Runtime>,
    name: Text,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let (name, options) = (name.option("name")?, model::options(options)?);
        hand_out(out, model::for_c(runtime.0.load(LoadSource::Cached(name), &options)?)?);
        Ok(())
    })
}

/// Writes an exportable model and its prepacked weights to `bytes`. `udo_model_load_bytes` loads
/// it, in any process. `out` receives the size in bytes. With `bytes` NULL and `len` 0 nothing is
/// written; a buffer that is too small is refused.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_export(
    model: Option<&Model>,
    mut bytes: BytesMut,
    len: usize,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        let mut held = model.exported.lock().unwrap_or_else(PoisonError::into_inner);
        let made = if let Some(made) = held.take() {
            made
        } else {
            let made = model.inner.export();
            made.map_err(|error| device::Error::from_error(error.code(), &error))?
        };
        let wanted = made.len();
        let into = bytes.get(len, "bytes")?;
        if len == 0 {
            *held = Some(made);
        } else if let Some(into) = into.get_mut(..wanted) {
            into.copy_from_slice(&made);
        } else {
            *held = Some(made);
            return Err(invalid(format!("len is {len}; expected {wanted} bytes for the model")));
        }
        out.write(wanted);
        Ok(())
    })
}

/// Returns the number of prepacked constants read from the model's cache so far; 0 without a cache.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_cache_restored(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        out.write(model.inner.cache().map_or(0, |report| report.restored));
        Ok(())
    })
}

/// Returns the number of constants packed so far that the model's cache did not have.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_cache_packed(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        out.write(model.inner.cache().map_or(0, |report| report.packed));
        Ok(())
    })
}

/// Returns the state of the model's cache, and whether its file could be written.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_cache_outcome(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<CacheOutcomeCode>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        out.write(outcome(model));
        Ok(())
    })
}

fn outcome(model: &Model) -> CacheOutcomeCode {
    let Some(report) = model.inner.cache() else { return UDO_CACHE_NONE };
    match (report.not_saved, report.outcome) {
        (Some(_), _) => UDO_CACHE_SAVE_FAILED,
        (None, CacheOutcome::Miss) => UDO_CACHE_MISS,
        (None, CacheOutcome::Hit) => UDO_CACHE_HIT,
        (None, CacheOutcome::Rebuilt(_)) => UDO_CACHE_REBUILT,
        (None, CacheOutcome::Unfit(_)) => UDO_CACHE_UNFIT,
        (None, CacheOutcome::NotUsed(_)) => UDO_CACHE_NONE,
    }
}

/// Returns why the cache's file was rebuilt or not saved when the model was created; NULL if all
/// went well. The string lives as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_cache_warning(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        let warning = model.cache_warning.as_ref();
        out.write(warning.map_or(std::ptr::null(), |warning| warning.as_ptr()));
        Ok(())
    })
}
