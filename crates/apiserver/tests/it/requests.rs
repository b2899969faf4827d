//! Requests that are wrong, and what is said about them.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, pod};
use crate::wire::Answer;

on_every_backend!(
    malformed_json_is_refused,
    empty_body_is_refused,
    body_that_is_no_object_is_refused,
    unknown_content_type_is_refused,
    missing_content_type_is_json,
    yaml_is_understood,
    large_body_is_refused,
    large_object_is_refused,
    wrong_types_are_named,
    wrong_type_of_a_map_value,
    unknown_kind_in_a_body_is_refused,
    post_to_an_object_is_not_allowed,
    put_to_a_collection_is_not_allowed,
    odd_methods_are_not_allowed,
    head_is_not_allowed,
    bad_query_values_are_refused,
    unknown_query_parameters_are_ignored,
    field_manager_is_checked,
    deep_nesting_is_survived,
    bodies_with_a_byte_order_mark,
    binary_garbage_is_refused,
    paths_are_decoded,
    names_of_odd_form_are_not_found,
    time_must_be_a_time,
    answers_are_json,
    trailing_data_is_refused,
    list_in_place_of_an_object,
);

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn raw(b: &Cluster, body: &[u8]) -> Answer {
    b.send(Method::POST, "configmaps", &JSON, body.to_vec()).await
}

async fn malformed_json_is_refused<B: Backend>() {
    let b = B::start().await;
    raw(&b, b"{\"kind\": \"ConfigMap\", ").await.refused(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: \
         unexpected end of JSON input ({\"kind\": \"ConfigMap\", )",
    );
    raw(&b, b"{\"kind\": ConfigMap}").await.refused(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: \
         invalid character 'C' looking for beginning of value ({\"kind\": ConfigMap})",
    );
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let answer = b.send(Method::PUT, "configmaps/a", &JSON, b"{".to_vec()).await;
    answer.refused_saying(
        400,
        "BadRequest",
        "couldn't get version/kind; json parse error: unexpected end of JSON input ({)",
    );
}

async fn empty_body_is_refused<B: Backend>() {
    let b = B::start().await;
    raw(&b, b"").await.refused_saying(400, "BadRequest", "unexpected end of JSON input");
}

async fn body_that_is_no_object_is_refused<B: Backend>() {
    let b = B::start().await;
    raw(&b, b"[]").await.refused_saying(
        400,
        "BadRequest",
        "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value",
    );
    raw(&b, b"\"text\"").await.refused_saying(
        400,
        "BadRequest",
        "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value",
    );
    raw(&b, b"null").await.refused_saying(422, "Invalid", "metadata.name: Required value");
}

async fn unknown_content_type_is_refused<B: Backend>() {
    let b = B::start().await;
    let body = config_map("a", &json!({})).to_string().into_bytes();
    let answer = b.send(Method::POST, "configmaps", &[("content-type", "text/plain")], body.clone()).await;
    answer.refused(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf",
    );
    let answer = b.send(Method::POST, "configmaps", &[("content-type", ";;;")], body).await;
    assert_eq!(answer.code, 415, "{}", answer.text);
}

async fn missing_content_type_is_json<B: Backend>() {
    let b = B::start().await;
    b.send(Method::POST, "configmaps", &[], config_map("a", &json!({})).to_string().into_bytes()).await.created();
}

async fn yaml_is_understood<B: Backend>() {
    let b = B::start().await;
    let body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 'yes'\n";
    let made =
        b.send(Method::POST, "configmaps", &[("content-type", "application/yaml")], body.to_vec()).await.created();
    assert_eq!(made["data"]["k"], "yes");
}

async fn large_body_is_refused<B: Backend>() {
    let b = B::start().await;
    let body = config_map("a", &json!({"k": "x".repeat(3 * 1024 * 1024 + 1000)}));
    b.post("configmaps", &body).await.refused(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    );
}

async fn large_object_is_refused<B: Backend>() {
    let b = B::start().await;
    let body = config_map("a", &json!({"k": "x".repeat(1024 * 1024 + 1)}));
    b.post("configmaps", &body).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes",
    );
}

async fn wrong_types_are_named<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["containers"] = json!("none");
    b.post("pods", &object).await.refused(
        400,
        "BadRequest",
        "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field PodSpec.spec.containers \
         of type []v1.Container",
    );
    let mut object = pod("a");
    object["spec"]["hostNetwork"] = json!(1);
    b.post("pods", &object).await.refused(
        400,
        "BadRequest",
        "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field \
         PodSpec.spec.hostNetwork of type bool",
    );
    let mut object = pod("a");
    object["spec"]["priority"] = json!("high");
    b.post("pods", &object).await.refused_saying(
        400,
        "BadRequest",
        "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
    );
}

async fn wrong_type_of_a_map_value<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({"k": 5}))).await.refused(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field \
         ConfigMap.data of type string",
    );
    let mut object = config_map("a", &json!({}));
    object["metadata"]["labels"] = json!({"x": true});
    b.post("configmaps", &object).await.refused_saying(
        400,
        "BadRequest",
        "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
    );
}

async fn unknown_kind_in_a_body_is_refused<B: Backend>() {
    let b = B::start().await;
    let object = json!({"apiVersion": "v1", "kind": "Wonder", "metadata": {"name": "a"}});
    b.post("configmaps", &object).await.refused(
        400,
        "BadRequest",
        "Wonder in version \"v1\" cannot be handled as a ConfigMap: no kind \"Wonder\" is registered for version \"v1\" in \
         scheme \"pkg/runtime/scheme.go:111\"",
    );
}

const NOT_ALLOWED: &str = "the server does not allow this method on the requested resource";

async fn post_to_an_object_is_not_allowed<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps/a", &config_map("a", &json!({}))).await.refused(405, "MethodNotAllowed", NOT_ALLOWED);
}

async fn put_to_a_collection_is_not_allowed<B: Backend>() {
    let b = B::start().await;
    b.put("configmaps", &config_map("a", &json!({}))).await.refused(405, "MethodNotAllowed", NOT_ALLOWED);
    b.post("/api/v1/configmaps", &config_map("a", &json!({}))).await.refused(405, "MethodNotAllowed", NOT_ALLOWED);
    b.delete("/api/v1/namespaces").await.refused(405, "MethodNotAllowed", NOT_ALLOWED);
}

async fn odd_methods_are_not_allowed<B: Backend>() {
    let b = B::start().await;
    for method in ["OPTIONS", "TRACE", "PURGE"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = b.send(method.clone(), "configmaps", &[], Vec::new()).await;
        answer.refused(405, "MethodNotAllowed", NOT_ALLOWED);
    }
}

async fn head_is_not_allowed<B: Backend>() {
    let b = B::start().await;
    let answer = b.send(Method::HEAD, "configmaps", &[], Vec::new()).await;
    assert_eq!((answer.code, answer.text.as_str()), (405, ""));
}

async fn bad_query_values_are_refused<B: Backend>() {
    let b = B::start().await;
    for (query, part) in [
        ("limit=1.5", "strconv.ParseInt: parsing \"1.5\": invalid syntax"),
        ("timeoutSeconds=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
    ] {
        b.get(&format!("configmaps?{query}")).await.refused_saying(400, "BadRequest", part);
    }
    b.delete("configmaps/a?gracePeriodSeconds=x").await.refused_saying(400, "BadRequest", "invalid syntax");
}

async fn unknown_query_parameters_are_ignored<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps?color=red&pretty=maybe").await.ok();
    b.post("configmaps?color=red", &config_map("a", &json!({}))).await.created();
}

async fn field_manager_is_checked<B: Backend>() {
    let b = B::start().await;
    let long = "m".repeat(129);
    b.post(&format!("configmaps?fieldManager={long}"), &config_map("a", &json!({}))).await.refused_saying(
        422,
        "Invalid",
        "fieldManager: Too long: may not be more than 128 bytes",
    );
}

async fn deep_nesting_is_survived<B: Backend>() {
    let b = B::start().await;
    let body = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"x\": {}{}}}",
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    let answer = raw(&b, body.as_bytes()).await;
    answer.refused_saying(400, "BadRequest", "exceeded max depth");
}

async fn bodies_with_a_byte_order_mark<B: Backend>() {
    let b = B::start().await;
    let mut body = vec![0xef, 0xbb, 0xbf];
    body.extend(config_map("a", &json!({})).to_string().bytes());
    raw(&b, &body).await.refused_saying(400, "BadRequest", "json parse error");
}

async fn binary_garbage_is_refused<B: Backend>() {
    let b = B::start().await;
    raw(&b, &[0, 159, 146, 150, 255]).await.refused_saying(400, "BadRequest", "json parse error");
}

async fn paths_are_decoded<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a.b", &json!({}))).await.created();
    assert_eq!(b.get("configmaps/a%2Eb").await.ok()["metadata"]["name"], "a.b");
}

async fn names_of_odd_form_are_not_found<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps/Not_Valid").await.refused(404, "NotFound", "configmaps \"Not_Valid\" not found");
    b.get("configmaps/a%20b").await.refused(404, "NotFound", "configmaps \"a b\" not found");
}

async fn time_must_be_a_time<B: Backend>() {
    let b = B::start().await;
    let lease = json!({"metadata": {"name": "a"}, "spec": {"renewTime": "soon"}});
    b.post("coordination.k8s.io/v1 leases", &lease).await.refused_saying(400, "BadRequest", "parsing time \"soon\" as");
}

async fn answers_are_json<B: Backend>() {
    let b = B::start().await;
    let answer = b.get("configmaps").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    let answer = b.get("configmaps/none").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["cache-control"], "no-cache, private");
}

async fn trailing_data_is_refused<B: Backend>() {
    let b = B::start().await;
    let body = format!("{} trailing", config_map("a", &json!({})));
    raw(&b, body.as_bytes()).await.refused_saying(400, "BadRequest", "invalid character 't' after top-level value");
}

async fn list_in_place_of_an_object<B: Backend>() {
    let b = B::start().await;
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [Value::Null]});
    let answer = b.post("configmaps", &list).await;
    answer.refused_saying(400, "BadRequest", "ConfigMapList in version \"v1\" cannot be handled as a ConfigMap");
}
