//! Taints and tolerations.

use std::fmt;

pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// A node is about to restart, or has not come back yet (V15-11).
pub const REBOOTING: &str = "karpenter.sh/rebooting";
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute].into_iter().find(|effect| effect.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: Effect,
}

impl Taint {
    pub fn new(key: &str, value: &str, effect: Effect) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), effect }
    }

    pub fn unregistered() -> Self {
        Self::new(UNREGISTERED, "", Effect::NoExecute)
    }

    pub fn disrupted() -> Self {
        Self::new(DISRUPTED, "", Effect::NoSchedule)
    }

    pub fn rebooting() -> Self {
        Self::new(REBOOTING, "", Effect::NoSchedule)
    }

    /// Two taints are the same taint when key and effect agree; a node has at most one of each.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// Taints that a starting node sheds by itself (API-150): by key and effect, values do not matter.
    pub fn is_known_ephemeral(&self) -> bool {
        const KNOWN: [(&str, Effect); 5] = [
            ("node.kubernetes.io/not-ready", Effect::NoSchedule),
            ("node.kubernetes.io/not-ready", Effect::NoExecute),
            ("node.kubernetes.io/unreachable", Effect::NoSchedule),
            ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule),
            (UNREGISTERED, Effect::NoExecute),
        ];
        KNOWN.contains(&(self.key.as_str(), self.effect)) || self.key.starts_with("readiness.k8s.io/")
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{separator}{}:{}", self.key, self.value, self.effect.as_str())
    }
}

/// Appends the taints of `more` that are not in `taints` yet (SCH-59).
pub fn merge(taints: &mut Vec<Taint>, more: &[Taint]) {
    for taint in more {
        if !taints.iter().any(|known| known.is_same(taint)) {
            taints.push(taint.clone());
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    Exists,
    Equal,
    Gt,
    Lt,
    /// An operator of a later Kubernetes version: matches nothing.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Empty matches every key.
    pub key: String,
    pub operator: TolerationOperator,
    pub value: String,
    /// `None` matches every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// SCH-53.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                TolerationOperator::Exists => true,
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Gt => numbers().is_some_and(|(taint, bound)| taint > bound),
                TolerationOperator::Lt => numbers().is_some_and(|(taint, bound)| taint < bound),
                TolerationOperator::Unknown => false,
            }
    }
}

/// The first taint that no toleration matches. Every effect counts, `PreferNoSchedule` too (SCH-53).
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: Option<Effect>) -> Toleration {
        Toleration { key: key.to_owned(), operator, value: value.to_owned(), effect }
    }

    /// SCH-53; SC-72 and SC-87 give the rows.
    #[test]
    fn tolerations() {
        use TolerationOperator::{Equal, Exists, Gt, Lt, Unknown};
        let gpu = Taint::new("nvidia.com/gpu", "true", Effect::NoSchedule);
        let number = |value| Taint::new("k", value, Effect::NoSchedule);
        for (toleration, taint, tolerated) in [
            (toleration("nvidia.com/gpu", Equal, "true", Some(Effect::NoSchedule)), &gpu, true),
            (toleration("nvidia.com/gpu", Exists, "", Some(Effect::NoSchedule)), &gpu, true),
            (toleration("nvidia.com/gpu", Exists, "", None), &gpu, true),
            (toleration("", Exists, "", None), &gpu, true),
            (toleration("nvidia.com/gpu", Equal, "", None), &gpu, false),
            (toleration("other", Exists, "", None), &gpu, false),
            (toleration("nvidia.com/gpu", Exists, "", Some(Effect::NoExecute)), &gpu, false),
            (toleration("k", Gt, "5", None), &number("7"), true),
            (toleration("k", Gt, "5", None), &number("5"), false),
            (toleration("k", Lt, "5", None), &number("3"), true),
            (toleration("k", Lt, "5", None), &number("abc"), false),
            (toleration("k", Unknown, "5", None), &number("5"), false),
        ] {
            assert_eq!(toleration.tolerates(taint), tolerated, "{toleration:?} of {taint}");
        }
    }

    /// API-150, SCH-58; SC-80 gives the last two.
    #[test]
    fn ephemeral_taints() {
        for (key, effect, ephemeral) in [
            ("node.kubernetes.io/not-ready", Effect::NoSchedule, true),
            ("node.kubernetes.io/not-ready", Effect::NoExecute, true),
            ("node.kubernetes.io/unreachable", Effect::NoSchedule, true),
            ("node.kubernetes.io/unreachable", Effect::NoExecute, false),
            ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule, true),
            ("karpenter.sh/unregistered", Effect::NoExecute, true),
            ("readiness.k8s.io/a", Effect::PreferNoSchedule, true),
            ("foo/readiness.k8s.io/bar", Effect::NoSchedule, false),
            ("example.com/x", Effect::NoSchedule, false),
        ] {
            assert_eq!(Taint::new(key, "any", effect).is_known_ephemeral(), ephemeral, "{key}");
        }
    }

    /// SCH-59.
    #[test]
    fn merging_keeps_the_first() {
        let mut taints = vec![Taint::new("a", "1", Effect::NoSchedule)];
        merge(&mut taints, &[Taint::new("a", "2", Effect::NoSchedule), Taint::new("a", "", Effect::NoExecute)]);
        assert_eq!(taints.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a=1:NoSchedule", "a:NoExecute"]);
    }
}
