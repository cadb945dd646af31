//! Packed constants: requested in finalize, created afterwards, shared by all kernels with the same sources and recipe.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use udo_api::abi::{
    HostTable, PackArgs, PackFn, PackRequest, PackSource, ParallelTable, Span, Tie, Work,
    fast_math, read_block,
};
use udo_api::{Encoding, Encodings, FastMath, Status, TensorDesc};

use crate::node::{ErrorText, Machine, refuse};
use crate::{Budget, Buffer, PackedBytes, Refusal};

/// The identity of a constant's elements: a tensor in one of the formats that kernels get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConstantId {
    /// The process-wide id of the tensor.
    pub tensor: u64,
    /// Properties of the format that the description lacks, such as the order of dimensions.
    pub format: u64,
}

/// A source of a packed constant.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its identity.
    pub id: ConstantId,
    /// Type, shape and encoding.
    pub desc: TensorDesc,
    /// The elements, aligned for their type unless the packer is the host's own.
    pub bytes: &'a [u8],
    /// An id that is the same in all processes, if it is known without reading the elements.
    pub stable: Option<u128>,
}

/// Everything that determines a packed constant, except the elements of its sources.
#[derive(Clone, Debug)]
pub struct PackOf<'a> {
    /// The addresses of the packing function and of its static data.
    pub code: [usize; 2],
    /// The size, the recipe, and the descriptions of the sources, as numbers that are the same in all processes.
    pub words: Vec<u64>,
    /// The sources.
    pub sources: &'a [Source<'a>],
}

impl PackOf<'_> {
    /// Returns the key within this process.
    fn key(&self) -> Key {
        // Addresses of functions distinguish libraries and functions within a process.
        let code = self.code.map(|address| address as u64);
        let tensors = self.sources.iter().map(|source| source.id.tensor);
        code.into_iter().chain(self.words.iter().copied()).chain(tensors).collect()
    }
}

/// A cache of packed constants, perhaps of other processes.
pub trait PackCache: fmt::Debug + Send + Sync {
    /// Returns the id of a packed constant in all processes; `None` if it cannot be determined.
    fn id(&self, constant: &PackOf<'_>) -> Option<u128>;

    /// Returns the packed constant if it is stored completely with this size.
    fn restore(&self, id: u128, len: usize) -> Option<PackedBytes>;

    /// Records a packed constant that a kernel uses.
    fn note(&self, id: u128, packed: &Arc<PackedBytes>, from: PackedFrom);
}

/// The origin of a packed constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedFrom {
    /// Another kernel of the process already had it.
    Process,
    /// A cache.
    Cache,
    /// Its packer.
    Packer,
}

/// The numbers that determine a packed constant.
type Key = Vec<u64>;

/// A packed constant, locked while it is being created.
type Slot = Arc<Mutex<Weak<PackedBytes>>>;

/// The packed constants that kernels use. Clones share them, and each counts in its own budget.
#[derive(Clone, Debug, Default)]
pub struct PackStore {
    budget: Budget,
    slots: Arc<Mutex<Slots>>,
    cache: Option<Arc<dyn PackCache>>,
}

/// Slots of packed constants, by key.
#[derive(Debug, Default)]
struct Slots {
    by_key: HashMap<Key, Slot>,
    /// The number of slots at which unused ones are removed: twice the number that the last removal left.
    removal_len: usize,
}

/// The minimum number of slots for a removal.
const FEW_SLOTS: usize = 64;

impl Slots {
    fn slot(&mut self, key: Key) -> Slot {
        if self.by_key.len() >= self.removal_len.max(FEW_SLOTS) {
            // A thread that is creating a constant has a second reference to its slot.
            self.by_key
                .retain(|_, slot| Arc::strong_count(slot) > 1 || lock(slot).strong_count() > 0);
            self.removal_len = self.by_key.len().saturating_mul(2);
        }
        Arc::clone(self.by_key.entry(key).or_default())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PackStore {
    /// Charges later packed constants, and other memory for constants, to `budget`.
    pub fn charge(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Returns the budget of the constants.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Uses `cache` for later packed constants.
    pub fn look_in(&mut self, cache: Arc<dyn PackCache>) {
        self.cache = Some(cache);
    }

    /// Returns the packed constant of this key; `make` creates it if no kernel has it.
    fn get(
        &self,
        key: Key,
        make: impl FnOnce() -> Result<PackedBytes, Refusal>,
    ) -> Result<Arc<PackedBytes>, Refusal> {
        let slot = lock(&self.slots).slot(key);
        let mut cached = lock(&slot);
        if let Some(buffer) = cached.upgrade() {
            return Ok(buffer);
        }
        let buffer = Arc::new(make()?);
        *cached = Arc::downgrade(&buffer);
        Ok(buffer)
    }
}

/// A packed constant that a kernel requested.
#[derive(Clone)]
pub struct Job {
    inputs: Vec<usize>,
    recipe: Vec<u64>,
    bytes: usize,
    fill: PackFn,
    body: *const c_void,
}

// SAFETY: the contract requires the target of `body` to be static and immutable.
unsafe impl Send for Job {}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({} bytes of inputs {:?})", self.bytes, self.inputs)
    }
}

impl Job {
    /// Returns the source inputs.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// Returns the recipe.
    pub fn recipe(&self) -> &[u64] {
        &self.recipe
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the same packer with another recipe and size.
    #[must_use]
    pub fn with(&self, recipe: Vec<u64>, bytes: usize) -> Self {
        Self { inputs: self.inputs.clone(), recipe, bytes, ..*self }
    }

    /// Packs `sources` without sharing the result.
    ///
    /// # Errors
    /// The packer refuses or panics, or memory is exhausted.
    pub fn make(
        &self,
        sources: &[Source<'_>],
        parallel: Option<&ParallelTable>,
    ) -> Result<Buffer, Refusal> {
        let buffer = Buffer::zeroed(self.bytes)
            .map_err(|error| Refusal { status: Status::FAILED, message: error.to_string() })?;
        self.fill(buffer, sources, parallel)
    }

    /// Returns the packed constant from `store`, or packs `sources`.
    pub(crate) fn run(
        &self,
        sources: &[Source<'_>],
        store: &PackStore,
        parallel: Option<&ParallelTable>,
    ) -> Result<Arc<PackedBytes>, Refusal> {
        let constant = PackOf { code: self.code(), words: self.words(sources), sources };
        let cache = store.cache.as_deref().and_then(|cache| Some((cache, cache.id(&constant)?)));
        let mut from = PackedFrom::Process;
        let packed = store.get(constant.key(), || {
            if let Some(stored) = cache.and_then(|(cache, id)| cache.restore(id, self.bytes)) {
                from = PackedFrom::Cache;
                return Ok(stored);
            }
            from = PackedFrom::Packer;
            let buffer = store
                .budget
                .zeroed(self.bytes)
                .map_err(|error| Refusal { status: Status::FAILED, message: error.to_string() })?;
            self.fill(buffer, sources, parallel).map(PackedBytes::from)
        })?;
        if let Some((cache, id)) = cache {
            cache.note(id, &packed, from);
        }
        Ok(packed)
    }

    /// Returns the addresses of the packing function and of its static data.
    pub fn code(&self) -> [usize; 2] {
        [self.fill as usize, self.body.addr()]
    }

    /// Returns the numbers that determine the contents, except the code and the sources' elements.
    fn words(&self, sources: &[Source<'_>]) -> Vec<u64> {
        let number = |n: usize| n as u64;
        let counts = [self.bytes, self.recipe.len(), sources.len()];
        let mut words: Vec<_> = counts.into_iter().map(number).collect();
        words.extend(&self.recipe);
        for Source { id, desc, .. } in sources {
            words.push(id.format);
            words.extend([
                desc.dtype().map_or(0, |dtype| u64::from(dtype.code())),
                number(desc.rank()),
            ]);
            words.extend(desc.shape().iter().copied().map(number));
            push_encodings(&mut words, desc.encodings());
        }
        words
    }

    /// Runs the packer on `buffer`, which is zeroed.
    fn fill(
        &self,
        buffer: Buffer,
        sources: &[Source<'_>],
        parallel: Option<&ParallelTable>,
    ) -> Result<Buffer, Refusal> {
        let sources: Vec<PackSource> = sources
            .iter()
            .map(|&Source { desc, bytes, .. }| {
                let data = Span { ptr: bytes.as_ptr(), bytes: bytes.len() };
                PackSource { desc, data }
            })
            .collect();
        let mut errors = ErrorText::default();
        let sink = errors.sink();
        let args = PackArgs {
            size: PackArgs::SIZE,
            reserved: 0,
            body: self.body,
            recipe: self.recipe.as_ptr(),
            recipe_len: self.recipe.len(),
            sources: sources.as_ptr(),
            source_count: sources.len(),
            target: buffer.as_ptr(),
            target_bytes: self.bytes,
            errors: &raw const sink,
            parallel: parallel.map_or(std::ptr::null(), |table| &raw const *table),
            reserved_words: [0; 3],
        };
        // SAFETY: `args` points to the recipe, to `sources` with their bytes, to `bytes` writable bytes of `buffer`
        // without other references, to `sink` and to `parallel`; all outlive the call, and `body` belongs to `fill`.
        let status = unsafe { (self.fill)(&raw const args) };
        refuse(status, errors.into())?;
        Ok(buffer)
    }
}

fn push_encodings(key: &mut Key, encodings: Option<Encodings>) {
    let word = |scale: f32, zero_point: i32| {
        u64::from(scale.to_bits()) << 32 | u64::from(zero_point.cast_unsigned())
    };
    match encodings {
        None => key.push(0),
        Some(Encodings::PerTensor(Encoding { scale, zero_point })) => {
            key.extend([1, word(scale, zero_point)]);
        }
        Some(Encodings::PerAxis(encoding)) => {
            key.extend([2, encoding.axis() as u64, encoding.count() as u64]);
            let pairs = encoding.scales().iter().zip(encoding.zero_points());
            key.extend(pairs.map(|(&scale, &zero_point)| word(scale, zero_point)));
        }
    }
}

/// The requests of one kernel in finalize.
#[derive(Default)]
pub(crate) struct Packing {
    jobs: RefCell<Vec<Job>>,
    read_inputs: RefCell<Vec<usize>>,
    ties: RefCell<Vec<Tie>>,
    work: Cell<Option<Work>>,
}

/// The requests and declarations of a kernel in finalize.
pub(crate) struct Requests {
    pub(crate) jobs: Vec<Job>,
    /// The inputs that execute reads although they are packed.
    pub(crate) read_inputs: Vec<usize>,
    pub(crate) ties: Vec<Tie>,
    pub(crate) work: Option<Work>,
}

impl Packing {
    /// Returns the host table for the kernel; valid while `self` stays in place.
    pub(crate) fn table(&self, machine: Machine) -> HostTable {
        let ctx = (&raw const *self).cast_mut().cast();
        let Machine { threads, isa, fast_memory_bytes, fast_math, memory_price } = machine;
        let fast_math = match fast_math {
            FastMath::None => 0,
            FastMath::Bf16 => fast_math::BF16,
        };
        let isa = isa.code();
        HostTable {
            size: HostTable::SIZE,
            fast_math,
            reserved: 0,
            ctx,
            pack,
            keep,
            threads,
            isa,
            memory_price,
            fast_memory_bytes,
            tie,
            work: Some(work),
        }
    }

    /// Returns the requests.
    pub(crate) fn into_requests(self) -> Requests {
        let Self { jobs, read_inputs, ties, work } = self;
        let work = work.into_inner();
        Requests {
            jobs: jobs.into_inner(),
            read_inputs: read_inputs.into_inner(),
            ties: ties.into_inner(),
            work,
        }
    }
}

/// # Safety
/// `ptr` must point to `len` elements, or be whatever where `len` is 0.
unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 || ptr.is_null() {
        return &[];
    }
    // SAFETY: `ptr` is not null and points to `len` elements.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

// SAFETY: called only through `Packing::table`, whose `ctx` is a `Packing`.
unsafe extern "C" fn pack(ctx: *mut c_void, request: *const PackRequest, index: *mut u32) -> u32 {
    // SAFETY: `ctx` is the `Packing` that `finalize` owns during the call.
    let packing = unsafe { &*ctx.cast::<Packing>() };
    // SAFETY: the package passes one request for the call.
    let Some(request) = (unsafe { read_block(request) }) else { return Status::BAD_CALL.code() };
    let Some(fill) = request.fill else { return Status::BAD_CALL.code() };
    // SAFETY: `inputs` points to `input_count` numbers for the call.
    let inputs = unsafe { slice(request.inputs, request.input_count) };
    // SAFETY: `recipe` points to `recipe_len` numbers for the call.
    let recipe = unsafe { slice(request.recipe, request.recipe_len) };
    let mut jobs = packing.jobs.borrow_mut();
    let Ok(number) = u32::try_from(jobs.len()) else { return Status::BAD_CALL.code() };
    jobs.push(Job {
        inputs: inputs.iter().map(|&input| input as usize).collect(),
        recipe: recipe.to_vec(),
        bytes: request.bytes,
        fill,
        body: request.body,
    });
    // SAFETY: the package passes memory for one number at `index`.
    unsafe { index.write(number) };
    Status::OK.code()
}

// SAFETY: called only through `Packing::table`, whose `ctx` is a `Packing`.
unsafe extern "C" fn keep(ctx: *mut c_void, input: u32) -> u32 {
    // SAFETY: `ctx` is the `Packing` that `finalize` owns during the call.
    let packing = unsafe { &*ctx.cast::<Packing>() };
    packing.read_inputs.borrow_mut().push(input as usize);
    Status::OK.code()
}

// SAFETY: called only through `Packing::table`, whose `ctx` is a `Packing`.
unsafe extern "C" fn tie(ctx: *mut c_void, tie: *const Tie) -> u32 {
    // SAFETY: `ctx` is the `Packing` that `finalize` owns during the call.
    let packing = unsafe { &*ctx.cast::<Packing>() };
    // SAFETY: the package passes one tie for the call.
    let Some(tie) = (unsafe { read_block(tie) }) else { return Status::BAD_CALL.code() };
    packing.ties.borrow_mut().push(tie);
    Status::OK.code()
}

// SAFETY: called only through `Packing::table`, whose `ctx` is a `Packing`.
unsafe extern "C" fn work(ctx: *mut c_void, work: *const Work) -> u32 {
    // SAFETY: `ctx` is the `Packing` that `finalize` owns during the call.
    let packing = unsafe { &*ctx.cast::<Packing>() };
    // SAFETY: the package passes the work of one call, valid for the call.
    let work = unsafe { read_block(work) };
    let Some(work) = work.filter(|work| work.arithmetic().is_some()) else {
        return Status::BAD_CALL.code();
    };
    packing.work.set(Some(work));
    Status::OK.code()
}

#[cfg(test)]
mod tests {
    use udo_api::{AxisEncoding, DType, Isa, Shape};

    use super::*;

    // SAFETY: matches `PackFn`; it reads nothing.
    unsafe extern "C" fn nothing(_: *const PackArgs) -> u32 {
        Status::OK.code()
    }

    /// The words of a [`Work`], aligned for it.
    #[repr(align(8))]
    struct Words([u32; 14]);

    #[test]
    fn requests_of_an_unknown_size_or_kind_are_refused() {
        let packing = Packing::default();
        let host = packing.table(Machine {
            threads: 1,
            isa: Isa::Portable,
            fast_memory_bytes: 0,
            fast_math: FastMath::None,
            memory_price: 0,
        });
        let good = PackRequest {
            size: PackRequest::SIZE,
            reserved: 0,
            // As many as `input_count` says, unless null.
            inputs: std::ptr::null(),
            input_count: 3,
            recipe: std::ptr::null(),
            recipe_len: 0,
            bytes: 4,
            fill: Some(nothing),
            body: std::ptr::null(),
            reserved_words: [0; 4],
        };
        let pack = |request: PackRequest| {
            let mut index = 7;
            // SAFETY: `ctx` belongs to the table, and `request` and `index` outlive the call.
            let status = unsafe { (host.pack)(host.ctx, &raw const request, &raw mut index) };
            (Status::from_code(status), index)
        };
        assert_eq!(pack(good), (Status::OK, 0));
        for size in [0, 4, PackRequest::SIZE - 4, PackRequest::SIZE + 8, u32::MAX] {
            assert_eq!(pack(PackRequest { size, ..good }), (Status::BAD_CALL, 7), "{size} bytes");
        }
        assert_eq!(pack(PackRequest { fill: None, ..good }), (Status::BAD_CALL, 7));
        let good = Tie {
            size: Tie::SIZE,
            kind: 0,
            input: 0,
            output: 0,
            axis: 0,
            reserved: 0,
            offset: 0,
            reserved_words: [0; 2],
        };
        for size in [0, 4, Tie::SIZE - 4, Tie::SIZE + 8, u32::MAX] {
            let bad = Tie { size, ..good };
            // SAFETY: as for `pack`.
            let status = unsafe { (host.tie)(host.ctx, &raw const bad) };
            assert_eq!(Status::from_code(status), Status::BAD_CALL, "{size} bytes");
        }
        let note = |work: &[u32; 14]| {
            // SAFETY: as for `pack`; `work` has the size in its first word, or is refused because of it.
            unsafe { host.work.unwrap()(host.ctx, work.as_ptr().cast()) }
        };
        for (size, arithmetic) in
            [(0, 1), (4, 1), (Work::SIZE - 4, 1), (64, 1), (Work::SIZE, 0), (Work::SIZE, 99)]
        {
            let bad = Words([size, arithmetic, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(Status::from_code(note(&bad.0)), Status::BAD_CALL, "{size} bytes");
        }
        let Requests { jobs, ties, work, .. } = packing.into_requests();
        assert_eq!(
            (jobs.len(), ties.len(), work),
            (1, 0, None),
            "refused requests are not recorded"
        );
        assert!(jobs[0].inputs().is_empty());
    }

    #[test]
    fn unused_slots_are_removed() {
        let store = PackStore::default();
        let make = || {
            Buffer::zeroed(8)
                .map(PackedBytes::from)
                .map_err(|_| Refusal { status: Status::FAILED, message: String::new() })
        };
        let used = store.get(vec![u64::MAX], make).unwrap();
        let mut max_slots = 0;
        for key in 0..10_000 {
            drop(store.get(vec![key], make).unwrap());
            max_slots = max_slots.max(lock(&store.slots).by_key.len());
        }
        assert!(max_slots <= 2 * FEW_SLOTS, "{max_slots} slots for one constant in use");
        let again = store.get(vec![u64::MAX], || panic!("the constant is in use")).unwrap();
        assert!(Arc::ptr_eq(&used, &again));
        let constants: Vec<_> = (0..1000).map(|key| store.get(vec![key], make).unwrap()).collect();
        for (key, expected) in (0..).zip(&constants) {
            let shared = store.get(vec![key], || panic!("the constant is in use")).unwrap();
            assert!(Arc::ptr_eq(expected, &shared));
        }
    }

    /// Returns the key of a constant with these encodings.
    fn key(encodings: Option<Encodings>) -> Key {
        let desc = TensorDesc::new(DType::I8, Shape::new(&[2, 2]).unwrap());
        let desc = encodings.map_or(desc, |encodings| desc.with_encodings(encodings));
        let id = ConstantId { tensor: 1, format: 0 };
        let body = std::ptr::null();
        let job = Job { inputs: vec![0], recipe: vec![7], bytes: 4, fill: nothing, body };
        let sources = &[Source { id, desc, bytes: &[1, 2, 3, 4], stable: None }];
        PackOf { code: job.code(), words: job.words(sources), sources }.key()
    }

    #[test]
    fn constants_with_other_encodings_have_other_keys() {
        let per_axis = |axis: usize, scales: &[f32], zero_points: &[i32]| {
            Some(Encodings::PerAxis(AxisEncoding::intern(axis, scales, zero_points).unwrap()))
        };
        let per_tensor = |scale: f32, zero_point: i32| {
            Some(Encodings::PerTensor(Encoding { scale, zero_point }))
        };
        let cases = [
            None,
            per_tensor(1.0, 0),
            per_tensor(2.0, 0),
            per_tensor(1.0, -1),
            per_axis(0, &[1.0, 2.0], &[0, 0]),
            per_axis(1, &[1.0, 2.0], &[0, 0]),
            per_axis(1, &[2.0, 1.0], &[0, 0]),
            per_axis(1, &[1.0, 2.0], &[0, -1]),
        ];
        for (index, encodings) in cases.into_iter().enumerate() {
            for (other_index, other) in cases.into_iter().enumerate() {
                assert_eq!(
                    key(encodings) == key(other),
                    index == other_index,
                    "{encodings:?}, {other:?}"
                );
            }
        }
    }
}
