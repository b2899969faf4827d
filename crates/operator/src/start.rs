//! What is looked at before anything is done: whatever is missing is said in one line.

use anyhow::{Context as _, Result, bail};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use karpenter_api::settings::{CloudProvider, Settings};
use karpenter_controllers::permissions::{self, Permission};
use karpenter_platform::{NodeClassKind, RepairPolicies, RepairPolicy};
use kube::api::PostParams;
use kube::{Api, Client};

/// Questions asked at a time.
const AT_ONCE: usize = 8;

/// Which of these kinds the API server does not serve.
pub(crate) async fn missing_kinds(client: &Client, group_version: &str, kinds: &[&str]) -> Result<Vec<String>> {
    let served = match client.list_api_group_resources(group_version).await {
        Ok(list) => list.resources.into_iter().map(|resource| resource.kind).collect(),
        // Not an object of the API but a page: the group is unknown altogether.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot ask what is served in {group_version}")),
    };
    let missing = kinds.iter().filter(|kind| !served.iter().any(|served| served == *kind));
    Ok(missing.map(|kind| format!("{kind} ({group_version})")).collect())
}

/// NodePool and NodeClaim, without which there is no autoscaler (API-300).
pub(crate) async fn missing_core_kinds(client: &Client) -> Result<Vec<String>> {
    missing_kinds(client, "karpenter.sh/v1", &["NodePool", "NodeClaim"]).await
}

/// Every CRD that the controllers watch. Overlays and buffers are not among them (API-301).
pub(crate) async fn check_kinds(client: &Client, classes: &[NodeClassKind]) -> Result<()> {
    let mut missing = missing_core_kinds(client).await?;
    for class in classes {
        let group_version = format!("{}/{}", class.group, class.version);
        missing.extend(missing_kinds(client, &group_version, &[&class.kind]).await?);
    }
    if !missing.is_empty() {
        bail!("the cluster has no {}: install the chart karpenter-crd first", missing.join(", "));
    }
    Ok(())
}

/// Asks the API server what we may do, and names everything that we may not.
pub(crate) async fn check_permissions(client: &Client, settings: &Settings, lease_namespace: &str) -> Result<()> {
    let of_provider = match settings.cloud_provider {
        CloudProvider::Aws => permissions::AWS,
        CloudProvider::Kwok => permissions::KWOK,
    };
    let of_gates: &[_] =
        if settings.feature_gates.pod_deletion_cost_management { permissions::POD_DELETION_COST } else { &[] };
    let mut questions: Vec<(Permission, Option<ResourceAttributes>)> =
        permissions::needed(&[permissions::CORE, of_provider, of_gates])
            .into_iter()
            .map(|permission| (permission, None))
            .collect();
    if !settings.disable_leader_election {
        for permission in permissions::needed(&[permissions::LEASE]) {
            let name = Some(settings.leader_election_name.clone()).filter(|_| permission.verb != "create");
            let about = ResourceAttributes {
                namespace: Some(lease_namespace.to_owned()),
                name,
                ..ResourceAttributes::default()
            };
            questions.push((permission, Some(about)));
        }
    }
    let denied: Vec<Option<String>> = stream::iter(questions)
        .map(|(permission, about)| async move {
            let place = about.as_ref().and_then(|about| about.namespace.clone());
            let allowed = is_allowed(client, permission, about.unwrap_or_default()).await?;
            let place = place.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
            anyhow::Ok((!allowed).then(|| format!("{permission}{place}")))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let denied: Vec<String> = denied.into_iter().flatten().collect();
    if !denied.is_empty() {
        bail!("the service account may not {}: bind the roles of the chart karpenter to it", denied.join(", "));
    }
    Ok(())
}

async fn is_allowed(client: &Client, permission: Permission, about: ResourceAttributes) -> Result<bool> {
    let Permission { verb, group, resource, subresource } = permission;
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()).filter(|name| !name.is_empty()),
        ..about
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .with_context(|| format!("cannot ask whether we may {permission}"))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// V15-16: repair without valid policies is a mistake that would only show when a node is sick.
pub(crate) fn check_repair(settings: &Settings, policies: &[RepairPolicy]) -> Result<()> {
    if !settings.needs_repair_policies() {
        return Ok(());
    }
    if policies.is_empty() {
        bail!("the gate NodeRepair is on, but the provider has no repair policies");
    }
    match RepairPolicies::compile(policies) {
        Ok(_) => Ok(()),
        Err(violations) => {
            bail!("the gate NodeRepair is on, but the provider's repair policies are invalid: {violations}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_model::claim::Status;
    use karpenter_platform::RepairAction;

    use super::*;

    fn policy(priority: u8) -> RepairPolicy {
        RepairPolicy {
            condition_type: "Ready".to_owned(),
            condition_status: Status::False,
            reason_expression: String::new(),
            toleration: Duration::from_mins(30),
            termination_grace_period: None,
            priority,
            action: RepairAction::ReplaceNode,
        }
    }

    /// V15-16, VC-6: repair without policies, or with invalid ones, ends the start; each of them is named.
    #[test]
    fn repair_needs_policies() {
        let settings = |gates: &str, legacy: &str| {
            let environment = |name: &str| match name {
                "CLOUD_PROVIDER" => Some("kwok".to_owned()),
                "FEATURE_GATES" => Some(gates.to_owned()),
                "LEGACY_NODE_REPAIR" => Some(legacy.to_owned()),
                _ => None,
            };
            karpenter_api::settings::parse(std::iter::empty(), &environment).unwrap()
        };
        let on = settings("NodeRepair=true", "false");
        assert!(check_repair(&settings("", "false"), &[]).is_ok(), "off");
        assert!(check_repair(&settings("NodeRepair=true", "true"), &[]).is_ok(), "as it was before");
        assert!(check_repair(&on, &[policy(50)]).is_ok());
        let said = check_repair(&on, &[]).unwrap_err().to_string();
        assert!(said.contains("NodeRepair") && said.contains("no repair policies"), "{said}");
        let said = check_repair(&on, &[policy(101), RepairPolicy { condition_type: String::new(), ..policy(50) }]);
        let said = said.unwrap_err().to_string();
        assert!(said.contains("101") && said.contains("invalid"), "{said}");
    }
}
