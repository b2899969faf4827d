//! Volumes, their classes and drivers, and devices.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{age, count, deleting, join, list, name, text, text_or};

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (name, age) = (name(object), age(object, now));
    let phase = || if deleting(object) { "Terminating" } else { text(&status["phase"]) };
    let flag = |value: &Value, otherwise: bool| json!(value.as_bool().unwrap_or(otherwise));
    let attributes = || json!(text_or(&spec["volumeAttributesClassName"], "<unset>"));
    let mode = || json!(text_or(&spec["volumeMode"], "<unset>"));
    Some(match kind {
        "PersistentVolume" => {
            let claim = match &spec["claimRef"] {
                Value::Null => String::new(),
                claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
            };
            let (size, modes) = (json!(size(&spec["capacity"])), json!(access_modes(&spec["accessModes"])));
            let (policy, class) = (json!(text(&spec["persistentVolumeReclaimPolicy"])), json!(class(object)));
            let reason = json!(text(&status["reason"]));
            vec![name, size, modes, policy, json!(phase()), json!(claim), class, attributes(), reason, age, mode()]
        }
        "PersistentVolumeClaim" => {
            let volume = text(&spec["volumeName"]);
            // What the claim got is shown once a volume is chosen, not what it asked for.
            let (size, modes) = match volume {
                "" => ("", String::new()),
                _ => (size(&status["capacity"]), access_modes(&status["accessModes"])),
            };
            let class = json!(class(object));
            vec![name, json!(phase()), json!(volume), json!(size), json!(modes), class, attributes(), age, mode()]
        }
        "StorageClass" => {
            let default =
                ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
                    .iter()
                    .any(|key| object["metadata"]["annotations"][key] == "true");
            let name = format!("{}{}", text(&name), if default { " (default)" } else { "" });
            let policy = json!(text_or(&object["reclaimPolicy"], "Delete"));
            let binding = json!(text_or(&object["volumeBindingMode"], "Immediate"));
            let grows = flag(&object["allowVolumeExpansion"], false);
            vec![json!(name), json!(text(&object["provisioner"])), policy, binding, grows, age]
        }
        "VolumeAttributesClass" => vec![name, json!(text(&object["driverName"])), age],
        "CSINode" => vec![name, json!(count(&spec["drivers"])), age],
        "CSIDriver" => {
            let tokens = match &spec["tokenRequests"] {
                Value::Null => "<unset>".to_owned(),
                requests => join(list(requests).iter().map(|r| text(&r["audience"])), ","),
            };
            let modes = join(list(&spec["volumeLifecycleModes"]).iter().map(text), ",");
            let modes = if modes.is_empty() { "<none>".to_owned() } else { modes };
            let (attach, info) = (flag(&spec["attachRequired"], true), flag(&spec["podInfoOnMount"], false));
            let (capacity, again) = (flag(&spec["storageCapacity"], false), flag(&spec["requiresRepublish"], false));
            vec![name, attach, info, capacity, json!(tokens), again, json!(modes), age]
        }
        "VolumeAttachment" => {
            let volume = json!(text(&spec["source"]["persistentVolumeName"]));
            let (attacher, node) = (json!(text(&spec["attacher"])), json!(text(&spec["nodeName"])));
            vec![name, attacher, volume, node, flag(&status["attached"], false), age]
        }
        "DeviceClass" | "ResourceClaimTemplate" => vec![name, age],
        "ResourceClaim" => vec![name, json!(claim_state(object)), age],
        "ResourceSlice" => {
            let (node, driver) = (json!(text(&spec["nodeName"])), json!(text(&spec["driver"])));
            vec![name, node, driver, json!(text(&spec["pool"]["name"])), age]
        }
        _ => return None,
    })
}

fn size(capacity: &Value) -> &str {
    text_or(&capacity["storage"], "0")
}

/// The annotation is older than the field and wins.
fn class(object: &Value) -> &str {
    let annotation = object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    annotation.unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

/// Each mode once, in a fixed order.
fn access_modes(modes: &Value) -> String {
    let order =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    join(order.iter().filter(|(mode, _)| list(modes).iter().any(|m| m == mode)).map(|(_, short)| *short), ",")
}

fn claim_state(claim: &Value) -> String {
    let status = &claim["status"];
    let mut states = Vec::new();
    if deleting(claim) {
        states.push("deleted");
    }
    if status["allocation"].is_object() {
        states.push("allocated");
        if !list(&status["reservedFor"]).is_empty() {
            states.push("reserved");
        }
    } else if !deleting(claim) {
        states.push("pending");
    }
    states.join(",")
}
