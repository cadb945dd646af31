//! Lowers indices: those of definitions and folds, and those of reads.

use super::{
    Entry, Lowering,
    typed::{Typed, coerced},
};
use crate::{
    fault::{Fault, Position},
    ir::{Binder, DefKind, FOLDS, Fold, FoldLoop, List, Read, Scalar, Select},
    signature::Class,
    syntax::{self, Args, Expr, Item},
};

impl Lowering<'_> {
    /// Binds the indices, whose names are known from here on; returns them and the number of names.
    pub(super) fn bind(
        &mut self,
        binders: &[syntax::Binder],
    ) -> Result<(Vec<Binder>, usize), Fault> {
        let mut bound = Vec::new();
        for binder in binders {
            bound.push(if binder.is_pack {
                let extents = self.list(&binder.bound)?;
                Binder::Pack(self.new_list(true), extents)
            } else {
                let count = self.number(&binder.bound, Class::Int)?;
                Binder::Index(self.new_scalar(true), count)
            });
        }
        let before = self.names.len();
        for (binder, bound) in binders.iter().zip(&bound) {
            if let Err(fault) = self.is_free(&binder.name, binder.at) {
                self.names.truncate(before);
                return Err(fault);
            }
            let entry = match bound {
                Binder::Index(slot, _) => Entry::Scalar(*slot, Class::Int),
                Binder::Pack(slot, _) => Entry::List(*slot),
            };
            self.push_local(&binder.name, entry, binder.at);
        }
        Ok((bound, binders.len()))
    }

    pub(super) fn fold(
        &mut self,
        name: &str,
        binders: &[syntax::Binder],
        kept: Option<&str>,
        args: &Args,
        at: Position,
    ) -> Result<Typed, Fault> {
        if name == crate::ir::SELECT {
            return self.select(binders, kept, args, at);
        }
        let Some(fold) = FOLDS.iter().find(|(of, _)| *of == name).map(|(_, fold)| *fold) else {
            let help = crate::words::did_you_mean(name, FOLDS.iter().map(|(of, _)| *of));
            return Err(Fault { help, ..Fault::new(at, format!("no reduction `{name}`")) });
        };
        let ([body], [], None) = (args.plain.as_slice(), args.named.as_slice(), kept) else {
            return Err(Fault::new(
                at,
                format!("`{name}` over indices takes one expression and nothing else"),
            ));
        };
        let (binders, count) = self.bind(binders)?;
        let folded = self.scalar(body);
        self.names.truncate(self.names.len() - count);
        let (found, folded) = folded?;
        let (class, result) = fold_classes(fold, name, found, body.at)?;
        let folded = coerced(folded, found, class, body.at)?;
        let scalar = Scalar::Fold(Box::new(FoldLoop { at, fold, class, binders, body: folded }));
        // A value that does not depend on an index is computed once.
        let is_early = self.lateness(|see| scalar.walk(see)).is_none();
        if is_early || self.uses_locals(|see| scalar.walk(see)) {
            return Ok(Typed::Scalar(result, scalar));
        }
        let kind = DefKind::Elements { binders: Vec::new(), body: scalar };
        let source = self.hoisted(kind, result, at)?;
        Ok(Typed::Scalar(result, Scalar::read(source, List::Items(Vec::new()), at)))
    }

    fn select(
        &mut self,
        binders: &[syntax::Binder],
        kept: Option<&str>,
        args: &Args,
        at: Position,
    ) -> Result<Typed, Fault> {
        let ([condition], [syntax::Binder { is_pack: false, .. }]) =
            (args.plain.as_slice(), binders)
        else {
            return Err(Fault::new(at, "`select` takes one index and one condition"));
        };
        for (name, at, _) in &args.named {
            if !["by", "limit", "unless"].contains(&name.as_str()) {
                return Err(Fault::unexpected(
                    *at,
                    format!("argument `{name}` of `select`"),
                    "`by`, `limit` or `unless`",
                ));
            }
        }
        let named =
            |name: &str| args.named.iter().find(|(of, ..)| of == name).map(|(.., expr)| expr);
        let limit = match named("limit") {
            Some(limit) => {
                Some(self.early_scalar(limit, Class::Int, "the limit of a selection")?)
            }
            None => None,
        };
        let (indices, bound_names) = self.bind(binders)?;
        let Some(Binder::Index(index, count)) = indices.into_iter().next() else {
            return Err(Fault::new(at, "`select` takes one index"));
        };
        let parts = self.select_parts(condition, named("by"), (kept, named("unless")), at);
        self.names.truncate(self.names.len() - bound_names);
        let (condition, by, unless) = parts?;
        self.must_be_early(|see| count.walk(see), at, "the bound of a selection")?;
        let select = Select { index, count, condition, by, limit, unless };
        let source = self.hoisted(DefKind::Select(Box::new(select)), Class::Int, at)?;
        Ok(Typed::Tensor(super::expr::named(source, Class::Int, at)))
    }

    #[expect(clippy::type_complexity, reason = "the parts are destructured at once")]
    fn select_parts(
        &mut self,
        condition: &Expr,
        by: Option<&Expr>,
        unless: (Option<&str>, Option<&Expr>),
        at: Position,
    ) -> Result<(Scalar, Option<Scalar>, Option<(usize, Scalar)>), Fault> {
        let condition = self.number(condition, Class::Bool)?;
        let by = match by {
            Some(by) => Some(self.scalar(by)?.1),
            None => None,
        };
        let unless = match unless {
            (Some(name), Some(unless)) => {
                self.is_free(name, at)?;
                let slot = self.new_scalar(true);
                self.push_local(name, Entry::Scalar(slot, Class::Int), at);
                let unless = self.number(unless, Class::Bool);
                self.names.pop();
                Some((slot, unless?))
            }
            (None, None) => None,
            _ => {
                let message =
                    "`select` has `unless` without a name after `;`, or the name without `unless`";
                return Err(Fault::new(at, message)
                    .with_help("write `select[r < n; s](.., unless = near[r, s])`"));
            }
        };
        Ok((condition, by, unless))
    }

    pub(super) fn index(
        &mut self,
        base: &Expr,
        items: &[Item],
        outside: Option<&Expr>,
        at: Position,
    ) -> Result<Typed, Fault> {
        match self.expr(base)? {
            Typed::List(list) => self.list_index(list, items, outside, at),
            Typed::Tensor(whole) => {
                let class = whole.class;
                let source = self.source(whole, at)?;
                let coords = List::Items(self.items(items)?);
                let found = coords.known_len(&|source| self.rank(source));
                if let (Some(found), Some(rank)) = (found, self.rank(source))
                    && found != rank
                {
                    return Err(Fault::unexpected(
                        at,
                        format!("{found} indices"),
                        format!("{rank}, the rank of the tensor"),
                    ));
                }
                let outside = match outside {
                    Some(outside) => Some(self.number(outside, class)?),
                    None => None,
                };
                Ok(Typed::Scalar(
                    class,
                    Scalar::Read(Box::new(Read { at, source, coords, outside })),
                ))
            }
            typed => Err(Fault::unexpected(at, typed.describe(), "a tensor or a list before `[`")),
        }
    }

    fn list_index(
        &mut self,
        list: List,
        items: &[Item],
        outside: Option<&Expr>,
        at: Position,
    ) -> Result<Typed, Fault> {
        if let Some(outside) = outside {
            return Err(Fault::unexpected(
                outside.at,
                "`else` in a list index",
                "`else` in a tensor read only",
            ));
        }
        match items {
            [Item::One(expr)] => {
                let place = self.number(expr, Class::Int)?;
                Ok(Typed::Scalar(Class::Int, list.item(place, at)))
            }
            [Item::Slice(from, to)] => {
                let mut ends = Vec::new();
                for end in [from, to] {
                    ends.push(match end {
                        Some(end) => Some(self.number(end, Class::Int)?),
                        None => None,
                    });
                }
                let to = ends.pop().flatten();
                Ok(Typed::List(list.slice(ends.pop().flatten(), to)))
            }
            _ => Err(Fault::new(at, "a list is indexed as `list[k]` or sliced as `list[from:to]`")),
        }
    }
}

/// Returns the class of a fold's elements and of its result.
pub(super) fn fold_classes(
    fold: Fold,
    name: &str,
    found: Class,
    at: Position,
) -> Result<(Class, Class), Fault> {
    match (fold, found) {
        (Fold::Mean, Class::Int | Class::Float) => Ok((Class::Float, Class::Float)),
        (Fold::Sum | Fold::Prod | Fold::Max | Fold::Min, Class::Int | Class::Float) => {
            Ok((found, found))
        }
        (Fold::ArgMax | Fold::ArgMin, Class::Int | Class::Float) => Ok((found, Class::Int)),
        (Fold::Any | Fold::All, Class::Bool) => Ok((Class::Bool, Class::Bool)),
        (Fold::Count, Class::Bool) => Ok((Class::Bool, Class::Int)),
        _ => {
            let expected = if found == Class::Bool { "numbers" } else { "bools" };
            Err(Fault::unexpected(at, format!("`{name}` of {}", found.word()), expected))
        }
    }
}
