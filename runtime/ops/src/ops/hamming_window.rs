//! The window of Hamming, whose ends are above 0.

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
