//! One case of an operator as a model, run, and held to the reference.

use std::fmt::Write as _;

use udo_api::{Bool, Core, DType, Shape};
use udo_engine::cores::{GpuStorage, OpenCl, Profile};
use udo_engine::operators::Operators;
use udo_graph::memory;
use udo_reference::{
    Argument, Arguments, Arithmetic, Class, Elements, Evaluated, Settings, Storage, Tensor, Value,
};
use udo_runtime::CompileOptions;
use udo_runtime::compile::PlaceOptions;
use udo_runtime::graph::Graph;
use udo_test_support::compile::compile_graph;
use udo_test_support::language::{Case, Operator, reals};

use super::config::{integers, type_name};

/// How a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Cpu,
    Dsp,
    Gpu(Where, Stored),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Emulated,
    Device,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Singles,
    Halves,
}

impl Target {
    pub(crate) const GPU: Self = Self::Gpu(Where::Emulated, Stored::Singles);
    pub(crate) const HALVES: Self = Self::Gpu(Where::Emulated, Stored::Halves);
    pub(crate) const DEVICE: Self = Self::Gpu(Where::Device, Stored::Singles);
    pub(crate) const DEVICE_HALVES: Self = Self::Gpu(Where::Device, Stored::Halves);

    pub(crate) fn is_gpu(self) -> bool {
        matches!(self, Self::Gpu(..))
    }

    pub(crate) fn is_device(self) -> bool {
        matches!(self, Self::Gpu(Where::Device, _))
    }

    fn options(self) -> CompileOptions {
        let (core, profile) = match self {
            Self::Cpu => (Core::CPU, Profile::default()),
            Self::Dsp => (Core::DSP_V68, Profile::default()),
            Self::Gpu(place, stored) => {
                let opencl = match place {
                    Where::Emulated => OpenCl::Off,
                    Where::Device => OpenCl::Auto,
                };
                let gpu_storage = match stored {
                    Stored::Singles => GpuStorage::F32,
                    Stored::Halves => GpuStorage::F16,
                };
                (Core::GPU, Profile { opencl, gpu_storage, ..Profile::default() })
            }
        };
        let place = PlaceOptions { cores: vec![core], profile, ..PlaceOptions::default() };
        CompileOptions { place, ..CompileOptions::default() }
    }

    fn floats(self) -> Storage {
        match self {
            Self::Gpu(_, Stored::Halves) => Storage::F16,
            _ => Storage::F32,
        }
    }
}

/// The encoding of a tensor's bytes.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    scale: f64,
    zero_point: i64,
}

impl Bytes {
    /// One with all of these numbers, whose scale is a power of two so that it rounds none of its own.
    fn covering(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(0.0, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let scale = ((high - low) / 250.0).max(1.0 / 1024.0).log2().ceil().exp2();
        Self { scale, zero_point: (-low / scale).ceil() as i64 }
    }

    fn nearest(self, value: f64) -> f64 {
        let steps = (value / self.scale).round_ties_even() + self.zero_point as f64;
        (steps.clamp(0.0, 255.0) - self.zero_point as f64) * self.scale
    }

    fn storage(self) -> Storage {
        Storage::Quantized { scale: self.scale, zero_point: self.zero_point, min: 0, max: 255 }
    }
}

/// The result of a case on one target.
pub(crate) enum Outcome {
    /// The result of the reference.
    Right,
    /// Something else.
    Wrong(String),
}

/// How it comes out; nothing where the way cannot hold the numbers of the case.
pub(crate) fn outcome(
    operators: &Operators,
    name: &str,
    operator: &Operator,
    case: &Case,
    way: Target,
) -> Option<Outcome> {
    let mut arguments = case.arguments.clone();
    let mut storage = operator.storage(way.floats());
    let mut codes: [Vec<Option<Bytes>>; 2] = Default::default();
    if way == Target::Dsp {
        codes[0] = to_bytes(&mut arguments)?;
        let settings = Settings::new(Arithmetic::F32, storage.clone());
        let outputs = operator.program().evaluate(&arguments, &settings).ok()?;
        for (output, storage) in outputs.iter().zip(&mut storage) {
            let values = reals(&output.tensor);
            if values.iter().any(|value| !value.is_finite()) {
                return None;
            }
            let bytes = matches!(output.tensor.elements, Elements::Float(_))
                .then(|| Bytes::covering(&values));
            if let Some(bytes) = bytes {
                *storage = bytes.storage();
            }
            codes[1].push(bytes);
        }
    }
    let settings = Settings::new(Arithmetic::F32, storage);
    let wanted = operator.program().evaluate(&arguments, &settings).unwrap();
    let text = model(name, operator, &arguments, &codes);
    let graph = Graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let model = compile_graph(graph, operators, &way.options());
    let model = model.unwrap_or_else(|error| panic!("{name}, {way:?}: {error:?}\n{text}"));
    if let Target::Gpu(place, _) = way {
        let nodes = &model.report().nodes;
        let node = nodes.iter().find(|node| node.op == type_name(name)).unwrap();
        let is_emulated = node.backend.as_deref() == Some("work items on host threads");
        assert_eq!(is_emulated, place == Where::Emulated, "{name}: {:?}", node.backend);
    }
    let mut session = model.session().unwrap();
    for (port, argument) in operator.signature.inputs.iter().zip(&arguments.inputs) {
        if let (Argument::Tensor(tensor), false) = (argument, port.is_static) {
            session.set_input(&port.name, &input_tensor(name, tensor)).unwrap();
        }
    }
    if let Err(error) = session.run() {
        return Some(Outcome::Wrong(format!("{error}\n{text}")));
    }
    let mut found = operator.signature.outputs.iter().zip(&wanted).map(|(port, wanted)| {
        let name_of = &port.name;
        let values: Vec<f64> = match (port.class, integers(name)) {
            (Class::Int, DType::I64) => {
                as_each(session.output::<i64>(name_of).unwrap(), |value| value as f64)
            }
            (Class::Int, _) => as_each(session.output::<i32>(name_of).unwrap(), f64::from),
            (Class::Bool, _) => as_each(session.output::<Bool>(name_of).unwrap(), |value| {
                f64::from(u8::from(value.get()))
            }),
            (Class::Float, _) => as_each(session.output::<f32>(name_of).unwrap(), f64::from),
        };
        first_mismatch(&values, wanted)
    });
    Some(match found.find_map(|found| found) {
        Some(what) => Outcome::Wrong(format!("{what}\n{text}")),
        None => Outcome::Right,
    })
}

/// An input of an operator as a run gets it.
fn input_tensor(name: &str, tensor: &Tensor) -> memory::Tensor {
    let shape = Shape::new(&tensor.dims).unwrap();
    let numbers = reals(tensor);
    let given = match (&tensor.elements, integers(name)) {
        (Elements::Int(values), DType::I64) => memory::Tensor::from_slice(shape, values),
        (Elements::Int(_), _) => {
            memory::Tensor::from_slice(shape, &as_each(&numbers, |n| n as i32))
        }
        (Elements::Bool(_), _) => {
            memory::Tensor::from_slice(shape, &as_each(&numbers, |n| Bool::from(n != 0.0)))
        }
        (Elements::Float(_), _) => {
            memory::Tensor::from_slice(shape, &as_each(&numbers, |n| n as f32))
        }
    };
    given.unwrap()
}

fn as_each<T: Copy, U>(values: &[T], turned: impl Fn(T) -> U) -> Vec<U> {
    values.iter().map(|value| turned(*value)).collect()
}

/// The first element that is too far off.
fn first_mismatch(values: &[f64], wanted: &Evaluated) -> Option<String> {
    let numbers = reals(&wanted.tensor);
    if values.len() != numbers.len() {
        return Some(format!("{} elements, expected {}", values.len(), numbers.len()));
    }
    let mut each = values.iter().zip(&numbers).zip(&wanted.allowed).enumerate();
    let found = each.find(|(_, ((found, wanted), allowed))| {
        let is_near = (*found - *wanted).abs() <= **allowed
            || found == wanted
            || found.is_nan() && wanted.is_nan();
        !is_near
    });
    found.map(|(at, ((found, wanted), allowed))| {
        format!("element {at} is {found}, expected {wanted} +- {allowed}")
    })
}

/// Has real numbers of inputs be those that bytes hold, and says which; nothing where some are not finite.
fn to_bytes(arguments: &mut Arguments) -> Option<Vec<Option<Bytes>>> {
    let mut codes = Vec::new();
    for argument in &mut arguments.inputs {
        let Argument::Tensor(Tensor { elements: Elements::Float(values), .. }) = argument else {
            codes.push(None);
            continue;
        };
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let bytes = Bytes::covering(values);
        for value in values.iter_mut() {
            *value = bytes.nearest(*value);
        }
        codes.push(Some(bytes));
    }
    Some(codes)
}

/// The case as a model in text, with quantized tensors where there are encodings.
fn model(
    name: &str,
    operator: &Operator,
    arguments: &Arguments,
    [inputs, outputs]: &[Vec<Option<Bytes>>; 2],
) -> String {
    let signature = &operator.signature;
    let (mut text, mut nodes, mut read) = ("graph sweep\n".to_owned(), String::new(), Vec::new());
    let quantized = |nodes: &mut String, text: &mut String, [from, to]: [&str; 2], bytes: Bytes| {
        let Bytes { scale, zero_point } = bytes;
        let _ = write!(
            text,
            "  constant s_{to}: f32[]{{{scale:?}}}\n  constant z_{to}: u8[]{{{zero_point}}}\n"
        );
        let _ = write!(
            nodes,
            "  q_{to} = QuantizeLinear@17({from}, s_{to}, z_{to})\n  {to} = DequantizeLinear@17(q_{to}, s_{to}, z_{to})\n"
        );
    };
    for (at, (port, argument)) in signature.inputs.iter().zip(&arguments.inputs).enumerate() {
        let Argument::Tensor(tensor) = argument else {
            read.push("_".to_owned());
            continue;
        };
        let of = match port.class {
            Class::Int => integers(name),
            Class::Bool => DType::Bool,
            Class::Float => DType::F32,
        };
        let dims = format!("{:?}", tensor.dims).replace(' ', "");
        let kind = if port.is_static { "constant" } else { "input" };
        let values = if port.is_static {
            let values: Vec<String> = reals(tensor).iter().map(ToString::to_string).collect();
            format!("{{{}}}", values.join(", "))
        } else {
            String::new()
        };
        let _ = writeln!(text, "  {kind} {}: {of}{dims}{values}", port.name);
        match inputs.get(at).copied().flatten() {
            Some(bytes) => {
                let to = format!("r_{}", port.name);
                quantized(&mut nodes, &mut text, [&port.name, &to], bytes);
                read.push(to);
            }
            None => read.push(port.name.clone()),
        }
    }
    while read.last().is_some_and(|name| name == "_") {
        read.pop();
    }
    let made = signature.outputs.iter().enumerate().map(|(at, port)| match outputs.get(at) {
        Some(Some(_)) => format!("m_{}", port.name),
        _ => port.name.clone(),
    });
    let made: Vec<String> = made.collect();
    let attributes = attributes(operator, arguments);
    let _ = writeln!(
        nodes,
        "  {} = {}@1({}){attributes}",
        made.join(", "),
        type_name(name),
        read.join(", ")
    );
    for ((at, port), made) in signature.outputs.iter().enumerate().zip(&made) {
        if let Some(bytes) = outputs.get(at).copied().flatten() {
            quantized(&mut nodes, &mut text, [made, &port.name], bytes);
        }
    }
    let names: Vec<&str> = signature.outputs.iter().map(|port| port.name.as_str()).collect();
    format!("{text}{nodes}  output {}\n", names.join(", "))
}

/// The parameters that a case gives, behind the node.
fn attributes(operator: &Operator, arguments: &Arguments) -> String {
    let attributes =
        operator.signature.params.iter().zip(&arguments.params).filter_map(|(param, value)| {
            let said = match value.as_ref()? {
                Value::Float(value) => format!("{value:?}"),
                Value::Int(value) => value.to_string(),
                Value::Bool(value) => i32::from(*value).to_string(),
                Value::Text(text) => format!("{text:?}"),
                Value::Tensor(tensor) => match &tensor.elements {
                    Elements::Float(values) => format!("{values:?}").replace(' ', ""),
                    _ => {
                        format!("{:?}", reals(tensor).iter().map(|v| *v as i64).collect::<Vec<_>>())
                            .replace(' ', "")
                    }
                },
            };
            Some(format!(" {}={said}", param.name))
        });
    attributes.collect::<Vec<_>>().concat()
}
