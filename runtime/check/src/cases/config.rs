//! Compares the built package with its config.

use udo_api::{Core, DType, Layout, OpSchema, ParamKind, Port, Quantization, TypeSet, types};
use udo_generator::config::{self, DataType, DefaultValue, Family, Op, Tensor};

use super::{Finding, Outcome, binary::open, chain, failed, not_applicable, skipped};
use crate::context::PackageContext;
use crate::subject::{Opened, full_name};

pub(super) fn as_built(cx: &PackageContext) -> Outcome {
    let Some(folder) = cx.folder() else {
        return not_applicable("built-in operators have no config");
    };
    let mut opened = open(cx)?;
    let name = opened.package.map(|id| opened.registry.package_name(id).to_owned());
    let config = crate::config::read(&folder, &name.unwrap_or_default());
    let config = match config {
        Ok(Some(config)) => config,
        Ok(None) => return skipped("the package's folder does not have its config"),
        Err(fault) => return failed(format!("the config cannot be read: {fault}")),
    };
    for op in &config.ops {
        built_as_said(&mut opened, op)?;
    }
    let is_said = |op: &&udo_api::OpDef| config.ops.iter().any(|of| of.name == op.schema().name());
    match opened.ops().find(|op| !is_said(op)) {
        Some(op) => failed(format!("operator {} is not in the config", op.schema().name())),
        None => Ok(()),
    }
}

fn built_as_said(opened: &mut Opened, op: &Op) -> Outcome {
    let name = &op.name;
    let Some(def) = opened.ops().find(|def| def.schema().name() == name) else {
        return failed(format!("the config has operator {name}, and the package does not"));
    };
    let schema = def.schema();
    for (what, said, built) in [
        ("inputs", describe(&op.inputs), built(schema.inputs())),
        ("outputs", describe(&op.outputs), built(schema.outputs())),
        ("parameters", config_params(op), built_params(schema)),
    ] {
        if said != built {
            return failed(format!(
                "{name} has {what} {said:?} in the config and {built:?} in the package"
            ));
        }
    }
    for &own in &op.cores {
        let core = match own {
            config::Core::Cpu => Core::CPU,
            config::Core::Gpu => Core::GPU,
            config::Core::Dsp(arch) => Core::dsp(arch),
        };
        let subject = opened.subject(&full_name(def), core);
        let subject = subject.map_err(|error| Finding::Failed(chain(&error)))?;
        if subject.is_none_or(|subject| subject.kernels.is_empty()) {
            return failed(format!(
                "the config declares {name} on {own}, and the package has no kernel for it"
            ));
        }
        let sides = [(&op.inputs, schema.inputs()), (&op.outputs, schema.outputs())];
        for (tensor, port) in sides.iter().flat_map(|(said, built)| said.iter().zip(*built)) {
            let Some(dtype) = tensor.type_on(own).and_then(dtype) else { continue };
            let (said, built) = (types_on(own, dtype), port.types_on(core));
            if built != said {
                return failed(format!(
                    "{} of {name} is {said} on {own} in the config and {built} in the package",
                    tensor.name
                ));
            }
        }
    }
    Ok(())
}

/// Describes a port or parameter in the same words for the config and for the built package.
fn words(name: &str, marks: &[(bool, &str)]) -> String {
    let marks = marks.iter().filter(|(holds, _)| *holds).map(|(_, mark)| format!(" {mark}"));
    std::iter::once(name.to_owned()).chain(marks).collect()
}

fn describe(tensors: &[Tensor]) -> Vec<String> {
    let said = |of: &Tensor| {
        let is_empty = matches!(&of.default, Some(DefaultValue::List(values)) if values.is_empty());
        let is_quantized = of.quantization.is_some()
            || of.types.iter().any(|own| own.dtype.family() == Family::Fixed);
        let marks = [
            (of.is_optional && of.default.is_none() || is_empty, "optional"),
            (of.is_static, "static"),
            (of.repeated, "repeated"),
            (of.layout == Some(config::Layout::Nhwc), "NHWC"),
            (of.layout == Some(config::Layout::Nchw), "NCHW"),
            (is_quantized, "TF"),
        ];
        words(&of.name, &marks)
    };
    tensors.iter().map(said).collect()
}

fn built(ports: &[Port]) -> Vec<String> {
    let built = |of: &Port| {
        let has_default = !matches!(of.default_value(), udo_api::ValueKind::None);
        let marks = [
            (of.is_optional() && !has_default, "optional"),
            (of.wants_constant(), "static"),
            (of.is_repeated(), "repeated"),
            (of.rank4_layout() == Layout::Nhwc, "NHWC"),
            (of.rank4_layout() == Layout::Nchw, "NCHW"),
            (of.quantization_mode() == Quantization::Tf, "TF"),
        ];
        words(of.name(), &marks)
    };
    ports.iter().map(built).collect()
}

/// A described parameter: its name, its type, its attribute's name, and whether it is optional.
type ParamText<'a> = (&'a str, String, Option<&'a str>, bool);

/// Sorts descriptions of parameters, since their order has no meaning.
fn params<'a>(all: impl Iterator<Item = ParamText<'a>>) -> Vec<String> {
    let words = all.map(|(name, holds, attribute, is_optional)| {
        let attribute = attribute.filter(|attribute| *attribute != name);
        let marks = [
            (true, holds.as_str()),
            (attribute.is_some(), attribute.unwrap_or_default()),
            (is_optional, "optional"),
        ];
        words(name, &marks)
    });
    let mut words: Vec<String> = words.collect();
    words.sort();
    words
}

fn config_params(op: &Op) -> Vec<String> {
    let scalars = op.scalar_params.iter().map(|of| {
        let is_optional = of.is_optional || of.default.is_some();
        (of.name.as_str(), element(dtype(of.dtype)), of.attribute.as_deref(), is_optional)
    });
    let tensors = op.tensor_params.iter().map(|of| {
        let is_optional = of.is_optional || of.default.is_some();
        let first = of.types.first().map_or(DataType::Float32, |own| own.dtype);
        let holds = format!("list of {}", element(dtype(first)));
        (of.name.as_str(), holds, of.attribute.as_deref(), is_optional)
    });
    params(scalars.chain(tensors))
}

fn built_params(schema: &OpSchema) -> Vec<String> {
    params(schema.params().iter().map(|of| {
        let element = element(of.dtype());
        let holds = match of.kind() {
            Some(ParamKind::Scalar | ParamKind::Text) => element,
            Some(ParamKind::Tensor | ParamKind::Texts) => format!("list of {element}"),
            Some(ParamKind::TypedTensor) => "tensor".to_owned(),
            Some(ParamKind::Graph) => "graph".to_owned(),
            None => "unknown".to_owned(),
        };
        (of.name(), holds, Some(of.attribute_name()), of.is_optional())
    }))
}

/// Describes the element type of a parameter.
fn element(dtype: Option<DType>) -> String {
    let number = dtype.filter(|dtype| *dtype != DType::Str);
    number.map_or_else(|| "text".to_owned(), |dtype| dtype.to_string())
}

/// Returns the types of a port on a core: GPU kernels take f16 and f32.
fn types_on(core: config::Core, dtype: DType) -> TypeSet {
    match (core, dtype) {
        (config::Core::Gpu, DType::F16 | DType::F32) => types::F32.or(types::F16),
        _ => dtype.set(),
    }
}

/// Returns the stored type of elements.
fn dtype(of: DataType) -> Option<DType> {
    Some(match of {
        DataType::Float16 => DType::F16,
        DataType::Float32 => DType::F32,
        DataType::Fixed4 | DataType::Fixed8 | DataType::Uint8 => DType::U8,
        DataType::Fixed16 | DataType::Uint16 => DType::U16,
        DataType::Fixed32 | DataType::Int32 => DType::I32,
        DataType::Uint32 => DType::U32,
        DataType::Int8 => DType::I8,
        DataType::Int16 => DType::I16,
        DataType::Int64 => DType::I64,
        DataType::Bool8 => DType::Bool,
        DataType::String => return None,
    })
}
