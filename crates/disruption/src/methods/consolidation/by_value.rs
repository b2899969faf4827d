//! Sets of nodes by what they are worth: as many as the budgets allow, with several replacements where that is cheaper, in
//! commands that stand by themselves.
//!
//! Nodes that save most for the room that they give up, with what moving their pods counts, come first ([`Keeping`]); the same is
//! done with those first that save most for each pod that moves, and where that saves about as much, fewer pods move. The run of
//! them is looked for of which the others can take most, or a short one that is better replaced as a whole. Then nodes whose
//! pods still find room go one by one, and what is left is tried in small groups with new nodes, then one by one. Every
//! command is found in the cluster that those before it leave behind, and a node that receives pods stays, so no pod moves twice.
//!
//! Where the others have little room, a third way is tried: all nodes whose shape does not suit the pods go at once, and what does not
//! fit elsewhere is packed onto new ones. It moves more pods, so it has to save clearly more.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::pod::PodId;
use karpenter_solver::{Asking, NodeId, Placement, Plan};

use super::{Command, Consolidation, Decided, Method, WINDOW};
use crate::balanced;
use crate::candidates::Candidate;
use crate::command::Decision;
use crate::keeping::{Keeping, WEIGHED};
use crate::look::sources;
use crate::option::{self, Part, Stands};
use crate::simulation::Question;
use crate::worth::{self, Worth};

/// Nodes that give way to several others together: more find better mixes, and fail together.
const GROUP: usize = 8;
/// Runs of nodes of so many lengths are tried; of fewer where there are many nodes, since each takes as long as its pods.
const PARTS: usize = 24;
const FEW_PARTS: usize = 8;
const MANY: usize = 2000;
/// Of so many nodes a window at a time is dissolved.
const MANY_MORE: usize = 1000;
/// Rounds of deleting: each finds room that the one before left.
const ROUNDS: usize = 4;
/// Nodes that are weighed as a whole with what would replace them.
const TOGETHER: usize = 16;
/// Attempts to leave out what does not fit.
const ATTEMPTS: usize = 6;

/// A node of the wrong shape costs so many times what it can hold is worth.
const ILL_SHAPED: f64 = 1.15;
/// New nodes cost so many times what their pods are worth, about.
const PACKED: f64 = 1.06;
/// Numbers of nodes of which it is worked out what would really take their place.
const PROMISING: usize = 4;
/// There is little room where pods worth this part of what the nodes cost do not fit elsewhere.
const LITTLE_ROOM: f64 = 0.1;
/// Who would move to nodes that are there.
const ON_EXISTING: Asking = Asking { leave_unsettled_alone: true, packed: false, only_existing: true };

/// What moving a pod counts, of what it costs for an hour, where nodes are dissolved: many more pods move for it.
const WEIGHED_MORE: f64 = 0.1;

/// What there is to save, per hour.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outlook {
    /// No plan whatever saves more.
    pub most: f64,
    /// The commands that were found do.
    pub found: f64,
}

impl Outlook {
    /// At most so much is left when the commands are done.
    pub fn left(&self) -> f64 {
        (self.most - self.found).max(0.0)
    }
}

/// What the search came up with.
#[derive(Debug)]
pub struct Searched {
    pub decided: Decided,
    pub outlook: Outlook,
}

/// Who goes first, by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Whoever saves most for the room that he gives up.
    Room,
    /// Whoever saves most for each pod that moves.
    Pods,
    /// Whoever costs most for what he could hold; those whose shape does not suit the pods go all at once.
    Shape,
}

/// What one order came up with.
struct Tried {
    commands: Vec<Command>,
    /// Budgets kept some nodes.
    skipped: bool,
}

impl Tried {
    fn value(&self, keeping: Keeping, weight: f64) -> f64 {
        let savings: f64 = self.commands.iter().map(|command| command.savings).sum();
        let going = self.commands.iter().flat_map(|command| &command.going);
        keeping.weighed(savings, going.map(|going| going.reschedule_cost).sum(), weight)
    }
}

impl<'a> Consolidation<'_, 'a, '_> {
    /// Without the specified limits on the number of nodes and replacements; falls back to these where
    /// questions cannot be asked of a compiled snapshot.
    pub fn by_value(mut self, should_stop: &mut dyn FnMut() -> bool) -> Searched {
        if self.candidates.is_empty() {
            // Nobody compiles a large cluster to ask nothing of it.
            return Searched { decided: self.decided(Vec::new(), true), outlook: Outlook::default() };
        }
        let worth = Worth::of(&self.candidates, self.look);
        let most = worth::most_savings(&worth, &self.candidates, self.look);
        self.spot_only_goes = option::spot_only_goes(self.look);
        if self.simulator.compiled().is_none() || self.simulator.plans_better() {
            let decided = self.specified(should_stop);
            let found = decided.commands.iter().map(|command| command.savings).sum();
            return Searched { decided, outlook: Outlook { most, found } };
        }
        let keeping = Keeping::of(&self.candidates, self.look);
        let (allowances, noted) = (self.allowances.clone(), self.notes.len());
        let mut tried = self.search(Order::Room, keeping, &worth, should_stop);
        for (order, weight) in [(Order::Pods, WEIGHED), (Order::Shape, WEIGHED_MORE)] {
            if tried.commands.is_empty() || self.timed_out {
                break;
            }
            if order == Order::Pods && self.candidates.len() > MANY {
                continue;
            }
            let notes = self.notes.split_off(noted);
            self.allowances.clone_from(&allowances);
            let other = self.search(order, keeping, &worth, should_stop);
            if self.timed_out || other.value(keeping, weight) <= tried.value(keeping, weight) {
                self.notes.truncate(noted);
                self.notes.extend(notes);
                self.timed_out = false;
            } else {
                tried = other;
            }
        }
        let Tried { commands, skipped } = tried;
        let found = commands.iter().map(|command: &Command| command.savings).sum();
        let settled = commands.is_empty() && !skipped && !self.timed_out;
        Searched { decided: self.decided(commands, settled), outlook: Outlook { most, found } }
    }

    /// Commands that are found where nodes go in this order.
    fn search(
        &mut self,
        order: Order,
        keeping: Keeping,
        worth: &Worth,
        should_stop: &mut dyn FnMut() -> bool,
    ) -> Tried {
        let candidates = self.candidates.clone();
        let now = self.look.facts.now;
        let gain = |one: &'_ Candidate<'a>| match order {
            Order::Room => keeping.gain(one, one.cost_by_age(now)),
            Order::Pods => one.price.per_hour() / one.cost_by_age(now),
            Order::Shape => one.price.per_hour() / worth.full(one).max(f64::MIN_POSITIVE),
        };
        let dissolves = order == Order::Shape;
        let mut order: Vec<(f64, &Candidate<'a>)> = candidates.iter().map(|one| (gain(one), one)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name().cmp(b.1.name())));
        let mut left: Vec<&Candidate<'a>> = Vec::new();
        let mut skipped = false;
        for (_, one) in order {
            // Only so that nobody is looked at who cannot go anyway; budgets are taken when commands are found.
            if self.allowances.get(one.pool_name()).is_some_and(|allowance| allowance.remaining() > 0) {
                left.push(one);
            } else {
                skipped = true;
            }
        }
        let mut commands = Vec::new();
        if dissolves {
            for _ in 0..=left.len() / MANY_MORE {
                let gone = self.dissolve(&left, keeping, worth, &mut commands, should_stop);
                left.retain(|one| !gone.contains(one.name()));
                if gone.is_empty() {
                    break;
                }
            }
            if commands.is_empty() {
                return Tried { commands, skipped };
            }
        }
        for _ in 0..ROUNDS {
            let gone = self.front(&left, keeping, &mut commands, should_stop);
            left.retain(|one| !gone.contains(one.name()));
            if gone.is_empty() || self.timed_out {
                break;
            }
        }
        let before = commands.len();
        let gone = self.one_by_one(&left, &mut commands, should_stop);
        left.retain(|one| !gone.contains(one.name()));
        // What was packed would be filled in the specified order when it is looked at again.
        if commands.len() > before + 1 && !dissolves {
            commands = self.merge_deletes(&commands, &candidates);
        }
        self.replace_groups(&left, &mut commands, should_stop);
        self.simulator.forget();
        Tried { commands, skipped }
    }

    fn ids(&mut self, nodes: &[&Candidate<'a>]) -> Option<Vec<NodeId>> {
        nodes.iter().map(|one| self.simulator.node_of(one)).collect()
    }

    /// Of the nodes those whose pods the others take.
    fn clean<'n>(&mut self, nodes: &[&'n Candidate<'a>]) -> Vec<&'n Candidate<'a>> {
        let Some(ids) = self.ids(nodes) else { return Vec::new() };
        let Some(known) = self.simulator.compiled() else { return Vec::new() };
        let clean = known.without(&ids, ON_EXISTING, |answer| {
            if answer.moves_to_starting_nodes() {
                return Vec::new();
            }
            nodes.iter().zip(&ids).filter(|(_, id)| answer.is_taken_in(**id)).map(|(one, _)| *one).collect()
        });
        clean.unwrap_or_default()
    }

    /// Nodes of the list that are allowed to go by now, in order.
    fn allowed<'n>(&mut self, nodes: &[&'n Candidate<'a>]) -> Vec<&'n Candidate<'a>> {
        let mut allowances = self.allowances.clone();
        let ids: Vec<Option<NodeId>> = nodes.iter().map(|one| self.simulator.node_of(one)).collect();
        let known = self.simulator.compiled().map(|known| &*known);
        let is_free = |id: &Option<NodeId>| known.zip(*id).is_some_and(|(known, id)| !known.has_guests(id));
        let free: Vec<bool> = ids.iter().map(is_free).collect();
        let nodes = nodes.iter().zip(free).filter(|(_, free)| *free).map(|(one, _)| *one);
        nodes.filter(|one| allowances.get_mut(one.pool_name()).is_some_and(crate::budgets::Allowance::take)).collect()
    }

    /// The run of nodes, from the front, of which most in price can go without anything in their place, or a short one that is
    /// better replaced. Who went.
    fn front(
        &mut self,
        nodes: &[&Candidate<'a>],
        keeping: Keeping,
        commands: &mut Vec<Command>,
        should_stop: &mut dyn FnMut() -> bool,
    ) -> BTreeSet<String> {
        let nodes = self.allowed(nodes);
        let mut chosen: Vec<&Candidate<'a>> = Vec::new();
        let mut most = f64::MIN;
        let parts = if nodes.len() > MANY { FEW_PARTS } else { PARTS };
        for part in (1..=parts).rev() {
            self.timed_out |= should_stop();
            let count = nodes.len() * part / parts;
            if count == 0 || self.timed_out {
                break;
            }
            let clean = self.clean(&nodes[..count]);
            let value = keeping.value(clean.iter().map(|one| one.price.per_hour()).sum(), &clean);
            if !clean.is_empty() && value > most {
                (most, chosen) = (value, clean);
            }
        }
        if self.timed_out {
            return BTreeSet::new();
        }
        let savings: f64 = chosen.iter().map(|one| one.price.per_hour()).sum();
        if let Some(count) = self.best_with_new(&nodes, keeping, keeping.value(savings, &chosen)) {
            let gone = self.replace(&nodes[..count], commands);
            if !gone.is_empty() {
                return gone;
            }
        }
        for _ in 0..ATTEMPTS {
            let approved: Vec<&Candidate<'a>> =
                chosen.chunks(WINDOW).filter(|part| self.approves_delete(part)).flatten().copied().collect();
            // Without those that do not fit there are more to receive, but also other ways to fill them.
            let clean = self.clean(&approved);
            if clean.len() == chosen.len() {
                return self.delete_all(&chosen, commands);
            }
            chosen = clean;
        }
        BTreeSet::new()
    }

    /// Nodes whose pods still find room, in order. Who went.
    fn one_by_one(
        &mut self,
        nodes: &[&Candidate<'a>],
        commands: &mut Vec<Command>,
        should_stop: &mut dyn FnMut() -> bool,
    ) -> BTreeSet<String> {
        let mut gone = BTreeSet::new();
        for one in nodes {
            self.timed_out |= should_stop();
            if self.timed_out {
                break;
            }
            if !self.allowed(&[one]).is_empty() && self.clean(&[one]).len() == 1 && self.approves_delete(&[one]) {
                gone.extend(self.delete_all(&[one], commands));
            }
        }
        gone
    }

    /// Deletes that were found one after the other become as few commands as may be: those whose pods also find room when all go at
    /// once, as the second look will see it. Looked at from the start, in the same order.
    fn merge_deletes(&mut self, commands: &[Command], candidates: &[Candidate<'a>]) -> Vec<Command> {
        let by_name: BTreeMap<&str, &Candidate<'a>> = candidates.iter().map(|one| (one.name(), one)).collect();
        let nodes_of = |command: &Command| -> Vec<&Candidate<'a>> {
            command.going.iter().filter_map(|going| by_name.get(going.node.as_str()).copied()).collect()
        };
        self.simulator.forget();
        let mut merged: Vec<Command> = Vec::new();
        let mut at = 0;
        while at < commands.len() {
            let run = commands[at..].iter().take_while(|command| command.replacements.is_empty());
            let mut count = run
                .scan(0, |nodes, command| {
                    *nodes += command.going.len();
                    Some(*nodes)
                })
                .take_while(|nodes| *nodes <= WINDOW)
                .count()
                .max(1);
            // Fewer of them, until all find room; one command by itself did when it was found.
            while count > 1 {
                let nodes: Vec<&Candidate<'a>> = commands[at..at + count].iter().flat_map(nodes_of).collect();
                if self.find_room(&nodes) {
                    break;
                }
                count /= 2;
            }
            let nodes: Vec<&Candidate<'a>> = commands[at..at + count].iter().flat_map(nodes_of).collect();
            let receiving = self.simulator.settle(&nodes, false, |simulated| {
                Some(nodes.iter().flat_map(|node| received(node, &simulated.plan)).collect::<Vec<_>>())
            });
            if count == 1 {
                merged.push(commands[at].clone());
            } else {
                let mut command = Command::delete(method_of(&nodes), &nodes);
                command.receiving = receiving.into_iter().flatten().collect();
                merged.push(command);
            }
            at += count;
        }
        merged
    }

    /// Everybody finds a place on a node that stays, also those who wait: otherwise it would not be a delete.
    fn find_room(&mut self, nodes: &[&Candidate<'a>]) -> bool {
        let simulated = self.simulator.without(nodes, Question { leave_unsettled_alone: true, ..Question::default() });
        simulated.homeless.is_empty() && simulated.plan.placed.values().all(is_existing)
    }

    /// They go without anything in their place, or stay. Nobody has to simulate that.
    fn cannot_be_replaced(&self, nodes: &[&Candidate<'a>]) -> bool {
        self.spot_only_goes && option::are_all_spot(nodes)
    }

    /// How many nodes from the front are best replaced by new ones, where that is worth more than what else there is.
    fn best_with_new(&mut self, nodes: &[&Candidate<'a>], keeping: Keeping, beat: f64) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for count in 2..=nodes.len().min(TOGETHER) {
            let front = &nodes[..count];
            if self.cannot_be_replaced(front) {
                continue;
            }
            if let Ok(found) = option::compute_several(front, false, self.look, self.simulator) {
                let value = keeping.value(found.savings, front);
                if value > best.map_or(beat, |(value, _)| value) {
                    best = Some((value, count));
                }
            }
        }
        best.map(|(_, count)| count)
    }

    /// Nodes that cost far more than what they could hold, from the front, of which so many go at once that it is worth most: what does
    /// not fit elsewhere gets new nodes that suit it. Who went.
    fn dissolve(
        &mut self,
        nodes: &[&Candidate<'a>],
        keeping: Keeping,
        worth: &Worth,
        commands: &mut Vec<Command>,
        should_stop: &mut dyn FnMut() -> bool,
    ) -> BTreeSet<String> {
        let mut nodes = self.allowed(nodes);
        nodes.retain(|one| one.price.per_hour() > worth.full(one) * ILL_SHAPED);
        nodes.truncate(WINDOW);
        if self.cannot_be_replaced(&nodes) {
            return BTreeSet::new();
        }
        let Some(count) = self.best_to_dissolve(&nodes, keeping, worth, should_stop) else { return BTreeSet::new() };
        // As one command: alone, each of them would send its pods to the others.
        let going = &nodes[..count];
        let Some(command) = self.settle(going, true, |_| true) else { return BTreeSet::new() };
        commands.push(command);
        going.iter().map(|node| node.name().to_owned()).collect()
    }

    /// How many of the nodes, from the front, are best dissolved. None where others have room for nearly all of their pods: deletes
    /// find the same then, and move fewer.
    fn best_to_dissolve(
        &mut self,
        nodes: &[&Candidate<'a>],
        keeping: Keeping,
        worth: &Worth,
        should_stop: &mut dyn FnMut() -> bool,
    ) -> Option<usize> {
        let mut guessed: Vec<(f64, usize)> = Vec::new();
        for part in (1..=PARTS).rev() {
            self.timed_out |= should_stop();
            let count = nodes.len() * part / PARTS;
            if count < 2 || self.timed_out {
                break;
            }
            let front = &nodes[..count];
            let price: f64 = front.iter().map(|one| one.price.per_hour()).sum();
            let overflow = self.overflow(front, worth);
            if part == PARTS && overflow < price * LITTLE_ROOM {
                return None;
            }
            guessed.push((keeping.value(price - PACKED * overflow, front), count));
        }
        guessed.sort_by(|a, b| b.0.total_cmp(&a.0));
        let first = guessed.first().map(|(_, count)| *count).filter(|_| !self.timed_out);
        let packed = guessed.iter().take(PROMISING).filter_map(|(_, count)| {
            let front = &nodes[..*count];
            let found = option::compute_several(front, true, self.look, self.simulator).ok()?;
            Some((keeping.value(found.savings, front), *count))
        });
        let best = packed.max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, count)| count).or(first).filter(|_| first.is_some())
    }

    /// What pods that find no room elsewhere are worth.
    fn overflow(&mut self, nodes: &[&Candidate<'a>], worth: &Worth) -> f64 {
        let Some(ids) = self.ids(nodes) else { return f64::MAX };
        let Some(known) = self.simulator.compiled() else { return f64::MAX };
        let value = |pod: &std::sync::Arc<karpenter_model::pod::PodView>| worth.value(&pod.requests);
        let overflow = known.without(&ids, ON_EXISTING, |answer| answer.overflow().map(value).sum());
        overflow.unwrap_or(f64::MAX)
    }

    /// What pools with a say in it would say of deleting the nodes.
    fn approves_delete(&self, nodes: &[&Candidate<'a>]) -> bool {
        let sources = sources(nodes);
        let savings: f64 = nodes.iter().map(|node| node.price.per_hour()).sum();
        savings > 0.0 && balanced::approved(&sources, &balanced::votes(&self.totals, &sources, savings))
    }

    /// All of them at once, so that none receives what another sheds; as commands of no more than a window. Who went.
    fn delete_all(&mut self, nodes: &[&Candidate<'a>], commands: &mut Vec<Command>) -> BTreeSet<String> {
        if nodes.is_empty() {
            return BTreeSet::new();
        }
        let settled = self.simulator.settle(nodes, false, |simulated| {
            (simulated.homeless.is_empty() && simulated.plan.placed.values().all(is_existing)).then_some(simulated)
        });
        let Some(simulated) = settled else { return BTreeSet::new() };
        for part in nodes.chunks(WINDOW) {
            for node in part {
                if let Some(allowance) = self.allowances.get_mut(node.pool_name()) {
                    allowance.take();
                }
            }
            let mut command = Command::delete(method_of(part), part);
            command.receiving = part.iter().flat_map(|node| received(node, &simulated.plan)).collect();
            let votes = balanced::votes(&self.totals, &sources(part), command.savings);
            self.judge_many(part, &votes, true);
            commands.push(command);
        }
        nodes.iter().map(|node| node.name().to_owned()).collect()
    }

    /// What did not fit gives way to cheaper nodes, in small groups or one by one.
    fn replace_groups(
        &mut self,
        nodes: &[&Candidate<'a>],
        commands: &mut Vec<Command>,
        should_stop: &mut dyn FnMut() -> bool,
    ) {
        let groups: Vec<Vec<&Candidate<'a>>> = nodes.chunks(GROUP).map(<[&Candidate<'a>]>::to_vec).collect();
        for group in groups {
            self.timed_out |= should_stop();
            let limited = self.simulator.compiled().is_none_or(|known| known.has_limits());
            if self.timed_out || (limited && commands.iter().any(|command| !command.replacements.is_empty())) {
                // New nodes of earlier commands are not in the limits of later questions.
                return;
            }
            let group = self.allowed(&group);
            if self.replace(&group, commands).is_empty() {
                for one in group {
                    let free = self.allowed(&[one]);
                    self.replace(&free, commands);
                }
            }
        }
    }

    /// Nodes that give way to others, in the cluster that the commands before leave behind. Parts that also stand alone are commands
    /// of their own, so that none fails with another; what needs each other goes together. Who went.
    fn replace(&mut self, nodes: &[&Candidate<'a>], commands: &mut Vec<Command>) -> BTreeSet<String> {
        if self.cannot_be_replaced(nodes) {
            return BTreeSet::new();
        }
        let mut nodes = nodes.to_vec();
        let mut parts = Vec::new();
        for _ in 0..ATTEMPTS {
            if nodes.is_empty() {
                break;
            }
            let simulated =
                self.simulator.without(&nodes, Question { leave_unsettled_alone: true, ..Question::default() });
            let soon = option::fit_soon(&nodes, self.look, self.simulator);
            let stands = |part: &Part<'_, 'a>| part.stands(&simulated, soon, self.look, &self.totals).is_some();
            let (stand, fall): (Vec<_>, Vec<_>) = option::parts(&simulated, &nodes).into_iter().partition(stands);
            if fall.is_empty() {
                parts = stand;
                break;
            }
            nodes = stand.into_iter().flat_map(|part| part.nodes).collect();
        }
        let mut gone = BTreeSet::new();
        let mut together: Vec<&Candidate<'a>> = Vec::new();
        for part in parts {
            match self.settle(&part.nodes, false, |parts| parts == 1) {
                Some(command) => commands.push(command),
                None => together.extend(&part.nodes),
            }
            gone.extend(part.nodes.iter().map(|node| node.name().to_owned()));
        }
        match self.settle(&together, false, |_| true) {
            Some(command) => commands.push(command),
            None => together.iter().for_each(|node| _ = gone.remove(node.name())),
        }
        gone
    }

    /// The nodes as a command, if all of its parts stand and there are so many of them; taken from the budgets.
    fn settle(
        &mut self,
        nodes: &[&Candidate<'a>],
        packed: bool,
        wanted: impl FnOnce(usize) -> bool,
    ) -> Option<Command> {
        if nodes.is_empty() {
            return None;
        }
        if self.allowed(nodes).len() < nodes.len() {
            // Some of them have received pods by now.
            return None;
        }
        let (look, totals) = (self.look, &self.totals);
        let soon = option::fit_soon(nodes, look, self.simulator);
        let (found, simulated) = self.simulator.settle(nodes, packed, |simulated| {
            let parts = option::parts(&simulated, nodes);
            let found: Vec<Stands> =
                parts.iter().map(|part| part.stands(&simulated, soon, look, totals)).collect::<Option<_>>()?;
            wanted(found.len()).then_some((found, simulated))
        })?;
        for node in nodes {
            if let Some(allowance) = self.allowances.get_mut(node.pool_name()) {
                allowance.take();
            }
        }
        let mut command = Command::delete(method_of(nodes), nodes);
        let mut votes = BTreeMap::new();
        command.savings = 0.0;
        for part in found {
            command.savings += part.savings;
            command.replacements.extend(part.replacements);
            votes.extend(part.votes);
        }
        command.decision = Decision::of(nodes.len(), command.replacements.len());
        command.receiving = nodes.iter().flat_map(|node| received(node, &simulated.plan)).collect();
        self.consider(nodes, &command);
        self.judge_many(nodes, &votes, true);
        Some(command)
    }
}

/// Existing nodes that receive pods of this one, with the pods.
fn received<'p>(node: &'p Candidate<'_>, plan: &'p Plan) -> impl Iterator<Item = (String, PodId)> + 'p {
    node.reschedulable_pods().filter_map(|pod| match plan.placed.get(&pod.id) {
        Some(Placement::Existing(name)) => Some((name.clone(), pod.id.clone())),
        _ => None,
    })
}

fn is_existing(place: &Placement) -> bool {
    matches!(place, Placement::Existing(_))
}

/// One node by itself is told as such, whoever found it (DC-178).
fn method_of(nodes: &[&Candidate<'_>]) -> Method {
    if nodes.len() == 1 { Method::Single } else { Method::Multi }
}

#[cfg(test)]
mod tests;
