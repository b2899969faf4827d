use serde_json::{Value, json};

use super::*;

#[test]
fn definitions_are_found_by_group_version_and_kind() {
    for crd in definitions() {
        assert_eq!(find(crd.group, crd.version, crd.kind).map(Crd::name), Some(crd.name()));
    }
    assert!(find("karpenter.sh", "v1beta1", "NodePool").is_none());
    assert_eq!((all().len(), legacy().len()), (6, 2));
}

/// API-11, API-12, API-310, AWS-1, AWS-256: names, versions, scope and subresources of every kind.
#[test]
fn kinds_are_called_as_specified() {
    let karpenter = ["karpenter"];
    for (name, version, kind, singular, short_names, categories, scope, subresources) in [
        (
            "nodepools.karpenter.sh",
            "v1",
            "NodePool",
            "nodepool",
            &[][..],
            karpenter,
            "Cluster",
            &["scale", "status"][..],
        ),
        ("nodeclaims.karpenter.sh", "v1", "NodeClaim", "nodeclaim", &[], karpenter, "Cluster", &["status"]),
        (
            "nodeoverlays.karpenter.sh",
            "v1alpha1",
            "NodeOverlay",
            "nodeoverlay",
            &["overlays"],
            karpenter,
            "Cluster",
            &["status"],
        ),
        (
            "capacitybuffers.autoscaling.x-k8s.io",
            "v1beta1",
            "CapacityBuffer",
            "capacitybuffer",
            &["cb"],
            ["autoscaling"],
            "Namespaced",
            &["status"],
        ),
        (
            "ec2nodeclasses.karpenter.k8s.aws",
            "v1",
            "EC2NodeClass",
            "ec2nodeclass",
            &["ec2nc", "ec2ncs"],
            karpenter,
            "Cluster",
            &["status"],
        ),
        (
            "kwoknodeclasses.karpenter.kwok.sh",
            "v1alpha1",
            "KWOKNodeClass",
            "kwoknodeclass",
            &["kwoknc", "kwokncs"],
            karpenter,
            "Cluster",
            &["status"],
        ),
        ("provisioners.karpenter.sh", "v1alpha5", "Provisioner", "provisioner", &[], karpenter, "Cluster", &["status"]),
        (
            "awsnodetemplates.karpenter.k8s.aws",
            "v1alpha1",
            "AWSNodeTemplate",
            "awsnodetemplate",
            &[],
            karpenter,
            "Cluster",
            &["status"],
        ),
    ] {
        let crd = definitions().iter().find(|crd| crd.name() == name).unwrap();
        let spec = &crd.manifest["spec"];
        assert_eq!(crd.manifest["metadata"], json!({"name": name}));
        assert_eq!(spec["scope"], scope, "{name}");
        let mut names = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": crd.plural, "singular": singular, "categories": categories,
        });
        if !short_names.is_empty() {
            names["shortNames"] = json!(short_names);
        }
        assert_eq!(spec["names"], names, "{name}");
        let versions = spec["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 1, "{name}");
        assert_eq!(
            (&versions[0]["name"], &versions[0]["served"], &versions[0]["storage"]),
            (&json!(version), &json!(true), &json!(true))
        );
        let keys: Vec<&String> = versions[0]["subresources"].as_object().unwrap().keys().collect();
        assert_eq!(keys, subresources, "{name}");
    }
}

/// API-34, LIF-93: `kubectl scale` reads and writes these paths.
#[test]
fn a_pool_scales_by_replicas() {
    let crd = find("karpenter.sh", "v1", "NodePool").unwrap();
    assert_eq!(
        crd.manifest["spec"]["versions"][0]["subresources"]["scale"],
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"})
    );
}

/// API-33, API-68, API-82, API-97, API-112, AWS-2: the columns of `kubectl get`, `*` for those of `-o wide`.
#[test]
fn columns_are_in_order() {
    let text = |crd: &Crd| {
        let columns =
            crd.manifest["spec"]["versions"][0]["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
        let one = |c: &Value| {
            let wide = if c["priority"] == 1 { "*" } else { "" };
            format!(
                "{}{wide} {} {}",
                c["name"].as_str().unwrap(),
                c["type"].as_str().unwrap(),
                c["jsonPath"].as_str().unwrap()
            )
        };
        columns.iter().map(one).collect::<Vec<_>>().join("\n")
    };
    let all: Vec<String> = definitions().iter().map(|crd| format!("{}\n{}\n", crd.name(), text(crd))).collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// Every schema node with its path, depth first.
fn nodes<'a>(schema: &'a Value, path: &str, visit: &mut dyn FnMut(&str, &'a Value)) {
    visit(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        nodes(child, &format!("{path}.{name}"), visit);
    }
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(child) = schema.get(keyword) {
            nodes(child, &format!("{path}{suffix}"), visit);
        }
    }
}

/// API-348, AWS-286, AWS-8, AWS-9, AWS-11, AWS-20, AWS-21: every rule with its place and its exact message.
#[test]
fn rules_and_messages_are_exact() {
    let mut lines = Vec::new();
    for crd in definitions() {
        nodes(crd.schema(), crd.kind, &mut |path, node| {
            for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
                lines.push(format!(
                    "{path}\n  {}\n    {}",
                    rule["message"].as_str().unwrap(),
                    rule["rule"].as_str().unwrap()
                ));
            }
        });
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_field_is_described_in_whole_sentences() {
    for crd in definitions() {
        nodes(crd.schema(), crd.kind, &mut |path, node| {
            let is_part = path.ends_with("[]") || path.ends_with("{}");
            // Quantities are explained where they are used; the API server knows metadata itself.
            let is_known =
                node["x-kubernetes-int-or-string"] == true || path.ends_with(&format!("{}.metadata", crd.kind));
            match node["description"].as_str() {
                Some(text) => assert!(text.ends_with('.') && text.len() > 5, "{path}: {text}"),
                None => assert!(is_part || is_known, "{path} has no description"),
            }
        });
    }
}

/// API-14 … API-16, API-27, API-35, API-69, API-84, V15-3 … V15-5: what a pool, claim and overlay share and where they differ.
#[test]
fn shared_fragments_differ_only_where_specified() {
    let at = |kind: &str, version: &str, path: &str| {
        find("karpenter.sh", version, kind).unwrap().schema().pointer(path).cloned().unwrap()
    };
    let pool = at("NodePool", "v1", "/properties/spec/properties/template/properties/spec/properties");
    let claim = at("NodeClaim", "v1", "/properties/spec/properties");
    let overlay = at("NodeOverlay", "v1alpha1", "/properties/spec/properties");
    for (kind, fields) in [("pool", &pool), ("claim", &claim), ("overlay", &overlay)] {
        let requirements = &fields["requirements"];
        assert_eq!(
            (&requirements["maxItems"], &requirements["x-kubernetes-list-type"]),
            (&json!(100), &json!("atomic")),
            "{kind}"
        );
        let item = &requirements["items"]["properties"];
        assert_eq!(
            item["operator"]["enum"],
            json!(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]),
            "{kind}"
        );
        assert_eq!(
            (&item["values"]["maxLength"], &item["key"]["maxLength"]),
            (&json!(63), &json!(316)),
            "API-17 {kind}"
        );
        assert_eq!(item.get("minValues").is_some(), kind != "overlay", "{kind}");
    }
    for (fields, name) in [(&pool, "taints"), (&pool, "startupTaints"), (&claim, "taints"), (&claim, "startupTaints")] {
        assert_eq!(fields[name]["items"]["required"], json!(["effect", "key"]));
        assert_eq!(fields[name]["x-kubernetes-list-type"], "atomic");
    }
    let disruption = at("NodePool", "v1", "/properties/spec/properties/disruption");
    assert_eq!(disruption.get("required"), None, "V15-4");
    assert_eq!(disruption["default"], json!({"consolidateAfter": "0s"}));
    assert_eq!(disruption["properties"]["consolidateAfter"]["default"], "0s");
    let reasons = &disruption["properties"]["budgets"]["items"]["properties"]["reasons"];
    assert_eq!(reasons["items"]["enum"], json!(["Underutilized", "Empty", "Drifted", "Unhealthy"]), "V15-3");
    assert_eq!(reasons["x-kubernetes-list-type"], "set");
}

/// API-30 … API-32: condition items are strict, lenient on claims, and without map keys on KWOK classes.
#[test]
fn conditions_differ_by_kind() {
    let strict = json!(["lastTransitionTime", "message", "reason", "status", "type"]);
    for (kind, required, list_type) in [
        ("NodePool", &strict, json!("map")),
        ("NodeClaim", &json!(["lastTransitionTime", "status", "type"]), json!("map")),
        ("NodeOverlay", &strict, json!("map")),
        ("CapacityBuffer", &strict, json!("map")),
        ("EC2NodeClass", &strict, json!("map")),
        ("KWOKNodeClass", &strict, Value::Null),
    ] {
        let crd = definitions().iter().find(|crd| crd.kind == kind).unwrap();
        let conditions = &crd.schema()["properties"]["status"]["properties"]["conditions"];
        assert_eq!(&conditions["items"]["required"], required, "{kind}");
        assert_eq!(conditions["x-kubernetes-list-type"], list_type, "{kind}");
        assert_eq!(
            conditions["items"]["properties"]["reason"].get("minLength").is_some(),
            kind != "NodeClaim",
            "{kind}"
        );
    }
}

/// AWS-86: the open form differs from the usual one in the kubelet's settings only, and is told from it.
#[test]
fn only_the_kubelet_is_open() {
    let usual = find("karpenter.k8s.aws", "v1", "EC2NodeClass").unwrap().manifest.clone();
    let mut open = ec2_node_class_with_open_kubelet();
    assert!(has_open_kubelet(&open) && !has_open_kubelet(&usual) && !has_open_kubelet(&Value::Null));
    let kubelet = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/kubelet";
    *open.pointer_mut(kubelet).unwrap() = usual.pointer(kubelet).unwrap().clone();
    assert_eq!(open, usual);
}
