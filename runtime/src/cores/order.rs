//! The order in which a value's dimensions lie in memory, and the kernels that change it.
//!
//! Models say batch, channels, height and width. Kernels that work pixel by pixel take the same tensor as
//! batch, height, width and channels; the planner turns values where neighbours disagree.

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, Shape, TensorDesc,
    bytes_of, bytes_of_mut,
};
use udo_simd::rows::{transpose_grain, transpose_part};

use super::convert::{self, ConstantError};
use crate::memory::{Budget, Tensor};

/// The order of a value's dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// That of the model.
    #[default]
    Model,
    /// Batch, height, width, channels, of a value that is batch, channels, height, width in the model.
    ChannelsLast,
}

impl Order {
    /// Where an axis of the model's is in this order, for a tensor of rank 4.
    pub(crate) fn axis(self, axis: usize) -> usize {
        match (self, axis) {
            (Self::ChannelsLast, 1) => 3,
            (Self::ChannelsLast, 2 | 3) => axis - 1,
            _ => axis,
        }
    }
}

/// How a value comes to a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Its type, its encoding, and its dimensions as they lie in memory.
    pub desc: TensorDesc,
    /// Their order.
    pub order: Order,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.order {
            Order::Model => self.desc.fmt(f),
            Order::ChannelsLast => write!(f, "{} nhwc", self.desc),
        }
    }
}

impl Form {
    /// Nothing.
    pub const ABSENT: Self = Self::of(TensorDesc::ABSENT);

    /// In the model's order.
    pub(crate) const fn of(desc: TensorDesc) -> Self {
        Self { desc, order: Order::Model }
    }

    /// The same value in another order; none unless it has four fixed dimensions, or that order already.
    pub(crate) fn turned(&self, order: Order) -> Option<Self> {
        if self.order == order {
            return Some(*self);
        }
        let &[batch, a, b, c] = self.desc.shape() else { return None };
        let dims = match order {
            Order::ChannelsLast => [batch, b, c, a],
            Order::Model => [batch, c, a, b],
        };
        let shape = Shape::new(&dims).ok().filter(|_| self.desc.full_shape().is_fixed())?;
        Some(Self { desc: self.desc.with_shape(shape), order })
    }

    /// Whether both orders of the value have the same bytes.
    pub(crate) fn lies_alike(&self) -> bool {
        let [_, rows, cols] = extents(self.desc.shape(), self.order);
        rows <= 1 || cols <= 1
    }
}

/// The images of a tensor that is in one order, and the rows and columns that change places for the other.
fn extents(dims: &[usize], order: Order) -> [usize; 3] {
    match (dims, order) {
        (&[batch, a, b, c], Order::Model) => [batch, a, b * c],
        (&[batch, a, b, c], Order::ChannelsLast) => [batch, a * b, c],
        _ => [0; 3],
    }
}

/// The kernel that turns values into an order; the planner inserts it.
pub(crate) fn turner(to: Order) -> &'static KernelDef {
    const LAST: KernelDef = KernelDef::new::<Turn<true>>("Transpose", Core::CPU);
    const BACK: KernelDef = KernelDef::new::<Turn<false>>("Transpose", Core::CPU);
    match to {
        Order::ChannelsLast => &LAST,
        Order::Model => &BACK,
    }
}

/// To channels last, or back.
struct Turn<const LAST: bool> {
    extents: [usize; 3],
    run: fn(&[usize; 3], Io<'_>) -> Result<(), ExecError>,
}

impl<const LAST: bool> Kernel for Turn<LAST> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let from = if LAST { Order::Model } else { Order::ChannelsLast };
        let unknown = Err(Error::new(format!("no way to turn {x}")));
        let run = with_any!(x.dtype(), T => Ok(execute::<T, { size_of::<T>() }> as fn(&[usize; 3], Io<'_>) -> _), else unknown)?;
        Ok(Self { extents: extents(x.shape(), from), run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.extents, io)
    }
}

fn execute<T: Element, const BYTES: usize>(
    &[_, rows, cols]: &[usize; 3],
    io: Io<'_>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let len = (rows * cols).max(1);
    let grain = transpose_grain([rows, cols], parallel.width());
    let images = inputs.get::<T>(0)?.chunks_exact(len);
    for (x, y) in images.zip(outputs.take::<T>(0)?.chunks_exact_mut(len)) {
        parallel.chunks_mut(y, grain.saturating_mul(rows), |piece, y| {
            let (x, y) = (bytes_of(&x[piece * grain..]), bytes_of_mut(y));
            let (x, y) = (x.as_chunks::<BYTES>().0, y.as_chunks_mut::<BYTES>().0);
            transpose_part(x, cols, [rows, y.len() / rows], y, rows);
            Ok(())
        })?;
    }
    Ok(())
}

/// A constant of the model in another form, made once before any run, out of `budget`.
///
/// # Errors
/// There is no way from one form to the other, or no memory.
pub(crate) fn constant(
    tensor: &Tensor,
    from: &TensorDesc,
    to: &Form,
    budget: &Budget,
) -> Result<Tensor, ConstantError> {
    let broken = || Error::new(format!("constant {} is not {from}", tensor.desc()));
    let plain = to.turned(Order::Model).ok_or_else(broken)?;
    let tensor = convert::constant(tensor, from, &plain.desc, budget)?;
    if to.order == Order::Model {
        return Ok(tensor);
    }
    let mut buffer = budget.zeroed(to.desc.size_bytes())?;
    let [_, rows, cols] = extents(plain.desc.shape(), Order::Model);
    let len = (rows * cols).max(1);
    with_any!(to.desc.dtype(), T => {
        let x = tensor.bytes().as_chunks::<{ size_of::<T>() }>().0;
        let y = buffer.bytes_mut().as_chunks_mut::<{ size_of::<T>() }>().0;
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            transpose_part(x, cols, [rows, cols], y, rows);
        }
    }, else return Err(broken().into()));
    let dtype = to.desc.dtype().unwrap_or(DType::U8);
    let made = Tensor::from_buffer(dtype, to.desc.full_shape(), buffer);
    Ok(made.map_err(|e| Error::new(e.to_string()))?)
}
