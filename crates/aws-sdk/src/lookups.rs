//! Parameters, the price list, the cluster, zonal shifts.

use std::fmt;

use async_trait::async_trait;
use aws_sdk_eks::types::KubernetesNetworkConfigResponse;
use aws_sdk_pricing::types::{Filter, FilterType};
use karpenter_aws::cloud::{ApiError, ClusterInfo, Lookups};
use karpenter_aws::pricing::ProductQuery;
use karpenter_aws::zonal_shift::ShiftInfo;

use crate::failures::{chain, failure, incomplete};
use crate::times::timestamp;

pub(crate) struct Looker {
    pub(crate) parameters: aws_sdk_ssm::Client,
    /// Of a region that has a price list.
    pub(crate) prices: aws_sdk_pricing::Client,
    pub(crate) clusters: aws_sdk_eks::Client,
    pub(crate) shifts: aws_sdk_arczonalshift::Client,
}

impl fmt::Debug for Looker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Looker")
    }
}

#[async_trait]
impl Lookups for Looker {
    async fn parameter(&self, name: &str) -> Result<String, ApiError> {
        let answer = self.parameters.get_parameter().name(name).send().await.map_err(failure)?;
        answer.parameter.and_then(|parameter| parameter.value).ok_or_else(|| incomplete("value of the parameter"))
    }

    async fn products(&self, query: &ProductQuery) -> Result<Vec<String>, ApiError> {
        let filter = |(field, value): &(&str, String)| {
            Filter::builder().field(*field).r#type(FilterType::TermMatch).value(value).build()
        };
        let filters: Result<Vec<Filter>, _> = query.filters.iter().map(filter).collect();
        // All three are given; the SDK cannot know that.
        let filters = filters.map_err(|error| ApiError::new("", &chain(&error)))?;
        let call = self.prices.get_products().service_code(query.service_code).set_filters(Some(filters));
        let pages = call.into_paginator().page_size(query.page_size).items().send();
        pages.collect::<Result<Vec<_>, _>>().await.map_err(failure)
    }

    async fn cluster(&self, name: &str) -> Result<ClusterInfo, ApiError> {
        let answer = self.clusters.describe_cluster().name(name).send().await.map_err(failure)?;
        let cluster = answer.cluster.ok_or_else(|| incomplete("cluster"))?;
        Ok(ClusterInfo {
            arn: cluster.arn.unwrap_or_default(),
            endpoint: cluster.endpoint.unwrap_or_default(),
            version: cluster.version.unwrap_or_default(),
            service_cidr: cluster.kubernetes_network_config.and_then(service_cidr),
        })
    }

    async fn zonal_shifts(&self, cluster_arn: &str) -> Result<Vec<ShiftInfo>, ApiError> {
        let answer =
            self.shifts.get_managed_resource().resource_identifier(cluster_arn).send().await.map_err(failure)?;
        let shifts = answer.zonal_shifts.into_iter().filter_map(|shift| {
            Some(ShiftInfo {
                applied_status: shift.applied_status.as_str().to_owned(),
                expires: timestamp(&shift.expiry_time)?,
                away_from: shift.away_from,
            })
        });
        Ok(shifts.collect())
    }
}

/// AC-86. An empty text is no range.
fn service_cidr(network: KubernetesNetworkConfigResponse) -> Option<String> {
    let given = |cidr: Option<String>| cidr.filter(|cidr| !cidr.is_empty());
    given(network.service_ipv4_cidr).or_else(|| given(network.service_ipv6_cidr))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AC-86.
    #[test]
    fn services_have_ipv4_first() {
        let network = |v4: Option<&str>, v6: Option<&str>| {
            let network = KubernetesNetworkConfigResponse::builder();
            let network = network.set_service_ipv4_cidr(v4.map(Into::into)).set_service_ipv6_cidr(v6.map(Into::into));
            service_cidr(network.build())
        };
        assert_eq!(network(Some("10.100.0.0/16"), Some("fd00::/108")).as_deref(), Some("10.100.0.0/16"));
        assert_eq!(network(None, Some("fd00::/108")).as_deref(), Some("fd00::/108"));
        assert_eq!(network(Some(""), None), None);
    }
}
