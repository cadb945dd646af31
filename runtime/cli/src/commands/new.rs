//! `udo new`: configs in, package folders out.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use udo_generator::{
    ExistingFolder, Mode, Options, Report, Sdk, Source, Templates, Update, WriteError,
    config::Package,
};

use super::build::Build;
use super::check::Check;
use super::{Run, own, shell_word};
use crate::output::{Failure, Outcome, print_json};
use crate::root;
use crate::unchecked::AllowUnchecked;

/// Generate operator packages from UDO configs
///
/// Writes a Cargo workspace for each package, with a registration library and a library for each
/// core.
///
/// Files under src/ops/ and kernels/ are yours. They are written once and never overwritten. After
/// you change a config, run the command again: it updates the generated files and lists your files
/// that no longer match the config.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo new Softmax_Htp.json                    writes ./SoftmaxUdoPackage
  udo new Softmax_Htp.json --check            generates, builds and checks the package
  udo new SoftmaxUdoPackage --accept          updates a package from the configs that it keeps")]
#[expect(
    clippy::struct_excessive_bools,
    clippy::option_option,
    reason = "fields are flags, and their comments are help text"
)]
pub(crate) struct New {
    /// UDO configs, or a package folder to update
    ///
    /// Configs are JSON files, or operator definitions in XML. If several configs name the same
    /// package, their operators are merged. A package folder is updated from the configs in its
    /// config/ folder.
    #[arg(value_name = "CONFIG", required_unless_present_any = ["named", "print_templates", "schema"])]
    configs: Vec<PathBuf>,

    /// Read this UDO config
    ///
    /// The same as an argument without a flag. May be given several times.
    #[arg(short = 'p', long = "config", value_name = "FILE")]
    named: Vec<PathBuf>,

    /// Create package folders in this folder [default: .]
    ///
    /// Overrides `UDO_PACKAGE_PATH` in the config.
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Write into a folder that `udo new` did not create
    ///
    /// If a generated file would replace an existing one, the existing file is renamed: its name
    /// gets the suffix `.edited`. Files under src/ops/ and kernels/ are not changed.
    #[arg(short, long)]
    force: bool,

    /// Mark your files as up to date with the config
    ///
    /// Use this flag after you have adapted your files to a changed config. It changes nothing but
    /// a fingerprint in each file.
    #[arg(long)]
    accept: bool,

    /// Build each package and run the conformance suite
    ///
    /// The same as `udo build` followed by `udo check`.
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    check: bool,

    #[command(flatten)]
    allow: AllowUnchecked,

    /// Report what would be done, but write nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,

    /// Accept vendor configs that deviate from the grammar
    ///
    /// Each deviation causes a warning.
    #[arg(long)]
    compat: bool,

    /// Replace built-in templates by those in this folder
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,

    /// List the built-in templates, or write them to DIR
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["configs", "named", "force", "dry_run"])]
    print_templates: Option<Option<PathBuf>>,

    /// Print the JSON Schema of configs
    ///
    /// Editors use it to complete and check configs. Save it to a file and name the file in a
    /// config as `"$schema"`.
    #[arg(long, conflicts_with_all = ["configs", "named", "force", "dry_run", "print_templates"])]
    schema: bool,
}

impl Run for New {
    fn run(self) -> Outcome {
        if let Some(dir) = &self.print_templates {
            return print_templates(dir.as_deref());
        }
        if self.schema {
            outln!("{}", udo_generator::schema().trim_end());
            return Ok(());
        }
        let (texts, own) = self.read_configs()?;
        let sources: Vec<Source<'_>> =
            texts.iter().map(|(path, text)| Source { path, text }).collect();
        let mode = if self.compat { Mode::Compat } else { Mode::Strict };
        let (config, warnings) = udo_generator::read(&sources, mode).map_err(|error| {
            let failure = Failure::report(error.to_string());
            // It is offered where it is enough.
            let helps = !self.compat && udo_generator::read(&sources, Mode::Compat).is_ok();
            if helps { failure.help("nothing was written; --compat takes these") } else { failure }
        })?;
        for warning in &warnings {
            eprintln!("{warning}");
        }
        if config.packages.is_empty() {
            return Err(Failure::new("the config defines no package").help(
                "a config is {\"UdoPackage_0\": {\"Operators\": [..], \"UDO_PACKAGE_NAME\": ..}}",
            ));
        }
        let mut templates = Templates::embedded();
        if let Some(dir) = &self.templates {
            templates = templates.replaced_from(dir).map_err(|error| {
                Failure::new(error).help("`udo new --print-templates DIR` writes all of them")
            })?;
        }
        // Everything is planned and looked at before anything is written.
        let meant = config.packages.iter().filter(|package| own.holds(&package.name));
        let prepared: Vec<Prepared> = meant
            .map(|package| self.prepare(package, &own, &sources, &templates))
            .collect::<Result<_, _>>()?;
        let (updates, roots): (Vec<Update>, Vec<Option<PathBuf>>) =
            prepared.into_iter().map(|Prepared { update, root }| (update, root)).unzip();
        let reports = if self.dry_run {
            updates.into_iter().map(|update| update.report).collect()
        } else {
            udo_generator::apply_all(updates).map_err(write_failure)?
        };
        for (report, root) in reports.iter().zip(roots) {
            if let Some(root) = root.filter(|_| !self.dry_run) {
                root::point(&report.dir, &root)?;
            }
        }
        self.show(&reports)?;
        if self.check {
            for report in &reports {
                Build::optimized(&report.dir).run()?;
                Check::with_defaults(&report.dir, self.allow).run()?;
            }
        }
        Ok(())
    }
}

/// A package that is looked at and not yet written.
struct Prepared {
    update: Update,
    /// The SDK that cargo has to be told of.
    root: Option<PathBuf>,
}

/// The packages to generate: all that the configs define, or one that is regenerated in its own folder.
enum Target {
    All,
    Again { package: String, dir: PathBuf },
}

impl Target {
    fn holds(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Again { package, .. } => package == name,
        }
    }
}

impl New {
    /// Reads the configs. Returns their paths and contents.
    fn read_configs(&self) -> Result<(Vec<(PathBuf, String)>, Target), Failure> {
        let paths: Vec<&PathBuf> = self.configs.iter().chain(&self.named).collect();
        if let Some(folder) = paths.iter().find(|path| path.is_dir()) {
            if paths.len() > 1 || self.output.is_some() {
                return Err(Failure::usage(format!(
                    "{} is a folder: a package is made again by itself, where it is",
                    folder.display()
                ))
                .help("leave the other configs and -o out"));
            }
            let kept = own::configs(folder)?;
            let made = Target::Again { package: kept.package, dir: (*folder).clone() };
            return Ok((kept.configs, made));
        }
        let texts = paths.into_iter().map(|path| Ok((path.clone(), read(path)?)));
        Ok((texts.collect::<Result<_, Failure>>()?, Target::All))
    }

    fn prepare(
        &self,
        package: &Package,
        made: &Target,
        sources: &[Source<'_>],
        templates: &Templates,
    ) -> Result<Prepared, Failure> {
        let dir = match made {
            Target::Again { dir, .. } => dir.clone(),
            Target::All => self.folder_of(package)?,
        };
        let root = root::of_package(package)?;
        let inside = root::path_inside(&dir, &root)?;
        let sdk = inside.as_deref().map_or(Sdk::Version(udo_api::SDK_VERSION), Sdk::Folder);
        let there = udo_generator::there(&dir).map_err(write_failure)?;
        let options = Options { sdk, configs: sources, templates, there: &there };
        let tree = udo_generator::plan(package, &options)?;
        let foreign = if self.force { ExistingFolder::Adopt } else { ExistingFolder::Refuse };
        let update = udo_generator::survey(&tree, &dir, foreign).map_err(write_failure)?;
        let update = if self.accept { update.accept() } else { update };
        Ok(Prepared { update, root: inside.is_none().then_some(root) })
    }

    /// Where a package goes.
    fn folder_of(&self, package: &Package) -> Result<PathBuf, Failure> {
        let written = match (&self.output, &package.path) {
            (None, Some(path)) => Some(root::expanded(path).map_err(|error| {
                Failure::new(format!("UDO_PACKAGE_PATH of {}: {error}", package.name))
                    .help("set the variable, or choose a folder with -o")
            })?),
            (Some(_), _) | (None, None) => None,
        };
        let output = self.output.as_deref().or(written.as_deref());
        Ok(match output {
            Some(output) if output != Path::new(".") => output.join(&package.name),
            Some(_) | None => PathBuf::from(&package.name),
        })
    }

    fn show(&self, reports: &[Report]) -> Outcome {
        if self.json {
            let reports = serde_json::to_value(reports)?;
            print_json(&json!({ "written": !self.dry_run, "packages": reports }));
            return Ok(());
        }
        for report in reports {
            outln!("{}", report.to_string().trim_end());
        }
        if self.dry_run {
            outln!("\nNothing was written.");
            return Ok(());
        }
        if self.check {
            return Ok(());
        }
        outln!("\nNext:");
        for report in reports {
            let dir = shell_word(&report.dir);
            if is_open(report) {
                outln!("  grep -rn '{OPEN}' {dir}    finds the places for your code");
            }
            outln!("  udo build {dir}");
        }
        Ok(())
    }
}

/// The text that marks a place for the author's code.
const OPEN: &str = "Add code here";

/// Whether there is such a place in the author's files.
fn is_open(report: &Report) -> bool {
    let mut files = report.created.iter().chain(&report.kept);
    files.any(|file| {
        let path = report.dir.join(file);
        let is_code = path.extension().is_some_and(|of| of == "rs" || of == "cl");
        is_code && fs::read_to_string(path).is_ok_and(|text| text.contains(OPEN))
    })
}

/// The failure of a folder that is not written, with the next step.
fn write_failure(error: WriteError) -> Failure {
    let help = match &error {
        WriteError::NotOurs { .. } => {
            "choose another folder with -o, or --force to write into it; --force deletes nothing"
        }
        WriteError::Link { .. } => "remove the link, or choose another folder with -o",
        WriteError::InTheWay { .. } => "move it away, or choose another folder with -o",
        WriteError::Io { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "nothing was changed; make room, or choose another disk with -o"
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                "nothing was changed; choose a folder that you may write to with -o"
            }
            _ => "nothing was changed",
        },
        _ => return Failure::new(error),
    };
    Failure::new(error).help(help)
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
            .help("give the path of a config file")
    };
    let bytes = udo_files::read(path, udo_files::TEXT_BYTES).map_err(failed)?;
    udo_generator::decode(bytes).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display())).help(error.help())
    })
}

fn print_templates(dir: Option<&Path>) -> Outcome {
    let templates = Templates::embedded();
    let Some(dir) = dir else {
        for (name, _) in templates.iter() {
            outln!("{name}");
        }
        return Ok(());
    };
    for (name, text) in templates.iter() {
        let path = dir.join(name);
        if path.exists() {
            return Err(Failure::new(format!("{} exists already", path.display()))
                .help("give a folder without templates"));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        udo_files::create_new(&path, udo_files::Access::Default, text.as_bytes())?;
    }
    outln!(
        "Edit the templates in {0}, delete those that you did not change, then: udo new --templates {0} ..",
        dir.display()
    );
    Ok(())
}
