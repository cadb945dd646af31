//! `QuantizeLinear` and `DequantizeLinear` on the DSP. The DSP stores all values quantized, so these nodes copy values, or
//! convert them from one encoding (scale and zero point) to another.

use udo_api::{
    Core, DType, Encoding, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule,
    QuantizedType, TensorDesc, TypeSet, input, output, types,
};

use super::elementwise::{Extents, look_up, tabulate};
use super::partition::GRAIN;
use super::quantize::TYPES;
use super::shape::Copied;

/// Returns the kernel of the dequantize operator `op`, which copies the quantized values.
pub(crate) const fn dequantized(op: &'static str) -> KernelDef {
    const FROM: TypeSet = TYPES.or(types::I32);
    const RULES: &[PortRule] = &[
        input(0, FROM).per_axis().bounded(),
        input(1, types::F32),
        output(0, FROM).per_axis().bounded(),
    ];
    KernelDef::new::<Unchanged>(op, Core::DSP_V68).ports(RULES)
}

/// Returns the kernel of the quantize operator `op`, whose input is already quantized.
pub(crate) const fn quantized(op: &'static str) -> KernelDef {
    const RULES: &[PortRule] =
        &[input(0, TYPES).bounded(), input(1, types::F32), output(0, TYPES).bounded()];
    KernelDef::new::<Recoded>(op, Core::DSP_V68).ports(RULES)
}

/// Kernel that copies values unchanged.
struct Unchanged(Copied);

impl Unchanged {
    fn new(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        if x.dtype() != y.dtype() {
            return Err(Error::new(format!(
                "input 0 is {x} and output 0 {y}, expected equal types"
            )));
        }
        cx.tie_same(0, 0)?;
        Copied::finalize(cx).map(Self)
    }
}

impl Kernel for Unchanged {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Self::new(cx)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        self.0.run(&mut io)
    }
}

/// Kernel that copies values, or converts their encoding.
enum Recoded {
    Same(Unchanged),
    /// 8-bit values of one type, converted through a table.
    Tabled {
        bits: Box<[u8; 256]>,
        extents: Extents,
        run: Run,
    },
    Other {
        from: Encoding,
        to: Encoding,
        run: Recode,
    },
}

type Run = fn(&[u8; 256], Extents, Io<'_>) -> Result<(), ExecError>;
type Recode = fn(Encoding, Encoding, Io<'_>) -> Result<(), ExecError>;

impl Kernel for Recoded {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        let encoding = |what: &str, desc: TensorDesc| {
            desc.encoding().ok_or_else(|| {
                Error::new(format!(
                    "{what} 0 is {desc}, expected one encoding that is known before the run"
                ))
            })
        };
        let (from, to) = (encoding("input", x)?, encoding("output", y)?);
        if x.dtype() == y.dtype() && from == to {
            return Unchanged::new(cx).map(Self::Same);
        }
        if x.dtype() == y.dtype() && types::U8.or(types::I8).has(x.dtype().unwrap_or(DType::F32)) {
            let (bits, run) = of_type!(y.dtype(), [U8 = u8, I8 = i8], T => {
                let run: Run = look_up::<T>;
                (recode_table::<T>(from, to), run)
            })?;
            return Ok(Self::Tabled { bits, extents: Extents::new(cx)?, run });
        }
        let run = of_quantized!(x.dtype(), X => of_quantized!(y.dtype(), Y => recode::<X, Y> as Recode))??;
        Ok(Self::Other { from, to, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        match self {
            Self::Same(same) => same.execute(io),
            Self::Tabled { bits, extents, run } => run(bits, *extents, io),
            Self::Other { from, to, run } => run(*from, *to, io),
        }
    }
}

fn recode_table<T: QuantizedType>(from: Encoding, to: Encoding) -> Box<[u8; 256]> {
    Box::new(tabulate(|x: T| to.quantize(from.dequantize(x))))
}

fn recode<X: QuantizedType, Y: QuantizedType>(
    from: Encoding,
    to: Encoding,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let x = inputs.get::<X>(0)?;
    outputs.set_shape(0, inputs.shape(0)?)?;
    let y = &mut outputs.take::<Y>(0)?[..x.len()];
    parallel.chunks_mut(y, GRAIN, |chunk, y| {
        let x = &x[chunk * GRAIN..][..y.len()];
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = to.quantize(from.dequantize(x)));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    const ENCODING: Encoding = Encoding { scale: 0.5, zero_point: 3 };

    #[test]
    fn quantized_inputs_are_copied() {
        let x = [0u8, 3, 4, 255];
        let run = bench("DequantizeLinear").on(Core::DSP_V68).input(tensor(&[4], &x));
        let run = run.constant(tensor(&[], &[ENCODING.scale])).constant(tensor(&[], &[3u8]));
        let run = run.output_of::<u8>(&[4]).output_encoding(0, ENCODING.scale, ENCODING.zero_point);
        assert_eq!(run.one().values::<u8>(), x);
        let run = bench("QuantizeLinear").on(Core::DSP_V68);
        let run = run.input(tensor(&[4], &x).encoded(0.5, 3));
        let y = run.constant(tensor(&[], &[ENCODING.scale])).constant(tensor(&[], &[3u8])).one();
        assert_eq!((y.values::<u8>(), y.desc().encoding()), (x.to_vec(), Some(ENCODING)));
    }

    #[test]
    fn other_encodings_store_the_nearest_values() {
        let run = bench("QuantizeLinear").on(Core::DSP_V68);
        let run = run.input(tensor(&[4], &[0u8, 3, 4, 255]).encoded(0.5, 3));
        let y = run.constant(tensor(&[], &[1f32])).constant(tensor(&[], &[128u8])).one();
        assert_eq!(y.values::<u8>(), [126, 128, 128, 254]);
        let run = bench("QuantizeLinear").on(Core::DSP_V68).threads(2);
        let wide: Vec<u16> = (0..70_000).map(|i| (i % 65_536) as u16).collect();
        let run = run.input(tensor(&[70_000], &wide).encoded(0.01, 300));
        let y = run.constant(tensor(&[], &[0.5f32])).constant(tensor(&[], &[-3i8])).one();
        let expected = wide.iter().map(|&x| {
            let number = (f32::from(x) - 300.0) * 0.01;
            ((number / 0.5).round_ties_even() - 3.0).clamp(-128.0, 127.0) as i8
        });
        assert_eq!(y.values::<i8>(), expected.collect::<Vec<_>>());
    }
}
