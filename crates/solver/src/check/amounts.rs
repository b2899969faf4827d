//! Resources, host ports and volumes of each site.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::pod::{PodOwner, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::ExistingNode;
use karpenter_model::taints::Taint;

use super::sites::{Site, is_soft};
use super::{Check, Rule};

fn sum<'p>(pods: impl IntoIterator<Item = &'p PodView>) -> Resources {
    let mut total = Resources::new();
    pods.into_iter().for_each(|pod| total.add(&pod.requests));
    total
}

/// The node selector with each required term; one must hold.
fn accepts(daemon: &PodView, taints: &[Taint], holds: impl Fn(&Requirements) -> bool) -> bool {
    let wishes = &daemon.scheduling;
    let term = wishes.required_terms.is_empty() || wishes.required_terms.iter().any(&holds);
    term && holds(&wishes.node_selector) && taints.iter().all(|taint| is_soft(taint) || daemon.tolerates(taint))
}

impl<'a> Check<'a> {
    pub(super) fn amounts(&mut self, site: &Site<'a>) {
        if site.new_pods.is_empty() {
            return;
        }
        if let Some(node) = site.node {
            self.node_amounts(site, node);
        }
        let Some(claim) = site.claim else { return };
        for name in claim.instance_types.iter() {
            match self.type_of(&claim.pool.name, name) {
                Some(known) => self.type_amounts(site, known),
                None => self.report(Rule::InstanceTypes, format!("{} names unknown type {name}", site.name)),
            }
        }
    }

    pub(super) fn type_of(&self, pool: &str, name: &str) -> Option<&'a InstanceType> {
        let offer = self.snapshot.pools.iter().find(|offer| offer.pool.name == pool)?;
        offer.instance_types.iter().find(|known| known.name == name)
    }

    fn node_amounts(&mut self, site: &Site<'a>, node: &ExistingNode) {
        let daemons = self.snapshot.daemons.iter().map(AsRef::as_ref);
        let expected = sum(daemons.filter(|daemon| accepts(daemon, &site.taints, |asked| site.is_within(asked))));
        let running = sum(site.old_pods.iter().copied().filter(|pod| pod.owner == PodOwner::DaemonSet));
        let mut needed = sum(site.new_pods.iter().copied());
        for (name, amount) in expected.iter() {
            let missing = (amount - running.amount(name)).max(Quantity::ZERO);
            needed.set(name, needed.amount(name) + missing);
        }
        let mut free = node.allocatable();
        free.subtract(&node.requested);
        if let Some((name, short)) = needed.first_shortage(&free).filter(|(name, _)| asked_for(site, name)) {
            self.report(Rule::Resources, format!("{} lacks {short} of {name}", site.name));
        }
        self.ports(site, &[], "");
        let known = site.certain(labels::NODEPOOL).zip(site.certain(labels::INSTANCE_TYPE));
        let known = known.and_then(|(pool, name)| self.type_of(pool, name));
        let mut limits = known.map(|known| known.attachment_limits.clone()).unwrap_or_default();
        for (driver, limit) in &node.volume_limits {
            limits.remove(driver);
            limits.extend(limit.map(|limit| (driver.clone(), limit)));
        }
        self.attachments(site, &limits);
    }

    fn type_amounts(&mut self, site: &Site<'a>, known: &InstanceType) {
        let claim = site.claim.expect("types are those of a claim");
        let pool = &claim.pool;
        let lenient = Undefined::WellKnownAllowed(self.rules);
        let daemons = self.daemons_on(pool, known);
        let mut needed = sum(site.new_pods.iter().copied());
        needed.add(&sum(daemons.iter().copied()));
        let asked = &claim.requirements;
        // The claim was filtered before it was finished: then its types could also be had from full reservations.
        let holds = known.offerings.iter().any(|offering| {
            let compatible = offering.available && asked.is_compatible(&offering.requirements, lenient);
            compatible && needed.fits(&known.allocatable_with(&offering.overrides))
        });
        // One that holds a reservation keeps types that have none; nothing can be launched from those.
        let reserved = self.rules.reservation_key().is_some_and(|key| asked.has_key(key));
        if reserved && !known.offerings.iter().any(|one| asked.is_compatible(&one.requirements, lenient)) {
            return;
        }
        let full = known.offerings.iter().any(|offering| offering.available && !offering.is_launchable());
        if !holds && (!full || !needed.fits(&known.allocatable())) {
            self.report(Rule::Resources, format!("{} does not hold the pods of {}", known.name, site.name));
        }
        if !known.requirements.intersects(asked) {
            self.report(Rule::InstanceTypes, format!("{} is not what {} asks for", known.name, site.name));
        }
        let ports: Vec<&HostPort> = daemons.iter().flat_map(|daemon| &daemon.scheduling.host_ports).collect();
        self.ports(site, &ports, &known.name);
        self.attachments(site, &known.attachment_limits);
    }

    /// The DaemonSets that will run on such a node.
    pub(super) fn daemons_on(&self, pool: &PoolView, known: &InstanceType) -> Vec<&'a PodView> {
        let mut template = pool.requirements.clone();
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            template.replace(karpenter_model::requirements::Requirement::any_of(key, ["true"]));
        }
        let lenient = Undefined::WellKnownAllowed(self.rules);
        let runs = |daemon: &&PodView| {
            let wishes = &daemon.scheduling;
            let mut terms: Vec<Requirements> = wishes.required_terms.clone();
            if terms.is_empty() {
                terms.push(Requirements::new());
            }
            let tolerated = pool.taints.iter().all(|taint| is_soft(taint) || daemon.tolerates(taint));
            tolerated
                && terms.iter_mut().any(|term| {
                    term.add_all(&wishes.node_selector);
                    template.is_compatible(term, lenient) && known.requirements.intersects(term)
                })
        };
        self.snapshot.daemons.iter().map(AsRef::as_ref).filter(runs).collect()
    }

    fn ports(&mut self, site: &Site<'a>, of_daemons: &[&HostPort], type_name: &str) {
        let all: Vec<&PodView> = site.old_pods.iter().chain(&site.new_pods).copied().collect();
        for pod in &site.new_pods {
            let others = all.iter().filter(|other| other.id != pod.id).flat_map(|other| &other.scheduling.host_ports);
            let taken: Vec<&HostPort> = others.chain(of_daemons.iter().copied()).collect();
            if pod.scheduling.host_ports.iter().any(|port| taken.iter().any(|other| other.conflicts(port))) {
                self.report(Rule::HostPorts, format!("a port of {} is taken on {} {type_name}", pod.id, site.name));
            }
        }
    }

    fn attachments(&mut self, site: &Site<'a>, limits: &BTreeMap<String, u32>) {
        for (driver, limit) in limits {
            let of = |pods: &[&'a PodView]| -> BTreeSet<&'a str> {
                let claims = pods.iter().filter_map(|pod| pod.scheduling.volumes.claims.get(driver));
                claims.flatten().map(String::as_str).collect()
            };
            let (old, new) = (of(&site.old_pods), of(&site.new_pods));
            if !new.is_subset(&old) && old.union(&new).count() > *limit as usize {
                self.report(Rule::Attachments, format!("{} attaches more than {limit} volumes of {driver}", site.name));
            }
        }
    }
}

/// Whether some new pod of the site needs the resource at all.
fn asked_for(site: &Site<'_>, name: &str) -> bool {
    site.new_pods.iter().any(|pod| !pod.requests.amount(name).is_zero())
}
