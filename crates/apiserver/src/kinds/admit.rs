//! What admission adds to new objects.

use serde_json::{Value, json};

use super::{map_at, set_if_absent};
use crate::resource::{GroupKind, ResourceType};
use crate::status::Failure;
use crate::store::Store;

/// After defaults, before validation; nobody owns what is added here.
pub(crate) fn admit_create(store: &Store, kind: &ResourceType, object: &mut Value) -> Result<(), Failure> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => admit_pod(store, kind, object),
        ("", "Node") => {
            taint_new_node(object);
            Ok(())
        }
        ("", "PersistentVolumeClaim") => {
            protect(object, "kubernetes.io/pvc-protection");
            default_storage_class(store, object);
            Ok(())
        }
        ("", "PersistentVolume") => {
            protect(object, "kubernetes.io/pv-protection");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let Some(metadata) = map_at(object, &["metadata"]) else { return };
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(list) = finalizers
        && !list.iter().any(|f| f == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// Until its kubelet says that it is ready.
fn taint_new_node(object: &mut Value) {
    let Some(spec) = map_at(object, &["spec"]) else { return };
    let Value::Array(taints) = spec.entry("taints").or_insert_with(|| json!([])) else { return };
    let key = "node.kubernetes.io/not-ready";
    if !taints.iter().any(|t| t["key"] == key && t["effect"] == "NoSchedule") {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
}

fn default_storage_class(store: &Store, object: &mut Value) {
    if object["spec"].get("storageClassName").is_some() {
        return;
    }
    let classes = GroupKind { group: "storage.k8s.io".to_owned(), kind: "StorageClass".to_owned() };
    let default =
        store.table(&classes).into_iter().flat_map(super::super::store::Table::values).find(|class| {
            class.value["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
        });
    if let (Some(class), Some(spec)) = (default, map_at(object, &["spec"])) {
        spec.insert("storageClassName".to_owned(), class.value["metadata"]["name"].clone());
    }
}

fn admit_pod(store: &Store, kind: &ResourceType, object: &mut Value) -> Result<(), Failure> {
    admit_priority(store, kind, object)?;
    let Some(spec) = map_at(object, &["spec"]) else { return Ok(()) };
    let Value::Array(tolerations) = spec.entry("tolerations").or_insert_with(|| json!([])) else { return Ok(()) };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = |t: &Value| {
            let (own, effect) = (t["key"].as_str().unwrap_or_default(), t["effect"].as_str().unwrap_or_default());
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if !tolerations.iter().any(tolerated) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    Ok(())
}

fn admit_priority(store: &Store, kind: &ResourceType, object: &mut Value) -> Result<(), Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let wanted = object["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let classes = GroupKind { group: "scheduling.k8s.io".to_owned(), kind: "PriorityClass".to_owned() };
    let class = if wanted.is_empty() {
        let all = store.table(&classes).into_iter().flat_map(super::super::store::Table::values);
        all.filter(|class| class.value["globalDefault"] == true).min_by_key(|class| class.value["value"].as_i64())
    } else {
        store.get(&classes, &wanted)
    };
    let builtin = match wanted.as_str() {
        "system-cluster-critical" => Some(2_000_000_000_i64),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    };
    let (value, policy) = match (class, builtin) {
        (Some(class), _) => (
            class.value["value"].clone(),
            class.value["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").to_owned(),
        ),
        (None, Some(value)) => (json!(value), "PreemptLowerPriority".to_owned()),
        (None, None) if wanted.is_empty() => (json!(0), "PreemptLowerPriority".to_owned()),
        (None, None) => {
            let why = format!("no PriorityClass with name {wanted} was found");
            return Err(Failure::forbidden(kind, &name, &why));
        }
    };
    let given = object["spec"].get("priority").cloned();
    if given.is_some_and(|given| given != value) {
        let why = format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name",
            object["spec"]["priority"]
        );
        return Err(Failure::forbidden(kind, &name, &why));
    }
    let default_class = class.filter(|_| wanted.is_empty()).map(|class| class.value["metadata"]["name"].clone());
    let Some(spec) = map_at(object, &["spec"]) else { return Ok(()) };
    spec.insert("priority".to_owned(), value);
    set_if_absent(spec, "preemptionPolicy", json!(policy));
    if let Some(name) = default_class {
        spec.insert("priorityClassName".to_owned(), name);
    }
    Ok(())
}
