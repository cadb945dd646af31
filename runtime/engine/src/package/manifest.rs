//! The manifest of a library, read from its file without running it.

use std::path::Path;

use serde_json::Value;
use udo_api::abi::{AbiVersion, NEEDS, PanicStrategy};
use udo_api::guard::LibraryGuard;
use udo_api::{Core, DType, ParamKind, Side, TypeSet, Wanted};

use super::OpenError;
use super::elf::Elf;
use super::json::{JsonError, Node};

/// Returns the target that packages must be built for, such as `x86_64-linux`.
pub fn host_target() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// How strictly heap use is checked while a package's kernels execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// Not checked: the package has no heap guard.
    Unchecked,
    /// Every use of the package's allocator fails the execution.
    Trapped,
}

impl Tier {
    /// Returns the tier that a library with this guard supports.
    pub(crate) fn from_guard(guard: Option<LibraryGuard>) -> Self {
        if guard.is_some() { Self::Trapped } else { Self::Unchecked }
    }

    /// Returns the name, as in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Trapped => "trapped",
        }
    }
}

/// The manifest of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The version of the ABI.
    pub abi_version: AbiVersion,
    /// The fingerprint of all structure layouts.
    pub fingerprint: u64,
    /// The host features that the library requires beyond the ABI.
    pub needs: Vec<String>,
    /// The package's name.
    pub package: String,
    /// The package's version.
    pub version: String,
    /// The version of the SDK that the library was built with.
    pub sdk_version: String,
    /// The target that it was built for.
    pub target: String,
    /// How strictly heap use is checked.
    pub heap: Tier,
    /// The effect of a panic in it; `None` if not stated, which C packages may omit.
    pub panics: Option<PanicStrategy>,
    /// The operators that it describes.
    pub ops: Vec<ManifestOp>,
    /// The kernels that it contains.
    pub kernels: Vec<ManifestKernel>,
    /// The implementation libraries that it names.
    pub libraries: Vec<ManifestLibrary>,
}

/// An operator in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestOp {
    /// Its type name.
    pub name: String,
    /// Its domain; empty: the package's name.
    pub domain: String,
    /// Its inputs.
    pub inputs: Vec<ManifestPort>,
    /// Its outputs.
    pub outputs: Vec<ManifestPort>,
    /// Its parameters.
    pub params: Vec<ManifestParam>,
}

/// An input or output in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestPort {
    /// Its name.
    pub name: String,
    /// The element types that some core supports.
    pub types: TypeSet,
    /// Whether nodes may leave it out.
    pub is_optional: bool,
    /// Whether its data must be constant.
    pub is_static: bool,
    /// Whether it accepts any number of tensors.
    pub is_repeated: bool,
}

/// A parameter in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestParam {
    /// Its name.
    pub name: String,
    /// The name of the model attribute with its value.
    pub attribute: String,
    /// Its kind.
    pub kind: ParamKind,
    /// Its element types: one, except for tensors that keep their own type.
    pub types: TypeSet,
    /// Whether nodes may leave it out.
    pub is_optional: bool,
}

/// A kernel in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestKernel {
    /// The operator that it implements.
    pub op: String,
    /// The operator's domain; empty if the name is unique.
    pub domain: String,
    /// The core that it runs on.
    pub core: Core,
    /// The element types that it supports.
    pub rules: Vec<ManifestRule>,
}

/// The element types that a kernel supports for one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestRule {
    /// The port's side.
    pub side: Side,
    /// The index of the port on its side.
    pub port: usize,
    /// The supported types.
    pub wanted: Wanted,
}

/// An implementation library in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestLibrary {
    /// The core that its kernels run on.
    pub core: Core,
    /// Its path relative to the registration library.
    pub file: String,
}

impl Manifest {
    /// Returns whether the library contains only kernels.
    pub fn is_implementation(&self) -> bool {
        self.ops.is_empty() && self.libraries.is_empty() && !self.kernels.is_empty()
    }

    /// Reads the manifest of the library at `path` without running it. Returns `None` for a C package
    /// without a manifest.
    ///
    /// # Errors
    /// Fails if the file is not a library for this machine, not a package, or has another ABI version.
    pub fn read(path: &Path) -> Result<Option<Self>, OpenError> {
        Self::from_elf(path, &Elf::read(path)?)
    }

    /// Parses the manifest in `elf`, the library at `path`.
    pub(super) fn from_elf(path: &Path, elf: &Elf) -> Result<Option<Self>, OpenError> {
        if elf.manifest.is_none() && !elf.exports_c_query {
            return Err(OpenError::NotAPackage { path: path.to_owned() });
        }
        elf.manifest.as_ref().map(|text| Self::parse(path, text)).transpose()
    }

    /// Refuses a library that this runtime cannot open.
    pub(super) fn check(&self, path: &Path) -> Result<(), OpenError> {
        let path_of = || path.to_owned();
        let Some(expected) = self.abi_version.fingerprint() else {
            return Err(OpenError::AbiVersion { path: path_of(), found: self.abi_version });
        };
        if self.fingerprint != expected {
            let found = self.fingerprint;
            return Err(OpenError::Layouts { path: path_of(), found, expected });
        }
        if let Some(need) = self.needs.iter().find(|need| !NEEDS.contains(&need.as_str())) {
            return Err(OpenError::Need { path: path_of(), need: need.clone() });
        }
        let expected = host_target();
        if self.target != expected {
            let found = self.target.clone();
            return Err(OpenError::Target { path: path.to_owned(), found, expected });
        }
        if self.panics == Some(PanicStrategy::Abort) {
            return Err(OpenError::Aborts { path: path.to_owned() });
        }
        Ok(())
    }

    fn parse(path: &Path, text: &[u8]) -> Result<Self, OpenError> {
        let refuse = |misfit: JsonError| {
            let reason = misfit.to_string();
            OpenError::Manifest { path: path.to_owned(), reason }
        };
        let document: Value = serde_json::from_slice(text).map_err(|e| refuse(e.into()))?;
        let root = Node::root(&document);
        // The rest of a manifest of another version may have any content.
        let found = abi_version(&root).map_err(refuse)?;
        if found.fingerprint().is_none() {
            return Err(OpenError::AbiVersion { path: path.to_owned(), found });
        }
        Self::from_json(&root, found).map_err(refuse)
    }

    fn from_json(root: &Node<'_>, abi_version: AbiVersion) -> Result<Self, JsonError> {
        let text = |node: &Node<'_>| match node.as_text() {
            Some(text) => Ok(text.to_owned()),
            None => Err(node.unexpected("a string")),
        };
        Ok(Self {
            abi_version,
            needs: root.list("needs", text)?,
            fingerprint: fingerprint(root)?,
            package: root.text("package")?.to_owned(),
            version: root.text("version")?.to_owned(),
            sdk_version: root.text("sdk_version")?.to_owned(),
            target: root.text("target")?.to_owned(),
            heap: tier(root)?,
            panics: panics(root)?,
            ops: root.list("ops", op)?,
            kernels: root.list("kernels", kernel)?,
            libraries: root.list("libraries", library)?,
        })
    }
}

/// Parses a version such as `2.0`. Manifests of the first version have the number 1.
fn abi_version(root: &Node<'_>) -> Result<AbiVersion, JsonError> {
    let node = root.member("abi_version")?;
    let parts = node.as_text().and_then(|text| text.split_once('.'));
    let version = parts.and_then(|(major, minor)| {
        Some(AbiVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    });
    if let Some(version) = version {
        return Ok(version);
    }
    let number = root.number("abi_version").ok().and_then(|number| u16::try_from(number).ok());
    match number {
        Some(major) => Ok(AbiVersion { major, minor: 0 }),
        None => Err(node.unexpected("a version, such as \"2.0\"")),
    }
}

fn fingerprint(root: &Node<'_>) -> Result<u64, JsonError> {
    let text = root.text("fingerprint")?;
    let is_hex = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let number = if is_hex { u64::from_str_radix(text, 16).ok() } else { None };
    match number {
        Some(number) => Ok(number),
        None => Err(root.member("fingerprint")?.unexpected("16 hexadecimal digits")),
    }
}

fn tier(root: &Node<'_>) -> Result<Tier, JsonError> {
    let text = root.text("heap")?;
    match [Tier::Unchecked, Tier::Trapped].into_iter().find(|t| t.name() == text) {
        Some(tier) => Ok(tier),
        None => Err(root.member("heap")?.unexpected("\"unchecked\" or \"trapped\"")),
    }
}

fn panics(root: &Node<'_>) -> Result<Option<PanicStrategy>, JsonError> {
    let Some(node) = root.optional("panic")? else { return Ok(None) };
    let known = [PanicStrategy::Unwind, PanicStrategy::Abort];
    match known.into_iter().find(|p| node.as_text() == Some(p.name())) {
        Some(strategy) => Ok(Some(strategy)),
        None => Err(node.unexpected("\"unwind\" or \"abort\"")),
    }
}

fn op(node: &Node<'_>) -> Result<ManifestOp, JsonError> {
    Ok(ManifestOp {
        name: node.text("name")?.to_owned(),
        domain: node.text("domain")?.to_owned(),
        inputs: node.list("inputs", port)?,
        outputs: node.list("outputs", port)?,
        params: node.list("params", param)?,
    })
}

fn port(node: &Node<'_>) -> Result<ManifestPort, JsonError> {
    Ok(ManifestPort {
        name: node.text("name")?.to_owned(),
        types: type_set(node)?,
        is_optional: node.boolean("optional")?,
        is_static: node.boolean("static")?,
        is_repeated: node.boolean("repeated")?,
    })
}

fn param(node: &Node<'_>) -> Result<ManifestParam, JsonError> {
    let kind = node.member("kind")?;
    let name = node.text("name")?;
    let attribute = match node.optional("attribute")? {
        Some(_) => node.text("attribute")?,
        None => name,
    };
    Ok(ManifestParam {
        name: name.to_owned(),
        attribute: attribute.to_owned(),
        kind: kind
            .as_text()
            .and_then(ParamKind::from_name)
            .ok_or_else(|| kind.unexpected("a kind of parameter, such as \"scalar\""))?,
        types: type_set(node)?,
        is_optional: node.boolean("optional")?,
    })
}

fn kernel(node: &Node<'_>) -> Result<ManifestKernel, JsonError> {
    Ok(ManifestKernel {
        op: node.text("op")?.to_owned(),
        domain: match node.optional("domain")? {
            Some(_) => node.text("domain")?.to_owned(),
            None => String::new(),
        },
        core: node.core("core")?,
        rules: node.list("ports", rule)?,
    })
}

fn rule(node: &Node<'_>) -> Result<ManifestRule, JsonError> {
    let side = match node.text("side")? {
        "input" => Side::Input,
        "output" => Side::Output,
        _ => return Err(node.member("side")?.unexpected("\"input\" or \"output\"")),
    };
    let wanted = if node.optional("same_as_input")?.is_some() {
        Wanted::SameAsInput(index(node, "same_as_input")?)
    } else if node.optional("types")?.is_some() {
        Wanted::Types(type_set(node)?)
    } else {
        Wanted::AsDeclared
    };
    Ok(ManifestRule { side, port: index(node, "port")?, wanted })
}

fn index(node: &Node<'_>, key: &str) -> Result<usize, JsonError> {
    match u16::try_from(node.number(key)?) {
        Ok(index) => Ok(usize::from(index)),
        Err(_) => Err(node.member(key)?.unexpected("a port index")),
    }
}

fn library(node: &Node<'_>) -> Result<ManifestLibrary, JsonError> {
    Ok(ManifestLibrary { core: node.core("core")?, file: node.text("file")?.to_owned() })
}

fn type_set(node: &Node<'_>) -> Result<TypeSet, JsonError> {
    let types = node.list("types", element_type)?;
    Ok(types.into_iter().fold(TypeSet::EMPTY, |set, t| set.or(t.set())))
}

fn element_type(node: &Node<'_>) -> Result<DType, JsonError> {
    let found = node.as_text().and_then(DType::from_name);
    found.ok_or_else(|| node.unexpected("an element type, such as \"f32\""))
}
