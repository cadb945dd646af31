//! Errors and warnings about a config: each with its place, the expected content, and advice for the next step.

use std::{fmt, path::PathBuf};

/// Every error and warning of a set of config files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.diagnostics))]
pub struct ConfigError {
    /// At least one error, and warnings, in the order of files and positions.
    pub diagnostics: Vec<Diagnostic>,
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// One error or warning.
///
/// Prints as one line with the place, the kind, what was found and what was expected, and a `help:` line below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it is an error, which prevents reading the config, or a warning.
    pub severity: Severity,
    /// The kind of problem.
    pub kind: Kind,
    /// The config file.
    pub file: PathBuf,
    /// The place in the file.
    pub position: Position,
    /// The place in the document, such as `$.UdoPackage_0.Operators[0].inputs[1].data_type`; empty if the text could
    /// not be parsed.
    pub path: String,
    /// The content at this place.
    pub found: String,
    /// The content that is allowed at this place.
    pub wanted: String,
    /// The next step.
    pub help: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, kind, file, position, path, found, wanted, help } = self;
        write!(f, "{severity}: {}:{}:{}: ", file.display(), position.line, position.column)?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        write!(f, "{kind}: found {found}, expected {wanted}\n  help: {help}")
    }
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The config is not returned.
    Error,
    /// The config is returned, with the assumption that the diagnostic names.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A place in a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

/// The kind of a problem; prints as a short phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Kind {
    /// The text is not JSON.
    #[error("invalid JSON")]
    Syntax,
    /// The text is not XML.
    #[error("invalid XML")]
    XmlSyntax,
    /// A comma stands before a closing bracket.
    #[error("trailing comma")]
    TrailingComma,
    /// No comma stands between two entries.
    #[error("missing comma")]
    MissingComma,
    /// The grammar has no such field.
    #[error("unknown field")]
    UnknownField,
    /// An object has the same key twice.
    #[error("duplicate key")]
    DuplicateKey,
    /// A required field is missing.
    #[error("missing field")]
    MissingField,
    /// The value is of another JSON type.
    #[error("wrong JSON type")]
    JsonType,
    /// A list or an object that needs an entry is empty.
    #[error("nothing in it")]
    Empty,
    /// A list has more entries than a package can count.
    #[error("too many entries")]
    TooMany,
    /// A name is not an identifier.
    #[error("invalid name")]
    InvalidName,
    /// A name is a keyword.
    #[error("name is a keyword")]
    KeywordName,
    /// A name is too long.
    #[error("name too long")]
    LongName,
    /// A name contains a path, which could lead out of the package's folder.
    #[error("name holds a path")]
    PathInName,
    /// An input or output has no name.
    #[error("tensor without a name")]
    MissingName,
    /// Two operators of a package have the same type.
    #[error("duplicate operator")]
    DuplicateOp,
    /// Two tensors or parameters of an operator have the same name.
    #[error("duplicate name")]
    DuplicateName,
    /// Two names are the same once turned into file or variable names.
    #[error("names collide in generated code")]
    NameClash,
    /// Two packages of one file have the same name.
    #[error("duplicate package")]
    DuplicatePackage,
    /// Two files disagree about a package.
    #[error("packages disagree")]
    ConflictingPackage,
    /// A path is invalid.
    #[error("invalid path")]
    InvalidPath,
    /// A version is not valid for Cargo.
    #[error("invalid version")]
    InvalidVersion,
    /// A domain is invalid.
    #[error("invalid domain")]
    InvalidDomain,
    /// The core does not exist or does not run user operators.
    #[error("unknown core")]
    UnknownCore,
    /// A core or an architecture is listed twice.
    #[error("listed twice")]
    ListedTwice,
    /// The DSP is declared without its architectures.
    #[error("DSP without architectures")]
    NoDspArch,
    /// Architectures are given without the DSP.
    #[error("architectures without DSP")]
    ArchWithoutDsp,
    /// The DSP architecture does not exist.
    #[error("unknown DSP architecture")]
    UnknownArch,
    /// The package's list of cores or architectures lacks one that an operator declares.
    #[error("package list too small")]
    PackageTooNarrow,
    /// A tensor has no data type.
    #[error("no data type")]
    NoDataType,
    /// A tensor has both `data_type` and `per_core_data_types`.
    #[error("two data type fields")]
    TwoDataTypes,
    /// The data type does not exist.
    #[error("unknown data type")]
    UnknownDataType,
    /// Several types are listed although a core has one type.
    #[error("several data types")]
    SeveralTypes,
    /// A declared core has no entry in `per_core_data_types`.
    #[error("core without a data type")]
    MissingCoreType,
    /// An entry is for a core that the operator does not declare.
    #[error("data type for an undeclared core")]
    UndeclaredCoreType,
    /// The core does not support tensors of the type.
    #[error("data type not on this core")]
    CoreCannotHold,
    /// The type has no matching element type.
    #[error("unsupported data type")]
    UnsupportedDataType,
    /// A tensor cannot hold strings.
    #[error("string tensor")]
    StringTensor,
    /// A scalar parameter cannot be fixed point.
    #[error("fixed-point scalar")]
    FixedScalar,
    /// A tensor holds bools on one core and numbers on another.
    #[error("bools mixed with numbers")]
    MixedTruth,
    /// A type that cannot be quantized has a quantization mode.
    #[error("type without an encoding")]
    NotEncoded,
    /// A tensor holds integers on one core and floats on another, without a quantization mode.
    #[error("integers mixed with floats")]
    ImpliedEncoding,
    /// The layout does not exist.
    #[error("unknown layout")]
    UnknownLayout,
    /// The rank does not exist.
    #[error("unknown rank")]
    UnknownRank,
    /// A word that is neither true nor false.
    #[error("neither true nor false")]
    NotTruth,
    /// A supplemental list of an XML config names an operator or part that is not defined.
    #[error("not defined")]
    UnknownPart,
    /// The quantization mode does not exist.
    #[error("unknown quantization mode")]
    UnknownQuantization,
    /// The name of an attribute is invalid, or the part does not have an attribute.
    #[error("invalid attribute")]
    InvalidAttribute,
    /// Two parameters use the same attribute.
    #[error("duplicate attribute")]
    DuplicateAttribute,
    /// A default value does not have the declared type.
    #[error("default of another type")]
    DefaultType,
    /// A default value does not fit the declared type.
    #[error("default out of range")]
    DefaultRange,
    /// A default value is not allowed here.
    #[error("default not allowed here")]
    DefaultPlace,
    /// `optional` is not allowed here.
    #[error("optional not allowed here")]
    OptionalPlace,
    /// `static` is not allowed here.
    #[error("static not allowed here")]
    StaticPlace,
    /// `repeated` is not allowed here.
    #[error("repeated not allowed here")]
    RepeatedPlace,
    /// The source of a reference is invalid, or does not fit its operator.
    #[error("reference")]
    Reference,
    /// The reference language does not support a port or parameter.
    #[error("beyond the reference language")]
    BeyondReference,
    /// A port is `repeated`, which the DSP does not support.
    #[error("repeated on the DSP")]
    RepeatedOnDsp,
}
