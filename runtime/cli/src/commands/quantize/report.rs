//! The report of a quantized model: a page that needs nothing besides, with a table that its reader can sort.

use std::fmt::Write;
use std::path::Path;

use udo_runtime::quant::{Calibration, Compared, Encoded, FloatNode, Kind, Quantized, Range};

use crate::page::{Page, escaped};

/// The most bars that a histogram has.
const BARS: usize = 64;

/// Of how many parts bars are put together.
const FINE: usize = 1024;

/// How high and wide a histogram is, in pixels.
const HEIGHT: f64 = 30.0;
const WIDTH: f64 = 128.0;

/// Values with less signal to their noise, in dB, are marked.
const LOW_DECIBELS: f64 = 20.0;

/// The ratio whose bar is full, in dB.
const FULL_DECIBELS: f64 = 60.0;

/// The columns of the values, and whether they have names.
const COLUMNS: &[(&str, bool)] = &[
    ("value", true),
    ("#", false),
    ("kind", true),
    ("type", true),
    ("observed min", false),
    ("observed max", false),
    ("quantized min", false),
    ("quantized max", false),
    ("scale", false),
    ("zero point", false),
    ("SQNR, dB", false),
    ("largest error", false),
    ("histogram", false),
];

/// The contents of the page.
#[derive(Clone, Copy)]
pub(super) struct Report<'a> {
    /// The model that was quantized.
    pub(super) model: &'a Path,
    /// Bytes of its file, and of the one that was made of it.
    pub(super) sizes: [u64; 2],
    pub(super) quantized: &'a Quantized,
    pub(super) calibration: &'a Calibration,
    pub(super) compared: &'a [Compared],
}

impl Report<'_> {
    /// The page.
    pub(super) fn page(self) -> String {
        let name = self.model.file_name().unwrap_or_default().to_string_lossy();
        let title = format!("{name} quantized");
        let mut body = format!("<main>\n<h1>{}</h1>\n", escaped(&title));
        self.tiles(&mut body);
        self.outputs(&mut body);
        self.values(&mut body);
        self.floats(&mut body);
        body.push_str("</main>\n");
        let style = include_str!("report.css");
        Page { title: &title, style, body: &body, script: include_str!("report.js") }.text()
    }

    /// The signal-to-noise ratio of a value, if it was compared, and the largest error of its numbers.
    fn noise(self, of: &Encoded) -> Option<(Option<f64>, f64)> {
        let compared = || self.compared.iter().find(|pair| pair.name == of.name);
        let noise = of.noise.or_else(|| compared().map(|pair| pair.noise))?;
        Some((noise.decibels(), noise.max_error))
    }

    fn tiles(self, body: &mut String) {
        let [before, after] = self.sizes;
        let encoded = &self.quantized.encoded;
        let count = |kind| encoded.iter().filter(|of| of.kind == kind).count();
        let low = encoded.iter().filter(|of| is_low(self.noise(of).and_then(|noise| noise.0)));
        let low = low.count();
        let outputs = self.compared.iter().filter(|of| of.is_output);
        let worst = outputs.clone().filter_map(|of| of.noise.decibels()).min_by(f64::total_cmp);
        let error = outputs.map(|of| of.noise.max_error).fold(0.0, f64::max);
        #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
        let percent = after as f64 / before.max(1) as f64 * 100.0;
        let ratio = worst.map_or_else(|| "exact".to_owned(), |worst| format!("{worst:.1} dB"));
        body.push_str("<dl class=\"tiles\">\n");
        tile(
            body,
            ("File size", false),
            &bytes(after),
            &format!("{percent:.0} % of the float model's {}", bytes(before)),
        );
        let against = format!("against the float model, over {} runs", self.calibration.runs());
        tile(body, ("Lowest SQNR of outputs", is_low(worst)), &ratio, &against);
        tile(body, ("Largest error of outputs", false), &format!("{error:.3e}"), &against);
        let of_all = format!("of {} values and constants", encoded.len());
        tile(body, ("Below 20 dB", low > 0), &low.to_string(), &of_all);
        let [values, weights, biases] = [Kind::Activation, Kind::Weights, Kind::Bias].map(count);
        let constants = format!("{weights} weights, {biases} biases");
        tile(body, ("Quantized", false), &format!("{values} values"), &constants);
        body.push_str("</dl>\n");
    }

    fn outputs(self, body: &mut String) {
        body.push_str(
            "<h2>Outputs</h2>\n<div class=\"scroll\"><table id=\"outputs\"><thead><tr><th class=\"name\">output</th>\
             <th>SQNR, dB</th><th>largest error</th><th>of its range</th></tr></thead><tbody>\n",
        );
        for of in self.compared.iter().filter(|of| of.is_output) {
            let (ratio, error) = (of.noise.decibels(), of.noise.max_error);
            let range = self.calibration.range(&of.name);
            let range = range.filter(|range| range.max > range.min);
            let share = range.map(|Range { min, max }| error / (max - min) * 100.0);
            let _ = writeln!(
                body,
                "<tr{}><th scope=\"row\" class=\"name\">{}</th>{}<td>{error:.3e}</td><td>{}</td></tr>",
                row_class(ratio),
                escaped(&of.name),
                decibels(ratio),
                share.map_or_else(String::new, |share| format!("{share:.2} %"))
            );
        }
        body.push_str("</tbody></table></div>\n");
    }

    fn values(self, body: &mut String) {
        body.push_str(
            "<h2>Values</h2>\n<p>SQNR is the signal-to-quantization-noise ratio against the float model; 6 dB correspond to one bit. Histograms have a \
             logarithmic scale. Values outside the quantized range are shaded.</p>\n\
             <div class=\"filters\"><input type=\"search\" id=\"named\" placeholder=\"Names\" aria-label=\"Show values whose names contain this text\">\
             <label><input type=\"checkbox\" id=\"low\"> only below 20 dB</label>\
             <output id=\"shown\"></output></div>\n\
             <div class=\"scroll\"><table id=\"values\" class=\"sorts\"><thead><tr>",
        );
        for (head, is_name) in COLUMNS {
            let class = if *is_name { " class=\"name\"" } else { "" };
            let _ = write!(body, "<th scope=\"col\"{class}><button>{head}</button></th>");
        }
        body.push_str("</tr></thead><tbody>\n");
        for (at, of) in self.quantized.encoded.iter().enumerate() {
            self.row(body, at, of);
        }
        body.push_str("</tbody></table></div>\n");
    }

    fn row(self, body: &mut String, at: usize, of: &Encoded) {
        let noise = self.noise(of);
        let stored = of.stored_range();
        let what = match of.kind {
            Kind::Activation => "value",
            Kind::Weights => "weights",
            Kind::Bias => "bias",
        };
        let (scale, zero) = match of.encodings.as_slice() {
            [only] => (number(only.scale.into()), format!("<td>{}</td>", only.zero_point)),
            several => (format!("<td data-v=\"\">{} scales</td>", several.len()), EMPTY.to_owned()),
        };
        let name = escaped(&of.name);
        let _ = write!(
            body,
            "<tr{} data-name=\"{name}\"><th scope=\"row\" class=\"name\" title=\"{name}\">{name}</th><td>{}</td>\
             <td class=\"name kind\">{what}</td><td class=\"name\">{}</td>",
            row_class(noise.and_then(|noise| noise.0)),
            at + 1,
            of.levels.dtype.name()
        );
        let range = self.calibration.range(&of.name);
        for bound in [range.map(|range| range.min), range.map(|range| range.max)] {
            body.push_str(&bound.map_or_else(|| EMPTY.to_owned(), number));
        }
        let histogram = self.calibration.histogram(&of.name, FINE).zip(range);
        let _ = writeln!(
            body,
            "{}{}{scale}{zero}{}{}{}</tr>",
            number(stored.min),
            number(stored.max),
            noise.map_or_else(|| EMPTY.to_owned(), |noise| decibels(noise.0)),
            noise.map_or_else(|| EMPTY.to_owned(), |noise| number(noise.1)),
            histogram.map_or_else(
                || EMPTY.to_owned(),
                |(histogram, seen)| bars(histogram, seen, stored)
            )
        );
    }

    fn floats(self, body: &mut String) {
        let nodes = &self.quantized.floats;
        if nodes.is_empty() {
            return;
        }
        body.push_str("<h2>Nodes that compute in floating point</h2>\n<ul id=\"floats\">\n");
        for FloatNode { node, op } in nodes {
            let _ = writeln!(body, "<li>{} ({})</li>", escaped(node), escaped(op));
        }
        body.push_str("</ul>\n");
    }
}

/// A cell with nothing in it.
const EMPTY: &str = "<td></td>";

fn tile(body: &mut String, (head, is_bad): (&str, bool), what: &str, more: &str) {
    let class = if is_bad { " class=\"bad\"" } else { "" };
    let _ = writeln!(body, "<div{class}><dt>{head}</dt><dd>{what}<small>{more}</small></dd></div>");
}

/// A size for the eye: three digits or so, and the unit.
fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let count_f64 = count as f64;
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count_f64 / 1e3),
        _ => format!("{:.1} MB", count_f64 / 1e6),
    }
}

/// A cell with a number: short for the eye, and as it is to sort by.
fn number(number: f64) -> String {
    let size = number.abs();
    let text = if number == 0.0 || (1e-3..1e5).contains(&size) {
        format!("{number:.4}")
    } else {
        format!("{number:.3e}")
    };
    format!("<td data-v=\"{number}\">{text}</td>")
}

fn is_low(ratio: Option<f64>) -> bool {
    ratio.is_some_and(|ratio| ratio < LOW_DECIBELS)
}

fn row_class(ratio: Option<f64>) -> &'static str {
    if is_low(ratio) { " class=\"low\"" } else { "" }
}

/// A cell with a ratio; one without noise sorts above all.
fn decibels(ratio: Option<f64>) -> String {
    let bar =
        |share: f64| format!("<span class=\"bar\"><i style=\"width:{share:.0}%\"></i></span>");
    match ratio {
        None => format!("<td data-v=\"Infinity\">exact{}</td>", bar(100.0)),
        Some(ratio) => {
            let share = (ratio / FULL_DECIBELS).clamp(0.0, 1.0) * 100.0;
            format!(
                "<td data-v=\"{ratio}\"{}>{ratio:.2}{}</td>",
                row_class(Some(ratio)),
                bar(share)
            )
        }
    }
}

/// A cell with a histogram as bars, each as high as the logarithm of its count, which sorts by how much there is. `seen` is all of it.
#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn bars((low, width, parts): (f64, f64, Vec<u64>), seen: Range, stored: Range) -> String {
    // Bins may reach far beyond what was seen.
    let first = parts.iter().position(|&count| count > 0).unwrap_or(0);
    let end = parts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let parts = parts.get(first..end).unwrap_or_default();
    let per_bar = parts.len().div_ceil(BARS).max(1);
    let counts: Vec<u64> = parts.chunks(per_bar).map(|parts| parts.iter().sum()).collect();
    let low = low + first as f64 * width;
    let high = low + (counts.len() * per_bar) as f64 * width;
    let all: u64 = counts.iter().sum();
    let heights: Vec<f64> = counts.iter().map(|&count| (count as f64).ln_1p()).collect();
    let most = heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let each = WIDTH / counts.len().max(1) as f64;
    let mut path = String::new();
    for (at, height) in heights.iter().enumerate().filter(|(_, height)| **height > 0.0) {
        let (x, height) = (at as f64 * each, HEIGHT * height / most);
        let _ = write!(path, "M{x:.2} {HEIGHT}v-{height:.1}h{each:.2}V{HEIGHT}z");
    }
    let x = |number: f64| ((number - low) / (high - low) * WIDTH).clamp(0.0, WIDTH);
    let mut marks = String::new();
    for (from, to) in [(seen.min, stored.min), (stored.max, seen.max)] {
        let (from, wide) = (x(from), x(to) - x(from));
        if wide >= 1.0 {
            let _ = write!(
                marks,
                "<rect class=\"cut\" x=\"{from:.1}\" width=\"{wide:.1}\" height=\"{HEIGHT}\"/>"
            );
        }
    }
    if low < 0.0 && high > 0.0 {
        let _ = write!(marks, "<path class=\"zero\" d=\"M{0:.1} 0V{HEIGHT}\"/>", x(0.0));
    }
    let list: Vec<String> = counts.iter().map(u64::to_string).collect();
    let what = format!("{all} values from {:.4} to {:.4}", seen.min, seen.max);
    format!(
        "<td data-v=\"{all}\"><svg class=\"histogram\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{what}\" \
         data-counts=\"{}\"><title>{what}</title><path class=\"bars\" d=\"{path}\"/>{marks}</svg></td>",
        list.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_twenty_decibels_are_marked() {
        assert!(decibels(None).contains("exact") && !decibels(None).contains("low"));
        assert!(decibels(Some(19.99)).contains("class=\"low\""));
        assert!(!decibels(Some(20.0)).contains("low"));
    }

    #[test]
    fn sizes_and_numbers_are_short() {
        assert_eq!([9_999, 10_000, 12_345_678].map(bytes), ["9999 B", "10.0 kB", "12.3 MB"]);
        assert_eq!(number(-0.5), "<td data-v=\"-0.5\">-0.5000</td>");
        assert_eq!(number(1.25e-7), "<td data-v=\"0.000000125\">1.250e-7</td>");
    }
}
