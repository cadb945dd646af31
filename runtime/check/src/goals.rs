//! Features of an operator that some tested node must have: each optional input and output present, each string that a
//! parameter is compared with, and two values of each other parameter.

use udo_api::{DType, OpDef, Param, ParamKind, Port};
use udo_generator::Pattern;
use udo_host::ParamSetting;

use crate::node::{Node, describe_setting};
use crate::params::{Params, WIDE};
use crate::ties;
use crate::values::Random;

/// A feature that no node has yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Goal {
    /// An optional input.
    Input(usize),
    /// An optional output.
    Output(usize),
    /// A parameter, and the only setting of it that nodes have.
    Other(usize, ParamSetting),
    /// A parameter and a string.
    Word(usize, String),
    /// An input of several elements whose dimensions differ from the first one's.
    Extents(usize),
    /// A parameter below 0.
    Negative(usize),
}

impl Goal {
    /// Returns the features that `nodes` lack.
    pub(crate) fn open(op: &OpDef, nodes: &[Node], words: &[String]) -> Vec<Self> {
        let schema = op.schema();
        let inputs = schema.inputs().iter().enumerate();
        let optional = inputs.filter(|(_, port)| port.is_optional());
        let inputs = optional.map(|(at, _)| Self::Input(at));
        let outputs = schema.outputs().iter().enumerate();
        let outputs = outputs.filter(|(_, port)| port.is_optional());
        let outputs = outputs.map(|(at, _)| Self::Output(at));
        let params = schema.params().iter().enumerate().flat_map(|(at, param)| {
            let only = nodes.first().and_then(|node| node.params.get(at));
            match (param.kind(), only) {
                (Some(ParamKind::Text), _) if !words.is_empty() => {
                    words.iter().map(|word| Self::Word(at, word.clone())).collect()
                }
                (Some(ParamKind::Graph) | None, _) | (_, None) => Vec::new(),
                (Some(_), Some((_, only))) => vec![Self::Other(at, only.clone())],
            }
        });
        let extents = (1..schema.inputs().len()).map(Self::Extents);
        let is_scalar = |(_, param): &(usize, &Param)| param.kind() == Some(ParamKind::Scalar);
        let scalars = schema.params().iter().enumerate().filter(is_scalar);
        let negative = scalars.map(|(at, _)| Self::Negative(at));
        let all = inputs.chain(outputs).chain(params).chain(extents).chain(negative);
        all.filter(|goal| !nodes.iter().any(|node| goal.is_met(node))).collect()
    }

    pub(crate) fn is_met(&self, node: &Node) -> bool {
        match self {
            Self::Input(at) => node.inputs.get(*at).is_some_and(|input| !input.desc.is_absent()),
            Self::Output(at) => node.outputs.get(*at).is_some_and(|output| !output.is_absent()),
            Self::Other(at, only) => node.params.get(*at).is_some_and(|(_, own)| own != only),
            Self::Word(at, word) => {
                let own = node.params.get(*at).map(|(_, own)| own);
                matches!(own, Some(ParamSetting::Text(own)) if own == word)
            }
            Self::Extents(at) => {
                node.inputs.get(*at).zip(node.inputs.first()).is_some_and(|(own, first)| {
                    !own.desc.is_absent()
                        && own.dims != first.dims
                        && own.dims.iter().product::<usize>() > 1
                })
            }
            Self::Negative(at) => match node.params.get(*at) {
                Some((_, ParamSetting::Int(own))) => *own < 0,
                Some((_, ParamSetting::Float(own))) => *own < 0.0,
                _ => false,
            },
        }
    }

    /// Whether every operator has to accept a node with the feature.
    pub(crate) const fn is_required(&self) -> bool {
        !matches!(self, Self::Extents(_) | Self::Negative(_))
    }

    /// Whether some node may have the feature.
    pub(crate) fn is_possible(&self, op: &OpDef, words: &[String]) -> bool {
        match self {
            Self::Input(_) | Self::Output(_) | Self::Word(..) | Self::Extents(_) => true,
            Self::Negative(at) => {
                let dtype = op.schema().params().get(*at).and_then(Param::dtype);
                let is_signed =
                    |dtype| matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
                dtype.is_some_and(|dtype| dtype.is_float() || is_signed(dtype))
            }
            Self::Other(at, _) => match op.schema().params().get(*at).and_then(Param::kind) {
                Some(ParamKind::Scalar | ParamKind::Tensor) => true,
                Some(ParamKind::Text) => !words.is_empty(),
                _ => false,
            },
        }
    }

    /// Describes the feature in a message.
    pub(crate) fn describe(&self, op: &OpDef) -> String {
        let schema = op.schema();
        let param = |at: &usize| schema.params().get(*at).map_or("?", Param::name);
        let port =
            |ports: &[Port], at: &usize| format!("{:?}", ports.get(*at).map_or("?", Port::name));
        match self {
            Self::Input(at) => format!("input {}", port(schema.inputs(), at)),
            Self::Output(at) => format!("output {}", port(schema.outputs(), at)),
            Self::Other(at, only) => {
                format!("{:?} other than {}", param(at), describe_setting(only))
            }
            Self::Word(at, word) => format!("{:?} = {word:?}", param(at)),
            Self::Extents(at) => format!("other dimensions of input {}", port(schema.inputs(), at)),
            Self::Negative(at) => format!("{:?} below 0", param(at)),
        }
    }
}

/// A candidate node: its dimensions, its parameters and the optional inputs that it leaves out.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) pattern: Pattern,
    pub(crate) params: Params,
    pub(crate) has_constants: bool,
    /// One bit per input.
    pub(crate) left_out: u32,
    pub(crate) has_all_outputs: bool,
}

/// Draws a candidate with the feature. Some of its parameters come from `first`.
pub(crate) fn draw(
    op: &OpDef,
    first: &Params,
    words: &[String],
    goal: Option<&Goal>,
    random: &mut Random,
) -> Draw {
    let schema = op.schema();
    let pattern = ties::draw(schema.inputs().len(), random);
    let mut params = first.clone();
    let every = if goal.is_some() { 4 } else { 2 };
    for (slot, param) in params.iter_mut().zip(schema.params()) {
        if random.below(every) == 0
            && let Some(other) = any(param, words, random)
        {
            slot.1 = other;
        }
    }
    let mut left_out = if random.below(2) == 0 { u32::MAX } else { 0 };
    if goal.is_none() && random.below(2) == 0 {
        left_out = u32::try_from(random.below(1 << 31)).unwrap_or(0);
    }
    let setting = match goal {
        Some(Goal::Input(_)) => {
            left_out = 0;
            None
        }
        Some(Goal::Extents(at)) => {
            left_out &= !(1 << (*at).min(31));
            None
        }
        Some(Goal::Negative(at)) => {
            let is_float =
                schema.params().get(*at).and_then(Param::dtype).is_some_and(DType::is_float);
            let few = random.below(3);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let float = ParamSetting::Float(-0.5 * (few + 1) as f64);
            let int = ParamSetting::Int(-1 - i64::try_from(few).unwrap_or(0));
            Some((*at, if is_float { float } else { int }))
        }
        Some(Goal::Output(_)) | None => None,
        Some(Goal::Other(at, _)) => {
            schema.params().get(*at).and_then(|param| Some((*at, any(param, words, random)?)))
        }
        Some(Goal::Word(at, word)) => Some((*at, ParamSetting::Text(word.clone()))),
    };
    if let Some((at, setting)) = setting
        && let Some(slot) = params.get_mut(at)
    {
        slot.1 = setting;
    }
    let has_constants = random.below(2) == 1;
    let may_lack = schema.outputs().iter().any(Port::is_optional);
    let is_goal = matches!(goal, Some(Goal::Output(_)));
    let has_all_outputs = is_goal || may_lack && random.below(2) == 1;
    Draw { pattern, params, has_constants, left_out, has_all_outputs }
}

/// Returns the parts of a node other than dimensions: its parameters, the inputs present and the number of outputs.
pub(crate) fn features(node: &Node) -> (Params, Vec<bool>, usize) {
    let inputs = node.inputs.iter().map(|input| !input.desc.is_absent());
    (node.params.clone(), inputs.collect(), node.outputs.len())
}

/// Draws a value of a parameter; `None` for kinds without values to draw.
fn any(param: &Param, words: &[String], random: &mut Random) -> Option<ParamSetting> {
    const INTS: [i64; 10] = [2, 3, 0, 1, -1, 4, 2, -2, 5, WIDE];
    const FLOATS: [f64; 6] = [0.5, 2.0, -1.0, 0.125, 3000.0, 0.0];
    let mut below = |end: usize| usize::try_from(random.below(end as u64)).unwrap_or(0);
    let is_float = param.dtype().is_some_and(DType::is_float);
    let wide = param.dtype() == Some(DType::I64);
    let ints = if wide { INTS.len() } else { INTS.len() - 1 };
    match param.kind() {
        Some(ParamKind::Scalar) if is_float => {
            FLOATS.get(below(FLOATS.len())).copied().map(ParamSetting::Float)
        }
        Some(ParamKind::Scalar) if param.dtype() == Some(DType::Bool) => {
            Some(ParamSetting::Int(i64::from(below(2) == 1)))
        }
        Some(ParamKind::Scalar) => INTS.get(below(ints)).copied().map(ParamSetting::Int),
        Some(ParamKind::Tensor) => {
            // Long lists are rare.
            let len = if below(4) == 0 { 5 + below(12) } else { 1 + below(4) };
            let is_sorted = below(3) == 0;
            // All elements are often equal, as in lists with one entry per axis.
            let (first, is_alike) = (below(5), below(2) == 1);
            let ints = (0..len).map(|_| if is_alike { first } else { below(4) });
            let mut ints: Vec<i64> = ints.filter_map(|int| INTS.get(int).copied()).collect();
            if is_sorted {
                // Increasing values, so that no two are equal.
                ints = (-2..).take(len).collect();
            }
            if let (true, Some(first)) = (wide && below(4) == 0, ints.first_mut()) {
                *first = WIDE;
            }
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let float = |int: &i64| *int as f64 / 2.0;
            Some(if is_float {
                ParamSetting::Floats(ints.iter().map(float).collect())
            } else {
                ParamSetting::Ints(ints)
            })
        }
        Some(ParamKind::Text) => words.get(below(words.len())).cloned().map(ParamSetting::Text),
        _ => None,
    }
}
