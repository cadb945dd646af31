//! A checked package in, the files of its folder out. Nothing here touches the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::{
    config::{Core, DSP_ARCHS, Op, Package},
    names,
    source::Source,
    stamp::Stamp,
    templates::{Printer, RenderError, Templates, TemplatesOwner},
    view::{self, GpuSource, LibraryView, MakeTarget, OPENCL_SUPPORT, OpView, PackageView},
};

/// What a plan depends on beside the package.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// How the package's `Cargo.toml` names the SDK.
    pub sdk: Sdk<'a>,
    /// The config files that were read.
    pub configs: &'a [Source<'a>],
    /// What prints the files.
    pub templates: &'a Templates,
    /// What the package's folder holds already.
    pub there: &'a There,
}

/// What a folder holds already, as far as a plan depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct There {
    /// Whether files were printed from references, so that what they use stays.
    pub has_reference: bool,
    /// The texts of the author's files of operators, by path.
    pub files: BTreeMap<String, String>,
}

/// What says that a file of kernels takes the architecture of the crate that it is in.
const FOLLOWS: &str = "crate::ARCH";

impl There {
    /// The path and the text of the author's file of an operator for an architecture of the DSP.
    fn dsp_file(&self, op: &Op, core: Core) -> Option<(&str, &str)> {
        let path = format!("{core}/src/ops/{}.rs", names::module_name(&op.name));
        let (path, text) = self.files.get_key_value(&path)?;
        Some((path, text))
    }

    /// Whether the package has a file of the operator's formula. Kernels of earlier versions contain their formula, so the file is
    /// printed only where a kernel is new or uses it.
    fn has_formula(&self, op: &Op) -> bool {
        let uses = format!("formulas::{}", names::module_name(&op.name));
        let is_user = |path: String| self.files.get(&path).is_none_or(|text| text.contains(&uses));
        let is_printed = op.reference.is_some() && self.files_of(op).any(is_user);
        is_printed || self.files.contains_key(&formula_path(op))
    }

    /// The files in Rust that an operator has, those of kernels on their cores.
    fn files_of(&self, op: &Op) -> impl Iterator<Item = String> {
        let module = names::module_name(&op.name);
        let own = op.cores.iter().filter(|core| shared_with(op, **core, self).is_none());
        let folders = own.map(|core| {
            if core.is_one_op_per_library() { format!("{core}/{module}") } else { core.to_string() }
        });
        let folders: Vec<String> = ["reg".to_owned()].into_iter().chain(folders).collect();
        folders.into_iter().map(move |folder| format!("{folder}/src/ops/{module}.rs"))
    }

    /// How the operator's OpenCL C gets at what all of it uses: where one of its two files is there, as that one does.
    fn gpu_source(&self, op: &Op) -> GpuSource {
        let module = names::module_name(&op.name);
        let rust = self.files.get(&format!("{}/src/ops/{module}.rs", Core::Gpu));
        let opencl = self.files.get(&format!("{}/kernels/{module}.cl", Core::Gpu));
        let is_joined = match (rust, opencl) {
            (Some(rust), _) => rust.contains(OPENCL_SUPPORT),
            (None, Some(opencl)) => !opencl.contains(PASTED),
            (None, None) => true,
        };
        if is_joined { GpuSource::Joined } else { GpuSource::Pasted }
    }
}

/// What OpenCL C has that came with what it uses.
const PASTED: &str = "} List;";

/// The file of an operator's formula.
fn formula_path(op: &Op) -> String {
    format!("common/formulas/{}.rs", names::module_name(&op.name))
}

/// How a package names the SDK that it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk<'a> {
    /// By the folder of `udo-api`: the package moves with it.
    Folder(&'a str),
    /// By the version alone: where the SDK is says `.cargo/config.toml`, on each machine for itself.
    Version(&'a str),
}

impl Sdk<'_> {
    /// The value in the table of dependencies of `udo-api`, or of a crate in a folder of it.
    fn dependency(self, below: &str) -> String {
        match self {
            Self::Folder(udo_api) => {
                format!("{{ path = {} }}", toml_string(&format!("{udo_api}{below}")))
            }
            Self::Version(version) => toml_string(version),
        }
    }
}

/// The files of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The package's name, and that of its folder.
    pub package: String,
    /// Whose templates printed the files.
    pub templates: TemplatesOwner,
    /// The configs among the files, in the order in which they were read.
    pub configs: Vec<String>,
    /// The files, sorted by path.
    pub files: Vec<File>,
    /// Files that wait for code although the operator has a reference.
    pub notes: Vec<Note>,
    /// Files that are new, and begin as those of architectures that the config has no more.
    pub inherited: Vec<Inherited>,
    /// Generated files that earlier versions had elsewhere.
    pub moved: Vec<Moved>,
}

/// A generated file that an earlier version had elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Where it was.
    pub from: String,
    /// Where it is.
    pub to: String,
}

/// A new file with the text of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// The file.
    pub path: String,
    /// The other one.
    pub from: String,
}

/// Why nothing is printed into a file from the operator's reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// One file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where, below the package's folder, with `/` between the parts.
    pub path: String,
    /// What it holds.
    pub contents: String,
    /// Who may change it.
    pub owner: Owner,
}

/// Who may change a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The generator: written anew each time.
    Generator,
    /// The author: written once, for this part of the config.
    Author(Stamp),
    /// The author: written once, whatever the config says.
    AuthorAlone,
}

/// Why a package cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A template did not print.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Two files would have the same path.
    #[error("package {package} would have two files {path:?}")]
    Twice {
        /// The package.
        package: String,
        /// The path.
        path: String,
    },
}

/// The files of `package`.
///
/// # Errors
/// A template does not print, or two files would have the same path.
pub fn plan(package: &Package, options: &Options<'_>) -> Result<Tree, TreeError> {
    let configs = config_files(package, options.configs);
    let config_paths: Vec<String> = configs.iter().map(|file| file.path.clone()).collect();
    let libraries = libraries(package, options.there);
    let mut views: Vec<LibraryView> = libraries.iter().map(|l| l.view.clone()).collect();
    let has_formula = |op: &&Op| options.there.has_formula(op);
    let mut registration = view::registration(package, &views);
    registration.use_formulas(package.ops.iter().filter(has_formula));
    views.insert(0, registration.clone());
    let has_reference =
        options.there.has_reference || package.ops.iter().any(|op| op.reference.is_some());
    let package_view = PackageView {
        name: package.name.clone(),
        version: package.version.clone(),
        sdk_version: env!("CARGO_PKG_VERSION"),
        configs: config_paths.join(", "),
        udo_api: options.sdk.dependency(""),
        common: format!("{}_common", names::to_snake_case(&package.name)),
        udo_testing: options.sdk.dependency("/testing"),
        has_reference,
        has_params: views.iter().any(|library| !library.params.is_empty()),
        has_opencl: has_reference && package.cores.contains(&Core::Gpu),
        support: udo_reference::support(),
        constants_support: udo_reference::constants_support(),
        opencl_support: udo_reference::opencl_support(),
        formulas: view::FormulaView::all(package),
        targets: targets(&views),
        libraries: views,
    };
    let mut sheet = Sheet {
        printer: options.templates.printer()?,
        package: &package_view,
        files: configs,
        notes: Vec::new(),
        inherited: Vec::new(),
        moved: Vec::new(),
    };
    for (template, path) in [
        ("package/Cargo.toml.jinja", "Cargo.toml"),
        ("package/Makefile.jinja", "Makefile"),
        ("package/README.md.jinja", "README.md"),
        ("package/gitignore.jinja", ".gitignore"),
        ("package/rustfmt.toml.jinja", "rustfmt.toml"),
    ] {
        sheet.add(template, path, None, None, Owner::Generator)?;
    }
    for (template, path) in [
        ("common/Cargo.toml.jinja", "common/Cargo.toml"),
        ("common/lib.rs.jinja", "common/src/lib.rs"),
    ] {
        sheet.add(template, path, None, None, Owner::AuthorAlone)?;
    }

    sheet.add_shared(&libraries)?;
    sheet.add_crate("reg", &registration)?;
    for op in &package.ops {
        let (schema, file) = view::schema(op, package.domain.as_deref());
        let path = format!("reg/src/schema/{}.rs", schema.module);
        sheet.add("reg/schema.rs.jinja", &path, None, Some(&schema), Owner::Generator)?;
        sheet.add_op("reg", &registration, &file, Stamp::of(op, None))?;
        sheet.add_formula(op, options.there)?;
    }
    for library in &libraries {
        sheet.add_library(library, options.there)?;
    }
    sheet.finish(config_paths, options.templates.owner())
}

/// Where there is what all files share that are printed from references.
pub(crate) const SUPPORT: &str = "common/reference.rs";

struct Library<'a> {
    view: LibraryView,
    core: Core,
    ops: Vec<&'a Op>,
}

/// The implementation libraries: one per core, or per operator on DSPs before V68.
fn libraries<'a>(package: &'a Package, there: &There) -> Vec<Library<'a>> {
    let mut libraries = Vec::new();
    for &core in &package.cores {
        let ops: Vec<&Op> = package.ops.iter().filter(|op| op.cores.contains(&core)).collect();
        if core.is_one_op_per_library() {
            libraries.extend(ops.into_iter().map(|op| {
                let mut view = LibraryView::of_kernels(package, core, &[op], Some(op));
                view.use_formulas([op].into_iter().filter(|op| there.has_formula(op)));
                Library { view, core, ops: vec![op] }
            }));
        } else {
            let mut view = LibraryView::of_kernels(package, core, &ops, None);
            view.use_formulas(ops.iter().copied().filter(|op| there.has_formula(op)));
            for op in &ops {
                if let Some(from) = shared_with(op, core, there) {
                    view.take(op, from);
                }
            }
            libraries.push(Library { view, core, ops });
        }
    }
    libraries
}

/// The first architecture of the DSP whose file of the operator is that of `core` as well: where the author has written none for
/// `core`, and the other takes the architecture of the crate that it is in.
fn shared_with(op: &Op, core: Core, there: &There) -> Option<Core> {
    let first = op.cores.iter().copied().find(|core| is_sharing(*core))?;
    let is_other = core != first && is_sharing(core) && there.dsp_file(op, core).is_none();
    let follows = there.dsp_file(op, first).is_none_or(|(_, text)| text.contains(FOLLOWS));
    let is_alike = Stamp::of(op, Some(core)) == Stamp::of(op, Some(first));
    (is_other && follows && is_alike).then_some(first)
}

/// The author's file of the first architecture that the operator has no more, where there is none for `core`, which that was shared
/// with: its path and text.
fn gone_with_its_architecture<'a>(
    op: &Op,
    core: Core,
    there: &'a There,
) -> Option<(&'a str, &'a str)> {
    if !is_sharing(core) || there.dsp_file(op, core).is_some() {
        return None;
    }
    let archs = DSP_ARCHS.iter().map(|arch| Core::Dsp(*arch));
    let gone = archs.filter(|other| is_sharing(*other) && !op.cores.contains(other));
    let mut files = gone.filter_map(|other| there.dsp_file(op, other));
    files.find(|(_, text)| text.contains(FOLLOWS))
}

/// Whether architectures of the DSP like this one share their files of kernels.
fn is_sharing(core: Core) -> bool {
    matches!(core, Core::Dsp(_)) && !core.is_one_op_per_library()
}

/// The template folder of a core.
fn kind(core: Core) -> &'static str {
    match core {
        Core::Cpu => "cpu",
        Core::Gpu => "gpu",
        Core::Dsp(_) if core.is_one_op_per_library() => "dsp_v6x",
        Core::Dsp(_) => "dsp",
    }
}

fn targets(libraries: &[LibraryView]) -> Vec<MakeTarget> {
    let of = |name: &'static str| {
        let is_part = |l: &&LibraryView| l.core == "reg" || l.core.starts_with(name);
        let parts = libraries.iter().filter(is_part);
        let crates: Vec<String> = parts.map(|l| format!("-p {}", l.crate_name)).collect();
        MakeTarget { name, crates: crates.join(" ") }
    };
    let has = |name: &&'static str| libraries.iter().any(|l| l.core.starts_with(name));
    ["reg", "cpu", "gpu", "dsp"].into_iter().filter(has).map(of).collect()
}

/// The config files that define the package, byte for byte, under names that stay apart.
fn config_files(package: &Package, configs: &[Source<'_>]) -> Vec<File> {
    let mut taken = BTreeSet::new();
    let mut files = Vec::new();
    for source in configs.iter().filter(|source| package.sources.iter().any(|p| p == source.path)) {
        let name = source.path.file_name().map_or("config.json".into(), |n| n.to_string_lossy());
        let mut path = format!("config/{name}");
        let mut number = 2;
        while !taken.insert(path.clone()) {
            path = format!("config/{number}_{name}");
            number += 1;
        }
        files.push(File { path, contents: source.text.to_owned(), owner: Owner::Generator });
    }
    files
}

/// A basic string of TOML, with its quotes.
pub fn toml_string(text: &str) -> String {
    use std::fmt::Write as _;
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The files printed so far.
struct Sheet<'a> {
    printer: Printer<'a>,
    package: &'a PackageView,
    files: Vec<File>,
    notes: Vec<Note>,
    inherited: Vec<Inherited>,
    moved: Vec<Moved>,
}

/// What a template may name.
#[derive(Serialize)]
struct Names<'a> {
    package: &'a PackageView,
    library: Option<&'a LibraryView>,
    op: Option<&'a OpView>,
}

impl Sheet<'_> {
    fn add(
        &mut self,
        template: &str,
        path: &str,
        library: Option<&LibraryView>,
        op: Option<&OpView>,
        owner: Owner,
    ) -> Result<(), TreeError> {
        let contents =
            self.printer.print(template, Names { package: self.package, library, op })?;
        self.files.push(File { path: path.to_owned(), contents, owner });
        Ok(())
    }

    /// What files share that are printed from references.
    fn add_shared(&mut self, libraries: &[Library<'_>]) -> Result<(), TreeError> {
        if !self.package.has_reference {
            return Ok(());
        }
        let mut files = vec![
            ("common/reference.rs.jinja", SUPPORT.to_owned()),
            ("reg/inference.rs.jinja", "reg/src/inference.rs".to_owned()),
        ];
        let gpu = libraries.iter().find(|library| library.core == Core::Gpu);
        if let Some(gpu) = gpu {
            let constants = format!("{}/src/constants.rs", gpu.view.folder);
            files.push(("gpu/constants.rs.jinja", constants));
            files.push(("common/reference.cl.jinja", OPENCL_SUPPORT.to_owned()));
        }
        for (template, path) in files {
            self.add(template, &path, None, None, Owner::Generator)?;
        }
        Ok(())
    }

    /// What the operator computes on all cores, from its reference; without one what was printed from it before.
    fn add_formula(&mut self, op: &Op, there: &There) -> Result<(), TreeError> {
        if !there.has_formula(op) {
            return Ok(());
        }
        let (path, owner) = (formula_path(op), Owner::Author(Stamp::of_formula(op)));
        match (view::formula(op), there.files.get(&path)) {
            (Some(formula), _) => {
                self.add("common/formula.rs.jinja", &path, None, Some(&formula), owner)
            }
            (None, Some(text)) => {
                self.files.push(File { path, contents: text.clone(), owner });
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// The struct of an operator's parameters, once for all cores whose kernels have one.
    fn add_params(&mut self, library: &LibraryView, op: &OpView) -> Result<(), TreeError> {
        let path = format!("common/params/{}.rs", op.module);
        let from = format!("{}/src/params/{}.rs", library.folder, op.module);
        self.moved.push(Moved { from, to: path.clone() });
        if self.files.iter().any(|file| file.path == path) {
            return Ok(());
        }
        self.add("package/params.rs.jinja", &path, None, Some(op), Owner::Generator)
    }

    fn add_crate(&mut self, kind: &str, library: &LibraryView) -> Result<(), TreeError> {
        let folder = &library.folder;
        let path = format!("{folder}/Cargo.toml");
        self.add("package/member.toml.jinja", &path, Some(library), None, Owner::Generator)?;
        let template = format!("{kind}/lib.rs.jinja");
        let path = format!("{folder}/src/lib.rs");
        self.add(&template, &path, Some(library), None, Owner::Generator)
    }

    /// A crate of kernels.
    fn add_library(
        &mut self,
        Library { view, core, ops }: &Library<'_>,
        there: &There,
    ) -> Result<(), TreeError> {
        self.add_crate(kind(*core), view)?;
        for op in ops.iter().filter(|op| !view.takes(op)) {
            let file = match core {
                Core::Cpu => view::cpu(op),
                Core::Gpu => view::gpu(op, there.gpu_source(op)),
                Core::Dsp(arch) => view::dsp(op, *arch),
            };
            let stamp = Stamp::of(op, Some(*core));
            if *core == Core::Gpu {
                let path = format!("{}/kernels/{}.cl", view.folder, file.module);
                let owner = Owner::Author(stamp.clone());
                self.add("gpu/kernel.cl.jinja", &path, Some(view), Some(&file), owner)?;
            }
            if file.params.is_some() {
                self.add_params(view, &file)?;
            }
            match gone_with_its_architecture(op, *core, there) {
                Some((from, text)) => {
                    let path = format!("{}/src/ops/{}.rs", view.folder, file.module);
                    self.inherit(&path, from, text, stamp);
                }
                None => self.add_op(kind(*core), view, &file, stamp)?,
            }
        }
        Ok(())
    }

    fn add_op(
        &mut self,
        kind: &str,
        library: &LibraryView,
        op: &OpView,
        stamp: Stamp,
    ) -> Result<(), TreeError> {
        let path = format!("{}/src/ops/{}.rs", library.folder, op.module);
        let template = format!("{kind}/op.rs.jinja");
        let note = op.note.iter().map(|why| Note { path: path.clone(), reason: why.clone() });
        self.notes.extend(note);
        self.add(&template, &path, Some(library), Some(op), Owner::Author(stamp))
    }

    /// A file of kernels with the text of another.
    fn inherit(&mut self, path: &str, from: &str, text: &str, stamp: Stamp) {
        let (path, from) = (path.to_owned(), from.to_owned());
        let contents = text.to_owned();
        self.files.push(File { path: path.clone(), contents, owner: Owner::Author(stamp) });
        self.inherited.push(Inherited { path, from });
    }

    fn finish(
        mut self,
        configs: Vec<String>,
        templates: TemplatesOwner,
    ) -> Result<Tree, TreeError> {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        let package = self.package.name.clone();
        let twins = self.files.windows(2).find_map(|pair| match pair {
            [a, b] if a.path == b.path => Some(a.path.clone()),
            _ => None,
        });
        match twins {
            Some(path) => Err(TreeError::Twice { package, path }),
            None => Ok(Tree {
                package,
                templates,
                configs,
                files: self.files,
                notes: self.notes,
                inherited: self.inherited,
                moved: self.moved,
            }),
        }
    }
}

impl Tree {
    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| Path::new(&file.path) == Path::new(path))
    }
}
