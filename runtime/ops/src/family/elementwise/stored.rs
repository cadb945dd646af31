//! Types whose elements are computed in another type. Blocks of elements are converted in an array on the stack, so one
//! function of the computing type serves several storage types.

use udo_api::{Bf16, Bool, Element, Encoding, F16, QuantizedType};

/// Elements per block.
pub(crate) const BLOCK: usize = 256;

/// A storage type that is computed as `C`; conversion back wraps or rounds.
pub(crate) trait Stored<C>: Element {
    fn load(self) -> C;
    fn store(number: C) -> Self;
}

macro_rules! stored {
    ($($c:ty: $($t:ty),*;)*) => {$($(
        impl Stored<$c> for $t {
            #[inline]
            fn load(self) -> $c { self as $c }
            #[inline]
            fn store(number: $c) -> Self { number as Self }
        }
    )*)*};
}

stored! {
    i64: i8, i16, i32, u8, u16, u32;
    u64: i8, i16, i32, i64, u8, u16, u32, u64;
    i128: i8, i16, i32, i64, u8, u16, u32, u64;
    f64: f32, f64, i8, i16, i32, i64, u8, u16, u32, u64;
}

macro_rules! half_precision {
    ($($t:ty),*) => {$(
        impl Stored<f32> for $t {
            #[inline]
            fn load(self) -> f32 { self.to_f32() }
            #[inline]
            fn store(number: f32) -> Self { Self::from_f32(number) }
        }

        impl Stored<f64> for $t {
            #[inline]
            fn load(self) -> f64 { self.to_f32().into() }
            #[inline]
            fn store(number: f64) -> Self { Self::from_f32(number as f32) }
        }
    )*};
}

half_precision!(F16, Bf16);

macro_rules! bools {
    ($($c:ty, $number:ident => $is_true:expr;)*) => {$(
        impl Stored<$c> for Bool {
            #[inline]
            fn load(self) -> $c { u8::from(self.get()).into() }
            #[inline]
            fn store($number: $c) -> Self { Self::from($is_true) }
        }
    )*};
}

bools! {
    i64, x => x != 0;
    u64, x => x != 0;
    f64, x => x.abs() > 0.0;
}

/// A conversion between the storage type `T` and the computing type `C`. An [`Encoding`] converts quantized values to
/// f32.
pub(super) trait Codec<T, C>: Copy + Send + Sync {
    fn load(self, x: T) -> C;
    fn store(self, number: C) -> T;
}

/// The conversion of [`Stored`].
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl<T: Stored<C>, C> Codec<T, C> for Plain {
    #[inline]
    fn load(self, x: T) -> C {
        x.load()
    }

    #[inline]
    fn store(self, number: C) -> T {
        T::store(number)
    }
}

impl<T: QuantizedType> Codec<T, f32> for Encoding {
    #[inline]
    fn load(self, x: T) -> f32 {
        self.dequantize(x)
    }

    #[inline]
    fn store(self, number: f32) -> T {
        self.quantize(number)
    }
}

/// Computes `y[i] = function(x[i])` in blocks.
pub(super) fn map_blocks<T: Stored<C>, C: Element>(
    x: &[T],
    y: &mut [T],
    function: impl Fn(&mut [C]),
) {
    let mut block = [C::default(); BLOCK];
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        let block = &mut block[..x.len()];
        block.iter_mut().zip(x).for_each(|(to, &x)| *to = x.load());
        function(block);
        y.iter_mut().zip(block).for_each(|(y, &mut number)| *y = T::store(number));
    }
}

/// Computes `y[i] = function(y[i])` in blocks.
pub(super) fn map_blocks_in_place<T: Stored<C>, C: Element>(
    y: &mut [T],
    function: impl Fn(&mut [C]),
) {
    let mut block = [C::default(); BLOCK];
    for y in y.chunks_mut(BLOCK) {
        let block = &mut block[..y.len()];
        block.iter_mut().zip(&*y).for_each(|(to, &x)| *to = x.load());
        function(block);
        y.iter_mut().zip(block).for_each(|(y, &mut number)| *y = T::store(number));
    }
}
