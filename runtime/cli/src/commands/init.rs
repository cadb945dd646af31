//! `udo init`: a few answers in, a config out that `udo new` takes.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use udo_generator::{Mode, Source};

use super::{Run, shell_word};
use crate::output::{Failure, Outcome};

/// Write the config of a new operator package
///
/// Asks for each value that no flag sets. An empty answer accepts the default in brackets.
///
/// The config describes one operator. Edit the file to add more operators, parameters or reference
/// formulas (docs/config.md).
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown, reason = "comments are help text")]
#[command(after_help = "\
Examples:
  udo init                                            asks for everything
  udo init MyPackage --op Scale --input x --output y --cores cpu,gpu
  udo init MyPackage --op Pick --input x --input at:INT_32 --cores cpu,dsp --types dsp=UINT_8")]
pub(crate) struct Init {
    /// Name of the package, such as SoftmaxUdoPackage
    #[arg(value_name = "NAME")]
    package: Option<String>,
    /// Set the operator's type, as models spell it
    #[arg(long, value_name = "OP")]
    op: Option<String>,
    /// Add an input [default: x]
    ///
    /// Append a type to set it on every core, as in `at:INT_32`. May be given several times.
    #[arg(long = "input", value_name = "NAME[:TYPE]")]
    inputs: Vec<String>,
    /// Add an output [default: y]
    ///
    /// Append a type to set it on every core, as in `at:INT_32`. May be given several times.
    #[arg(long = "output", value_name = "NAME[:TYPE]")]
    outputs: Vec<String>,
    /// Support these cores [default: cpu]
    ///
    /// A comma-separated list of cpu, gpu, dsp (the same as dsp:v68) and dsp:vNN.
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cores: Vec<String>,
    /// Set the element types of inputs and outputs
    ///
    /// TYPES is one type for all cores, or a comma-separated list of CORE=TYPE.
    ///
    /// Example: `--types cpu=FLOAT_32,dsp=UINT_8`
    ///
    /// [default: FLOAT_32, and on the DSP UINT_8 with an encoding]
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// Write the config to this file [default: NAME.json]
    ///
    /// The command fails if the file exists.
    #[arg(short = 'o', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Run for Init {
    fn run(self) -> Outcome {
        let mut asker = Asker { answers: io::stdin().lock(), is_over: false };
        let package = asker.needed(self.package, "package name", "NAME")?;
        let op = asker.needed(self.op, "operator type", "--op")?;
        let inputs = asker.list(self.inputs, "inputs, as NAME or NAME:TYPE", "x")?;
        let outputs = asker.list(self.outputs, "outputs, as NAME or NAME:TYPE", "y")?;
        let cores = asker.list(self.cores, "cores, a list of cpu, gpu and dsp", "cpu")?;
        let cores: Vec<Core> =
            cores.iter().map(|core| Core::parse(core)).collect::<Result<_, _>>()?;
        let usual: Vec<String> =
            cores.iter().map(|core| format!("{}={}", core.name, core.usual_type())).collect();
        let types = asker.list(self.types, "element types", &usual.join(","))?;
        let types = Types::parse(&cores, &types)?;

        let config = config(&package, &op, [&inputs, &outputs], &cores, &types);
        let file = self.file.unwrap_or_else(|| PathBuf::from(format!("{package}.json")));
        let source = Source { path: &file, text: &config };
        udo_generator::read(&[source], Mode::Strict).map_err(|error| {
            Failure::report(error.to_string())
                .help("nothing was written; the places are in what would have been")
        })?;
        write_new(&file, &config)?;
        outln!("{}\n\nNext:\n  udo new {}", file.display(), shell_word(&file));
        Ok(())
    }
}

/// Writes a file that is not there yet.
fn write_new(file: &Path, text: &str) -> Outcome {
    let written = udo_files::create_new(file, udo_files::Access::Default, text.as_bytes());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(format!("{} exists already", file.display()))
            .help("choose another file with -o, or change that one by hand"),
        _ => Failure::new(format!("cannot write {}: {error}", file.display()))
            .help("choose another file with -o"),
    })
}

/// Asks for the values that no flag specifies.
struct Asker<R> {
    answers: R,
    /// Whether the input has ended.
    is_over: bool,
}

impl<R: BufRead> Asker<R> {
    /// Reads a line of answer; `None` if it is empty or the input has ended.
    fn ask(&mut self, what: &str, usual: &str) -> Result<Option<String>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        if io::stdin().is_terminal() {
            let usual = if usual.is_empty() { String::new() } else { format!(" [{usual}]") };
            eprint!("{what}{usual}: ");
            io::stderr().flush()?;
        }
        let mut line = String::new();
        let len = self.answers.read_line(&mut line).map_err(|error| {
            Failure::new(format!("cannot read the answer for {what}: {error}"))
                .help("answers are lines of text in UTF-8")
        })?;
        self.is_over = len == 0;
        let line = line.trim();
        Ok((!line.is_empty()).then(|| line.to_owned()))
    }

    fn needed(&mut self, flag: Option<String>, what: &str, name: &str) -> Result<String, Failure> {
        let answer = match flag {
            Some(flag) => Some(flag),
            None => self.ask(what, "")?,
        };
        answer.ok_or_else(|| {
            Failure::usage(format!("no {what} given"))
                .help(format!("pass {name}, or answer on standard input"))
        })
    }

    /// A list: what flags say, else an answer with commas, else the usual one.
    fn list(
        &mut self,
        flags: Vec<String>,
        what: &str,
        usual: &str,
    ) -> Result<Vec<String>, Failure> {
        if !flags.is_empty() {
            return Ok(flags);
        }
        let answer = self.ask(what, usual)?;
        let answer = answer.as_deref().unwrap_or(usual);
        Ok(answer.split(',').map(|part| part.trim().to_owned()).collect())
    }
}

/// A core, as configs say it.
#[derive(Debug, PartialEq, Eq)]
struct Core {
    name: &'static str,
    arch: Option<String>,
}

impl Core {
    fn parse(text: &str) -> Result<Self, Failure> {
        let lower = text.to_ascii_lowercase();
        let (name, arch) = lower.split_once(':').unwrap_or((&lower, "v68"));
        match name {
            "cpu" | "gpu" if lower == name => {
                Ok(Self { name: if name == "cpu" { "CPU" } else { "GPU" }, arch: None })
            }
            "dsp" => Ok(Self { name: "DSP", arch: Some(arch.to_owned()) }),
            _ => Err(Failure::usage(format!(
                "no core is called {text}, expected cpu, gpu, dsp or dsp:vNN"
            ))
            .help("an example is --cores cpu,dsp:v68")),
        }
    }

    fn usual_type(&self) -> &'static str {
        if self.arch.is_some() { "UINT_8" } else { "FLOAT_32" }
    }
}

/// The types of ports that say none of their own.
#[derive(Debug, PartialEq, Eq)]
enum Types {
    One(String),
    PerCore(Vec<(&'static str, String)>),
}

impl Types {
    fn parse(cores: &[Core], given: &[String]) -> Result<Self, Failure> {
        if let [sole] = given
            && !sole.contains('=')
        {
            return Ok(Self::One(sole.clone()));
        }
        let mut types: Vec<(&'static str, String)> = Vec::new();
        for entry in given {
            let said = entry.split_once('=');
            let core = said.and_then(|(core, _)| {
                cores.iter().find(|known| known.name.eq_ignore_ascii_case(core.trim()))
            });
            let (Some(core), Some((_, dtype))) = (core, said) else {
                let known: Vec<&str> = cores.iter().map(|core| core.name).collect();
                return Err(Failure::usage(format!(
                    "type {entry:?} is for no core, expected CORE=TYPE with one of {}",
                    known.join(", ")
                ))
                .help("an example is --types cpu=FLOAT_32,dsp=UINT_8"));
            };
            types.push((core.name, dtype.trim().to_owned()));
        }
        for core in cores {
            if !types.iter().any(|(name, _)| *name == core.name) {
                types.push((core.name, core.usual_type().to_owned()));
            }
        }
        Ok(match types.as_slice() {
            [(name, dtype)] if *name != "DSP" => Self::One(dtype.clone()),
            _ => Self::PerCore(types),
        })
    }

    /// The members of a tensor.
    fn members(&self) -> String {
        let types = match self {
            Self::One(dtype) => return format!("\"data_type\": {}", quoted(dtype)),
            Self::PerCore(types) => types,
        };
        let entry = |(core, dtype): &(&str, String)| format!("\"{core}\": {}", quoted(dtype));
        let entries: Vec<String> = types.iter().map(entry).collect();
        let mut members = format!("\"per_core_data_types\": {{{}}}", entries.join(", "));
        let is_code = |dtype: &str| ["UINT_8", "INT_8", "UINT_16", "INT_16"].contains(&dtype);
        if types.iter().any(|(core, dtype)| *core == "DSP" && is_code(dtype)) {
            members.push_str(", \"quantization_mode\": \"TF\"");
        }
        members
    }
}

/// The config's text.
fn config(
    package: &str,
    op: &str,
    [inputs, outputs]: [&Vec<String>; 2],
    cores: &[Core],
    types: &Types,
) -> String {
    let mut text = String::from("{\n    \"UdoPackage_0\": {\n");
    let _ = writeln!(text, "        \"UDO_PACKAGE_NAME\": {},", quoted(package));
    text.push_str("        \"Operators\": [\n            {\n");
    let _ = writeln!(text, "                \"type\": {},", quoted(op));
    for (key, ports) in [("inputs", inputs), ("outputs", outputs)] {
        let ports: Vec<String> = ports.iter().map(|port| tensor(port, types)).collect();
        let ports = ports.join(",\n                    ");
        let _ = writeln!(
            text,
            "                \"{key}\": [\n                    {ports}\n                ],"
        );
    }
    let mut names: Vec<String> = Vec::new();
    for name in cores.iter().map(|core| quoted(core.name)) {
        // Architectures of the DSP are one core.
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let _ = write!(text, "                \"core_types\": [{}]", names.join(", "));
    let archs: Vec<String> =
        cores.iter().filter_map(|core| core.arch.as_deref()).map(quoted).collect();
    if !archs.is_empty() {
        let _ = write!(text, ",\n                \"dsp_arch_types\": [{}]", archs.join(", "));
    }
    text.push_str("\n            }\n        ]\n    }\n}\n");
    text
}

fn tensor(port: &str, types: &Types) -> String {
    let (name, members) = match port.split_once(':') {
        Some((name, dtype)) => (name.trim(), Types::One(dtype.trim().to_owned()).members()),
        None => (port, types.members()),
    };
    format!("{{\"name\": {}, {members}}}", quoted(name))
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
