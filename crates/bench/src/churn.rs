//! What verdicts on all nodes take after a part of the cluster has changed, against finding them from nothing (G14).

use std::io::{Result, Write};
use std::sync::Arc;

use karpenter_disruption::candidates::{Candidate, Class};
use karpenter_disruption::look::Look;
use karpenter_disruption::methods::{Consolidation, Method, Seen};
use karpenter_disruption::roll::Roll;
use karpenter_disruption::verdicts::{self, Cache, Verdict};
use karpenter_model::pod::PodView;

use crate::consolidation::{Began, ms};
use crate::scenarios::aged::{Aged, simulator};

/// Of so many nodes the plain version is asked as well.
const SAMPLE: usize = 12;
/// Rounds of changes.
const ROUNDS: usize = 8;

/// One look at a cluster of which verdicts are known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Churned {
    /// Nodes that pods have left or come to.
    pub changed: usize,
    pub verdicts: usize,
    pub delete: usize,
    /// Verdicts that took a simulation.
    pub anew: usize,
    /// Until it is known which nodes may go at all, with what is known from earlier looks; and from nothing.
    pub candidates_ms: f64,
    pub fresh_candidates_ms: f64,
    /// Until the compiled snapshot is that of the cluster now.
    pub follow_ms: f64,
    /// The verdicts after that.
    pub verdicts_ms: f64,
    /// All verdicts from nothing.
    pub all_ms: f64,
    /// The single-node method as the controller runs it, until it has a command: who may go, within which budgets, in which order,
    /// verdicts on all, and a plan for the one that goes.
    pub pass_ms: f64,
    /// Candidates and verdicts that are not those from nothing, verdicts that are not those of a simulation for each node, or those of
    /// the plain version.
    pub differ: usize,
}

impl Churned {
    /// Which nodes may go at all, and what to do about each.
    pub fn replan_ms(&self) -> f64 {
        self.candidates_ms + self.follow_ms + self.verdicts_ms
    }
}

/// What is kept from look to look.
#[derive(Default)]
struct Kept {
    roll: Roll,
    cache: Cache,
    seen: Seen,
}

/// Of every hundredth node a pod moves to the next node; how many nodes have changed.
fn churn(aged: &mut Aged, round: usize) -> usize {
    const EVERY: usize = 100;
    let nodes = &mut aged.snapshot.nodes;
    let mut changed = 0;
    for at in ((round * 7 % EVERY)..nodes.len().saturating_sub(1)).step_by(EVERY) {
        let room = nodes[at + 1].available();
        let Some(found) = nodes[at].pods.iter().position(|pod| pod.requests.fits(&room)) else { continue };
        let pod = nodes[at].pods.remove(found);
        nodes[at].requested.subtract(&pod.requests);
        let next = &mut nodes[at + 1];
        let moved = PodView { node_name: Some(next.name().into()), ..PodView::clone(&pod) };
        next.requested.add(&moved.requests);
        next.pods.push(Arc::new(moved));
        next.pods.sort_by(|a, b| a.id.cmp(&b.id));
        changed += 2;
    }
    changed
}

fn look_at(aged: &Aged, kept: &mut Kept, changed: usize) -> (Churned, Vec<Verdict>) {
    let Kept { roll, cache, seen } = kept;
    let look = aged.look();
    let began = Began::now();
    roll.refresh(&look.snapshot.nodes, &look.facts);
    let look = Look { roll: Some(roll), ..look };
    let candidates = look.candidates(Class::Graceful, &mut Vec::new());
    let candidates_ms = ms(began);
    let began = Began::now();
    let mut known = simulator(&look);
    cache.refresh(&look, &mut known);
    let follow_ms = ms(began);
    let began = Began::now();
    let found: Vec<(Verdict, bool)> = candidates.iter().map(|one| cache.of(one, &look, &mut known)).collect();
    let verdicts_ms = ms(began);
    cache.keep(&look, &mut known);
    let began = Began::now();
    let mut known = simulator(&look);
    let decided = Consolidation::new(&look, &mut known, Method::Single).single(seen, &mut || false);
    let pass_ms = ms(began);
    assert!(decided.eligible <= found.len(), "nobody goes who may not");
    let churned = Churned {
        changed,
        verdicts: found.len(),
        delete: found.iter().filter(|(one, _)| matches!(one, Verdict::Delete { .. })).count(),
        anew: found.iter().filter(|(_, anew)| *anew).count(),
        candidates_ms,
        follow_ms,
        verdicts_ms,
        pass_ms,
        ..Churned::default()
    };
    (churned, found.into_iter().map(|(one, _)| one).collect())
}

/// So many nodes of which pods stay with so many chances in a hundred.
pub fn measure(nodes: usize, stay: usize) -> Vec<Churned> {
    let mut aged = Aged::new(nodes, stay, 91);
    let mut kept = Kept::default();
    let mut rows = vec![look_at(&aged, &mut kept, nodes).0];
    for round in 0..ROUNDS {
        let changed = churn(&mut aged, round);
        let (mut row, found) = look_at(&aged, &mut kept, changed);
        let look = aged.look();
        let known = Look { roll: Some(&kept.roll), ..look.clone() }.candidates(Class::Graceful, &mut Vec::new());
        let began = Began::now();
        let candidates = look.candidates(Class::Graceful, &mut Vec::new());
        row.fresh_candidates_ms = ms(began);
        let all: Vec<&Candidate<'_>> = candidates.iter().collect();
        let began = Began::now();
        let fresh = verdicts::of_each(&all, &look, &mut simulator(&look));
        row.all_ms = ms(began);
        let same = |a: &Candidate<'_>, b: &Candidate<'_>| {
            (a.name(), a.price, a.has_blockers) == (b.name(), b.price, b.has_blockers)
                && a.reschedule_cost.total_cmp(&b.reschedule_cost).is_eq()
        };
        row.differ = candidates.len().abs_diff(known.len());
        row.differ += candidates.iter().zip(&known).filter(|(a, b)| !same(a, b)).count();
        row.differ += fresh.iter().zip(&found).filter(|(a, b)| a != b).count();
        let mut known = simulator(&look);
        let simulated = all.iter().map(|one| verdicts::simulated(one, &look, &mut known));
        row.differ += simulated.zip(&found).filter(|(a, b)| a != *b).count();
        for at in (0..SAMPLE).map(|turn| turn * all.len() / SAMPLE) {
            let mut plain = simulator(&look).uncompiled();
            row.differ += usize::from(verdicts::of(all[at], &look, &mut plain) != found[at]);
        }
        rows.push(row);
    }
    rows
}

/// Whether no verdict differs.
pub fn write(nodes: usize, stay: usize, out: &mut dyn Write) -> Result<bool> {
    let rows = measure(nodes, stay);
    for row in &rows {
        writeln!(
            out,
            "{nodes} nodes, {stay} % of the pods left, {} nodes changed: {} verdicts ({} delete), {} found anew; candidates {:.2} ms, \
             compiled {:.2} ms, verdicts {:.2} ms, together {:.2} ms; a pass of the method {:.2} ms; from nothing {:.1} + {:.1} ms; {} differ",
            row.changed,
            row.verdicts,
            row.delete,
            row.anew,
            row.candidates_ms,
            row.follow_ms,
            row.verdicts_ms,
            row.replan_ms(),
            row.pass_ms,
            row.fresh_candidates_ms,
            row.all_ms,
            row.differ
        )?;
    }
    Ok(rows.iter().all(|row| row.differ == 0))
}
