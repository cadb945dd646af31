//! A node's parameters: checked against the schema, with defaults filled in.

use udo_api::{DType, Layout, OpSchema, Param, ParamKind};
use udo_host::{ParamSetting, TensorSetting};

use udo_graph::graph::{Attr, Node};
use udo_graph::memory::TensorStorage;

/// The parameters of a node, in the order of its schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    settings: Vec<(&'static str, ParamSetting)>,
}

impl Params {
    /// Returns the parameters with `axis`, an axis of a rank-4 tensor, translated to `layout`; `None` if the tensor has
    /// no such axis.
    pub(crate) fn in_layout(&self, layout: Layout) -> Option<Self> {
        let mut params = self.clone();
        let axis = params.settings.iter_mut().find(|(name, _)| *name == "axis");
        let (_, ParamSetting::Int(axis)) = axis? else { return None };
        let from_begin =
            usize::try_from(if *axis < 0 { axis.checked_add(4)? } else { *axis }).ok()?;
        *axis = i64::try_from(layout.axis(from_begin)?).ok()?;
        Some(params)
    }

    /// Returns the parameters with other integers for a list parameter; `None` if the schema has no such parameter.
    pub(crate) fn with_ints(&self, name: &str, ints: Vec<i64>) -> Option<Self> {
        let mut params = self.clone();
        let (_, setting) = params.settings.iter_mut().find(|(known, _)| *known == name)?;
        *setting = ParamSetting::Ints(ints);
        Some(params)
    }

    /// Returns the name and value of each parameter.
    pub fn settings(&self) -> &[(&'static str, ParamSetting)] {
        &self.settings
    }

    /// Reads the attributes of `node` according to `schema`.
    ///
    /// # Errors
    /// An attribute is unknown, missing or of another kind.
    pub fn from_node(node: &Node, schema: &OpSchema) -> Result<Self, String> {
        let known = || schema.params().iter().map(Param::attribute_name);
        for (name, _) in &node.attrs {
            if !known().any(|known| known == name) {
                let known: Vec<&str> = known().collect();
                return Err(format!(
                    "attribute {name:?} is not a parameter of operator {}, which has {}",
                    schema.name(),
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                ));
            }
        }
        let settings = schema.params().iter().map(|param| {
            let stated = node.attrs.iter().find(|(name, _)| name == param.attribute_name());
            let setting = match stated {
                Some((_, attr)) => in_range(param, convert(param, attr)?)?,
                None if param.is_optional() => ParamSetting::default_of(param),
                None => {
                    return Err(format!(
                        "attribute {:?} is missing, and it has no default",
                        param.attribute_name()
                    ));
                }
            };
            Ok((param.name(), setting))
        });
        Ok(Self { settings: settings.collect::<Result<_, String>>()? })
    }
}

/// Returns the setting if its integers are in the range of the parameter's type.
fn in_range(param: &Param, setting: ParamSetting) -> Result<ParamSetting, String> {
    let limits = |dtype: DType| Some((dtype, int_range(dtype)?));
    let Some((dtype, [min, max])) = param.dtype().and_then(limits) else {
        return Ok(setting);
    };
    let integers = match &setting {
        ParamSetting::Int(int) => std::slice::from_ref(int),
        ParamSetting::Ints(ints) => ints.as_slice(),
        _ => &[],
    };
    match integers.iter().find(|int| !(min..=max).contains(*int)) {
        None => Ok(setting),
        Some(int) => Err(format!(
            "attribute {:?} has {int}, expected {dtype}: {min} to {max}",
            param.attribute_name()
        )),
    }
}

/// Returns the range of a type that cannot represent every integer attribute.
fn int_range(dtype: DType) -> Option<[i64; 2]> {
    match dtype {
        DType::U8 => Some([0, u8::MAX.into()]),
        DType::U16 => Some([0, u16::MAX.into()]),
        DType::U32 => Some([0, u32::MAX.into()]),
        DType::I8 => Some([i8::MIN.into(), i8::MAX.into()]),
        DType::I16 => Some([i16::MIN.into(), i16::MAX.into()]),
        DType::I32 => Some([i32::MIN.into(), i32::MAX.into()]),
        _ => None,
    }
}

/// Converts an attribute to the setting of a parameter.
fn convert(param: &Param, attr: &Attr) -> Result<ParamSetting, String> {
    let wants_float = param.dtype().is_some_and(DType::is_float);
    let setting = match (param.kind(), attr) {
        (Some(ParamKind::Texts), Attr::Texts(texts)) => Some(ParamSetting::Texts(texts.clone())),
        // The text format does not distinguish empty lists of different kinds.
        (Some(ParamKind::Texts), Attr::Ints(ints)) if ints.is_empty() => {
            Some(ParamSetting::Texts(Vec::new()))
        }
        (Some(ParamKind::Text), Attr::Text(text)) => Some(ParamSetting::Text(text.clone())),
        (Some(ParamKind::Scalar), Attr::Int(int)) if wants_float => {
            Some(ParamSetting::Float(to_float(*int)))
        }
        (Some(ParamKind::Scalar), Attr::Int(int)) => Some(ParamSetting::Int(*int)),
        (Some(ParamKind::Scalar), Attr::Float(float)) if wants_float => {
            Some(ParamSetting::Float(*float))
        }
        (Some(ParamKind::Tensor), Attr::Ints(ints)) if wants_float => {
            Some(ParamSetting::Floats(ints.iter().map(|&i| to_float(i)).collect()))
        }
        (Some(ParamKind::Tensor), Attr::Ints(ints)) => Some(ParamSetting::Ints(ints.clone())),
        (Some(ParamKind::Tensor), Attr::Floats(floats)) if wants_float => {
            Some(ParamSetting::Floats(floats.clone()))
        }
        (Some(ParamKind::Tensor), Attr::Tensor(tensor)) => {
            match (tensor.get::<i64>(), tensor.get::<f32>()) {
                (Some(ints), _) if !wants_float => Some(ParamSetting::Ints(ints.to_vec())),
                (_, Some(floats)) if wants_float => {
                    Some(ParamSetting::Floats(floats.iter().map(|&f| f64::from(f)).collect()))
                }
                _ => None,
            }
        }
        (Some(ParamKind::TypedTensor), Attr::Tensor(tensor))
            if param.types().has(tensor.dtype()) =>
        {
            let buffer = tensor.buffer().map_err(|e| e.to_string())?;
            TensorSetting::new(*tensor.desc(), buffer).map(ParamSetting::Tensor)
        }
        // The node keeps the graph; kernels do not see it.
        (Some(ParamKind::Graph), Attr::Graph(_)) => Some(ParamSetting::Absent),
        _ => None,
    };
    setting.ok_or_else(|| {
        let expected = match (param.kind(), wants_float) {
            (Some(ParamKind::Text), _) => "text".to_owned(),
            (Some(ParamKind::Texts), _) => "a list of strings".to_owned(),
            (Some(ParamKind::Scalar), true) => "a number".to_owned(),
            (Some(ParamKind::Scalar), false) => "an integer".to_owned(),
            (Some(ParamKind::Tensor), true) => "a list of numbers".to_owned(),
            (Some(ParamKind::Tensor), false) => "a list of integers".to_owned(),
            (Some(ParamKind::TypedTensor), _) => format!("a tensor of {}", param.types()),
            (Some(ParamKind::Graph), _) => "a graph".to_owned(),
            (None, _) => "a kind that this version does not know".to_owned(),
        };
        format!("attribute {:?} is {}, expected {expected}", param.attribute_name(), kind_of(attr))
    })
}

fn kind_of(attr: &Attr) -> String {
    let kind = match attr {
        Attr::Int(_) => "an integer",
        Attr::Float(_) => "a real number",
        Attr::Text(_) => "text",
        Attr::Ints(_) => "a list of integers",
        Attr::Floats(_) => "a list of real numbers",
        Attr::Texts(_) => "a list of strings",
        Attr::Tensor(tensor) => return format!("a tensor of {}", tensor.dtype()),
        Attr::Graph(_) => "a graph",
        Attr::Graphs(_) => "a list of graphs",
    };
    kind.to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "a real parameter written as an integer is small")]
fn to_float(int: i64) -> f64 {
    int as f64
}

#[cfg(test)]
mod tests {
    use udo_api::{Port, types};

    use super::*;
    use udo_graph::graph::Graph;

    const CHOICE: OpSchema = OpSchema::new(
        "Choice",
        &[],
        &[Port::required("y", types::F32)],
        &[Param::graph("body"), Param::graph("other").optional()],
    );

    fn params(attrs: Vec<(String, Attr)>) -> Result<Params, String> {
        Params::from_node(&Node { attrs, ..Node::new("Choice", 1, &[], &[]) }, &CHOICE)
    }

    #[test]
    fn integers_outside_the_parameters_type_are_refused() {
        const NARROW: OpSchema = OpSchema::new(
            "Narrow",
            &[],
            &[Port::required("y", types::F32)],
            &[
                Param::scalar("n", DType::U8).optional(),
                Param::tensor("k", DType::I32).optional(),
                Param::scalar("all", DType::I64).optional(),
            ],
        );
        let set = |name: &str, attr: Attr| {
            let attrs = vec![(name.to_owned(), attr)];
            Params::from_node(&Node { attrs, ..Node::new("Narrow", 1, &[], &[]) }, &NARROW)
                .map(drop)
        };
        assert_eq!(set("n", Attr::Int(255)), Ok(()));
        assert_eq!(set("all", Attr::Int(i64::MIN)), Ok(()));
        assert_eq!(set("k", Attr::Ints(vec![i64::from(i32::MIN), 7])), Ok(()));
        for (name, attr, expected) in [
            ("n", Attr::Int(300), "attribute \"n\" has 300, expected u8: 0 to 255"),
            ("n", Attr::Int(-1), "attribute \"n\" has -1, expected u8: 0 to 255"),
            (
                "k",
                Attr::Ints(vec![1, 1 << 31]),
                "attribute \"k\" has 2147483648, expected i32: -2147483648 to 2147483647",
            ),
        ] {
            assert_eq!(set(name, attr), Err(expected.to_owned()));
        }
    }

    #[test]
    fn graph_parameters_are_absent_for_kernels() {
        let graph = || Attr::Graph(Box::new(Graph::new("g")));
        let absent = [("body", ParamSetting::Absent), ("other", ParamSetting::Absent)];
        let body = || ("body".to_owned(), graph());
        assert_eq!(params(vec![body()]).unwrap().settings(), absent);
        assert_eq!(params(vec![("other".to_owned(), graph()), body()]).unwrap().settings(), absent);

        let missing = "attribute \"body\" is missing, and it has no default";
        assert_eq!(params(vec![("other".to_owned(), graph())]).unwrap_err(), missing);
        let wrong = "attribute \"body\" is an integer, expected a graph";
        assert_eq!(params(vec![("body".to_owned(), Attr::Int(1))]).unwrap_err(), wrong);
        let several = "attribute \"body\" is a list of graphs, expected a graph";
        assert_eq!(params(vec![("body".to_owned(), Attr::Graphs(vec![]))]).unwrap_err(), several);
    }
}
