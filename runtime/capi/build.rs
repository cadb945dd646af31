//! Gives the shared library its name, by which the loader finds it: without one, a program that is linked with the file looks for the path
//! that the linker was given.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libudo.so");
    }
}
