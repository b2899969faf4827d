//! Resources, host ports and volumes of each site.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::labels;
use karpenter_model::pod::{PodOwner, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::HostPort;
use karpenter_model::snapshot::ExistingNode;
use karpenter_model::taints::Taint;

use super::market::{Listed, ListingId};
use super::sites::{Site, is_soft};
use super::{Check, Rule};

type Found = Vec<(Rule, String)>;

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
    pub(super) fn amounts(&mut self) {
        let mut found = Vec::new();
        for site in self.sites.all.iter().filter(|site| !site.new_pods.is_empty()) {
            match (site.node, site.claim) {
                (Some(node), _) => self.node_amounts(site, node, &mut found),
                (None, Some((_, listing))) => self.claim_amounts(site, listing, &mut found),
                (None, None) => {}
            }
        }
        for (rule, what) in found {
            self.report(rule, what);
        }
    }

    fn node_amounts(&self, site: &Site<'a>, node: &ExistingNode, found: &mut Found) {
        let daemons = self.snapshot.daemons.iter().map(AsRef::as_ref);
        let expected = sum(daemons.filter(|daemon| accepts(daemon, &site.taints, |asked| site.is_within(asked))));
        let running = site.old_pods.iter().map(|(pod, _)| *pod).filter(|pod| pod.owner == PodOwner::DaemonSet);
        let running = sum(running);
        let mut needed = sum(site.new_pods.iter().map(|(pod, _)| *pod));
        for (name, amount) in expected.iter() {
            let missing = (amount - running.amount(name)).max(Quantity::ZERO);
            needed.set(name, needed.amount(name) + missing);
        }
        let mut free = node.allocatable();
        free.subtract(&node.requested);
        if let Some((name, short)) = needed.first_shortage(&free).filter(|(name, _)| asked_for(site, name)) {
            found.push((Rule::Resources, format!("{} lacks {short} of {name}", site.name)));
        }
        ports(site, &[], "", found);
        let known = site.certain(labels::NODEPOOL).zip(site.certain(labels::INSTANCE_TYPE));
        let known = known.and_then(|(pool, name)| self.market.type_of(pool, name));
        let mut limits = known.map(|known| known.attachment_limits.clone()).unwrap_or_default();
        for (driver, limit) in &node.volume_limits {
            limits.remove(driver);
            limits.extend(limit.map(|limit| (driver.clone(), limit)));
        }
        attachments(site, &limits, found);
    }

    fn claim_amounts(&self, site: &Site<'a>, listing: ListingId, found: &mut Found) {
        let listing = &self.market.listings[listing];
        for name in &listing.unknown {
            found.push((Rule::InstanceTypes, format!("{} names unknown type {name}", site.name)));
        }
        // A claim that holds a reservation keeps types that have none; nothing can be launched from those.
        let reserved = self.rules.reservation_key().is_some_and(|key| site.get(key).is_some());
        let types = || listing.types.iter().filter(|listed| !reserved || listed.facts.any_compatible);
        for listed in types().filter(|listed| !listed.is_asked_for || !listed.facts.meets) {
            let what = format!("{} is not what {} asks for", listed.known.name, site.name);
            found.push((Rule::InstanceTypes, what));
        }
        let needed = sum(site.new_pods.iter().map(|(pod, _)| *pod));
        let plenty = listing.least.as_ref().is_some_and(|least| needed.fits(least));
        if !plenty {
            for listed in types().filter(|listed| !holds(listed, &needed)) {
                let what = format!("{} does not hold the pods of {}", listed.known.name, site.name);
                found.push((Rule::Resources, what));
            }
        }
        let pods = || site.new_pods.iter().map(|(pod, _)| &pod.scheduling);
        let (with_ports, with_volumes) =
            (pods().any(|one| !one.host_ports.is_empty()), pods().any(|one| !one.volumes.claims.is_empty()));
        for listed in types().filter(|_| with_ports || with_volumes) {
            let of_daemons: Vec<&HostPort> =
                listed.daemons.iter().flat_map(|daemon| &daemon.scheduling.host_ports).collect();
            ports(site, &of_daemons, &listed.known.name, found);
            attachments(site, &listed.known.attachment_limits, found);
        }
    }
}

fn holds(listed: &Listed<'_>, needed: &Resources) -> bool {
    let mut needed = needed.clone();
    needed.add(&sum(listed.daemons.iter().copied()));
    // The claim was filtered before it was finished: then its types could also be had from full reservations.
    let full = listed.known.offerings.iter().any(|offering| offering.available && !offering.is_launchable());
    listed.facts.rooms.iter().any(|room| needed.fits(room)) || (full && needed.fits(&listed.known.allocatable()))
}

fn ports<'a>(site: &Site<'a>, of_daemons: &[&HostPort], type_name: &str, found: &mut Found) {
    let mut taken: BTreeMap<(u16, &str), Vec<(&'a PodView, &'a HostPort)>> = BTreeMap::new();
    for (pod, _) in site.old_pods.iter().chain(&site.new_pods) {
        for port in &pod.scheduling.host_ports {
            taken.entry((port.port, &port.protocol)).or_default().push((pod, port));
        }
    }
    for (pod, _) in &site.new_pods {
        let conflicts = |port: &HostPort| {
            let others = taken.get(&(port.port, port.protocol.as_str())).into_iter().flatten();
            let of_others = others.filter(|(other, _)| other.id != pod.id).map(|(_, port)| *port);
            of_others.chain(of_daemons.iter().copied()).any(|other| other.conflicts(port))
        };
        if pod.scheduling.host_ports.iter().any(conflicts) {
            let what = format!("a port of {} is taken on {} {type_name}", pod.id, site.name);
            found.push((Rule::HostPorts, what));
        }
    }
}

fn attachments<'a>(site: &Site<'a>, limits: &BTreeMap<String, u32>, found: &mut Found) {
    for (driver, limit) in limits {
        let of = |pods: &[(&'a PodView, usize)]| -> BTreeSet<&'a str> {
            let claims = pods.iter().filter_map(|(pod, _)| pod.scheduling.volumes.claims.get(driver));
            claims.flatten().map(String::as_str).collect()
        };
        let (old, new) = (of(&site.old_pods), of(&site.new_pods));
        if !new.is_subset(&old) && old.union(&new).count() > *limit as usize {
            let what = format!("{} attaches more than {limit} volumes of {driver}", site.name);
            found.push((Rule::Attachments, what));
        }
    }
}

/// Whether some new pod of the site needs the resource at all.
fn asked_for(site: &Site<'_>, name: &str) -> bool {
    site.new_pods.iter().any(|(pod, _)| !pod.requests.amount(name).is_zero())
}
