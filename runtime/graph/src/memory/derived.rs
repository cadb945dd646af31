//! A cache of tensors that are computed from other tensors.
//!
//! Equal computations return tensors with the same id, so that plans (compiled graphs) share prepacked weights. While
//! anything still uses a tensor, they return that tensor itself.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use prost::bytes::Bytes;
use udo_api::TensorDesc;

use super::{Buffer, Data, InModel, Tensor};

/// Weak references to computed tensors, by the key of the computation. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Derived(Arc<Mutex<Entries>>);

/// The entries of the cache. A sweep removes entries that are unused: neither new nor requested since the last sweep, and
/// without live tensors.
#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    /// The number of entries that triggers the next sweep: the cache grows by as many entries as the last sweep found in
    /// use, so that the cost of sweeps per new entry is constant.
    sweep_len: usize,
}

/// The outputs of one computation.
#[derive(Debug)]
struct Entry {
    tensors: Vec<Option<WeakTensor>>,
    /// Whether the entry was added since the last sweep.
    is_new: bool,
    /// Whether the entry was requested since the last sweep.
    is_requested: bool,
}

/// No sweep takes place below this number of entries.
const MIN_SWEEP_ENTRIES: usize = 4096;

impl Entries {
    fn get(&mut self, key: &str) -> Option<Vec<Option<WeakTensor>>> {
        let entry = self.by_key.get_mut(key)?;
        entry.is_requested = true;
        Some(entry.tensors.clone())
    }

    fn insert(&mut self, key: String, tensors: Vec<Option<WeakTensor>>) {
        if self.by_key.len() >= self.sweep_len.max(MIN_SWEEP_ENTRIES) {
            let mut used = 0;
            self.by_key.retain(|_, entry| {
                let is_new = mem::take(&mut entry.is_new);
                let is_used = mem::take(&mut entry.is_requested) || entry.is_alive();
                used += usize::from(is_used);
                is_new || is_used
            });
            self.sweep_len = self.by_key.len().saturating_add(used.max(MIN_SWEEP_ENTRIES));
        }
        self.by_key.insert(key, Entry { tensors, is_new: true, is_requested: false });
    }
}

impl Entry {
    fn is_alive(&self) -> bool {
        self.tensors.iter().flatten().any(|weak| weak.tensor().is_some())
    }
}

/// A weak reference to a tensor.
#[derive(Clone, Debug)]
struct WeakTensor {
    desc: TensorDesc,
    data: WeakData,
    id: u64,
    stable: Option<u128>,
}

#[derive(Clone, Debug)]
enum WeakData {
    Own(Weak<Buffer>),
    File(Weak<Bytes>),
    Model(Weak<InModel>),
}

impl WeakTensor {
    fn new(tensor: &Tensor) -> Self {
        let data = match &tensor.data {
            Data::Own(buffer) => WeakData::Own(Arc::downgrade(buffer)),
            Data::File(bytes) => WeakData::File(Arc::downgrade(bytes)),
            Data::Model(bytes) => WeakData::Model(Arc::downgrade(bytes)),
        };
        Self { desc: tensor.desc, data, id: tensor.id, stable: tensor.stable }
    }

    fn tensor(&self) -> Option<Tensor> {
        let data = match &self.data {
            WeakData::Own(buffer) => Data::Own(buffer.upgrade()?),
            WeakData::File(bytes) => Data::File(bytes.upgrade()?),
            WeakData::Model(bytes) => Data::Model(bytes.upgrade()?),
        };
        Some(Tensor { desc: self.desc, data, id: self.id, stable: self.stable })
    }
}

impl Derived {
    /// Returns the tensors of the computation that `key` identifies; runs `compute` unless all of them are alive.
    ///
    /// # Errors
    /// Fails as `compute` does.
    pub fn get<E>(
        &self,
        key: String,
        compute: impl FnOnce() -> Result<Vec<Option<Tensor>>, E>,
    ) -> Result<Vec<Option<Tensor>>, E> {
        let cached = self.lock().get(&key);
        let upgrade = |output: &Option<WeakTensor>| match output {
            Some(weak) => weak.tensor().map(Some),
            None => Some(None),
        };
        let alive = cached.as_ref().and_then(|outputs| outputs.iter().map(upgrade).collect());
        if let Some(tensors) = alive {
            return Ok(tensors);
        }
        let mut tensors = compute()?;
        for (tensor, cached) in tensors.iter_mut().zip(cached.unwrap_or_default()) {
            if let (Some(tensor), Some(cached)) = (tensor, cached) {
                tensor.id = cached.id;
            }
        }
        let weak = tensors.iter().map(|tensor| tensor.as_ref().map(WeakTensor::new)).collect();
        self.lock().insert(key, weak);
        Ok(tensors)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::TensorStorage;
    use std::convert::Infallible;

    use udo_api::Shape;

    use super::*;

    #[test]
    fn a_repeated_computation_returns_the_same_id() {
        let derived = Derived::default();
        let tensor = |x: f32| Tensor::from_slice(Shape::SCALAR, &[x]).unwrap();
        let get = |key: &str, x: f32| {
            let outputs =
                derived.get(key.to_owned(), || Ok::<_, Infallible>(vec![Some(tensor(x)), None]));
            let [Some(output), None] = &outputs.unwrap()[..] else { panic!("one of two outputs") };
            output.clone()
        };
        let first = get("a", 1.0);
        let id = first.id();
        assert_eq!(get("a", 2.0).get::<f32>(), Some(&[1.0][..]), "the cached tensor");
        assert_ne!(get("b", 1.0).id(), id);
        drop(first);
        let again = get("a", 3.0);
        assert_eq!((again.id(), again.get::<f32>()), (id, Some(&[3.0][..])));
        let refused: Result<_, u8> = derived.get("c".to_owned(), || Err(7));
        assert_eq!(refused.unwrap_err(), 7);
    }

    #[test]
    fn unused_entries_are_removed() {
        let derived = Derived::default();
        let get = |key: &str| {
            let make = || {
                Ok::<_, Infallible>(vec![Some(Tensor::from_slice(Shape::SCALAR, &[1f32]).unwrap())])
            };
            derived.get(key.to_owned(), make).unwrap().pop().flatten().unwrap()
        };
        let (alive, requested_id) = (get("alive"), get("requested").id());
        let mut max_len = 0;
        for number in 0..50_000 {
            get(&number.to_string());
            if number % 1000 == 0 {
                assert_eq!(get("requested").id(), requested_id);
            }
            max_len = max_len.max(derived.lock().by_key.len());
        }
        assert!(max_len <= 2 * MIN_SWEEP_ENTRIES + 4, "{max_len} entries");
        assert_eq!(get("alive").id(), alive.id());
    }
}
