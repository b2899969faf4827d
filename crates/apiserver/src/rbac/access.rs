//! What a client asked for, as a role would have to grant it: to write a role from a run, and to find what it grants in vain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use super::{Request, list};

/// One verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Empty for the core group.
    pub group: String,
    pub resource: String,
    /// Empty for the object itself.
    pub subresource: String,
    pub verb: String,
}

impl Access {
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let Request::Resource { verb, group, resource, subresource, .. } = request else { return None };
        Some(Self {
            group: group.clone(),
            resource: resource.clone(),
            subresource: subresource.clone(),
            verb: verb.clone(),
        })
    }

    /// `pods` or `pods/eviction`, as rules name it.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// `create pods/eviction`, `get nodepools.karpenter.sh`
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        write!(f, "{} {}{dot}{}{slash}{}", self.verb, self.resource, self.group, self.subresource)
    }
}

/// The fewest rules of a role that grant all of these: resources of a group with the same verbs share one.
pub fn rules_for<'a>(accesses: impl IntoIterator<Item = &'a Access>) -> Vec<Value> {
    let mut verbs: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for access in accesses {
        verbs.entry((&access.group, access.full_resource())).or_default().insert(&access.verb);
    }
    let mut resources: BTreeMap<(&str, BTreeSet<&str>), Vec<String>> = BTreeMap::new();
    for ((group, resource), verbs) in verbs {
        resources.entry((group, verbs)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    resources.into_iter().map(rule).collect()
}

/// Everything that the rules of a role grant, one by one. A `*` stays what it is.
pub fn grants<'a>(rules: impl IntoIterator<Item = &'a Value>) -> BTreeSet<Access> {
    let mut found = BTreeSet::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for rule in rules {
        for (group, full) in
            list(&rule["apiGroups"]).iter().flat_map(|g| list(&rule["resources"]).iter().map(move |r| (g, r)))
        {
            let full = text(full);
            let (resource, subresource) = full.split_once('/').unwrap_or((&full, ""));
            found.extend(list(&rule["verbs"]).iter().map(|verb| Access {
                group: text(group),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                verb: text(verb),
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(verb: &str, group: &str, resource: &str, subresource: &str) -> Access {
        let [verb, group, resource, subresource] = [verb, group, resource, subresource].map(str::to_owned);
        Access { group, resource, subresource, verb }
    }

    #[test]
    fn rules_grant_what_was_asked_for_and_no_more() {
        let asked: BTreeSet<Access> = [
            access("get", "", "pods", ""),
            access("list", "", "pods", ""),
            access("list", "", "nodes", ""),
            access("get", "", "nodes", ""),
            access("create", "", "pods", "eviction"),
            access("get", "apps", "daemonsets", ""),
        ]
        .into();
        let rules = rules_for(&asked);
        assert_eq!(
            rules,
            [
                json!({"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}),
                json!({"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"]}),
                json!({"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]}),
            ]
        );
        assert_eq!(grants(&rules), asked);
        let texts: Vec<String> = asked.iter().map(ToString::to_string).collect();
        assert!(
            texts.contains(&"create pods/eviction".to_owned()) && texts.contains(&"get daemonsets.apps".to_owned())
        );
    }
}
