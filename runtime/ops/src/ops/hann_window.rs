//! The Hann window: `1/2 - 1/2 cos(2 pi n / N)`.
//!
//! `window` builds the operator from `weight`, whose `angle` is `2 pi n / N` for element `n`.

use crate::Def;
use crate::family::signal::window::{Window, window};

pub(crate) const DEF: Def = window::<HannWindow>();

struct HannWindow;

impl Window for HannWindow {
    const NAME: &'static str = "HannWindow";

    fn weight(angle: f64) -> f64 {
        0.5 - 0.5 * angle.cos()
    }
}
