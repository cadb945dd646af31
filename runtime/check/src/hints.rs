//! Constraints that a reference's source states about nodes: ranks, related dimensions, and strings that parameters are
//! compared with. The source is scanned as text. Correctness does not depend on it, since the operator itself accepts
//! or refuses each node.

/// A dimension of an input; negative axes count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    input: usize,
    axis: i64,
}

impl Axis {
    fn extent_mut(self, shapes: &mut [Vec<usize>]) -> Option<&mut usize> {
        let shape = shapes.get_mut(self.input)?;
        let axis =
            if self.axis < 0 { self.axis + i64::try_from(shape.len()).ok()? } else { self.axis };
        shape.get_mut(usize::try_from(axis).ok()?)
    }
}

/// A number, times a dimension if there is one, divided by another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    axis: Option<Axis>,
    times: i64,
    over: i64,
}

impl Side {
    fn value(self, shapes: &mut [Vec<usize>]) -> Option<i64> {
        let extent = match self.axis {
            Some(axis) => i64::try_from(*axis.extent_mut(shapes)?).ok()?,
            None => 1,
        };
        extent.checked_mul(self.times)?.checked_div(self.over)
    }

    /// Sets the dimension to a value with which the side equals `value`, if there is one.
    fn set(self, shapes: &mut [Vec<usize>], value: i64) -> bool {
        let whole = value.checked_mul(self.over).filter(|_| value > 0);
        let extent = whole.filter(|whole| whole.checked_rem(self.times) == Some(0));
        let extent = extent.and_then(|whole| usize::try_from(whole / self.times).ok());
        let slot = self.axis.and_then(|axis| axis.extent_mut(shapes));
        let (Some(slot), Some(extent)) = (slot, extent) else { return false };
        *slot = extent;
        true
    }
}

/// Constraints on the inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// Inputs and their ranks.
    ranks: Vec<(usize, usize)>,
    /// Sides that are equal.
    ties: Vec<(Side, Side)>,
    /// Strings that are compared with something.
    pub(crate) words: Vec<String>,
}

impl Hints {
    /// Reads the constraints on these inputs from `source`.
    pub(crate) fn from_source(source: &str, inputs: &[&str]) -> Self {
        let mut reader = Reader { inputs, lets: Vec::new(), hints: Self::default() };
        for line in source.lines() {
            let line = line.split('#').next().unwrap_or_default();
            reader.words(line);
            reader.line(&close(line));
        }
        reader.hints
    }

    /// Changes the shapes of all inputs to meet the constraints.
    pub(crate) fn apply(&self, shapes: &mut [Vec<usize>]) {
        const FILLED: [usize; 3] = [4, 6, 2];
        // One constraint may depend on another.
        const ROUNDS: usize = 3;
        for &(input, rank) in &self.ranks {
            let Some(shape) = shapes.get_mut(input) else { continue };
            let more = FILLED.iter().cycle().skip(shape.len()).copied();
            *shape = shape.iter().copied().chain(more).take(rank).collect();
        }
        for _ in 0..ROUNDS {
            for (left, right) in &self.ties {
                // Later inputs follow earlier ones where possible.
                let input = |side: &Side| side.axis.map(|axis| axis.input);
                let (from, to) =
                    if input(left) < input(right) { (left, right) } else { (right, left) };
                let is_set = from.value(shapes).is_some_and(|value| to.set(shapes, value));
                if !is_set && let Some(value) = to.value(shapes) {
                    from.set(shapes, value);
                }
            }
        }
    }
}

struct Reader<'a> {
    inputs: &'a [&'a str],
    /// Names of dimensions.
    lets: Vec<(String, Side)>,
    hints: Hints,
}

impl Reader<'_> {
    /// Collects strings next to a comparison.
    fn words(&mut self, line: &str) {
        let parts: Vec<&str> = line.split('"').collect();
        for at in (1..parts.len().saturating_sub(1)).step_by(2) {
            let [before, word, after] =
                [at - 1, at, at + 1].map(|at| parts.get(at).copied().unwrap_or_default());
            let is_before = ["==", "!="].iter().any(|op| before.trim_end().ends_with(op));
            let is_after = ["==", "!="].iter().any(|op| after.trim_start().starts_with(op));
            if (is_before || is_after) && !self.hints.words.iter().any(|known| known == word) {
                self.hints.words.push(word.to_owned());
            }
        }
    }

    /// Reads a line whose only spaces separate words.
    fn line(&mut self, line: &str) {
        if let Some((name, rest)) = line.strip_prefix("let ").and_then(|rest| rest.split_once('='))
            && let Some((side, "")) = self.side(rest)
        {
            self.lets.push((name.to_owned(), side));
        }
        let starts = line.char_indices().filter(|(at, c)| {
            let before = line.get(..*at).unwrap_or_default();
            is_part(*c) && !before.ends_with(|c| is_part(c) || c == '-')
        });
        // A rank among alternatives does not constrain all nodes.
        let code = line.split('"').next().unwrap_or_default();
        let is_choice = code.split(|c| !is_part(c)).any(|word| matches!(word, "or" | "if" | "not"));
        let is_wanted = line.starts_with("require ") && !is_choice;
        for (at, _) in starts {
            self.comparison(line.get(at..).unwrap_or_default(), is_wanted);
        }
    }

    fn comparison(&mut self, text: &str, is_wanted: bool) {
        if is_wanted
            && let Some((input, rest)) = self.of_input(text, "rank(")
            && let Some((rank, _)) = rest.strip_prefix(")==").and_then(number)
            && let Ok(rank @ 0..=8) = usize::try_from(rank)
        {
            self.hints.ranks.push((input, rank));
        }
        let Some((left, rest)) = self.side(text) else { return };
        if let Some((right, _)) = rest.strip_prefix("==").and_then(|rest| self.side(rest))
            && (left.axis.is_some() || right.axis.is_some())
        {
            self.hints.ties.push((left, right));
        }
        // A remainder of 0: the dimension is a multiple of that number.
        if let (Side { axis: Some(_), times: 1, over: 1 }, Some(rest)) =
            (left, rest.strip_prefix('%'))
            && let Some((of, rest)) = number(rest)
            && rest.trim_start_matches(')').starts_with("==0")
        {
            self.hints.ties.push((left, Side { axis: None, times: of.saturating_mul(2), over: 1 }));
        }
    }

    /// Parses a side; returns it and the rest.
    fn side<'t>(&self, text: &'t str) -> Option<(Side, &'t str)> {
        let (mut side, mut rest) = self.factor(text)?;
        loop {
            let (is_times, after) = match (rest.strip_prefix("//"), rest.strip_prefix('*')) {
                (Some(after), _) => (false, after),
                (None, Some(after)) => (true, after),
                (None, None) => return Some((side, rest)),
            };
            let (other, after) = self.factor(after)?;
            side = match (side.axis, other.axis, is_times) {
                (_, None, false) if other.over == 1 && other.times > 0 => {
                    Side { over: side.over.checked_mul(other.times)?, ..side }
                }
                (_, None, true) => Side { times: side.times.checked_mul(other.times)?, ..side },
                (None, Some(_), true) => {
                    Side { times: other.times.checked_mul(side.times)?, ..other }
                }
                _ => return None,
            };
            rest = after;
        }
    }

    fn factor<'t>(&self, text: &'t str) -> Option<(Side, &'t str)> {
        if let Some((times, rest)) = number(text) {
            return (times > 0).then_some((Side { axis: None, times, over: 1 }, rest));
        }
        if let Some((input, rest)) = self.of_input(text, "dim(") {
            let (axis, rest) = number(rest.strip_prefix(',')?)?;
            let side = Side { axis: Some(Axis { input, axis }), times: 1, over: 1 };
            return Some((side, rest.strip_prefix(')')?));
        }
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        let known = self.lets.iter().rev().find(|(known, _)| known == name)?;
        Some((known.1, rest))
    }

    /// Parses a call of `function` on an input; returns the input and the rest.
    fn of_input<'t>(&self, text: &'t str, function: &str) -> Option<(usize, &'t str)> {
        let rest = text.strip_prefix(function)?;
        self.inputs.iter().enumerate().find_map(|(at, name)| {
            let rest = rest.strip_prefix(name)?;
            rest.starts_with([',', ')']).then_some((at, rest))
        })
    }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Removes all spaces except those between words.
fn close(line: &str) -> String {
    let mut closed = String::new();
    for word in line.split_whitespace() {
        if closed.ends_with(is_part) && word.starts_with(is_part) {
            closed.push(' ');
        }
        closed.push_str(word);
    }
    closed
}

/// Parses an integer; returns it and the rest.
fn number(text: &str) -> Option<(i64, &str)> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = text.split_at_checked(text.len() - digits.len() + len)?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_become_those_that_a_source_wants() {
        let source = "
            require rank(x) == 4 and rank(cos) == 2, \"batch, heads, positions or features\"
            let half = dim(x, -1) // 2  # of each feature
            require dim(x, -1) % 2 == 0, \"pairs\"
            require dim(cos, 0) == dim(x, 2) and dim(cos, 1) == half, \"a row for each position\"
            require rank(sin) == rank(cos), \"alike\"
            require dim(cos, 0) == dim(sin, 0), \"as many\"
            y = if mode == \"half\" then x else if \"whole\" != mode then x else -x";
        let hints = Hints::from_source(source, &["x", "cos", "sin"]);
        assert_eq!(hints.words, ["half", "whole"]);
        let mut shapes = vec![vec![3, 5], vec![], vec![7, 2]];
        hints.apply(&mut shapes);
        assert_eq!(shapes, [vec![3, 5, 2, 4], vec![2, 2], vec![2, 2]]);
    }

    #[test]
    fn unknown_lines_are_ignored() {
        for source in [
            "",
            "y = x",
            "require dim(",
            "require dim(x, 99999999999999999999) == 1",
            "rank(x) == é",
            "let y = if rank(x) == 1 then x else xs",
            "require rank(x) == 0 or rank(xs) == 2, \"one of them\"",
            "require (rank(x) == 0) or rank(xs) == 2, \"one of them\"",
        ] {
            let hints = Hints::from_source(source, &["x", "xs"]);
            assert_eq!(hints, Hints::default(), "{source}");
        }
        let hints = Hints::from_source(
            "require dim(x, 7) == dim(xs, 0) * 9223372036854775807",
            &["x", "xs"],
        );
        let mut shapes = vec![vec![2], vec![4]];
        hints.apply(&mut shapes);
        assert_eq!(shapes, [[2], [4]]);
    }
}
