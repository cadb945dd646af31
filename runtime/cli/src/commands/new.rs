//! `udo new`: configs in, package folders out.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use udo_generator::{
    ExpandError, Foreign, Mode, Options, Report, Source, Templates, Update, WriteError,
    config::Package,
};

use super::Run;
use super::build::Build;
use super::check::Check;
use crate::output::{Failure, Outcome, note, print_json};
use crate::root;

/// Make operator packages from UDO configs
///
/// Prints a Cargo workspace per package: a registration library, and a library per core.
/// Files under src/ops/ and kernels/ are yours: they are written once and never overwritten.
/// Run it again after changing a config: generated files are refreshed, and what has drifted
/// is listed.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  udo new Softmax_Htp.json                    into ./SoftmaxUdoPackage
  udo new a.json b.xml -o packages            several configs; the same package name adds up
  udo new Softmax_Htp.json --check            from a config to a package that is built and checked
  udo new Softmax_Htp.json --dry-run          only say what would be written
  udo new --schema > udo-config.schema.json   for editors; name it in configs as \"$schema\"
  udo new --print-templates my-templates      templates to edit, for --templates my-templates"
)]
#[expect(
    clippy::struct_excessive_bools,
    clippy::option_option,
    clippy::doc_markdown,
    reason = "fields are flags, and their comments help texts"
)]
pub(crate) struct New {
    /// UDO configs, in JSON or as op definitions in XML
    #[arg(value_name = "CONFIG", required_unless_present_any = ["named", "print_templates", "schema"])]
    configs: Vec<PathBuf>,

    /// The same, as vendors' tools take it; may be given several times
    #[arg(short = 'p', long = "config", value_name = "CONFIG")]
    named: Vec<PathBuf>,

    /// Where package folders go; wins over UDO_PACKAGE_PATH of the config [default: .]
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Write into a folder that is no package of ours; files in the way of generated ones are kept
    /// as `.edited` copies, yours under src/ops/ and kernels/ stay as they are
    #[arg(short, long)]
    force: bool,

    /// Build each package as well, and check it (`udo build`, then `udo check`)
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    check: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Report as JSON
    #[arg(long)]
    json: bool,

    /// Take what vendor configs do but the grammar does not say, with a warning for each
    #[arg(long)]
    compat: bool,

    /// Templates that replace the built-in ones of the same name
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,

    /// Write the built-in templates to DIR for editing, or list them
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["configs", "named", "force", "dry_run"])]
    print_templates: Option<Option<PathBuf>>,

    /// Print the JSON Schema of configs
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
        let paths: Vec<&PathBuf> = self.configs.iter().chain(&self.named).collect();
        let texts: Vec<String> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let sources: Vec<Source<'_>> =
            paths.iter().zip(&texts).map(|(path, text)| Source { path, text }).collect();
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
        let updates: Vec<Update> = config
            .packages
            .iter()
            .map(|package| self.prepare(package, &sources, &templates))
            .collect::<Result<_, _>>()?;
        let reports = if self.dry_run {
            updates.into_iter().map(|update| update.report).collect()
        } else {
            udo_generator::apply_all(updates)?
        };
        self.show(&reports)?;
        if self.check {
            for report in &reports {
                Build::of(&report.dir).run()?;
                Check::of(&report.dir).run()?;
            }
        }
        Ok(())
    }
}

impl New {
    fn prepare(
        &self,
        package: &Package,
        sources: &[Source<'_>],
        templates: &Templates,
    ) -> Result<Update, Failure> {
        let written = match (&self.output, &package.path) {
            (None, Some(path)) => Some(expanded(path).map_err(|error| {
                Failure::new(format!("UDO_PACKAGE_PATH of {}: {error}", package.name))
                    .help("set the variable, or choose a folder with -o")
            })?),
            (Some(_), _) | (None, None) => None,
        };
        let output = self.output.as_deref().or(written.as_deref());
        let dir = match output {
            Some(output) if output != Path::new(".") => output.join(&package.name),
            Some(_) | None => PathBuf::from(&package.name),
        };
        let root = sdk_root(package)?;
        let udo_api = api_path(&dir, &root)?;
        let options = Options { udo_api: &udo_api, configs: sources, templates };
        let tree = udo_generator::plan(package, &options)?;
        let foreign = if self.force { Foreign::Adopt } else { Foreign::Refuse };
        udo_generator::survey(&tree, &dir, foreign).map_err(|error| {
            let help = match &error {
                WriteError::NotOurs { .. } => {
                    "choose another folder with -o, or --force to write into it; --force deletes \
                     nothing"
                }
                WriteError::Link { .. } => "remove the link, or choose another folder with -o",
                WriteError::InTheWay { .. } => "move it away, or choose another folder with -o",
                _ => return Failure::new(error),
            };
            Failure::new(error).help(help)
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
            outln!("  grep -rn 'Add code here' {dir}    the places that wait for your code");
            outln!("  udo build {dir}");
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
            .help("give the path of a config file")
    };
    let bytes = fs::read(path).map_err(failed)?;
    udo_generator::decode(bytes).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display())).help(error.help())
    })
}

/// A path of a config, with what the environment says for its variables.
fn expanded(path: &Path) -> Result<PathBuf, ExpandError> {
    udo_generator::expand(&path.to_string_lossy(), |name| env::var(name).ok())
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
        fs::write(&path, text)?;
    }
    outln!(
        "Edit what you like in {0}, delete the rest, then: udo new --templates {0} ..",
        dir.display()
    );
    Ok(())
}

/// The SDK checkout that a package is built against.
fn sdk_root(package: &Package) -> Result<PathBuf, Failure> {
    if env::var_os(root::VARIABLE).is_none()
        && let Some(dir) = &package.udo_root
    {
        match expanded(dir) {
            Ok(dir) if root::holds_api(&dir) => return Ok(dir),
            Ok(dir) => note(format_args!(
                "SNPE_UDO_ROOT of {} is {}, where there is no udo-api; the one of this udo is used",
                package.name,
                dir.display()
            )),
            Err(error) => note(format_args!(
                "SNPE_UDO_ROOT of {}: {error}; the udo-api of this udo is used",
                package.name
            )),
        }
    }
    root::find()
}

/// The folder of `udo-api` for a package in `dir`: relative inside the checkout, so that it can be
/// moved and shared with it.
fn api_path(dir: &Path, root: &Path) -> Result<String, Failure> {
    let root = fs::canonicalize(root)?;
    let dir = std::path::absolute(dir)?;
    // The part of the path that exists already, without links.
    let base = dir.ancestors().find(|part| part.exists()).unwrap_or(&dir);
    let rest = dir.strip_prefix(base).unwrap_or(Path::new(""));
    let dir = fs::canonicalize(base)?.join(rest);
    let path = match dir.strip_prefix(&root) {
        Ok(below) => {
            let ups = below.components().map(|_| "..");
            ups.chain(["udo-api"]).collect::<Vec<_>>().join("/")
        }
        Err(_) => root.join("udo-api").display().to_string(),
    };
    Ok(path)
}

/// The path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_inside_the_checkout_point_to_it_relatively() {
        let checkout = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(checkout.path()).unwrap();
        let inside = api_path(&root.join("examples/a/P"), &root).unwrap();
        assert_eq!(inside, "../../../udo-api");
        let elsewhere = tempfile::tempdir().unwrap();
        let outside = api_path(&elsewhere.path().join("P"), &root).unwrap();
        assert_eq!(outside, root.join("udo-api").display().to_string());
    }

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(shell_word(Path::new("./a/B_1")), "./a/B_1");
        assert_eq!(shell_word(Path::new("a b'c")), r"'a b'\''c'");
    }
}
