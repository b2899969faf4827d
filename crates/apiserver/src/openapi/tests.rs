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

#[test]
fn the_older_document_says_the_same_more_simply() {
    let (registry, crds) = widgets();
    let document = v2_document(&registry, &crds);
    let definitions = &document["definitions"];
    let pod = &definitions["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    // Recorded from kube-apiserver 1.35.4.
    let either = &definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!((&either["type"], &either["format"]), (&json!("string"), &json!("int-or-string")));
    assert_eq!(definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"], "string");
    assert_eq!(definitions["com.example.v1.Widget"]["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert!(!document.to_string().contains("#/components/schemas"));
    let packed = v2::encode(&json!({
        "swagger": "2.0", "info": {"title": "a", "version": "b"},
        "definitions": {"x": {"type": "object", "x-kubernetes-y": [1], "properties": {"p": {"$ref": "r"}}}},
    }));
    let want = b"\x0a\x032.0\x12\x06\x0a\x01a\x12\x01b\x42\x00\x4a\x39\x0a\x37\x0a\x01x\x12\x32\
        \xb2\x01\x08\x0a\x06object\xca\x01\x0a\x0a\x08\x0a\x01p\x12\x03\x0a\x01r\
        \xfa\x01\x17\x0a\x0ex-kubernetes-y\x12\x05\x12\x03[1]";
    assert_eq!(packed, want);
}

#[test]
fn what_is_recorded_is_of_the_release_that_tests_run() {
    let module = include_str!("../../../../tools/kubernetes/go.mod");
    let version = recorded().git_version();
    assert!(module.contains(&format!("k8s.io/kubernetes {version}\n")), "{version} is recorded: see openapi/README.md");
}
