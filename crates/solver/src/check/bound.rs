//! Whether the bound of a plan holds: from what pods are said to be worth, with our own idea of what a node can hold.
//!
//! If no node that could be launched holds pods worth more than it costs, then all pods together cost at least what they
//! are worth, less what existing nodes and reserved instances could hold for less. Where some node could hold more, by
//! a factor, all pods are worth less by that factor.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::labels;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::{Operator, Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::scheduling::{HostPort, WhenUnsatisfiable};
use karpenter_model::selector::Selector;

use super::kinds::digest;
use super::knapsack::{Kind, Room, most};
use super::sites::is_soft;
use super::{Check, Rule};

/// How much a bound may exceed the one found here: ours stops looking at some point.
const TOLERANCE: f64 = 3e-3;

/// Pods that are worth the same and ask for the same.
struct Class<'a> {
    example: &'a PodView,
    count: u32,
    worth: f64,
}

/// What is to be put somewhere.
#[derive(Default)]
struct Stock<'a> {
    /// Resources that somebody asks for.
    names: Vec<&'a str>,
    /// Further dimensions.
    shares: Vec<Share>,
    /// A pod for each set of demands on the place.
    places: Vec<&'a PodView>,
    /// With the place.
    kinds: Vec<(Kind, usize)>,
}

impl Stock<'_> {
    /// How much there is of everything on a node with these amounts; on one that exists nobody knows of shares.
    fn room(&self, amounts: &Resources, shared: bool) -> Vec<f64> {
        let amounts = self.names.iter().map(|name| amounts.amount(name).as_f64().max(0.0));
        amounts.chain(self.shares.iter().map(|share| if shared { share.most() } else { 1e9 })).collect()
    }
}

/// Why at most so many pods of a kind share a node.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Share {
    Spread(String, Option<Selector>, u32),
    Apart(Option<Selector>, karpenter_model::scheduling::Namespaces),
    Port(HostPort),
}

impl Share {
    fn most(&self) -> f64 {
        match self {
            Self::Spread(_, _, skew) => f64::from(*skew),
            Self::Apart(..) | Self::Port(_) => 1.0,
        }
    }
}

impl<'a> Check<'a> {
    pub(super) fn bound(&mut self) {
        let Some(bound) = &self.plan.bound else { return };
        let claimed = bound.per_hour;
        match self.certified() {
            Ok(proven) if claimed <= proven * (1.0 + TOLERANCE) + 1e-9 => {}
            Ok(proven) => self.report(Rule::Bound, format!("{claimed} is claimed, {proven} is what can be shown")),
            Err(what) => self.report(Rule::Bound, what),
        }
    }

    /// What the plan's own figures prove.
    pub(super) fn certified(&self) -> Result<f64, String> {
        let Some(bound) = &self.plan.bound else { return Ok(0.0) };
        let mut seen: BTreeSet<&PodId> = BTreeSet::new();
        let mut classes: Vec<Class<'a>> = Vec::new();
        let mut index: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
        for worth in &bound.worths {
            if !worth.per_hour.is_finite() || worth.per_hour < 0.0 {
                return Err(format!("pods are worth {}", worth.per_hour));
            }
            for id in &worth.pods {
                let pod = self.snapshot.pending.get(id).filter(|_| self.plan.placed.contains_key(id));
                let Some(pod) = pod.filter(|_| seen.insert(id)) else {
                    return Err(format!("{id} is worth something, but not placed once"));
                };
                let requests: Vec<(&str, i128)> = pod.requests.iter().map(|(n, amount)| (n, amount.nanos())).collect();
                let number = digest(&(&pod.id.namespace, &pod.scheduling, requests));
                let known = index.entry((worth.per_hour.to_bits(), number)).or_default();
                if let Some(class) = known.iter().find(|class| alike(classes[**class].example, pod)) {
                    classes[*class].count += 1;
                } else {
                    known.push(classes.len());
                    classes.push(Class { example: pod, count: 1, worth: worth.per_hour });
                }
            }
        }
        Ok(self.proven(&classes))
    }

    fn proven(&self, classes: &[Class<'a>]) -> f64 {
        let stock = stock(classes);
        let start = self.start_prices(&stock.names, stock.shares.len());
        let mut over: f64 = 1.0;
        // Who holds what more than its price, to be scaled like the rest in the end.
        let mut limited: Vec<(f64, f64, u32)> = Vec::new();
        let mut done: BTreeSet<(Vec<u64>, u64, Vec<usize>)> = BTreeSet::new();
        for offer in &self.snapshot.pools {
            for known in offer.instance_types.iter() {
                let mut taken = Resources::new();
                self.market.daemons_on(&offer.pool, known).iter().for_each(|daemon| taken.add(&daemon.requests));
                for offering in known.offerings.iter().filter(|offering| offering.available) {
                    let users = |place: &usize| self.may_use(stock.places[*place], &offer.pool, known, offering);
                    let users: Vec<usize> = (0..stock.places.len()).filter(users).collect();
                    if users.is_empty() {
                        continue;
                    }
                    let mut free = known.allocatable_with(&offering.overrides);
                    free.subtract(&taken);
                    let room = Room { capacity: stock.room(&free, true), price: offering.price.per_hour() };
                    let reserved = offering.reservation(self.rules);
                    let key = (room.capacity.iter().map(|amount| amount.to_bits()).collect(), room.price.to_bits());
                    if !done.insert((key.0, key.1, users.clone())) && reserved.is_none() {
                        continue;
                    }
                    let chosen = stock.kinds.iter().filter(|(_, place)| users.binary_search(place).is_ok());
                    let chosen: Vec<&Kind> = chosen.map(|(kind, _)| kind).collect();
                    match reserved {
                        Some(id) => {
                            let credit = self.snapshot.reservation_credits.get(id).copied().unwrap_or(0);
                            let count = offering.reservation_capacity.unwrap_or(0) + credit;
                            limited.push((most(&chosen, &room, &start, 0.0), room.price, count));
                        }
                        None => over = over.max(most(&chosen, &room, &start, room.price) / room.price.max(1e-12)),
                    }
                }
            }
        }
        let all: Vec<&Kind> = stock.kinds.iter().map(|(kind, _)| kind).collect();
        let mut alike: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
        for node in self.snapshot.nodes.iter().filter(|node| node.stays()) {
            let room = Room { capacity: stock.room(&node.available(), false), price: 0.0 };
            let key = room.capacity.iter().map(|amount| amount.to_bits()).collect();
            let worth = *alike.entry(key).or_insert_with(|| most(&all, &room, &start, 0.0));
            limited.push((worth, 0.0, 1));
        }
        let total: f64 = all.iter().map(|kind| kind.worth * f64::from(kind.count)).sum();
        let given = |(most, price, count): &(f64, f64, u32)| (most / over - price).max(0.0) * f64::from(*count);
        (total / over - limited.iter().map(given).sum::<f64>()).max(0.0)
    }

    /// Where the search for prices of room begins: with those that the plan names.
    fn start_prices(&self, names: &[&str], shares: usize) -> Vec<f64> {
        let prices = self.plan.bound.as_ref().map(|bound| bound.prices).unwrap_or_default();
        let of = |name: &&str| match *name {
            karpenter_model::resources::CPU => prices.per_cpu,
            karpenter_model::resources::MEMORY => prices.per_gib / 1_073_741_824.0,
            karpenter_model::resources::PODS => prices.per_pod,
            _ => 0.0,
        };
        names.iter().map(of).chain(std::iter::repeat_n(0.0, shares)).collect()
    }

    /// Whether the pod could be on such an instance, preferences aside. In doubt it could.
    fn may_use(&self, pod: &PodView, pool: &PoolView, known: &InstanceType, offering: &Offering) -> bool {
        let wishes = &pod.scheduling;
        let sides = [&pool.requirements, &known.requirements, &offering.requirements];
        let meets = |asked: &Requirements| asked.iter().all(|asked| self.is_met(asked, &sides));
        let any = |all: &[Requirements]| all.is_empty() || all.iter().any(meets);
        pool.taints.iter().all(|taint| is_soft(taint) || pod.tolerates(taint))
            && meets(&wishes.node_selector)
            && any(&wishes.required_terms)
            && any(&wishes.volumes.alternatives)
            && sides[0].iter().all(|asked| sides[1..].iter().all(|side| overlaps(asked, side)))
    }

    fn is_met(&self, asked: &Requirement, sides: &[&Requirements]) -> bool {
        let absent = [Operator::NotIn, Operator::DoesNotExist].contains(&asked.operator());
        let begun = [labels::REGISTERED, labels::INITIALIZED].contains(&asked.key());
        let known =
            sides.iter().any(|side| side.has_key(asked.key())) || self.rules.is_well_known(asked.key()) || begun;
        (known || absent) && sides.iter().all(|side| overlaps(asked, side))
    }
}

/// Pods by what they take from a node, what they are worth and where they may be.
fn stock<'a>(classes: &[Class<'a>]) -> Stock<'a> {
    let names: BTreeSet<&str> =
        classes.iter().flat_map(|class| class.example.requests.iter()).map(|(name, _)| name).collect();
    let mut shares = Shares::default();
    let own: Vec<Vec<usize>> = classes.iter().map(|class| shares.of(class.example)).collect();
    let mut stock = Stock { names: names.into_iter().collect(), shares: shares.all, ..Stock::default() };
    let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut kinds: BTreeMap<(u64, Vec<u64>, usize), usize> = BTreeMap::new();
    for (class, own) in classes.iter().zip(&own) {
        let wishes = &class.example.scheduling;
        let number = digest(&(
            (&wishes.node_selector, &wishes.required_terms),
            (&wishes.volumes.alternatives, &wishes.tolerations),
        ));
        let known = places.entry(number).or_default();
        let same = |place: &&usize| {
            let other = &stock.places[**place].scheduling;
            other.node_selector == wishes.node_selector
                && other.required_terms == wishes.required_terms
                && other.volumes.alternatives == wishes.volumes.alternatives
                && other.tolerations == wishes.tolerations
        };
        let place = known.iter().find(same).copied().unwrap_or_else(|| {
            known.push(stock.places.len());
            stock.places.push(class.example);
            stock.places.len() - 1
        });
        let requests = &class.example.requests;
        let mut need: Vec<f64> = stock.names.iter().map(|name| requests.amount(name).as_f64()).collect();
        need.extend((0..stock.shares.len()).map(|share| f64::from(u8::from(own.contains(&share)))));
        let key = (class.worth.to_bits(), need.iter().map(|amount| amount.to_bits()).collect(), place);
        let at = *kinds.entry(key).or_insert_with(|| {
            stock.kinds.push((Kind { worth: class.worth, need, count: 0 }, place));
            stock.kinds.len() - 1
        });
        stock.kinds[at].0.count += class.count;
    }
    stock
}

fn overlaps(asked: &Requirement, side: &Requirements) -> bool {
    side.get(asked.key()).is_none_or(|found| found.intersects(asked))
}

/// Equal in everything that decides where and beside whom they may be.
fn alike(a: &PodView, b: &PodView) -> bool {
    let itself = |pod: &PodView| {
        let spread = pod.scheduling.spread.iter().map(|one| &one.selector);
        let terms = pod.scheduling.anti_affinity.iter().map(|term| &term.selector);
        spread.chain(terms).map(|one| selects(one.as_ref(), pod)).collect::<Vec<bool>>()
    };
    a.requests == b.requests
        && a.scheduling == b.scheduling
        && a.id.namespace == b.id.namespace
        && itself(a) == itself(b)
}

fn selects(selector: Option<&Selector>, pod: &PodView) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}

#[derive(Default)]
struct Shares {
    all: Vec<Share>,
    index: BTreeMap<u64, Vec<usize>>,
}

impl Shares {
    /// The places on a node that the pod takes one of.
    fn of(&mut self, pod: &PodView) -> Vec<usize> {
        let wishes = &pod.scheduling;
        let hard = wishes.spread.iter().filter(|one| one.when == WhenUnsatisfiable::DoNotSchedule);
        let hosts = hard.filter(|one| one.key == labels::HOSTNAME && selects(one.selector.as_ref(), pod));
        let spread = hosts.map(|one| Share::Spread(pod.id.namespace.to_string(), one.selector.clone(), one.max_skew));
        let apart = wishes.anti_affinity.iter().filter(|term| {
            let here = term.namespaces.selector.is_none() && term.namespaces.listed.contains(pod.id.namespace.as_str());
            here && term.key == labels::HOSTNAME && selects(term.selector.as_ref(), pod)
        });
        let apart = apart.map(|term| Share::Apart(term.selector.clone(), term.namespaces.clone()));
        let ports = wishes.host_ports.iter().map(|port| Share::Port(port.clone()));
        let mut own = Vec::new();
        for share in spread.chain(apart).chain(ports) {
            let known = self.index.entry(digest(&share)).or_default();
            let at = known.iter().find(|at| self.all[**at] == share).copied().unwrap_or_else(|| {
                known.push(self.all.len());
                self.all.push(share);
                self.all.len() - 1
            });
            if !own.contains(&at) {
                own.push(at);
            }
        }
        own
    }
}
