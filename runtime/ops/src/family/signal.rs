//! Signal processing: windows and Fourier transforms.

pub(crate) mod transform;
pub(crate) mod window;

pub(crate) use transform::{Line, Transform, TransformSpec};
