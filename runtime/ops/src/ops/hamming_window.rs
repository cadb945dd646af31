//! The Hamming window: `25/46 - 21/46 cos(2 pi n / N)`.
//!
//! `window` builds the operator from `weight`, whose `angle` is `2 pi n / N` for element `n`.

use crate::Def;
use crate::family::signal::window::{Window, window};

pub(crate) const DEF: Def = window::<HammingWindow>();

struct HammingWindow;

impl Window for HammingWindow {
    const NAME: &'static str = "HammingWindow";

    fn weight(angle: f64) -> f64 {
        25.0 / 46.0 - 21.0 / 46.0 * angle.cos()
    }
}
