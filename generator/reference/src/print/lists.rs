//! Lists as Rust, and the coordinates of an element.

use super::{emit::Emitter, plain::bare, support::has_word};
use crate::ir::{AxesOf, Binder, Item, List};

impl Emitter<'_> {
    pub(super) fn list(&mut self, list: &List) -> String {
        match list {
            List::Var(slot) => {
                let name = self.printer.names.list(*slot);
                let is_plan = *slot != crate::ir::HERE
                    && self.printer.code.lists.get(*slot).is_some_and(|local| !local.inner);
                if is_plan { format!("plan.{name}") } else { name.to_owned() }
            }
            List::Dims(source) => format!("plan.{}", self.printer.names.dims(*source)),
            List::Items(items) => self.items(items),
            List::Slice(list, from, to) => {
                let list = self.list(list);
                let from = from.as_ref().map_or("0".to_owned(), |from| self.scalar(from));
                let to = to.as_ref().map_or("i64::MAX".to_owned(), |to| self.scalar(to));
                format!("list_slice({list}, {from}, {to})")
            }
            List::For(slot, count, body) => {
                let count = self.scalar(count);
                let (list, name) = (self.temporary(), self.printer.names.scalar(*slot).to_owned());
                self.line(&format!("let mut {list} = List::default();"));
                self.open(&format!("for {name} in 0..{count}"));
                let body = self.scalar(body);
                self.line(&format!("list_push(&mut {list}, {body})?;"));
                self.close("}");
                list
            }
            List::If(condition, then, otherwise) => {
                let condition = self.scalar(condition);
                let list = self.temporary();
                self.open(&format!("let {list} = if {}", bare(&condition)));
                let then = self.list(then);
                self.line(&then);
                self.close("} else {");
                self.deeper();
                let otherwise = self.list(otherwise);
                self.line(&otherwise);
                self.close("};");
                list
            }
            List::Broadcast(lists, _) => {
                let all: Vec<String> = lists.iter().map(|list| self.list(list)).collect();
                all.into_iter()
                    .reduce(|a, b| format!("list_broadcast({a}, {b})?"))
                    .unwrap_or_default()
            }
            List::Align(coords, dims) => {
                let (coords, dims) = (self.list(coords), self.list(dims));
                format!("list_align({coords}, {dims})")
            }
            List::Unravel(number, dims) => {
                let (number, dims) = (self.scalar(number), self.list(dims));
                format!("list_unravel({number}, {dims})")
            }
            List::Axes(axes) => {
                let dims = self.list(&axes.dims);
                let marked = match &axes.reduced {
                    Some(list) => self.list(list),
                    None => format!("list_axes({dims})"),
                };
                match &axes.what {
                    AxesOf::Reduced => format!("list_reduced({dims}, {marked})?"),
                    AxesOf::Left(keep) => {
                        let keep = self.scalar(keep);
                        format!("list_left({dims}, {marked}, {keep})?")
                    }
                    AxesOf::Merged(left, reduced, keep) => {
                        let (left, reduced) = (self.list(left), self.list(reduced));
                        let keep = self.scalar(keep);
                        format!("list_merged({dims}, {marked}, {left}, {reduced}, {keep})?")
                    }
                }
            }
        }
    }

    fn items(&mut self, items: &[Item]) -> String {
        let numbers: Option<Vec<_>> = items
            .iter()
            .map(|item| match item {
                Item::One(scalar) => Some(scalar),
                Item::Spread(_) => None,
            })
            .collect();
        if let Some(numbers) = numbers {
            let numbers: Vec<String> =
                numbers.into_iter().map(|number| self.scalar(number)).collect();
            return format!("List::of(&[{}])", numbers.join(", "));
        }
        if let [Item::Spread(list)] = items {
            return self.list(list);
        }
        let list = self.temporary();
        self.line(&format!("let mut {list} = List::default();"));
        for item in items {
            let line = match item {
                Item::One(scalar) => format!("list_push(&mut {list}, {})?;", self.scalar(scalar)),
                Item::Spread(other) => format!("list_join(&mut {list}, {})?;", self.list(other)),
            };
            self.line(&line);
        }
        list
    }

    /// The extents over which indices run.
    pub(super) fn extents(&mut self, binders: &[Binder]) -> String {
        let of = |binder: &Binder| match binder {
            Binder::Index(_, count) => Item::One(count.clone()),
            Binder::Pack(_, extents) => Item::Spread(extents.clone()),
        };
        let items: Vec<Item> = binders.iter().map(of).collect();
        self.items(&items)
    }

    /// Those of the indices of the element `number` of a tensor of these extents that a text uses.
    pub(super) fn coordinates(&mut self, binders: &[Binder], dims: &str, text: &str) {
        let names: Vec<String> = binders
            .iter()
            .map(|binder| match binder {
                Binder::Index(slot, _) => self.printer.names.scalar(*slot).to_owned(),
                Binder::Pack(slot, _) => self.printer.names.list(*slot).to_owned(),
            })
            .collect();
        let Some(last) = names.iter().rposition(|name| has_word(text, name)) else { return };
        if let [Binder::Pack(..)] = binders {
            self.line(&format!(
                "let {} = list_unravel(number as i64, plan.{dims});",
                names.concat()
            ));
            return;
        }
        self.line(&format!("let at = list_unravel(number as i64, plan.{dims});"));
        let (mut before, mut steps) = (String::new(), 0);
        for (binder, name) in binders.iter().zip(&names).take(last + 1) {
            let is_used = has_word(text, name);
            let from = match (before.as_str(), steps) {
                ("", _) => steps.to_string(),
                (_, 0) => before.clone(),
                _ => format!("{before} + {steps}"),
            };
            match binder {
                Binder::Index(..) => {
                    if is_used {
                        self.line(&format!("let {name} = list_item(at, {from})?;"));
                    }
                    steps += 1;
                }
                Binder::Pack(_, extents) => {
                    let extents = self.list(extents);
                    let len = format!("list_len({extents})");
                    before = self.bound(&if from == "0" { len } else { format!("{from} + {len}") });
                    steps = 0;
                    if is_used {
                        self.line(&format!("let {name} = list_slice(at, {from}, {before});"));
                    }
                }
            }
        }
    }
}
