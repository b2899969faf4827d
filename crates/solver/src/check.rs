//! An independent look at a plan: does it keep every hard rule?
//!
//! Shares nothing with the planner but the model's values. It judges the end of a pass, not the way there: wishes that
//! could be given up are not looked at, and where the order of placing decides, the benefit of the doubt is the plan's.

mod amounts;
mod bound;
mod claims;
mod devices;
mod knapsack;
mod prices;
mod sites;
mod topology;

use std::fmt;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::snapshot::Snapshot;

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
    found: Vec<Violation>,
}

impl Check<'_> {
    fn report(&mut self, rule: Rule, what: String) {
        self.found.push(Violation { rule, what });
    }
}

/// Everything that is wrong with the plan; empty for a valid one.
pub fn violations(snapshot: &Snapshot, rules: &LabelRules, plan: &Plan) -> Vec<Violation> {
    let sites = Sites::new(snapshot, rules, plan);
    let mut check = Check { snapshot, rules, plan, sites, found: Vec::new() };
    check.accounting();
    for site in check.sites.all.clone() {
        check.pods_may_be_there(&site);
        check.amounts(&site);
    }
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
    let sites = Sites::new(snapshot, rules, plan);
    Check { snapshot, rules, plan, sites, found: Vec::new() }.certified().ok()
}

impl<'a> Check<'a> {
    fn accounting(&mut self) {
        for pod in self.snapshot.pending.keys() {
            let placed = usize::from(self.plan.placed.contains_key(pod));
            let refused = self.plan.unplaced.iter().filter(|unplaced| unplaced.pod == *pod).count();
            let untried = self.plan.untried.iter().filter(|untried| *untried == pod).count();
            if placed + refused + untried != 1 {
                self.report(Rule::Accounting, format!("{pod} is accounted for {} times", placed + refused + untried));
            }
        }
        let mut wrong: Vec<&PodId> = Vec::new();
        for (pod, placement) in &self.plan.placed {
            let holders = self.plan.claims.iter().enumerate().filter(|(_, claim)| claim.pods.contains(pod));
            let holders: Vec<usize> = holders.map(|(index, _)| index).collect();
            let there = match placement {
                Placement::New(index) => holders == [*index],
                Placement::Existing(name) => {
                    let there = self.snapshot.nodes.iter().any(|node| node.name() == name && node.stays());
                    there && holders.is_empty()
                }
            };
            if !there || !self.snapshot.pending.contains_key(pod) {
                wrong.push(pod);
            }
        }
        let unknown = self.plan.claims.iter().flat_map(|claim| &claim.pods);
        wrong.extend(unknown.filter(|pod| !self.plan.placed.contains_key(pod)));
        for pod in wrong {
            self.report(Rule::Accounting, format!("{pod} is not where the plan says"));
        }
    }

    /// Taints, labels and volumes of each pod that is new on the site.
    fn pods_may_be_there(&mut self, site: &Site<'a>) {
        let soft = self.snapshot.pools.iter().flat_map(|offer| &offer.pool.taints);
        let may_ignore_soft = soft.clone().any(sites::is_soft);
        for pod in &site.new_pods {
            let refuses = |taint: &&karpenter_model::taints::Taint| {
                !pod.tolerates(taint) && (!may_ignore_soft || !sites::is_soft(taint))
            };
            if let Some(taint) = site.taints.iter().find(refuses) {
                self.report(Rule::Taints, format!("{} does not tolerate {taint} of {}", pod.id, site.name));
            }
            let wishes = &pod.scheduling;
            let any_term =
                wishes.required_terms.is_empty() || wishes.required_terms.iter().any(|term| site.is_within(term));
            if !site.is_within(&wishes.node_selector) || !any_term {
                self.report(Rule::Requirements, format!("{} may not be on {}", pod.id, site.name));
            }
            let places = &wishes.volumes.alternatives;
            if !places.is_empty() && !places.iter().any(|place| site.is_within(place)) {
                self.report(Rule::Volumes, format!("volumes of {} are not near {}", pod.id, site.name));
            }
        }
    }
}
