//! Prints selections in Rust: the indices that satisfy a condition. Selections in index order take one pass; selections
//! by score search for the next best index once per selected index, which needs no scratch memory.

use super::{
    emit::Emitter,
    plain::bare,
    rust::{loaded, stored},
    support::has_bare,
};
use crate::{
    ir::{Scalar, Select, Source},
    signature::Class,
};

impl Emitter<'_> {
    /// Prints the dimensions of a selection of maximum size.
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

    /// Fills the selection, and sets its dimension to the number of selected indices.
    pub(super) fn select(&mut self, select: &Select, def: usize) {
        let printer = self.printer;
        let dims = printer.names.dims(Source::Def(def));
        let count = self.scalar(&select.count);
        let count = self.bound(self.int(), &count);
        self.line(&format!("let bound = plan.{dims}.size();\nlet mut found = 0_usize;"));
        match &select.by {
            None => self.select_in_order(select, def, &count),
            Some(by) => self.select_best(select, by, def, &count),
        }
        self.line(&format!("plan.{dims} = List::of(&[found as i64]);"));
    }

    /// Prints one pass over the candidates.
    fn select_in_order(&mut self, select: &Select, def: usize, count: &str) {
        let index = self.printer.names.scalar(select.index).to_owned();
        self.open(&format!("for {index} in 0..{count}"));
        self.open("if found == bound");
        self.line("break;");
        self.close("}");
        let condition = self.scalar(&select.condition);
        self.open(&format!("if {}", bare(&condition)));
        self.store_unless_dropped(select, def, &index);
        self.close("}");
        self.close("}");
    }

    /// Prints a pass per selected index, which searches for the best candidate after the last.
    fn select_best(&mut self, select: &Select, by: &Scalar, def: usize, count: &str) {
        let index = self.printer.names.scalar(select.index).to_owned();
        self.line("let (mut last, mut last_score) = (-1_i64, f64::INFINITY);");
        self.open("while found < bound");
        self.line("let (mut best, mut best_score) = (-1_i64, 0.0_f64);");
        self.open(&format!("for {index} in 0..{count}"));
        let condition = self.scalar(&select.condition);
        self.open(&format!("if {}", bare(&condition)));
        let by = self.scalar(by);
        self.line(&format!("let score = {by} as f64;"));
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
        self.store_unless_dropped(select, def, "best");
        self.close("}");
    }

    /// Prints the code that stores a candidate unless its `unless` condition holds for an earlier selected index.
    fn store_unless_dropped(&mut self, select: &Select, def: usize, candidate: &str) {
        let printer = self.printer;
        let name = printer.names.def(def).to_owned();
        let element_type = printer.element(Source::Def(def));
        if let Some((earlier, drop_condition)) = &select.unless {
            let index = printer.names.scalar(select.index).to_owned();
            let earlier = printer.names.scalar(*earlier).to_owned();
            let (inner, drop_condition) = self.branch(|emitter| emitter.scalar(drop_condition));
            let reads = |name: &str| {
                [inner.text(), &drop_condition].iter().any(|text| has_bare(text, name))
            };
            if candidate != index && reads(&index) {
                self.line(&format!("let {index} = {candidate};"));
            }
            self.line("let mut is_dropped = false;");
            let loaded = loaded("*before", Class::Int, &element_type, self.real);
            self.open(&format!("for before in &{name}[..found]"));
            if reads(&earlier) {
                self.line(&format!("let {earlier} = {loaded};"));
            }
            self.take(&inner);
            self.line(&format!("is_dropped |= {};", bare(&drop_condition)));
            self.close("}");
            self.open("if is_dropped");
            self.line("continue;");
            self.close("}");
        }
        let stored = stored(candidate, Class::Int, &element_type);
        self.line(&format!("{name}[found] = {stored};\nfound += 1;"));
    }
}
