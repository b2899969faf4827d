//! Security groups (§2.5).

use jiff::SignedDuration;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::aws::conditions::SECURITY_GROUPS_READY;
use karpenter_aws::cloud::{ApiError, SecurityGroupInfo};
use karpenter_aws::selection::security_groups::{security_group_queries, security_group_status};

use super::{Again, MINUTE, Part, conditions, listed, shape, status};
use crate::Aws;

const KEPT: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, thiserror::Error)]
#[error("ec2:DescribeSecurityGroups failed")]
struct GroupError(#[source] ApiError);

pub(super) async fn reconcile(aws: &Aws, class: &mut EC2NodeClass) -> Part {
    let groups = security_group_status(found(aws, class).await?);
    let again = if groups.is_empty() {
        let message = "SecurityGroupSelector did not match any SecurityGroups";
        conditions(aws, class).set_false(SECURITY_GROUPS_READY, "SecurityGroupsNotFound", message);
        MINUTE
    } else {
        conditions(aws, class).set_true(SECURITY_GROUPS_READY);
        MINUTE * 5
    };
    status(class).security_groups = listed(groups);
    Ok(Again::After(again))
}

async fn found(aws: &Aws, class: &EC2NodeClass) -> Result<Vec<SecurityGroupInfo>, GroupError> {
    let (shape, kept) = (shape(class), &aws.classes.security_groups);
    if let Some(known) = kept.get(&shape, aws.now()) {
        return Ok(known);
    }
    let mut found = Vec::new();
    for filters in security_group_queries(&class.spec.security_group_selector_terms) {
        found.extend(aws.services.reads.security_groups(&filters).await.map_err(GroupError)?);
    }
    kept.put(shape, found.clone(), aws.now(), KEPT);
    Ok(found)
}
