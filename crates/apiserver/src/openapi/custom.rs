//! Schemas of kinds that a CustomResourceDefinition defines.

use serde_json::{Value, json};

use super::recorded::recorded;
use super::{META, REFERENCE};
use crate::resource::ResourceType;

/// `sh.karpenter.v1.NodePool`: the group is turned around, as in names of Java packages.
pub(super) fn name(kind: &ResourceType, suffix: &str) -> String {
    let mut parts: Vec<_> = kind.group.split('.').collect();
    parts.reverse();
    let kind_name = if suffix.is_empty() { &kind.kind } else { &kind.list_kind };
    format!("{}.{}.{kind_name}", parts.join("."), kind.version)
}

/// The schemas of the kind and of its list.
pub(super) fn schemas(kind: &ResourceType, crd: &Value) -> (Value, Value) {
    let mut object = version(kind, crd)["schema"]["openAPIV3Schema"].clone();
    if !object.is_object() {
        object = json!({"type": "object"});
    }
    complete(&mut object, "ObjectMeta");
    object["properties"]["metadata"]["description"] = json!(
        "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    );
    object["x-kubernetes-group-version-kind"] = gvk(kind, &kind.kind);
    let mut list = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {
                "description": format!(
                    "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                    kind.plural
                ),
                "type": "array",
                "items": {"$ref": format!("{REFERENCE}{}", name(kind, ""))},
            },
        },
        "x-kubernetes-group-version-kind": gvk(kind, &kind.list_kind),
    });
    complete(&mut list, "ListMeta");
    list["properties"]["metadata"]["description"] = json!(
        "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
    );
    (object, list)
}

fn version<'a>(kind: &ResourceType, crd: &'a Value) -> &'a Value {
    let versions = crd["spec"]["versions"].as_array();
    versions.into_iter().flatten().find(|v| v["name"] == kind.version).unwrap_or(&Value::Null)
}

/// Gives the schema the fields that every object has, in the words of the server.
fn complete(schema: &mut Value, meta: &str) {
    let words = |field: &str| {
        let status = &recorded().schemas[&format!("{META}Status")];
        status["properties"][field].clone()
    };
    let properties = &mut schema["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    properties["apiVersion"] = words("apiVersion");
    properties["kind"] = words("kind");
    properties["metadata"] = json!({"allOf": [{"$ref": format!("{REFERENCE}{META}{meta}")}]});
}

fn gvk(kind: &ResourceType, name: &str) -> Value {
    json!([{"group": kind.group, "kind": name, "version": kind.version}])
}
