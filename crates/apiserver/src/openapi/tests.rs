use super::*;

/// A CRD as the tests need it, with a schema.
fn widgets() -> (Registry, Vec<Arc<Value>>) {
    let mut kind = Registry::builtin().by_kind("apps", "v1", "Deployment").unwrap().as_ref().clone();
    kind.group = "example.com".to_owned();
    kind.kind = "Widget".to_owned();
    kind.list_kind = "WidgetList".to_owned();
    kind.plural = "widgets".to_owned();
    kind.crd = true;
    let mut registry = Registry::builtin();
    registry.set_custom("widgets.example.com", vec![kind]);
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "description": "What is wanted."}}});
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}
    });
    (registry, vec![Arc::new(crd)])
}

#[test]
fn merge_keys_of_built_in_kinds_are_found() {
    let pod = builtin_schema("", "v1", "Pod").unwrap();
    let containers = field(field(pod, "spec").unwrap(), "containers").unwrap();
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    let ports = field(element(containers).unwrap(), "ports").unwrap();
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    let limits = field(field(element(containers).unwrap(), "resources").unwrap(), "limits").unwrap();
    assert_eq!(target(element(limits).unwrap())["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
    assert_eq!(builtin_schema("", "v1", "Nothing"), None);
    let replica_sets =
        field(field(builtin_schema("apps", "v1", "ReplicaSet").unwrap(), "status").unwrap(), "conditions");
    assert_eq!(replica_sets.unwrap()["x-kubernetes-patch-strategy"], "merge");
}

#[test]
fn every_served_kind_has_a_schema() {
    for kind in Registry::builtin().iter() {
        assert!(builtin_schema(&kind.group, &kind.version, &kind.kind).is_some(), "{}", kind.kind);
    }
}

#[test]
fn every_reference_of_a_document_is_in_it() {
    let (registry, crds) = widgets();
    for (group, version) in group_versions(&registry) {
        let document = v3_document(&registry, &crds, &group, &version).unwrap();
        let mut references = Vec::new();
        collect_references(&document, &mut references);
        for name in references {
            assert!(document["components"]["schemas"][&name].is_object(), "{group}/{version} lacks {name}");
        }
    }
    assert_eq!(v3_document(&registry, &crds, "nothing.example.com", "v1"), None);
}

#[test]
fn custom_kinds_get_the_fields_of_every_object() {
    let (registry, crds) = widgets();
    let document = v3_document(&registry, &crds, "example.com", "v1").unwrap();
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert_eq!(widget["properties"]["spec"]["description"], "What is wanted.");
    assert_eq!(widget["properties"]["apiVersion"]["type"], "string");
    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert_eq!(patch["parameters"][2]["name"], "fieldValidation");
    assert_eq!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"], Value::Null);
}

#[test]
fn the_address_of_a_document_changes_with_its_definition() {
    let (registry, crds) = widgets();
    let before = v3_index(&registry, &crds);
    let mut changed = crds[0].as_ref().clone();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("Something else.");
    let after = v3_index(&registry, &[Arc::new(changed)]);
    assert_ne!(before["paths"]["apis/example.com/v1"], after["paths"]["apis/example.com/v1"]);
    assert_eq!(before["paths"]["api/v1"], after["paths"]["api/v1"]);
    let url = before["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    assert!(url.starts_with("/openapi/v3/api/v1?hash=") && url.len() == 24 + 128, "{url}");
}
