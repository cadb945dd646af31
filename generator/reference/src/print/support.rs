//! What printed kernels need beside their own parts, item by item: only what a kernel uses is printed.

const RUST: &str = include_str!("support.txt");
const OPENCL: &str = include_str!("support.cl");

/// The items in Rust that this text uses, and those that they use.
pub(super) fn rust(text: &str) -> String {
    let items = ["f32", "f64"].iter().flat_map(|real| {
        let of_real = |item: &&str| *real == "f32" || item.contains("REAL");
        RUST.trim_end().split("\n\n").filter(of_real).map(|item| item.replace("REAL", real))
    });
    used(&joined(items.collect()), text)
}

/// Those in OpenCL C.
pub(super) fn opencl(text: &str) -> String {
    used(&joined(OPENCL.trim_end().split("\n\n").map(str::to_owned).collect()), text)
}

fn used(items: &[(String, String)], text: &str) -> String {
    let mut used: Vec<bool> = items.iter().map(|(name, _)| name.is_empty()).collect();
    loop {
        let mut texts = vec![text];
        texts.extend(
            items.iter().zip(&used).filter(|(_, used)| **used).map(|((_, item), _)| item.as_str()),
        );
        let needed: Vec<bool> = items
            .iter()
            .zip(&used)
            .map(|((name, item), used)| {
                *used || texts.iter().any(|text| *text != item && has_word(text, name))
            })
            .collect();
        if needed == used {
            break;
        }
        used = needed;
    }
    let kept = items.iter().zip(&used).filter(|(_, used)| **used);
    kept.map(|((_, item), _)| item.clone() + "\n").collect::<Vec<_>>().join("\n")
}

/// Items by name; blocks that are indented belong to the one before.
fn joined(blocks: Vec<String>) -> Vec<(String, String)> {
    let mut items: Vec<(String, String)> = Vec::new();
    for block in blocks {
        match items.last_mut() {
            Some((_, item)) if block.starts_with(' ') => {
                item.push_str("\n\n");
                item.push_str(&block);
            }
            _ => items.push((name_of(&block), block)),
        }
    }
    items
}

/// The name of a function; types have none, as every kernel has them.
fn name_of(item: &str) -> String {
    let head = item
        .lines()
        .find(|line| !line.starts_with("//") && !line.starts_with("#["))
        .unwrap_or_default();
    if ["pub ", "impl ", "typedef "].iter().any(|word| head.starts_with(word)) {
        return String::new();
    }
    // Its result stands before it in C, `fn` in Rust.
    let head = head.split('(').next().unwrap_or_default();
    head.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
}

/// Whether the word is in the text, and not just as a part of another or in a literal.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = text.split_at_checked(at).unwrap_or_default();
        let after = after.get(word.len()..).unwrap_or_default();
        let is_text = before.matches('"').count() % 2 == 1;
        !is_text && !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}
