//! Nodes being planned: which types can still hold their pods (SCH-102 … SCH-108).

use std::collections::BTreeSet;

use super::algebra::ReqId;
use super::amounts::{self, Amounts};
use super::bits::Bits;
use super::candidates::HostRules;
use super::evaluation::{Addition, Evaluation, Host, Miss, Stage};
use super::group::Site;
use super::groups::{Place, placeholder};
use super::intern::{Id, id};
use super::pass::{Pass, Sign, Trial};
use super::undo::Change;
use crate::attachments::Attached;
use crate::options::MinValuesPolicy;

#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) pool: usize,
    pub(crate) sign: Id,
    pub(crate) req: ReqId,
    /// Rows of the types that are left.
    pub(crate) rows: Vec<u64>,
    pub(crate) requests: Amounts,
    pub(crate) pods: Vec<Id>,
    /// Pods with host ports.
    ports: Vec<Id>,
    volumes: Option<Attached>,
    /// Reservations that the node may be taken from; all of them are kept free for it (SCH-112).
    pub(crate) held: BTreeSet<String>,
    pub(crate) min_values_relaxed: bool,
    /// How much of each resource the types that were left had at most, when the claim had this many pods; empty when it
    /// was never looked up.
    pub(crate) most: Vec<i128>,
    pub(crate) measured: usize,
}

impl Pass<'_> {
    pub(crate) fn try_claim(&mut self, trial: Trial, at: usize, range: (usize, usize)) -> Result<Addition, Miss> {
        let claim = &self.claims[at];
        let host = Host {
            at,
            pool: claim.pool,
            req: claim.req,
            rows: &claim.rows,
            requests: &claim.requests,
            ports: &claim.ports,
            volumes: claim.volumes.as_ref(),
            held: &claim.held,
            min_values_relaxed: claim.min_values_relaxed,
        };
        let evaluation = Evaluation {
            compiled: &mut *self.compiled,
            options: &self.options,
            variant: &self.variants[trial.variant],
            choices: &self.choices.all[range.0..range.1],
            reservations: &self.reservations,
            devices: self.devices.as_ref(),
            rows: &mut self.rows,
        };
        evaluation.run(trial, &host, Stage::Open)
    }

    /// SCH-109: a new claim of the first pool that can; whether the pod waits for a reservation otherwise.
    pub(crate) fn open(&mut self, trial: Trial, rules: &HostRules) -> Result<(), bool> {
        for pool in 0..self.pools.len() {
            match self.try_new(trial, pool, rules) {
                Ok(addition) => {
                    self.open_with(trial, pool, addition);
                    return Ok(());
                }
                // Lighter pools must not take what waits for a heavier pool's reservation (SCH-114).
                Err(Miss::Reserved) => return Err(true),
                Err(_) => {}
            }
        }
        Err(false)
    }

    pub(crate) fn open_with(&mut self, trial: Trial, pool: usize, addition: Addition) -> usize {
        let at = self.claims.len();
        self.add_claim(pool);
        self.commit_to_claim(trial, at, addition);
        self.charge(pool, at);
        at
    }

    /// Adds the pod to this claim, if it can be.
    pub(crate) fn add_to(&mut self, trial: Trial, at: usize) -> bool {
        let Some(rules) = self.host_rules(trial) else { return false };
        self.new_turn();
        let sign = self.claims[at].sign;
        let Some(range) = self.claim_choices(trial, sign).filter(|_| self.takes_host(&rules, at)) else {
            return false;
        };
        let Ok(addition) = self.try_claim(trial, at, range) else { return false };
        self.commit_to_claim(trial, at, addition);
        self.epoch += 1;
        true
    }

    pub(crate) fn try_new(&mut self, trial: Trial, pool: usize, rules: &HostRules) -> Result<Addition, Miss> {
        self.try_new_as(trial, pool, self.compiled.pools[pool].req, rules)
    }

    /// The same with more asked of the node than the pool asks.
    pub(crate) fn try_new_as(
        &mut self,
        trial: Trial,
        pool: usize,
        req: ReqId,
        rules: &HostRules,
    ) -> Result<Addition, Miss> {
        let known = &self.compiled.pools[pool];
        let unusable = known.too_few_values && self.options.min_values == MinValuesPolicy::Strict;
        if unusable || self.pools[pool].rows.is_empty() || !Self::takes_new_host(rules) {
            return Err(Miss::Other);
        }
        let sign = self.sign(pool, req);
        let range = self.claim_choices(trial, sign).ok_or(Miss::Other)?;
        let host = Host {
            at: self.claims.len(),
            pool,
            req: self.signs[sign as usize].req,
            rows: self.pools[pool].rows.words(),
            requests: &Amounts::new(),
            ports: &[],
            volumes: None,
            held: &BTreeSet::new(),
            min_values_relaxed: false,
        };
        let evaluation = Evaluation {
            compiled: &mut *self.compiled,
            options: &self.options,
            variant: &self.variants[trial.variant],
            choices: &self.choices.all[range.0..range.1],
            reservations: &self.reservations,
            devices: self.devices.as_ref(),
            rows: &mut self.rows,
        };
        evaluation.run(trial, &host, Stage::New)
    }

    fn add_claim(&mut self, pool: usize) {
        self.note(|_| Change::Opened);
        let req = self.compiled.pools[pool].req;
        let sign = self.sign(pool, req);
        let at = self.claims.len();
        self.signs[sign as usize].claims.set(at);
        self.claims.push(Claim {
            pool,
            sign,
            req,
            rows: Vec::new(),
            requests: Amounts::new(),
            pods: Vec::new(),
            ports: Vec::new(),
            volumes: None,
            held: BTreeSet::new(),
            min_values_relaxed: false,
            most: Vec::new(),
            measured: 0,
        });
    }

    /// What a claim with these types may take from the pool's limits (SCH-80).
    fn charge(&mut self, pool: usize, claim: usize) {
        self.note(|pass| Change::Pool { at: pool, before: pass.pools[pool].clone() });
        let known = &self.compiled.pools[pool];
        if known.limits.is_empty() {
            return;
        }
        let state = &mut self.pools[pool];
        let rows = &self.claims[claim].rows;
        let mut tighter = false;
        for (limit, left) in known.limits.iter().zip(&mut state.left) {
            *left -= limit.charge(rows);
            tighter |= limit.binds(*left);
        }
        if tighter {
            state.rows = known.rows.clone();
            known.limits.iter().zip(&state.left).for_each(|(limit, left)| limit.keep(*left, &mut state.rows));
        }
    }

    fn sign(&mut self, pool: usize, req: ReqId) -> Id {
        if let Some(known) = self.sign_index.get(id(pool), req) {
            return known;
        }
        let at = id(self.signs.len());
        self.signs.push(Sign { pool, req, claims: Bits::default() });
        self.sign_index.insert(id(pool), req, at);
        at
    }

    /// Nothing about the claim changes but how much of the same resources its pods ask for, and what it may still become.
    fn asks_only_for_more(&self, trial: Trial, at: usize, addition: &Addition) -> bool {
        let scheduling = &self.compiled.pods.kinds[trial.kind as usize].example.scheduling;
        let claim = &self.claims[at];
        scheduling.volumes.claims.is_empty()
            && scheduling.host_ports.is_empty()
            && self.devices.is_none()
            && claim.held.is_empty()
            && addition.held.is_empty()
            && amounts::names(&claim.requests, self.amounts(trial.shape))
    }

    /// SCH-108.
    pub(crate) fn commit_to_claim(&mut self, trial: Trial, at: usize, addition: Addition) {
        let takes_back_lightly = self.changes.is_some() && self.asks_only_for_more(trial, at, &addition);
        if !takes_back_lightly {
            self.note(|pass| Change::Claim { at, before: Box::new(pass.claims[at].clone()) });
        }
        let (pool, sign_before, req_before) = (self.claims[at].pool, self.claims[at].sign, self.claims[at].req);
        let relaxed_before = self.claims[at].min_values_relaxed;
        let sign = self.sign(pool, addition.req);
        let scheduling = &self.compiled.pods.kinds[trial.kind as usize].example.scheduling;
        let claim = &mut self.claims[at];
        if !claim.held.is_empty() || !addition.held.is_empty() {
            self.reservations.hold(&placeholder(at), &claim.held, &addition.held);
        }
        if sign != claim.sign {
            if self.compiled.algebra.loosened(claim.req, addition.req) {
                let pods = claim.pods.len();
                for demand in self.demands.iter_mut().filter(|demand| demand.conditional && demand.dead.has(at)) {
                    demand.dead.clear(at);
                    demand.queue.put_back(at, pods);
                }
            }
            self.signs[claim.sign as usize].claims.clear(at);
            self.signs[sign as usize].claims.set(at);
            claim.sign = sign;
        }
        claim.held = addition.held;
        claim.req = addition.req;
        let rows = std::mem::replace(&mut claim.rows, addition.rows);
        claim.min_values_relaxed = addition.min_values_relaxed;
        amounts::add(&mut claim.requests, &self.compiled.pods.shapes[trial.shape as usize].amounts);
        if !scheduling.volumes.claims.is_empty() {
            claim.volumes.get_or_insert_default().add(&self.compiled.pods.all[trial.pod]);
        }
        if !scheduling.host_ports.is_empty() {
            claim.ports.push(id(trial.pod));
        }
        let count = claim.pods.len();
        claim.pods.push(id(trial.pod));
        if self.devices.is_some() {
            self.commit_devices(at, addition.devices);
        }
        if takes_back_lightly {
            self.note(|_| Change::Joined {
                at,
                shape: trial.shape,
                sign: sign_before,
                req: req_before,
                rows,
                min_values_relaxed: relaxed_before,
            });
        } else {
            self.rows = rows;
        }
        let claim = &self.claims[at];
        let place = Place { req: claim.req, taints: self.compiled.pools[pool].taints, site: Site::Claim(at) };
        if self.by_count.len() <= count + 1 {
            self.by_count.resize(count + 2, Bits::default());
        }
        self.by_count[count].clear(at);
        self.by_count[count + 1].set(at);
        self.record(trial, place);
    }
}
