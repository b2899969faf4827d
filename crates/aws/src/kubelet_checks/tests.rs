use serde_json::json;

use super::*;

fn said(kubelet: &Value, definition: Definition, gate: bool) -> String {
    let kubelet: KubeletConfiguration = serde_json::from_value(kubelet.clone()).unwrap();
    shown(verdict(&kubelet, definition, gate))
}

fn shown(verdict: Option<Verdict>) -> String {
    match verdict {
        None => "fine".to_owned(),
        Some(Verdict::Failed { reason, message }) => format!("{reason}: {message}"),
        Some(other) => format!("{other:?}"),
    }
}

fn of_family(kubelet: &Value, family: &str, definition: Definition) -> String {
    let kubelet: KubeletConfiguration = serde_json::from_value(kubelet.clone()).unwrap();
    shown(family_verdict(&kubelet, AmiFamily::parse(family).unwrap(), definition))
}

/// AWS-86: unknown members and values that are wrong, all together; wrong types alone.
#[test]
fn the_form_of_open_settings() {
    for (kubelet, want) in [
        (json!({}), "fine"),
        (json!({"topologyManagerPolicy": "best-effort", "serializeImagePulls": false}), "fine"),
        (json!({"memorySwap": {"swapBehavior": "NoSwap"}, "featureGates": {"X": true}, "podPidsLimit": 4096}), "fine"),
        (json!({"shutdownGracePeriod": "30s", "logging": {"verbosity": 2, "flushFrequency": "5s"}}), "fine"),
        (json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}], "maxPods": 5}), "fine"),
        (
            json!({"maxPod": 5, "speed": 1}),
            "spec.kubelet.maxPod is not a setting of the kubelet; spec.kubelet.speed is not",
        ),
        (json!({"memorySwap": {"behaviour": "x"}}), "spec.kubelet.memorySwap.behaviour is not a setting"),
        (json!({"podsPerCore": "two", "speed": 1}), "spec.kubelet.podsPerCore must be a whole number of 32 bits"),
        (json!({"maxPods": true}), "spec.kubelet.maxPods must be a whole number or an expression"),
        (json!({"maxPods": 4_294_967_296_i64}), "spec.kubelet.maxPods must be a whole number or an expression"),
        (json!({"clusterDNS": "10.0.0.10"}), "spec.kubelet.clusterDNS must be a list"),
        (json!({"clusterDNS": [1]}), "spec.kubelet.clusterDNS[0] must be a string"),
        (json!({"kubeReserved": {"cpu": 1}}), "spec.kubelet.kubeReserved[cpu] must be a string"),
        (json!({"kubeReserved": 1}), "spec.kubelet.kubeReserved must be an object"),
        (json!({"memorySwap": "x"}), "spec.kubelet.memorySwap must be an object"),
        (json!({"shutdownGracePeriod": "soon"}), "spec.kubelet.shutdownGracePeriod must be a duration"),
    ] {
        let said = said(&kubelet, Definition::OpenKubelet, true);
        let fits = said == want || said.starts_with(&format!("InvalidKubeletConfiguration: {want}"));
        assert!(fits, "{kubelet}: {said}");
        assert!(!said.contains("podsPerCore") || !said.contains("speed"), "types alone: {said}");
    }
}

/// AWS-87 … AWS-91: what the usual definition refuses at admission, and a little more.
#[test]
fn the_values_of_open_settings() {
    for (kubelet, want) in [
        (json!({"registerWithTaints": []}), "spec.kubelet.registerWithTaints may not be set"),
        (json!({"evictionHard": {"memory.free": "1Gi"}}), "spec.kubelet.evictionHard: memory.free is none of"),
        (json!({"evictionMinimumReclaim": {"disk": "1Gi"}}), "spec.kubelet.evictionMinimumReclaim: disk is none of"),
        (json!({"evictionHard": {"memory.available": "110%"}}), "\"110%\" is neither a percentage nor a quantity"),
        (json!({"evictionHard": {"memory.available": "-1Gi"}}), "\"-1Gi\" is neither a percentage nor a quantity"),
        (json!({"evictionSoft": {"memory.available": "5%"}}), "evictionSoft[memory.available] has no matching entry"),
        (json!({"evictionSoftGracePeriod": {"pid.available": "1m"}}), "evictionSoftGracePeriod[pid.available] has no"),
        (
            json!({"evictionSoft": {"pid.available": "1"}, "evictionSoftGracePeriod": {"pid.available": "-1m"}}),
            "\"-1m\" is not a duration of zero or more",
        ),
        (json!({"kubeReserved": {"gpu": "1"}}), "spec.kubelet.kubeReserved: gpu is none of cpu, memory"),
        (json!({"systemReserved": {"cpu": "-1"}}), "spec.kubelet.systemReserved[cpu] must not be negative"),
        (json!({"imageGCHighThresholdPercent": 101}), "imageGCHighThresholdPercent must be between 0 and 100"),
        (
            json!({"imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 70}),
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
        ),
        (json!({"maxPods": -1}), "spec.kubelet.maxPods must not be negative"),
        (json!({"podsPerCore": -1}), "spec.kubelet.podsPerCore must not be negative"),
        (json!({"evictionMaxPodGracePeriod": -1}), "spec.kubelet.evictionMaxPodGracePeriod must not be negative"),
    ] {
        let said = said(&kubelet, Definition::OpenKubelet, true);
        assert!(said.starts_with("InvalidKubeletConfiguration: ") && said.contains(want), "{kubelet}: {said}");
    }
    let both = said(&json!({"maxPods": -1, "speed": 1}), Definition::OpenKubelet, true);
    assert!(both.contains("speed") && both.contains("; ") && both.contains("maxPods"), "all together: {both}");
    let fine = json!({
        "evictionHard": {"memory.available": "5%", "nodefs.available": "99.99%", "pid.available": "100.0%"},
        "evictionSoft": {"memory.available": "500Mi"},
        "evictionSoftGracePeriod": {"memory.available": "1m30s"},
        "imageGCHighThresholdPercent": 71,
        "imageGCLowThresholdPercent": 70,
        "kubeReserved": {"cpu": "100m", "pid": "1000"},
    });
    assert_eq!(said(&fine, Definition::OpenKubelet, false), "fine");
    // The usual definition has let it through, and it works as it always did.
    assert_eq!(said(&json!({"evictionHard": {"memory.available": "-1Gi"}}), Definition::Usual, false), "fine");
}

/// AWS-92, AWS-93, AC-91 … AC-93: what images of a family can be told.
#[test]
fn what_families_support() {
    let policy = json!({"topologyManagerPolicy": "best-effort"});
    let two = json!({"clusterDNS": ["10.0.0.10", "10.0.0.11"]});
    let per_core = json!({"podsPerCore": 2});
    let plain = json!({"maxPods": 5, "clusterDNS": ["10.0.0.10"], "cpuCFSQuota": false});
    for (kubelet, family, want) in [
        (&policy, "AL2023", "fine"),
        (&policy, "Custom", "fine"),
        (
            &policy,
            "AL2",
            "UnsupportedKubeletConfiguration: AL2 nodes cannot be told spec.kubelet.topologyManagerPolicy",
        ),
        (&policy, "Bottlerocket", "UnsupportedKubeletConfiguration: Bottlerocket"),
        (&policy, "Windows2022", "UnsupportedKubeletConfiguration: Windows2022"),
        (&two, "AL2023", "fine"),
        (&two, "Custom", "fine"),
        (&two, "AL2", "UnsupportedKubeletConfiguration: "),
        (&two, "Bottlerocket", "UnsupportedKubeletConfiguration: "),
        (&two, "Windows2019", "UnsupportedKubeletConfiguration: "),
        (&per_core, "Bottlerocket", "UnsupportedKubeletConfiguration: "),
        (&per_core, "AL2", "fine"),
        (&plain, "Bottlerocket", "fine"),
        (&plain, "AL2", "fine"),
    ] {
        let said = of_family(kubelet, family, Definition::OpenKubelet);
        assert!(said.starts_with(want), "{family} {kubelet}: {said}");
        assert_eq!(of_family(kubelet, family, Definition::Usual), "fine", "the target's behaviour");
    }
}

/// AWS-94, AC-94: without the gate a class with expressions is refused, with it they are read.
#[test]
fn expressions_need_the_gate() {
    let pods = json!({"maxPods": "vcpus * 10"});
    let reserved = json!({"kubeReserved": {"cpu": "vcpus * 30", "memory": "1Gi"}, "systemReserved": {"memory": "memory_mib / 100"}});
    for kubelet in [&pods, &reserved] {
        let refused = said(kubelet, Definition::OpenKubelet, false);
        assert!(refused.starts_with("KubeletExpressionsDisabled: ") && refused.contains("spec.kubelet."), "{refused}");
        assert_eq!(said(kubelet, Definition::OpenKubelet, true), "fine");
    }
    assert!(said(&reserved, Definition::OpenKubelet, false).contains("systemReserved[memory]"));
    assert_eq!(said(&json!({"kubeReserved": {"memory": "1Gi"}}), Definition::OpenKubelet, false), "fine", "a quantity");
}

/// AC-95, AWS-96: expressions that are none.
#[test]
fn expressions_have_to_compile() {
    for text in ["vcpus *", "vcpus > 2", "cores * 2", " "] {
        for kubelet in [json!({"maxPods": text}), json!({"kubeReserved": {"cpu": text}})] {
            let said = said(&kubelet, Definition::OpenKubelet, true);
            assert!(said.starts_with("KubeletExpressionInvalid: spec.kubelet."), "{kubelet}: {said}");
        }
    }
}
