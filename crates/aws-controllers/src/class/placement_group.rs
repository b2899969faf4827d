//! The placement group (§2.8).

use jiff::SignedDuration;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::kinds::ec2nodeclass::PlacementGroupSelector;
use karpenter_api::names::aws::conditions::PLACEMENT_GROUP_READY;
use karpenter_aws::cloud::ApiError;
use karpenter_aws::selection::placement_groups::{GroupLookup, placement_group, placement_group_query};

use super::{Again, Part, conditions};
use crate::Aws;

const KEPT: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, thiserror::Error)]
#[error("ec2:DescribePlacementGroups failed")]
struct GroupError(#[source] ApiError);

pub(super) async fn reconcile(aws: &Aws, class: &mut EC2NodeClass) -> Part {
    let Some(selector) = class.spec.placement_group_selector.clone() else {
        conditions(aws, class).set_true(PLACEMENT_GROUP_READY);
        return Ok(Again::OnChange);
    };
    match lookup(aws, &selector).await {
        GroupLookup::Found(_) => {
            conditions(aws, class).set_true(PLACEMENT_GROUP_READY);
            Ok(Again::OnChange)
        }
        GroupLookup::NotFound => {
            let wanted = selector.name.or(selector.id).unwrap_or_default();
            let message = format!("Placement group \"{wanted}\" not found");
            conditions(aws, class).set_false(PLACEMENT_GROUP_READY, "PlacementGroupNotFound", &message);
            Ok(Again::OnChange)
        }
        GroupLookup::Failed(error) => {
            // Launches go on with what the provider knew.
            let (reason, message) = ("PlacementGroupResolutionFailed", "Failed to resolve placement group");
            conditions(aws, class).set_false(PLACEMENT_GROUP_READY, reason, message);
            Err(GroupError(error).into())
        }
    }
}

/// The provider asks for itself, and keeps the last good answer; here it is about what the condition says.
async fn lookup(aws: &Aws, selector: &PlacementGroupSelector) -> GroupLookup {
    let (key, kept) = (format!("{selector:?}"), &aws.classes.placement_groups);
    if let Some(known) = kept.get(&key, aws.now()) {
        return known.map_or(GroupLookup::NotFound, GroupLookup::Found);
    }
    let answer = placement_group(aws.services.reads.placement_groups(&placement_group_query(selector)).await);
    match &answer {
        GroupLookup::Found(group) => kept.put(key, Some(group.clone()), aws.now(), KEPT),
        GroupLookup::NotFound => kept.put(key, None, aws.now(), KEPT),
        GroupLookup::Failed(_) => {}
    }
    answer
}
