//! The karpenter command line as a library, so that tests and the fuzz target can call its parts.
//!
//! Every command writes results to `out` and everything about the run itself to `err`, and returns an exit code: 0 when
//! all is well, [`EXIT_FINDINGS`], or [`EXIT_UNREADABLE`] (clap uses the same number for wrong usage).

mod convert;
mod crds;
mod demo;
mod manifests;
mod plan;
mod sandbox;
mod validate;
mod yaml;

use std::io::{Read, Write};

use anyhow::Result;
use clap::{Parser, Subcommand};

pub use plan::fuzz_plan;
pub use validate::fuzz_manifest;

/// Something is wrong with an object.
pub const EXIT_FINDINGS: u8 = 1;
/// The command could not be carried out, or some input could not be read.
pub const EXIT_UNREADABLE: u8 = 2;

/// Node autoscaling for Kubernetes from the command line.
#[derive(Debug, Parser)]
#[command(name = "karpenter", version, about, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the custom resource definitions, or write one file for each
    Crds(crds::Args),
    /// Check manifests against the schemas and rules that the API server would apply
    Validate(validate::Args),
    /// Turn Provisioners, AWSNodeTemplates and v1beta1 manifests into v1
    Convert(convert::Args),
    /// Show what would be launched for the pods of some manifests, and why not where not
    Plan(plan::Args),
    /// Watch pods get nodes: a cluster in this process, one deployment scaled up and down, as a timeline
    Demo(demo::Args),
    /// Run a cluster in this process, with nodes, prices, faults and the autoscaler, for kubectl
    Sandbox(sandbox::Args),
}

impl Cli {
    /// Runs the command and returns the exit code.
    pub fn run(&self, input: &mut dyn Read, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
        match &self.command {
            Command::Crds(args) => crds::run(args, out, err),
            Command::Validate(args) => validate::run(args, input, out, err),
            Command::Convert(args) => convert::run(args, input, out, err),
            Command::Plan(args) => plan::run(args, input, out, err),
            Command::Demo(args) => demo::run(args, out, err),
            Command::Sandbox(args) => sandbox::run(args, out, err),
        }
    }
}
