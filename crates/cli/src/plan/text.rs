//! The plan as people read it.

use std::collections::BTreeMap;
use std::io::{Result, Write};

use super::report::{NewNode, Report, Unschedulable};

/// How many workloads or pods a line names.
const SHOWN: usize = 4;
/// How many lines a part has; who wants more takes JSON.
pub(super) const LINES: usize = 40;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    if !report.nodes.is_empty() {
        writeln!(out, "new nodes:")?;
        write_new_nodes(&report.nodes, out)?;
        write_shapes(&report.nodes, out)?;
    }
    if !report.existing.is_empty() {
        writeln!(out, "existing nodes:")?;
        let row = |node: &str, pods: &[String], makers: &[String]| vec![node.to_owned(), names(pods, makers)];
        let places = report.existing.iter().take(LINES);
        let rows: Vec<_> = places.map(|place| row(&place.node, &place.pods, &place.makers)).collect();
        write_aligned(&rows, out)?;
        write_rest(report.existing.len(), "node", out)?;
    }
    write_unschedulable(&report.unschedulable, out)?;
    write_buffers(report, out)?;
    let new: usize = report.nodes.iter().map(|node| node.pods.len()).sum();
    let existing: usize = report.existing.iter().map(|place| place.pods.len()).sum();
    writeln!(
        out,
        "{} on {}, {existing} on existing nodes, {} unschedulable",
        counted(new, "pod"),
        counted(report.nodes.len(), "new node"),
        report.unschedulable.len(),
    )?;
    write_cost(report, out)
}

fn write_cost(report: &Report, out: &mut dyn Write) -> Result<()> {
    let cost = &report.cost;
    writeln!(out, "${:.4} per hour ({} planner)", cost.per_hour, report.planner)?;
    if let (Some(bound), Some(kind), false) = (cost.lower_bound, cost.bound_kind, report.nodes.is_empty()) {
        write!(out, "no plan for these pods costs less than ${bound:.4} per hour ({kind} bound")?;
        match cost.gap {
            Some(gap) => writeln!(out, ", gap {:.2} %)", gap * 100.0)?,
            None => writeln!(out, ")")?,
        }
    }
    Ok(())
}

/// That there is more than is shown.
fn write_rest(all: usize, thing: &str, out: &mut dyn Write) -> Result<()> {
    match all.saturating_sub(LINES) {
        0 => Ok(()),
        more => writeln!(out, "  and {} (-o json has them all)", counted(more, &format!("more {thing}"))),
    }
}

/// Why nodes have the types they have, each reason once.
fn write_shapes(nodes: &[NewNode], out: &mut dyn Write) -> Result<()> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for why in nodes.iter().filter_map(|node| node.why.as_deref()) {
        let index = *known.entry(why).or_insert_with(|| {
            reasons.push((why, 0));
            reasons.len() - 1
        });
        reasons[index].1 += 1;
    }
    if !reasons.is_empty() {
        writeln!(out, "why these types:")?;
    }
    for (why, count) in reasons.iter().take(LINES) {
        match count {
            1 => writeln!(out, "  {why}")?,
            _ => writeln!(out, "  {count} x {why}")?,
        }
    }
    write_rest(reasons.len(), "reason", out)
}

fn write_buffers(report: &Report, out: &mut dyn Write) -> Result<()> {
    if !report.buffers.is_empty() {
        writeln!(out, "buffers:")?;
    }
    for buffer in report.buffers.iter().take(LINES) {
        writeln!(out, "  {} of {}: {}", buffer.buffer, counted(buffer.replicas as usize, "pod"), buffer.message)?;
    }
    write_rest(report.buffers.len(), "buffer", out)
}

pub(super) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Nodes that share a line.
struct Group<'r> {
    shape: Vec<String>,
    nodes: Vec<&'r NewNode>,
}

/// Nodes that differ only in which pods of the same workloads they hold share a line; if that makes too many lines, all
/// of a type in a zone.
fn write_new_nodes(nodes: &[NewNode], out: &mut dyn Write) -> Result<()> {
    // Resources that any node is filled with, the usual ones first.
    let mut resources: Vec<&str> = vec!["cpu", "memory"];
    for name in nodes.iter().filter_map(|node| node.launch.as_ref()).flat_map(|launch| launch.fill.keys()) {
        if !resources.contains(&name.as_str()) && name != "pods" {
            resources.push(name);
        }
    }
    resources.push("pods");
    let alike = |node: &NewNode| {
        let makers = counts(&node.makers).into_iter().map(|(name, count)| format!("{name} x{count}"));
        let mut key = shape(node);
        key.extend(fill(&[node], &resources));
        key.extend(makers);
        key
    };
    let mut groups = grouped(nodes, alike);
    if groups.len() > LINES {
        groups = grouped(nodes, shape);
    }
    let mut head = vec!["NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "$/HOUR"];
    let fills: Vec<String> = resources.iter().map(|name| name.to_uppercase()).collect();
    head.extend(fills.iter().map(String::as_str));
    head.push("HOLDS");
    let mut rows = vec![head.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()];
    for group in groups.iter().take(LINES) {
        let mut row = vec![group.nodes.len().to_string()];
        row.extend(group.shape.iter().cloned());
        row.extend(fill(&group.nodes, &resources));
        row.push(holds(&group.nodes));
        rows.push(row);
    }
    write_aligned(&rows, out)?;
    write_rest(groups.len(), "line", out)
}

fn grouped<'r>(nodes: &'r [NewNode], key: impl Fn(&NewNode) -> Vec<String>) -> Vec<Group<'r>> {
    let mut groups: Vec<Group<'r>> = Vec::new();
    let mut known: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for node in nodes {
        let index = *known.entry(key(node)).or_insert_with(|| {
            groups.push(Group { shape: shape(node), nodes: Vec::new() });
            groups.len() - 1
        });
        groups[index].nodes.push(node);
    }
    groups
}

/// What each of them holds, or all of them together when they differ.
fn holds(nodes: &[&NewNode]) -> String {
    match nodes {
        [one] => names(&one.pods, &one.makers),
        [first, rest @ ..] if rest.iter().all(|node| counts(&node.makers) == counts(&first.makers)) => {
            workloads(&first.makers)
        }
        several => {
            let all: Vec<String> = several.iter().flat_map(|node| node.makers.iter().cloned()).collect();
            format!("together {}", workloads(&all))
        }
    }
}

fn shape(node: &NewNode) -> Vec<String> {
    let others = node.instance_types.len().saturating_sub(1);
    let Some(launch) = &node.launch else {
        let mut row = vec![node.node_pool.clone(), "none to be had".to_owned()];
        row.resize(5, String::new());
        return row;
    };
    vec![
        node.node_pool.clone(),
        if others == 0 { launch.instance_type.clone() } else { format!("{} (+{others})", launch.instance_type) },
        launch.zone.clone(),
        launch.capacity_type.clone(),
        format!("{:.4}", launch.price_per_hour),
    ]
}

/// How full they are, on average.
fn fill(nodes: &[&NewNode], resources: &[&str]) -> Vec<String> {
    let average = |name: &&str| {
        let launches = nodes.iter().filter_map(|node| node.launch.as_ref());
        let shares: Vec<usize> =
            launches.filter_map(|launch| launch.fill.get(*name)).map(|one| *one as usize).collect();
        if shares.is_empty() { "-".to_owned() } else { format!("{}%", shares.iter().sum::<usize>() / shares.len()) }
    };
    resources.iter().map(average).collect()
}

fn counts(makers: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for maker in makers {
        *counts.entry(maker.as_str()).or_default() += 1;
    }
    counts
}

/// The names of few pods, else how many of which workload.
fn names(pods: &[String], makers: &[String]) -> String {
    if pods.len() <= SHOWN { pods.join(" ") } else { workloads(makers) }
}

fn workloads(makers: &[String]) -> String {
    let counts = counts(makers);
    let text = |(name, count): (&&str, &usize)| {
        if *count == 1 { (*name).to_owned() } else { format!("{count} of {name}") }
    };
    let shown: Vec<String> = counts.iter().take(SHOWN).map(text).collect();
    match counts.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

/// Pods that fail for the same reasons are told once.
fn write_unschedulable(pods: &[Unschedulable], out: &mut dyn Write) -> Result<()> {
    if !pods.is_empty() {
        writeln!(out, "unschedulable:")?;
    }
    let mut groups: Vec<Vec<&Unschedulable>> = Vec::new();
    let mut known: BTreeMap<&[String], usize> = BTreeMap::new();
    for pod in pods {
        let index = *known.entry(&pod.reasons).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[index].push(pod);
    }
    for group in groups.iter().take(LINES) {
        let [first, ..] = &group[..] else { continue };
        let makers: Vec<String> = group.iter().map(|pod| pod.maker.clone()).collect();
        match group.len() {
            1 => writeln!(out, "  {}", first.pod)?,
            count if counts(&makers).len() == 1 => {
                writeln!(out, "  {count} pods of {} ({} and others)", first.maker, first.pod)?;
            }
            count => writeln!(out, "  {count} pods: {}", workloads(&makers))?,
        }
        for reason in first.reasons.iter().take(LINES) {
            writeln!(out, "    {reason}")?;
        }
        if first.reasons.len() > LINES {
            writeln!(out, "    and {} (-o json has them all)", counted(first.reasons.len() - LINES, "more reason"))?;
        }
    }
    let more: usize = groups.iter().skip(LINES).map(Vec::len).sum();
    if more > 0 {
        writeln!(out, "  and {} for other reasons (-o json has them all)", counted(more, "more pod"))?;
    }
    Ok(())
}

pub(super) fn write_aligned(rows: &[Vec<String>], out: &mut dyn Write) -> Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
