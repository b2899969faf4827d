//! `karpenter plan --consolidate`: what there is to save in the cluster that manifests describe.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use jiff::Timestamp;
use karpenter_disruption::fixpoint::{self, Consolidated, Started, Step};
use karpenter_disruption::look::Gates;
use karpenter_model::labels::LabelRules;
use karpenter_solver::{Options, Reserved};
use serde::Serialize;

use super::cluster::Cluster;
use super::text::{LINES, counted, write_aligned};

/// The whole of it, as scripts read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    commands: Vec<Command>,
    /// Nodes that are left, with what holds them.
    held_back: Vec<Held>,
    cost: Cost,
    /// The search was ended before it had found everything.
    stopped: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Command {
    step: usize,
    /// `Empty` or `Underutilized`.
    reason: &'static str,
    decision: &'static str,
    nodes: Vec<Going>,
    new_nodes: Vec<New>,
    saves_per_hour: f64,
    /// Pods that are asked to leave their node.
    evictions: usize,
    /// What moving them counts, 1.0 for each ordinary pod and for each node.
    disruption_cost: f64,
    allowed_because: Vec<String>,
    moves: Vec<Move>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Going {
    node: String,
    node_pool: String,
    instance_type: Option<String>,
    price_per_hour: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct New {
    name: String,
    node_pool: String,
    instance_type: String,
    zone: String,
    capacity_type: String,
    price_per_hour: f64,
}

#[derive(Debug, Serialize)]
struct Move {
    pod: String,
    from: String,
    to: String,
}

#[derive(Debug, Serialize)]
struct Held {
    node: String,
    reason: &'static str,
    message: String,
    /// Something that is given is wrong, or the cloud does not say what it should.
    mistake: bool,
}

/// Per hour.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cost {
    before: f64,
    after: f64,
    saved: f64,
    /// What nodes that are not held for other reasons than prices still cost, and the least that their pods could cost.
    movable: f64,
    lower_bound: f64,
    remaining_gap: f64,
}

pub(super) fn report(cluster: &Cluster<'_>, rules: &LabelRules, now: Timestamp, gates: Gates) -> Report {
    let options = Options { reserved: Reserved::Fallback, ..Options::default() };
    Report::new(&fixpoint::consolidated(cluster.world(now, gates, options), rules))
}

impl Report {
    fn new(found: &Consolidated) -> Self {
        let commands = found.steps.iter().enumerate().map(|(index, step)| command(index + 1, step));
        let held = found.held.iter().map(|(node, hold)| Held {
            node: node.clone(),
            reason: hold.code(),
            message: hold.to_string(),
            mistake: hold.is_mistake(),
        });
        Self {
            commands: commands.collect(),
            held_back: held.collect(),
            cost: Cost {
                before: found.cost_before,
                after: found.cost_after,
                saved: found.cost_before - found.cost_after + 0.0,
                movable: found.free_cost,
                lower_bound: found.free_bound,
                remaining_gap: found.gap(),
            },
            stopped: found.stopped,
        }
    }
}

fn command(number: usize, step: &Step) -> Command {
    let new = |started: &Started| New {
        name: started.name.clone(),
        node_pool: started.pool.clone(),
        instance_type: started.instance_type.clone(),
        zone: started.zone.clone(),
        capacity_type: started.capacity_type.clone(),
        price_per_hour: started.price.per_hour(),
    };
    let going = step.command.going.iter().map(|going| Going {
        node: going.node.clone(),
        node_pool: going.pool.clone(),
        instance_type: going.instance_type.clone(),
        price_per_hour: going.price.per_hour(),
    });
    let moves = step.moved.iter().map(|moved| Move {
        pod: moved.pod.to_string(),
        from: moved.from.clone(),
        to: moved.to.clone(),
    });
    Command {
        step: number,
        reason: step.command.method.reason().as_str(),
        decision: step.command.decision.as_str(),
        nodes: going.collect(),
        new_nodes: step.started.iter().map(new).collect(),
        saves_per_hour: step.command.savings,
        evictions: step.moved.len(),
        disruption_cost: step.command.going.iter().map(|going| going.reschedule_cost).sum(),
        allowed_because: step.why.clone(),
        moves: moves.collect(),
    }
}

/// As people read it.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    if !report.commands.is_empty() {
        writeln!(out, "commands:")?;
        let head = ["STEP", "REASON", "NODES THAT GO", "NEW NODES", "$/HOUR SAVED", "EVICTIONS"];
        let mut rows = vec![head.map(ToOwned::to_owned).to_vec()];
        rows.extend(report.commands.iter().take(LINES).map(row));
        write_aligned(&rows, out)?;
        write_rest(report.commands.len(), "command", out)?;
        write_reasons(report, out)?;
        write_moves(report, out)?;
    }
    write_held(report, out)?;
    let (steps, cost) = (report.commands.len(), &report.cost);
    let gone: usize = report.commands.iter().map(|command| command.nodes.len()).sum();
    let new: usize = report.commands.iter().map(|command| command.new_nodes.len()).sum();
    let moved: usize = report.commands.iter().map(|command| command.evictions).sum();
    writeln!(
        out,
        "{}: {} go, {} come, {} move",
        counted(steps, "command"),
        counted(gone, "node"),
        counted(new, "node"),
        counted(moved, "pod")
    )?;
    writeln!(out, "${:.4} per hour now, ${:.4} then, ${:.4} saved", cost.before, cost.after, cost.saved)?;
    writeln!(
        out,
        "no plan for the pods of nodes that may go costs less than ${:.4} per hour, ${:.4} less than then",
        cost.lower_bound, cost.remaining_gap
    )?;
    if report.stopped {
        writeln!(out, "the search was stopped before it had found everything, please report this")?;
    }
    Ok(())
}

fn row(command: &Command) -> Vec<String> {
    let going = command.nodes.iter().map(|node| match &node.instance_type {
        Some(kind) => format!("{} ({kind})", node.node),
        None => node.node.clone(),
    });
    let new = command.new_nodes.iter().map(|node| format!("{} ({} {})", node.name, node.instance_type, node.zone));
    let none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    vec![
        command.step.to_string(),
        command.reason.to_owned(),
        going.collect::<Vec<_>>().join(", "),
        none(new.collect::<Vec<_>>().join(", ")),
        format!("{:.4}", command.saves_per_hour),
        command.evictions.to_string(),
    ]
}

fn write_rest(all: usize, thing: &str, out: &mut dyn Write) -> Result<()> {
    if all > LINES {
        writeln!(out, "  and {} (-o json has them all)", counted(all - LINES, &format!("more {thing}")))?;
    }
    Ok(())
}

fn write_reasons(report: &Report, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "why they are allowed:")?;
    for command in report.commands.iter().take(LINES) {
        writeln!(out, "  {}: {}", command.step, command.allowed_because.join("; "))?;
    }
    write_rest(report.commands.len(), "command", out)
}

fn write_moves(report: &Report, out: &mut dyn Write) -> Result<()> {
    let moves: Vec<(usize, &Move)> =
        report.commands.iter().flat_map(|command| command.moves.iter().map(|moved| (command.step, moved))).collect();
    if moves.is_empty() {
        return Ok(());
    }
    writeln!(out, "pods that move:")?;
    let rows: Vec<Vec<String>> = moves
        .iter()
        .take(LINES)
        .map(|(step, moved)| vec![format!("{step}:"), moved.pod.clone(), format!("{} -> {}", moved.from, moved.to)])
        .collect();
    write_aligned(&rows, out)?;
    write_rest(moves.len(), "pod", out)
}

/// Nodes that one reason holds share a line.
fn write_held(report: &Report, out: &mut dyn Write) -> Result<()> {
    if report.held_back.is_empty() {
        return Ok(());
    }
    writeln!(out, "nodes that stay:")?;
    let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for held in &report.held_back {
        groups.entry((held.reason, &held.message)).or_default().push(&held.node);
    }
    for ((reason, message), nodes) in groups.iter().take(LINES) {
        const NAMED: usize = 6;
        let mut names = nodes.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        if nodes.len() > NAMED {
            names = format!("{names} and {} more", nodes.len() - NAMED);
        }
        writeln!(out, "  {names}: {message} ({reason})")?;
    }
    write_rest(groups.len(), "reason", out)
}
