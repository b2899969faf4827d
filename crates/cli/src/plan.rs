//! `karpenter plan`: what would be launched for the pods of some manifests.

mod cluster;
mod consolidation;
mod fields;
mod reasons;
mod report;
mod text;
mod workloads;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use karpenter_api::instance_types::{Catalogue, CatalogueError};
use karpenter_api::settings::{DefaultConstraint, SchedulerConfig};
use karpenter_disruption::look::Gates;
use karpenter_model::labels::LabelRules;
use karpenter_solver::{Options, check};

use self::cluster::Cluster;
use self::report::{Report, Timings};
use crate::manifests::Document;
use crate::{EXIT_FINDINGS, manifests, yaml};

/// Some pods have no place.
pub(crate) const EXIT_UNSCHEDULABLE: u8 = 3;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter plan -f manifests/
  karpenter plan -f nodepool.yaml -f deployment.yaml --instance-types ec2
  karpenter plan -f manifests/ -o json | jq '.nodes[].launch'
  karpenter plan -f manifests/ --consolidate
  kubectl get nodepools,nodeoverlays,nodeclaims,nodes,pods,deployments,replicasets,statefulsets,daemonsets,services,pvc,pv \\
    -A -o yaml | karpenter plan -f -

Whoever plans, the plan comes with a lower bound: no plan for the same pods can cost less.

Reads YAML or JSON, many documents in a file, and Lists: NodePools, NodeClaims, Nodes and Pods; Deployments, ReplicaSets,
StatefulSets, ReplicationControllers and Jobs, of which the pods that are missing are planned (named <workload>-<n>);
DaemonSets, Namespaces, Services, PersistentVolumeClaims, PersistentVolumes, StorageClasses, CSINodes and VolumeAttachments;
NodeOverlays; CapacityBuffers with the PodTemplates they refer to (their pods are named capacity-buffer-<buffer>-<n>). Pods
with a node stay where they are. Every NodePool and node class counts as ready. PodDisruptionBudgets matter only to
--consolidate; one without a status is judged by its pods. Other kinds are counted and left out.

Exit code: 0 every pod has a place (with --consolidate: always), 3 some have none, 1 bad input, 2 wrong usage. An object with
a mistake is told and left out of the plan; when a file cannot be read at all there is no plan.")]
pub(crate) struct Args {
    /// Manifest, folder of manifests (*.yaml, *.yml, *.json, also below) or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    files: Vec<PathBuf>,
    /// Instance types: a JSON file in the form that the kwok provider takes, `kwok` for its built-in list, or `ec2` for what
    /// us-east-1 sells (spot estimated as 70 % of the price on demand). Without it `ec2` when a NodePool refers to an
    /// EC2NodeClass, else `kwok`
    #[arg(long, value_name = "FILE|kwok|ec2")]
    instance_types: Option<String>,
    /// Spread constraints for pods that declare none, as the controller takes them: YAML or JSON, or a file that holds it
    #[arg(long, value_name = "FILE|TEXT")]
    scheduler_config: Option<String>,
    /// Who plans, as the controller's setting of that name: `best` looks for cheaper plans than `reference`, which places pods
    /// in the order of Karpenter
    #[arg(long, value_enum, default_value_t = Planner::Best, conflicts_with = "consolidate")]
    planner: Planner,
    /// Plan the other way round: which nodes could go, which would be replaced by cheaper ones, in which order, what that
    /// saves, which pods move, and what holds the nodes that stay. Pods that wait are not planned
    #[arg(long)]
    consolidate: bool,
    /// With --consolidate: the time to look at, RFC 3339, for budgets with a schedule; without it now
    #[arg(long, value_name = "TIME", requires = "consolidate")]
    at: Option<jiff::Timestamp>,
    /// With --consolidate: spot nodes may be replaced by spot nodes (the gate SpotToSpotConsolidation)
    #[arg(long, requires = "consolidate")]
    spot_to_spot: bool,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Planner {
    Reference,
    Best,
}

impl Planner {
    fn options(self) -> Options {
        match self {
            Self::Reference => Options::default(),
            Self::Best => Options::thorough(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

pub(crate) fn run(args: &Args, stdin: &mut dyn Read, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let started = Instant::now();
    let (documents, unreadable) = manifests::load(&args.files, stdin);
    for error in &unreadable {
        writeln!(err, "error: {error}")?;
    }
    let source = args.instance_types.as_deref().unwrap_or_else(|| usual_types(&documents));
    let spread = args.scheduler_config.as_deref().map(default_spread).transpose();
    let (catalogue, spread) = match (catalogue(source).context("--instance-types"), spread) {
        (Ok(catalogue), Ok(spread)) => (catalogue, spread.unwrap_or_default()),
        (types, spread) => {
            for error in [types.err(), spread.err()].into_iter().flatten() {
                writeln!(err, "error: {error:#}")?;
            }
            return Ok(EXIT_FINDINGS);
        }
    };
    let cluster = Cluster::read(&documents, &catalogue, &spread);
    for problem in &cluster.problems {
        writeln!(err, "error: {problem}")?;
    }
    // A plan without what could not even be read would be a plan for something else.
    if !unreadable.is_empty() {
        return Ok(EXIT_FINDINGS);
    }
    for note in &cluster.notes {
        writeln!(err, "note: {note}")?;
    }
    if !cluster.skipped.is_empty() {
        let kinds: Vec<String> = cluster.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        writeln!(err, "note: not looked at: {}", kinds.join(", "))?;
    }
    if args.consolidate {
        return consolidate(args, &cluster, catalogue.policy.rules(), out);
    }
    let snapshot = cluster.snapshot();
    let rules = catalogue.policy.rules();
    let loaded = started.elapsed();
    let solving = Instant::now();
    let options = args.planner.options();
    // The planner asks before each pod; so it first asks when everything is compiled.
    let mut compiled = None;
    let mut should_stop = || {
        compiled.get_or_insert_with(|| solving.elapsed());
        false
    };
    let mut plan = karpenter_solver::plan_until(&snapshot, rules, &options, &mut should_stop);
    let timings = Timings::new(loaded, compiled.unwrap_or_default(), solving.elapsed());
    if plan.bound.is_none() {
        plan.bound = Some(karpenter_solver::appraise(&snapshot, rules, &options, &plan));
    }
    let violations = check::violations(&snapshot, rules, &plan);
    for violation in &violations {
        writeln!(err, "error: the checker objects to the plan, please report this: {violation}")?;
    }
    let mut report = Report::new(&snapshot, &plan, rules, cluster.buffers());
    report.timings = timings;
    report.violations = violations.iter().map(ToString::to_string).collect();
    match args.output {
        Format::Text => text::write(&report, out)?,
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        Format::Yaml => write!(out, "{}", yaml::document(&serde_json::to_value(&report)?)?)?,
    }
    Ok(if !cluster.problems.is_empty() {
        EXIT_FINDINGS
    } else if report.unschedulable.is_empty() {
        0
    } else {
        EXIT_UNSCHEDULABLE
    })
}

fn consolidate(args: &Args, cluster: &Cluster<'_>, rules: &LabelRules, out: &mut dyn Write) -> Result<u8> {
    let gates = Gates { spot_to_spot: args.spot_to_spot, ..Gates::default() };
    let now = args.at.unwrap_or_else(jiff::Timestamp::now);
    let report = consolidation::report(cluster, rules, now, gates);
    match args.output {
        Format::Text => consolidation::write(&report, out)?,
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        Format::Yaml => write!(out, "{}", yaml::document(&serde_json::to_value(&report)?)?)?,
    }
    Ok(if cluster.problems.is_empty() { 0 } else { EXIT_FINDINGS })
}

fn catalogue(source: &str) -> Result<Catalogue, CatalogueError> {
    match source {
        "kwok" => Catalogue::built_in(),
        "ec2" => Catalogue::ec2(),
        path => Catalogue::from_file(Path::new(path)),
    }
}

/// The constraints of a scheduler configuration, which is given as the controller takes it, or in a file.
fn default_spread(given: &str) -> Result<Vec<DefaultConstraint>> {
    let path = Path::new(given);
    let text = if path.is_file() {
        std::fs::read_to_string(path).with_context(|| format!("--scheduler-config: cannot read {given}"))?
    } else if given.contains(':') || given.trim().is_empty() {
        given.to_owned()
    } else {
        bail!("--scheduler-config: {given} is neither a file nor a scheduler configuration");
    };
    Ok(SchedulerConfig::parse(&text).context("--scheduler-config")?.default_constraints)
}

/// What the pools are most likely meant for.
fn usual_types(documents: &[Document]) -> &'static str {
    let is_aws = |document: &Document| {
        let pool = document.tree.to_value();
        pool["kind"] == "NodePool" && pool["spec"]["template"]["spec"]["nodeClassRef"]["kind"] == "EC2NodeClass"
    };
    if documents.iter().any(is_aws) { "ec2" } else { "kwok" }
}

/// Plans whatever the bytes say; for tests that nothing makes it fail.
pub fn fuzz_plan(bytes: &[u8]) {
    let args = |consolidate| Args {
        files: vec![PathBuf::from("-")],
        instance_types: Some("kwok".to_owned()),
        scheduler_config: None,
        planner: Planner::Reference,
        consolidate,
        at: Some(jiff::Timestamp::UNIX_EPOCH),
        spot_to_spot: true,
        output: Format::Json,
    };
    for consolidate in [false, true] {
        let args = args(consolidate);
        // Writing to memory does not fail, and nothing else may.
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let _ = run(&args, &mut &bytes[..], &mut out, &mut err);
    }
}
