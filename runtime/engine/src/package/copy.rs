//! Copies a package's tables into the types of this host.
//!
//! A package of an earlier minor version has shorter structures. The missing fields are zero here, which every field added
//! later defines as "not specified". Nothing is referenced as a type of this host before it has been copied, and no value
//! is created that the type does not allow, such as a null function.

use std::mem::MaybeUninit;

use udo_api::abi::{
    ABI_VERSION, AbiVersion, Block, GpuTable, KernelVTable, LAYOUTS, Layout, LibraryRef, NEEDS,
    PackageV1, StaticPtr, Table, copy_block,
};
use udo_api::guard::LibraryGuard;
use udo_api::{KernelDef, OpDef};

use super::Tier;

/// An upper limit; a larger count means that the table is corrupt.
const ENTRIES_MAX: usize = 1 << 16;

/// The size of [`PackageV1`] in the first minor version of this major version.
const FIRST_BYTES: usize = 192;

/// A package's tables in the types of this host. They live as long as the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) sdk_version: &'static str,
    pub(crate) ops: &'static [OpDef],
    pub(crate) kernels: &'static [KernelDef],
    pub(crate) libraries: &'static [LibraryRef],
    pub(crate) guard: Option<LibraryGuard>,
    /// How strictly heap use is checked in it.
    pub(crate) tier: Tier,
}

/// The reason why this host cannot read a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TableError {
    #[error("it has ABI version {found}, expected {ABI_VERSION}")]
    Version { found: AbiVersion },
    #[error("its table has {found} bytes, expected {expected}")]
    Bytes { found: usize, expected: usize },
    #[error("its layouts have fingerprint {found:016x}, expected {expected:016x}")]
    Layouts { found: u64, expected: u64 },
    #[error("it requires feature bit {bit}, which this version does not have")]
    Need { bit: u32 },
    #[error("a reserved field of its table is not zero")]
    Reserved,
    #[error("{0}")]
    Guard(&'static str),
    #[error("it has {found} entries of kind {what}, expected at most {ENTRIES_MAX}")]
    Entries { what: &'static str, found: usize },
    #[error("each {what} has {found} bytes, expected {expected}")]
    ItemBytes { what: &'static str, found: usize, expected: usize },
    #[error("its table of kind {what} is null or not aligned")]
    NoItems { what: &'static str },
    #[error("{what} {at}: {fault}")]
    Item { what: &'static str, at: usize, fault: Box<Self> },
    #[error("its {name} is null or not aligned")]
    NoBlock { name: &'static str },
    #[error("its {name} has {found} bytes, expected {least} to {most}")]
    BlockBytes { name: &'static str, found: u32, least: u32, most: usize },
    #[error("the layout of {0} is not known")]
    UnknownLayout(String),
    #[error("{0} does not have the expected layout")]
    OtherLayout(&'static str),
    #[error("reserved field {field:?} of {layout} is not zero")]
    ReservedField { field: &'static str, layout: &'static str },
    #[error("field {field:?} of {layout} is null")]
    NullField { field: &'static str, layout: &'static str },
}

/// The start of the tables of all versions.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    version: AbiVersion,
    size: u32,
    fingerprint: u64,
    needs: u64,
}

impl Tables {
    /// Returns the tables of a package of this same build without copying or checking them.
    pub(super) fn in_place(package: &'static PackageV1) -> Result<Self, &'static str> {
        Ok(Self {
            name: package.name(),
            version: package.version(),
            sdk_version: package.sdk_version(),
            ops: package.op_table(),
            kernels: package.kernel_table(),
            libraries: PackageV1::library_table(package),
            guard: package.guard()?,
            tier: Tier::from_guard(package.guard()?),
        })
    }

    /// Adds the operators and kernels of another table of the same package. The joined tables live as long as the process.
    pub(crate) fn join(&mut self, other: &Self) {
        self.ops = Box::leak([self.ops, other.ops].concat().into_boxed_slice());
        self.kernels = Box::leak([self.kernels, other.kernels].concat().into_boxed_slice());
    }

    /// Copies the tables of a package. Fails if this host cannot read them.
    ///
    /// # Safety
    /// `package` points to a static table of some version, aligned as [`PackageV1`], whose pointers are valid for
    /// that version.
    pub(super) unsafe fn copy(package: *const PackageV1) -> Result<Self, TableError> {
        // SAFETY: tables of every version are at least as long as their head, as the caller promises.
        let head = unsafe { package.cast::<Head>().read() };
        let size = head.check()?;
        // SAFETY: `size` bytes of `package` are there, as its head says, and no more than this host's type has.
        let package = unsafe { copied(package, size) };
        // SAFETY: all of `PackageV1` may be zero, and what a package wrote are numbers, pointers and a function.
        let package = unsafe { package.assume_init() };
        if package.has_reserved() {
            return Err(TableError::Reserved);
        }
        // SAFETY: the tables are those of a package that keeps to its version, as the caller promises.
        let ops = unsafe { items(package.raw_ops(), "operator", "OpDef") }?;
        // SAFETY: as for the operators.
        let mut kernels = unsafe { items(package.raw_kernels(), "kernel", "KernelDef") }?;
        for (at, kernel) in kernels.iter_mut().enumerate() {
            // SAFETY: what a kernel points to is as the package's version says, as the caller promises.
            let functions = unsafe { functions(kernel) };
            let functions = functions.map_err(|fault| fault.in_item("kernel", at))?;
            // Kernels are referred to for as long as the process lives, as their libraries are.
            *kernel = kernel.copied_to(Box::leak(Box::new(functions)));
        }
        // SAFETY: as for the operators.
        let libraries = unsafe { items(package.raw_libraries(), "library", "LibraryRef") }?;
        Ok(Self {
            name: package.name(),
            version: package.version(),
            sdk_version: package.sdk_version(),
            // Kernels and operators are referred to for as long as the process lives, as their libraries are.
            ops: ops.leak(),
            kernels: kernels.leak(),
            libraries: libraries.leak(),
            guard: package.guard().map_err(TableError::Guard)?,
            tier: Tier::from_guard(package.guard().map_err(TableError::Guard)?),
        })
    }
}

impl TableError {
    fn in_item(self, what: &'static str, at: usize) -> Self {
        Self::Item { what, at, fault: Box::new(self) }
    }
}

impl Head {
    /// Returns the size of the table, if this host can read it.
    fn check(&self) -> Result<usize, TableError> {
        let Some(fingerprint) = self.version.fingerprint() else {
            return Err(TableError::Version { found: self.version });
        };
        let size = self.size as usize;
        let expected = size_of::<PackageV1>();
        let is_own = self.version == ABI_VERSION;
        if size > expected || size < FIRST_BYTES || (is_own && size != expected) {
            return Err(TableError::Bytes { found: size, expected });
        }
        if self.fingerprint != fingerprint {
            return Err(TableError::Layouts { found: self.fingerprint, expected: fingerprint });
        }
        let known = |bit: &u32| (*bit as usize) < NEEDS.len();
        match (0..u64::BITS).filter(|bit| self.needs >> bit & 1 != 0).find(|bit| !known(bit)) {
            Some(bit) => Err(TableError::Need { bit }),
            None => Ok(size),
        }
    }
}

/// Copies the first `bytes` bytes of a foreign `T` and fills the rest with zeros.
///
/// # Safety
/// `from` points to `bytes` readable bytes, no more than a `T` has.
unsafe fn copied<T>(from: *const T, bytes: usize) -> MaybeUninit<T> {
    let mut item = MaybeUninit::<T>::zeroed();
    // SAFETY: `from` has `bytes` bytes and `item` room for as many, as the caller promises.
    unsafe { item.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.cast(), bytes) };
    item
}

/// Copies the items of a foreign table. `layout` is the name of their layout, and `what` the name of an item in messages.
///
/// # Safety
/// `table` has valid items in the number and size that it states, and their pointers are valid for their version.
unsafe fn items<T: 'static>(
    table: Table<T>,
    what: &'static str,
    layout: &str,
) -> Result<Vec<T>, TableError> {
    let (count, bytes) = (table.len(), table.item_bytes());
    if count > ENTRIES_MAX {
        return Err(TableError::Entries { what, found: count });
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let expected = size_of::<T>();
    if bytes == 0 || bytes > expected || bytes % align_of::<T>() != 0 {
        return Err(TableError::ItemBytes { what, found: bytes, expected });
    }
    let start = table.ptr();
    if start.is_null() || !start.is_aligned() {
        return Err(TableError::NoItems { what });
    }
    let layout = LAYOUTS.iter().find(|l| l.name == layout && l.size == expected);
    let layout = layout.ok_or_else(|| TableError::UnknownLayout(format!("a {what}")))?;
    let mut items = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: item `at` of `bytes` bytes lies in the table, as the caller promises, and they are no more than a
        // `T` has.
        let item = unsafe { copied(start.wrapping_byte_add(at * bytes), bytes) };
        if let Some(fault) = fault_in(item.as_ptr().cast(), layout) {
            return Err(fault.in_item(what, at));
        }
        // SAFETY: `fault_in` found no null where the type wants a function or a reference; its other fields are
        // numbers and raw pointers, which may have any bits.
        items.push(unsafe { item.assume_init() });
    }
    Ok(items)
}

/// Copies the function tables of a kernel of the package.
///
/// # Safety
/// `kernel` points to valid tables of its version.
unsafe fn functions(kernel: &KernelDef) -> Result<KernelVTable, TableError> {
    // SAFETY: the table behind `kernel` is null, which `block` refuses, or as long as its head says.
    let mut functions = unsafe { block(kernel.raw_vtable(), "KernelVTable") }?;
    if !functions.gpu.raw().is_null() {
        // SAFETY: the same of the table behind `gpu`, which is not null.
        let gpu: GpuTable = unsafe { block(functions.gpu.raw(), "GpuTable") }?;
        functions.gpu = StaticPtr::new(Box::leak(Box::new(gpu)));
    }
    Ok(functions)
}

/// Copies a foreign block. `name` is the name of its layout.
///
/// # Safety
/// `from` is null or points to a valid block of its version.
unsafe fn block<T: Block>(from: *const T, name: &'static str) -> Result<T, TableError> {
    if from.is_null() || !from.is_aligned() {
        return Err(TableError::NoBlock { name });
    }
    let layout = LAYOUTS.iter().find(|l| l.name == name && l.size == size_of::<T>());
    let layout = layout.ok_or_else(|| TableError::UnknownLayout(format!("a {name}")))?;
    // SAFETY: `from` is not null and aligned, and points to as many bytes as its head says.
    let block = unsafe { copy_block(from) };
    let block = block.ok_or_else(|| {
        // SAFETY: blocks of every version begin with their size, as the caller promises.
        let found = unsafe { from.cast::<u32>().read() };
        TableError::BlockBytes { name, found, least: T::FIRST_BYTES, most: size_of::<T>() }
    })?;
    match fault_in(block.as_ptr().cast(), layout) {
        Some(fault) => Err(fault),
        // SAFETY: `fault_in` found no null where the type wants a function; its other fields are numbers and raw pointers.
        None => Ok(unsafe { block.assume_init() }),
    }
}

/// Returns what makes a foreign structure invalid that an item of a table refers to.
pub(super) fn raw_fault<T>(item: &T, layout: &Layout) -> Option<TableError> {
    if size_of::<T>() != layout.size {
        return Some(TableError::OtherLayout(layout.name));
    }
    fault_in(std::ptr::from_ref(item).cast(), layout)
}

/// Finds a reserved field that is not zero, or a missing function or table. `base` points to a structure of layout
/// `layout`.
fn fault_in(base: *const u8, layout: &Layout) -> Option<TableError> {
    layout.fields.iter().find_map(|field| {
        let is_reserved = field.name.starts_with("reserved");
        let is_function = field.ty.contains("extern \"C\" fn") && !field.ty.starts_with("Option");
        let is_pointer = field.ty.starts_with('&') || is_function;
        if is_reserved && !is_zero(base, field.offset, field.size) {
            return Some(TableError::ReservedField { field: field.name, layout: layout.name });
        }
        if is_pointer && is_zero(base, field.offset, field.size) {
            return Some(TableError::NullField { field: field.name, layout: layout.name });
        }
        let inner = LAYOUTS.iter().find(|l| l.name == field.ty)?;
        fault_in(base.wrapping_add(field.offset), inner)
    })
}

/// Returns whether the integers or the pointer at `offset` of the structure at `base` are zero.
fn is_zero(base: *const u8, offset: usize, bytes: usize) -> bool {
    let start = base.wrapping_add(offset);
    // SAFETY: `items` and `raw_fault` pass the place of a structure that they hold, and `fault_in` the place and size of
    // one of its fields; the structures have no padding.
    let field = unsafe { std::slice::from_raw_parts(start, bytes) };
    field.iter().all(|&b| b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::Core;

    static LIBRARIES: [LibraryRef; 2] =
        [LibraryRef::new(Core::CPU, "a.so"), LibraryRef::new(Core::GPU, "b.so")];

    fn copy(package: &PackageV1) -> Result<Tables, TableError> {
        // SAFETY: the table is this host's own, and `LIBRARIES` is static.
        unsafe { Tables::copy(package) }
    }

    #[test]
    fn tables_are_copied_item_by_item() {
        let tables = copy(&PackageV1::new("P", "1.0").libraries(&LIBRARIES)).unwrap();
        let files: Vec<_> = tables.libraries.iter().map(|l| (l.core(), l.file())).collect();
        assert_eq!(files, [(Core::CPU, "a.so"), (Core::GPU, "b.so")]);
        assert!(!std::ptr::eq(tables.libraries, &raw const LIBRARIES));
        assert_eq!((tables.name, tables.ops.len()), ("P", 0));
    }

    #[test]
    fn shorter_items_of_an_earlier_version_are_filled_up_with_zeros() {
        /// An item of two words, of which an earlier version had one.
        #[derive(Clone, Copy)]
        #[repr(C)]
        struct Item([u64; 2]);
        let words = [7u64, 8, 9];
        let items: Vec<_> = (0..3)
            .map(|at| {
                let start = words.as_ptr().wrapping_add(at).cast::<Item>();
                // SAFETY: `start` points to 8 bytes of `words`.
                let item = unsafe { copied(start, 8) };
                // SAFETY: any bits are an `Item`.
                unsafe { item.assume_init() }.0
            })
            .collect();
        assert_eq!(items, [[7, 0], [8, 0], [9, 0]]);
    }

    #[test]
    fn what_this_version_cannot_read_is_refused_by_its_head() {
        let good = PackageV1::new("P", "1.0");
        let newer = AbiVersion { minor: ABI_VERSION.minor + 1, ..ABI_VERSION };
        let older = AbiVersion { major: 1, minor: 0 };
        let version = |abi_version| {
            let mut package = good;
            package.abi_version = abi_version;
            package
        };
        let size = |size| {
            let mut package = good;
            package.size = size;
            package
        };
        let mut other = good;
        other.fingerprint = 1;
        let cases = [
            (version(newer), format!("it has ABI version {newer}, expected {ABI_VERSION}")),
            (version(older), format!("it has ABI version 1.0, expected {ABI_VERSION}")),
            (size(184), format!("its table has 184 bytes, expected {}", good.size)),
            (size(200), format!("its table has 200 bytes, expected {}", good.size)),
            (
                other,
                format!(
                    "its layouts have fingerprint 0000000000000001, expected {:016x}",
                    good.fingerprint
                ),
            ),
            (
                good.needing(1 << 40),
                "it requires feature bit 40, which this version does not have".to_owned(),
            ),
        ];
        for (package, expected) in cases {
            assert_eq!(copy(&package).unwrap_err().to_string(), expected);
        }
    }
}
