//! Operators whose output depends on the extents of the input only, such as Shape.
//!
//! Fixed extents are folded when the model is compiled; bounded ones are read in each run.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, Shape, TensorDesc, input, output, types,
};

use crate::Def;

/// A function of extents, with i64 output.
pub(crate) trait Extents: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    /// Names of input and output.
    const PORTS: [&'static str; 2];
    const PARAMS: &'static [Param] = &[];

    /// Reads the node's parameters for a tensor of this rank.
    fn plan(node: &Node<'_>, rank: usize) -> Result<Self, Error>;

    /// Returns the shape of the output.
    fn shape(&self) -> Result<Shape, Error>;

    /// Writes the output.
    fn fill(&self, dims: &[usize], y: &mut [i64]);
}

/// Defines the operator of the function `E`.
pub(crate) const fn extents<E: Extents>() -> Def {
    Def::new::<Described<E>>(Described::<E>::KERNELS)
}

/// The operator of the function `E`.
struct Described<E>(PhantomData<fn() -> E>);

impl<E: Extents> Described<E> {
    const IN: &'static [Port] = &[Port::required(E::PORTS[0], types::ANY)];
    const OUT: &'static [Port] = &[Port::required(E::PORTS[1], types::I64)];
    const KERNELS: &'static [KernelDef] = &[KernelDef::new::<ExtentsKernel<E>>(E::NAME, Core::CPU)
        .ports(&[input(0, types::ANY).bounded(), output(0, types::I64)])];
}

impl<E: Extents> Op for Described<E> {
    const SCHEMA: OpSchema =
        OpSchema::new(E::NAME, Self::IN, Self::OUT, E::PARAMS).facts(Facts::SHAPE_ONLY);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = E::plan(cx, cx.input(0)?.rank())?.shape()?;
        cx.set_output(0, TensorDesc::new(DType::I64, shape))
    }
}

struct ExtentsKernel<E>(E);

impl<E: Extents> Kernel for ExtentsKernel<E> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        E::plan(cx, cx.input(0)?.rank()).map(Self)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        self.0.fill(io.inputs.shape(0)?, io.outputs.take(0)?);
        Ok(())
    }
}
