//! An independent look at a plan: does it keep every hard rule?
//!
//! Shares nothing with the planner but the model's values. It judges the end of a pass, not the way there: wishes that
//! could be given up are not looked at, and where the order of placing decides, the benefit of the doubt is the plan's.

mod amounts;
mod bound;
mod claims;
mod devices;
mod kinds;
mod knapsack;
mod market;
mod prices;
mod sites;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::snapshot::Snapshot;
use karpenter_model::taints::Taint;

use self::market::Market;
use self::sites::{Site, Sites};
use crate::plan::{Placement, Plan};

/// A rule that a plan breaks, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Every pod is placed, refused or untried, and in one place only.
    Accounting,
    Taints,
    Requirements,
    Volumes,
    Resources,
    HostPorts,
    Attachments,
    Limits,
    MinValues,
    Reservations,
    InstanceTypes,
    Spread,
    Affinity,
    AntiAffinity,
    /// A claim does not have the devices that it asks for, or somebody else has them too.
    Devices,
    /// A lighter pool was used where a heavier one would do.
    Weights,
    /// A claim costs something else than the plan says.
    Price,
    /// The bound does not follow from what pods are said to be worth.
    Bound,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// What the checks share.
struct Check<'a> {
    snapshot: &'a Snapshot,
    rules: &'a LabelRules,
    plan: &'a Plan,
    sites: Sites<'a>,
    market: Market<'a>,
    found: Vec<Violation>,
}

impl Check<'_> {
    fn report(&mut self, rule: Rule, what: String) {
        self.found.push(Violation { rule, what });
    }

    fn report_all(&mut self, rule: Rule, all: Vec<String>) {
        self.found.extend(all.into_iter().map(|what| Violation { rule, what }));
    }
}

/// Everything that is wrong with the plan; empty for a valid one.
pub fn violations(snapshot: &Snapshot, rules: &LabelRules, plan: &Plan) -> Vec<Violation> {
    let mut check = Check::new(snapshot, rules, plan);
    check.accounting();
    check.pods_may_be_there();
    check.amounts();
    check.claims();
    check.devices();
    check.topology();
    check.weights();
    check.prices();
    check.bound();
    check.found
}

/// What such a plan costs at least, worked out anew from what its pods are said to be worth; `None` when the plan says
/// nothing about it, or contradicts itself.
pub fn certified_bound(snapshot: &Snapshot, rules: &LabelRules, plan: &Plan) -> Option<f64> {
    plan.bound.as_ref()?;
    Check::new(snapshot, rules, plan).certified().ok()
}

/// What speaks against a pod on a site.
#[derive(Clone, Copy)]
struct Objections {
    /// Which of the site's taints it does not tolerate.
    taint: Option<usize>,
    requirements: bool,
    volumes: bool,
}

impl<'a> Check<'a> {
    fn new(snapshot: &'a Snapshot, rules: &'a LabelRules, plan: &'a Plan) -> Self {
        let mut market = Market::new(snapshot, rules);
        let sites = Sites::new(snapshot, rules, plan, &mut market);
        Self { snapshot, rules, plan, sites, market, found: Vec::new() }
    }

    fn accounting(&mut self) {
        let mut times: BTreeMap<&PodId, usize> = BTreeMap::new();
        let unplaced = self.plan.unplaced.iter().map(|unplaced| &unplaced.pod);
        for pod in self.plan.placed.keys().chain(unplaced).chain(&self.plan.untried) {
            *times.entry(pod).or_default() += 1;
        }
        let mut found = Vec::new();
        for pod in self.snapshot.pending.keys() {
            let count = times.get(pod).copied().unwrap_or(0);
            if count != 1 {
                found.push(format!("{pod} is accounted for {count} times"));
            }
        }
        let mut holders: BTreeMap<&PodId, Vec<usize>> = BTreeMap::new();
        for (index, claim) in self.plan.claims.iter().enumerate() {
            for pod in &claim.pods {
                let known = holders.entry(pod).or_default();
                if known.last() != Some(&index) {
                    known.push(index);
                }
            }
        }
        let staying = self.snapshot.nodes.iter().filter(|node| node.stays());
        let nodes: BTreeSet<&str> = staying.map(karpenter_model::snapshot::ExistingNode::name).collect();
        let mut wrong: Vec<&PodId> = Vec::new();
        for (pod, placement) in &self.plan.placed {
            let holders = holders.get(pod).map_or(&[][..], Vec::as_slice);
            let there = match placement {
                Placement::New(index) => holders == [*index],
                Placement::Existing(name) => nodes.contains(name.as_str()) && holders.is_empty(),
            };
            if !there || !self.snapshot.pending.contains_key(pod) {
                wrong.push(pod);
            }
        }
        wrong.extend(holders.keys().filter(|pod| !self.plan.placed.contains_key(pod)));
        found.extend(wrong.into_iter().map(|pod| format!("{pod} is not where the plan says")));
        self.report_all(Rule::Accounting, found);
    }

    /// Taints, labels and volumes of each pod that is new on the site.
    fn pods_may_be_there(&mut self) {
        let mut found = Vec::new();
        let mut known: BTreeMap<(usize, usize), Objections> = BTreeMap::new();
        let may_ignore_soft = self.snapshot.pools.iter().flat_map(|offer| &offer.pool.taints).any(sites::is_soft);
        for site in &self.sites.all {
            for (pod, kind) in &site.new_pods {
                let judge = || objections(site, pod, may_ignore_soft);
                let of_claim = site.claim.filter(|_| !names_hosts(pod));
                let against = match of_claim {
                    Some((_, listing)) => *known.entry((listing, *kind)).or_insert_with(judge),
                    None => judge(),
                };
                if let Some(taint) = against.taint.map(|at| &site.taints[at]) {
                    let what = format!("{} does not tolerate {taint} of {}", pod.id, site.name);
                    found.push((Rule::Taints, what));
                }
                if against.requirements {
                    found.push((Rule::Requirements, format!("{} may not be on {}", pod.id, site.name)));
                }
                if against.volumes {
                    found.push((Rule::Volumes, format!("volumes of {} are not near {}", pod.id, site.name)));
                }
            }
        }
        for (rule, what) in found {
            self.report(rule, what);
        }
    }
}

fn objections(site: &Site<'_>, pod: &PodView, may_ignore_soft: bool) -> Objections {
    let wishes = &pod.scheduling;
    let refuses = |taint: &Taint| !pod.tolerates(taint) && (!may_ignore_soft || !sites::is_soft(taint));
    let any_term = wishes.required_terms.is_empty() || wishes.required_terms.iter().any(|term| site.is_within(term));
    let places = &wishes.volumes.alternatives;
    Objections {
        taint: site.taints.iter().position(refuses),
        requirements: !site.is_within(&wishes.node_selector) || !any_term,
        volumes: !places.is_empty() && !places.iter().any(|place| site.is_within(place)),
    }
}

/// Only one of several claims that are alike otherwise may be what the pod asks for.
fn names_hosts(pod: &PodView) -> bool {
    let wishes = &pod.scheduling;
    let mut asked = wishes.required_terms.iter().chain(&wishes.volumes.alternatives).chain([&wishes.node_selector]);
    asked.any(|asked| asked.has_key(karpenter_model::labels::HOSTNAME))
}
