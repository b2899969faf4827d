//! A packing, pod by pod, through a pass.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use karpenter_model::pod::{PodId, PodView};

use super::Engine;
use super::portfolio;
use super::reading::Reading;
use crate::packing::{Load, Packing, Steps, times_in};

/// Rounds in which pods are tried that were refused before: topology may allow them once others are placed.
const ROUNDS: usize = 12;
/// How often what found no place is packed again.
const REPACKS: usize = 3;

/// A node being filled.
struct Node {
    /// The claim, once it is open.
    claim: Option<usize>,
    bin: usize,
    /// The zone that the node must be in.
    zone: Option<usize>,
    /// What should still come.
    missing: Load,
    /// What the bin has left when everything planned is in.
    room: Vec<f64>,
}

/// Pods of each item that have no place yet; alike ones together.
struct Waiting<'a> {
    members: Vec<Vec<Vec<&'a PodView>>>,
    /// By item: where the last placed pod came from, to take turns.
    turn: Vec<usize>,
}

impl<'a> Waiting<'a> {
    fn counts(&self) -> Vec<u32> {
        let count = |groups: &Vec<Vec<&PodView>>| groups.iter().map(Vec::len).sum::<usize>();
        self.members.iter().map(|groups| u32::try_from(count(groups)).unwrap_or(u32::MAX)).collect()
    }

    /// Offers one pod of each group of the item until one is taken.
    fn offer(&mut self, item: usize, mut takes: impl FnMut(&'a PodView) -> bool) -> bool {
        let groups = &mut self.members[item];
        let many = groups.len();
        for step in 0..many {
            let at = (self.turn[item] + step) % many;
            // The last one, which is quick to remove; all of a group are alike.
            let Some(pod) = groups[at].last().copied() else { continue };
            if takes(pod) {
                groups[at].pop();
                self.turn[item] = at;
                return true;
            }
        }
        false
    }
}

/// Places what the packing says and the pass allows. Who is refused is left to the caller.
pub(crate) fn replay<'a>(reading: &Reading<'a>, packing: &Packing, engine: &mut impl Engine<'a>, steps: &mut Steps) {
    let mut waiting = Waiting { members: reading.members.clone(), turn: vec![0; reading.members.len()] };
    for groups in &mut waiting.members {
        // Pods that depend on others first: those without rules fit in anywhere afterwards.
        groups.sort_by_key(|group| std::cmp::Reverse(rules_of(group[0])));
        for group in groups {
            group.reverse();
        }
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut next = packing.clone();
    for turn in 0..REPACKS {
        nodes.extend(planned(reading, &next));
        if turn == 0 {
            place_in_order(reading, &mut nodes, &mut waiting, engine);
        }
        place(reading, &mut nodes, &mut waiting, engine);
        nodes.retain(|node| node.claim.is_some());
        fill_up(reading, &mut nodes, &mut waiting, engine);
        let mut left = waiting.counts();
        left.iter_mut()
            .zip(&reading.problem.items)
            .filter(|(_, item)| item.bins.is_empty())
            .for_each(|(count, _)| *count = 0);
        if turn + 1 == REPACKS || left.iter().all(|count| *count == 0) {
            break;
        }
        let mut share = steps.share(30);
        let again = portfolio::packed(&reading.problem, &left, &mut share).into_iter().next();
        steps.spend(share);
        match again {
            Some(again) => next = again.packing,
            None => break,
        }
    }
}

fn rules_of(pod: &PodView) -> usize {
    let wishes = &pod.scheduling;
    wishes.affinity.len() + wishes.anti_affinity.len() + wishes.spread.len() + wishes.preferred_anti_affinity.len()
}

fn planned<'p>(reading: &'p Reading<'_>, packing: &'p Packing) -> impl Iterator<Item = Node> + 'p {
    packing.iter().flat_map(|packed| {
        let mut room = reading.problem.bins[packed.bin].capacity.clone();
        room.iter_mut().zip(reading.problem.need_of(&packed.load)).for_each(|(room, need)| *room -= need);
        let mut missing = packed.load.clone();
        missing
            .sort_by(|a, b| bulk(reading, b.0, packed.bin).total_cmp(&bulk(reading, a.0, packed.bin)).then(a.cmp(b)));
        // Only rules about zones are a reason to ask for one: others may take what can be had.
        let tied = packed.load.iter().find(|(item, _)| reading.is_tied.get(*item).copied().unwrap_or(false));
        let zone = tied.and_then(|(item, _)| reading.item_zones[*item]);
        (0..packed.times).map(move |_| Node {
            claim: None,
            bin: packed.bin,
            zone,
            missing: missing.clone(),
            room: room.clone(),
        })
    })
}

/// The largest share of the bin that one of the item takes.
fn bulk(reading: &Reading<'_>, item: usize, bin: usize) -> f64 {
    let shares = reading.problem.items[item].need.iter().zip(&reading.problem.bins[bin].capacity);
    shares.map(|(need, capacity)| need / capacity.max(1e-12)).fold(0.0, f64::max)
}

/// On the node, which is opened if need be.
fn put<'a>(
    reading: &Reading<'a>,
    (claim, bin, zone): (&mut Option<usize>, usize, Option<usize>),
    pod: &'a PodView,
    engine: &mut impl Engine<'a>,
) -> bool {
    if let Some(claim) = *claim {
        return engine.add(pod, claim);
    }
    let pool = reading.pools[bin];
    *claim = match zone {
        Some(zone) => engine.open_in(pod, pool, &reading.zone_names[zone]),
        None => engine.open(pod, pool),
    };
    claim.is_some()
}

/// Nodes that a pod is tried on before the next pod has its turn.
const TRIES: usize = 12;

/// Pods in the order that the rules about zones allow, each on a node that has a place for one of its kind.
fn place_in_order<'a>(
    reading: &Reading<'a>,
    nodes: &mut [Node],
    waiting: &mut Waiting<'a>,
    engine: &mut impl Engine<'a>,
) {
    if reading.order.is_empty() {
        return;
    }
    let mut item_of: BTreeMap<&PodId, usize> = BTreeMap::new();
    for (item, groups) in reading.members.iter().enumerate() {
        item_of.extend(groups.iter().flatten().map(|pod| (&pod.id, item)));
    }
    let mut open: Vec<VecDeque<usize>> = vec![VecDeque::new(); reading.members.len()];
    for (at, node) in nodes.iter().enumerate() {
        node.missing.iter().for_each(|(item, _)| open[*item].push_back(at));
    }
    let mut placed: BTreeSet<&PodId> = BTreeSet::new();
    for pod in &reading.order {
        let Some(item) = item_of.get(&pod.id).copied() else { continue };
        for _ in 0..TRIES.min(open[item].len()) {
            let Some(at) = open[item].pop_front() else { break };
            let node = &mut nodes[at];
            let done = put(reading, (&mut node.claim, node.bin, node.zone), pod, engine);
            let missing = node.missing.iter_mut().find(|(known, _)| *known == item);
            let left = missing.map_or(0, |(_, count)| {
                *count -= u32::from(done);
                *count
            });
            if done {
                placed.insert(&pod.id);
                if left > 0 {
                    open[item].push_front(at);
                }
                break;
            }
            open[item].push_back(at);
        }
    }
    for node in nodes {
        node.missing.retain(|(_, count)| *count > 0);
    }
    waiting.members.iter_mut().flatten().for_each(|group| group.retain(|pod| !placed.contains(&pod.id)));
}

/// Round by round, until a round places nobody.
fn place<'a>(reading: &Reading<'a>, nodes: &mut [Node], waiting: &mut Waiting<'a>, engine: &mut impl Engine<'a>) {
    for _ in 0..ROUNDS {
        let mut placed = 0;
        for node in nodes.iter_mut() {
            for (item, count) in &mut node.missing {
                while *count > 0 {
                    let claim = &mut node.claim;
                    let taken = waiting.offer(*item, |pod| put(reading, (claim, node.bin, node.zone), pod, engine));
                    if !taken {
                        break;
                    }
                    *count -= 1;
                    placed += 1;
                }
            }
            node.missing.retain(|(_, count)| *count > 0);
        }
        if placed == 0 {
            return;
        }
    }
}

/// What was refused where it was planned goes wherever there is room, the tightest place first.
fn fill_up<'a>(reading: &Reading<'a>, nodes: &mut [Node], waiting: &mut Waiting<'a>, engine: &mut impl Engine<'a>) {
    for node in nodes.iter_mut() {
        // What did not come has left its room.
        for (item, count) in std::mem::take(&mut node.missing) {
            let need = &reading.problem.items[item].need;
            node.room.iter_mut().zip(need).for_each(|(room, need)| *room += need * f64::from(count));
        }
    }
    let mut items: Vec<usize> = (0..reading.problem.items.len()).collect();
    let size = |item: usize| reading.problem.items[item].bins.iter().next().map_or(0.0, |bin| bulk(reading, item, bin));
    items.sort_by(|a, b| size(*b).total_cmp(&size(*a)).then(a.cmp(b)));
    for item in items {
        let known = &reading.problem.items[item];
        let tightness = |node: &Node| -> f64 {
            let capacity = &reading.problem.bins[node.bin].capacity;
            node.room.iter().zip(capacity).map(|(room, capacity)| room / capacity.max(1e-12)).sum()
        };
        let fits = |node: &Node| known.bins.contains(node.bin) && times_in(&known.need, &node.room, 1) > 0;
        if waiting.members[item].iter().all(Vec::is_empty) {
            continue;
        }
        let mut order: Vec<(f64, usize)> =
            nodes.iter().enumerate().filter(|(_, node)| fits(node)).map(|(at, node)| (tightness(node), at)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, at) in order {
            let node = &mut nodes[at];
            let Some(claim) = node.claim else { continue };
            while times_in(&known.need, &node.room, 1) > 0 && waiting.offer(item, |pod| engine.add(pod, claim)) {
                node.room.iter_mut().zip(&known.need).for_each(|(room, need)| *room -= need);
            }
        }
    }
}
