//! Plans the files of a checked package's folder. Nothing here accesses the disk.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use minijinja::value::{Serde, Value};
use serde::Serialize;

use crate::{
    config::{Core, DSP_ARCHS, Op, Package},
    names,
    source::Source,
    stamp::Stamp,
    templates::{Printer, RenderError, Templates, TemplatesOwner},
    view::{self, GpuSource, LibraryView, MakeTarget, OPENCL_SUPPORT, OpView, PackageView},
};

/// The inputs of a plan in addition to the package.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// How the package's `Cargo.toml` names the SDK.
    pub sdk: Sdk<'a>,
    /// The config files.
    pub configs: &'a [Source<'a>],
    /// The templates that print the files.
    pub templates: &'a Templates,
    /// The current contents of the package's folder.
    pub there: &'a There,
}

/// The contents of a folder that a plan depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct There {
    /// Whether files were printed from references, so that the code they use must stay.
    pub has_reference: bool,
    /// The contents of the author's operator files, by path.
    pub files: BTreeMap<String, String>,
}

/// The text by which a file of kernels uses the architecture of its crate.
const FOLLOWS: &str = "crate::ARCH";

impl There {
    /// Returns the path and the text of the author's operator file for a DSP architecture.
    fn dsp_file(&self, op: &Op, core: Core) -> Option<(&str, &str)> {
        let path = format!("{core}/src/ops/{}.rs", names::module_name(&op.name));
        let (path, text) = self.files.get_key_value(&path)?;
        Some((path, text))
    }

    /// Whether the package has a file of the operator's formula. Kernels of earlier versions contain their formula, so
    /// the file is printed only if a kernel is new or uses it.
    fn has_formula(&self, op: &Op) -> bool {
        let uses = format!("formulas::{}", names::module_name(&op.name));
        let is_user = |path: String| self.files.get(&path).is_none_or(|text| text.contains(&uses));
        let is_printed = op.reference.is_some() && self.files_of(op).any(is_user);
        is_printed || self.files.contains_key(&formula_path(op))
    }

    /// Iterates over the Rust files of an operator's kernels.
    fn files_of(&self, op: &Op) -> impl Iterator<Item = String> {
        let module = names::module_name(&op.name);
        let own = op.cores.iter().filter(|core| shared_with(op, **core, self).is_none());
        let folders = own.map(|core| {
            if core.is_one_op_per_library() { format!("{core}/{module}") } else { core.to_string() }
        });
        let folders: Vec<String> = ["reg".to_owned()].into_iter().chain(folders).collect();
        folders.into_iter().map(move |folder| format!("{folder}/src/ops/{module}.rs"))
    }

    /// Returns how the operator's OpenCL C includes the shared code; existing files keep their way.
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

/// A text that OpenCL C with a pasted copy of the shared code contains.
const PASTED: &str = "} List;";

/// Returns the path of an operator's formula file.
fn formula_path(op: &Op) -> String {
    format!("common/formulas/{}.rs", names::module_name(&op.name))
}

/// How a package depends on the SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk<'a> {
    /// By the folder of `udo-api`, relative to the package.
    Folder(&'a str),
    /// By version only; `.cargo/config.toml` on each machine gives the SDK's path.
    Version(&'a str),
}

impl Sdk<'_> {
    /// Returns the TOML value of the dependency on `udo-api`, or on a crate in a subfolder of it.
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
    /// The package's name, which is also the folder's name.
    pub package: String,
    /// The owner of the templates that printed the files.
    pub templates: TemplatesOwner,
    /// The configs among the files, in reading order.
    pub configs: Vec<String>,
    /// The files, sorted by path.
    pub files: Vec<File>,
    /// Files that wait for the author's code although the operator has a reference.
    pub notes: Vec<Note>,
    /// New files that start as copies of the files of removed architectures.
    pub inherited: Vec<Inherited>,
    /// Generated files that earlier versions had at another path.
    pub moved: Vec<Moved>,
}

/// A generated file that an earlier version had at another path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The earlier path.
    pub from: String,
    /// The current path.
    pub to: String,
}

/// A new file with the text of another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// The file.
    pub path: String,
    /// The other one.
    pub from: String,
}

/// Why nothing is printed from the operator's reference into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// One file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The path relative to the package's folder, with `/` as separator.
    pub path: String,
    /// The contents.
    pub contents: String,
    /// The owner of the file.
    pub owner: Owner,
}

/// The owner of a file, who may change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The generator, which writes it each time.
    Generator,
    /// The author; the generator writes it once, for this part of the config.
    Author(Stamp),
    /// The author; the generator writes it once, independent of the config.
    AuthorAlone,
}

/// Why a package cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A template failed.
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

/// Plans the files of `package`.
///
/// # Errors
/// A template fails, or two files have the same path.
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
        package_value: Value::from(Serde(&package_view)),
        library_values: HashMap::new(),
        params: HashSet::new(),
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
        sheet.add_op("reg", &registration, &file, Stamp::for_op(op, None))?;
        sheet.add_formula(op, options.there)?;
    }
    for library in &libraries {
        sheet.add_library(library, options.there)?;
    }
    sheet.finish(config_paths, options.templates.owner())
}

/// The file shared by all files printed from references.
pub(crate) const SUPPORT: &str = "common/reference.rs";

struct Library<'a> {
    view: LibraryView,
    core: Core,
    ops: Vec<&'a Op>,
}

/// Lists the implementation libraries: one per core, or per operator on DSPs before V68.
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

/// Returns the first DSP architecture whose operator file `core` uses too: if the author has no file for `core`, and
/// the other file uses the architecture of its crate.
fn shared_with(op: &Op, core: Core, there: &There) -> Option<Core> {
    let first = op.cores.iter().copied().find(|core| is_sharing(*core))?;
    let is_other = core != first && is_sharing(core) && there.dsp_file(op, core).is_none();
    let follows = there.dsp_file(op, first).is_none_or(|(_, text)| text.contains(FOLLOWS));
    let is_alike = Stamp::for_op(op, Some(core)) == Stamp::for_op(op, Some(first));
    (is_other && follows && is_alike).then_some(first)
}

/// Returns path and text of the author's file for the first removed architecture, if `core` shared it and has no file
/// of its own.
fn file_of_removed_architecture<'a>(
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

/// Whether DSP architectures like this one share their kernel files.
fn is_sharing(core: Core) -> bool {
    matches!(core, Core::Dsp(_)) && !core.is_one_op_per_library()
}

/// Returns the template folder of a core.
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

/// Returns the config files that define the package, unchanged, under distinct names.
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

/// Returns a basic TOML string with its quotes.
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
    /// The package and its libraries, by folder, as values of templates. They list all operators, so converting them once per file
    /// would take the square of the number of operators.
    package_value: Value,
    library_values: HashMap<String, Value>,
    /// The paths of printed parameter files.
    params: HashSet<String>,
    files: Vec<File>,
    notes: Vec<Note>,
    inherited: Vec<Inherited>,
    moved: Vec<Moved>,
}

/// The variables of a template.
#[derive(Serialize)]
struct Names<'a> {
    package: Value,
    library: Option<Value>,
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
        let library = library.map(|library| {
            let known = self.library_values.entry(library.folder.clone());
            known.or_insert_with(|| Value::from(Serde(library))).clone()
        });
        let names = Names { package: self.package_value.clone(), library, op };
        let contents = self.printer.print(template, names)?;
        self.files.push(File { path: path.to_owned(), contents, owner });
        Ok(())
    }

    /// Adds the files shared by all code printed from references.
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

    /// Adds the operator's core-independent formula, from its reference; without a reference the file of an earlier
    /// config stays.
    fn add_formula(&mut self, op: &Op, there: &There) -> Result<(), TreeError> {
        if !there.has_formula(op) {
            return Ok(());
        }
        let (path, owner) = (formula_path(op), Owner::Author(Stamp::for_formula(op)));
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

    /// Adds the struct of an operator's parameters, once for all cores whose kernels have one.
    fn add_params(&mut self, library: &LibraryView, op: &OpView) -> Result<(), TreeError> {
        let path = format!("common/params/{}.rs", op.module);
        let from = format!("{}/src/params/{}.rs", library.folder, op.module);
        self.moved.push(Moved { from, to: path.clone() });
        if !self.params.insert(path.clone()) {
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

    /// Adds a crate of kernels.
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
            let stamp = Stamp::for_op(op, Some(*core));
            if *core == Core::Gpu {
                let path = format!("{}/kernels/{}.cl", view.folder, file.module);
                let owner = Owner::Author(stamp.clone());
                self.add("gpu/kernel.cl.jinja", &path, Some(view), Some(&file), owner)?;
            }
            if file.params.is_some() {
                self.add_params(view, &file)?;
            }
            match file_of_removed_architecture(op, *core, there) {
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

    /// Adds a kernel file with the text of another file.
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
    /// Returns the file at `path`, which has `/` between its parts.
    pub fn file(&self, path: &str) -> Option<&File> {
        let index = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(index)
    }
}
