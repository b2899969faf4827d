//! Subnets (§2.4).

use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::aws::conditions::SUBNETS_READY;
use karpenter_aws::cloud::{ApiError, SubnetInfo};
use karpenter_aws::selection::subnets::{selected_subnets, subnet_queries, subnet_status};

use super::{Again, MINUTE, Part, conditions, listed, shape, status};
use crate::Aws;

#[derive(Debug, thiserror::Error)]
#[error("ec2:DescribeSubnets failed")]
struct SubnetError(#[source] ApiError);

pub(super) async fn reconcile(aws: &Aws, class: &mut EC2NodeClass) -> Part {
    let selected = selected(aws, class).await?;
    if selected.is_empty() {
        let message = "SubnetSelector did not match any Subnets";
        conditions(aws, class).set_false(SUBNETS_READY, "SubnetsNotFound", message);
    } else {
        conditions(aws, class).set_true(SUBNETS_READY);
    }
    status(class).subnets = listed(subnet_status(&selected));
    Ok(Again::After(MINUTE))
}

async fn selected(aws: &Aws, class: &EC2NodeClass) -> Result<Vec<SubnetInfo>, SubnetError> {
    let (shape, kept) = (shape(class), &aws.classes.subnets);
    if let Some(known) = kept.get(&shape, aws.now()) {
        return Ok(known);
    }
    let mut found = Vec::new();
    for filters in subnet_queries(&class.spec.subnet_selector_terms) {
        found.extend(aws.services.reads.subnets(&filters).await.map_err(SubnetError)?);
    }
    let selected = selected_subnets(found);
    aws.shared.subnets_described(&selected);
    kept.put(shape, selected.clone(), aws.now(), aws.options.subnet_refresh_interval);
    Ok(selected)
}
