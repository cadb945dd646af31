//! One operation in a graph of its own, and numbers to hold its results against.

use udo_api::{Bool, DType, Element, Encoding, Encodings, Layout, Shape};
use udo_compile::build::{GraphBuilder, Operation, TensorId};
use udo_graph::memory::bytes_of;
use udo_runtime::device::TensorSpec;
use udo_runtime::graph::Attr;
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::random::Random;

/// Numbers under a shape, outermost dimension first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nd {
    pub(crate) dims: Vec<usize>,
    pub(crate) of: Vec<f64>,
}

/// All places of a shape, in order.
pub(crate) fn places(dims: &[usize]) -> Vec<Vec<usize>> {
    let count = dims.iter().product();
    let place = |mut at: usize| {
        let mut place = vec![0; dims.len()];
        for (to, &extent) in place.iter_mut().zip(dims).rev() {
            *to = at % extent;
            at /= extent;
        }
        place
    };
    (0..count).map(place).collect()
}

impl Nd {
    pub(crate) fn new(dims: &[usize], of: &[f64]) -> Self {
        assert_eq!(dims.iter().product::<usize>(), of.len());
        Self { dims: dims.to_vec(), of: of.to_vec() }
    }

    pub(crate) fn list(of: &[f64]) -> Self {
        Self::new(&[of.len()], of)
    }

    pub(crate) fn scalar(of: f64) -> Self {
        Self::new(&[], &[of])
    }

    /// Eighths between -2 and 2, other ones for each seed.
    pub(crate) fn noise(dims: &[usize], seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self::from(dims, |_| (random.bits() >> 59) as f64 / 8.0 - 2.0)
    }

    pub(crate) fn from(dims: &[usize], mut at: impl FnMut(&[usize]) -> f64) -> Self {
        let of = places(dims).iter().map(|place| at(place)).collect();
        Self { dims: dims.to_vec(), of }
    }

    pub(crate) fn at(&self, place: &[usize]) -> f64 {
        assert_eq!(place.len(), self.dims.len());
        let row = |at: usize, (&place, &extent): (&usize, &usize)| {
            assert!(place < extent);
            at * extent + place
        };
        self.of[place.iter().zip(&self.dims).fold(0, row)]
    }

    pub(crate) fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        Self { dims: self.dims.clone(), of: self.of.iter().copied().map(of).collect() }
    }

    /// Both, with extents of 1 repeated.
    pub(crate) fn zip(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let rank = self.dims.len().max(other.dims.len());
        let extent = |x: &Self, axis: usize| {
            (axis + x.dims.len()).checked_sub(rank).map_or(1, |axis| x.dims[axis])
        };
        let dims: Vec<_> =
            (0..rank).map(|axis| extent(self, axis).max(extent(other, axis))).collect();
        let get = |x: &Self, place: &[usize]| {
            let own = &place[rank - x.dims.len()..];
            let own = own.iter().zip(&x.dims).map(|(&at, &n)| if n == 1 { 0 } else { at });
            x.at(&own.collect::<Vec<_>>())
        };
        Self::from(&dims, |place| of(get(self, place), get(other, place)))
    }

    pub(crate) fn reshaped(&self, dims: &[usize]) -> Self {
        Self::new(dims, &self.of)
    }

    /// With its axes in another order.
    pub(crate) fn permuted(&self, perm: &[usize]) -> Self {
        let dims: Vec<_> = perm.iter().map(|&axis| self.dims[axis]).collect();
        Self::from(&dims, |place| {
            let mut from = vec![0; place.len()];
            perm.iter().zip(place).for_each(|(&axis, &at)| from[axis] = at);
            self.at(&from)
        })
    }

    fn bytes(&self, dtype: DType) -> Vec<u8> {
        fn converted<T: Element>(x: &Nd, as_t: fn(f64) -> T) -> Vec<u8> {
            bytes_of(&x.of.iter().copied().map(as_t).collect::<Vec<T>>()).to_vec()
        }
        match dtype {
            DType::F32 => converted(self, |x| x as f32),
            DType::F64 => converted(self, |x| x),
            DType::I8 => converted(self, |x| x as i8),
            DType::U8 => converted(self, |x| x as u8),
            DType::I32 => converted(self, |x| x as i32),
            DType::I64 => converted(self, |x| x as i64),
            DType::Bool => converted(self, |x| Bool::from(x != 0.0)),
            other => panic!("no numbers of {other}"),
        }
    }

    pub(crate) fn tensor(&self, dtype: DType) -> Tensor {
        Tensor::from_bytes(dtype, Shape::new(&self.dims).unwrap(), &self.bytes(dtype)).unwrap()
    }

    pub(crate) fn of_tensor(tensor: &Tensor) -> Self {
        fn converted<T: Element>(tensor: &Tensor, from: fn(T) -> f64) -> Vec<f64> {
            tensor.get::<T>().unwrap().iter().copied().map(from).collect()
        }
        let numbers = match tensor.dtype() {
            DType::F32 => converted(tensor, |x: f32| f64::from(x)),
            DType::F64 => converted(tensor, |x: f64| x),
            DType::I8 => converted(tensor, |x: i8| f64::from(x)),
            DType::U8 => converted(tensor, |x: u8| f64::from(x)),
            DType::I32 => converted(tensor, |x: i32| f64::from(x)),
            DType::I64 => converted(tensor, |x: i64| x as f64),
            DType::Bool => converted(tensor, |x: Bool| f64::from(u8::from(x.get()))),
            other => panic!("no numbers of {other}"),
        };
        Self::new(tensor.dims(), &numbers)
    }
}

/// One operation, and the tensors around it.
pub(crate) struct Case {
    operation: Operation,
    builder: GraphBuilder,
    given: Vec<(TensorId, String, Tensor)>,
    reads: Vec<TensorId>,
    makes: Vec<TensorId>,
    wanted: Vec<(DType, Vec<usize>)>,
    layout: Layout,
}

/// An operation of this name.
pub(crate) fn nnrt(name: &str) -> Case {
    Case {
        operation: Operation::nnrt(name),
        builder: GraphBuilder::new(name),
        given: Vec::new(),
        reads: Vec::new(),
        makes: Vec::new(),
        wanted: Vec::new(),
        layout: Layout::AsGiven,
    }
}

impl Case {
    fn with(self, name: &str, attr: Attr) -> Self {
        Self { operation: self.operation.attr(name, attr), ..self }
    }

    pub(crate) fn int(self, name: &str, of: i64) -> Self {
        self.with(name, Attr::Int(of))
    }

    pub(crate) fn float(self, name: &str, of: f64) -> Self {
        self.with(name, Attr::Float(of))
    }

    pub(crate) fn ints(self, name: &str, of: &[i64]) -> Self {
        self.with(name, Attr::Ints(of.to_vec()))
    }

    pub(crate) fn floats(self, name: &str, of: &[f64]) -> Self {
        self.with(name, Attr::Floats(of.to_vec()))
    }

    pub(crate) fn text(self, name: &str, of: &str) -> Self {
        self.with(name, Attr::Text(of.to_owned()))
    }

    /// Tensors of images that come have their channels second.
    pub(crate) fn nchw(self) -> Self {
        Self { layout: Layout::Nchw, ..self }
    }

    fn spec(&self, dtype: DType, dims: &[usize]) -> TensorSpec {
        let spec = TensorSpec::fixed(dtype, dims).unwrap();
        if dims.len() == 4 { spec.with_layout(self.layout).unwrap() } else { spec }
    }

    /// An input that a run is given.
    pub(crate) fn input(mut self, dtype: DType, of: &Nd) -> Self {
        let name = format!("x{}", self.reads.len());
        let id = self.builder.tensor(&name, self.spec(dtype, &of.dims)).unwrap();
        self.given.push((id, name, of.tensor(dtype)));
        self.reads.push(id);
        self
    }

    pub(crate) fn x(self, of: &Nd) -> Self {
        self.input(DType::F32, of)
    }

    /// An input that is a constant.
    pub(crate) fn constant(mut self, dtype: DType, of: &Nd) -> Self {
        let spec = self.spec(dtype, &of.dims);
        let id = self.builder.constant("", spec, &of.bytes(dtype)).unwrap();
        self.reads.push(id);
        self
    }

    /// A constant list of integers.
    pub(crate) fn of_ints(self, of: &[i64]) -> Self {
        let of: Vec<f64> = of.iter().map(|&of| of as f64).collect();
        self.constant(DType::I64, &Nd::list(&of))
    }

    /// An output.
    pub(crate) fn makes(mut self, dtype: DType, dims: &[usize]) -> Self {
        let id = self.builder.tensor("", self.spec(dtype, dims)).unwrap();
        self.makes.push(id);
        self.wanted.push((dtype, dims.to_vec()));
        self
    }

    pub(crate) fn y(self, dims: &[usize]) -> Self {
        self.makes(DType::F32, dims)
    }

    /// Sets the encoding of the last input.
    pub(crate) fn encoded(mut self, scale: f32, zero_point: i32) -> Self {
        let encodings = Encodings::PerTensor(Encoding { scale, zero_point });
        let id = *self.reads.last().unwrap();
        self.builder.set_quantization(id, encodings).unwrap();
        self
    }

    /// The same of the last input by encodings of its own, and of the last output.
    pub(crate) fn input_encodings(mut self, encodings: Encodings) -> Self {
        let id = *self.reads.last().unwrap();
        self.builder.set_quantization(id, encodings).unwrap();
        self
    }

    pub(crate) fn output_encoded(mut self, scale: f32, zero_point: i32) -> Self {
        let encodings = Encodings::PerTensor(Encoding { scale, zero_point });
        let id = *self.makes.last().unwrap();
        self.builder.set_quantization(id, encodings).unwrap();
        self
    }

    /// Returns the outputs of a run, with the declared types and shapes.
    #[track_caller]
    pub(crate) fn run(self) -> Vec<Nd> {
        let wanted = self.wanted.clone();
        match self.try_run() {
            Ok(made) => {
                let found: Vec<_> = made.iter().map(|y| (y.dtype(), y.dims().to_vec())).collect();
                assert_eq!(found, wanted);
                made.iter().map(Nd::of_tensor).collect()
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Why it is refused, or why its run fails.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        self.try_run().unwrap_err()
    }

    fn try_run(self) -> Result<Vec<Tensor>, String> {
        let Self { operation, mut builder, given, reads, makes, .. } = self;
        let said = |error: &dyn std::error::Error| error.to_string();
        builder.op(operation.reads(&reads).makes(&makes)).map_err(|error| said(&error))?;
        let inputs: Vec<_> = given.iter().map(|(id, ..)| *id).collect();
        builder.set_io(&inputs, &makes).map_err(|error| said(&error))?;
        let graph = builder.finish().map_err(|error| said(&error))?;
        let operators = built_in();
        let compiled = compile_graph(graph.graph().clone(), &operators, &CompileOptions::default());
        let model = compiled.map_err(|error| said(&error))?;
        let mut session = model.session().unwrap();
        for (_, name, tensor) in &given {
            session.set_input(name, tensor).map_err(|error| said(&error))?;
        }
        session.run().map_err(|error| said(&error))?;
        let tensor = |name: &String| session.output_tensor(name).map_err(|error| said(&error));
        model.outputs().iter().map(tensor).collect()
    }

    /// Holds the results against numbers, to a part in a hundred thousand.
    #[track_caller]
    pub(crate) fn is(self, wanted: &[&Nd]) {
        near(&self.run(), wanted, 1e-5);
    }
}

/// Holds results against numbers.
#[track_caller]
pub(crate) fn near(found: &[Nd], wanted: &[&Nd], within: f64) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found.dims, wanted.dims);
        for (at, (y, wanted)) in found.of.iter().zip(&wanted.of).enumerate() {
            let is_near =
                (y - wanted).abs() <= within * (1.0 + wanted.abs()) || y.total_cmp(wanted).is_eq();
            assert!(is_near, "element {at} is {y}, expected {wanted}");
        }
    }
}

/// A test for each operation, by its number.
macro_rules! operations {
    ($($number:literal $name:ident $body:block)*) => {
        /// The operations that are tested here.
        pub(crate) const TESTED: &[u32] = &[$($number),*];

        $(#[test] fn $name() $body)*
    };
}
pub(crate) use operations;
