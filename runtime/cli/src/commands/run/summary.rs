//! Tensors in a few numbers, for the eye.

use udo_runtime::Tensor;

use crate::values;

/// A tensor in a few numbers.
pub(super) struct Summary {
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) mean: Option<f64>,
    first: Vec<f64>,
    /// Whether there are more than those.
    is_cut: bool,
}

impl Summary {
    pub(super) fn of(tensor: &Tensor) -> Self {
        let numbers = values::numbers(tensor);
        #[expect(clippy::cast_precision_loss, reason = "a mean for the eye")]
        let mean =
            (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
        Self {
            min: numbers.iter().copied().reduce(f64::min),
            max: numbers.iter().copied().reduce(f64::max),
            mean,
            first: numbers.iter().copied().take(5).collect(),
            is_cut: numbers.len() > 5,
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Some(min), Some(max), Some(mean)) = (self.min, self.max, self.mean) else {
            return f.write_str("empty");
        };
        write!(f, "min {} max {} mean {} [", Short(min), Short(max), Short(mean))?;
        for (i, &v) in self.first.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, Short(v))?;
        }
        f.write_str(if self.is_cut { ", ..]" } else { "]" })
    }
}

/// A number in few characters: very large and very small ones with an exponent.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && !(1e-4..1e7).contains(&size) {
            write!(f, "{:.6e}", self.0)
        } else {
            write!(f, "{:.6}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_lists_say_that_they_are_cut() {
        let shape = udo_api::Shape::new(&[2]).unwrap();
        let tensor = Tensor::from_slice::<f32>(shape, &[2.5, 4e30]).unwrap();
        let text = Summary::of(&tensor).to_string();
        assert!(text.starts_with("min 2.500000 max 4.000000e30 mean 2.000000e30 [2.5"), "{text}");
        assert!(!text.contains(".."), "{text}");
        assert!(
            Summary::of(
                &Tensor::zeros(udo_api::DType::I64, udo_api::Shape::new(&[6]).unwrap()).unwrap()
            )
            .is_cut
        );
    }
}
