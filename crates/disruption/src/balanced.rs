//! The policy `Balanced`: a move has to save more than it disturbs (DIS-131 … DIS-138).

use std::collections::BTreeMap;

/// How many times as much of a pool may be disturbed as is saved: a move passes when its score is at least `1 / K`.
pub const K: f64 = 2.0;
pub const THRESHOLD: f64 = 1.0 / K;

/// What a whole pool costs per hour, and what moving all of its pods would (DIS-133).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    pub cost: f64,
    pub disruption: f64,
}

/// What a move does to one pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub savings: f64,
    pub disruption: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    pub value: f64,
    /// Parts of the pool's totals.
    pub savings: f64,
    pub disruption: f64,
}

impl Score {
    const NONE: Self = Self { value: 0.0, savings: 0.0, disruption: 0.0 };

    pub fn approves(&self) -> bool {
        self.value >= THRESHOLD
    }
}

/// DIS-134, DIS-135: a pool of which nothing is known, or that costs nothing, rejects.
pub fn score(totals: Option<&Totals>, share: Share) -> Score {
    let Some(totals) = totals.filter(|totals| totals.cost > 0.0 && totals.disruption > 0.0) else { return Score::NONE };
    let savings = share.savings / totals.cost;
    let disruption = share.disruption / totals.disruption;
    let value = if savings <= 0.0 {
        0.0
    } else if disruption == 0.0 {
        f64::INFINITY
    } else {
        savings / disruption
    };
    Score { value, savings, disruption }
}

/// One source pool of a move: what its candidates cost and what moving their pods costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    pub balanced: bool,
    pub cost: f64,
    pub disruption: f64,
}

/// What each Balanced pool says of a move that saves `savings` in all (DIS-136). The others do not vote.
pub fn votes(
    totals: &BTreeMap<String, Totals>,
    sources: &BTreeMap<String, Source>,
    savings: f64,
) -> BTreeMap<String, Score> {
    let whole: f64 = sources.values().map(|source| source.cost).sum();
    let voting = sources.iter().filter(|(_, source)| source.balanced);
    voting
        .map(|(pool, source)| {
            let part = if whole > 0.0 { source.cost / whole } else { 1.0 };
            let share = Share { savings: savings * part, disruption: source.disruption };
            (pool.clone(), score(totals.get(pool), share))
        })
        .collect()
}

/// A move without candidates is rejected; otherwise every pool that votes must approve (DIS-136).
pub fn approved(sources: &BTreeMap<String, Source>, votes: &BTreeMap<String, Score>) -> bool {
    !sources.is_empty() && votes.values().all(Score::approves)
}

/// Even deleting the node outright would not pass, so that no option needs to be computed (DIS-138).
pub fn is_hopeless(totals: Option<&Totals>, price: f64, disruption: f64) -> bool {
    totals
        .filter(|totals| totals.cost > 0.0)
        .is_some_and(|totals| !score(Some(totals), Share { savings: price, disruption }).approves())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Totals = Totals { cost: 58.08, disruption: 90.0 };

    fn scored(totals: Totals, savings: f64, disruption: f64) -> Score {
        score(Some(&totals), Share { savings, disruption })
    }

    /// DIS-134, DIS-135, V15-2, DC-128 … DC-134: totals, savings and disruption of a move, its score and whether it passes.
    #[test]
    fn scores() {
        let totals = |cost, disruption| Totals { cost, disruption };
        for (case, totals, savings, disruption, value, approves) in [
            ("DC-128", SMALL, 7.26, 4.0, 2.8125, true),
            ("DC-128", SMALL, 4.84, 5.0, 1.5, true),
            ("DC-128", SMALL, 2.42, 9.0, 0.416_666, false),
            ("DC-128", SMALL, 0.0, 11.0, 0.0, false),
            ("DC-129, the boundary is inside", totals(48.40, 90.0), 2.42, 9.0, 0.5, true),
            ("DC-130", totals(58.08, 117.0), 4.84, 5.0, 1.95, true),
            ("DC-130", totals(58.08, 117.0), 4.84, 32.0, 0.304_687, false),
            ("DC-131, ten times as large", totals(580.8, 900.0), 7.26, 4.0, 2.8125, true),
            ("DC-132, costs nobody anything", SMALL, 1.0, 0.0, f64::INFINITY, true),
            ("DC-132, neither", SMALL, 0.0, 0.0, 0.0, false),
            ("DC-132, a pool that costs nothing", totals(0.0, 90.0), 1.0, 1.0, 0.0, false),
            ("DC-132, dearer than before", SMALL, -1.0, 1.0, 0.0, false),
            ("DIS-135, nothing to disturb", totals(58.08, 0.0), 1.0, 1.0, 0.0, false),
            ("DC-134, the only node of a pool", totals(4.84, 4.0), 4.84, 4.0, 1.0, true),
        ] {
            let score = scored(totals, savings, disruption);
            let close = score.value.total_cmp(&value).is_eq() || (score.value - value).abs() < 1e-5;
            assert!(close, "{case}: {} instead of {value}", score.value);
            assert_eq!(score.approves(), approves, "{case}");
        }
        assert_eq!(score(None, Share { savings: 1.0, disruption: 1.0 }), Score::NONE, "DC-137, DIS-135");
    }

    /// DC-133: the same move under other thresholds, so that K is what decides.
    #[test]
    fn k_decides() {
        let value = scored(SMALL, 2.42, 9.0).value;
        assert!((1.0 / 3.0..1.0 / K).contains(&value));
    }

    fn source(balanced: bool, cost: f64, disruption: f64) -> Source {
        Source { balanced, cost, disruption }
    }

    fn named<T>(entries: impl IntoIterator<Item = (&'static str, T)>) -> BTreeMap<String, T> {
        entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// DIS-136, DC-135: each pool is charged its part of the savings, and only Balanced ones vote.
    #[test]
    fn pools_share_the_savings() {
        let totals = named([("a", Totals { cost: 10.0, disruption: 10.0 })]);
        let sources = named([("a", source(true, 2.0, 1.0)), ("b", source(false, 2.0, 5.0))]);
        let votes = votes(&totals, &sources, 2.0);
        assert_eq!(votes.keys().collect::<Vec<_>>(), ["a"]);
        assert!((votes["a"].savings - 0.1).abs() < 1e-9, "half of 2 out of 10");
        assert!(approved(&sources, &votes));
        assert!(!approved(&named([]), &named([])), "nothing to move");
    }

    /// DIS-136, DC-136: one pool that says no is enough, and both have a result.
    #[test]
    fn every_balanced_pool_must_approve() {
        let totals =
            named([("a", Totals { cost: 10.0, disruption: 10.0 }), ("b", Totals { cost: 10.0, disruption: 10.0 })]);
        let sources = named([("a", source(true, 2.0, 1.0)), ("b", source(true, 2.0, 9.0))]);
        let votes = votes(&totals, &sources, 2.0);
        assert!(votes["a"].approves() && !votes["b"].approves());
        assert!(!approved(&sources, &votes));
        let free = named([("a", source(true, 0.0, 1.0))]);
        let of_free = super::votes(&totals, &free, 2.0);
        assert!((of_free["a"].savings - 0.2).abs() < 1e-9, "the whole saving when the sources cost nothing");
    }

    /// DIS-138: unknown or free pools are looked at all the same.
    #[test]
    fn hopeless_nodes() {
        assert!(is_hopeless(Some(&SMALL), 2.42, 9.0));
        assert!(!is_hopeless(Some(&SMALL), 4.84, 5.0));
        assert!(!is_hopeless(None, 0.0, 9.0));
        assert!(!is_hopeless(Some(&Totals { cost: 0.0, disruption: 1.0 }), 0.0, 9.0));
    }
}
