//! Prints lists of integers, and the coordinates of an element from its number in row-major order.

use super::{
    emit::Emitter,
    language::{End, Kind},
    support::has_bare,
};
use crate::{
    ir::{AxesOf, Binder, Item, List},
    signature::Class,
};

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
                let end = self.language().end(Class::Int, End::Highest, self.real);
                let from = from.as_ref().map_or("0".to_owned(), |from| self.scalar(from));
                let to = to.as_ref().map_or(end, |to| self.scalar(to));
                format!("list_slice({list}, {from}, {to})")
            }
            List::For(slot, count, body) => {
                let count = self.scalar(count);
                let (list, name) = (self.temporary(), self.printer.names.scalar(*slot).to_owned());
                let language = self.language();
                self.line(&language.variable(Kind::List, &list, language.no_list()));
                self.open(&language.each(&name, &count));
                let body = self.scalar(body);
                self.add_to(&list, "list_push", &body);
                self.close("}");
                list
            }
            List::If(condition, then, otherwise) => self.one_of(
                Kind::List,
                condition,
                |emitter| emitter.list(then),
                |emitter| emitter.list(otherwise),
            ),
            List::Broadcast(lists, _) => {
                let all: Vec<String> = lists.iter().map(|list| self.list(list)).collect();
                all.into_iter()
                    .reduce(|a, b| self.language().fallible(format!("list_broadcast({a}, {b})")))
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
                let call = match &axes.what {
                    AxesOf::Reduced => format!("list_reduced({dims}, {marked})"),
                    AxesOf::Left(keep) => {
                        let keep = self.scalar(keep);
                        format!("list_left({dims}, {marked}, {keep})")
                    }
                    AxesOf::Merged(left, reduced, keep) => {
                        let (left, reduced) = (self.list(left), self.list(reduced));
                        let keep = self.scalar(keep);
                        format!("list_merged({dims}, {marked}, {left}, {reduced}, {keep})")
                    }
                };
                self.language().fallible(call)
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
            return self.language().list_of(&numbers);
        }
        if let [Item::Spread(list)] = items {
            return self.list(list);
        }
        let list = self.temporary();
        let language = self.language();
        self.line(&language.variable(Kind::List, &list, language.no_list()));
        for item in items {
            let (function, value) = match item {
                Item::One(scalar) => ("list_push", self.scalar(scalar)),
                Item::Spread(other) => ("list_join", self.list(other)),
            };
            self.add_to(&list, function, &value);
        }
        list
    }

    /// Prints the statement that appends to a list.
    fn add_to(&mut self, list: &str, function: &str, value: &str) {
        let language = self.language();
        let call = format!("{function}({}, {value})", language.changed(list));
        self.line(&format!("{};", language.fallible(call)));
    }

    /// Prints the ranges of indices.
    pub(super) fn extents(&mut self, binders: &[Binder]) -> String {
        let item_of = |binder: &Binder| match binder {
            Binder::Index(_, count) => Item::One(count.clone()),
            Binder::Pack(_, extents) => Item::Spread(extents.clone()),
        };
        let items: Vec<Item> = binders.iter().map(item_of).collect();
        self.items(&items)
    }

    /// Prints the declarations of the coordinates of element `number`, as far as the printed code `text` uses them.
    /// `dims` is the plan's field with the tensor's dimensions.
    pub(super) fn coordinates(&mut self, binders: &[Binder], dims: &str, text: &str) {
        let names: Vec<String> = binders
            .iter()
            .map(|binder| match binder {
                Binder::Index(slot, _) => self.printer.names.scalar(*slot).to_owned(),
                Binder::Pack(slot, _) => self.printer.names.list(*slot).to_owned(),
            })
            .collect();
        let Some(last) = names.iter().rposition(|name| has_bare(text, name)) else { return };
        let unraveled = format!("list_unravel({}, plan.{dims})", self.language().counted("number"));
        if let [Binder::Pack(..)] = binders {
            let name = names.concat();
            self.line(&self.language().bind(Kind::List, &name, &unraveled));
            return;
        }
        self.line(&self.language().bind(Kind::List, "at", &unraveled));
        let (mut first_item, mut indices_since_pack) = (String::new(), 0);
        for (binder, name) in binders.iter().zip(&names).take(last + 1) {
            let is_used = has_bare(text, name);
            let position = match (first_item.as_str(), indices_since_pack) {
                ("", _) => indices_since_pack.to_string(),
                (_, 0) => first_item.clone(),
                _ => format!("{first_item} + {indices_since_pack}"),
            };
            match binder {
                Binder::Index(..) => {
                    if is_used {
                        let item = self.language().fallible(format!("list_item(at, {position})"));
                        self.line(&self.language().bind(self.int(), name, &item));
                    }
                    indices_since_pack += 1;
                }
                Binder::Pack(_, extents) => {
                    let extents = self.list(extents);
                    let len = format!("list_len({extents})");
                    let end = if position == "0" { len } else { format!("{position} + {len}") };
                    first_item = self.bound(self.int(), &end);
                    indices_since_pack = 0;
                    if is_used {
                        let part = format!("list_slice(at, {position}, {first_item})");
                        self.line(&self.language().bind(Kind::List, name, &part));
                    }
                }
            }
        }
    }
}
