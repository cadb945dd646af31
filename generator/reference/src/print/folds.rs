//! Prints loops over indices, and folds over them.

use super::{
    emit::Emitter,
    language::{End, Kind, Real},
    plain::bare,
    rests::is_sum_fold,
    wide::Wide,
};
use crate::{
    function::Binary,
    ir::{Binder, Fold, FoldLoop},
    signature::Class,
};

/// The result variables of a fold.
struct Folded {
    all: String,
    /// The rounding error of a sum.
    rest: Option<String>,
    /// The number of elements.
    number: String,
    /// The index of an extreme.
    best: String,
}

impl Emitter<'_> {
    /// Opens loops over the indices; returns the number of blocks to close.
    pub(super) fn loops(&mut self, binders: &[Binder]) -> usize {
        // The bounds of an index do not depend on the others.
        let bounds: Vec<String> = binders
            .iter()
            .map(|binder| match binder {
                Binder::Index(_, count) => {
                    let count = self.scalar(count);
                    self.bound(self.int(), &count)
                }
                Binder::Pack(_, extents) => {
                    let extents = self.list(extents);
                    self.bound(Kind::List, &extents)
                }
            })
            .collect();
        for (binder, bound) in binders.iter().zip(&bounds) {
            match binder {
                Binder::Index(slot, _) => {
                    let name = self.printer.names.scalar(*slot).to_owned();
                    self.open(&self.language().each(&name, bound));
                }
                Binder::Pack(slot, _) => {
                    let (name, number) =
                        (self.printer.names.list(*slot).to_owned(), self.temporary());
                    let language = self.language();
                    self.open(&language.each(&number, &language.size(bound)));
                    let unraveled = format!("list_unravel({}, {bound})", language.counted(&number));
                    self.line(&language.bind(Kind::List, &name, &unraveled));
                }
            }
        }
        binders.len()
    }

    /// Prints a fold to one number.
    pub(super) fn fold(&mut self, fold: &FoldLoop) -> String {
        let Folded { all, rest, number, best } = self.folded(fold, false);
        let language = self.language();
        let all = match rest {
            Some(rest) => language.helper("joined", &[&all, &rest]),
            None => all,
        };
        match fold.fold {
            Fold::Mean => {
                format!("({all} / {})", bare(&self.cast(fold.class, Class::Int, &number)))
            }
            Fold::ArgMax | Fold::ArgMin => {
                let wanted = "elements to find the extreme of";
                if let Some([head, refusal, end]) =
                    language.refuse_if(&format!("{best} < 0"), wanted)
                {
                    self.open(&head);
                    self.line(&refusal);
                    self.close(&end);
                }
                best
            }
            _ => all,
        }
    }

    /// Prints a sum or a mean with its rounding error.
    pub(super) fn wide_fold(&mut self, fold: &FoldLoop) -> Wide {
        let Folded { all, rest, number, .. } = self.folded(fold, true);
        let Some(rest) = rest else { return Wide { high: all, rest: None } };
        let language = self.language();
        let high = self.bound_float(&language.helper("joined", &[&all, &rest]));
        let rest = language.helper("joined_rest", &[&all, &rest]);
        if fold.fold != Fold::Mean {
            return Wide { high, rest: Some(rest) };
        }
        let number = self.bound_float(&self.cast(fold.class, Class::Int, &number));
        let mean = self.bound_float(&format!("({high} / {number})"));
        let zero = language.float(0.0, self.real);
        let rest = language.helper("quotient_rest", &[&mean, &high, &rest, &number, &zero]);
        Wide { high: mean, rest: Some(rest) }
    }

    /// Prints a fold of terms; with `in_full` the rounding errors of products are part of the rest.
    fn folded(&mut self, fold: &FoldLoop, in_full: bool) -> Folded {
        let (of, language) = (fold.class, self.language());
        let all = self.temporary();
        let start = match fold.fold {
            Fold::Sum | Fold::Mean => self.small(of, 0),
            Fold::Prod => self.small(of, 1),
            Fold::Max | Fold::ArgMax => language.end(of, End::Lowest, self.real),
            Fold::Min | Fold::ArgMin => language.end(of, End::Highest, self.real),
            Fold::Any => "false".to_owned(),
            Fold::All => "true".to_owned(),
            Fold::Count => language.int(0),
        };
        let kind = if fold.fold == Fold::Count { self.int() } else { self.kind(of) };
        self.line(&language.variable(kind, &all, bare(&start)));
        let has_rest = is_sum_fold(fold.fold, of) && self.real == Real::F32;
        let rest = has_rest.then(|| self.temporary());
        if let Some(rest) = &rest {
            self.line(&language.variable(kind, rest, bare(&start)));
        }
        let has_number = matches!(fold.fold, Fold::Mean | Fold::ArgMax | Fold::ArgMin);
        let (number, best) = (self.temporary(), self.temporary());
        if has_number {
            self.line(&language.variable(self.int(), &number, &language.int(0)));
        }
        if matches!(fold.fold, Fold::ArgMax | Fold::ArgMin) {
            self.line(&language.variable(self.int(), &best, bare(&language.int(-1))));
        }
        let loops = self.loops(&fold.binders);
        let term = match &rest {
            Some(_) if in_full => self.term(&fold.body),
            _ => Wide { high: self.scalar(&fold.body), rest: None },
        };
        let value = self.bound(self.kind(of), &term.high);
        if let Some(rest) = &rest {
            let lost = language.helper("sum_rest", &[&all, &value]);
            for lost in [Some(&lost), term.rest.as_ref()].into_iter().flatten() {
                self.taken_in(Binary::Add, of, [rest, lost]);
            }
        }
        match fold.fold {
            Fold::Sum | Fold::Mean => self.taken_in(Binary::Add, of, [&all, &value]),
            Fold::Prod => self.taken_in(Binary::Mul, of, [&all, &value]),
            Fold::Max => self.taken_in(Binary::Max, of, [&all, &value]),
            Fold::Min => self.taken_in(Binary::Min, of, [&all, &value]),
            Fold::ArgMax | Fold::ArgMin => {
                let sign = if fold.fold == Fold::ArgMax { ">" } else { "<" };
                let nan = if of == Class::Float {
                    format!(" || {} && !{}", language.is_nan(&value), language.is_nan(&all))
                } else {
                    String::new()
                };
                let condition = format!("{best} < 0 || {value} {sign} {all}{nan}");
                self.open(&language.when(&condition));
                self.line(&format!("{all} = {value};\n{best} = {number};"));
                self.close("}");
            }
            Fold::Any => self.line(&format!("{all} |= {value};")),
            Fold::All => self.line(&format!("{all} &= {value};")),
            Fold::Count => self.line(&language.count(&all, &value)),
        }
        if has_number {
            self.taken_in(Binary::Add, Class::Int, [&number, &language.int(1)]);
        }
        for _ in 0..loops {
            self.close("}");
        }
        Folded { all, rest, number, best }
    }

    /// Prints a small number.
    fn small(&self, of: Class, value: u8) -> String {
        match of {
            Class::Float => self.language().float(value.into(), self.real),
            Class::Int | Class::Bool => self.language().int(value.into()),
        }
    }

    /// Prints the accumulation of a value.
    fn taken_in(&mut self, op: Binary, of: Class, [all, value]: [&str; 2]) {
        let language = self.language();
        let line = language.assign(op, of, [all, value]).unwrap_or_else(|| {
            format!("{all} = {};", bare(&language.binary(op, of, [all, value], self.real)))
        });
        self.line(&line);
    }
}
