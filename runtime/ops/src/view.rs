//! The kernel of operators whose output is the input's bytes under another shape.

use udo_api::{
    Core, Element, Error, ExecError, FinalizeCx, InPlace, Io, Kernel, KernelDef, Pair, TypeRule,
    input, output_like, types,
};

/// The kernel that copies input 0 to output 0 on `core`, or does nothing where they are in place.
pub(crate) const fn copy(op: &'static str, core: Core) -> KernelDef {
    const RULES: &[TypeRule] = &[input(0, types::ANY), output_like(0, 0)];
    KernelDef::new::<Copied>(op, core).types(RULES).in_place(&[InPlace { input: 0, output: 0 }])
}

struct Copied {
    keeps_shape: bool,
    run: fn(&mut Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Copied {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        if x.len() != y.len() {
            return Err(Error::new(format!("input 0 is {x} and output 0 is {y}, wanted one size")));
        }
        let keeps_shape = x.full_shape() == y.full_shape();
        Ok(Self { keeps_shape, run: of_any!(x.dtype(), T => execute::<T>)? })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&mut io)?;
        if self.keeps_shape {
            let shape = io.inputs.shape(0)?;
            io.outputs.set_shape(0, shape)?;
        }
        Ok(())
    }
}

fn execute<T: Element>(io: &mut Io<'_>) -> Result<(), ExecError> {
    if let Pair::Apart(x, y) = io.pair::<T>(0, 0)? {
        y[..x.len()].copy_from_slice(x);
    }
    Ok(())
}
