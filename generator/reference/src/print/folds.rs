//! Prints loops over indices, and folds: sums, products, extremes and other reductions over such loops.
//!
//! Sums in single precision carry their rounding error in a second variable, the rest (see `wide`).

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

/// The names of the printed variables that contain the result of a fold.
struct Folded {
    /// The accumulated value.
    all: String,
    /// The accumulated rounding error of a sum in single precision.
    rest: Option<String>,
    /// The number of elements, if the fold needs it.
    number: String,
    /// The index of the extreme, for `argmax` and `argmin`.
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
                let requirement = "elements to find the extreme of";
                if let Some([opening, fault_line, closing]) =
                    language.refuse_if(&format!("{best} < 0"), requirement)
                {
                    self.open(&opening);
                    self.line(&fault_line);
                    self.close(&closing);
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

    /// Prints the loops of a fold; `with_product_errors` adds the rounding errors of products in the terms to the rest.
    fn folded(&mut self, fold: &FoldLoop, with_product_errors: bool) -> Folded {
        let (class, language) = (fold.class, self.language());
        let all = self.temporary();
        let start = match fold.fold {
            Fold::Sum | Fold::Mean => self.small(class, 0),
            Fold::Prod => self.small(class, 1),
            Fold::Max | Fold::ArgMax => language.end(class, End::Lowest, self.real),
            Fold::Min | Fold::ArgMin => language.end(class, End::Highest, self.real),
            Fold::Any => "false".to_owned(),
            Fold::All => "true".to_owned(),
            Fold::Count => language.int(0),
        };
        let kind = if fold.fold == Fold::Count { self.int() } else { self.kind(class) };
        self.line(&language.variable(kind, &all, bare(&start)));
        let has_rest = is_sum_fold(fold.fold, class) && self.real == Real::F32;
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
        let open_blocks = self.loops(&fold.binders);
        let term = match &rest {
            Some(_) if with_product_errors => self.term(&fold.body),
            _ => Wide { high: self.scalar(&fold.body), rest: None },
        };
        let value = self.bound(self.kind(class), &term.high);
        if let Some(rest) = &rest {
            let lost = language.helper("sum_rest", &[&all, &value]);
            for lost in [Some(&lost), term.rest.as_ref()].into_iter().flatten() {
                self.accumulate(Binary::Add, class, [rest, lost]);
            }
        }
        match fold.fold {
            Fold::Sum | Fold::Mean => self.accumulate(Binary::Add, class, [&all, &value]),
            Fold::Prod => self.accumulate(Binary::Mul, class, [&all, &value]),
            Fold::Max => self.accumulate(Binary::Max, class, [&all, &value]),
            Fold::Min => self.accumulate(Binary::Min, class, [&all, &value]),
            Fold::ArgMax | Fold::ArgMin => {
                let sign = if fold.fold == Fold::ArgMax { ">" } else { "<" };
                let nan = if class == Class::Float {
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
            self.accumulate(Binary::Add, Class::Int, [&number, &language.int(1)]);
        }
        for _ in 0..open_blocks {
            self.close("}");
        }
        Folded { all, rest, number, best }
    }

    /// Prints a small number.
    fn small(&self, class: Class, value: u8) -> String {
        match class {
            Class::Float => self.language().float(value.into(), self.real),
            Class::Int | Class::Bool => self.language().int(value.into()),
        }
    }

    /// Prints the statement that accumulates a value.
    fn accumulate(&mut self, op: Binary, class: Class, [all, value]: [&str; 2]) {
        let language = self.language();
        let line = language.assign(op, class, [all, value]).unwrap_or_else(|| {
            format!("{all} = {};", bare(&language.binary(op, class, [all, value], self.real)))
        });
        self.line(&line);
    }
}
