//! Selections as Rust: without scratch, by looking for the next best as often as there is one.

use super::{
    emit::Emitter,
    plain::bare,
    rust::{loaded, stored},
    support::has_bare,
};
use crate::{
    ir::{Select, Source},
    signature::Class,
};

impl Emitter<'_> {
    /// The extent that a selection has at most.
    pub(super) fn select_bound(&mut self, select: &Select) -> String {
        let count = self.scalar(&select.count);
        let bound = match &select.limit {
            Some(limit) => {
                let limit = self.scalar(limit);
                format!("{count}.min({limit})")
            }
            None => count,
        };
        format!("List::of(&[{bound}])")
    }

    /// Fills the selection, and sets its extent to how many there are.
    pub(super) fn select(&mut self, select: &Select, def: usize) {
        let printer = self.printer;
        let (name, dims) =
            (printer.names.def(def).to_owned(), printer.names.dims(Source::Def(def)));
        let index = printer.names.scalar(select.index).to_owned();
        let count = self.scalar(&select.count);
        let count = self.bound(self.int(), &count);
        self.line(&format!("let bound = plan.{dims}.size();\nlet mut found = 0_usize;"));
        self.line("let (mut last, mut last_score) = (-1_i64, f64::INFINITY);");
        self.open("while found < bound");
        self.line("let (mut best, mut best_score) = (-1_i64, 0.0_f64);");
        self.open(&format!("for {index} in 0..{count}"));
        let condition = self.scalar(&select.condition);
        self.open(&format!("if {}", bare(&condition)));
        let score = match &select.by {
            Some(by) => format!("{} as f64", self.scalar(by)),
            None => "0.0_f64".to_owned(),
        };
        self.line(&format!("let score = {score};"));
        self.line(&format!(
            "let is_behind = last < 0 || comes_before(last_score, last, score, {index});"
        ));
        self.open(&format!(
            "if is_behind && (best < 0 || comes_before(score, {index}, best_score, best))"
        ));
        self.line(&format!("(best, best_score) = ({index}, score);"));
        for _ in 0..3 {
            self.close("}");
        }
        self.open("if best < 0");
        self.line("break;");
        self.close("}");
        self.line("(last, last_score) = (best, best_score);");
        if let Some((kept, drops)) = &select.unless {
            let kept = printer.names.scalar(*kept).to_owned();
            let (inner, drops) = self.branch(|emitter| emitter.scalar(drops));
            let reads = |name: &str| [inner.text(), &drops].iter().any(|text| has_bare(text, name));
            if reads(&index) {
                self.line(&format!("let {index} = best;"));
            }
            self.line("let mut is_dropped = false;");
            let of = printer.element(Source::Def(def));
            let loaded = loaded("*before", Class::Int, &of, self.real);
            self.open(&format!("for before in &{name}[..found]"));
            if reads(&kept) {
                self.line(&format!("let {kept} = {loaded};"));
            }
            self.take(&inner);
            self.line(&format!("is_dropped |= {};", bare(&drops)));
            self.close("}");
            self.open("if is_dropped");
            self.line("continue;");
            self.close("}");
        }
        let best = stored("best", Class::Int, &printer.element(Source::Def(def)));
        self.line(&format!("{name}[found] = {best};\nfound += 1;"));
        self.close("}");
        self.line(&format!("plan.{dims} = List::of(&[found as i64]);"));
    }
}
