//! Finding the first node or claim that takes a pod.

use super::algebra::ReqId;
use super::amounts;
use super::evaluation::Miss;
use super::group::{Kind, Site};
use super::groups::{GroupRef, Place, placeholder};
use super::intern::NONE;
use super::pass::{Pass, Trial};
use super::queues::{FEW, Search};
use super::undo::Change;
use crate::attachments::conflicts;
use crate::devices::Attempt;

/// What groups of hosts say about a pod: a set of candidates each.
#[derive(Debug, Default)]
pub(crate) struct HostRules(Vec<HostRule>);

#[derive(Debug, Clone, Copy)]
struct HostRule {
    group: GroupRef,
    /// Which of the group's two sets: for a pod that the group counts, or does not.
    own: usize,
    /// Only candidates in the set will do, or only the others.
    inside: bool,
}

impl Pass<'_> {
    /// `None` when no host at all will do.
    pub(crate) fn host_rules(&mut self, trial: Trial) -> Option<HostRules> {
        let mut rules = HostRules::default();
        let against = self.groups.against(trial.badge)[0].clone();
        let variant = &self.variants[trial.variant];
        for group in variant.owned[0].iter().chain(&against).copied() {
            let own = self.groups.selects(group, trial.badge);
            match self.groups.group(group).identity.kind {
                Kind::Spread { max_skew: 0, .. } if own => return None,
                Kind::Spread { .. } => rules.0.push(HostRule { group, own: usize::from(own), inside: false }),
                Kind::AntiAffinity => rules.0.push(HostRule { group, own: 0, inside: false }),
                Kind::Affinity if own && self.nobody_near(group, trial) => {}
                Kind::Affinity => rules.0.push(HostRule { group, own: 0, inside: true }),
            }
        }
        Some(rules)
    }

    /// Where nobody is that the pod could join, it may begin (SCH-141).
    fn nobody_near(&self, group: GroupRef, trial: Trial) -> bool {
        let group = self.groups.group(group);
        let strict = &self.variants[trial.variant].strict;
        if strict.host.is_none() || group.is_vacant() {
            return group.is_vacant();
        }
        let (hosts, claims) = group.occupied_hosts();
        let names = &self.compiled.hosts.names;
        !hosts.into_iter().any(|host| strict.allows_host(&names[host]))
            && !claims.into_iter().any(|claim| strict.allows_host(&placeholder(claim)))
    }

    fn host_word(&self, rules: &HostRules, word: usize, of_claims: bool) -> u64 {
        rules.0.iter().fold(u64::MAX, |left, rule| {
            let hosts = &self.groups.group(rule.group).hosts;
            let set = if of_claims { &hosts.claims } else { &hosts.nodes };
            let inside = set[rule.own].word(word);
            left & if rule.inside { inside } else { !inside }
        })
    }

    /// Whether the groups of hosts let the pod on this claim.
    pub(crate) fn takes_host(&self, rules: &HostRules, claim: usize) -> bool {
        self.host_word(rules, claim / 64, true) >> (claim % 64) & 1 == 1
    }

    /// Whether a host that has no pods yet will do.
    pub(crate) fn takes_new_host(rules: &HostRules) -> bool {
        rules.0.iter().all(|rule| !rule.inside)
    }

    pub(crate) fn place_on_node(&mut self, trial: Trial, rules: &HostRules) -> Option<Site> {
        let moves_freely = self.compiled.pods.kinds[trial.kind as usize].moves_freely;
        let mut refused: Vec<u32> = Vec::new();
        for word in 0..self.slots.len().div_ceil(64) {
            let end = self.slots.len() - word * 64;
            let mut left = if end >= 64 { u64::MAX } else { (1 << end) - 1 };
            left &= !self.too_small[trial.shape as usize].word(word) & !self.closed.word(word);
            if !moves_freely {
                left &= !self.unsettled.word(word);
            }
            left &= self.host_word(rules, word, false);
            for sign in &refused {
                left &= !self.node_signs[*sign as usize].nodes.word(word);
            }
            while left != 0 {
                let at = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if !self.fits(trial.shape, &self.slots[at].available) {
                    self.too_small[trial.shape as usize].set(at);
                    // What is too small without guests stays so, whatever is taken back.
                    if self.slots[at].guests > 0 {
                        self.note(|_| Change::TooSmall { shape: trial.shape, node: at });
                    }
                    continue;
                }
                let sign = self.slots[at].sign;
                let Some(range) = self.node_choices(trial, sign) else {
                    refused.push(sign);
                    left &= !self.node_signs[sign as usize].nodes.word(word);
                    continue;
                };
                if let Some((req, devices)) = self.try_node(trial, at, range) {
                    self.commit_to_node(trial, at, req, devices);
                    return Some(Site::Node(at));
                }
            }
        }
        None
    }

    /// What nodes of this sign can become; `None` when none of them will do.
    fn node_choices(&mut self, trial: Trial, sign: u32) -> Option<(usize, usize)> {
        let at = sign as usize;
        if self.choices.of_nodes.len() <= at {
            self.choices.of_nodes.resize(self.node_signs.len(), (0, 0, 0));
        }
        if self.choices.of_nodes[at].0 != self.choices.turn {
            let (taints, req) = (self.node_signs[at].taints, self.node_signs[at].req);
            let (start, end) =
                if self.tolerates(trial.variant, taints) { self.choose(trial, req, false) } else { (0, 0) };
            let some = self.choices.all[start..end].iter().any(|(_, req)| *req != NONE);
            self.choices.of_nodes[at] = (self.choices.turn, start, if some { end } else { start });
        }
        let (_, start, end) = self.choices.of_nodes[at];
        (start < end).then_some((start, end))
    }

    /// SCH-99, after taints and resources.
    fn try_node(&mut self, trial: Trial, at: usize, (start, end): (usize, usize)) -> Option<(ReqId, Option<Attempt>)> {
        let slot = &self.slots[at];
        let node = &self.compiled.nodes[slot.node];
        let variant = &self.variants[trial.variant];
        let pod = &self.compiled.pods.all[trial.pod];
        let scheduling = &pod.scheduling;
        if !scheduling.volumes.claims.is_empty()
            && slot.volumes.as_ref().unwrap_or(&node.volumes).first_over(pod, &node.limits).is_some()
        {
            return None;
        }
        if !scheduling.host_ports.is_empty() && (conflicts(&node.ports, pod) || self.ports_taken(&slot.ports, trial)) {
            return None;
        }
        if !variant.asked.allows_host(&node.hostname) {
            return None;
        }
        let mut fitting = self.choices.all[start..end]
            .iter()
            .filter(|(alternative, req)| *req != NONE && variant.volumes[*alternative].allows_host(&node.hostname))
            .map(|(_, req)| *req);
        if pod.resource_claims.is_empty() {
            return fitting.next().map(|req| (req, None));
        }
        let fitting: Vec<ReqId> = fitting.collect();
        fitting.into_iter().find_map(|req| self.allocated_on_node(trial, at, req))
    }

    /// Pods placed in this pass have a port that the pod wants.
    pub(crate) fn ports_taken(&self, placed: &[u32], trial: Trial) -> bool {
        let pending = &self.compiled.pods.all;
        let wanted = &pending[trial.pod].scheduling.host_ports;
        placed.iter().any(|other| {
            let taken = &pending[*other as usize].scheduling.host_ports;
            wanted.iter().any(|port| taken.iter().any(|taken| taken.conflicts(port)))
        })
    }

    /// SCH-101.
    fn commit_to_node(&mut self, trial: Trial, at: usize, req: ReqId, devices: Option<Attempt>) {
        let scheduling = &self.compiled.pods.kinds[trial.kind as usize].example.scheduling;
        if scheduling.volumes.claims.is_empty() && scheduling.host_ports.is_empty() {
            self.note(|pass| Change::Guest { at, shape: trial.shape, sign: pass.slots[at].sign });
        } else {
            self.note(|pass| Change::Node { at, before: Box::new(pass.slots[at].clone()) });
        }
        let scheduling = &self.compiled.pods.kinds[trial.kind as usize].example.scheduling;
        let slot = &mut self.slots[at];
        slot.guests += 1;
        amounts::subtract(&mut slot.available, &self.compiled.pods.shapes[trial.shape as usize].amounts);
        if !scheduling.volumes.claims.is_empty() {
            let known = &self.compiled.nodes[slot.node].volumes;
            slot.volumes.get_or_insert_with(|| known.clone()).add(&self.compiled.pods.all[trial.pod]);
        }
        if !scheduling.host_ports.is_empty() {
            slot.ports.push(super::intern::id(trial.pod));
        }
        let taints = self.node_signs[slot.sign as usize].taints;
        let sign = self.node_sign(taints, req);
        self.sign_node(at, sign);
        if let (Some(known), Some(attempt)) = (&mut self.devices, devices) {
            known.commit(attempt);
        }
        self.record(trial, Place { req, taints, site: Site::Node(at) });
    }

    pub(crate) fn sign_node(&mut self, at: usize, sign: u32) {
        let before = std::mem::replace(&mut self.slots[at].sign, sign);
        if sign != before {
            self.node_signs[before as usize].nodes.clear(at);
            self.node_signs[sign as usize].nodes.set(at);
        }
    }

    /// Claims with the fewest pods first, then as they were opened (SCH-96).
    pub(crate) fn place_on_claim(&mut self, trial: Trial, rules: &HostRules) -> Option<Site> {
        let demand = self.demand(trial);
        if rules.0.is_empty() && self.claims.len() > FEW && !self.demands[demand].queue.useless {
            match self.place_from_queue(trial, demand) {
                Search::Found(site) => return Some(site),
                Search::Nobody => return None,
                Search::GaveUp => {}
            }
        }
        let mut refused: Vec<u32> = Vec::new();
        let words = self.claims.len().div_ceil(64);
        for count in 1..self.by_count.len() {
            for word in 0..words {
                let mut left = self.by_count[count].word(word) & !self.demands[demand].dead.word(word);
                if left == 0 {
                    continue;
                }
                left &= self.host_word(rules, word, true) & !self.sealed.word(word);
                for sign in &refused {
                    left &= !self.signs[*sign as usize].claims.word(word);
                }
                while left != 0 {
                    let at = word * 64 + left.trailing_zeros() as usize;
                    left &= left - 1;
                    let sign = self.claims[at].sign;
                    let Some(range) = self.claim_choices(trial, sign) else {
                        refused.push(sign);
                        left &= !self.signs[sign as usize].claims.word(word);
                        continue;
                    };
                    match self.try_claim(trial, at, range) {
                        Ok(addition) => {
                            self.commit_to_claim(trial, at, addition);
                            return Some(Site::Claim(at));
                        }
                        Err(Miss::Full) => {
                            self.demands[demand].dead.set(at);
                            self.note(|_| Change::Dead { demand, claim: at });
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        None
    }

    /// What claims of this sign can become; `None` when none of them will do.
    pub(crate) fn claim_choices(&mut self, trial: Trial, sign: u32) -> Option<(usize, usize)> {
        let at = sign as usize;
        if self.choices.of_claims.len() <= at {
            self.choices.of_claims.resize(self.signs.len(), (0, 0, 0));
        }
        if self.choices.of_claims[at].0 != self.choices.turn {
            let (pool, req) = (self.signs[at].pool, self.signs[at].req);
            let taints = self.compiled.pools[pool].taints;
            let (start, end) =
                if self.tolerates(trial.variant, taints) { self.choose(trial, req, true) } else { (0, 0) };
            let some = self.choices.all[start..end].iter().any(|(_, req)| *req != NONE);
            self.choices.of_claims[at] = (self.choices.turn, start, if some { end } else { start });
        }
        let (_, start, end) = self.choices.of_claims[at];
        (start < end).then_some((start, end))
    }
}
