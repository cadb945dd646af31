//! The Blackman window: `0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)`.
//!
//! `window` builds the operator from `weight`, whose `angle` is `2 pi n / N` for element `n`.

use crate::Def;
use crate::family::signal::window::{Window, window};

pub(crate) const DEF: Def = window::<BlackmanWindow>();

struct BlackmanWindow;

impl Window for BlackmanWindow {
    const NAME: &'static str = "BlackmanWindow";

    fn weight(angle: f64) -> f64 {
        0.42 - 0.5 * angle.cos() + 0.08 * (2.0 * angle).cos()
    }
}
