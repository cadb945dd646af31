//! The Lp norm of each pooling window: `sum(|x|^p)^(1/p)`.

use udo_api::{Core, DType, Error, Facts, FinalizeCx, KernelDef, Param, TypeSet, Value, types};

use crate::Def;
use crate::family::pooling::{FoldWindow, Pool, pool, stored_windows, windows};
use crate::family::window::{Taps, Window};
use crate::number::Real;

pub(crate) const DEF: Def = pool::<LpPool>();

enum LpPool {
    Sizes,
    Squares,
    /// `|x|^p` for another exponent.
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
    // Squares of denormals underflow to 0.
    const OF_ONE: fn(f32) -> f32 = |x| if x.is_normal() || x.is_infinite() { x.abs() } else { 0.0 };
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().map(|x| x * x).sum::<f64>().sqrt();

    fn read(cx: &FinalizeCx<'_>, _: &Window) -> Result<Self, Error> {
        match cx.int("p")? {
            1 => Ok(Self::Sizes),
            2 => Ok(Self::Squares),
            p if p > 0 => Ok(Self::Powers(p as f64)),
            p => Err(Error::new(format!("parameter \"p\" is {p}, expected 1 or more"))),
        }
    }
}

impl<T: Real> FoldWindow<T> for LpPool {
    const START: T = T::ZERO;

    fn take(&self, x: T) -> T {
        let size = || if x < T::ZERO { T::ZERO.sub(x) } else { x };
        match *self {
            Self::Sizes => size(),
            Self::Squares => x.mul(x),
            Self::Powers(p) => size().pow(T::from_f64(p)),
        }
    }

    fn fold(&self, sum: T, x: T) -> T {
        sum.add(x)
    }

    fn finish(&self, _: &Window, sum: T, _: [Taps; 3], _: [usize; 3]) -> T {
        match *self {
            Self::Sizes => sum,
            Self::Squares => T::from_f64(sum.to_f64().sqrt()),
            Self::Powers(p) => sum.pow(T::from_f64(1.0 / p)),
        }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Core, Encoding, QuantizedType};

    use crate::testing::{assert_near, bench, noise, tensor};

    fn norms_of_stored_numbers<T: QuantizedType>(x_is: Encoding, y_is: Encoding) {
        let dims = [2, 3, 5, 4];
        let stored: Vec<T> = noise(120).iter().map(|x| x_is.quantize(3.0 * x)).collect();
        let numbers: Vec<f32> = stored.iter().map(|&x| x_is.dequantize(x)).collect();
        for (p, threads) in [(1, 1), (2, 1), (2, 3), (3, 1)] {
            let run = |x| {
                let run = bench("LpPool").input(x).ints("kernel_shape", &[3, 2]).int("p", p);
                run.ints("pads", &[1, 0, 1, 0]).threads(threads)
            };
            let expected = run(tensor(&dims, &numbers)).one().values::<f32>();
            let x = tensor(&dims, &stored).encoded(x_is.scale, x_is.zero_point);
            let run = run(x).on(Core::DSP_V68).output_encoding(0, y_is.scale, y_is.zero_point);
            let y = run.one().values::<T>();
            let y: Vec<f32> = y.into_iter().map(|y| y_is.dequantize(y)).collect();
            let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
            assert!(expected.iter().any(|&y| y > 4.0), "beyond the input's range");
            // Half an ulp of the output.
            let is_near = |(y, expected): (&f32, &f64)| {
                (f64::from(*y) - expected).abs() <= f64::from(y_is.scale) * 0.501
            };
            assert!(y.iter().zip(&expected).all(is_near), "p {p}: {y:?} {expected:?}");
        }
    }

    #[test]
    fn quantized_norms_have_their_own_encoding() {
        let x_is = Encoding { scale: 6.0 / 255.0, zero_point: 128 };
        norms_of_stored_numbers::<u8>(x_is, Encoding { scale: 18.0 / 255.0, zero_point: 0 });
        let x_is = Encoding { scale: 6.0 / 255.0, zero_point: 0 };
        norms_of_stored_numbers::<i8>(x_is, Encoding { scale: 18.0 / 255.0, zero_point: -128 });
        let x = || tensor(&[1, 1, 2], &[1u8, 2]).encoded(0.5, 0);
        let run = bench("LpPool").on(Core::DSP_V68).input(x()).ints("kernel_shape", &[2]);
        assert_eq!(run.error(), "output 0 has no encoding");
    }

    #[test]
    fn powers_are_of_any_exponent() {
        let run = || bench("LpPool").input(tensor(&[1, 1, 2], &[-3f32, 4.0]));
        for (p, expected) in [(1, 7.0), (2, 5.0), (3, 91f64.cbrt())] {
            let y = run().ints("kernel_shape", &[2]).int("p", p).one();
            assert_near(&y.values::<f32>(), &[expected], 1e-6);
        }
        let error = run().ints("kernel_shape", &[2]).int("p", 0).error();
        assert_eq!(error, "parameter \"p\" is 0, expected 1 or more");
    }
}
