//! The norm of each window: a root of the sum of powers of sizes.

use udo_api::{Core, DType, Error, FinalizeCx, KernelDef, Param, TypeSet, Value, types};

use crate::Def;
use crate::family::pooling::{FoldWindow, Pool, pool, windows};
use crate::family::window::{Taps, Window};
use crate::number::Real;

pub(crate) const DEF: Def = pool::<LpPool>();

enum LpPool {
    Sizes,
    Squares,
    /// Powers with this exponent.
    Powers(f64),
}

impl Pool for LpPool {
    const NAME: &'static str = "LpPool";
    const TYPES: TypeSet = types::F32.or(types::F64).or(types::F16);
    const PARAMS: &'static [Param] = &[Param::scalar("p", DType::I64).default(Value::int(2))];
    const KERNELS: &'static [KernelDef] =
        &[windows::<Self, f32>(Core::CPU), windows::<Self, f64>(Core::CPU)];
    // The square of what is denormal is zero.
    const OF_ONE: fn(f32) -> f32 = |x| if x.is_normal() || x.is_infinite() { x.abs() } else { 0.0 };
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().map(|x| x * x).sum::<f64>().sqrt();

    fn read(cx: &FinalizeCx<'_>, _: &Window) -> Result<Self, Error> {
        match cx.int("p")? {
            1 => Ok(Self::Sizes),
            2 => Ok(Self::Squares),
            p if p > 0 => Ok(Self::Powers(p as f64)),
            p => Err(Error::new(format!("parameter \"p\" is {p}, wanted 1 or more"))),
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
            Self::Powers(p) => size().pow(T::of(p)),
        }
    }

    fn fold(&self, sum: T, x: T) -> T {
        sum.add(x)
    }

    fn finish(&self, _: &Window, sum: T, _: [Taps; 3], _: [usize; 3]) -> T {
        match *self {
            Self::Sizes => sum,
            Self::Squares => T::of(sum.to_f64().sqrt()),
            Self::Powers(p) => sum.pow(T::of(1.0 / p)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn powers_are_of_any_exponent() {
        let run = || bench("LpPool").input(tensor(&[1, 1, 2], &[-3f32, 4.0]));
        for (p, wanted) in [(1, 7.0), (2, 5.0), (3, 91f64.cbrt())] {
            let y = run().ints("kernel_shape", &[2]).int("p", p).one();
            assert_near(&y.values::<f32>(), &[wanted], 1e-6);
        }
        let error = run().ints("kernel_shape", &[2]).int("p", 0).error();
        assert_eq!(error, "parameter \"p\" is 0, wanted 1 or more");
    }
}
