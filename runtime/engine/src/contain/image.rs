//! Serialization of ABI structures with everything that they point to, driven by their layouts. Addresses are meaningless
//! in another process.
//!
//! Functions, and pointers whose counts are stored elsewhere, are skipped and read as null.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use udo_api::abi::{EpilogueStep, Field, GpuArg, LAYOUTS, Layout, LibraryRef, RawStr, Tie, Work};
use udo_api::{AxisEncoding, Core, KernelDef, OpSchema, TensorDesc, Workspace};

use super::wire::{InvalidMessage, Reader, Writer};
use crate::exit_guard::PerProcess;

/// An ABI structure that can be sent to another process.
///
/// # Safety
/// `NAME` is the name of its layout. All bytes may be zero, and its numbers may have any value.
pub(super) unsafe trait Crosses: Sized {
    const NAME: &'static str;
}

macro_rules! crosses {
    ($($name:ident),*) => {$(
        // SAFETY: it consists of numbers and of what `Kind` tells apart, each of which may be zero.
        unsafe impl Crosses for $name {
            const NAME: &'static str = stringify!($name);
        }
    )*};
}

crosses!(
    Core,
    EpilogueStep,
    GpuArg,
    KernelDef,
    LibraryRef,
    OpSchema,
    TensorDesc,
    Tie,
    Work,
    Workspace
);

/// The kind of a field.
enum Kind {
    Numbers,
    Nested(&'static Layout),
    Text,
    /// A slice of items of this type.
    Slice(&'static str),
    Axis,
    /// Meaningless in another process.
    Address,
}

fn layout(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.name == name)
}

fn kind(ty: &'static str) -> Kind {
    if ty == "RawStr" {
        return Kind::Text;
    }
    if let Some(item) = ty.strip_prefix("Slice<").and_then(|ty| ty.strip_suffix('>')) {
        return Kind::Slice(item.trim());
    }
    if ty.contains("AxisEncoding>") {
        return Kind::Axis;
    }
    if ["StaticPtr<", "Table<", "*", "fn(", "Fn"].iter().any(|part| ty.contains(part)) {
        return Kind::Address;
    }
    layout(ty).map_or(Kind::Numbers, Kind::Nested)
}

/// Returns the size of a slice's item, and its layout unless it is a number.
fn item(ty: &'static str) -> Option<(usize, Option<&'static Layout>)> {
    match ty {
        "i64" | "f64" => Some((8, None)),
        "f32" | "i32" => Some((4, None)),
        _ => layout(ty).map(|layout| (layout.size, Some(layout))),
    }
}

/// Returns the size of the shortest message that a structure of this layout is read from. It bounds how many items an answer can
/// announce: a few bytes must not make the host reserve gigabytes.
fn min_bytes(layout: &Layout) -> usize {
    let field = |field: &Field| match kind(field.ty) {
        Kind::Address => 0,
        Kind::Nested(layout) => min_bytes(layout),
        // A length, or a flag.
        Kind::Text | Kind::Slice(_) | Kind::Axis => 8,
        Kind::Numbers => field.size,
    };
    layout.fields.iter().map(field).sum()
}

/// A slice as it is stored in a structure.
#[derive(Clone, Copy)]
#[repr(C)]
struct Raw {
    ptr: *const u8,
    len: usize,
}

impl Writer {
    /// Writes items with everything that they point to, preceded by their number.
    pub(super) fn items<T: Crosses>(&mut self, items: &[T]) {
        self.number(items.len());
        if let Some(layout) = layout(T::NAME).filter(|layout| layout.size == size_of::<T>()) {
            // SAFETY: each item is a `T`, whose layout this is, and what it points to is there.
            items.iter().for_each(|item| unsafe { self.image(ptr::from_ref(item).cast(), layout) });
        }
    }

    /// # Safety
    /// `from` points to a structure of this layout, and what that points to is there.
    unsafe fn image(&mut self, from: *const u8, layout: &Layout) {
        for field in layout.fields {
            let at = from.wrapping_add(field.offset);
            match kind(field.ty) {
                Kind::Address => {}
                // SAFETY: a structure of that layout lies there, as the layout says.
                Kind::Nested(layout) => unsafe { self.image(at, layout) },
                // SAFETY: a text lies there, as the layout says.
                Kind::Text => self.text(unsafe { at.cast::<RawStr>().read_unaligned() }.get()),
                Kind::Axis => {
                    // SAFETY: such a reference lies there, as the layout says.
                    let axis = unsafe { at.cast::<Option<&AxisEncoding>>().read_unaligned() };
                    self.axis(axis);
                }
                Kind::Slice(ty) => {
                    // SAFETY: a slice lies there, as the layout says.
                    let slice = unsafe { at.cast::<Raw>().read_unaligned() };
                    // SAFETY: it is one of such items.
                    unsafe { self.slice(slice, ty) };
                }
                Kind::Numbers => {
                    // SAFETY: as many bytes lie there, and they are numbers without padding.
                    self.raw(unsafe { std::slice::from_raw_parts(at, field.size) });
                }
            }
        }
    }

    /// # Safety
    /// `raw` points to `raw.len` items of the type `ty`, or is null.
    unsafe fn slice(&mut self, raw: Raw, ty: &'static str) {
        let len = if raw.ptr.is_null() { 0 } else { raw.len };
        self.number(len);
        let Some((bytes, layout)) = item(ty) else { return };
        for at in (0..len).map(|index| raw.ptr.wrapping_add(index * bytes)) {
            match layout {
                // SAFETY: an item of that layout lies there.
                Some(layout) => unsafe { self.image(at, layout) },
                // SAFETY: a number of so many bytes lies there.
                None => self.raw(unsafe { std::slice::from_raw_parts(at, bytes) }),
            }
        }
    }

    fn axis(&mut self, encoding: Option<&AxisEncoding>) {
        self.flag(encoding.is_some());
        let Some(encoding) = encoding else { return };
        self.number(encoding.axis());
        self.number(encoding.count());
        encoding.scales().iter().for_each(|scale| self.raw(&scale.to_le_bytes()));
        encoding.zero_points().iter().for_each(|zero_point| self.raw(&zero_point.to_le_bytes()));
    }
}

impl Reader<'_> {
    /// Reads items that [`Writer::items`] wrote. What they point to is never freed.
    pub(super) fn items<T: Crosses>(&mut self) -> Result<Vec<T>, InvalidMessage> {
        let layout = layout(T::NAME).filter(|layout| layout.size == size_of::<T>());
        let layout = layout.ok_or(InvalidMessage)?;
        let count = self.count_of(min_bytes(layout))?;
        let mut items = Vec::new();
        items.try_reserve_exact(count).map_err(|_| InvalidMessage)?;
        for _ in 0..count {
            let mut item = MaybeUninit::<T>::zeroed();
            // SAFETY: the structure has memory for a `T`, whose layout this is.
            unsafe { self.fill(item.as_mut_ptr().cast(), layout) }?;
            // SAFETY: a `T` may have any numbers, and its pointers are null or made by `fill`.
            items.push(unsafe { item.assume_init() });
        }
        Ok(items)
    }

    /// # Safety
    /// `to` has room for a structure of this layout, which is zero.
    unsafe fn fill(&mut self, to: *mut u8, layout: &Layout) -> Result<(), InvalidMessage> {
        for Field { ty, offset, size, .. } in layout.fields {
            let at = to.wrapping_add(*offset);
            match kind(ty) {
                Kind::Address => {}
                // SAFETY: `at` has memory for a structure of that layout.
                Kind::Nested(layout) => unsafe { self.fill(at, layout) }?,
                Kind::Text => {
                    let text = RawStr::new(intern(self.text()?));
                    // SAFETY: the structure has memory for a text, as the layout says.
                    unsafe { at.cast::<RawStr>().write_unaligned(text) };
                }
                Kind::Axis => {
                    let axis = self.axis()?;
                    // SAFETY: the structure has memory for such a reference, as the layout says.
                    unsafe { at.cast::<Option<&'static AxisEncoding>>().write_unaligned(axis) };
                }
                Kind::Slice(ty) => {
                    let slice = self.slice(ty)?;
                    // SAFETY: the structure has memory for a slice, as the layout says.
                    unsafe { at.cast::<Raw>().write_unaligned(slice) };
                }
                Kind::Numbers => {
                    let bytes = self.raw(*size)?;
                    // SAFETY: the structure has memory for as many bytes, as the layout says.
                    unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                }
            }
        }
        Ok(())
    }

    fn slice(&mut self, ty: &'static str) -> Result<Raw, InvalidMessage> {
        let (bytes, layout) = item(ty).ok_or(InvalidMessage)?;
        let len = self.count_of(layout.map_or(bytes, min_bytes))?;
        if len == 0 {
            return Ok(Raw { ptr: ptr::null(), len });
        }
        let words = len.checked_mul(bytes).ok_or(InvalidMessage)?.div_ceil(8);
        // Words, because nothing in tables needs a larger alignment.
        let mut memory = Vec::new();
        memory.try_reserve_exact(words).map_err(|_| InvalidMessage)?;
        memory.resize(words, 0u64);
        let first = memory.leak().as_mut_ptr().cast::<u8>();
        for at in (0..len).map(|index| first.wrapping_add(index * bytes)) {
            if let Some(layout) = layout {
                // SAFETY: the structure has memory for an item of that layout, which is zero.
                unsafe { self.fill(at, layout) }?;
                continue;
            }
            let number = self.raw(bytes)?;
            // SAFETY: the structure has memory for a number of so many bytes.
            unsafe { at.copy_from_nonoverlapping(number.as_ptr(), bytes) };
        }
        Ok(Raw { ptr: first, len })
    }

    fn axis(&mut self) -> Result<Option<&'static AxisEncoding>, InvalidMessage> {
        if !self.flag()? {
            return Ok(None);
        }
        let (axis, count) = (self.number()?, self.count_of(8)?);
        let mut four_bytes = |_| self.raw(4)?.try_into().map_err(|_| InvalidMessage);
        let scales: Result<Vec<f32>, _> =
            (0..count).map(|at| four_bytes(at).map(f32::from_le_bytes)).collect();
        let zero_points: Result<Vec<i32>, _> =
            (0..count).map(|at| four_bytes(at).map(i32::from_le_bytes)).collect();
        AxisEncoding::intern(axis, &scales?, &zero_points?).map(Some).map_err(|_| InvalidMessage)
    }
}

/// Interns a string for the life of the process.
pub(super) fn intern(text: &str) -> &'static str {
    static INTERNED: PerProcess<Mutex<BTreeSet<&'static str>>> =
        PerProcess::new(Mutex::new(BTreeSet::new()));
    let mut interned = INTERNED.get().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = interned.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    interned.insert(text);
    text
}

#[cfg(test)]
mod tests {
    use udo_api::{DType, Encoding, Port, Shape, Value, types};

    use super::*;

    #[test]
    fn schemas_survive_a_round_trip() {
        static SCHEMA: OpSchema = OpSchema::new(
            "Op",
            &[Port::required("x", types::F32.or(types::F16))],
            &[Port::optional("y", types::U8)],
            &[udo_api::Param::scalar("factor", DType::F32).default(Value::float(1.5))],
        );
        let mut writer = Writer::default();
        writer.items(&[SCHEMA]);
        let bytes = writer.done();
        let read = Reader::new(&bytes).items::<OpSchema>().unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", [SCHEMA]));
        for len in 0..bytes.len() {
            assert!(Reader::new(&bytes[..len]).items::<OpSchema>().is_err(), "{len} bytes");
        }
    }

    #[test]
    fn encodings_survive_a_round_trip() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let axis = AxisEncoding::intern(1, &[0.5, 1.0, 2.0], &[0, 1, 2]).unwrap();
        let descs = [
            TensorDesc::ABSENT,
            TensorDesc::new(DType::F32, shape),
            TensorDesc::new(DType::U8, shape).with_encoding(Encoding { scale: 0.5, zero_point: 3 }),
            TensorDesc::new(DType::I8, shape).with_axis_encoding(axis),
        ];
        let mut writer = Writer::default();
        writer.items(&descs);
        let read = Reader::new(&writer.done()).items::<TensorDesc>().unwrap();
        assert!(read == descs);
        assert!(
            ptr::eq(read[3].axis_encoding().unwrap(), axis),
            "equal encodings are interned once"
        );
    }

    #[test]
    fn every_pointer_field_has_a_kind_of_its_own() {
        // A field of an unknown type is sent as plain numbers, which is wrong if it holds a pointer.
        for layout in LAYOUTS {
            for field in layout.fields {
                let is_address = matches!(kind(field.ty), Kind::Numbers)
                    && ["&", "*", "Ptr", "fn", "Fn", "Table<", "RawStr"]
                        .iter()
                        .any(|part| field.ty.contains(part));
                assert!(!is_address, "{}.{}: {}", layout.name, field.name, field.ty);
            }
        }
    }

    #[test]
    fn counts_are_bounded_by_the_length_of_the_message() {
        let schema = layout("OpSchema").unwrap();
        for (announced, len) in [(2, 1), (1 << 20, 1 << 20), (usize::MAX, 1 << 10)] {
            let mut writer = Writer::default();
            writer.number(announced);
            let mut bytes = writer.done();
            bytes.resize(8 + min_bytes(schema) * len / 2, 0);
            assert!(Reader::new(&bytes).items::<OpSchema>().is_err(), "{announced}");
        }
        // The shortest schema has as many bytes as are counted on.
        let mut writer = Writer::default();
        writer.number(1);
        let mut bytes = writer.done();
        bytes.resize(8 + min_bytes(schema), 0);
        assert_eq!(Reader::new(&bytes).items::<OpSchema>().map(|items| items.len()), Ok(1));
        bytes.pop();
        assert!(Reader::new(&bytes).items::<OpSchema>().is_err());
    }
}
