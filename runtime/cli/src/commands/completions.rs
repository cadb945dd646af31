//! `udo completions`

use clap::Args;
use clap_complete::Shell;

use super::Run;
use crate::output::{Outcome, text};

/// Print a completion script for a shell
///
/// Save the script in the folder where your shell looks for completions. The examples use the usual
/// folders.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo completions bash > ~/.local/share/bash-completion/completions/udo
  udo completions zsh > ~/.zfunc/_udo
  udo completions fish > ~/.config/fish/completions/udo.fish")]
pub(crate) struct Completions {
    /// Shell to print the script for
    shell: Shell,
}

impl Run for Completions {
    fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::parser(), "udo", &mut script);
        text(&String::from_utf8_lossy(&script));
        Ok(())
    }
}
