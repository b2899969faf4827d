//! What may be said about a label key, per provider: the model's rules filled in, and what only manifests need.

use std::collections::BTreeMap;

use karpenter_model::labels::LabelRules;

use super::{GROUP, aws, domain, kwok, labels};

/// The tables of the core and one provider (API-128 … API-138).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelPolicy {
    rules: LabelRules,
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

impl LabelPolicy {
    /// The core alone (API-128, API-133, API-137; its value map is empty, API-138).
    pub fn core() -> Self {
        Self {
            rules: LabelRules::core(),
            value_aliases: BTreeMap::new(),
            closed_values: [(labels::CAPACITY_TYPE, labels::CAPACITY_TYPES.as_slice())].into(),
        }
    }

    /// With the KWOK provider. `offering_keys` are the requirement keys of the loaded instance types (API-129).
    pub fn kwok(offering_keys: impl IntoIterator<Item = String>) -> Self {
        let rules = LabelRules::core().well_known(kwok::WELL_KNOWN).well_known(offering_keys);
        Self { rules: rules.restricted_domain(kwok::GROUP), ..Self::core() }
    }

    /// With the AWS provider (AWS-20, AWS-22 … AWS-24).
    pub fn aws() -> Self {
        let usable = aws::USABLE.into_iter().filter(|key| *key != aws::NODE_CLASS_LABEL);
        let rules = LabelRules::core().well_known(usable).well_known([aws::ZONE_ID]).restricted_domain(aws::GROUP);
        let rules = rules.reservation(aws::CAPACITY_RESERVATION_ID);
        let rules = aws::ALIASES.iter().fold(rules, |rules, (old, canonical)| rules.alias(old, canonical));
        let mut policy = Self { rules, ..Self::core() };
        policy.closed_values.insert(aws::INSTANCE_TENANCY, &aws::TENANCIES);
        policy
    }

    /// Adds an old value of a canonical key and what it means today (API-138).
    #[must_use]
    pub fn with_value_alias(mut self, key: &'static str, old: &'static str, new: &'static str) -> Self {
        self.value_aliases.entry(key).or_default().insert(old, new);
        self
    }

    /// With a label that tells which reservation a machine is from (API-269).
    #[must_use]
    pub fn with_reservation(mut self, key: &str) -> Self {
        self.rules = self.rules.reservation(key);
        self
    }

    /// The part that decisions use.
    pub fn rules(&self) -> &LabelRules {
        &self.rules
    }

    /// Canonical value of a canonical key (API-138).
    pub fn normalized_value<'a>(&self, key: &str, value: &'a str) -> &'a str {
        self.value_aliases.get(key).and_then(|values| values.get(value)).copied().unwrap_or(value)
    }

    /// The values a key can have, when that set is closed (API-67, AWS-23).
    pub fn closed_values(&self, key: &str) -> Option<&'static [&'static str]> {
        self.closed_values.get(key).copied()
    }

    /// Why the key may not be used in labels and requirements, if so (API-132).
    pub fn restriction(&self, key: &str) -> Option<Restriction> {
        if !self.rules.is_restricted(key) {
            return None;
        }
        let owner = [aws::GROUP, kwok::GROUP, GROUP].into_iter().find(|group| domain(key).ends_with(group));
        Some(owner.map_or(Restriction::Label(labels::HOSTNAME), Restriction::Domain))
    }
}

impl Default for LabelPolicy {
    fn default() -> Self {
        Self::core()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-19, API-22, API-128, API-129, API-132, API-133, API-134, AWS-20, AWS-22: which keys are free, per provider.
    #[test]
    fn keys_are_restricted_by_domain_unless_well_known() {
        let core = LabelPolicy::core();
        let kwok = LabelPolicy::kwok(["example.org/rack".to_owned()]);
        let aws = LabelPolicy::aws();
        let domain = |name| Some(Restriction::Domain(name));
        for (policy, key, want) in [
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
            assert_eq!(policy.restriction(key), want, "{key}");
        }
        assert!(kwok.rules().is_well_known("example.org/rack"));
        assert!(!core.rules().is_well_known("example.org/rack"));
        assert_eq!(core.rules().well_known_keys().count(), 8);
        assert_eq!(aws.rules().well_known_keys().count(), 8 + 27 + 1);
    }

    /// API-137, API-138, AWS-24: aliases are replaced once, values after keys.
    #[test]
    fn older_spellings_are_normalised() {
        let aws = LabelPolicy::aws().with_value_alias(labels::ARCH, "x86_64", "amd64");
        for (alias, canonical) in [
            ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
            ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
            ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
            ("beta.kubernetes.io/os", "kubernetes.io/os"),
            ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
            ("topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone"),
            ("example.com/other", "example.com/other"),
        ] {
            assert_eq!(aws.rules().normalized(alias), canonical);
        }
        assert_eq!(
            LabelPolicy::core().rules().normalized("topology.ebs.csi.aws.com/zone"),
            "topology.ebs.csi.aws.com/zone"
        );
        assert_eq!(aws.normalized_value(labels::ARCH, "x86_64"), "amd64");
        assert_eq!(LabelPolicy::core().normalized_value(labels::ARCH, "x86_64"), "x86_64");
    }

    /// API-67, AWS-23: the two labels with a closed value set.
    #[test]
    fn closed_value_sets_are_known() {
        assert_eq!(
            LabelPolicy::core().closed_values(labels::CAPACITY_TYPE),
            Some(["on-demand", "spot", "reserved"].as_slice())
        );
        assert_eq!(LabelPolicy::core().closed_values(aws::INSTANCE_TENANCY), None);
        let tenancies = LabelPolicy::aws().closed_values(aws::INSTANCE_TENANCY);
        assert_eq!(tenancies, Some(["default", "dedicated"].as_slice()));
    }

    /// API-348, AWS-286: the texts that the CRD rules use as well.
    #[test]
    fn restrictions_read_like_the_crd_rules() {
        let core = LabelPolicy::core();
        let text = |key| core.restriction(key).map(|r| r.to_string()).unwrap_or_default();
        assert_eq!(text("karpenter.sh/x"), "label domain \"karpenter.sh\" is restricted");
        assert_eq!(text("kubernetes.io/hostname"), "label \"kubernetes.io/hostname\" is restricted");
    }
}
