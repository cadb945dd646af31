//! Checks one package. Several files may define parts of it; operators are joined, and other fields must agree.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{
    name::{self, Scope},
    op,
};
use crate::{
    config::{Core, Op, Package},
    diagnostic::Kind,
    draft::{self, At, CoreKind, Field, Spot},
    names,
    report::{Report, problem},
    source::Source,
    spelling::{one_of, quote},
};

/// Groups the packages of the same name, in the order of first mention. Duplicates within one file
/// are reported and stay separate.
pub(super) fn group(
    packages: Vec<draft::Package>,
    report: &mut Report<'_>,
) -> Vec<Vec<draft::Package>> {
    let mut groups: Vec<Vec<draft::Package>> = Vec::new();
    for package in packages {
        let Some(name) = package.name.as_ref() else {
            groups.push(vec![package]);
            continue;
        };
        let same_name = groups.iter_mut().find(|group| {
            group.iter().any(|p| p.name.as_ref().is_some_and(|n| n.value == name.value))
        });
        let Some(group) = same_name else {
            groups.push(vec![package]);
            continue;
        };
        let duplicate = group.iter().find(|p| p.spot.file == package.spot.file);
        if let Some(duplicate) = duplicate.and_then(|duplicate| duplicate.name.as_ref()) {
            let found = format!("{} again", quote(&name.value));
            let help = format!(
                "give both their own name or put their operators together; the first is at {}",
                report.place(&duplicate.spot)
            );
            report.error(
                &name.spot,
                problem(Kind::DuplicatePackage, found, "each package once per file", help),
            );
            continue;
        }
        group.push(package);
    }
    groups
}

/// Checks the parts of one package and joins them.
pub(super) fn check(
    parts: &[draft::Package],
    sources: &[Source<'_>],
    report: &mut Report<'_>,
) -> Option<Package> {
    let name = parts.first()?.name.as_ref().and_then(|name| name::check(name, report));
    let version = agreed_string(parts, |part| &part.version, (is_version, &VERSION), report);
    let domain = agreed_string(parts, |part| &part.domain, (is_domain, &DOMAIN), report);
    let path = agreed_path(parts, |part| &part.path, report);
    let udo_root = agreed_path(parts, |part| &part.udo_root, report);
    let mut scope =
        Scope { duplicate: Kind::DuplicateOp, generated: names::module_name, used: HashMap::new() };
    let mut ops = Vec::new();
    let mut cores = Vec::new();
    for part in parts {
        for At { value, spot } in part.ops.iter().filter_map(|op| op.name.as_ref()) {
            if names::check(value).is_ok() {
                scope.add(value, spot, report);
            }
        }
        let checked_ops: Vec<Op> =
            part.ops.iter().filter_map(|draft| op::check(draft, &part.archs, report)).collect();
        let used: Vec<Core> = checked_ops.iter().flat_map(|op| op.cores.iter().copied()).collect();
        // The lists are compared with the operators, so only if all operators are valid.
        if checked_ops.len() == part.ops.len() {
            cores.extend(listed_cores(part, &used, report));
        }
        cores.extend(used);
        ops.extend(checked_ops);
    }
    cores.sort_unstable();
    cores.dedup();
    let sources = parts
        .iter()
        .filter_map(|part| sources.get(part.spot.file.0))
        .map(|source| source.path.to_owned())
        .collect();
    Some(Package { name: name?, version, domain, path, udo_root, ops, cores, sources })
}

/// The kind and the message of an invalid string.
struct StringRule {
    kind: Kind,
    expected: &'static str,
    help: &'static str,
}

const VERSION: StringRule = StringRule {
    kind: Kind::InvalidVersion,
    expected: "a Cargo version: three numbers separated by dots",
    help: "for example \"1.0.0\" or \"2.1.0-rc.1\"",
};

const DOMAIN: StringRule = StringRule {
    kind: Kind::InvalidDomain,
    expected: "a domain: letters, digits, `_`, `.` and `-`, a letter or `_` first",
    help: "for example \"com.acme.pose\"; leave it out for the package's name",
};

/// The maximum length of a domain in bytes.
pub(crate) const MAX_DOMAIN_BYTES: usize = 128;

/// Whether the text is a semantic version, as Cargo requires.
fn is_version(text: &str) -> bool {
    let (without_build, build) = text
        .split_once('+')
        .map_or((text, None), |(without_build, build)| (without_build, Some(build)));
    let (core, pre_release) = without_build
        .split_once('-')
        .map_or((without_build, None), |(core, pre_release)| (core, Some(pre_release)));
    let is_number = |part: &str| {
        let has_digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        has_digits && (part == "0" || !part.starts_with('0')) && part.parse::<u64>().is_ok()
    };
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_pre_release_part =
        |part: &str| is_word(part) && (is_number(part) || !is_all_digits(part));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && pre_release.is_none_or(|pre_release| pre_release.split('.').all(is_pre_release_part))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

fn is_all_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether the text is a valid operator domain.
fn is_domain(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.len() <= MAX_DOMAIN_BYTES && text.bytes().all(is_inner)
}

/// Returns the string that the parts set, if it is valid.
fn agreed_string(
    parts: &[draft::Package],
    field: fn(&draft::Package) -> &Field<At<String>>,
    (is_valid, rule): (fn(&str) -> bool, &StringRule),
    report: &mut Report<'_>,
) -> Option<String> {
    let mut set_values = parts.iter().filter_map(|part| field(part).value());
    let first = set_values.next()?;
    if !is_valid(&first.value) {
        let StringRule { kind, expected, help } = *rule;
        report.error(&first.spot, problem(kind, quote(&first.value), expected, help));
        return None;
    }
    set_values.for_each(|later| refuse_other(first, later, report));
    Some(first.value.clone())
}

/// Reports a part that disagrees with the first one.
fn refuse_other(first: &At<String>, later: &At<String>, report: &mut Report<'_>) {
    if later.value == first.value {
        return;
    }
    let found = format!("{} and {}", quote(&first.value), quote(&later.value));
    let help = format!("keep one of them; the first is at {}", report.place(&first.spot));
    let expected = "the same in each file";
    report.error(&later.spot, problem(Kind::ConflictingPackage, found, expected, help));
}

/// Returns the path that the parts set; an empty one counts as unset.
fn agreed_path(
    parts: &[draft::Package],
    field: fn(&draft::Package) -> &Field<At<String>>,
    report: &mut Report<'_>,
) -> Option<PathBuf> {
    let mut set_values =
        parts.iter().filter_map(|p| field(p).value()).filter(|p| !p.value.is_empty());
    let first = set_values.next()?;
    if first.value.contains(char::is_control) {
        let help = "remove the control characters";
        report.error(
            &first.spot,
            problem(Kind::InvalidPath, quote(&first.value), "a path of printable characters", help),
        );
    }
    set_values.for_each(|later| refuse_other(first, later, report));
    Some(Path::new(&first.value).to_owned())
}

/// Returns the cores that a package lists, and reports cores of its operators, `used`, that it does not list.
fn listed_cores(part: &draft::Package, used: &[Core], report: &mut Report<'_>) -> Vec<Core> {
    let kinds = part.cores.value().filter(|list| !list.value.is_empty());
    let archs = part.archs.value().filter(|list| !list.value.is_empty());
    let mut cores = Vec::new();
    if let Some(list) = kinds {
        op::refuse_twice(&list.value, |kind| kind.as_str().to_owned(), report);
        let is_listed = |kind| list.value.iter().any(|entry| entry.value == kind);
        let unlisted =
            used.iter().map(|core| CoreKind::of_core(*core)).filter(|kind| !is_listed(*kind));
        refuse_unlisted(&list.spot, unlisted.map(|kind| kind.as_str().to_owned()), report);
        cores.extend(list.value.iter().filter_map(|entry| match entry.value {
            CoreKind::Cpu => Some(Core::Cpu),
            CoreKind::Gpu => Some(Core::Gpu),
            CoreKind::Dsp => None,
        }));
    }
    let uses_dsp = used.iter().any(|core| CoreKind::of_core(*core) == CoreKind::Dsp);
    let dsp = kinds.and_then(|list| list.value.iter().find(|kind| kind.value == CoreKind::Dsp));
    match (archs, dsp) {
        (Some(list), _) if dsp.is_some() || uses_dsp => {
            op::refuse_twice(&list.value, |arch| format!("v{arch}"), report);
            let is_listed = |arch| list.value.iter().any(|entry| entry.value == arch);
            let unlisted = used.iter().filter_map(|core| match core {
                Core::Dsp(arch) if !is_listed(*arch) => Some(format!("v{arch}")),
                Core::Cpu | Core::Gpu | Core::Dsp(_) => None,
            });
            refuse_unlisted(&list.spot, unlisted, report);
            cores.extend(list.value.iter().map(|arch| Core::Dsp(arch.value)));
        }
        (Some(list), _) => op::refuse_archs(&list.spot, report),
        (None, Some(dsp)) if !uses_dsp => cores.push(op::assume_arch(&dsp.spot, report)),
        (None, _) => {}
    }
    cores
}

/// Reports cores of operators that the package does not list.
fn refuse_unlisted(spot: &Spot, unlisted: impl Iterator<Item = String>, report: &mut Report<'_>) {
    let mut unlisted: Vec<String> = unlisted.map(|entry| format!("\"{entry}\"")).collect();
    unlisted.sort_unstable();
    unlisted.dedup();
    if unlisted.is_empty() {
        return;
    }
    let found = format!("no {}", one_of(&unlisted));
    let expected = "at least the cores that the operators declare";
    let help = "add it here, or remove the list: it is then the union over the operators";
    report.error(spot, problem(Kind::PackageTooNarrow, found, expected, help));
}
