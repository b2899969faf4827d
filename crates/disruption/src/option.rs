//! What can be done about a set of nodes (DIS-104 … DIS-116).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels;
use karpenter_model::pod::PodId;
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_solver::{Placement, PlannedClaim, unmet_min_values};

use crate::balanced::{self, Score, Totals};
use crate::candidates::Candidate;
use crate::command::Decision;
use crate::cost;
use crate::look::{Look, sources};
use crate::simulation::{Question, Simulated, Simulator};

/// A single spot node gives way only to a choice of so many types, or the cheapest would be taken back at once (DIS-115).
pub const SPOT_FLEXIBILITY: usize = 15;

/// Where there are not that many types, one that costs at most this part will do: whoever halves the price each time gets to
/// the cheapest type, and to a node that is taken back at once, only where much is saved on the way (X9).
const CLEARLY_CHEAPER: f64 = 0.5;

/// The nodes can go, and this takes their place.
#[derive(Debug, Clone)]
pub struct Move {
    pub replacements: Vec<PlannedClaim>,
    /// Per hour (DIS-78).
    pub savings: f64,
    pub simulated: Simulated,
}

impl Move {
    pub fn decision(&self) -> Decision {
        if self.replacements.is_empty() { Decision::Delete } else { Decision::Replace }
    }
}

/// Why nothing is done (API-176).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hopeless {
    Homeless(String),
    ManyNodes(usize),
    SpotGate,
    MinValues(Vec<String>),
    NotCheaper,
    SpotFlexibility(usize),
    /// A new node would be taken away again as soon as others have come to rest.
    FitsSoon,
}

impl fmt::Display for Hopeless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Homeless(why) => write!(f, "Not all pods would have a place, {why}"),
            Self::ManyNodes(count) => write!(f, "Can't remove without creating {count} nodes"),
            Self::SpotGate => {
                f.write_str("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")
            }
            Self::MinValues(keys) => {
                write!(f, "minValues requirement is not met for {} by cheaper instance types", keys.join(", "))
            }
            Self::NotCheaper => f.write_str("Can't replace with a cheaper node"),
            Self::FitsSoon => f.write_str(
                "Can't replace now: pods would fit on nodes where others have just come or gone, and a new node would go again",
            ),
            Self::SpotFlexibility(found) => write!(
                f,
                "SpotToSpotConsolidation requires {SPOT_FLEXIBILITY} cheaper instance type options than the current \
                 candidate to consolidate, got {found}"
            ),
        }
    }
}

/// DIS-104 … DIS-116 for these nodes together.
pub fn compute(
    candidates: &[&Candidate<'_>],
    look: &Look<'_>,
    simulator: &mut Simulator<'_>,
) -> Result<Move, Hopeless> {
    let question = Question { leave_unsettled_alone: true, ..Question::default() };
    let simulated = simulator.without(candidates, question);
    if !simulated.homeless.is_empty() {
        return Err(Hopeless::Homeless(simulated.homeless_text()));
    }
    let price = price_of(candidates);
    match simulated.claims() {
        [] => Ok(Move { replacements: Vec::new(), savings: price, simulated }),
        [claim] => {
            let replacement = replacement(claim, candidates, price, look)?;
            if fit_soon(candidates, look, simulator) {
                return Err(Hopeless::FitsSoon);
            }
            let savings = price - known_price(&replacement);
            Ok(Move { replacements: vec![replacement], savings, simulated })
        }
        many => Err(Hopeless::ManyNodes(many.len())),
    }
}

/// No spot node may give way to a new one: whatever is planned for its pods could be spot as they are now, and the gate forbids that
/// (DIS-112). Pools without spot and reservations, which come before spot, are another matter (DIS-108).
pub(crate) fn spot_only_goes(look: &Look<'_>) -> bool {
    let sells_spot = |pool: &PoolView| {
        pool.requirements.get(labels::CAPACITY_TYPE).is_none_or(|asked| asked.has(labels::CAPACITY_TYPE_SPOT))
    };
    let has_reserved = |known: &InstanceType| {
        known.offerings.iter().any(|one| one.capacity_type() == Some(labels::CAPACITY_TYPE_RESERVED))
    };
    let mut offers = look.snapshot.pools.iter();
    !look.gates.spot_to_spot
        && offers.all(|offer| sells_spot(&offer.pool) && !offer.instance_types.iter().any(has_reserved))
}

pub(crate) fn are_all_spot(candidates: &[&Candidate<'_>]) -> bool {
    let is_spot = |one: &Candidate<'_>| one.label(labels::CAPACITY_TYPE) == Some(labels::CAPACITY_TYPE_SPOT);
    candidates.iter().all(|one| is_spot(one))
}

/// The same where several nodes may take their place.
pub(crate) fn compute_several(
    candidates: &[&Candidate<'_>],
    packed: bool,
    look: &Look<'_>,
    simulator: &mut Simulator<'_>,
) -> Result<Move, Hopeless> {
    let question = Question { leave_unsettled_alone: true, packed, ..Question::default() };
    let found = of_simulated(simulator.without(candidates, question), candidates, look)?;
    if !found.replacements.is_empty() && fit_soon(candidates, look, simulator) {
        return Err(Hopeless::FitsSoon);
    }
    Ok(found)
}

/// The state after a replacement: when the nodes that are left alone now have come to rest, pods of the new node fit on them, it
/// goes too, and everybody on it moves a second time. Whoever waits saves that. The specification knows no such thing.
pub(crate) fn fit_soon(candidates: &[&Candidate<'_>], look: &Look<'_>, simulator: &mut Simulator<'_>) -> bool {
    if look.gates.specified_search || !simulator.has_unsettled() {
        return false;
    }
    let then = simulator.without(candidates, Question::default());
    then.homeless.is_empty() && then.claims().is_empty()
}

/// What a simulation of these nodes amounts to, with as many replacements as it takes; each part of it has to be worth it.
pub(crate) fn of_simulated(
    simulated: Simulated,
    candidates: &[&Candidate<'_>],
    look: &Look<'_>,
) -> Result<Move, Hopeless> {
    if !simulated.homeless.is_empty() {
        return Err(Hopeless::Homeless(simulated.homeless_text()));
    }
    let (mut all, mut savings) = (Vec::new(), 0.0);
    for part in parts(&simulated, candidates) {
        let (replacements, saved) = part.replaced(look)?;
        all.extend(replacements);
        savings += saved;
    }
    Ok(Move { replacements: all, savings, simulated })
}

/// Nodes whose pods meet on new nodes, with these new nodes: what stands or falls together. A node that is dear enough must not
/// pay for the exchange of another that has nothing to do with it.
pub(crate) struct Part<'c, 'a> {
    pub(crate) nodes: Vec<&'c Candidate<'a>>,
    pub(crate) claims: Vec<PlannedClaim>,
}

/// What makes a part worth it.
pub(crate) struct Stands {
    pub(crate) replacements: Vec<PlannedClaim>,
    /// Per hour.
    pub(crate) savings: f64,
    pub(crate) votes: BTreeMap<String, Score>,
}

impl Part<'_, '_> {
    /// What takes the place of its nodes, and what that saves per hour.
    fn replaced(&self, look: &Look<'_>) -> Result<(Vec<PlannedClaim>, f64), Hopeless> {
        let replacements = replacements(&self.claims, &self.nodes, look)?;
        let savings = price_of(&self.nodes) - replacements.iter().map(known_price).sum::<f64>();
        Ok((replacements, savings))
    }

    /// Everybody has a place, it costs less, and who has a say in it agrees. Where pods would `soon` fit without new nodes, these
    /// are not bought.
    pub(crate) fn stands(
        &self,
        simulated: &Simulated,
        soon: bool,
        look: &Look<'_>,
        totals: &BTreeMap<String, Totals>,
    ) -> Option<Stands> {
        // A pod of somebody else that would lose its place is everybody's fault.
        let matters = |id: &PodId| {
            let ours = || self.nodes.iter().any(|node| node.reschedulable_pods().any(|pod| pod.id == *id));
            !simulated.moved.contains(id) || ours()
        };
        if simulated.homeless.iter().any(|(pod, _)| matters(pod)) || (soon && !self.claims.is_empty()) {
            return None;
        }
        let (replacements, savings) = self.replaced(look).ok()?;
        let sources = sources(&self.nodes);
        let votes = balanced::votes(totals, &sources, savings);
        // A pool that is not worth less afterwards would be the same again in the next pass.
        (savings > 0.0 && balanced::approved(&sources, &votes)).then_some(Stands { replacements, savings, votes })
    }
}

/// The parts of a simulation, in the order of their first nodes. All is one part where a new node has only pods that wait
/// anyway: nobody can say which of the nodes made it necessary.
pub(crate) fn parts<'c, 'a>(simulated: &Simulated, candidates: &[&'c Candidate<'a>]) -> Vec<Part<'c, 'a>> {
    let mut part_of: Vec<usize> = (0..candidates.len()).collect();
    let mut first: Vec<Option<usize>> = vec![None; simulated.claims().len()];
    for (at, candidate) in candidates.iter().enumerate() {
        for pod in candidate.reschedulable_pods() {
            let Some(Placement::New(claim)) = simulated.plan.placed.get(&pod.id) else { continue };
            let (ours, theirs) = (part_of[at], first[*claim].map_or(part_of[at], |one| part_of[one]));
            let (least, most) = (ours.min(theirs), ours.max(theirs));
            part_of.iter_mut().filter(|part| **part == most).for_each(|part| *part = least);
            first[*claim] = Some(least);
        }
    }
    if first.contains(&None) {
        return vec![Part { nodes: candidates.to_vec(), claims: simulated.claims().to_vec() }];
    }
    let mut parts: BTreeMap<usize, Part<'c, 'a>> = BTreeMap::new();
    for (candidate, part) in candidates.iter().zip(&part_of) {
        parts.entry(*part).or_insert_with(|| Part { nodes: Vec::new(), claims: Vec::new() }).nodes.push(candidate);
    }
    for (claim, first) in simulated.claims().iter().zip(first) {
        if let Some(part) = first.and_then(|first| parts.get_mut(&part_of[first])) {
            part.claims.push(claim.clone());
        }
    }
    parts.into_values().collect()
}

fn price_of(nodes: &[&Candidate<'_>]) -> f64 {
    nodes.iter().map(|node| node.price.per_hour()).sum()
}

/// Several replacements have to save this part of what the nodes cost: many pods move for it (G11).
const WORTH_SEVERAL: f64 = 0.2;

/// What takes the place of these nodes, each with only what keeps the whole cheaper than they are, at whatever price of its
/// list it is launched. One replacement as specified; several where that is clearly cheaper.
fn replacements(
    claims: &[PlannedClaim],
    candidates: &[&Candidate<'_>],
    look: &Look<'_>,
) -> Result<Vec<PlannedClaim>, Hopeless> {
    let price = price_of(candidates);
    match claims {
        [] => Ok(Vec::new()),
        [claim] => {
            let one = replacement(claim, candidates, price, look)?;
            let kept = if candidates.len() > 1 { without_own_types(&one, candidates, look)? } else { Some(one) };
            kept.map(|claim| vec![claim]).ok_or(Hopeless::NotCheaper)
        }
        many => {
            let least: f64 = many.iter().map(known_price).sum();
            if least <= 0.0 || least > price * (1.0 - WORTH_SEVERAL) {
                return Err(Hopeless::NotCheaper);
            }
            let share = |claim: &PlannedClaim| known_price(claim) * price / least;
            let one = |claim: &PlannedClaim| {
                without_the_same(&replacement(claim, candidates, share(claim), look)?, candidates, look)
            };
            many.iter().map(one).collect()
        }
    }
}

/// No node gives way to one of its own type that costs as much: it could just as well stay.
fn without_the_same(
    claim: &PlannedClaim,
    candidates: &[&Candidate<'_>],
    look: &Look<'_>,
) -> Result<PlannedClaim, Hopeless> {
    let mut choice = Choice::of(claim, look);
    let same = |candidate: &Candidate<'_>, known: &InstanceType, price: f64| {
        candidate.instance_type.is_some_and(|own| own.name == known.name) && !is_less(price, candidate.price.per_hour())
    };
    let Choice { requirements, types, .. } = &mut choice;
    types.retain(|known| {
        let price = known.worst_launch_price(requirements, look.rules).per_hour();
        !candidates.iter().any(|candidate| same(candidate, known, price))
    });
    let unmet = unmet_min_values(&choice.requirements, &choice.types.iter().copied());
    match (choice.types.is_empty(), unmet.is_empty()) {
        (true, _) => Err(Hopeless::NotCheaper),
        (_, false) => Err(Hopeless::MinValues(unmet)),
        _ => Ok(choice.finish(claim)),
    }
}

/// Less by more than what adding up prices in another order makes of equal ones; otherwise nodes would be exchanged for nothing,
/// and back again.
fn is_less(price: f64, than: f64) -> bool {
    const NOISE: f64 = 1e-9;
    price < than * (1.0 - NOISE)
}

pub(crate) fn known_price(claim: &PlannedClaim) -> f64 {
    if claim.price == Price::MAX { 0.0 } else { claim.price.per_hour() }
}

/// The claim, with only what makes it cheaper than the nodes that it replaces.
pub(crate) fn replacement(
    claim: &PlannedClaim,
    candidates: &[&Candidate<'_>],
    price: f64,
    look: &Look<'_>,
) -> Result<PlannedClaim, Hopeless> {
    let all_spot = are_all_spot(candidates);
    if !all_spot && !is_less(claim.price.per_hour(), price) {
        // The worst launch of a type costs no less than the best one of all, so there is no need to list them.
        return Err(Hopeless::NotCheaper);
    }
    let mut choice = Choice::of(claim, look);
    let spot_to_spot = all_spot && choice.admits(labels::CAPACITY_TYPE_SPOT);
    if spot_to_spot {
        if !look.gates.spot_to_spot {
            return Err(Hopeless::SpotGate);
        }
        choice.pin_to_spot();
    }
    if !look.gates.specified_search {
        choice.leave_dear_zones(price);
    }
    choice.keep_cheaper_than(price)?;
    if choice.types.is_empty() {
        return Err(Hopeless::NotCheaper);
    }
    if spot_to_spot {
        choice.cut_for_spot(candidates.len(), price)?;
    } else if choice.admits(labels::CAPACITY_TYPE_SPOT) && choice.admits(labels::CAPACITY_TYPE_ON_DEMAND) {
        // A spot launch that fails must not silently buy something dearer (DIS-110).
        choice.pin_to_spot();
    }
    Ok(choice.finish(claim))
}

/// What a replacement may still become.
pub(crate) struct Choice<'a> {
    requirements: Requirements,
    pub(crate) types: Vec<&'a InstanceType>,
    look: &'a Look<'a>,
}

impl<'a> Choice<'a> {
    pub(crate) fn of(claim: &PlannedClaim, look: &'a Look<'a>) -> Self {
        let named: BTreeSet<&str> = claim.instance_types.iter().map(String::as_str).collect();
        let offered = look.instance_types(&claim.pool.name);
        let types = offered.iter().filter(|known| named.contains(known.name.as_str())).collect();
        let mut choice = Self { requirements: Requirements::clone(&claim.requirements), types, look };
        choice.sort();
        choice
    }

    /// Cheapest first, ties by name (DIS-107, V15-83).
    fn sort(&mut self) {
        let Self { requirements, types, look } = self;
        types.sort_by_cached_key(|known| (known.cheapest_price(requirements, look.rules), known.name.clone()));
    }

    fn admits(&self, capacity_type: &str) -> bool {
        self.requirements.get(labels::CAPACITY_TYPE).is_none_or(|asked| asked.has(capacity_type))
    }

    fn pin_to_spot(&mut self) {
        let spot = Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_SPOT]);
        self.requirements.add(spot);
        let Self { requirements, types, look } = self;
        types.retain(|known| !known.usable_offerings(requirements, look.rules).is_empty());
        self.sort();
    }

    /// DIS-80: even if the dearest zone is what can be had, it must be cheaper.
    pub(crate) fn keep_cheaper_than(&mut self, price: f64) -> Result<(), Hopeless> {
        let Self { requirements, types, look } = self;
        types.retain(|known| is_less(known.worst_launch_price(requirements, look.rules).per_hour(), price));
        let kept = types.iter().copied();
        let unmet = unmet_min_values(requirements, &kept);
        if types.is_empty() || unmet.is_empty() { Ok(()) } else { Err(Hopeless::MinValues(unmet)) }
    }

    /// Where every type has a zone that is too dear, the cheapest one may still be had in others: then only there (X8).
    fn leave_dear_zones(&mut self, price: f64) {
        let Self { requirements, types, look } = self;
        let worst = |known: &InstanceType, asked: &Requirements| known.worst_launch_price(asked, look.rules).per_hour();
        if types.iter().any(|known| is_less(worst(known, requirements), price)) {
            return;
        }
        let Some(cheapest) = types.first() else { return };
        let offered = cheapest.launchable_offerings(requirements, look.rules);
        let zones: BTreeSet<&str> = offered.into_iter().filter_map(|offering| offering.zone()).collect();
        let cheaper = zones.into_iter().filter(|zone| {
            let mut there = requirements.clone();
            there.add(Requirement::any_of(labels::ZONE, [*zone]));
            is_less(worst(cheapest, &there), price)
        });
        let cheaper: Vec<&str> = cheaper.collect();
        if !cheaper.is_empty() {
            requirements.add(Requirement::any_of(labels::ZONE, cheaper));
            self.sort();
        }
    }

    /// DIS-114 … DIS-116.
    fn cut_for_spot(&mut self, nodes: usize, price: f64) -> Result<(), Hopeless> {
        if nodes > 1 {
            return Ok(());
        }
        let found = self.types.len();
        if found < SPOT_FLEXIBILITY {
            let Self { requirements, types, look } = self;
            let most = price * CLEARLY_CHEAPER;
            types.retain(|known| known.worst_launch_price(requirements, look.rules).per_hour() <= most);
            let met = unmet_min_values(requirements, &types.iter().copied()).is_empty();
            let enough = !look.gates.specified_search && !types.is_empty() && met;
            return if enough { Ok(()) } else { Err(Hopeless::SpotFlexibility(found)) };
        }
        let met = |count: usize| {
            let types = self.types.iter().take(count).copied();
            unmet_min_values(&self.requirements, &types).is_empty()
        };
        let needed = (SPOT_FLEXIBILITY..=self.types.len()).find(|count| met(*count));
        self.types.truncate(needed.unwrap_or(self.types.len()));
        Ok(())
    }

    pub(crate) fn finish(mut self, claim: &PlannedClaim) -> PlannedClaim {
        let names: Vec<String> = self.types.iter().map(|known| known.name.clone()).collect();
        self.requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, &names));
        let price = cost::replacement_price(self.types.first().copied(), &self.requirements, self.look.rules);
        let kept = claim.devices.iter().filter(|(name, _)| names.contains(name));
        let devices = kept.map(|(name, taken)| (name.clone(), taken.clone())).collect();
        PlannedClaim {
            requirements: self.requirements.into(),
            instance_types: names.into(),
            price,
            devices,
            ..claim.clone()
        }
    }
}

/// Several nodes are not replaced by one of a type that one of them has, nor by a dearer one: then the others could simply
/// go (DIS-122). `None` when nothing is left.
pub fn without_own_types(
    claim: &PlannedClaim,
    candidates: &[&Candidate<'_>],
    look: &Look<'_>,
) -> Result<Option<PlannedClaim>, Hopeless> {
    let mut choice = Choice::of(claim, look);
    let mut least: Option<Price> = None;
    for candidate in candidates {
        let Some(own) = candidate.instance_type else { continue };
        if choice.types.iter().any(|known| known.name == own.name) {
            let price = cost::price(candidate.node, Some(own));
            least = Some(least.map_or(price, |least| least.min(price)));
        }
    }
    if let Some(least) = least {
        choice.keep_cheaper_than(least.per_hour())?;
    }
    Ok((!choice.types.is_empty()).then(|| choice.finish(claim)))
}
