//! Values derived from constants: prepacked weights, converted and computed tensors. Models and plans share them, and a cache
//! stores them between processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use udo_api::{Encodings, Layout, TensorDesc};
use udo_graph::memory::{Derived, Tensor, TensorStorage};
use udo_host::{Budget, PackStore};

use crate::cache::Cache;
use crate::cores::Format;
use crate::cores::convert::ConstantError;
use crate::cores::relayout::constant;

/// The smallest constant that is cached. Smaller ones are computed as fast as they are looked up.
const CACHED_MIN_BYTES: usize = 64 << 10;

/// Values derived from constants. Clones share prepacked weights.
#[derive(Clone, Debug, Default)]
pub struct Constants {
    packs: PackStore,
    /// Derived tensors, if models or plans share them.
    derived: Option<Derived>,
    /// The cache of prepacked weights between processes.
    cache: Option<Arc<Cache>>,
    /// The memory price (the cost of one byte of prepacked weights) found so far, shared by several plans of one graph; `None` for
    /// a single plan.
    shared_price: Option<Arc<AtomicU32>>,
}

impl Constants {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the prepacked weights.
    pub fn packs(&self) -> &PackStore {
        &self.packs
    }

    /// Returns the budget that new values are charged to.
    pub fn budget(&self) -> &Budget {
        self.packs.budget()
    }

    /// Charges new values to `budget`.
    pub fn charge(&mut self, budget: Budget) {
        self.packs.charge(budget);
    }

    /// Looks up prepacked weights in `cache` from now on, and stores them there.
    pub fn use_cache(&mut self, cache: &Arc<Cache>) {
        self.packs.look_in(Arc::<Cache>::clone(cache));
        self.cache = Some(Arc::clone(cache));
    }

    /// Returns the cache of prepacked weights.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Shares derived tensors with all users of `derived`.
    pub fn derive_in(&mut self, derived: &Derived) {
        self.derived = Some(derived.clone());
    }

    /// Returns a store for several plans of one graph, which share derived values.
    #[must_use]
    pub fn for_plans(&self) -> Self {
        let derived = Some(self.derived.clone().unwrap_or_default());
        Self { derived, shared_price: Some(Arc::default()), ..self.clone() }
    }

    /// Returns whether several plans of one graph are compiled.
    pub fn makes_several_plans(&self) -> bool {
        self.shared_price.is_some()
    }

    /// Returns the price of a byte of prepacked weights that earlier plans of the graph found.
    pub fn memory_price(&self) -> u32 {
        self.shared_price.as_ref().map_or(0, |price| price.load(Ordering::Relaxed))
    }

    /// Sets the price for later plans of the graph, so that they prepack weights in the same formats.
    pub fn set_memory_price(&self, price: u32) {
        if let Some(shared) = &self.shared_price {
            shared.store(price, Ordering::Relaxed);
        }
    }

    /// Returns the shared result of `compute`. `key` identifies it; without a key it is computed each time.
    ///
    /// # Errors
    /// Fails as `compute` does.
    pub fn derived<E>(
        &self,
        key: impl FnOnce() -> Option<String>,
        compute: impl FnOnce() -> Result<Vec<Option<Tensor>>, E>,
    ) -> Result<Vec<Option<Tensor>>, E> {
        match self.derived.as_ref().and_then(|derived| Some((derived, key()?))) {
            Some((derived, key)) => derived.get(key, compute),
            None => compute(),
        }
    }

    /// Returns the result of `compute`, or the cached one of an earlier process. `key` returns the text that identifies it.
    pub fn derive(
        &self,
        desc: &TensorDesc,
        key: impl FnOnce(&Cache) -> Option<String>,
        compute: impl FnOnce() -> Option<Tensor>,
    ) -> Option<Tensor> {
        let is_large = desc.full_shape().is_fixed() && desc.size_bytes() >= CACHED_MIN_BYTES;
        let cache = self.cache.as_deref().filter(|_| is_large);
        match cache.and_then(|cache| Some((cache, key(cache)?))) {
            Some((cache, key)) => cache.cached_constant(&key, desc, compute),
            None => compute(),
        }
    }

    /// Converts a constant to another format.
    ///
    /// # Errors
    /// Fails if there is no conversion, or not enough memory.
    pub fn constant(
        &self,
        tensor: &Tensor,
        from: &TensorDesc,
        to: &Format,
    ) -> Result<Tensor, ConstantError> {
        // Per-axis scales are too long for a key.
        let has_short_name =
            |desc: &TensorDesc| !matches!(desc.encodings(), Some(Encodings::PerAxis(_)));
        // Without a conversion the tensor itself is shared.
        let is_conversion = *from != to.desc || to.layout() != Layout::AsGiven;
        let key = || {
            let is_short = has_short_name(from) && has_short_name(&to.desc);
            (is_conversion && is_short).then(|| format!("{} {from:?} {to:?}", tensor.id()))
        };
        let convert = || {
            constant(tensor, from, to, self.packs.budget()).map(|converted| vec![Some(converted)])
        };
        let converted = self.derived(key, convert)?.pop().flatten();
        Ok(converted.unwrap_or_else(|| tensor.clone()))
    }
}
