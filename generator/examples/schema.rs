//! Prints the JSON Schema of configs: `cargo run -p udo-generator --example schema > generator/udo-config.schema.json`.
#![expect(clippy::print_stdout, reason = "it prints")]

fn main() {
    print!("{}", udo_generator::schema());
}
