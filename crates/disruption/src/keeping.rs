//! Which nodes are worth their room.
//!
//! Prices of CPU, memory and hosts are looked for at which the nodes that are worth them just hold the pods: the dual of choosing nodes
//! so that they cost least, where each node is there once, new ones can be had at their price, and every pod that moves costs
//! something. A node that goes gives up its room and saves its price; what it saves for its room says who goes first.
//!
//! A host is what pods need that keep apart from each other, one each: where there are many of them, a small node is worth more than
//! its room, and who gives it up instead of a large one is left with large ones that nobody can give up any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::instance_type::Price;
use karpenter_model::labels::HOSTNAME;
use karpenter_model::pod::PodView;
use karpenter_model::resources::{CPU, MEMORY, Resources};
use karpenter_model::scheduling::AffinityTerm;

use crate::candidates::Candidate;
use crate::look::Look;

/// What moving a pod counts where it is decided who goes first, as a part of what an hour of a pod costs on average.
const MOVING: f64 = 0.3;
/// And where sets are compared that save different amounts.
pub(crate) const WEIGHED: f64 = 0.05;
/// Narrowings of the range in which the better mix of CPU and memory is looked for.
const STEPS: usize = 24;
/// And where hosts count too: each for every one of the other range.
const FEWER_STEPS: usize = 12;
/// Of more nodes some stand for all there.
const SAMPLE: usize = 1000;

/// CPU, memory, hosts.
type Room = [f64; 3];

fn amounts(resources: &Resources, hosts: f64) -> Room {
    [resources.amount(CPU).as_f64().max(0.0), resources.amount(MEMORY).as_f64().max(0.0), hosts]
}

fn times(a: Room, b: Room) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn plus(a: Room, b: Room) -> Room {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// A node that could stay.
struct Item {
    room: Room,
    /// Less what moving its pods costs, since that is saved when it stays.
    price: f64,
}

/// What there is to weigh.
struct Scales {
    items: Vec<Item>,
    /// What can be bought.
    offers: Vec<Item>,
    asked: Room,
}

/// What the room of a node is worth, and what moving its pods costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Keeping {
    prices: Room,
    /// Per hour, for each unit of disruption.
    moving: f64,
}

impl Keeping {
    pub(crate) fn of(candidates: &[Candidate<'_>], look: &Look<'_>) -> Self {
        let price: f64 = candidates.iter().map(|one| one.price.per_hour()).sum();
        let disturbed: f64 = candidates.iter().map(|one| one.reschedule_cost).sum();
        let moving = if disturbed > 0.0 { MOVING * price / disturbed } else { 0.0 };
        let worth = |one: &Candidate<'_>| Item {
            room: room(one),
            price: (one.price.per_hour() - moving * one.reschedule_cost).max(0.0),
        };
        let scales = Scales {
            items: candidates.iter().map(worth).collect(),
            offers: offers(look),
            asked: asked(candidates, look),
        };
        Self { prices: scales.prices(), moving }
    }

    /// What is saved for the room that is given up; more goes first. `disturbed`: what emptying it costs its pods.
    pub(crate) fn gain(&self, candidate: &Candidate<'_>, disturbed: f64) -> f64 {
        let saved = candidate.price.per_hour() - self.moving * disturbed;
        saved / times(self.prices, room(candidate)).max(f64::MIN_POSITIVE)
    }

    /// What a set that saves so much per hour is worth, with what it disturbs.
    pub(crate) fn value(&self, savings: f64, nodes: &[&Candidate<'_>]) -> f64 {
        self.weighed(savings, nodes.iter().map(|one| one.reschedule_cost).sum(), WEIGHED)
    }

    /// The same, where it is known what is disturbed. `weight`: what moving a pod counts, of what it costs for an hour.
    pub(crate) fn weighed(&self, savings: f64, disturbed: f64, weight: f64) -> f64 {
        savings - self.moving * (weight / MOVING) * disturbed
    }
}

impl Scales {
    /// The price of the mix, and what the pods are worth at it. `share`: of CPU beside memory, and of hosts beside both.
    fn at(&self, share: f64, hosts: f64) -> (f64, Room) {
        let part = |total: f64, share: f64| if total > 0.0 { share / total } else { 0.0 };
        let rest = 1.0 - hosts;
        let mix =
            [part(self.asked[0], share * rest), part(self.asked[1], (1.0 - share) * rest), part(self.asked[2], hosts)];
        let asked = times(mix, self.asked);
        let bought = self.offers.iter().map(|one| (one.price, times(mix, one.room)));
        let bought = bought.filter(|(_, worth)| *worth > 0.0).map(|(price, worth)| price / worth);
        let most = bought.min_by(f64::total_cmp).unwrap_or(f64::MAX);
        let mut kept: Vec<(f64, f64)> =
            self.items.iter().map(|one| (one.price, times(mix, one.room))).filter(|(_, worth)| *worth > 0.0).collect();
        kept.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (mut held, mut scale) = (0.0, most);
        for (price, worth) in &kept {
            held += worth;
            if held >= asked {
                scale = most.min(price / worth);
                break;
            }
        }
        let spare: f64 = kept.iter().map(|(price, worth)| (scale * worth - price).max(0.0)).sum();
        (scale * asked - spare, mix.map(|part| part * scale))
    }

    fn prices(mut self) -> Room {
        if self.asked[2] == 0.0 {
            return narrowed(STEPS, |share| self.at(share, 0.0)).1;
        }
        let one_in = self.items.len().div_ceil(SAMPLE).max(1);
        if one_in > 1 {
            self.items = self.items.into_iter().step_by(one_in).collect();
            #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
            let part = 1.0 / one_in as f64;
            self.asked = self.asked.map(|asked| asked * part);
        }
        narrowed(FEWER_STEPS, |hosts| narrowed(FEWER_STEPS, |share| self.at(share, hosts))).1
    }
}

/// The most of what has one top between nothing and all, and what was found there.
fn narrowed(steps: usize, mut at: impl FnMut(f64) -> (f64, Room)) -> (f64, Room) {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..steps {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if at(left).0 < at(right).0 { low = left } else { high = right }
    }
    at(f64::midpoint(low, high))
}

/// What the node offers to pods that can move: what is free, and what such pods have.
fn room(candidate: &Candidate<'_>) -> Room {
    let free = amounts(&candidate.node.available(), 1.0);
    candidate.reschedulable_pods().fold(free, |sum, pod| plus(sum, amounts(&pod.requests, 0.0)))
}

/// What pods of the candidates need beyond what is free on nodes that stay anyway.
fn asked(candidates: &[Candidate<'_>], look: &Look<'_>) -> Room {
    let pods = || candidates.iter().flat_map(Candidate::reschedulable_pods);
    let mut asked = pods().fold([0.0, 0.0, hosts(pods())], |sum, pod| plus(sum, amounts(&pod.requests, 0.0)));
    let may_go: BTreeSet<&str> = candidates.iter().map(Candidate::name).collect();
    for node in look.snapshot.nodes.iter().filter(|node| node.stays() && !may_go.contains(node.name())) {
        let free = amounts(&node.available(), 1.0);
        asked = [0, 1, 2].map(|at| (asked[at] - free[at]).max(0.0));
    }
    asked
}

/// On how many nodes the pods have to be: as many as there are pods that keep apart from each other.
fn hosts<'p>(pods: impl Iterator<Item = &'p Arc<PodView>>) -> f64 {
    let mut apart: BTreeMap<(&str, &AffinityTerm), u32> = BTreeMap::new();
    for pod in pods {
        for term in pod.scheduling.anti_affinity.iter().filter(|term| is_about_its_like(term, pod)) {
            *apart.entry((&pod.id.namespace, term)).or_default() += 1;
        }
    }
    apart.values().copied().max().map_or(0.0, f64::from)
}

/// No two pods like this one may be on a node.
fn is_about_its_like(term: &AffinityTerm, pod: &PodView) -> bool {
    term.key == HOSTNAME
        && term.namespaces.listed.contains(&*pod.id.namespace)
        && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

fn offers(look: &Look<'_>) -> Vec<Item> {
    let mut offers = Vec::new();
    for offer in &look.snapshot.pools {
        for known in offer.instance_types.iter() {
            let price = known.cheapest_price(&offer.pool.requirements, look.rules);
            if price != Price::MAX {
                offers.push(Item { room: amounts(&known.allocatable(), 1.0), price: price.per_hour() });
            }
        }
    }
    offers
}

#[cfg(test)]
mod tests {
    use karpenter_model::scheduling::Namespaces;
    use karpenter_model::selector::Selector;

    use super::*;
    use crate::candidates::Class;
    use crate::testing::{Cluster, instance_type, running};

    /// `count` of the pods keep apart from each other.
    fn pods(name: &str, count: usize, apart: bool) -> Vec<PodView> {
        let mut pods: Vec<PodView> = (0..count).map(|at| running(&format!("{name}-{at}"), 1)).collect();
        for pod in pods.iter_mut().filter(|_| apart) {
            pod.labels.insert("app".to_owned(), name.to_owned());
            let selector = Selector::labels([("app", name)]);
            let namespaces = Namespaces::only(&pod.id.namespace);
            pod.scheduling.anti_affinity.push(AffinityTerm {
                key: HOSTNAME.to_owned(),
                selector: Some(selector),
                namespaces,
            });
        }
        pods
    }

    /// Four nodes of 32 CPUs and eight of 4, whose CPUs cost a little more; one pod on each node.
    fn order(apart: bool) -> Vec<String> {
        let types = [instance_type("large", 32, 7.0, &[]), instance_type("small", 4, 1.0, &[])];
        let mut cluster = Cluster::new(types).pool("p", |_| {});
        for (at, pod) in pods("web", 12, apart).into_iter().enumerate() {
            let kind = if at < 4 { "large" } else { "small" };
            cluster = cluster.node(&format!("{kind}-{at:02}"), "p", kind, [pod]);
        }
        let look = cluster.look();
        let candidates = look.candidates(Class::Graceful, &mut Vec::new());
        assert_eq!(candidates.len(), 12);
        let keeping = Keeping::of(&candidates, &look);
        let mut order: Vec<_> = candidates.iter().map(|one| (keeping.gain(one, 0.0), one.name().to_owned())).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(&a.1)));
        order.into_iter().map(|(_, name)| name).collect()
    }

    /// Who keeps apart needs hosts, so large nodes are given up first although their room costs less.
    #[test]
    fn hosts_have_a_price_where_pods_keep_apart() {
        assert!(order(true)[..4].iter().all(|name| name.starts_with("large")), "{:?}", order(true));
        assert!(order(false)[0].starts_with("small"), "{:?}", order(false));
        let (few, many) = (pods("few", 3, true), pods("many", 5, true));
        let plain = pods("plain", 9, false);
        let all: Vec<Arc<PodView>> = few.into_iter().chain(many).chain(plain).map(Arc::new).collect();
        assert!((hosts(all.iter()) - 5.0).abs() < f64::EPSILON);
    }
}
