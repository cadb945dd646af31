//! Operators that copy their data and apply updates to some elements, such as `ScatterElements`.

mod combine;
mod elements;

use std::marker::PhantomData;

use udo_api::{
    Core, Error, ExecError, FinalizeCx, InPlace, InferCx, Inputs, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Pair, Parallel, PortRule, input, input_like, output_like, types,
};

use crate::Def;
use crate::family::partition::GRAIN;

pub(crate) use combine::{Combine, Width, combine_all};
pub(crate) use elements::{Elements, ScatterAlong};

/// A scatter, which knows the element that each update targets. The family provides inference, and a kernel for every
/// element type, which copies the data or updates it in place.
pub(crate) trait Scatter: Sized + Send + Sync + 'static {
    const SCHEMA: OpSchema;
    const RULES: &'static [PortRule] = &[
        input(0, types::ANY).bounded(),
        input(1, types::INDEX).bounded(),
        input_like(2, 0).bounded(),
        output_like(0, 0).bounded(),
    ];

    /// Prepares everything that does not depend on element values.
    ///
    /// # Errors
    /// Returns an error if inputs do not fit the data, or a parameter is invalid.
    fn plan(node: &Node<'_>) -> Result<Self, Error>;

    /// Applies all updates to `y`, a copy of the data; several updates of one element apply in order.
    fn scatter<B: Width>(
        &self,
        inputs: &Inputs<'_>,
        combine: Combine,
        parallel: Parallel<'_>,
        y: &mut [B],
    ) -> Result<(), ExecError>;
}

/// Defines the operator of the scatter `S`.
pub(crate) const fn scatter<S: Scatter>() -> Def {
    Def::new::<Described<S>>(Described::<S>::KERNELS)
}

/// The operator of the scatter `S`.
struct Described<S>(PhantomData<fn() -> S>);

impl<S: Scatter> Described<S> {
    const KERNELS: &'static [KernelDef] = {
        const IN_PLACE: &[InPlace] = &[InPlace { input: 0, output: 0 }];
        let kernel = KernelDef::new::<Scattered<S>>(S::SCHEMA.name(), Core::CPU);
        &[kernel.ports(S::RULES).in_place(IN_PLACE)]
    };
}

impl<S: Scatter> Op for Described<S> {
    const SCHEMA: OpSchema = S::SCHEMA;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        S::plan(cx)?;
        Combine::read(cx)?;
        let data = cx.input(0)?;
        cx.set_output(0, data)
    }
}

/// CPU kernel of the scatter `S`.
struct Scattered<S> {
    plan: S,
    combine: Combine,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl<S: Scatter> Kernel for Scattered<S> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        let run: fn(&Self, Io<'_>) -> _ = of_width!(dtype, B => Self::run::<B>)?;
        Ok(Self { plan: S::plan(cx)?, combine: Combine::read(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<S: Scatter> Scattered<S> {
    fn run<B: Width>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let dims = io.inputs.shape(0)?;
        // A bounded output buffer may be larger than this run's output.
        let len: usize = dims.iter().product();
        let y = match io.pair_bits::<B>(0, 0)? {
            Pair::Same(y) => &mut y[..len],
            Pair::Apart(x, y) => {
                io.parallel.chunks_mut(&mut y[..len], GRAIN, |chunk, y| {
                    y.copy_from_slice(&x[chunk * GRAIN..][..y.len()]);
                    Ok(())
                })?;
                &mut y[..len]
            }
        };
        self.plan.scatter(&io.inputs, self.combine, io.parallel, y)?;
        io.outputs.set_shape(0, dims)
    }
}
