//! Operators that give the elements of their input another shape, such as Reshape and Squeeze.

use std::marker::PhantomData;

use udo_api::{
    Bits, Core, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel, KernelDef,
    MAX_RANK, Node, Op, OpSchema, Pair, Param, Port, PortRule, Shape, TensorDesc, input,
    output_like, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::gpu::StridedAccess;
use crate::family::movement::{Strided, strided};

/// A change of shape. The family provides schema, inference, kernels for every core, and tests.
pub(crate) trait View: Send + Sync + 'static {
    const NAME: &'static str;
    /// Names of input and output.
    const PORTS: [&'static str; 2];
    /// The integers of input 1, if there is one.
    const ARGUMENT: Option<IntsArgument> = None;
    const PARAMS: &'static [Param] = &[];
    /// Facts in addition to those of every view. An elementwise view keeps its shape.
    const FACTS: Facts = Facts::NONE;
    /// Test cases.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
    const EXAMPLES: &'static [Example];

    /// Returns the output shape for input `x`.
    fn shape(node: &Node<'_>, x: &TensorDesc) -> Result<Shape, Error>;
}

/// A test case: a shape and its result.
#[derive(Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
pub(crate) struct Example {
    from: &'static [usize],
    to: &'static [usize],
    argument: Option<&'static [i64]>,
    int: Option<(&'static str, i64)>,
}

impl Example {
    pub(crate) const fn new(from: &'static [usize], to: &'static [usize]) -> Self {
        Self { from, to, argument: None, int: None }
    }

    /// Sets the integers of input 1.
    pub(crate) const fn argument(mut self, ints: &'static [i64]) -> Self {
        self.argument = Some(ints);
        self
    }

    /// Sets a parameter.
    pub(crate) const fn int(mut self, name: &'static str, value: i64) -> Self {
        self.int = Some((name, value));
        self
    }
}

/// Defines the operator of the view `V`.
pub(crate) const fn view<V: View>() -> Def {
    let def = Def::new::<Described<V>>(Described::<V>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<V>);
    def
}

/// The operator of the view `V`.
struct Described<V>(PhantomData<fn() -> V>);

impl<V: View> Described<V> {
    const DATA: Port = Port::required(V::PORTS[0], types::ANY);
    const IN: &'static [Port] = match V::ARGUMENT {
        Some(argument) => &[Self::DATA, argument.port()],
        None => &[Self::DATA],
    };
    const OUT: &'static [Port] = &[Port::required(V::PORTS[1], types::ANY)];
    const KERNELS: &'static [KernelDef] = {
        &[
            kernel(V::NAME, Core::CPU).ports(BOUNDED),
            strided::<Copied>(V::NAME),
            kernel(V::NAME, Core::DSP_V68).ports(FIXED),
        ]
    };
}

const fn kernel(op: &'static str, core: Core) -> KernelDef {
    KernelDef::new::<Copied>(op, core).in_place(IN_PLACE)
}

const FIXED: &[PortRule] = &[input(0, types::ANY), output_like(0, 0)];
const BOUNDED: &[PortRule] = &[input(0, types::ANY).bounded(), output_like(0, 0).bounded()];

/// The output may share memory with the input.
pub(crate) const IN_PLACE: &[InPlace] = &[InPlace { input: 0, output: 0 }];

impl<V: View> Op for Described<V> {
    const SCHEMA: OpSchema = OpSchema::new(V::NAME, Self::IN, Self::OUT, V::PARAMS)
        .facts(Facts::VIEW.or(Facts::SAME_ENCODING).or(V::FACTS));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = V::shape(cx, &x)?;
        cx.set_output(0, x.with_shape(shape))
    }
}

/// Copies input 0 to output 0; does nothing if they are in place.
pub(crate) struct Copied {
    shape: RunShape,
    run: fn(&mut Io<'_>) -> Result<(), ExecError>,
}

impl Copied {
    pub(crate) fn run(&self, io: &mut Io<'_>) -> Result<(), ExecError> {
        (self.run)(io)?;
        self.shape.set(io)
    }
}

/// How the output shape of a run is determined.
enum RunShape {
    /// Equal to the input's.
    Unchanged,
    /// Fixed in the plan.
    Planned,
    /// As planned, except for axes that have the extent of an input axis: pairs of output axis and input axis.
    CopiedAxes { planned: Shape, axes: Vec<(usize, usize)> },
    /// As planned, except for one axis that takes the remaining elements.
    Remainder { planned: Shape, axis: usize },
}

impl RunShape {
    fn new(x: Shape, y: Shape) -> Result<Self, Error> {
        if x == y {
            return Ok(Self::Unchanged);
        }
        // The bounded axes of a shape, with their bounds.
        let bounded = |shape: Shape| -> Vec<(usize, usize)> {
            let dims = shape.iter().enumerate();
            dims.filter(|(_, dim)| dim.exact().is_none())
                .map(|(axis, dim)| (axis, dim.bound()))
                .collect()
        };
        let (x_axes, y_axes) = (bounded(x), bounded(y));
        let bounds_match = x_axes.iter().map(|axis| axis.1).eq(y_axes.iter().map(|axis| axis.1));
        match y_axes[..] {
            [] if x_axes.is_empty() => Ok(Self::Planned),
            _ if bounds_match => {
                let axes = y_axes.iter().zip(&x_axes).map(|(y, x)| (y.0, x.0)).collect();
                Ok(Self::CopiedAxes { planned: y, axes })
            }
            [(axis, _)] => Ok(Self::Remainder { planned: y, axis }),
            _ => Err(Error::new(format!("shape {x} becomes {y}, which a run cannot tell"))),
        }
    }

    /// Sets the shape of output 0.
    fn set(&self, io: &mut Io<'_>) -> Result<(), ExecError> {
        let x_dims = io.inputs.shape(0)?;
        let planned = match self {
            Self::Planned => return Ok(()),
            Self::Unchanged => return io.outputs.set_shape(0, x_dims),
            Self::CopiedAxes { planned, .. } | Self::Remainder { planned, .. } => planned.dims(),
        };
        let mut dims = [1; MAX_RANK];
        let dims = &mut dims[..planned.len()];
        dims.copy_from_slice(planned);
        match self {
            Self::CopiedAxes { axes, .. } => {
                for &(y_axis, x_axis) in axes {
                    dims[y_axis] = x_dims[x_axis];
                }
            }
            Self::Remainder { axis, .. } => {
                dims[*axis] = 1;
                let other_axes: usize = dims.iter().product();
                let len = x_dims.iter().product::<usize>();
                dims[*axis] = len.checked_div(other_axes).unwrap_or(0);
            }
            Self::Unchanged | Self::Planned => {}
        }
        io.outputs.set_shape(0, dims)
    }
}

impl Kernel for Copied {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        if x.len() != y.len() {
            return Err(Error::new(format!(
                "input 0 is {x} and output 0 is {y}, expected one size"
            )));
        }
        let shape = RunShape::new(x.full_shape(), y.full_shape())?;
        Ok(Self { shape, run: of_width!(x.dtype(), B => copy::<B>)? })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        self.run(&mut io)
    }
}

impl Strided for Copied {
    fn access(cx: &FinalizeCx<'_>) -> Result<StridedAccess, Error> {
        Self::finalize(cx)?;
        let len = cx.output(0)?.len();
        Ok(StridedAccess::broadcast(&[len], &[&[len]]))
    }
}

fn copy<B: Bits>(io: &mut Io<'_>) -> Result<(), ExecError> {
    if let Pair::Apart(x, y) = io.pair_bits::<B>(0, 0)? {
        y[..x.len()].copy_from_slice(x);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_api::F16;

    use super::*;
    use crate::testing::{Bench, bench, tensor};

    /// Runs all tests of a member; `bench` adds calls in place.
    pub(super) fn run_all<V: View>(name: &str) {
        println!("{name}: a family member");
        assert!(!V::EXAMPLES.is_empty());
        for example in V::EXAMPLES {
            elements_are_unchanged::<V>(example);
            non_constant_arguments_are_refused::<V>(example);
        }
    }

    fn bench_with<V: View>(example: &Example, core: Core) -> Bench {
        let run = bench(V::NAME).on(core);
        example.int.into_iter().fold(run, |run, (name, value)| run.int(name, value))
    }

    fn numbers(dims: &[usize]) -> Vec<u8> {
        (0..=u8::MAX).cycle().take(dims.iter().product()).collect()
    }

    fn elements_are_unchanged<V: View>(example: &Example) {
        let Example { from, to, argument, .. } = *example;
        let bytes = numbers(from);
        let doubles: Vec<f64> = bytes.iter().copied().map(f64::from).collect();
        for core in [Core::CPU, Core::GPU, Core::DSP_V68] {
            let run = |x| {
                let run = bench_with::<V>(example, core).input(x);
                let constant = argument.map(|ints| tensor(&[ints.len()], ints));
                constant.into_iter().fold(run, Bench::constant).one()
            };
            let y = run(tensor(from, &bytes));
            assert_eq!((y.dims().as_slice(), y.values::<u8>()), (to, bytes.clone()), "{}", V::NAME);
            // Includes signalling NaNs.
            let bits: Vec<F16> = bytes.iter().map(|&x| F16(0xfc01 + u16::from(x))).collect();
            assert_eq!(run(tensor(from, &bits)).values::<F16>(), bits, "{}", V::NAME);
            let y = run(tensor(from, &doubles));
            assert_eq!((y.dims().as_slice(), y.values()), (to, doubles.clone()), "{}", V::NAME);
        }
    }

    #[test]
    fn bounded_extents_are_read_in_the_run() {
        use udo_api::Dim::{self, Fixed, UpTo};

        type Case<'a> = (&'a str, &'a [Dim], &'a [i64], &'a str, &'a [usize]);

        let x = |bounds: &[Dim]| tensor(&[2, 1, 6], &numbers(&[2, 1, 6])).bounded(bounds);
        let run = |op: &str, bounds: &[Dim], ints: &[i64]| {
            bench(op).input(x(bounds)).constant(tensor(&[ints.len()], ints)).one()
        };
        let first = [UpTo(5), Fixed(1), Fixed(6)];
        let cases: [Case<'_>; 6] = [
            ("Unsqueeze", &first, &[1], "[<=5,1,1,6]", &[2, 1, 1, 6]),
            ("Squeeze", &first, &[1], "[<=5,6]", &[2, 6]),
            ("Squeeze", &[UpTo(5), Fixed(1), UpTo(7)], &[1], "[<=5,<=7]", &[2, 6]),
            ("Reshape", &first, &[0, 3, 2], "[<=5,3,2]", &[2, 3, 2]),
            ("Reshape", &first, &[-1, 2], "[<=15,2]", &[6, 2]),
            ("Reshape", &[UpTo(5), Fixed(1), UpTo(7)], &[-1], "[<=35]", &[12]),
        ];
        for (op, bounds, ints, shape, dims) in cases {
            let y = run(op, bounds, ints);
            assert_eq!(y.desc().full_shape().to_string(), shape, "{op} {ints:?}");
            assert_eq!((y.dims().as_slice(), y.values::<u8>()), (dims, numbers(dims)), "{op}");
        }
    }

    fn non_constant_arguments_are_refused<V: View>(example: &Example) {
        let Example { from, argument: Some(ints), .. } = *example else { return };
        let Some(IntsArgument { what, .. }) = V::ARGUMENT else {
            panic!("{} has no input 1", V::NAME)
        };
        let run = bench_with::<V>(example, Core::CPU).input(tensor(from, &numbers(from)));
        let error = run.input(tensor(&[ints.len()], ints)).error();
        assert_eq!(error, format!("input 1, the {what}, is not known before the run"));
    }
}
