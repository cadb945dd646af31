//! Loops over indices, and what is folded over them.

use super::{
    emit::Emitter,
    language::{End, Kind},
    plain::bare,
};
use crate::{
    function::Binary,
    ir::{Binder, Fold, FoldLoop},
    signature::Class,
};

impl Emitter<'_> {
    /// Loops over the indices, and says how many have to be closed.
    pub(super) fn loops(&mut self, binders: &[Binder]) -> usize {
        // The bounds of one index know nothing of the others.
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

    pub(super) fn fold(&mut self, fold: &FoldLoop) -> String {
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
        let has_number = matches!(fold.fold, Fold::Mean | Fold::ArgMax | Fold::ArgMin);
        let (number, best) = (self.temporary(), self.temporary());
        if has_number {
            self.line(&language.variable(self.int(), &number, &language.int(0)));
        }
        if matches!(fold.fold, Fold::ArgMax | Fold::ArgMin) {
            self.line(&language.variable(self.int(), &best, bare(&language.int(-1))));
        }
        let loops = self.loops(&fold.binders);
        let value = self.scalar(&fold.body);
        let value = self.bound(self.kind(of), &value);
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
        match fold.fold {
            Fold::Mean => format!("({all} / {})", bare(&self.cast(of, Class::Int, &number))),
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

    /// A small number.
    fn small(&self, of: Class, value: u8) -> String {
        match of {
            Class::Float => self.language().float(value.into(), self.real),
            Class::Int | Class::Bool => self.language().int(value.into()),
        }
    }

    /// Takes a value into what has been folded.
    fn taken_in(&mut self, op: Binary, of: Class, [all, value]: [&str; 2]) {
        let language = self.language();
        let line = language.assign(op, of, [all, value]).unwrap_or_else(|| {
            format!("{all} = {};", bare(&language.binary(op, of, [all, value], self.real)))
        });
        self.line(&line);
    }
}
