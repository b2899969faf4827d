//! CustomResourceDefinitions themselves: conditions, names, versions, what is refused.

use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{definition, names};
use crate::watching::eventually;

on_every_backend!(
    definition_is_established,
    definition_gets_defaults,
    definition_needs_a_schema,
    definition_name_must_match,
    definition_needs_one_storage_version,
    schema_must_be_structural,
    bad_rules_are_refused,
    scope_cannot_change,
    second_definition_of_a_kind_is_not_accepted,
    objects_are_served_in_every_version,
    version_that_is_not_served_is_not_found,
    definition_is_deleted_with_its_objects,
    definition_waits_for_finalizers_of_objects,
    new_fields_are_served_after_an_update,
    kind_of_the_wrong_group_is_refused,
    unserved_group_is_not_found,
    apply_of_a_definition,
    bad_defaults_are_refused,
);

const ALL: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn at(group: &str) -> String {
    format!("{ALL}/things.{group}")
}

fn simple() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}}})
}

fn thing(group: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, "spec": {"x": 1}})
}

async fn established(b: &Cluster) -> Value {
    let crd = definition(&b.group(), "Thing", "Namespaced", &simple());
    b.install(&crd).await;
    b.get(&at(&b.group())).await.ok()
}

async fn definition_is_established<B: Backend>() {
    let b = B::start().await;
    let now = established(&b).await;
    let conditions: Vec<String> = now["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{} {} {}: {}", c["type"], c["status"], c["reason"], c["message"]).replace('"', ""))
        .collect();
    assert_eq!(
        conditions,
        [
            "NamesAccepted True NoConflicts: no conflicts found",
            "Established True InitialNamesAccepted: the initial names have been accepted",
        ]
    );
    assert_eq!(now["status"]["acceptedNames"], now["spec"]["names"]);
    assert_eq!(now["status"]["storedVersions"], json!(["v1"]));
}

async fn definition_gets_defaults<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let mut crd = definition(&group, "Thing", "Namespaced", &simple());
    crd["spec"]["names"] = json!({"kind": "Thing", "plural": "things"});
    b.install(&crd).await;
    let now = b.get(&at(&group)).await.ok();
    assert_eq!(
        now["spec"]["names"],
        json!({"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"})
    );
    assert_eq!(now["spec"]["conversion"], json!({"strategy": "None"}));
}

async fn definition_needs_a_schema<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let mut crd = definition(&group, "Thing", "Namespaced", &simple());
    crd["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    b.post(ALL, &crd).await.refused(
        422,
        "Invalid",
        &format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"things.{group}\" is invalid: \
             spec.versions[0].schema.openAPIV3Schema: Required value"
        ),
    );
}

async fn definition_name_must_match<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let mut crd = definition(&group, "Thing", "Namespaced", &simple());
    crd["metadata"]["name"] = json!(format!("other.{group}"));
    b.post(ALL, &crd).await.refused(
        422,
        "Invalid",
        &format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"other.{group}\" is invalid: metadata.name: Invalid value: \
             \"other.{group}\": must be spec.names.plural+\".\"+spec.group"
        ),
    );
}

async fn definition_needs_one_storage_version<B: Backend>() {
    let b = B::start().await;
    let mut crd = definition(&b.group(), "Thing", "Namespaced", &simple());
    crd["spec"]["versions"][0]["storage"] = json!(false);
    b.post(ALL, &crd).await.refused_saying(422, "Invalid", "must have exactly one version marked as storage version");
    b.get(&at(&b.group())).await.refused_saying(404, "NotFound", "not found");
}

async fn schema_must_be_structural<B: Backend>() {
    let b = B::start().await;
    let loose = json!({"type": "object", "properties": {"spec": {"properties": {"x": {"type": "integer"}}}}});
    b.post(ALL, &definition(&b.group(), "Thing", "Namespaced", &loose)).await.refused_saying(
        422,
        "Invalid",
        "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object \
         fields",
    );
}

async fn bad_rules_are_refused<B: Backend>() {
    let b = B::start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.x +"}]}}});
    b.post(ALL, &definition(&b.group(), "Thing", "Namespaced", &schema)).await.refused_saying(
        422,
        "Invalid",
        "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.x +\"",
    );
}

async fn scope_cannot_change<B: Backend>() {
    let b = B::start().await;
    let now = established(&b).await;
    let said = b.merge(&at(&b.group()), &json!({"spec": {"scope": "Cluster"}})).await;
    said.refused_saying(422, "Invalid", "spec.scope: Invalid value: \"Cluster\": field is immutable");
    assert_eq!(now["spec"]["scope"], "Namespaced");
}

async fn second_definition_of_a_kind_is_not_accepted<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    established(&b).await;
    let mut crd = definition(&group, "Thing", "Namespaced", &simple());
    crd["metadata"]["name"] = json!(format!("copies.{group}"));
    crd["spec"]["names"]["plural"] = json!("copies");
    b.post(ALL, &crd).await.created();
    let conditions = eventually("names are judged", async || {
        let now = b.get(&format!("{ALL}/copies.{group}")).await.ok();
        now["status"]["conditions"].as_array().filter(|c| c.len() > 1).cloned()
    })
    .await;
    let named = conditions.iter().find(|c| c["type"] == "NamesAccepted").unwrap();
    assert_eq!((&named["status"], &named["reason"]), (&json!("False"), &json!("ListKindConflict")), "{conditions:?}");
    let served = conditions.iter().find(|c| c["type"] == "Established").unwrap();
    assert_eq!((&served["status"], &served["reason"]), (&json!("False"), &json!("NotAccepted")));
}

async fn objects_are_served_in_every_version<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let mut crd = definition(&group, "Thing", "Namespaced", &simple());
    let older = json!({"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": simple()}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(older);
    b.install(&crd).await;
    let made = b.post(&format!("{group}/v1 things"), &thing(&group, "a")).await.created();
    let old = b.get(&format!("{group}/v1beta1 things/a")).await.ok();
    assert_eq!(old["apiVersion"], format!("{group}/v1beta1"));
    assert_eq!((&old["spec"], &old["metadata"]["uid"]), (&made["spec"], &made["metadata"]["uid"]));
    b.merge(&format!("{group}/v1beta1 things/a"), &json!({"spec": {"x": 2}})).await.ok();
    assert_eq!(b.get(&format!("{group}/v1 things/a")).await.ok()["spec"]["x"], 2);
}

async fn version_that_is_not_served_is_not_found<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let mut crd = definition(&group, "Thing", "Namespaced", &simple());
    let older = json!({"name": "v1beta1", "served": false, "storage": false, "schema": {"openAPIV3Schema": simple()}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(older);
    b.install(&crd).await;
    let answer = b.get(&format!("{group}/v1beta1 things")).await;
    assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"));
}

async fn definition_is_deleted_with_its_objects<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    established(&b).await;
    b.post(&format!("{group}/v1 things"), &thing(&group, "a")).await.created();
    b.delete(&at(&group)).await.ok();
    eventually("the definition is gone", async || (b.get(&at(&group)).await.code == 404).then_some(())).await;
    let answer = eventually("the endpoint is gone", async || {
        let answer = b.get(&format!("{group}/v1 things")).await;
        (answer.code == 404).then_some(answer)
    })
    .await;
    assert_eq!(answer.text, "404 page not found\n");
    established(&b).await;
    assert_eq!(names(&b.get(&format!("{group}/v1 things")).await.ok()), [""; 0], "a new one starts empty");
}

async fn definition_waits_for_finalizers_of_objects<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    established(&b).await;
    let mut object = thing(&group, "a");
    object["metadata"]["finalizers"] = json!(["example.com/x"]);
    b.post(&format!("{group}/v1 things"), &object).await.created();
    let said = b.delete(&at(&group)).await.ok();
    assert_eq!(said["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    eventually("the object is being deleted", async || {
        let now = b.get(&format!("{group}/v1 things/a")).await.ok();
        now["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    let answer = b.post(&format!("{group}/v1 things"), &thing(&group, "b")).await;
    answer.refused(
        403,
        "Forbidden",
        &format!(
            "things.{group} \"b\" is forbidden: create not allowed while custom resource definition is terminating"
        ),
    );
    b.merge(&format!("{group}/v1 things/a"), &json!({"metadata": {"finalizers": null}})).await.ok();
    eventually("the definition is gone", async || (b.get(&at(&group)).await.code == 404).then_some(())).await;
}

async fn new_fields_are_served_after_an_update<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    established(&b).await;
    let mut object = thing(&group, "a");
    object["spec"]["y"] = json!("kept");
    let made = b.post(&format!("{group}/v1 things"), &object).await.created();
    assert_eq!(made["spec"].get("y"), None);
    let patch = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/y", "value": {"type": "string"}}]);
    b.json_patch(&at(&group), &patch).await.ok();
    eventually("the new field is kept", async || {
        let now = b.merge(&format!("{group}/v1 things/a"), &json!({"spec": {"y": "kept"}})).await.ok();
        (now["spec"]["y"] == "kept").then_some(())
    })
    .await;
    assert_eq!(b.get(&at(&group)).await.ok()["metadata"]["generation"], 2);
}

async fn kind_of_the_wrong_group_is_refused<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    established(&b).await;
    let mut object = thing(&group, "a");
    object["apiVersion"] = json!("other.example.com/v1");
    b.post(&format!("{group}/v1 things"), &object).await.refused_saying(
        400,
        "BadRequest",
        "the API version in the data (other.example.com/v1) does not match the expected API version",
    );
    object["apiVersion"] = json!(format!("{group}/v1"));
    object["kind"] = json!("Other");
    b.post(&format!("{group}/v1 things"), &object).await.refused(
        422,
        "Invalid",
        &format!("Other.{group} \"a\" is invalid: kind: Invalid value: \"Other\": must be Thing"),
    );
}

async fn unserved_group_is_not_found<B: Backend>() {
    let b = B::start().await;
    let answer = b.get("/apis/nobody.example.com/v1/things").await;
    assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"));
}

async fn apply_of_a_definition<B: Backend>() {
    let b = B::start().await;
    let crd = definition(&b.group(), "Thing", "Cluster", &simple());
    b.apply("one", &at(&b.group()), &crd).await.created();
    b.served(&crd).await;
    b.apply("one", &at(&b.group()), &crd).await.ok();
}

async fn bad_defaults_are_refused<B: Backend>() {
    let b = B::start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer", "default": "many"}}}}});
    b.post(ALL, &definition(&b.group(), "Thing", "Namespaced", &schema)).await.refused_saying(
        422,
        "Invalid",
        "spec.validation.openAPIV3Schema.properties[spec].properties[x].default: Invalid value: \"string\":  in body must be of \
         type integer: \"string\"",
    );
}
