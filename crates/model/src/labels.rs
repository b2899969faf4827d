//! Label keys that decisions know by name, and which keys are well-known, restricted or aliases.

use std::collections::{BTreeMap, BTreeSet};

pub const NODEPOOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// What [`NODEPOOL`] was called; nodes of pools that a Provisioner owns carry both (AWS-258).
pub const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
pub const HOSTNAME: &str = "kubernetes.io/hostname";

pub const CAPACITY_TYPE_SPOT: &str = "spot";
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";

/// The core's well-known labels (API-128).
pub const WELL_KNOWN: [&str; 8] = [NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Deprecated keys and what they mean today (API-137).
pub const ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// What the process knows about label keys: the core's rules and what the provider added at start-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRules {
    well_known: BTreeSet<String>,
    restricted_domains: BTreeSet<String>,
    aliases: BTreeMap<String, String>,
    reservation_id: Option<String>,
}

impl Default for LabelRules {
    fn default() -> Self {
        Self::core()
    }
}

impl LabelRules {
    pub fn core() -> Self {
        Self {
            well_known: WELL_KNOWN.iter().map(ToString::to_string).collect(),
            restricted_domains: BTreeSet::from(["karpenter.sh".to_owned()]),
            aliases: ALIASES.iter().map(|(old, new)| (old.to_string(), new.to_string())).collect(),
            reservation_id: None,
        }
    }

    #[must_use]
    pub fn well_known(mut self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.well_known.extend(keys.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn restricted_domain(mut self, domain: &str) -> Self {
        self.restricted_domains.insert(domain.to_owned());
        self
    }

    #[must_use]
    pub fn alias(mut self, old: &str, canonical: &str) -> Self {
        self.aliases.insert(old.to_owned(), canonical.to_owned());
        self
    }

    /// The label that tells which reservation an offering is bought from; well-known from then on (SCH-110).
    #[must_use]
    pub fn reservation(mut self, key: &str) -> Self {
        self.reservation_id = Some(key.to_owned());
        self.well_known([key])
    }

    /// `None` where the provider knows no reservations.
    pub fn reservation_key(&self) -> Option<&str> {
        self.reservation_id.as_deref()
    }

    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    pub fn well_known_keys(&self) -> impl Iterator<Item = &str> {
        self.well_known.iter().map(String::as_str)
    }

    /// The key under which a requirement is kept.
    pub fn normalized<'a>(&'a self, key: &'a str) -> &'a str {
        self.aliases.get(key).map_or(key, String::as_str)
    }

    /// Whether pods may ask for the key. One that no pool may set is asked for all the same: a Provisioner's nodes have it
    /// (AWS-258).
    pub fn is_askable(&self, key: &str) -> bool {
        key == PROVISIONER_NAME || !self.is_restricted(key)
    }

    /// Keys that users may not set or require (API-132): the reserved domains and the host name, unless well-known.
    pub fn is_restricted(&self, key: &str) -> bool {
        if self.is_well_known(key) {
            return false;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        key == HOSTNAME
            || self.restricted_domains.iter().any(|restricted| {
                domain.strip_suffix(restricted.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-132, API-133, API-134: reserved domains by dot boundary, well-known keys exempt, nothing else.
    #[test]
    fn restricted_keys() {
        let rules =
            LabelRules::core().restricted_domain("karpenter.kwok.sh").well_known(["karpenter.kwok.sh/instance-cpu"]);
        for (key, restricted) in [
            ("karpenter.sh/nodepool", false),
            ("karpenter.sh/capacity-type", false),
            ("karpenter.sh/other", true),
            ("sub.karpenter.sh/x", true),
            ("notkarpenter.sh/x", false),
            ("foo.karpenter.sh", false),
            ("karpenter.kwok.sh/kwoknodeclass", true),
            ("karpenter.kwok.sh/instance-cpu", false),
            ("kubernetes.io/hostname", true),
            ("kubernetes.io/other", false),
            ("node.k8s.io/x", false),
            ("team", false),
        ] {
            assert_eq!(rules.is_restricted(key), restricted, "{key}");
        }
    }

    /// API-137, API-138: aliases of the core and of a provider.
    #[test]
    fn aliases() {
        let rules = LabelRules::core().alias("topology.ebs.csi.aws.com/zone", ZONE);
        assert_eq!(rules.normalized("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(rules.normalized("topology.ebs.csi.aws.com/zone"), ZONE);
        assert_eq!(rules.normalized("team"), "team");
    }
}
