//! Cleans printed code up for readers and linters: removes brackets around whole arguments and values, and names of
//! loop variables and coordinates that nothing reads.

use super::support::has_bare;

/// Removes brackets around the whole expression.
pub(super) fn bare(value: &str) -> &str {
    let Some(inner) = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return value;
    };
    if lowest(inner) < 0 || has_comma(inner) { value } else { inner }
}

/// Removes brackets around whole arguments: `f((a), b)` becomes `f(a, b)`.
pub(super) fn plain(line: &str) -> String {
    // Lines with strings are not changed, since brackets in strings must stay.
    if line.contains('"') {
        return line.to_owned();
    }
    let letters: Vec<char> = line.chars().collect();
    let mut open = Vec::new();
    let mut dropped = vec![false; letters.len()];
    for (index, letter) in letters.iter().enumerate() {
        if *letter == '(' {
            open.push(index);
        }
        let Some(start) = (*letter == ')').then(|| open.pop()).flatten() else { continue };
        let before = letters.iter().take(start).rev().find(|letter| **letter != ' ');
        let after = letters.get(index + 1);
        let is_whole =
            matches!(before, Some('(' | ',' | '[')) && matches!(after, Some(')' | ',' | ']'));
        let inner: String = letters.iter().take(index).skip(start + 1).collect();
        if is_whole && !inner.is_empty() && !has_comma(&inner) {
            for bracket in [start, index] {
                if let Some(dropped) = dropped.get_mut(bracket) {
                    *dropped = true;
                }
            }
        }
    }
    letters.iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(letter, _)| letter).collect()
}

/// Marks unused loop variables of Rust code, and removes unused coordinates.
pub(super) fn without_unused_names(text: &str) -> String {
    let all_lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_read = |(index, line): &(usize, &&str)| {
        let declaration = line.trim_start().strip_prefix("let ");
        let Some((name, _)) = declaration.and_then(|rest| rest.split_once(" = list_unravel("))
        else {
            return true;
        };
        let mut block =
            all_lines.iter().skip(index + 1).take_while(|inner| indent(inner) >= indent(line));
        block.any(|inner| has_bare(inner, name))
    };
    let lines = all_lines.iter().enumerate().filter(is_read);
    let lines: Vec<&str> = lines.map(|(_, line)| *line).collect();
    let marked = lines.iter().enumerate().map(|(index, line)| {
        let name = line.trim_start().strip_prefix("for ").and_then(|rest| rest.split_once(" in "));
        let Some((name, rest)) = name else { return format!("{line}\n") };
        let body = lines.iter().skip(index + 1).take_while(|inner| indent(inner) > indent(line));
        let is_read = body.clone().any(|inner| has_bare(inner, name));
        let prefix = if is_read { "" } else { "_" };
        format!("{}for {prefix}{name} in {rest}\n", " ".repeat(indent(line)))
    });
    marked.collect()
}

/// Returns the lowest bracket depth of the text.
fn lowest(text: &str) -> i32 {
    let mut depth = 0;
    let depths = text.chars().map(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth
    });
    depths.min().unwrap_or(0)
}

/// Whether the text has a comma outside of inner brackets, as in a tuple.
fn has_comma(text: &str) -> bool {
    let mut depth = 0;
    text.chars().any(|letter| {
        depth += i32::from(matches!(letter, '(' | '[')) - i32::from(matches!(letter, ')' | ']'));
        letter == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::{bare, plain, without_unused_names};

    #[test]
    fn brackets_around_whole_arguments_are_removed() {
        let cases = [
            ("f((a), (b + c))", "f(a, b + c)"),
            ("f((a + b) * c)", "f((a + b) * c)"),
            ("f(((a)))", "f(a)"),
            ("f((a, b))", "f((a, b))"),
            ("f(a.b())", "f(a.b())"),
            ("[(a), (-1)]", "[a, -1]"),
            ("say(\"(a)\", (b))", "say(\"(a)\", (b))"),
        ];
        for (line, expected) in cases {
            assert_eq!(plain(line), expected);
        }
        assert_eq!(bare("(a + b)"), "a + b");
        assert_eq!(bare("(a) + (b)"), "(a) + (b)");
        assert_eq!(bare("(a, b)"), "(a, b)");
    }

    #[test]
    fn unused_loop_variables_and_coordinates_are_unnamed() {
        let text = "for a in 0..n {\n    for k in 0..a {\n        t += 1;\n    }\n}\nk\n";
        assert_eq!(without_unused_names(text), text.replace("for k", "for _k"));
        let text = "for k in 0..n {\n    t += k;\n}\n";
        assert_eq!(without_unused_names(text), text);
        let text = "for t1 in 0..n {\n    let p = list_unravel(t1, dims);\n    t += 1;\n}\np\n";
        assert_eq!(without_unused_names(text), "for _t1 in 0..n {\n    t += 1;\n}\np\n");
        let text = text.replace("+= 1", "+= list_len(p)");
        assert_eq!(without_unused_names(&text), text);
    }
}
