//! The plan as people read it.

use std::collections::BTreeMap;
use std::io::{Result, Write};

use super::report::{NewNode, Report, Unschedulable};

/// How many workloads or pods a line names.
const SHOWN: usize = 4;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    if !report.nodes.is_empty() {
        writeln!(out, "new nodes:")?;
        write_aligned(&new_nodes(&report.nodes), out)?;
    }
    if !report.existing.is_empty() {
        writeln!(out, "existing nodes:")?;
        let row = |node: &str, pods: &[String], makers: &[String]| vec![node.to_owned(), names(pods, makers)];
        let rows: Vec<_> = report.existing.iter().map(|place| row(&place.node, &place.pods, &place.makers)).collect();
        write_aligned(&rows, out)?;
    }
    write_unschedulable(&report.unschedulable, out)?;
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

fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Nodes that differ only in which pods of the same workloads they hold share a line.
fn new_nodes(nodes: &[NewNode]) -> Vec<Vec<String>> {
    // Resources that any node is filled with, the usual ones first.
    let mut resources: Vec<&str> = vec!["cpu", "memory"];
    for name in nodes.iter().filter_map(|node| node.launch.as_ref()).flat_map(|launch| launch.fill.keys()) {
        if !resources.contains(&name.as_str()) && name != "pods" {
            resources.push(name);
        }
    }
    resources.push("pods");
    let mut groups: Vec<(Vec<String>, Vec<&NewNode>)> = Vec::new();
    let mut known: BTreeMap<(Vec<String>, String), usize> = BTreeMap::new();
    for node in nodes {
        let shape = shape(node, &resources);
        let makers =
            counts(&node.makers).into_iter().map(|(name, count)| format!("{name} x{count}")).collect::<Vec<_>>();
        let index = *known.entry((shape.clone(), makers.join(" "))).or_insert_with(|| {
            groups.push((shape, Vec::new()));
            groups.len() - 1
        });
        groups[index].1.push(node);
    }
    let mut head = vec!["NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "$/HOUR"];
    let fills: Vec<String> = resources.iter().map(|name| name.to_uppercase()).collect();
    head.extend(fills.iter().map(String::as_str));
    head.push("HOLDS");
    let mut rows = vec![head.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()];
    for (shape, nodes) in groups {
        let mut row = vec![nodes.len().to_string()];
        row.extend(shape);
        row.push(match &nodes[..] {
            [one] => names(&one.pods, &one.makers),
            several => several.first().map(|one| workloads(&one.makers)).unwrap_or_default(),
        });
        rows.push(row);
    }
    rows
}

fn shape(node: &NewNode, resources: &[&str]) -> Vec<String> {
    let others = node.instance_types.len().saturating_sub(1);
    let Some(launch) = &node.launch else {
        let mut row = vec![node.node_pool.clone(), "none to be had".to_owned()];
        row.resize(5 + resources.len(), String::new());
        return row;
    };
    let mut row = vec![
        node.node_pool.clone(),
        if others == 0 { launch.instance_type.clone() } else { format!("{} (+{others})", launch.instance_type) },
        launch.zone.clone(),
        launch.capacity_type.clone(),
        format!("{:.4}", launch.price_per_hour),
    ];
    row.extend(resources.iter().map(|name| launch.fill.get(*name).map_or("-".to_owned(), |fill| format!("{fill}%"))));
    row
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

/// Pods of a workload that fail for the same reasons are told once.
fn write_unschedulable(pods: &[Unschedulable], out: &mut dyn Write) -> Result<()> {
    if !pods.is_empty() {
        writeln!(out, "unschedulable:")?;
    }
    let mut groups: Vec<(&Unschedulable, usize)> = Vec::new();
    for pod in pods {
        match groups.iter_mut().find(|(first, _)| first.maker == pod.maker && first.reasons == pod.reasons) {
            Some((_, count)) => *count += 1,
            None => groups.push((pod, 1)),
        }
    }
    for (first, count) in groups {
        match count {
            1 => writeln!(out, "  {}", first.pod)?,
            _ => writeln!(out, "  {count} pods of {} ({} and others)", first.maker, first.pod)?,
        }
        for reason in &first.reasons {
            writeln!(out, "    {reason}")?;
        }
    }
    Ok(())
}

fn write_aligned(rows: &[Vec<String>], out: &mut dyn Write) -> Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
