//! What is made of constants: packed weights, converted and computed tensors. Models and plans share it, and a cache keeps it
//! between processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use udo_api::{Encodings, Layout, TensorDesc};
use udo_graph::memory::{Derived, Tensor, TensorStorage};
use udo_host::{Budget, PackStore};

use crate::cache::Cache;
use crate::cores::Format;
use crate::cores::convert::ConstantError;
use crate::cores::relayout::constant;

/// Constants of fewer bytes are computed as fast as they are looked for.
const KEPT_BYTES: usize = 64 << 10;

/// What is made of constants.
///
/// A clone shares packed constants with what it was cloned from.
#[derive(Clone, Debug, Default)]
pub struct Constants {
    packs: PackStore,
    /// What is made of constants, where models or plans share that.
    derived: Option<Derived>,
    /// The cache of prepacked weights between processes.
    cache: Option<Arc<Cache>>,
    /// What a byte of packed constants costs in each of several plans of one graph, as far as they have been placed; nothing
    /// where there is one plan.
    shared_price: Option<Arc<AtomicU32>>,
}

impl Constants {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Packed constants.
    pub fn packs(&self) -> &PackStore {
        &self.packs
    }

    /// What is made from now on counts in this budget.
    pub fn budget(&self) -> &Budget {
        self.packs.budget()
    }

    /// Has what is made from now on count in `budget`.
    pub fn charge(&mut self, budget: Budget) {
        self.packs.charge(budget);
    }

    /// Looks for prepacked weights in `cache` from now on, and stores them there.
    pub fn use_cache(&mut self, cache: &Arc<Cache>) {
        self.packs.look_in(Arc::<Cache>::clone(cache));
        self.cache = Some(Arc::clone(cache));
    }

    /// The cache of prepacked weights between processes.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Has what is made of constants be the same for all who have `derived`.
    pub fn derive_in(&mut self, derived: &Derived) {
        self.derived = Some(derived.clone());
    }

    /// The same for several plans of one graph, which share what they make of constants.
    #[must_use]
    pub fn for_plans(&self) -> Self {
        let derived = Some(self.derived.clone().unwrap_or_default());
        Self { derived, shared_price: Some(Arc::default()), ..self.clone() }
    }

    /// Whether several plans are made of one graph.
    pub fn makes_several_plans(&self) -> bool {
        self.shared_price.is_some()
    }

    /// What a byte of packed constants costs, as far as earlier plans of the graph found that.
    pub fn memory_price(&self) -> u32 {
        self.shared_price.as_ref().map_or(0, |price| price.load(Ordering::Relaxed))
    }

    /// Has later plans of the graph pack constants into the same forms.
    pub fn set_memory_price(&self, price: u32) {
        if let Some(shared) = &self.shared_price {
            shared.store(price, Ordering::Relaxed);
        }
    }

    /// What `compute` makes of constants; `key` says everything of it, or nothing where that takes too many words.
    ///
    /// # Errors
    /// What `compute` says.
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

    /// What `make` computes of constants, which a cache may have of an earlier process; `of` says everything of it.
    pub fn kept(
        &self,
        desc: &TensorDesc,
        of: impl FnOnce(&Cache) -> Option<String>,
        make: impl FnOnce() -> Option<Tensor>,
    ) -> Option<Tensor> {
        let is_large = desc.full_shape().is_fixed() && desc.size_bytes() >= KEPT_BYTES;
        let cache = self.cache.as_deref().filter(|_| is_large);
        match cache.and_then(|cache| Some((cache, of(cache)?))) {
            Some((cache, of)) => cache.kept(&of, desc, make),
            None => make(),
        }
    }

    /// A constant in another format.
    ///
    /// # Errors
    /// There is no way from one format to the other, or no memory.
    pub fn constant(
        &self,
        tensor: &Tensor,
        from: &TensorDesc,
        to: &Format,
    ) -> Result<Tensor, ConstantError> {
        let is_said = |desc: &TensorDesc| !matches!(desc.encodings(), Some(Encodings::PerAxis(_)));
        // Where nothing is converted there is nothing to share but the tensor itself.
        let is_other = *from != to.desc || to.layout() != Layout::AsGiven;
        let key = || {
            let is_short = is_said(from) && is_said(&to.desc);
            (is_other && is_short).then(|| format!("{} {from:?} {to:?}", tensor.id()))
        };
        let convert =
            || constant(tensor, from, to, self.packs.budget()).map(|made| vec![Some(made)]);
        let made = self.derived(key, convert)?.pop().flatten();
        Ok(made.unwrap_or_else(|| tensor.clone()))
    }
}
