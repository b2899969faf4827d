//! What looking at every node for consolidation takes, against a plain version that plans the whole cluster anew for
//! each of them.

use std::io::{Result, Write};
use std::time::Instant;

use karpenter_disruption::candidates::{Candidate, Class};
use karpenter_disruption::verdicts::{self, Verdict};

use crate::scenarios::aged::{Aged, simulator};

/// Of so many nodes the plain version is asked, evenly spaced; the rest is extrapolated.
const SAMPLE: usize = 12;

/// What one size of the cluster took.
#[derive(Debug, Clone)]
pub struct Swept {
    pub nodes: usize,
    pub pods: usize,
    pub candidates: usize,
    /// Until every node has a verdict, from a snapshot that nothing is known about.
    pub all_ms: f64,
    /// The same of a snapshot that is compiled.
    pub again_ms: f64,
    /// One node, from scratch.
    pub plain_ms: f64,
    pub delete: usize,
    pub replace: usize,
    /// Of the sample.
    pub differ: usize,
}

impl Swept {
    /// How many times as long the plain version would take for all.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn ratio(&self) -> f64 {
        self.plain_ms * self.candidates as f64 / self.all_ms
    }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Looks at every node of an aged cluster.
#[expect(clippy::cast_precision_loss, reason = "a mean")]
pub fn sweep(nodes: usize) -> Swept {
    let aged = Aged::new(nodes, 60, 91);
    let look = aged.look();
    let started = Instant::now();
    let candidates = look.candidates(Class::Graceful, &mut Vec::new());
    let all: Vec<&Candidate<'_>> = candidates.iter().collect();
    let mut known = simulator(&look);
    let found = verdicts::of_each(&all, &look, &mut known);
    let all_ms = ms(started);
    let started = Instant::now();
    let again = verdicts::of_each(&all, &look, &mut known);
    let again_ms = ms(started);
    assert_eq!(found, again, "questions leave no trace");
    let mut differ = 0;
    let sampled: Vec<usize> = (0..SAMPLE).map(|turn| turn * all.len() / SAMPLE).collect();
    let started = Instant::now();
    for at in &sampled {
        let mut plain = simulator(&look).uncompiled();
        differ += usize::from(verdicts::of(all[*at], &look, &mut plain) != found[*at]);
    }
    let plain_ms = ms(started) / sampled.len() as f64;
    Swept {
        nodes,
        pods: aged.pods(),
        candidates: all.len(),
        all_ms,
        again_ms,
        plain_ms,
        delete: found.iter().filter(|one| matches!(one, Verdict::Delete { .. })).count(),
        replace: found.iter().filter(|one| matches!(one, Verdict::Replace { .. })).count(),
        differ,
    }
}

pub fn write(rows: &[Swept], out: &mut dyn Write) -> Result<()> {
    for row in rows {
        writeln!(
            out,
            "{} nodes, {} pods: {} verdicts ({} delete, {} replace) in {:.1} ms, again {:.1} ms; plain {:.1} ms each, \
             {:.0} times as long for all; {} of {SAMPLE} differ",
            row.nodes,
            row.pods,
            row.candidates,
            row.delete,
            row.replace,
            row.all_ms,
            row.again_ms,
            row.plain_ms,
            row.ratio(),
            row.differ
        )?;
    }
    for (smaller, larger) in rows.iter().zip(rows.iter().skip(1)) {
        writeln!(
            out,
            "{} to {} nodes: {:.2} times as long, again {:.2}",
            smaller.nodes,
            larger.nodes,
            larger.all_ms / smaller.all_ms,
            larger.again_ms / smaller.again_ms
        )?;
    }
    Ok(())
}
