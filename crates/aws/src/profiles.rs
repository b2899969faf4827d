//! Instance profiles that are made for a role (§2.6, AWS-40).

use std::collections::BTreeSet;

use karpenter_api::hash::profile_suffix;

use crate::class::NodeClass;
use crate::cloud::{ApiError, InstanceProfileInfo, Tags};
use crate::launch::tags;

/// All profiles of a cluster in a region are below this path.
pub fn cluster_path(region: &str, cluster: &str) -> String {
    format!("/karpenter/{region}/{cluster}/")
}

pub fn class_path(region: &str, cluster: &str, class: &NodeClass) -> String {
    format!("{}{}/", cluster_path(region, cluster), class.uid)
}

/// The name of a new profile; `uuid` is random, so that a class may have several one after the other.
pub fn profile_name(cluster: &str, region: &str, class: &str, uuid: &str) -> String {
    format!("{cluster}_{}", profile_suffix(&[region, class, uuid]))
}

/// The name that former versions gave; `None` where IAM would not even look for it.
pub fn legacy_profile_name(cluster: &str, region: &str, class: &str) -> Option<String> {
    let name = format!("{cluster}_{}", profile_suffix(&[region, class]));
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte);
    (name.len() <= 128 && name.bytes().all(legal)).then_some(name)
}

pub fn profile_tags(class: &NodeClass, cluster: &str, region: &str) -> Tags {
    let mut all = class.spec.tags.clone().unwrap_or_default();
    all.insert(format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned());
    for (key, value) in
        [(tags::CLUSTER, cluster), (tags::NODE_CLASS, &class.name), (karpenter_model::labels::REGION, region)]
    {
        all.insert(key.to_owned(), value.to_owned());
    }
    all
}

/// A role may be given with its path, which IAM does not take here (AWS-71).
pub fn role_name(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// The role does not exist, as opposed to the profile (AWS-72).
pub fn is_role_missing(error: &ApiError) -> bool {
    error.code == "NoSuchEntity" && error.message.to_lowercase().contains("role")
}

/// What is to be done about the profile of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileStep {
    /// The user's own: IAM is not asked at all.
    Use(String),
    /// Look at the profile of this name, then ask again.
    Look(String),
    /// It is there with the right role.
    Keep(String),
    /// A new one; the old one is not touched, claims may still use it.
    Create,
    Failed(ApiError),
}

/// `current` is the profile that the status names, or that was made a moment ago; `found` what IAM says of it.
pub fn profile_step(
    class: &NodeClass,
    current: Option<&str>,
    found: Option<Result<InstanceProfileInfo, ApiError>>,
) -> ProfileStep {
    if let Some(own) = &class.spec.instance_profile {
        return ProfileStep::Use(own.clone());
    }
    let wanted = role_name(class.spec.role.as_deref().unwrap_or_default());
    let Some(name) = current.filter(|name| !name.is_empty()) else { return ProfileStep::Create };
    match found {
        None => ProfileStep::Look(name.to_owned()),
        Some(Err(error)) if !error.is_not_found() => ProfileStep::Failed(error),
        Some(Ok(profile)) if profile.roles.first().is_some_and(|role| role == wanted) => {
            ProfileStep::Keep(name.to_owned())
        }
        Some(_) => ProfileStep::Create,
    }
}

/// Profiles that nothing refers to any more (AWS-75).
pub fn collectable<'a>(
    profiles: &'a [InstanceProfileInfo],
    of_classes: &BTreeSet<String>,
    protected: &BTreeSet<String>,
    of_claims: &BTreeSet<String>,
) -> Vec<&'a str> {
    let used = |name: &str| [of_classes, protected, of_claims].iter().any(|names| names.contains(name));
    profiles.iter().map(|profile| profile.name.as_str()).filter(|name| !used(name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::class;

    fn profile(roles: &[&str]) -> InstanceProfileInfo {
        InstanceProfileInfo { name: "p".to_owned(), roles: roles.iter().map(|role| (*role).to_owned()).collect() }
    }

    /// AWS-40, AWS-69, AWS-288, AC-77: names, paths and tags.
    #[test]
    fn names_and_tags() {
        let plain = class(&json!({"tags": {"team": "a"}}));
        assert_eq!(class_path("us-west-2", "c.d", &plain), "/karpenter/us-west-2/c.d/class-uid/");
        assert_eq!(legacy_profile_name("c", "us-west-2", "default").as_deref(), Some("c_4067990795380418201"));
        assert_eq!(legacy_profile_name("a:b", "us-west-2", "default"), None);
        assert_eq!(legacy_profile_name(&"x".repeat(120), "us-west-2", "default"), None);
        let names = ["1", "2"].map(|uuid| profile_name("c", "us-west-2", "default", uuid));
        assert!(names[0] != names[1] && names[0].starts_with("c_"));
        let text: Vec<String> =
            profile_tags(&plain, "c", "us-west-2").iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            text,
            [
                "eks:eks-cluster-name=c",
                "karpenter.k8s.aws/ec2nodeclass=default",
                "kubernetes.io/cluster/c=owned",
                "team=a",
                "topology.kubernetes.io/region=us-west-2",
            ]
        );
    }

    /// AWS-68, AWS-70, AWS-71, AC-65, AC-66, AC-69, AC-72: what is done, by what there is.
    #[test]
    fn steps() {
        let managed = class(&json!({"role": "/path/to/my-role"}));
        assert_eq!(role_name("/path/to/my-role"), "my-role");
        let not_found = || Err(ApiError::new("NoSuchEntity", "profile"));
        let slow = ApiError::new("Throttling", "");
        for (current, found, want) in [
            (None, None, ProfileStep::Create),
            (Some("p"), None, ProfileStep::Look("p".to_owned())),
            (Some("p"), Some(Ok(profile(&["my-role"]))), ProfileStep::Keep("p".to_owned())),
            (Some("p"), Some(Ok(profile(&[]))), ProfileStep::Create),
            (Some("p"), Some(Ok(profile(&["other"]))), ProfileStep::Create),
            (Some("p"), Some(not_found()), ProfileStep::Create),
            (Some("p"), Some(Err(slow.clone())), ProfileStep::Failed(slow.clone())),
        ] {
            assert_eq!(profile_step(&managed, current, found), want);
        }
        let mut own = class(&json!({"instanceProfile": "mine"}));
        own.spec.role = None;
        assert_eq!(profile_step(&own, Some("p"), None), ProfileStep::Use("mine".to_owned()));
        assert!(is_role_missing(&ApiError::new("NoSuchEntity", "The role with name x cannot be found")));
        assert!(!is_role_missing(&ApiError::new("NoSuchEntity", "Instance Profile x cannot be found")));
    }

    /// AWS-75, AC-73: only what nothing refers to.
    #[test]
    fn collection() {
        let names = ["a", "b", "c", "d"];
        let all = names.map(|name| InstanceProfileInfo { name: name.to_owned(), roles: Vec::new() });
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        assert_eq!(collectable(&all, &set("a"), &set("b"), &set("c")), ["d"]);
    }
}
