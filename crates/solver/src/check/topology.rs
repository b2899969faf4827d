//! Spread, affinity and anti-affinity at the end of a pass.
//!
//! Every rule is tallied once for all pods that follow it: where the pods are that it counts.

mod spread;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use karpenter_model::labels;
use karpenter_model::pod::PodView;
use karpenter_model::requirements::{Operator, Requirement, Requirements};
use karpenter_model::scheduling::{AffinityTerm, SpreadConstraint, WhenUnsatisfiable};
use karpenter_model::selector::Selector;

use self::spread::Spreads;
use super::sites::Site;
use super::{Check, Rule, Violation};

fn selects(selector: Option<&Selector>, pod: &PodView) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}

/// How far the pod may have been relaxed: the required terms before this one given up, soft taints put up with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Relaxed {
    first_term: usize,
    soft_taints: bool,
}

impl Check<'_> {
    pub(super) fn topology(&mut self) {
        let mut look = Look::new(self);
        look.everywhere();
        let found = look.found;
        self.found.extend(found);
    }
}

/// Pods by domain.
type Tally<'c> = BTreeMap<&'c str, usize>;

/// Whom a term of affinity or anti-affinity is about.
struct Term<'c> {
    /// By kind.
    matches: Vec<bool>,
    /// Where they are for certain, those that the plan places and those that were there.
    certain: Tally<'c>,
    /// Where they were.
    before: Tally<'c>,
    /// Where those that the plan places may turn out to be.
    possible: BTreeMap<String, usize>,
}

struct Look<'c, 'a> {
    check: &'c Check<'a>,
    spreads: Spreads<'c>,
    terms: BTreeMap<&'c AffinityTerm, Rc<Term<'c>>>,
    /// By listing and key.
    possible: BTreeMap<(usize, &'c str), Rc<BTreeSet<String>>>,
    found: Vec<Violation>,
}

impl<'c, 'a> Look<'c, 'a> {
    fn new(check: &'c Check<'a>) -> Self {
        Self {
            check,
            spreads: Spreads::default(),
            terms: BTreeMap::new(),
            possible: BTreeMap::new(),
            found: Vec::new(),
        }
    }

    fn report(&mut self, rule: Rule, what: String) {
        self.found.push(Violation { rule, what });
    }

    fn everywhere(&mut self) {
        for (at, site) in self.check.sites.all.iter().enumerate() {
            for (pod, kind) in &site.new_pods {
                let hard = |(_, one): &(usize, &SpreadConstraint)| one.when == WhenUnsatisfiable::DoNotSchedule;
                for (index, constraint) in pod.scheduling.spread.iter().enumerate().filter(hard) {
                    if !self.is_spread(site, *kind, index) {
                        self.report(Rule::Spread, format!("{} on {} over {}", pod.id, site.name, constraint.key));
                    }
                }
                for term in &pod.scheduling.affinity {
                    if !self.is_near(site, pod, *kind, term) {
                        self.report(Rule::Affinity, format!("{} on {} by {}", pod.id, site.name, term.key));
                    }
                }
                for term in &pod.scheduling.anti_affinity {
                    self.is_apart(at, pod, *kind, term, true);
                }
            }
            for (pod, kind) in &site.old_pods {
                for term in &pod.scheduling.anti_affinity {
                    self.is_apart(at, pod, *kind, term, false);
                }
            }
        }
    }

    /// The values of a key that the site may turn out to have.
    fn possible(&mut self, site: &'c Site<'a>, key: &'c str) -> Rc<BTreeSet<String>> {
        let Some((_, listing)) = site.claim.filter(|_| key != labels::HOSTNAME) else {
            return Rc::new(site.possible(key, |_| BTreeSet::new()));
        };
        let types = &self.check.market.listings[listing].types;
        let of_types = |key: &str| {
            let listed = types.iter().filter_map(|listed| listed.known.requirements.get(key));
            let certain = listed.filter(|own| own.operator() == Operator::In);
            certain.flat_map(Requirement::values).map(ToOwned::to_owned).collect()
        };
        let known = self.possible.entry((listing, key));
        known.or_insert_with(|| Rc::new(site.possible(key, of_types))).clone()
    }

    fn term(&mut self, term: &'c AffinityTerm) -> Rc<Term<'c>> {
        if let Some(known) = self.terms.get(term) {
            return known.clone();
        }
        let (check, key) = (self.check, term.key.as_str());
        let namespaces = term.namespaces.resolve(&check.snapshot.namespaces);
        let kinds = &check.sites.kinds;
        let meant =
            |pod: &&PodView| namespaces.contains(pod.id.namespace.as_str()) && selects(term.selector.as_ref(), pod);
        let matches: Vec<bool> = kinds.examples.iter().map(meant).collect();
        let (mut certain, mut before) = (Tally::new(), Tally::new());
        let mut possible: BTreeMap<String, usize> = BTreeMap::new();
        for kind in (0..matches.len()).filter(|kind| matches[*kind]) {
            for (at, count) in &kinds.old[kind] {
                if let Some(domain) = check.sites.all[*at].counted_at(key) {
                    *before.entry(domain).or_default() += count;
                    *certain.entry(domain).or_default() += count;
                }
            }
            for (at, count) in &kinds.new[kind] {
                let site = &check.sites.all[*at];
                if let Some(domain) = site.certain(key) {
                    *certain.entry(domain).or_default() += count;
                }
                for domain in self.possible(site, key).iter() {
                    match possible.get_mut(domain) {
                        Some(known) => *known += count,
                        None => _ = possible.insert(domain.clone(), *count),
                    }
                }
            }
        }
        let made = Rc::new(Term { matches, certain, before, possible });
        self.terms.insert(term, made.clone());
        made
    }

    fn is_near(&mut self, site: &'c Site<'a>, pod: &PodView, kind: usize, term: &'c AffinityTerm) -> bool {
        let known = self.term(term);
        let values = self.possible(site, &term.key);
        let itself = |value: &str| usize::from(known.matches[kind] && site.certain(&term.key) == Some(value));
        let others = |value: &String| known.certain.get(value.as_str()).copied().unwrap_or(0) > itself(value);
        if !values.is_empty() && values.iter().all(others) {
            return true;
        }
        // The first of its kind may begin, unless some were there that it could have joined.
        let reachable = |first: usize| {
            let mut strictly = pod.scheduling.node_selector.clone();
            pod.scheduling.required_terms.get(first).into_iter().for_each(|one| strictly.add_all(one));
            known.before.keys().any(|domain| allows(&strictly, &term.key, domain))
        };
        let may_begin = relaxations(pod).any(|relaxed| !reachable(relaxed.first_term));
        known.matches[kind] && values.len() == 1 && may_begin
    }

    /// Nobody whom the term selects shares a domain with its owner.
    fn is_apart(&mut self, at: usize, pod: &PodView, kind: usize, term: &'c AffinityTerm, owner_is_new: bool) {
        let site = &self.check.sites.all[at];
        let known = self.term(term);
        let own = if owner_is_new {
            self.possible(site, &term.key)
        } else {
            Rc::new(site.counted_at(&term.key).map(ToOwned::to_owned).into_iter().collect())
        };
        let itself = usize::from(owner_is_new && known.matches[kind]);
        let clashes = |domain: &&String| {
            let new = known.possible.get(*domain).copied().unwrap_or(0) > itself;
            new || (owner_is_new && known.before.contains_key(domain.as_str()))
        };
        if let Some(domain) = own.iter().find(clashes) {
            let what = format!("{} of {} clashes with others in {domain} by {}", pod.id, site.name, term.key);
            self.report(Rule::AntiAffinity, what);
        }
    }
}

fn allows(asked: &Requirements, key: &str, value: &str) -> bool {
    asked.get(key).is_none_or(|asked| asked.has(value))
}

fn relaxations(pod: &PodView) -> impl Iterator<Item = Relaxed> + use<> {
    let terms = pod.scheduling.required_terms.len().max(1);
    (0..terms).flat_map(|first_term| [false, true].map(|soft_taints| Relaxed { first_term, soft_taints }))
}
