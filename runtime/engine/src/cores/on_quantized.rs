//! Conversion of stored quantized values for kernels that compute with floating-point values.

use std::fmt;
use std::marker::PhantomData;

use udo_api::{DType, Encodings, TensorDesc};
use udo_host::{Conversion, Converted};

use super::convert::{PLAIN, Stored, convert};
use udo_graph::memory::{elements, elements_mut};

/// Converts between quantized values of type `T` and f32.
#[derive(Debug)]
struct Coded<T> {
    encodings: Encodings,
    dims: Vec<usize>,
    of: PhantomData<fn() -> T>,
}

impl<T: Stored + fmt::Debug> Conversion for Coded<T> {
    fn load(&self, values: &[u8], numbers: &mut [u8]) {
        if let (Some(values), Some(numbers)) = (elements::<T>(values), elements_mut::<f32>(numbers))
        {
            convert((values, self.encodings), (numbers, PLAIN), &self.dims);
        }
    }

    fn store(&self, numbers: &[u8], values: &mut [u8]) {
        if let (Some(numbers), Some(values)) = (elements::<f32>(numbers), elements_mut::<T>(values))
        {
            convert((numbers, PLAIN), (values, self.encodings), &self.dims);
        }
    }
}

fn coded<T: Stored + fmt::Debug>(encodings: Encodings, dims: &[usize]) -> Box<dyn Conversion> {
    Box::new(Coded::<T> { encodings, dims: dims.to_vec(), of: PhantomData })
}

/// Returns the conversion of values stored as `stored` for a kernel that takes `numbers`, which are f32. `None` if there
/// is no conversion.
pub fn converted(stored: &TensorDesc, numbers: &TensorDesc) -> Option<Converted> {
    let encodings = stored.encodings()?;
    let dims = stored.shape();
    let conversion = match stored.dtype()? {
        DType::U8 => coded::<u8>(encodings, dims),
        DType::I8 => coded::<i8>(encodings, dims),
        DType::U16 => coded::<u16>(encodings, dims),
        DType::I16 => coded::<i16>(encodings, dims),
        _ => return None,
    };
    Some(Converted { numbers: *numbers, stored_bytes: stored.size_bytes(), conversion })
}
