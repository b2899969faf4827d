//! Which nodes are worth their room.
//!
//! Prices of CPU and memory are looked for at which the nodes that are worth them just hold the pods: the dual of choosing nodes
//! so that they cost least, where each node is there once, new ones can be had at their price, and every pod that moves costs
//! something. A node that goes gives up its room and saves its price; what it saves for its room says who goes first.

use karpenter_model::instance_type::Price;
use karpenter_model::resources::{CPU, MEMORY, Resources};

use crate::candidates::Candidate;
use crate::look::Look;

/// What moving a pod counts where it is decided who goes first, as a part of what an hour of a pod costs on average.
const MOVING: f64 = 0.3;
/// And where sets are compared that save different amounts.
const WEIGHED: f64 = 0.05;
/// Narrowings of the range in which the better mix of CPU and memory is looked for.
const STEPS: usize = 24;

type Pair = [f64; 2];

fn pair(resources: &Resources) -> Pair {
    [resources.amount(CPU).as_f64().max(0.0), resources.amount(MEMORY).as_f64().max(0.0)]
}

fn times(a: Pair, b: Pair) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

/// A node that could stay.
struct Item {
    room: Pair,
    /// Less what moving its pods costs, since that is saved when it stays.
    price: f64,
}

/// What there is to weigh.
struct Scales {
    items: Vec<Item>,
    /// What can be bought.
    offers: Vec<Item>,
    asked: Pair,
}

/// What the room of a node is worth, and what moving its pods costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Keeping {
    prices: Pair,
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
        self.weighed(savings, nodes.iter().map(|one| one.reschedule_cost).sum())
    }

    /// The same, where it is known what is disturbed.
    pub(crate) fn weighed(&self, savings: f64, disturbed: f64) -> f64 {
        savings - self.moving * (WEIGHED / MOVING) * disturbed
    }
}

impl Scales {
    /// The price of the mix, and what the pods are worth at it.
    fn at(&self, share: f64) -> (f64, Pair) {
        let part = |total: f64, share: f64| if total > 0.0 { share / total } else { 0.0 };
        let mix = [part(self.asked[0], share), part(self.asked[1], 1.0 - share)];
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
        (scale * asked - spare, [mix[0] * scale, mix[1] * scale])
    }

    fn prices(&self) -> Pair {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..STEPS {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if self.at(left).0 < self.at(right).0 { low = left } else { high = right }
        }
        self.at(f64::midpoint(low, high)).1
    }
}

/// What the node offers to pods that can move: what is free, and what such pods have.
fn room(candidate: &Candidate<'_>) -> Pair {
    let free = pair(&candidate.node.available());
    candidate.reschedulable_pods().fold(free, |sum, pod| {
        let asked = pair(&pod.requests);
        [sum[0] + asked[0], sum[1] + asked[1]]
    })
}

/// What pods of the candidates need beyond what is free on nodes that stay anyway.
fn asked(candidates: &[Candidate<'_>], look: &Look<'_>) -> Pair {
    let mut asked: Pair = [0.0; 2];
    for pod in candidates.iter().flat_map(Candidate::reschedulable_pods) {
        let one = pair(&pod.requests);
        asked = [asked[0] + one[0], asked[1] + one[1]];
    }
    let may_go: std::collections::BTreeSet<&str> = candidates.iter().map(Candidate::name).collect();
    for node in look.snapshot.nodes.iter().filter(|node| node.stays() && !may_go.contains(node.name())) {
        let free = pair(&node.available());
        asked = [(asked[0] - free[0]).max(0.0), (asked[1] - free[1]).max(0.0)];
    }
    asked
}

fn offers(look: &Look<'_>) -> Vec<Item> {
    let mut offers = Vec::new();
    for offer in &look.snapshot.pools {
        for known in offer.instance_types.iter() {
            let price = known.cheapest_price(&offer.pool.requirements, look.rules);
            if price != Price::MAX {
                offers.push(Item { room: pair(&known.allocatable()), price: price.per_hour() });
            }
        }
    }
    offers
}
