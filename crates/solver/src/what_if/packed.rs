//! New nodes for pods of nodes that go, packed instead of filled in the specified order.
//!
//! The specified order decides who finds room on nodes that exist, and what the new nodes for all others cost. Then these others are
//! packed as the planner for cheaper plans would, and whatever costs less counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::Snapshot;

use crate::best::reading::{Source, Strictness, read};
use crate::best::zones::Zones;
use crate::best::{Engine, portfolio, replay};
use crate::compiled::group::Site;
use crate::compiled::intern::Id;
use crate::compiled::pass::{Pass, Trial};
use crate::compiled::undo::Mark;
use crate::packing::Steps;

/// Steps that one packing may take: less than a tenth of a second.
const STEPS: u64 = 8_000_000;
/// Packings that are tried, the most promising first.
const TRIED: usize = 2;

/// What new nodes are made of: a snapshot without nodes and pods.
#[derive(Debug)]
pub(super) struct Market {
    snapshot: Snapshot,
    rules: LabelRules,
}

impl Market {
    pub(super) fn new(snapshot: &Snapshot, rules: &LabelRules) -> Self {
        let snapshot = Snapshot {
            pools: snapshot.pools.clone(),
            daemons: snapshot.daemons.clone(),
            namespaces: snapshot.namespaces.clone(),
            ..Snapshot::default()
        };
        Self { snapshot, rules: rules.clone() }
    }

    /// The pods have places; those on claims from `first` on get cheaper ones, where there are such.
    pub(super) fn improve(&self, pass: &mut Pass<'_>, order: &[Id], first: usize, before: &Mark) {
        let (homeless, Some(reference)) = (homeless(pass, order), pass.cost_of_claims(first)) else { return };
        let fresh: Vec<(usize, usize)> = order
            .iter()
            .filter_map(|pod| match pass.placed[*pod as usize] {
                Some(Site::Claim(claim)) => Some((*pod as usize, pass.claims[claim].pool)),
                _ => None,
            })
            .collect();
        let settled: Vec<Id> =
            order.iter().copied().filter(|pod| matches!(pass.placed[*pod as usize], Some(Site::Node(_)))).collect();
        let views: Vec<Arc<PodView>> = fresh.iter().map(|(pod, _)| pass.compiled.pods.all[*pod].clone()).collect();
        let mut told = Told { pass, at: views.iter().zip(&fresh).map(|(view, (pod, _))| (&view.id, *pod)).collect() };
        let pods: Vec<(&PodView, usize)> = views.iter().zip(&fresh).map(|(view, (_, pool))| (&**view, *pool)).collect();
        let better = self.packed(&mut told, &pods, &settled, order, before, (first, homeless, reference));
        if !better {
            told.pass.roll_back(before);
            told.pass.run_some(order, &mut || false);
        }
    }

    /// Whether what is in the pass now is cheaper than the reference.
    fn packed<'a>(
        &'a self,
        told: &mut Told<'_, '_, 'a>,
        pods: &[(&'a PodView, usize)],
        settled: &[Id],
        order: &[Id],
        before: &Mark,
        (first, homeless_before, mut best): (usize, usize, f64),
    ) -> bool {
        let begin = |told: &mut Told<'_, '_, 'a>| {
            told.pass.roll_back(before);
            for pod in settled {
                if let Some(trial) = told.pass.trial(*pod as usize) {
                    told.pass.try_on_node(trial);
                }
            }
        };
        begin(told);
        let zones = Zones::assigned(&self.snapshot, pods, told);
        let options = told.pass.options;
        let source = Source {
            snapshot: &self.snapshot,
            rules: &self.rules,
            options: &options,
            strictness: Strictness::Wished,
            zones: zones.as_ref(),
        };
        let views: Vec<&PodView> = pods.iter().map(|(pod, _)| *pod).collect();
        let reading = read(&source, &views);
        let mut steps = Steps::new(STEPS);
        let mut last = false;
        let packings = portfolio::packings(&reading, best, &mut steps);
        let mut chosen = None;
        for (at, candidate) in packings.iter().take(TRIED).enumerate() {
            begin(told);
            replay::replay(&reading, &candidate.packing, told, &mut steps);
            let left: Vec<Id> = order.iter().copied().filter(|pod| told.pass.placed[*pod as usize].is_none()).collect();
            told.pass.run_some(&left, &mut || false);
            let cost = told.pass.cost_of_claims(first).filter(|_| homeless(told.pass, order) <= homeless_before);
            last = cost.is_some_and(|cost| cost < best * (1.0 - 1e-9));
            if let Some(cost) = cost.filter(|_| last) {
                (best, chosen) = (cost, Some(at));
            }
        }
        let Some(at) = chosen else { return false };
        if !last {
            begin(told);
            replay::replay(&reading, &packings[at].packing, told, &mut Steps::new(STEPS));
            let left: Vec<Id> = order.iter().copied().filter(|pod| told.pass.placed[*pod as usize].is_none()).collect();
            told.pass.run_some(&left, &mut || false);
        }
        true
    }
}

fn homeless(pass: &Pass<'_>, order: &[Id]) -> usize {
    order.iter().filter(|pod| pass.placed[**pod as usize].is_none()).count()
}

/// A pass whose pods are not in the order of their names.
struct Told<'p, 'c, 'a> {
    pass: &'p mut Pass<'c>,
    at: BTreeMap<&'a PodId, usize>,
}

impl Told<'_, '_, '_> {
    fn trial_of(&mut self, pod: &PodView) -> Option<Trial> {
        let at = *self.at.get(&pod.id)?;
        self.pass.trial(at)
    }
}

impl<'a> Engine<'a> for Told<'_, '_, 'a> {
    fn on_node(&mut self, pod: &'a PodView) -> bool {
        self.trial_of(pod).is_some_and(|trial| self.pass.try_on_node(trial))
    }

    fn open(&mut self, pod: &'a PodView, pool: usize) -> Option<usize> {
        let trial = self.trial_of(pod)?;
        self.pass.try_open(trial, pool)
    }

    fn open_in(&mut self, pod: &'a PodView, pool: usize, zone: &str) -> Option<usize> {
        let trial = self.trial_of(pod)?;
        self.pass.try_open_in(trial, pool, zone)
    }

    fn add(&mut self, pod: &'a PodView, claim: usize) -> bool {
        self.trial_of(pod).is_some_and(|trial| self.pass.add_to(trial, claim))
    }
}
