//! How many nodes have room for a pod of each class for certain, whoever else of a node that goes finds his place first.
//!
//! Where m pods move, those before one of them take up at most m - 1 nodes. On any other node it finds what is there before
//! anybody moves, so where m nodes take it then, one of them does, in whatever order and wherever the others went. Pods that
//! are spread over zones always find the emptiest zone open, so they need as many nodes in each zone. Nothing of the kind
//! is said about pods whose place depends on where others are in another way.

use super::Compiled;
use super::bits::Bits;
use super::group::Kind;
use super::groups::{GroupRef, Touched};
use super::intern::{Id, NONE, id};
use super::pass::Pass;
use super::pods::KindId;

/// Words of tables that are filled for it at most: 32 MiB.
const MOST: usize = 1 << 22;
/// Domains of a key at most.
const MOST_DOMAINS: usize = 64;

/// By class of pods.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// So many nodes take one, in each domain that it may have to go to.
    pub(crate) least: Vec<u32>,
    /// The first of the nodes that have changed that might take one; [`NONE`] where none does.
    pub(crate) newly: Vec<Id>,
    /// Where they may go depends on counts that have changed.
    pub(crate) touched: Bits,
    /// They have no wishes that could be given up.
    pub(crate) firm: Bits,
}

/// What stays as it is while nodes only get other pods.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// Shapes of which it is known which nodes are too small.
    measured: usize,
    /// By kind.
    firm: Vec<bool>,
    chances: Vec<Chance>,
}

/// What has changed since the last time.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// By name.
    pub(crate) nodes: Bits,
    /// By place in the order of a pass.
    pub(crate) slots: Bits,
    pub(crate) touched: Touched,
}

/// What a kind of pods has to do with nodes.
#[derive(Debug)]
struct Chance {
    /// Nodes that let it in, as far as labels and taints say.
    lets_in: Vec<u64>,
    /// Nothing about its pods has to be looked at one by one.
    simple: bool,
    moves_freely: bool,
}

/// Nodes by domain of each key that has few of them.
type Domains = Vec<Option<Vec<Vec<u64>>>>;

impl Pass<'_> {
    /// Asked of a pass that has placed nobody. `None` where there is too much to look at, or nodes share a host name. Nodes are counted
    /// until there are `enough`; which of them are new is said only where all are looked at.
    pub(crate) fn room(&mut self, unsettled: &Bits, changes: &Changes, enough: u32, memo: &mut Memo) -> Option<Room> {
        let words = self.slots.len().div_ceil(64);
        let signs: Vec<usize> =
            (0..self.node_signs.len()).filter(|sign| !self.node_signs[*sign].nodes.is_empty()).collect();
        let kinds = self.compiled.pods.kinds.len();
        let shapes = self.compiled.pods.shapes.len();
        let shared = self.compiled.hosts.slots.iter().any(|slots| slots.len() > 1);
        if shared || shapes * words > MOST || kinds * words > MOST || kinds * signs.len() > MOST {
            return None;
        }
        self.measure_nodes(memo);
        let mut ready = vec![0; words];
        for (at, slot) in self.slots.iter().enumerate() {
            let settled = self.compiled.nodes[slot.node].initialized && !unsettled.has(at);
            ready[at / 64] |= u64::from(settled) << (at % 64);
        }
        let domains = self.nodes_by_domain(&signs, words);
        let mut of_kind: Vec<Vec<usize>> = vec![Vec::new(); kinds];
        for (at, class) in self.compiled.pods.classes.iter().enumerate() {
            of_kind[class.kind as usize].push(at);
        }
        let classes = self.compiled.pods.classes.len();
        let mut room = Room { least: vec![0; classes], newly: vec![NONE; classes], ..Room::default() };
        for kind in memo.chances.len()..kinds {
            // Nodes keep their labels and taints for as long as this is kept.
            let chance = self.chance(id(kind), &signs, words);
            memo.chances.push(chance);
        }
        for (kind, of_kind) in of_kind.into_iter().enumerate() {
            let firm = self.is_firm(id(kind), memo);
            let chance = &memo.chances[kind];
            for class in of_kind {
                if firm {
                    room.firm.set(class);
                }
                self.room_of(class, chance, (unsettled, &ready, &domains), (changes, enough), &mut room);
            }
        }
        Some(room)
    }

    /// Which nodes are too small for which shapes. Without guests that stays so until the node changes.
    fn measure_nodes(&mut self, memo: &mut Memo) {
        for shape in memo.measured..self.compiled.pods.shapes.len() {
            for at in 0..self.slots.len() {
                if !self.fits(id(shape), &self.slots[at].available) {
                    self.too_small[shape].set(at);
                }
            }
        }
        memo.measured = self.compiled.pods.shapes.len();
    }

    fn is_firm(&mut self, kind: KindId, memo: &mut Memo) -> bool {
        if memo.firm.len() <= kind as usize {
            let prefers = self.compiled.pools.iter().any(|pool| pool.prefers_no_schedule);
            for kind in memo.firm.len()..=kind as usize {
                let variant = self.first_variant(id(kind));
                memo.firm.push(self.variants[variant].wishes.relaxed(prefers).is_none());
            }
        }
        memo.firm[kind as usize]
    }

    fn nodes_by_domain(&mut self, signs: &[usize], words: usize) -> Domains {
        let mut domains: Domains = Vec::new();
        for universe in 0..self.groups.universes.len() {
            let count = self.groups.universes[universe].len();
            if count > MOST_DOMAINS {
                domains.push(None);
                continue;
            }
            let mut of_key = vec![vec![0; words]; count];
            for sign in signs {
                let known = &self.node_signs[*sign];
                if let Some(domain) = self.groups.domain_of(universe, known.req, &self.compiled.algebra) {
                    of_key[domain].iter_mut().zip(known.nodes.words()).for_each(|(all, some)| *all |= some);
                }
            }
            domains.push(Some(of_key));
        }
        domains
    }

    fn chance(&mut self, kind: KindId, signs: &[usize], words: usize) -> Chance {
        let variant = self.first_variant(kind);
        let mut lets_in = vec![0; words];
        for sign in signs {
            let (taints, req) = (self.node_signs[*sign].taints, self.node_signs[*sign].req);
            let tolerated = self.tolerates(variant, taints);
            let asks = &self.variants[variant];
            let Compiled { algebra, .. } = &mut *self.compiled;
            let met = algebra.strict(req, asks.asked.req).filter(|_| tolerated);
            let met = match &asks.volumes[..] {
                [one] => met.and_then(|met| algebra.strict(met, one.req)),
                _ => met,
            };
            if met.is_some() {
                let nodes = self.node_signs[*sign].nodes.words();
                lets_in.iter_mut().zip(nodes).for_each(|(all, some)| *all |= some);
            }
        }
        let asks = &self.variants[variant];
        let known = &self.compiled.pods.kinds[kind as usize];
        let pod = &known.example;
        let simple = pod.unplannable.is_none()
            && !pod.uses_devices
            && pod.resource_claims.is_empty()
            && pod.scheduling.volumes.claims.is_empty()
            && pod.scheduling.host_ports.is_empty()
            && asks.asked.host.is_none()
            && matches!(&asks.volumes[..], [one] if one.host.is_none());
        Chance { lets_in, simple, moves_freely: known.moves_freely }
    }

    fn room_of(
        &mut self,
        at: usize,
        chance: &Chance,
        (unsettled, ready, domains): (&Bits, &[u64], &Domains),
        (changes, enough): (&Changes, u32),
        room: &mut Room,
    ) {
        let class = self.compiled.pods.classes[at];
        let variant = self.first_variant(class.kind);
        let [against_hosts, against_keyed] = self.groups.against(class.badge).clone();
        let [hosts, keyed] = &self.variants[variant].owned;
        let keyed: Vec<GroupRef> = keyed.iter().copied().chain(against_keyed).collect();
        let hosts: Vec<GroupRef> = hosts.iter().copied().chain(against_hosts).collect();
        let (mut simple, mut touched) = (chance.simple, keyed.iter().any(|group| changes.touched.has(*group)));
        let strict = self.variants[variant].strict.req;
        // All nodes, or those of each domain that may turn out to be the only one that is open.
        let mut parts: Vec<&[u64]> = Vec::new();
        match &keyed[..] {
            [] => {}
            [one] => match self.groups.open_domains(*one, strict, &self.compiled.algebra) {
                Some((universe, open)) => match &domains[universe] {
                    Some(of_key) => parts.extend(open.into_iter().map(|domain| &of_key[domain][..])),
                    None => simple = false,
                },
                None => simple = false,
            },
            _ => simple = false,
        }
        if !keyed.is_empty() && parts.is_empty() {
            simple = false;
        }
        let mut full: Vec<&Bits> = Vec::new();
        let mut nowhere = false;
        for group in &hosts {
            let own = self.groups.selects(*group, class.badge);
            let known = self.groups.group(*group);
            match known.identity.kind {
                Kind::Spread { max_skew: 0, .. } if own => nowhere = true,
                Kind::Spread { .. } => full.push(&known.hosts.nodes[usize::from(own)]),
                Kind::AntiAffinity => full.push(&known.hosts.nodes[0]),
                Kind::Affinity => {
                    simple = false;
                    touched |= changes.touched.has(*group);
                }
            }
        }
        if touched {
            room.touched.set(at);
        }
        if nowhere {
            return;
        }
        let small = &self.too_small[class.shape as usize];
        let mut sum = 0;
        let mut sums = vec![0; parts.len()];
        for (word, lets_in) in chance.lets_in.iter().enumerate() {
            let mut left = lets_in & !small.word(word);
            for full in &full {
                left &= !full.word(word);
            }
            if !chance.moves_freely {
                left &= !unsettled.word(word);
            }
            let new = left & changes.slots.word(word);
            if new != 0 && room.newly[at] == NONE {
                room.newly[at] = id(word * 64 + new.trailing_zeros() as usize);
            }
            left &= ready[word];
            sum += left.count_ones();
            let mut least = u32::MAX;
            for (sum, part) in sums.iter_mut().zip(&parts) {
                *sum += (left & part[word]).count_ones();
                least = least.min(*sum);
            }
            if least.min(sum) >= enough {
                break;
            }
        }
        if simple {
            room.least[at] = sums.into_iter().min().unwrap_or(sum);
        }
    }
}
