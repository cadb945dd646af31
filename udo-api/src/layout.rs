//! The layout of every ABI structure as data: field names, types, offsets and sizes.
//!
//! The fingerprint over all of it is in each library's manifest, so that a library built against
//! other layouts is refused before any of its code runs, even if the sizes agree.

/// The layout of one `repr(C)` structure.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The structure's name.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Its fields in declared order.
    pub fields: &'static [Field],
}

/// The layout of one field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// Its type as written in the source.
    pub ty: &'static str,
    /// Its offset in bytes from the start of the structure.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
}

/// Declares a `repr(C)` structure together with its [`Layout`].
macro_rules! abi_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$g:ident>)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident : $ty:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        $vis struct $name $(<$g>)? {
            $($(#[$field_meta])* $field_vis $field: $ty),*
        }

        impl $(<$g>)? $name $(<$g>)? {
            /// The size in bytes in this version, which blocks begin with.
            #[expect(clippy::cast_possible_truncation, reason = "it has a few hundred bytes")]
            pub const SIZE: u32 = size_of::<Self>() as u32;

            /// The layout of the fields.
            pub(crate) const LAYOUT: $crate::layout::Layout = $crate::layout::Layout {
                name: stringify!($name),
                size: size_of::<Self>(),
                align: align_of::<Self>(),
                fields: &[$($crate::layout::Field {
                    name: stringify!($field),
                    ty: stringify!($ty),
                    offset: std::mem::offset_of!(Self, $field),
                    size: size_of::<$ty>(),
                }),*],
            };
        }
    };
}

/// Hashes names, types, offsets and sizes (FNV-1a, 64 bits).
pub(crate) const fn fingerprint(layouts: &[Layout]) -> u64 {
    // The offset basis of 64-bit FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut i = 0;
    while i < layouts.len() {
        let layout = layouts[i];
        hash = fnv_str(hash, layout.name);
        hash = fnv_number(hash, layout.size);
        hash = fnv_number(hash, layout.align);
        let mut field_index = 0;
        while field_index < layout.fields.len() {
            let field = layout.fields[field_index];
            hash = fnv_str(hash, field.name);
            hash = fnv_type(hash, field.ty);
            hash = fnv_number(hash, field.offset);
            hash = fnv_number(hash, field.size);
            field_index += 1;
        }
        i += 1;
    }
    hash
}

/// The prime of 64-bit FNV-1a.
const PRIME: u64 = 0x0000_0100_0000_01b3;

const fn fnv_str(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(PRIME);
        i += 1;
    }
    (hash ^ 0xff).wrapping_mul(PRIME)
}

/// Hashes the text without white space, which the compiler's printing of a type may change.
const fn fnv_type(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !bytes[i].is_ascii_whitespace() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(PRIME);
        }
        i += 1;
    }
    (hash ^ 0xff).wrapping_mul(PRIME)
}

const fn fnv_number(mut hash: u64, number: usize) -> u64 {
    let bytes = (number as u64).to_le_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(PRIME);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Field = Field { name: "a", ty: "u32", offset: 0, size: 4 };
    const B: Field = Field { name: "b", ty: "u32", offset: 4, size: 4 };

    fn hash(fields: &'static [Field]) -> u64 {
        fingerprint(&[Layout { name: "S", size: 8, align: 4, fields }])
    }

    #[test]
    fn any_change_of_a_field_changes_the_fingerprint() {
        const SPACED: Field = Field { ty: "u 32", ..B };
        const OTHER_NAME: Field = Field { name: "c", ..B };
        const OTHER_TYPE: Field = Field { ty: "i32", ..B };
        const OTHER_PLACE: Field = Field { offset: 8, ..B };
        let base = hash(&[A, B]);
        for changed in
            [hash(&[A, OTHER_NAME]), hash(&[A, OTHER_TYPE]), hash(&[A, OTHER_PLACE]), hash(&[B, A])]
        {
            assert_ne!(base, changed);
        }
        assert_eq!(base, hash(&[A, SPACED]));
    }
}
