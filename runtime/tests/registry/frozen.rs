//! Packages as they were written for each minor version of this ABI, which stay as they are.

use std::fs;
use std::num::NonZero;
use std::process::Command;

use tempfile::tempdir;
use udo_api::abi::ABI_VERSION;
use udo_runtime::CompileOptions;
use udo_runtime::graph::Graph;
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::packages::*;

#[test]
fn packages_of_every_minor_version_run() {
    for minor in 0..=ABI_VERSION.minor {
        let folder = fixtures().join(format!("abi-{}.{minor}", ABI_VERSION.major));
        let out = tempdir().unwrap();
        let library = out.path().join("libUdoFrozenReg.so");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
        run(cc.arg(&library).arg("-I").arg(&folder).arg(folder.join("package.c")));
        let mut operators = built_in();
        operators.open(&library).unwrap();
        for threads in [1, 3] {
            let graph = Graph::parse(
                "graph frozen
                  input x: f32[4]
                  constant w: f32[3]{1.0, 2.0, -1.0}
                  a = Mirror@21(x, w) factor=2.0
                  y = Relu@21(a)
                  output y
                ",
            )
            .unwrap();
            let threads = NonZero::new(threads).unwrap();
            let options = CompileOptions { threads, ..CompileOptions::default() };
            let model = compile_graph(graph, &operators, &options).unwrap();
            assert_eq!(model.report().steps.len(), 1, "it takes the Relu: {folder:?}");
            let host = &model.report().memories[0];
            assert_eq!((host.packed_bytes, host.geometry_bytes, host.scratch_bytes), (4, 16, 16));
            let mut session = model.session().unwrap();
            session.input_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, -2.0, 3.0, 4.0]);
            session.run().unwrap();
            // Times 2, and times the weights' sum, 2, times 3 / 2.
            assert_eq!(session.output::<f32>("y").unwrap(), [24.0, 18.0, 0.0, 6.0]);
        }
    }
}

#[test]
fn the_header_of_this_version_is_frozen_as_it_is() {
    let frozen = fixtures().join(format!("abi-{ABI_VERSION}/udo_package.h"));
    let header = fs::read_to_string(root().join("udo-api/include/udo_package.h")).unwrap();
    if std::env::var_os("UDO_BLESS").is_some() {
        fs::write(&frozen, &header).unwrap();
    }
    assert!(
        fs::read_to_string(&frozen).unwrap() == header,
        "{frozen:?} is not today's header: raise the ABI version if it was released, or run this with UDO_BLESS=1"
    );
}
