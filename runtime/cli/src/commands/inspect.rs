//! `udo inspect`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use udo_api::{PortTypes, Side, TypeSet};
use udo_engine::package::{
    Contents, InspectedLibrary, Listing, Manifest, ManifestPort, Sources, inspect,
};

use super::Run;
use crate::output::{Failure, Outcome, chain, print_json};

/// Show what a package contains, without running its code
///
/// Lists the operators, cores, types and versions that each library declares. Compares the digests
/// of the libraries and sources with those in dist/index.json, which `udo build` wrote.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo inspect SoftmaxUdoPackage
  udo inspect SoftmaxUdoPackage/dist --json")]
pub(crate) struct Inspect {
    /// Package folder, dist folder, or one library of a package
    #[arg(value_name = "PACKAGE")]
    path: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Run for Inspect {
    fn run(self) -> Outcome {
        let inspection = inspect(&self.path).map_err(|error| {
            let help = error.help();
            Failure::new(error).help(help)
        })?;
        if self.json {
            let libraries: Vec<Value> = inspection.libraries.iter().map(library_json).collect();
            print_json(&json!({
                "folder": inspection.folder.to_string_lossy(), "sound": inspection.is_sound(), "libraries": libraries,
                "sources": sources_json(&inspection.sources),
            }));
        } else {
            outln!("{}", inspection.folder.display());
            outln!("sources: {}", sources(&inspection.sources));
            inspection.libraries.iter().for_each(say);
        }
        if inspection.is_sound() {
            return Ok(());
        }
        Err(Failure::new("the package is not as it was built").help("build it again: `udo build`"))
    }
}

/// Describes whether the libraries match the sources next to them.
fn sources(of: &Sources) -> String {
    match of {
        Sources::Absent => "not found next to the libraries".to_owned(),
        Sources::Same => "as built".to_owned(),
        Sources::Changed(files) => {
            format!("changed since the libraries were built: {}; run `udo build`", files.join(", "))
        }
        Sources::Unknown => {
            "unknown: no index.json with their digests; `udo build` writes one".to_owned()
        }
    }
}

fn sources_json(of: &Sources) -> Value {
    let (state, changed) = match of {
        Sources::Absent => ("absent", &[][..]),
        Sources::Same => ("same", &[][..]),
        Sources::Changed(files) => ("changed", files.as_slice()),
        Sources::Unknown => ("unknown", &[][..]),
    };
    json!({ "state": state, "changed": changed })
}

fn say(library: &InspectedLibrary) {
    outln!("\n{}", library.file);
    outln!(
        "  sha256   {} ({}{})",
        library.sha256.as_deref().unwrap_or("-"),
        listing(library.listing),
        consequence(library.listing)
    );
    match &library.contents {
        Err(error) => outln!("  refused  {}", chain(error)),
        Ok(Contents::CPackage) => {
            outln!(
                "  a C package without a manifest; its contents are known only after opening it"
            );
        }
        Ok(Contents::Manifest(manifest)) => say_manifest(manifest),
    }
}

fn listing(listing: Listing) -> &'static str {
    match listing {
        Listing::NoIndex => "no index",
        Listing::Unlisted => "not in the index",
        Listing::Same => "as built",
        Listing::Changed => "not as built",
        Listing::Missing => "missing",
    }
}

/// Describes how the loader treats such a library.
fn consequence(listing: Listing) -> &'static str {
    match listing {
        Listing::NoIndex => ": opened unchecked",
        Listing::Unlisted | Listing::Changed => ": refused",
        Listing::Same | Listing::Missing => "",
    }
}

fn say_manifest(m: &Manifest) {
    outln!(
        "  package  {} {} for {}, SDK {}, ABI {}",
        m.package,
        m.version,
        m.target,
        m.sdk_version,
        m.abi_version
    );
    if !m.needs.is_empty() {
        outln!("  needs    {}", m.needs.join(", "));
    }
    outln!("  heap     {}", m.heap.name());
    if let Some(panics) = m.panics {
        outln!("  panic    {}", panics.name());
    }
    for op in &m.ops {
        let ports = |ports: &[ManifestPort]| {
            ports.iter().map(|p| format!("{}: {}", p.name, p.types)).collect::<Vec<_>>().join(", ")
        };
        let params: Vec<String> =
            op.params.iter().map(|p| format!("{}: {}", p.name, p.types)).collect();
        let params =
            if params.is_empty() { String::new() } else { format!(" [{}]", params.join(", ")) };
        outln!("  op       {}({}){params} -> {}", op.name, ports(&op.inputs), ports(&op.outputs));
    }
    for kernel in &m.kernels {
        let rules: Vec<String> = kernel
            .rules
            .iter()
            .map(|r| format!("{} {} {}", side(r.side), r.port, port_types(r.wanted)))
            .collect();
        outln!("  kernel   {} on {} ({})", kernel.op, kernel.core, rules.join(", "));
    }
    for library in &m.libraries {
        outln!("  library  {} for {}", library.file, library.core);
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Input => "input",
        Side::Output => "output",
    }
}

fn port_types(wanted: PortTypes) -> String {
    match wanted {
        PortTypes::AsDeclared => "as declared".to_owned(),
        PortTypes::Types(types) => types.to_string(),
        PortTypes::SameAsInput(input) => format!("as input {input}"),
    }
}

fn library_json(library: &InspectedLibrary) -> Value {
    let contents = match &library.contents {
        Err(error) => json!({ "error": chain(error) }),
        Ok(Contents::CPackage) => json!({ "kind": "c-package" }),
        Ok(Contents::Manifest(m)) => manifest_json(m),
    };
    json!({
        "file": library.file, "sha256": library.sha256, "listing": listing(library.listing), "contents": contents,
    })
}

fn manifest_json(m: &Manifest) -> Value {
    let types = |set: TypeSet| set.iter().map(udo_api::DType::name).collect::<Vec<_>>();
    let ports = |ports: &[ManifestPort]| -> Vec<Value> {
        ports
            .iter()
            .map(|p| {
                json!({
                    "name": p.name, "types": types(p.types), "optional": p.is_optional, "static": p.is_static,
                    "repeated": p.is_repeated,
                })
            })
            .collect()
    };
    let ops: Vec<Value> = m
        .ops
        .iter()
        .map(|op| {
            let params: Vec<Value> = op
                .params
                .iter()
                .map(|p| {
                    json!({
                        "name": p.name, "kind": p.kind.name(), "types": types(p.types), "optional": p.is_optional,
                    })
                })
                .collect();
            json!({
                "name": op.name, "domain": op.domain, "inputs": ports(&op.inputs), "outputs": ports(&op.outputs),
                "params": params,
            })
        })
        .collect();
    let kernels: Vec<Value> = m
        .kernels
        .iter()
        .map(|k| {
            let types: Vec<Value> = k
                .rules
                .iter()
                .map(|r| json!({ "side": side(r.side), "port": r.port, "types": port_types(r.wanted) }))
                .collect();
            json!({ "op": k.op, "core": k.core.to_string(), "ports": types })
        })
        .collect();
    let libraries: Vec<Value> =
        m.libraries.iter().map(|l| json!({ "core": l.core.to_string(), "file": l.file })).collect();
    json!({
        "package": m.package, "version": m.version, "target": m.target, "sdk_version": m.sdk_version,
        "abi_version": m.abi_version.to_string(), "needs": m.needs, "fingerprint": format!("{:016x}", m.fingerprint), "heap": m.heap.name(),
        "panic": m.panics.map(udo_api::abi::PanicStrategy::name),
        "ops": ops, "kernels": kernels, "libraries": libraries,
    })
}
