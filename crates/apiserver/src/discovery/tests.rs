use super::*;

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What the real server lists for the same resource, without the subresources that are not served here.
fn real_resource(group: &str, version: &str, ours: &Value) -> Option<Value> {
    let named = |g: &&Value| g["metadata"]["name"].as_str().unwrap_or_default() == group;
    let group = recorded().discovery.iter().find(named)?;
    let version = list(&group["versions"]).iter().find(|v| v["version"] == version)?;
    let mut real = list(&version["resources"]).iter().find(|r| r["resource"] == ours["resource"])?.clone();
    let served = |s: &Value| list(&ours["subresources"]).iter().any(|o| o["subresource"] == s["subresource"]);
    let subresources: Vec<_> = list(&real["subresources"]).iter().filter(|s| served(s)).cloned().collect();
    match real.as_object_mut() {
        Some(fields) if subresources.is_empty() => drop(fields.remove("subresources")),
        Some(fields) => drop(fields.insert("subresources".to_owned(), json!(subresources))),
        None => {}
    }
    Some(real)
}

#[test]
fn built_in_kinds_are_described_as_the_real_server_does() {
    let registry = Registry::builtin();
    for root in [Root::Api, Root::Apis] {
        let all = aggregated(&registry, root);
        for group in list(&all["items"]) {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in list(&group["versions"]) {
                for ours in list(&version["resources"]) {
                    let number = version["version"].as_str().unwrap();
                    assert_eq!(Some(ours), real_resource(name, number, ours).as_ref(), "{name} {}", ours["resource"]);
                }
            }
        }
    }
}

#[test]
fn groups_come_in_the_order_of_the_real_server() {
    let names = |groups: Vec<&Value>| -> Vec<String> {
        groups.iter().map(|g| g["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let all = aggregated(&Registry::builtin(), Root::Apis);
    let ours = names(list(&all["items"]).iter().collect());
    let mut real = names(recorded().discovery.iter().collect());
    real.retain(|name| ours.contains(name));
    assert_eq!(ours, real);
}

#[test]
fn plain_lists_say_the_same() {
    let registry = Registry::builtin();
    let core = api_resources(&registry, "", "v1").unwrap();
    let names: Vec<_> = list(&core["resources"]).iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"pods") && names.contains(&"pods/eviction"), "{names:?}");
    assert_eq!(core["apiVersion"], Value::Null);
    let apps = api_resources(&registry, "apps", "v1").unwrap();
    // Recorded from kube-apiserver 1.35.4.
    assert_eq!(list(&apps["resources"])[0]["storageVersionHash"], "85nkx63pcBU=");
    assert_eq!(list(&apps["resources"])[1]["storageVersionHash"], "dd7pWHUlMKQ=");
    assert_eq!(
        api_group(&registry, "apps").unwrap(),
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "apps",
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
        })
    );
    assert_eq!(api_group(&registry, ""), None);
    assert_eq!(api_resources(&registry, "apps", "v2"), None);
}

#[test]
fn versions_are_ordered_by_maturity() {
    let mut versions = vec!["v1alpha1", "foo", "v1beta2", "v2", "v1", "v1beta10", "v11alpha2", "v0"];
    versions.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.cmp(b)));
    assert_eq!(versions, ["v2", "v1", "v1beta10", "v1beta2", "v11alpha2", "v1alpha1", "foo", "v0"]);
}

/// Recorded from kube-apiserver 1.35.4 for the NodePool CRD.
#[test]
fn custom_kinds_have_an_order_of_their_own() {
    let mut kind = Registry::builtin().by_kind("apps", "v1", "Deployment").unwrap().as_ref().clone();
    kind.group = "karpenter.sh".to_owned();
    kind.crd = true;
    let entry = aggregated_resource(&kind);
    assert_eq!(
        entry["verbs"],
        json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"])
    );
    let names: Vec<_> = list(&entry["subresources"]).iter().map(|s| &s["subresource"]).collect();
    assert_eq!(names, ["status", "scale"]);
    assert_eq!(entry["responseKind"]["group"], "karpenter.sh");
}

#[test]
fn the_version_says_all_that_was_recorded() {
    assert_eq!(&serde_json::from_str::<Value>(&version()).unwrap(), &recorded().version);
}

#[test]
fn paths_without_a_resource_are_answered() {
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    for (path, query, accept, status, content_type, holds) in [
        ("/version", "", "", 200, "application/json", "\n  \"gitVersion\": \"v1.35"),
        ("/readyz", "", "", 200, "text/plain; charset=utf-8", "ok"),
        ("/livez", "verbose", "", 200, "text/plain; charset=utf-8", "livez check passed"),
        ("/api", "", "application/json", 200, "application/json", "APIVersions"),
        ("/apis", "", v2, 200, AGGREGATED, "APIGroupDiscoveryList"),
        ("/apis", "", old, 200, "application/json", "APIGroupList"),
        ("/apis/policy", "", "", 200, "application/json", "policy/v1"),
        ("/apis/policy/v1", "", "", 200, "application/json", "poddisruptionbudgets/status"),
        ("/apis/nope", "", "", 404, "text/plain; charset=utf-8", "404 page not found"),
        ("/apis/nope/v1", "", "", 404, "text/plain; charset=utf-8", "404 page not found"),
        ("/openapi/v2", "", "", 200, "application/json", "#/definitions/io.k8s.api.core.v1.PodSpec"),
        ("/openapi/v3", "", "", 200, "application/json", "/openapi/v3/apis/batch/v1?hash="),
        ("/openapi/v3/apis/batch/v1", "", "", 200, "application/json", "io.k8s.api.batch.v1.Job"),
        ("/openapi/v3/apis/batch/v1", "hash=AB", "", 301, "application/json", ""),
        ("/openapi/v3/apis/batch/v9", "", "", 404, "text/plain; charset=utf-8", ""),
    ] {
        let answer = answer(path, query, accept, &Registry::builtin(), &[]).unwrap();
        assert_eq!((answer.status, answer.content_type), (status, content_type), "{path}");
        let body = String::from_utf8_lossy(&answer.body);
        assert!(body.contains(holds), "{path}: {body}");
        let moved = answer.headers.iter().any(|(name, _)| *name == "location");
        assert_eq!(moved, status == 301, "{path}");
    }
    assert_eq!(answer("/api/v1/pods", "", "", &Registry::builtin(), &[]), None);
    assert_eq!(answer("/api/v2", "", "", &Registry::builtin(), &[]), None);
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
