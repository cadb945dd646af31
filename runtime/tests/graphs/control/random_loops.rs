//! Random loops in loops, next to a plain reading of the same lines.

use std::fmt::Write;

use udo_test_support::random::Random;

use super::Feed::{Floats, Ints};
use super::elements;

const SEEDS: u64 = 20;

/// A line that computes a value from earlier ones.
enum Line {
    Same(usize),
    Neg(usize),
    Add(usize, usize),
    Sub(usize, usize),
    Max(usize, usize),
    /// The same elements, negated under another shape.
    View(usize),
    /// The second half of the first one, and the first half of the other one.
    Halves(usize, usize),
    /// The first one negated, or the other one as it is.
    Choice(usize, usize),
    /// The values that the states are at first, what makes values of those there are and of the states, and which of them
    /// are the next states. Each last state is a value.
    Loop {
        trips: usize,
        firsts: Vec<usize>,
        lines: Vec<Line>,
        nexts: Vec<usize>,
    },
}

/// Lines of which the first may read values up to `known`; how many values there are behind them.
fn lines(random: &mut Random, mut known: usize, depth: usize) -> (Vec<Line>, usize) {
    let mut all = Vec::new();
    for _ in 0..=random.below(4) {
        // Mostly one of those that came last, as states do.
        let one = |random: &mut Random| {
            if random.once_in(3) {
                random.below(known)
            } else {
                known - 1 - random.below(known.min(4))
            }
        };
        let (a, b) = (one(random), one(random));
        all.push(match random.below(if depth < 2 { 10 } else { 8 }) {
            0 => Line::Neg(a),
            1 => Line::Add(a, b),
            2 => Line::Sub(a, b),
            3 => Line::Max(a, b),
            4 => Line::Same(a),
            5 => Line::View(a),
            6 => Line::Halves(a, b),
            7 => Line::Choice(a, b),
            _ => {
                let firsts: Vec<_> = (0..=random.below(3)).map(|_| one(random)).collect();
                let (lines, end) = lines(random, known + firsts.len(), depth + 1);
                let next = |random: &mut Random| {
                    let recent = end - 1 - random.below((end - known).min(5));
                    if random.once_in(6) { random.below(end) } else { recent }
                };
                let nexts = firsts.iter().map(|_| next(random)).collect();
                Line::Loop { trips: random.pick(&[0, 1, 2]), firsts, lines, nexts }
            }
        });
        known += match all.last() {
            Some(Line::Loop { firsts, .. }) => firsts.len(),
            _ => 1,
        };
    }
    (all, known)
}

/// Lines as text, with names of their own.
struct Writer {
    text: String,
    count: usize,
}

impl Writer {
    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    fn line(&mut self, indent: usize, line: &str) {
        writeln!(self.text, "{:indent$}{line}", "").unwrap();
    }

    /// Writes lines that read values by their names, and adds those of their own.
    fn all(&mut self, lines: &[Line], names: &mut Vec<String>, indent: usize) {
        for line in lines {
            let (op, read) = match line {
                Line::Same(a) => ("Identity@21", vec![*a]),
                Line::Neg(a) => ("Neg@13", vec![*a]),
                Line::Add(a, b) => ("Add@14", vec![*a, *b]),
                Line::Sub(a, b) => ("Sub@14", vec![*a, *b]),
                Line::Max(a, b) => ("Max@13", vec![*a, *b]),
                Line::View(a) => {
                    let [flat, square, turned, made] = [(); 4].map(|()| self.fresh());
                    self.line(
                        indent,
                        &format!("{square} = Reshape@21({}, square) # {square}", names[*a]),
                    );
                    self.line(indent, &format!("{turned} = Neg@13({square}) # {turned}"));
                    self.line(indent, &format!("{flat} = Reshape@21({turned}, flat) # {made}"));
                    names.push(flat);
                    continue;
                }
                Line::Halves(a, b) => {
                    let [first, second, third, last, made, one, two] =
                        [(); 7].map(|()| self.fresh());
                    self.line(
                        indent,
                        &format!(
                            "{first}, {second} = Split@18({}, square) axis=0 # {one}",
                            names[*a]
                        ),
                    );
                    self.line(
                        indent,
                        &format!(
                            "{third}, {last} = Split@18({}, square) axis=0 # {two}",
                            names[*b]
                        ),
                    );
                    self.line(
                        indent,
                        &format!("{made} = Concat@13({second}, {third}) axis=0 # {made}"),
                    );
                    names.push(made);
                    continue;
                }
                Line::Choice(a, b) => {
                    let [made, turned] = [(); 2].map(|()| self.fresh());
                    self.line(indent, &format!("{made} = If@16(truth) # {made}"));
                    for (branch, read) in [("then", *a), ("else", *b)] {
                        self.line(indent + 2, &format!("{branch}_branch: graph \"{branch}\""));
                        self.line(indent + 4, &format!("capture {}", names[read]));
                        if branch == "then" {
                            self.line(
                                indent + 4,
                                &format!("{turned} = Neg@13({}) # {turned}", names[read]),
                            );
                        }
                        let given = if branch == "then" { &turned } else { &names[read] };
                        self.line(indent + 4, &format!("output {given}"));
                    }
                    names.push(made);
                    continue;
                }
                Line::Loop { trips, firsts, lines, nexts } => {
                    self.loop_node(*trips, [firsts, nexts], lines, names, indent);
                    continue;
                }
            };
            let (made, node, read) = (self.fresh(), self.fresh(), named(names, &read));
            self.line(indent, &format!("{made} = {op}({read}) # {node}"));
            names.push(made);
        }
    }

    fn loop_node(
        &mut self,
        trips: usize,
        [firsts, nexts]: [&[usize]; 2],
        lines: &[Line],
        names: &mut Vec<String>,
        indent: usize,
    ) {
        let lasts: Vec<_> = firsts.iter().map(|_| self.fresh()).collect();
        let (made, given, node) = (lasts.join(", "), named(names, firsts), self.fresh());
        self.line(indent, &format!("{made} = Loop@16(trips{trips}, _, {given}) # {node}"));
        self.line(indent + 2, "body: graph \"body\"");
        let indent = indent + 4;
        self.line(indent, "input i: i64[]");
        self.line(indent, "input go: bool[]");
        let mut inside = names.clone();
        for _ in firsts {
            inside.push(self.fresh());
            self.line(indent, &format!("input {}: f32[4]", inside[inside.len() - 1]));
        }
        let others = ["trips0", "trips1", "trips2", "truth", "square", "flat"].map(str::to_owned);
        for name in others.iter().chain(names.iter()) {
            self.line(indent, &format!("capture {name}"));
        }
        self.all(lines, &mut inside, indent);
        self.line(indent, &format!("output go, {}", named(&inside, nexts)));
        names.extend(lasts);
    }
}

fn named(names: &[String], which: &[usize]) -> String {
    which.iter().map(|&at| names[at].as_str()).collect::<Vec<_>>().join(", ")
}

fn evaluate(lines: &[Line], values: &mut Vec<[f32; 4]>, trips: [i64; 3]) {
    for line in lines {
        let pair = |a: usize, b: usize, f: fn(f32, f32) -> f32| {
            std::array::from_fn(|at| f(values[a][at], values[b][at]))
        };
        let made = match line {
            Line::Same(a) => values[*a],
            Line::View(a) => values[*a].map(|v| -v),
            Line::Halves(a, b) => {
                let (a, b) = (values[*a], values[*b]);
                [a[2], a[3], b[0], b[1]]
            }
            Line::Choice(a, _) if trips[0] < trips[1] => values[*a].map(|v| -v),
            Line::Choice(_, b) => values[*b],
            Line::Neg(a) => values[*a].map(|v| -v),
            Line::Add(a, b) => pair(*a, *b, |a, b| a + b),
            Line::Sub(a, b) => pair(*a, *b, |a, b| a - b),
            Line::Max(a, b) => pair(*a, *b, f32::max),
            Line::Loop { trips: which, firsts, lines, nexts } => {
                let mut states: Vec<_> = firsts.iter().map(|&at| values[at]).collect();
                for _ in 0..trips[*which] {
                    let mut inside = values.clone();
                    inside.extend(&states);
                    evaluate(lines, &mut inside, trips);
                    states = nexts.iter().map(|&at| inside[at]).collect();
                }
                values.extend(states);
                continue;
            }
        };
        values.push(made);
    }
}

#[test]
fn random_loops_match_their_description() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let (lines, end) = lines(&mut random, 2, 0);
        let mut names = vec!["x".to_owned(), "w".to_owned()];
        let text = "graph g\n  input trips0: i64[]\n  input trips1: i64[]\n  input trips2: i64[]\n  \
                    input x: f32[4]\n  input w: f32[4]\n  \
                    constant square: i64[2]{2, 2}\n  constant flat: i64[1]{4}\n  \
                    truth = Less@13(trips0, trips1) # truth\n";
        let mut writer = Writer { text: text.to_owned(), count: 0 };
        writer.all(&lines, &mut names, 2);
        writer.line(2, &format!("y = Sum@13(x, {}) # y", names[2..].join(", ")));
        writer.line(2, "output y");
        let text = writer.text;
        let counts = [[0, 1, 2], [3, 2, 1], [1, 3, 0], [2, 4, 3]];
        let [x, w]: [[f32; 4]; 2] = [0, 1].map(|_| random.reals(4).try_into().unwrap());
        let given: Vec<_> = counts
            .iter()
            .map(|[a, b, c]| {
                let ints = |trips| Ints(std::slice::from_ref(trips));
                let trips = [("trips0", ints(a)), ("trips1", ints(b)), ("trips2", ints(c))];
                trips.into_iter().chain([("x", Floats(&x)), ("w", Floats(&w))]).collect::<Vec<_>>()
            })
            .collect();
        let runs: Vec<_> = given.iter().map(|run| &run[..]).collect();
        let results = elements(&text, &runs);
        for (trips, result) in counts.into_iter().zip(results) {
            let mut values = vec![x, w];
            evaluate(&lines, &mut values, trips);
            assert_eq!(values.len(), end);
            let wanted: [f32; 4] = std::array::from_fn(|at| {
                values[2..].iter().fold(x[at], |sum, value| sum + value[at])
            });
            assert_eq!(result, wanted, "seed {seed}, trips {trips:?}:\n{text}");
        }
    }
}
