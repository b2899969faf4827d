//! The rows as people read them.

use std::io::{Result, Write};

use crate::run::{Row, growth_per_doubling};

const HEAD: [&str; 16] = [
    "SCENARIO",
    "PODS",
    "PLANNER",
    "COMPILE ms",
    "SOLVE ms",
    "PODS/s",
    "ALLOCS",
    "PEAK MiB",
    "NODES",
    "$/HOUR",
    "BOUND",
    "GAP",
    "UNPLACED",
    "VIOLATIONS",
    "CHECK ms",
    "x2",
];

/// The whole table; `x2` is by how much the time grows when the pods double.
pub fn write(rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let mut cells: Vec<Vec<String>> = vec![HEAD.map(ToOwned::to_owned).to_vec()];
    for (index, row) in rows.iter().enumerate() {
        let before =
            rows[..index].iter().rev().find(|other| other.family == row.family && other.planner == row.planner);
        cells.push(line(row, before.and_then(|before| growth_per_doubling(before, row))));
    }
    let widths: Vec<usize> =
        (0..HEAD.len()).map(|column| cells.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    for row in &cells {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // Names to the left, numbers to the right.
            if matches!(column, 0 | 2) { write!(out, "{cell:width$}  ")? } else { write!(out, "{cell:>width$}  ")? }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn line(row: &Row, growth: Option<f64>) -> Vec<String> {
    let dash = || "-".to_owned();
    vec![
        row.scenario.clone(),
        row.pods.to_string(),
        row.planner.name().to_owned(),
        row.compile_ms.map_or_else(dash, |ms| format!("{ms:.3}")),
        format!("{:.3}{}", row.solve_ms, if row.stopped { " stopped" } else { "" }),
        format!("{:.0}", row.pods_per_second),
        row.allocations.map_or_else(dash, |count| count.to_string()),
        row.peak_bytes.map_or_else(dash, mebibytes),
        row.nodes.to_string(),
        format!("{:.4}", row.cost),
        row.lower_bound.map_or_else(dash, |bound| format!("{bound:.4}")),
        row.gap.map_or_else(dash, |gap| format!("{:.2} %", gap * 100.0)),
        row.unplaced.to_string(),
        row.violations.len().to_string(),
        format!("{:.0}", row.check_ms),
        growth.map_or_else(dash, |growth| format!("{growth:.2}")),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "to be read by people")]
fn mebibytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1024.0 / 1024.0)
}
