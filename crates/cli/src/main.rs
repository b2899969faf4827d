//! The karpenter command line.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use karpenter_cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    match cli.run(&mut std::io::stdin().lock(), &mut out, &mut err) {
        Ok(code) => ExitCode::from(code),
        // Somebody read enough, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be done if this cannot be written either.
            let _ = writeln!(err, "error: {error:#}");
            ExitCode::from(karpenter_cli::EXIT_UNREADABLE)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
