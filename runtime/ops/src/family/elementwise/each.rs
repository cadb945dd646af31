//! Calls of elementwise functions over a tensor.

use udo_api::{
    DType, Element, Encoding, Error, ExecError, FinalizeCx, Io, Pair, QuantizedType, Status,
};
use udo_simd::rows::Quantized;

use super::GRAIN;
use crate::family::results::{QuantizedAs, quantize};

/// Elements of a strip: f32 results that are computed together and then quantized. They fit a first-level cache.
const STRIP: usize = 1 << 10;

/// Whether the extents are the same in all runs, or bounded: then a run may have fewer elements than the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extents {
    Fixed,
    Bounded,
}

impl Extents {
    /// Returns the extents of output 0.
    pub(crate) fn new(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let is_fixed = cx.output(0)?.full_shape().is_fixed();
        Ok(if is_fixed { Self::Fixed } else { Self::Bounded })
    }
}

/// Applies a function to all elements, on several threads if there are many.
///
/// Small tensors of fixed extents take the shortest path, because the call overhead dominates there.
#[inline]
pub(crate) fn each<T: Element>(
    extents: Extents,
    mut io: Io<'_>,
    out_of_place: impl Fn(&[T], &mut [T]) + Sync,
    in_place: impl Fn(&mut [T]) + Sync,
) -> Result<(), ExecError> {
    match io.pair::<T>(0, 0) {
        Ok(Pair::Same(y)) if extents == Extents::Fixed && y.len() <= GRAIN => in_place(y),
        Ok(Pair::Apart(x, y)) if extents == Extents::Fixed && y.len() <= GRAIN => {
            out_of_place(x, y);
        }
        Ok(pair) => return run_parallel(io, pair, out_of_place, in_place),
        // `pair` fails for strided tensors, which are never in place.
        Err(_) => return each_row(io, out_of_place),
    }
    Ok(())
}

#[inline(never)]
fn run_parallel<T: Element>(
    mut io: Io<'_>,
    pair: Pair<'_, T>,
    out_of_place: impl Fn(&[T], &mut [T]) + Sync,
    in_place: impl Fn(&mut [T]) + Sync,
) -> Result<(), ExecError> {
    match pair {
        Pair::Apart(x, y) => {
            // A bounded output buffer may be larger than this run's output.
            let len = x.len().min(y.len());
            io.parallel.chunks_mut(&mut y[..len], GRAIN, |chunk, y| {
                out_of_place(&x[chunk * GRAIN..][..y.len()], y);
                Ok(())
            })?;
        }
        Pair::Same(y) => io.parallel.chunks_mut(y, GRAIN, |_, y| {
            in_place(y);
            Ok(())
        })?,
    }
    let shape = io.inputs.shape(0)?;
    io.outputs.set_shape(0, shape)
}

#[cold]
fn each_row<T: Element>(
    mut io: Io<'_>,
    out_of_place: impl Fn(&[T], &mut [T]) + Sync,
) -> Result<(), ExecError> {
    let (x, mut y) = (io.inputs.rows::<T>(0)?, io.outputs.take_rows::<T>(0)?);
    io.parallel.rows_mut(&mut y, |row, y| {
        let x = x.get(row).filter(|x| x.len() == y.len());
        out_of_place(x.ok_or(ExecError::new(Status::BAD_CALL))?, y);
        Ok(())
    })
}

/// A function that computes a strip of f32 results from as many f32 values.
type StripFn<'a> = &'a (dyn Fn(&[f32], &mut [f32]) + Sync);

/// Applies a function to the elements of input 0, and stores the results quantized.
pub(crate) fn each_quantized(
    io: Io<'_>,
    QuantizedAs { dtype, encoding }: QuantizedAs,
    out_of_place: StripFn<'_>,
) -> Result<(), ExecError> {
    match dtype {
        DType::U8 => strips_quantized::<u8>(io, encoding, out_of_place),
        DType::I8 => strips_quantized::<i8>(io, encoding, out_of_place),
        DType::U16 => strips_quantized::<u16>(io, encoding, out_of_place),
        DType::I16 => strips_quantized::<i16>(io, encoding, out_of_place),
        _ => Err(ExecError::new(Status::WRONG_TYPE)),
    }
}

fn strips_quantized<Q: Quantized + QuantizedType + Element>(
    mut io: Io<'_>,
    encoding: Encoding,
    out_of_place: StripFn<'_>,
) -> Result<(), ExecError> {
    let strips = |x: &[f32], y: &mut [Q]| {
        let mut strip = [0.0; STRIP];
        for (x, y) in x.chunks(STRIP).zip(y.chunks_mut(STRIP)) {
            let strip = &mut strip[..x.len()];
            out_of_place(x, strip);
            quantize(strip, encoding, y);
        }
    };
    if let Ok(x) = io.inputs.get::<f32>(0)
        && let Ok(y) = io.outputs.take::<Q>(0)
    {
        return io.parallel.chunks_mut(y, GRAIN, |chunk, y| {
            strips(&x[chunk * GRAIN..][..y.len()], y);
            Ok(())
        });
    }
    // Tensors with strided rows.
    let (x, mut y) = (io.inputs.rows::<f32>(0)?, io.outputs.take_rows::<Q>(0)?);
    io.parallel.rows_mut(&mut y, |row, y| {
        let x = x.get(row).filter(|x| x.len() == y.len());
        strips(x.ok_or(ExecError::new(Status::BAD_CALL))?, y);
        Ok(())
    })
}
