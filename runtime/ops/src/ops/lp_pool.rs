//! The Lp norm of each pooling window: `sum(|x|^p)^(1/p)`.
//!
//! `pool` builds the operator: for each window, `fold` accumulates the results of `take`, and `finish` turns the sum
//! into the output.

use udo_api::{Core, DType, Error, Facts, FinalizeCx, KernelDef, Param, TypeSet, Value, types};

use crate::Def;
use crate::family::pooling::{FoldWindow, Pool, pool, stored_windows, windows};
use crate::family::window::{Taps, Window};
use crate::number::Real;

pub(crate) const DEF: Def = pool::<LpPool>();

enum LpPool {
    /// `|x|`, for `p` = 1.
    Absolute,
    /// `x^2`, for `p` = 2.
    Squares,
    /// `|x|^p`, for any other `p`.
    Powers(f64),
}

impl Pool for LpPool {
    const NAME: &'static str = "LpPool";
    const TYPES: TypeSet = types::F32.or(types::F64).or(types::F16).or(types::U8).or(types::I8);
    const PARAMS: &'static [Param] = &[Param::scalar("p", DType::I64).default(Value::int(2))];
    const FACTS: Facts = Facts::NONE;
    const KERNELS: &'static [KernelDef] = &[
        windows::<Self, f32>(Core::CPU),
        windows::<Self, f64>(Core::CPU),
        stored_windows::<Self, u8>(),
        stored_windows::<Self, i8>(),
    ];
    // The result for a window of one element, which tests expect. Squares of denormals underflow to 0.
    const OF_ONE: fn(f32) -> f32 = |x| if x.is_normal() || x.is_infinite() { x.abs() } else { 0.0 };
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().map(|x| x * x).sum::<f64>().sqrt();

    fn read(cx: &FinalizeCx<'_>, _: &Window) -> Result<Self, Error> {
        match cx.int("p")? {
            1 => Ok(Self::Absolute),
            2 => Ok(Self::Squares),
            p if p > 0 => Ok(Self::Powers(p as f64)),
            p => Err(Error::new(format!("parameter \"p\" is {p}, expected 1 or more"))),
        }
    }
}

impl<T: Real> FoldWindow<T> for LpPool {
    const START: T = T::ZERO;

    fn take(&self, x: T) -> T {
        let absolute = || if x < T::ZERO { T::ZERO.sub(x) } else { x };
        match *self {
            Self::Absolute => absolute(),
            Self::Squares => x.mul(x),
            Self::Powers(p) => absolute().pow(T::from_f64(p)),
        }
    }

    fn fold(&self, sum: T, x: T) -> T {
        sum.add(x)
    }

    fn finish(&self, _: &Window, sum: T, _: [Taps; 3], _: [usize; 3]) -> T {
        match *self {
            Self::Absolute => sum,
            Self::Squares => T::from_f64(sum.to_f64().sqrt()),
            Self::Powers(p) => sum.pow(T::from_f64(1.0 / p)),
        }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Core, Encoding, QuantizedType};

    use crate::testing::{assert_near, bench, noise, tensor};

    fn check_quantized_norms<T: QuantizedType>(x_encoding: Encoding, y_encoding: Encoding) {
        let dims = [2, 3, 5, 4];
        let quantized: Vec<T> = noise(120).iter().map(|x| x_encoding.quantize(3.0 * x)).collect();
        let values: Vec<f32> = quantized.iter().map(|&x| x_encoding.dequantize(x)).collect();
        for (p, threads) in [(1, 1), (2, 1), (2, 3), (3, 1)] {
            let run = |x| {
                let run = bench("LpPool").input(x).ints("kernel_shape", &[3, 2]).int("p", p);
                run.ints("pads", &[1, 0, 1, 0]).threads(threads)
            };
            let expected = run(tensor(&dims, &values)).one().values::<f32>();
            let x = tensor(&dims, &quantized).encoded(x_encoding.scale, x_encoding.zero_point);
            let run = run(x).on(Core::DSP_V68).output_encoding(
                0,
                y_encoding.scale,
                y_encoding.zero_point,
            );
            let y = run.one().values::<T>();
            let y: Vec<f32> = y.into_iter().map(|y| y_encoding.dequantize(y)).collect();
            let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
            assert!(expected.iter().any(|&y| y > 4.0), "no norm exceeds the input's range");
            // Half a step of the output's encoding, plus rounding.
            let is_near = |(y, expected): (&f32, &f64)| {
                (f64::from(*y) - expected).abs() <= f64::from(y_encoding.scale) * 0.501
            };
            assert!(y.iter().zip(&expected).all(is_near), "p {p}: {y:?} {expected:?}");
        }
    }

    #[test]
    fn quantized_norms_have_their_own_encoding() {
        let x_encoding = Encoding { scale: 6.0 / 255.0, zero_point: 128 };
        check_quantized_norms::<u8>(x_encoding, Encoding { scale: 18.0 / 255.0, zero_point: 0 });
        let x_encoding = Encoding { scale: 6.0 / 255.0, zero_point: 0 };
        check_quantized_norms::<i8>(x_encoding, Encoding { scale: 18.0 / 255.0, zero_point: -128 });
        let x = || tensor(&[1, 1, 2], &[1u8, 2]).encoded(0.5, 0);
        let run = bench("LpPool").on(Core::DSP_V68).input(x()).ints("kernel_shape", &[2]);
        assert_eq!(run.error(), "output 0 has no encoding");
    }

    #[test]
    fn exponents_may_be_any_positive_integer() {
        let run = || bench("LpPool").input(tensor(&[1, 1, 2], &[-3f32, 4.0]));
        for (p, expected) in [(1, 7.0), (2, 5.0), (3, 91f64.cbrt())] {
            let y = run().ints("kernel_shape", &[2]).int("p", p).one();
            assert_near(&y.values::<f32>(), &[expected], 1e-6);
        }
        let error = run().ints("kernel_shape", &[2]).int("p", 0).error();
        assert_eq!(error, "parameter \"p\" is 0, expected 1 or more");
    }
}
