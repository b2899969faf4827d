//! `karpenter plan`: what would be launched for the pods of some manifests.

mod cluster;
mod report;
mod text;
mod workloads;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use karpenter_api::instance_types::Catalogue;
use karpenter_solver::Options;

use self::cluster::Cluster;
use self::report::{Report, Timings};
use crate::{EXIT_FINDINGS, manifests, yaml};

/// Some pods have no place.
pub(crate) const EXIT_UNSCHEDULABLE: u8 = 3;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter plan -f manifests/
  karpenter plan -f nodepool.yaml -f deployment.yaml -o json | jq '.nodes[].launch'
  karpenter plan -f manifests/ --instance-types types.json
  kubectl get nodepools,nodes,pods,deployments -A -o yaml | karpenter plan -f -

Reads NodePools, Nodes, NodeClaims, Namespaces, Pods, and Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs,
which are expanded to their pods (named <workload>-<n>). Pods with a node are where they are; the others are planned. Every
NodePool counts as ready. Volumes are not looked at yet.

Exit code: 0 every pod has a place, 3 some have none, 1 bad input, 2 wrong usage.")]
pub(crate) struct Args {
    /// Manifest, folder of manifests (*.yaml, *.yml, *.json, also below) or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    files: Vec<PathBuf>,
    /// Instance types: a JSON file in the form that the kwok provider takes, `kwok` for its built-in list, or `ec2` for what
    /// us-east-1 sells (spot estimated as 70 % of the price on demand)
    #[arg(long, value_name = "FILE|kwok|ec2", default_value = "kwok")]
    instance_types: String,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

pub(crate) fn run(args: &Args, stdin: &mut dyn Read, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let started = Instant::now();
    let catalogue = match args.instance_types.as_str() {
        "kwok" => Catalogue::built_in(),
        "ec2" => Catalogue::ec2(),
        path => Catalogue::from_file(Path::new(path)),
    };
    let catalogue = match catalogue.context("--instance-types") {
        Ok(catalogue) => catalogue,
        Err(error) => {
            writeln!(err, "error: {error:#}")?;
            return Ok(EXIT_FINDINGS);
        }
    };
    let (documents, unreadable) = manifests::load(&args.files, stdin);
    let cluster = Cluster::read(&documents, &catalogue);
    for error in &unreadable {
        writeln!(err, "error: {error}")?;
    }
    for problem in &cluster.problems {
        writeln!(err, "{problem}")?;
    }
    if !cluster.skipped.is_empty() {
        let kinds: Vec<String> = cluster.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        writeln!(err, "not looked at: {}", kinds.join(", "))?;
    }
    let snapshot = cluster.snapshot();
    let loaded = started.elapsed();
    let solving = Instant::now();
    let plan = karpenter_solver::plan(&snapshot, catalogue.policy.rules(), &Options::default());
    let timings = Timings::new(loaded, solving.elapsed());
    let report = Report::new(&snapshot, &plan, catalogue.policy.rules(), timings);
    match args.output {
        Format::Text => text::write(&report, out)?,
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        Format::Yaml => write!(out, "{}", yaml::document(&serde_json::to_value(&report)?)?)?,
    }
    Ok(if !unreadable.is_empty() || !cluster.problems.is_empty() {
        EXIT_FINDINGS
    } else if report.unschedulable.is_empty() {
        0
    } else {
        EXIT_UNSCHEDULABLE
    })
}
