//! Fuses layer normalization (arXiv:1607.06450): y = d / sqrt(mean(d * d) + epsilon) * scale + bias, with d = x -
//! mean(x), -> LayerNormalization(x, scale, bias).

use udo_api::Shape;

use crate::pass::{Candidate, Operand, Replacement};
use udo_graph::graph::{Attr, ValueId};
use udo_graph::memory::Tensor;

use super::rows::{Squares, row, vector};

/// Returns the normalization whose last step is this node.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<Replacement> {
    match node.op()? {
        "Add" => Candidate::either(|scaled, bias| {
            let (rows, scale) = Rows::scaled(&node.made_by(scaled, "Mul")?)?;
            let bias = vector(node, bias, &rows.dims)?;
            Some(rows.replacement(scale, Some(bias)))
        }),
        "Mul" => {
            let (rows, scale) = Rows::scaled(node)?;
            Some(rows.replacement(scale, None))
        }
        "Div" => {
            let rows = Rows::normalized(node)?;
            let ones = vec![1.0_f32; rows.dims.iter().product()];
            let scale = Tensor::from_slice(Shape::new(&rows.dims).ok()?, &ones).ok()?;
            Some(rows.replacement(Operand::Constant(scale), None))
        }
        _ => None,
    }
}

/// A matched normalization of rows, before its scale and bias.
struct Rows {
    x: ValueId,
    /// The extents of a row, which are the last ones.
    dims: Vec<usize>,
    epsilon: f32,
}

impl Rows {
    /// Matches normalized rows times a constant.
    fn scaled(node: &Candidate<'_>) -> Option<(Self, Operand)> {
        Candidate::either(|rows, scale| {
            let rows = Self::normalized(&node.made_by(rows, "Div")?)?;
            let scale = vector(node, scale, &rows.dims)?;
            Some((rows, scale))
        })
    }

    /// Matches `d / sqrt(mean(d * d) + epsilon)`.
    fn normalized(node: &Candidate<'_>) -> Option<Self> {
        let d = node.input_id(0)?;
        let difference = node.made_by(0, "Sub")?;
        let x = difference.input_id(0)?;
        let mean = difference.made_by(1, "ReduceMean")?;
        let root = node.made_by(1, "Sqrt")?;
        let Squares { squared, dims, epsilon } = Squares::mean(&root)?;
        let is_same = squared == d && mean.input_id(0) == Some(x) && row(&mean)? == dims;
        is_same.then_some(Self { x, dims, epsilon })
    }

    fn replacement(self, scale: Operand, bias: Option<Operand>) -> Replacement {
        let axis = -i64::try_from(self.dims.len()).unwrap_or(1);
        let inputs = [Operand::Value(self.x), scale].into_iter().chain(bias);
        Replacement {
            attrs: vec![
                ("axis", Attr::Int(axis)),
                ("epsilon", Attr::Float(f64::from(self.epsilon))),
            ],
            ..Replacement::new("", "LayerNormalization", inputs.collect())
        }
    }
}
