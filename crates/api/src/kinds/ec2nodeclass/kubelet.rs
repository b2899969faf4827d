//! The kubelet's settings in a class: twelve members that we know, and whatever else an open definition lets through.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::values::DurationText;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfiguration {
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserved: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft_grace_period: Option<BTreeMap<String, DurationText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    /// What the usual definition refuses or prunes: other members, and members whose values are of another type, such as an
    /// expression for `maxPods` (AWS-86, AWS-94). Empty unless the cluster has the open definition.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(skip))]
    pub other: BTreeMap<String, Value>,
}

/// Whatever is not of its type is kept as it was written: a class must stay readable, so that its condition can say what is
/// wrong with it.
impl<'de> Deserialize<'de> for KubeletConfiguration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut members = Map::deserialize(from)?;
        Ok(Self {
            cluster_dns: take(&mut members, "clusterDNS"),
            max_pods: take(&mut members, "maxPods"),
            pods_per_core: take(&mut members, "podsPerCore"),
            system_reserved: take(&mut members, "systemReserved"),
            kube_reserved: take(&mut members, "kubeReserved"),
            eviction_hard: take(&mut members, "evictionHard"),
            eviction_soft: take(&mut members, "evictionSoft"),
            eviction_soft_grace_period: take(&mut members, "evictionSoftGracePeriod"),
            eviction_max_pod_grace_period: take(&mut members, "evictionMaxPodGracePeriod"),
            image_gc_high_threshold_percent: take(&mut members, "imageGCHighThresholdPercent"),
            image_gc_low_threshold_percent: take(&mut members, "imageGCLowThresholdPercent"),
            cpu_cfs_quota: take(&mut members, "cpuCFSQuota"),
            other: members.into_iter().collect(),
        })
    }
}

fn take<T: DeserializeOwned>(members: &mut Map<String, Value>, name: &str) -> Option<T> {
    let read = Option::<T>::deserialize(members.get(name)?).ok()?;
    members.remove(name);
    read
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// AWS-86, AWS-94: nothing is lost, and nothing that is odd makes the rest unreadable.
    #[test]
    fn odd_members_are_kept_as_they_are() {
        let written = json!({
            "maxPods": "vcpus * 10",
            "podsPerCore": 2,
            "kubeReserved": {"cpu": "vcpus * 30"},
            "systemReserved": {"cpu": 1},
            "topologyManagerPolicy": "best-effort",
        });
        let read: KubeletConfiguration = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((read.max_pods, read.pods_per_core, &read.system_reserved), (None, Some(2), &None));
        assert_eq!(read.kube_reserved, Some([("cpu".to_owned(), "vcpus * 30".to_owned())].into()));
        let other: Vec<&str> = read.other.keys().map(String::as_str).collect();
        assert_eq!(other, ["maxPods", "systemReserved", "topologyManagerPolicy"]);
        assert_eq!(serde_json::to_value(&read).unwrap(), written);

        let plain: KubeletConfiguration = serde_json::from_value(json!({"maxPods": 5, "podsPerCore": null})).unwrap();
        assert_eq!(plain, KubeletConfiguration { max_pods: Some(5), ..KubeletConfiguration::default() });
    }
}
