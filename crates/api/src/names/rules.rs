//! What may be said about a label key: well-known, restricted, normalised.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{aws, domain, kwok, labels};

/// Tables that the core starts with and each provider extends at start-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRules {
    well_known: BTreeSet<Cow<'static, str>>,
    restricted_domains: BTreeSet<&'static str>,
    aliases: BTreeMap<&'static str, &'static str>,
    value_aliases: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
    closed_values: BTreeMap<&'static str, &'static [&'static str]>,
}

/// Why a key may not be used (API-132).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restriction {
    /// The key's domain belongs to us or to the provider.
    Domain(&'static str),
    /// The key itself is off limits.
    Label(&'static str),
}

impl std::fmt::Display for Restriction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Domain(domain) => write!(f, "label domain {domain:?} is restricted"),
            Self::Label(label) => write!(f, "label {label:?} is restricted"),
        }
    }
}

impl LabelRules {
    /// Tables of the core alone (API-128, API-133, API-137; the core's value map is empty, API-138).
    pub fn core() -> Self {
        Self {
            well_known: labels::WELL_KNOWN.into_iter().map(Cow::Borrowed).collect(),
            restricted_domains: labels::RESTRICTED_DOMAINS.into(),
            aliases: labels::ALIASES.into(),
            value_aliases: BTreeMap::new(),
            closed_values: [(labels::CAPACITY_TYPE, labels::CAPACITY_TYPES.as_slice())].into(),
        }
    }

    /// Tables with the KWOK provider. `offering_keys` are the requirement keys of the loaded instance types (API-129).
    pub fn kwok(offering_keys: impl IntoIterator<Item = String>) -> Self {
        let mut rules = Self::core();
        rules.well_known.extend(kwok::WELL_KNOWN.into_iter().map(Cow::Borrowed));
        rules.well_known.extend(offering_keys.into_iter().map(Cow::Owned));
        rules.restricted_domains.insert(kwok::GROUP);
        rules
    }

    /// Tables with the AWS provider (AWS-20, AWS-22 … AWS-24).
    pub fn aws() -> Self {
        let mut rules = Self::core();
        let usable = aws::USABLE.into_iter().filter(|key| *key != aws::NODE_CLASS_LABEL);
        rules.well_known.extend(usable.chain([aws::ZONE_ID]).map(Cow::Borrowed));
        rules.restricted_domains.insert(aws::GROUP);
        rules.aliases.extend(aws::ALIASES);
        rules.closed_values.insert(aws::INSTANCE_TENANCY, &aws::TENANCIES);
        rules
    }

    /// Adds an old value of a canonical key and what it means today (API-138).
    #[must_use]
    pub fn with_value_alias(mut self, key: &'static str, old: &'static str, new: &'static str) -> Self {
        self.value_aliases.entry(key).or_default().insert(old, new);
        self
    }

    /// Whether a pool may leave the key undefined and still match a pod that asks for it.
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    pub fn well_known(&self) -> impl Iterator<Item = &str> {
        self.well_known.iter().map(AsRef::as_ref)
    }

    /// Canonical spelling of a key (API-137).
    pub fn normalize<'a>(&self, key: &'a str) -> &'a str {
        self.aliases.get(key).copied().unwrap_or(key)
    }

    /// All older spellings with their canonical key.
    pub fn aliases(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.aliases.iter().map(|(old, new)| (*old, *new))
    }

    /// Canonical value of a canonical key (API-138).
    pub fn normalize_value<'a>(&self, key: &str, value: &'a str) -> &'a str {
        self.value_aliases.get(key).and_then(|values| values.get(value)).copied().unwrap_or(value)
    }

    /// The values a key can have, when that set is closed (API-67, AWS-23).
    pub fn closed_values(&self, key: &str) -> Option<&'static [&'static str]> {
        self.closed_values.get(key).copied()
    }

    /// Why the key may not be used in labels and requirements, if so (API-132).
    pub fn restriction(&self, key: &str) -> Option<Restriction> {
        if self.is_well_known(key) {
            return None;
        }
        if let Some(label) = labels::RESTRICTED.into_iter().find(|label| *label == key) {
            return Some(Restriction::Label(label));
        }
        let domain = domain(key);
        let owner = self.restricted_domains.iter().copied().find(|restricted| is_within(domain, restricted));
        owner.map(Restriction::Domain)
    }
}

impl Default for LabelRules {
    fn default() -> Self {
        Self::core()
    }
}

/// Whether `domain` is `parent` or a sub-domain of it.
fn is_within(domain: &str, parent: &str) -> bool {
    domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-19, API-22, API-128, API-129, API-132, API-133, API-134, AWS-20, AWS-22: which keys are free, per provider.
    #[test]
    fn keys_are_restricted_by_domain_unless_well_known() {
        let core = LabelRules::core();
        let kwok = LabelRules::kwok(["example.org/rack".to_owned()]);
        let aws = LabelRules::aws();
        let domain = |name| Some(Restriction::Domain(name));
        for (rules, key, want) in [
            (&core, "karpenter.sh/nodepool", None),
            (&core, "karpenter.sh/capacity-type", None),
            (&core, "karpenter.sh/registered", domain("karpenter.sh")),
            (&core, "sub.karpenter.sh/x", domain("karpenter.sh")),
            (&core, "notkarpenter.sh/x", None),
            (&core, "foo.karpenter.sh", None),
            (&core, "karpenter.sh", None),
            (&core, "kubernetes.io/hostname", Some(Restriction::Label("kubernetes.io/hostname"))),
            (&core, "kubernetes.io/custom", None),
            (&core, "node-restriction.kubernetes.io/team", None),
            (&core, "anything.k8s.io/x", None),
            (&core, "node.kubernetes.io/windows-build", None),
            (&core, "karpenter.kwok.sh/anything", None),
            (&core, "karpenter.sh/a/b", domain("karpenter.sh")),
            (&core, "", None),
            (&core, "/", None),
            (&kwok, "karpenter.kwok.sh/instance-cpu", None),
            (&kwok, "karpenter.kwok.sh/kwoknodeclass", domain("karpenter.kwok.sh")),
            (&kwok, "x.karpenter.kwok.sh/y", domain("karpenter.kwok.sh")),
            (&aws, "karpenter.k8s.aws/instance-family", None),
            (&aws, "karpenter.k8s.aws/ec2nodeclass", domain("karpenter.k8s.aws")),
            (&aws, "sub.karpenter.k8s.aws/instance-family", domain("karpenter.k8s.aws")),
            (&aws, "topology.k8s.aws/zone-id", None),
        ] {
            assert_eq!(rules.restriction(key), want, "{key}");
        }
        assert!(kwok.is_well_known("example.org/rack"));
        assert!(!core.is_well_known("example.org/rack"));
        assert_eq!(core.well_known().count(), 8);
        assert_eq!(aws.well_known().count(), 8 + 27 + 1);
    }

    /// API-137, API-138, AWS-24: aliases are replaced once, values after keys.
    #[test]
    fn older_spellings_are_normalised() {
        let aws = LabelRules::aws().with_value_alias(labels::ARCH, "x86_64", "amd64");
        for (alias, canonical) in [
            ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
            ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
            ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
            ("beta.kubernetes.io/os", "kubernetes.io/os"),
            ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
            ("topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone"),
            ("example.com/other", "example.com/other"),
        ] {
            assert_eq!(aws.normalize(alias), canonical);
        }
        assert_eq!(LabelRules::core().normalize("topology.ebs.csi.aws.com/zone"), "topology.ebs.csi.aws.com/zone");
        assert_eq!(aws.normalize_value(labels::ARCH, "x86_64"), "amd64");
        assert_eq!(LabelRules::core().normalize_value(labels::ARCH, "x86_64"), "x86_64");
    }

    /// API-67, AWS-23: the two labels with a closed value set.
    #[test]
    fn closed_value_sets_are_known() {
        assert_eq!(
            LabelRules::core().closed_values(labels::CAPACITY_TYPE),
            Some(["on-demand", "spot", "reserved"].as_slice())
        );
        assert_eq!(LabelRules::core().closed_values(aws::INSTANCE_TENANCY), None);
        let tenancies = LabelRules::aws().closed_values(aws::INSTANCE_TENANCY);
        assert_eq!(tenancies, Some(["default", "dedicated"].as_slice()));
    }

    /// API-348, AWS-286: the texts that the CRD rules use as well.
    #[test]
    fn restrictions_read_like_the_crd_rules() {
        let core = LabelRules::core();
        let text = |key| core.restriction(key).map(|r| r.to_string()).unwrap_or_default();
        assert_eq!(text("karpenter.sh/x"), "label domain \"karpenter.sh\" is restricted");
        assert_eq!(text("kubernetes.io/hostname"), "label \"kubernetes.io/hostname\" is restricted");
    }
}
