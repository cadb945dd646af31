//! Printed graphs with long constants, written short.

/// The text of a graph whose constants list all of their elements: a list that is too short is repeated.
pub fn in_full(text: &str) -> String {
    let line = |line: &str| {
        let parts = line.split_once('{').filter(|_| line.starts_with("  constant "));
        let Some((of, list)) = parts else { return format!("{line}\n") };
        let dims = of.split_once('[').unwrap().1.trim_end_matches(']');
        let len =
            dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse::<usize>().unwrap());
        let list: Vec<&str> = list.trim_end_matches('}').split(", ").collect();
        let all: Vec<&str> = list.iter().copied().cycle().take(len.product()).collect();
        format!("{of}{{{}}}\n", all.join(", "))
    };
    text.lines().map(line).collect()
}
