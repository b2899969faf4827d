//! The plan as people read it.

use std::io::{Result, Write};

use super::report::{NewNode, Report};

/// How many pods a line names.
const SHOWN: usize = 3;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    if !report.nodes.is_empty() {
        writeln!(out, "new nodes:")?;
        let mut rows =
            vec![["POOL", "TYPE", "ZONE", "CAPACITY", "$/HOUR", "FILL", "PODS"].map(ToOwned::to_owned).to_vec()];
        rows.extend(report.nodes.iter().map(row));
        write_aligned(&rows, out)?;
    }
    if !report.existing.is_empty() {
        writeln!(out, "existing nodes:")?;
        let rows: Vec<Vec<String>> =
            report.existing.iter().map(|place| vec![place.node.clone(), some(&place.pods)]).collect();
        write_aligned(&rows, out)?;
    }
    if !report.unschedulable.is_empty() {
        writeln!(out, "unschedulable:")?;
        for pod in &report.unschedulable {
            writeln!(out, "  {}", pod.pod)?;
            for reason in &pod.reasons {
                writeln!(out, "    {reason}")?;
            }
        }
    }
    let new: usize = report.nodes.iter().map(|node| node.pods.len()).sum();
    let existing: usize = report.existing.iter().map(|place| place.pods.len()).sum();
    writeln!(
        out,
        "{} on {}, {existing} on existing nodes, {} unschedulable; ${:.4} per hour",
        counted(new, "pod"),
        counted(report.nodes.len(), "new node"),
        report.unschedulable.len(),
        report.cost.per_hour
    )
}

fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn row(node: &NewNode) -> Vec<String> {
    let others = node.instance_types.len().saturating_sub(1);
    let Some(launch) = &node.launch else {
        return vec![node.node_pool.clone(), "none to be had".to_owned()];
    };
    let fill: Vec<String> = ["cpu", "memory", "pods"]
        .iter()
        .filter_map(|name| Some(format!("{name} {}%", launch.fill.get(*name)?)))
        .collect();
    vec![
        node.node_pool.clone(),
        format!("{} (+{others})", launch.instance_type),
        launch.zone.clone(),
        launch.capacity_type.clone(),
        format!("{:.4}", launch.price_per_hour),
        fill.join(" "),
        format!("{}: {}", node.pods.len(), some(&node.pods)),
    ]
}

fn some(pods: &[String]) -> String {
    let shown = pods.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(" ");
    match pods.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} +{more}"),
    }
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
