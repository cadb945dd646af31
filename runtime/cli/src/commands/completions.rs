//! `udo completions`

use clap::Args;
use clap_complete::Shell;

use super::Run;
use crate::output::{Outcome, text};

/// Print shell completions
///
/// Write them to the folder where your shell looks for completions. The examples show the usual ones.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo completions bash > ~/.local/share/bash-completion/completions/udo
  udo completions zsh > ~/.zfunc/_udo
  udo completions fish > ~/.config/fish/completions/udo.fish")]
pub(crate) struct Completions {
    /// Shell that reads the completions
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
