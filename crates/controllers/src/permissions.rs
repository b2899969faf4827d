//! What the controller may do in a cluster: the one table that the chart's roles are written from and that start-up checks
//! (API-289 … API-294, AWS-233, AWS-234, V15-119).

/// Verbs on resources, as a role says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    pub resources: &'static [&'static str],
    pub verbs: &'static [&'static str],
    /// Only these objects; empty means all.
    pub names: &'static [&'static str],
    pub need: Need,
}

/// What a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The controller cannot work without it, and start-up says so.
    Always,
    /// Some setting or gate uses it.
    Sometimes,
    /// Kept because installations expect the role to have it.
    Expected,
}

const READ: &[&str] = &["get", "list", "watch"];

const fn rule(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    need: Need,
) -> Rule {
    Rule { group, resources, verbs, names: &[], need }
}

/// The cluster role that every provider needs (API-289).
pub const CORE: &[Rule] = &[
    rule("karpenter.sh", &["nodepools", "nodeclaims"], READ, Need::Always),
    rule(
        "karpenter.sh",
        &["nodepools/status", "nodeclaims/status", "nodeoverlays", "nodeoverlays/status"],
        READ,
        Need::Sometimes,
    ),
    rule("karpenter.sh", &["nodeclaims", "nodeclaims/status"], &["create", "delete", "update", "patch"], Need::Always),
    // Asked for where owner references are guarded, because ours block the deletion of their owner (API-290).
    rule("karpenter.sh", &["nodeclaims/finalizers"], &["create", "delete", "update", "patch"], Need::Sometimes),
    rule("karpenter.sh", &["nodepools", "nodepools/status"], &["update", "patch"], Need::Always),
    rule("karpenter.sh", &["nodepools/finalizers", "nodeoverlays/status"], &["update", "patch"], Need::Sometimes),
    rule("autoscaling.x-k8s.io", &["capacitybuffers", "capacitybuffers/status"], READ, Need::Sometimes),
    rule("autoscaling.x-k8s.io", &["capacitybuffers/status"], &["update", "patch"], Need::Sometimes),
    rule("", &["pods", "nodes", "namespaces"], READ, Need::Always),
    rule(
        "",
        &["persistentvolumes", "persistentvolumeclaims", "replicationcontrollers", "podtemplates", "services"],
        READ,
        Need::Sometimes,
    ),
    rule("storage.k8s.io", &["storageclasses", "csinodes", "volumeattachments"], READ, Need::Sometimes),
    rule("apps", &["daemonsets"], READ, Need::Always),
    rule("apps", &["deployments", "replicasets", "statefulsets"], READ, Need::Sometimes),
    rule("policy", &["poddisruptionbudgets"], READ, Need::Sometimes),
    rule("autoscaling.k8s.io", &["verticalpodautoscalers"], READ, Need::Expected),
    rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["list", "watch"], Need::Expected),
    rule("", &["nodes"], &["patch", "update", "delete"], Need::Always),
    rule("", &["pods"], &["delete"], Need::Always),
    rule("", &["pods/eviction"], &["create"], Need::Always),
    rule("", &["events"], &["create", "patch"], Need::Always),
    // Needed only where resource claims of pods are not ignored; a read that is always granted is one less to forget.
    rule("resource.k8s.io", &["resourceclaims", "resourceslices", "deviceclasses"], READ, Need::Sometimes),
];

/// What the kwok provider needs beyond that (API-289, API-293, V15-119).
pub const KWOK: &[Rule] = &[
    rule("karpenter.kwok.sh", &["kwoknodeclasses"], READ, Need::Always),
    rule("karpenter.kwok.sh", &["kwoknodeclasses", "kwoknodeclasses/status"], &["patch", "update"], Need::Sometimes),
    rule("", &["nodes"], &["create"], Need::Always),
    rule("", &["nodes/status"], &["patch"], Need::Sometimes),
    rule("", &["pods"], &["delete", "patch", "update"], Need::Sometimes),
];

/// What the AWS provider needs beyond that (AWS-234).
pub const AWS: &[Rule] = &[
    rule("karpenter.k8s.aws", &["ec2nodeclasses"], READ, Need::Always),
    rule("karpenter.k8s.aws", &["ec2nodeclasses", "ec2nodeclasses/status"], &["patch", "update"], Need::Always),
];

/// With the gate `PodDeletionCostManagement` on (V15-98).
pub const POD_DELETION_COST: &[Rule] = &[rule("", &["pods"], &["patch", "update"], Need::Always)];

/// Where Provisioners and AWSNodeTemplates are served through pools and classes of ours (AWS-257).
pub const LEGACY: &[Rule] = &[
    rule("karpenter.sh", &["provisioners"], READ, Need::Sometimes),
    rule("karpenter.sh", &["provisioners/status"], &["patch"], Need::Sometimes),
    // Asked for where owner references are guarded, because ours block the deletion of their owner.
    rule("karpenter.sh", &["provisioners/finalizers"], &["update"], Need::Sometimes),
    rule("karpenter.k8s.aws", &["awsnodetemplates"], READ, Need::Sometimes),
    rule("karpenter.k8s.aws", &["awsnodetemplates/status"], &["patch"], Need::Sometimes),
    rule("karpenter.sh", &["nodepools"], &["create"], Need::Sometimes),
    rule("karpenter.k8s.aws", &["ec2nodeclasses"], &["create"], Need::Sometimes),
];

/// What administrators of the cluster get then.
pub const ADMIN_LEGACY: &[Rule] = &[
    rule(
        "karpenter.sh",
        &["provisioners", "provisioners/status"],
        &["get", "list", "watch", "create", "delete", "patch"],
        Need::Expected,
    ),
    rule(
        "karpenter.k8s.aws",
        &["awsnodetemplates"],
        &["get", "list", "watch", "create", "delete", "patch"],
        Need::Expected,
    ),
];

/// Where the controller is installed: the lease of the leader (API-291).
pub const LEASE: &[Rule] = &[
    rule("coordination.k8s.io", &["leases"], &["get", "watch"], Need::Always),
    rule("coordination.k8s.io", &["leases"], &["create"], Need::Always),
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["patch", "update"],
        names: &["karpenter-leader-election"],
        need: Need::Always,
    },
];

/// In `kube-system`, for the AWS provider: the address of the cluster's DNS (AWS-233).
pub const DNS: &[Rule] =
    &[Rule { group: "", resources: &["services"], verbs: &["get"], names: &["kube-dns"], need: Need::Sometimes }];

/// In `kube-node-lease`, for the kwok provider (API-292).
pub const NODE_LEASES: &[Rule] =
    &[rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "delete"], Need::Expected)];

/// What administrators of the cluster get (API-294).
pub const ADMIN: &[Rule] = &[rule(
    "karpenter.sh",
    &["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"],
    &["get", "list", "watch", "create", "delete", "patch"],
    Need::Expected,
)];

/// And with the AWS provider.
pub const ADMIN_AWS: &[Rule] = &[rule(
    "karpenter.k8s.aws",
    &["ec2nodeclasses"],
    &["get", "list", "watch", "create", "delete", "patch"],
    Need::Expected,
)];

/// One thing that may or may not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: &'static str,
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, group, resource, subresource } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if !subresource.is_empty() {
            write!(f, "/{subresource}")?;
        }
        Ok(())
    }
}

/// What the rules cannot do without, one by one.
pub fn needed(rules: &[&'static [Rule]]) -> Vec<Permission> {
    let mut all = Vec::new();
    for rule in rules.iter().flat_map(|rules| rules.iter()).filter(|rule| rule.need == Need::Always) {
        for path in rule.resources {
            let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
            all.extend(rule.verbs.iter().map(|verb| Permission { verb, group: rule.group, resource, subresource }));
        }
    }
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-13, API-289, API-290, V15-119: the rows of the specification, whatever rule they are written in.
    #[test]
    fn the_core_role_is_the_table_of_the_specification() {
        let granted = |rules: &[Rule], group: &str, path: &str, verb: &str| {
            rules.iter().any(|rule| rule.group == group && rule.resources.contains(&path) && rule.verbs.contains(&verb))
        };
        for (group, resources, verbs) in [
            (
                "karpenter.sh",
                "nodepools nodepools/status nodeclaims nodeclaims/status nodeoverlays nodeoverlays/status",
                "get list watch",
            ),
            ("karpenter.sh", "nodeclaims nodeclaims/status nodeclaims/finalizers", "create delete update patch"),
            ("karpenter.sh", "nodepools nodepools/status nodepools/finalizers nodeoverlays/status", "update patch"),
            ("autoscaling.x-k8s.io", "capacitybuffers capacitybuffers/status", "get list watch"),
            ("autoscaling.x-k8s.io", "capacitybuffers/status", "update patch"),
            (
                "",
                "pods nodes persistentvolumes persistentvolumeclaims replicationcontrollers namespaces podtemplates services",
                "get list watch",
            ),
            ("storage.k8s.io", "storageclasses csinodes volumeattachments", "get list watch"),
            ("apps", "daemonsets deployments replicasets statefulsets", "get list watch"),
            ("policy", "poddisruptionbudgets", "get list watch"),
            ("autoscaling.k8s.io", "verticalpodautoscalers", "get list watch"),
            ("apiextensions.k8s.io", "customresourcedefinitions", "list watch"),
            ("", "nodes", "patch update delete"),
            ("", "pods", "delete"),
            ("", "pods/eviction", "create"),
            ("", "events", "create patch"),
            ("resource.k8s.io", "resourceclaims resourceslices deviceclasses", "get list watch"),
        ] {
            for resource in resources.split(' ') {
                for verb in verbs.split(' ') {
                    assert!(granted(CORE, group, resource, verb), "{verb} {resource}.{group}");
                }
            }
        }
        assert!(!granted(CORE, "", "nodes", "create"), "only kwok makes nodes itself");
        // V15-98: who may patch pods may change what they run, so only who needs it gets it.
        for verb in ["patch", "update"] {
            assert!(granted(POD_DELETION_COST, "", "pods", verb) && !granted(CORE, "", "pods", verb), "{verb} pods");
        }
        for (path, verb) in [("nodes", "create"), ("nodes/status", "patch"), ("pods", "update")] {
            assert!(granted(KWOK, "", path, verb), "{verb} {path}");
        }
        assert!(
            !CORE.iter().chain(KWOK).chain(AWS).any(|rule| rule.verbs.contains(&"*") || rule.resources.contains(&"*"))
        );
        assert!(!CORE.iter().any(|rule| rule.resources.contains(&"secrets")));
        // API-13: definitions may be somebody else's; nobody who runs with these rights can change or delete one.
        let definitions = CORE.iter().chain(KWOK).chain(AWS).filter(|rule| rule.group == "apiextensions.k8s.io");
        assert!(definitions.flat_map(|rule| rule.verbs).all(|verb| ["list", "watch"].contains(verb)));
    }

    #[test]
    fn what_is_needed_is_listed_once() {
        let needed = needed(&[CORE, KWOK]);
        let shown: Vec<String> = needed.iter().map(ToString::to_string).collect();
        assert!(shown.contains(&"create pods/eviction".to_owned()), "{shown:?}");
        assert!(shown.contains(&"watch nodeclaims.karpenter.sh".to_owned()));
        assert!(shown.contains(&"patch nodeclaims.karpenter.sh/status".to_owned()));
        assert!(!shown.iter().any(|line| line.contains("verticalpodautoscalers")));
        let mut once = shown.clone();
        once.dedup();
        assert_eq!(once.len(), shown.len());
    }
}
