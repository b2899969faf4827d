//! The ConfigMap with settings of old (API-343): not read any more, so say what to set instead.

use serde_json::Value;

use super::findings::Report;

const NAME: &str = "karpenter-global-settings";

/// Keys and the environment variables that took their place.
const SUCCESSORS: [(&str, &str); 8] = [
    ("batchMaxDuration", "BATCH_MAX_DURATION"),
    ("batchIdleDuration", "BATCH_IDLE_DURATION"),
    ("aws.clusterName", "CLUSTER_NAME"),
    ("aws.clusterEndpoint", "CLUSTER_ENDPOINT"),
    ("aws.interruptionQueueName", "INTERRUPTION_QUEUE"),
    ("aws.isolatedVPC", "ISOLATED_VPC"),
    ("aws.reservedENIs", "RESERVED_ENIS"),
    ("aws.vmMemoryOverheadPercent", "VM_MEMORY_OVERHEAD_PERCENT"),
];

/// Passes the object through; warns about each key when it is that ConfigMap.
pub(super) fn explain(object: Value, report: &mut Report<'_>) -> Value {
    if object["kind"] == "ConfigMap" && object["metadata"]["name"] == NAME {
        for key in object["data"].as_object().into_iter().flatten().map(|(key, _)| key) {
            let message = match SUCCESSORS.iter().find(|(old, _)| old == key) {
                Some((_, variable)) => format!("is not read in v1; set {variable} on the controller"),
                None => "is not read in v1 and has no successor".to_owned(),
            };
            report.warn(format!("data[{key}]"), message);
        }
    }
    object
}
