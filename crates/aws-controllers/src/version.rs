//! The version of Kubernetes, which images go by (AWS-109).

use std::sync::PoisonError;

use karpenter_aws::cloud::{ApiError, Lookups};
use karpenter_controllers::queue::ReconcileError;
use kube::Client;

use crate::Aws;

const SUPPORTED: std::ops::RangeInclusive<u32> = 26..=36;

#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    #[error("eks:DescribeCluster failed for cluster {cluster:?}")]
    Cluster {
        cluster: String,
        #[source]
        source: ApiError,
    },
    #[error("the API server does not say its version")]
    ApiServer(#[from] kube::Error),
    #[error("Kubernetes {0} is not supported, only 1.26 to 1.36 are")]
    Unsupported(String),
}

/// Such as `1.32`: from EKS where that runs the control plane, else from the API server.
pub async fn kubernetes_version(
    client: &Client,
    lookups: &dyn Lookups,
    eks_control_plane: bool,
    cluster: &str,
) -> Result<String, VersionError> {
    if eks_control_plane {
        let failed = |source| VersionError::Cluster { cluster: cluster.to_owned(), source };
        return Ok(lookups.cluster(cluster).await.map_err(failed)?.version);
    }
    let version = client.apiserver_version().await?;
    Ok(format!("{}.{}", version.major, version.minor.trim_end_matches('+')))
}

/// One that cannot be read is given the benefit of the doubt.
pub fn is_supported(version: &str) -> bool {
    let minor = version.split_once('.').and_then(|(_, minor)| minor.parse::<u32>().ok());
    minor.is_none_or(|minor| SUPPORTED.contains(&minor))
}

/// What was known stays when nobody can say. Classes are looked at again when it changes.
pub(crate) async fn refresh(aws: &Aws) -> Result<(), ReconcileError> {
    let (client, lookups) = (&aws.ctx.client, aws.services.lookups.as_ref());
    let found = kubernetes_version(client, lookups, aws.options.eks_control_plane, aws.cluster_name()).await?;
    // Nothing under the lock panics.
    let before = std::mem::replace(&mut *aws.kubernetes.lock().unwrap_or_else(PoisonError::into_inner), found.clone());
    if before == found {
        return Ok(());
    }
    tracing::info!(kubernetes = found, before, "version of the cluster has changed");
    for class in aws.ctx.node_classes.names() {
        aws.wakes.classes.add(class);
    }
    if is_supported(&found) { Ok(()) } else { Err(VersionError::Unsupported(found).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-109.
    #[test]
    fn supported_versions() {
        for (version, want) in [("1.25", false), ("1.26", true), ("1.36", true), ("1.37", false), ("odd", true)] {
            assert_eq!(is_supported(version), want, "{version}");
        }
    }
}
