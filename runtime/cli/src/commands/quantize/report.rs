//! The report of a quantized model: a page that needs nothing besides, with a table that its reader can sort.

use std::fmt::Write;
use std::path::Path;

use udo_runtime::quant::{
    Calibration, Compared, Encoded, FloatNode, Histogram, Kind, Observer, Quantized, Range,
};

/// How many bars a histogram has.
const BARS: usize = 64;

/// How high the highest bar is, in pixels.
const HEIGHT: f64 = 28.0;

/// What the page looks like.
const STYLE: &str = "body{font:14px sans-serif;margin:2em;color:#222}table{border-collapse:collapse}\
th,td{padding:3px 10px;text-align:right;border-bottom:1px solid #ddd}th{cursor:pointer;background:#f4f4f4}\
td.name,th.name{text-align:left}svg{background:#fafafa}rect{fill:#4a7ab5}.low{background:#fde8e8}";

/// Sorts a table by the column that is clicked, numbers as such; another click turns the order around.
const SCRIPT: &str = "document.querySelectorAll('table.sorts').forEach(t=>t.querySelectorAll('th').forEach((h,i)=>\
h.addEventListener('click',()=>{const up=h.dataset.up!=='1';t.querySelectorAll('th').forEach(o=>delete o.dataset.up);\
h.dataset.up=up?'1':'0';const key=r=>r.cells[i].dataset.v??r.cells[i].textContent;\
const rows=[...t.tBodies[0].rows].sort((a,b)=>{const x=key(a),y=key(b),n=parseFloat(x)-parseFloat(y);\
return (isNaN(n)?x.localeCompare(y):n)*(up?1:-1)});t.tBodies[0].append(...rows)})));";

/// Values with less signal to their noise, in dB, are marked.
const LOW_DECIBELS: f64 = 20.0;

/// The page.
pub(super) fn page(
    model: &Path,
    [before, after]: [u64; 2],
    quantized: &Quantized,
    calibration: &Calibration,
    compared: &[Compared],
) -> String {
    let name = escaped(&model.file_name().unwrap_or_default().to_string_lossy());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name} quantized</title>\
         <style>{STYLE}</style></head><body>\n<h1>{name} quantized</h1>\n\
         <p>{before} bytes before, {after} after; ranges and errors of {} runs.</p>\n",
        calibration.runs()
    );
    page.push_str("<h2>Outputs</h2>\n<table id=\"outputs\"><thead><tr><th class=\"name\">output</th><th>SQNR, dB</th><th>largest error</th></tr></thead><tbody>\n");
    for of in compared.iter().filter(|of| of.is_output) {
        let _ = writeln!(
            page,
            "<tr><td class=\"name\">{}</td>{}<td>{:.3e}</td></tr>",
            escaped(&of.name),
            decibels(of.noise.decibels()),
            of.noise.max_error
        );
    }
    page.push_str(
        "</tbody></table>\n<h2>Values</h2>\n<table id=\"values\" class=\"sorts\"><thead><tr>",
    );
    for (class, head) in [
        (" class=\"name\"", "value"),
        ("", "what"),
        ("", "type"),
        ("", "least seen"),
        ("", "largest seen"),
        ("", "least stored"),
        ("", "largest stored"),
        ("", "scale"),
        ("", "zero point"),
        ("", "SQNR, dB"),
        ("", "largest error"),
        ("", "histogram"),
    ] {
        let _ = write!(page, "<th{class}>{head}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for of in &quantized.encoded {
        row(&mut page, of, calibration, compared);
    }
    page.push_str("</tbody></table>\n");
    floats(&mut page, &quantized.floats);
    let _ = writeln!(page, "<script>{SCRIPT}</script>\n</body></html>");
    page
}

fn row(page: &mut String, of: &Encoded, calibration: &Calibration, compared: &[Compared]) {
    let seen = calibration.observer(&of.name);
    let noise = of.noise.or_else(|| {
        let pair = compared.iter().find(|pair| pair.name == of.name)?;
        Some(pair.noise)
    });
    let stored = of.encodings.iter().map(|encoding| of.levels.range(*encoding));
    let stored = stored.reduce(Range::with).unwrap_or(Range::EMPTY);
    let what = match of.kind {
        Kind::Activation => "value",
        Kind::Weights => "weights",
        Kind::Bias => "bias",
    };
    let (scale, zero) = match of.encodings.as_slice() {
        [only] => (format!("{:.4e}", only.scale), only.zero_point.to_string()),
        several => (format!("{} of them", several.len()), String::new()),
    };
    let _ = write!(
        page,
        "<tr><td class=\"name\">{}</td><td>{what}</td><td>{}</td>",
        escaped(&of.name),
        of.levels.dtype.name()
    );
    match seen.map(Observer::range).filter(|range| !range.is_empty()) {
        Some(Range { min, max }) => {
            let _ = write!(page, "<td>{min:.4}</td><td>{max:.4}</td>");
        }
        None => page.push_str("<td></td><td></td>"),
    }
    let _ = writeln!(
        page,
        "<td>{:.4}</td><td>{:.4}</td><td>{scale}</td><td>{zero}</td>{}<td>{}</td><td>{}</td></tr>",
        stored.min,
        stored.max,
        noise.map_or_else(|| "<td></td>".to_owned(), |noise| decibels(noise.decibels())),
        noise.map_or_else(String::new, |noise| format!("{:.3e}", noise.max_error)),
        seen.and_then(Observer::histogram).map_or_else(String::new, bars)
    );
}

/// A cell with a ratio; one without noise sorts above all.
fn decibels(ratio: Option<f64>) -> String {
    match ratio {
        None => "<td data-v=\"999\">exact</td>".to_owned(),
        Some(ratio) => {
            let class = if ratio < LOW_DECIBELS { " class=\"low\"" } else { "" };
            format!("<td{class}>{ratio:.2}</td>")
        }
    }
}

/// A histogram as bars, the logarithm of each count high.
fn bars(histogram: &Histogram) -> String {
    let (_, _, counts) = histogram.parts(BARS);
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    let heights: Vec<f64> = counts.iter().map(|&count| (count as f64).ln_1p()).collect();
    let most = heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = format!("<svg width=\"{}\" height=\"{HEIGHT}\">", 2 * counts.len());
    for (at, height) in heights.iter().enumerate().filter(|(_, height)| **height > 0.0) {
        let height = HEIGHT * height / most;
        let (x, y) = (2 * at, HEIGHT - height);
        let _ = write!(svg, "<rect x=\"{x}\" y=\"{y:.1}\" width=\"2\" height=\"{height:.1}\"/>");
    }
    svg.push_str("</svg>");
    svg
}

fn floats(page: &mut String, nodes: &[FloatNode]) {
    if nodes.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h2>Nodes that compute in numbers</h2>\n<ul id=\"floats\">");
    for FloatNode { node, op } in nodes {
        let _ = writeln!(page, "<li>{} ({})</li>", escaped(node), escaped(op));
    }
    page.push_str("</ul>\n");
}

/// A text as it stands in a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_no_markup() {
        assert_eq!(escaped("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
        assert!(decibels(None).contains("exact") && decibels(Some(3.0)).contains("low"));
    }
}
