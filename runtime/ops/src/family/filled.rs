//! Tensors filled with one value.

use udo_api::{
    Bits, DType, Error, ExecError, FinalizeCx, Io, Kernel, Node, Param, ParamTensor, types,
};

use crate::family::bounded::read_extents;
use crate::family::partition::GRAIN;

/// The value; 0 by default.
pub(crate) const VALUE: Param = Param::typed_tensor("value", types::ANY).optional();

/// Returns the type of the value.
pub(crate) fn dtype(node: &Node<'_>) -> Result<DType, Error> {
    Ok(value(node)?.and_then(|value| value.desc().dtype()).unwrap_or(DType::F32))
}

/// Returns the value, if the node has one.
fn value<'a>(node: &Node<'a>) -> Result<Option<ParamTensor<'a>>, Error> {
    if !node.has_param("value") {
        return Ok(None);
    }
    let value = node.tensor("value")?;
    if value.desc().len() != 1 {
        let found = value.desc();
        return Err(Error::new(format!("parameter \"value\" is {found}, expected one element")));
    }
    Ok(Some(value))
}

/// Fills output 0 with a value, given by its bits: its first elements if a count is given, else all.
type Run = fn(u64, Option<usize>, Io<'_>) -> Result<(), ExecError>;

/// Kernel that fills the output. If the output's shape is known only in the run, input 0 holds it.
pub(crate) struct Filled {
    /// The bits of the value.
    value: u64,
    is_bounded: bool,
    run: Run,
}

impl Kernel for Filled {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let (dtype, is_bounded) = (y.dtype(), !y.full_shape().is_fixed());
        let value = match value(cx)? {
            Some(value) => of_width!(dtype, B => bits_of::<B>(value)?)?,
            None => None,
        };
        let run = of_width!(dtype, B => { let run: Run = |value, count, io| fill(value as B, count, io); run })?;
        Ok(Self { value: value.unwrap_or(0), is_bounded, run })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        if !self.is_bounded {
            return (self.run)(self.value, None, io);
        }
        let (shape, rank) = read_extents(&io.inputs, 0)?;
        let shape = &shape[..rank];
        io.outputs.set_shape(0, shape)?;
        (self.run)(self.value, Some(shape.iter().product()), io)
    }
}

fn bits_of<B: Bits + Into<u64>>(value: ParamTensor<'_>) -> Result<Option<u64>, Error> {
    Ok(value.get_bits::<B>()?.first().map(|&bits| bits.into()))
}

fn fill<B: Bits>(value: B, count: Option<usize>, mut io: Io<'_>) -> Result<(), ExecError> {
    let y = io.outputs.take_bits::<B>(0)?;
    let y = match count {
        Some(count) => &mut y[..count],
        None => y,
    };
    io.parallel.chunks_mut(y, GRAIN, |_, y| {
        y.fill(value);
        Ok(())
    })
}
