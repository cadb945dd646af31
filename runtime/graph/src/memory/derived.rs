//! A cache of tensors that are computed from other tensors.
//!
//! Equal computations return tensors with the same id, so that plans share prepacked weights; and the same tensor while
//! anything still holds it.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use prost::bytes::Bytes;
use udo_api::TensorDesc;

use super::{Buffer, Data, InModel, Tensor};

/// Weak references to computed tensors, by the key of the computation. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Derived(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    of: HashMap<String, Entry>,
    /// How many there are before those that nobody wants are looked for: as many new ones as somebody wanted of the old.
    most: usize,
}

#[derive(Debug)]
struct Entry {
    made: Vec<Option<WeakTensor>>,
    /// Whether it was made, or asked for, since those that nobody wants were last looked for.
    is_new: bool,
    is_asked_for: bool,
}

/// Fewer entries than these are not worth looking through.
const FEW_ENTRIES: usize = 4096;

impl Known {
    fn get(&mut self, key: &str) -> Option<Vec<Option<WeakTensor>>> {
        let entry = self.of.get_mut(key)?;
        entry.is_asked_for = true;
        Some(entry.made.clone())
    }

    fn insert(&mut self, key: String, made: Vec<Option<WeakTensor>>) {
        if self.of.len() >= self.most.max(FEW_ENTRIES) {
            let mut wanted = 0;
            self.of.retain(|_, entry| {
                let is_new = mem::take(&mut entry.is_new);
                let is_wanted = mem::take(&mut entry.is_asked_for) || entry.is_alive();
                wanted += usize::from(is_wanted);
                is_new || is_wanted
            });
            self.most = self.of.len().saturating_add(wanted.max(FEW_ENTRIES));
        }
        self.of.insert(key, Entry { made, is_new: true, is_asked_for: false });
    }
}

impl Entry {
    fn is_alive(&self) -> bool {
        self.made.iter().flatten().any(|made| made.tensor().is_some())
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
            Data::Model(of) => WeakData::Model(Arc::downgrade(of)),
        };
        Self { desc: tensor.desc, data, id: tensor.id, stable: tensor.stable }
    }

    fn tensor(&self) -> Option<Tensor> {
        let data = match &self.data {
            WeakData::Own(buffer) => Data::Own(buffer.upgrade()?),
            WeakData::File(bytes) => Data::File(bytes.upgrade()?),
            WeakData::Model(of) => Data::Model(of.upgrade()?),
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
        let known = self.lock().get(&key);
        let tensor = |made: &Option<WeakTensor>| match made {
            Some(made) => made.tensor().map(Some),
            None => Some(None),
        };
        let all = known.as_ref().and_then(|known| known.iter().map(tensor).collect());
        if let Some(all) = all {
            return Ok(all);
        }
        let mut tensors = compute()?;
        let known = known.unwrap_or_default();
        for (tensor, known) in tensors.iter_mut().zip(known) {
            if let (Some(tensor), Some(known)) = (tensor, known) {
                tensor.id = known.id;
            }
        }
        let made = tensors.iter().map(|tensor| tensor.as_ref().map(WeakTensor::new)).collect();
        self.lock().insert(key, made);
        Ok(tensors)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
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
    fn what_is_made_again_has_the_id_that_it_had() {
        let derived = Derived::default();
        let tensor = |x: f32| Tensor::from_slice(Shape::SCALAR, &[x]).unwrap();
        let get = |key: &str, x: f32| {
            let made =
                derived.get(key.to_owned(), || Ok::<_, Infallible>(vec![Some(tensor(x)), None]));
            let [Some(made), None] = &made.unwrap()[..] else { panic!("one of two outputs") };
            made.clone()
        };
        let first = get("a", 1.0);
        let id = first.id();
        assert_eq!(get("a", 2.0).get::<f32>(), Some(&[1.0][..]), "it is there already");
        assert_ne!(get("b", 1.0).id(), id);
        drop(first);
        let again = get("a", 3.0);
        assert_eq!((again.id(), again.get::<f32>()), (id, Some(&[3.0][..])));
        let refused: Result<_, u8> = derived.get("c".to_owned(), || Err(7));
        assert_eq!(refused.unwrap_err(), 7);
    }
    #[test]
    fn what_nobody_has_and_nobody_asks_for_is_let_go_of() {
        let derived = Derived::default();
        let get = |key: &str| {
            let make = || {
                Ok::<_, Infallible>(vec![Some(Tensor::from_slice(Shape::SCALAR, &[1f32]).unwrap())])
            };
            derived.get(key.to_owned(), make).unwrap().pop().flatten().unwrap()
        };
        let (held, asked) = (get("held"), get("asked").id());
        let mut most = 0;
        for at in 0..50_000 {
            get(&at.to_string());
            if at % 1000 == 0 {
                assert_eq!(get("asked").id(), asked);
            }
            most = most.max(derived.lock().of.len());
        }
        assert!(most <= 2 * FEW_ENTRIES + 4, "{most} entries");
        assert_eq!(get("held").id(), held.id());
    }
}
