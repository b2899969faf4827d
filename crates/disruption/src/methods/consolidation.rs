//! Nodes whose pods would cost less elsewhere (DIS-97 … DIS-140), in the specified order and within the specified limits.

mod by_value;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::duration::NillableDuration;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::pool::{ConsolidationPolicy, PoolView};
use karpenter_model::snapshot::ExistingNode;

use super::emptiness::NEVER;
use super::{Command, Decided, Method};
use crate::balanced::{self, Score, Totals};
use crate::budgets::Allowance;
use crate::candidates::{Candidate, Eligibility};
use crate::cost;
use crate::look::{Look, sources};
use crate::option::{self, Move};
use crate::report::{Note, Subject};
use crate::simulation::{Receiving, Simulator};
use crate::verdicts::{Cache, Verdict};

pub use self::by_value::{Outlook, Searched};

/// Of so many nodes a command may consist (DIS-119; without the off-by-one, X22).
const WINDOW: usize = 100;

/// Pools that an earlier scan did not get to; they come first in the next (DIS-126).
#[derive(Debug, Default)]
pub struct Seen {
    pub unseen: BTreeSet<String>,
    /// What earlier scans found out.
    pub verdicts: Cache,
}

/// One run of a consolidation method.
pub struct Consolidation<'l, 'a, 's> {
    look: &'l Look<'a>,
    simulator: &'l mut Simulator<'s>,
    method: Method,
    totals: BTreeMap<String, Totals>,
    allowances: BTreeMap<String, Allowance>,
    candidates: Vec<Candidate<'a>>,
    notes: Vec<Note>,
    timed_out: bool,
    /// Spot nodes are not replaced here, so that nobody has to ask by what.
    spot_only_goes: bool,
}

impl std::fmt::Debug for Consolidation<'_, '_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consolidation").field("method", &self.method).finish_non_exhaustive()
    }
}

/// DIS-97, DIS-99; what an author should know about a node that stays is noted.
pub(super) fn is_eligible(candidate: &Candidate<'_>, notes: &mut Vec<Note>) -> bool {
    match &candidate.consolidation {
        Eligibility::Yes => true,
        Eligibility::No => false,
        Eligibility::Because(why) => {
            notes.push(Note::unconsolidatable(candidate.node, &**why));
            false
        }
    }
}

/// DIS-97, DIS-99, of what changes only with the node, its pods, its pool and its type.
pub(crate) fn eligibility(node: &ExistingNode, pool: &PoolView, instance_type: Option<&InstanceType>) -> Eligibility {
    if pool.replicas.is_some() {
        return Eligibility::No;
    }
    let label = |key: &str| node.labels().get(key).map(String::as_str);
    let name = || label(labels::INSTANCE_TYPE).unwrap_or("");
    // Whether anybody knows what the node costs: its type is sold where it is, as what it is (DIS-75).
    let is_priced = |known: &InstanceType, zone: &str, kind: &str| known.running_price(zone, kind).is_some();
    let unknown = match (instance_type, label(labels::CAPACITY_TYPE), label(labels::ZONE)) {
        (None, _, _) => Some(format!("Instance type {:?} is not known", name())),
        (_, None, _) => Some(format!("Node does not have label {:?}", labels::CAPACITY_TYPE)),
        (_, _, None) => Some(format!("Node does not have label {:?}", labels::ZONE)),
        // Nobody can say that anything is cheaper, nor what its going would save.
        (Some(known), Some(kind), Some(zone)) if !is_priced(known, zone, kind) => {
            Some(format!("Instance type {:?} has no price where the node is", name()))
        }
        _ if pool.consolidate_after == NillableDuration::Never => Some(NEVER.to_owned()),
        _ => None,
    };
    if let Some(why) = unknown {
        return Eligibility::Because(why.into());
    }
    if cost::is_empty(&node.pods) {
        return Eligibility::No;
    }
    if pool.consolidation_policy == ConsolidationPolicy::WhenEmpty {
        return Eligibility::Because("NodePool consolidates only nodes that are empty".into());
    }
    if node.claim.as_ref().is_some_and(|claim| claim.consolidatable) { Eligibility::Yes } else { Eligibility::No }
}

impl<'l, 'a, 's> Consolidation<'l, 'a, 's> {
    pub fn new(look: &'l Look<'a>, simulator: &'l mut Simulator<'s>, method: Method) -> Self {
        let mut notes = Vec::new();
        let mut candidates = look.candidates(method.class(), &mut notes);
        let totals = look.totals(&candidates);
        candidates.retain(|candidate| is_eligible(candidate, &mut notes));
        // Age counts only where the specification leaves it to us (X23).
        let ratio = |one: &Candidate<'_>| {
            let by_age = || cost::savings_ratio(one.price, one.cost_by_age(look.facts.now));
            if look.gates.specified_search { one.savings_ratio() } else { by_age() }
        };
        let mut ranked: Vec<(f64, Candidate<'a>)> = candidates.into_iter().map(|one| (ratio(&one), one)).collect();
        // Nodes are listed by name, and stay so where their ratios are equal (X22).
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let candidates: Vec<Candidate<'a>> = ranked.into_iter().map(|(_, one)| one).collect();
        let allowances =
            if candidates.is_empty() { BTreeMap::new() } else { look.allowances(method.reason(), &mut notes) };
        Self { look, simulator, method, totals, allowances, candidates, notes, timed_out: false, spot_only_goes: false }
    }

    fn decided(self, commands: Vec<Command>, settled: bool) -> Decided {
        Decided { settled, commands, eligible: self.candidates.len(), notes: self.notes, timed_out: self.timed_out }
    }

    /// Nodes that can go together: by value, or as specified where that is wanted.
    pub fn multi(self, should_stop: &mut dyn FnMut() -> bool) -> Decided {
        if self.look.gates.specified_search { self.specified(should_stop) } else { self.by_value(should_stop).decided }
    }

    /// The longest run of nodes, best ratio first, that can go together (DIS-117 … DIS-124).
    fn specified(mut self, should_stop: &mut dyn FnMut() -> bool) -> Decided {
        let candidates = self.candidates.clone();
        let mut allowed = self.allowances.clone();
        let (mut picked, mut skipped) = (Vec::new(), false);
        for candidate in &candidates {
            if allowed.get_mut(candidate.pool_name()).is_some_and(Allowance::take) {
                picked.push(candidate);
            } else {
                skipped = true;
            }
        }
        if picked.len() < 2 {
            return self.decided(Vec::new(), !skipped);
        }
        let (mut low, mut high) = (2, picked.len().min(WINDOW));
        let mut best: Option<(usize, Move, BTreeMap<String, Score>)> = None;
        let mut rejected: Option<(usize, BTreeMap<String, Score>)> = None;
        while low <= high {
            if should_stop() {
                self.timed_out = true;
                break;
            }
            let count = usize::midpoint(low, high);
            let prefix = &picked[..count];
            if let Some(found) = self.together(prefix) {
                let sources = sources(prefix);
                let votes = balanced::votes(&self.totals, &sources, found.savings);
                if balanced::approved(&sources, &votes) {
                    best = Some((count, found, votes));
                    low = count + 1;
                    continue;
                }
                rejected = Some((count, votes));
            }
            high = count - 1;
        }
        let Some((count, found, votes)) = best else {
            if let Some((count, votes)) = rejected.filter(|_| !self.timed_out) {
                self.judge_many(&picked[..count], &votes, false);
            }
            // Nothing is known about what was not tried (X5).
            let settled = !skipped && !self.timed_out;
            return self.decided(Vec::new(), settled);
        };
        let nodes = &picked[..count];
        self.judge_many(nodes, &votes, true);
        let receiving = found.simulated.receiving(&self.look.snapshot.pending);
        let command = Command::of_move(self.method, nodes, found, receiving);
        self.decided(vec![command], false)
    }

    /// DIS-120, DIS-122.
    fn together(&mut self, nodes: &[&Candidate<'a>]) -> Option<Move> {
        let mut found = option::compute(nodes, self.look, self.simulator).ok()?;
        self.consider(nodes, &Command::of_move(self.method, nodes, found.clone(), Receiving::default()));
        if let [claim] = &found.replacements[..] {
            let kept = option::without_own_types(claim, nodes, self.look).ok()??;
            let price: f64 = nodes.iter().map(|node| node.price.per_hour()).sum();
            found.savings = price - kept.price.per_hour();
            found.replacements = vec![kept];
        }
        Some(found)
    }

    /// DIS-111: deletes are not announced.
    fn consider(&mut self, nodes: &[&Candidate<'a>], command: &Command) {
        if command.replacements.is_empty() {
            return;
        }
        for node in nodes {
            self.notes.push(Note::Considered {
                subject: Subject::of(node.node),
                text: command.text_of(node.name()),
                savings: command.savings,
            });
        }
    }

    /// DIS-139, X29: pools hear of the outcome of the move, not of their own vote.
    fn judge_many(&mut self, nodes: &[&Candidate<'a>], votes: &BTreeMap<String, Score>, approved: bool) {
        let pools: BTreeMap<&str, ConsolidationPolicy> =
            nodes.iter().map(|node| (node.pool_name(), node.pool.view.consolidation_policy)).collect();
        for (pool, policy) in pools {
            let score = votes.get(pool).copied();
            self.notes.push(Note::Judged { pool: pool.to_owned(), policy, approved, score });
            if let Some(score) = score.filter(|_| approved) {
                self.notes.push(Note::Approved { subject: None, pool: pool.to_owned(), score });
            }
        }
    }

    /// The node that saves most by going by itself, for what that asks of its pods (X7); where the specification is wanted, the first
    /// that can (DIS-126 … DIS-130).
    pub fn single(mut self, seen: &mut Seen, should_stop: &mut dyn FnMut() -> bool) -> Decided {
        let some = !self.candidates.is_empty();
        if some {
            seen.verdicts.refresh(self.look, self.simulator);
        }
        let (commands, settled) = self.scan(seen, should_stop);
        if some {
            seen.verdicts.keep(self.look, self.simulator);
        }
        self.decided(commands, settled)
    }

    /// What to do, and whether there is nothing to do.
    fn scan(&mut self, seen: &mut Seen, should_stop: &mut dyn FnMut() -> bool) -> (Vec<Command>, bool) {
        let candidates = self.candidates.clone();
        let pools: BTreeSet<&str> = candidates.iter().map(Candidate::pool_name).collect();
        let mut unseen: BTreeSet<String> = pools.into_iter().map(ToOwned::to_owned).collect();
        let mut skipped = false;
        let mut open: Vec<(f64, &Candidate<'a>)> = Vec::new();
        for candidate in interleaved(&candidates, &seen.unseen) {
            if should_stop() {
                self.timed_out = true;
                seen.unseen = unseen;
                return (Vec::new(), false);
            }
            unseen.remove(candidate.pool_name());
            if self.allowances.get(candidate.pool_name()).is_none_or(|allowance| allowance.remaining() == 0) {
                skipped = true;
                continue;
            }
            let balanced = candidate.pool.view.consolidation_policy == ConsolidationPolicy::Balanced;
            let totals = self.totals.get(candidate.pool_name());
            if balanced && balanced::is_hopeless(totals, candidate.price.per_hour(), candidate.reschedule_cost) {
                continue;
            }
            match seen.verdicts.of(candidate, self.look, self.simulator).0 {
                Verdict::Stays(why) => self.notes.push(Note::unconsolidatable(candidate.node, why.to_string())),
                goes if !self.look.gates.specified_search => {
                    open.push((goes.savings() / candidate.cost_by_age(self.look.facts.now), candidate));
                }
                _ => {
                    if let Some(command) = self.alone(candidate) {
                        return (vec![command], false);
                    }
                }
            }
        }
        seen.unseen.clear();
        open.sort_by(|a, b| b.0.total_cmp(&a.0));
        match open.into_iter().find_map(|(_, candidate)| self.alone(candidate)) {
            Some(command) => (vec![command], false),
            None => (Vec::new(), !skipped),
        }
    }

    /// The node goes, if it is worth it.
    fn alone(&mut self, candidate: &Candidate<'a>) -> Option<Command> {
        let found = match option::compute(&[candidate], self.look, self.simulator) {
            Ok(found) => found,
            Err(why) => {
                self.notes.push(Note::unconsolidatable(candidate.node, why.to_string()));
                return None;
            }
        };
        self.consider(&[candidate], &Command::of_move(self.method, &[candidate], found.clone(), Receiving::default()));
        self.judge_one(candidate, &found).then(|| {
            let receiving = found.simulated.receiving(&self.look.snapshot.pending);
            Command::of_move(self.method, &[candidate], found, receiving)
        })
    }

    /// DIS-139.
    fn judge_one(&mut self, candidate: &Candidate<'a>, found: &Move) -> bool {
        let sources = sources(&[candidate]);
        let votes = balanced::votes(&self.totals, &sources, found.savings);
        let approved = balanced::approved(&sources, &votes);
        let pool = candidate.pool_name().to_owned();
        let score = votes.get(&pool).copied();
        let policy = candidate.pool.view.consolidation_policy;
        self.notes.push(Note::Judged { pool: pool.clone(), policy, approved, score });
        if let Some(score) = score.filter(|_| approved) {
            self.notes.push(Note::Approved { subject: Some(Subject::of(candidate.node)), pool, score });
        }
        approved
    }
}

/// The first of each pool, the second of each, and so on; pools that were not reached last time come first, otherwise by
/// name (DIS-126, X22).
fn interleaved<'c, 'a>(candidates: &'c [Candidate<'a>], unseen: &BTreeSet<String>) -> Vec<&'c Candidate<'a>> {
    let mut rank: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ordered: Vec<(usize, bool, &str, &Candidate<'a>)> = candidates
        .iter()
        .map(|candidate| {
            let pool = candidate.pool_name();
            let at = rank.entry(pool).or_default();
            *at += 1;
            (*at, !unseen.contains(pool), pool, candidate)
        })
        .collect();
    ordered.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
    ordered.into_iter().map(|(_, _, _, candidate)| candidate).collect()
}
