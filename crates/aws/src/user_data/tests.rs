use karpenter_model::taints::Effect;
use serde_json::{Value, json};

use super::*;

/// Text in, text out: what a node of the family is told, with a label, a taint and this kubelet and custom data.
struct Case {
    family: AmiFamily,
    kubelet: Value,
    custom: Option<&'static str>,
    dns: Option<&'static str>,
    joins_disks: bool,
    image: ImageVersion,
    ca_bundle: Option<&'static str>,
}

fn case(family: AmiFamily) -> Case {
    Case {
        family,
        kubelet: json!({}),
        custom: None,
        dns: Some("10.0.100.10"),
        joins_disks: false,
        image: ImageVersion::Latest,
        ca_bundle: Some("Y2EtYnVuZGxl"),
    }
}

impl Case {
    fn try_render(&self) -> Result<Rendered, UserDataError> {
        let cluster = Cluster {
            name: "test-cluster".to_owned(),
            endpoint: "https://test-cluster".to_owned(),
            ca_bundle: self.ca_bundle.map(ToOwned::to_owned),
            service_cidr: Some("10.100.0.0/16".to_owned()),
            dns: self.dns.map(|dns| dns.parse().unwrap()),
        };
        let kubelet: KubeletConfiguration = serde_json::from_value(self.kubelet.clone()).unwrap();
        let claim = BTreeMap::from(
            [("karpenter.sh/nodepool", "default"), ("a", "1"), ("kubernetes.io/foo", "x")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        let labels = node_labels(&claim, "spot", self.family);
        let taints = node_taints(
            &[Taint::new("dedicated", "gpu", Effect::NoSchedule)],
            &[Taint::new("starting", "", Effect::NoExecute)],
        );
        let bootstrap = Bootstrap {
            cluster: &cluster,
            kubelet: Some(&kubelet),
            pods: 110,
            labels: &labels,
            taints: &taints,
            custom: self.custom,
            joins_disks: self.joins_disks,
            image: self.image,
        };
        render(self.family, &bootstrap)
    }

    fn render(&self) -> String {
        self.try_render().unwrap().text
    }
}

/// Every member that the kubelet's object has.
fn full_kubelet() -> Value {
    json!({
        "clusterDNS": ["10.9.9.9", "10.9.9.8"],
        "maxPods": 42,
        "podsPerCore": 3,
        "systemReserved": {"memory": "1Gi", "cpu": "100m"},
        "kubeReserved": {"cpu": "200m"},
        "evictionHard": {"nodefs.available": "10%", "memory.available": "10%"},
        "evictionSoft": {"memory.available": "500Mi", "nodefs.available": "15%"},
        "evictionSoftGracePeriod": {"memory.available": "1m", "nodefs.available": "3m"},
        "evictionMaxPodGracePeriod": 30,
        "imageGCHighThresholdPercent": 50,
        "imageGCLowThresholdPercent": 10,
        "cpuCFSQuota": false,
    })
}

const ARCHIVE: &str = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n boundary=\"==BOUNDARY==\"\r\n\r\npreamble\r\n--==BOUNDARY==\r\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\r\n\r\n#!/bin/bash\r\necho one\r\n--==BOUNDARY==\r\nContent-Type: application/node.eks.aws\r\n\r\napiVersion: node.eks.aws/v1alpha1\r\n--==BOUNDARY==--\r\n";

/// AWS-168, AWS-169, AC-198, AC-199: labels of Kubernetes' own domains stay out; the guard taint comes last, once.
#[test]
fn labels_and_taints() {
    let keys = ["kubernetes.io/foo", "k8s.io/foo", "sub.kubernetes.io/foo", "sub.k8s.io/foo", "example.com/foo", "foo"];
    let keys =
        keys.into_iter().chain(["node-restriction.kubernetes.io/x", "notkubernetes.io/x", "karpenter.k8s.aws/x"]);
    let claim: BTreeMap<String, String> = keys.map(|key| (key.to_owned(), "v".to_owned())).collect();
    let labels = node_labels(&claim, "on-demand", AmiFamily::Al2);
    let want = ["example.com/foo", "foo", "karpenter.k8s.aws/x", "karpenter.sh/capacity-type"];
    let want: Vec<&str> = want.into_iter().chain(["karpenter.sh/do-not-sync-taints", "notkubernetes.io/x"]).collect();
    assert_eq!(labels.keys().map(String::as_str).collect::<Vec<_>>(), want);
    assert!(!node_labels(&claim, "spot", AmiFamily::Custom).contains_key("karpenter.sh/do-not-sync-taints"));

    let own = Taint::new("a", "b", Effect::NoSchedule);
    assert_eq!(node_taints(std::slice::from_ref(&own), &[]), [own.clone(), Taint::unregistered()]);
    assert_eq!(node_taints(&[Taint::unregistered()], std::slice::from_ref(&own)), [Taint::unregistered(), own.clone()]);
}

/// AWS-172, AWS-173, AWS-174, AC-198, AC-201, AC-202, AC-203.
#[test]
fn al2() {
    insta::assert_snapshot!("al2_plain", case(AmiFamily::Al2).render());
    let full = Case { kubelet: full_kubelet(), joins_disks: true, ..case(AmiFamily::Al2) };
    insta::assert_snapshot!("al2_full", full.render());
    let ipv6 = Case { dns: Some("fd4e:9d41:c0c3::a"), ..case(AmiFamily::Al2) }.render();
    assert!(ipv6.contains(" \\\n--ip-family ipv6 \\\n--dns-cluster-ip 'fd4e:9d41:c0c3::a' \\\n"), "{ipv6}");
    let bare = Case { dns: None, ca_bundle: None, ..case(AmiFamily::Al2) }.render();
    assert!(!bare.contains("dns-cluster-ip") && !bare.contains("b64-cluster-ca"), "{bare}");
}

/// AWS-172, AWS-264, AC-200: what the user wants done comes first.
#[test]
fn al2_with_custom_data() {
    insta::assert_snapshot!("al2_archive", Case { custom: Some(ARCHIVE), ..case(AmiFamily::Al2) }.render());
    let plain = Case { custom: Some("#!/bin/bash\necho hi"), ..case(AmiFamily::Al2) }.render();
    let (before, after) = plain.split_once("echo hi").unwrap();
    assert!(before.contains("Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash"), "{plain}");
    assert!(after.contains("/etc/eks/bootstrap.sh") && !plain.contains('\r'));
    let content_type_first = ARCHIVE.strip_prefix("MIME-Version: 1.0\r\n").unwrap();
    let again =
        Case { custom: Some(Box::leak(content_type_first.to_owned().into_boxed_str())), ..case(AmiFamily::Al2) };
    assert_eq!(again.render(), Case { custom: Some(ARCHIVE), ..case(AmiFamily::Al2) }.render());
    assert_eq!(Case { custom: Some(""), ..case(AmiFamily::Al2) }.render(), case(AmiFamily::Al2).render());
    for broken in [
        "Content-Type: text/plain\n\nx",
        "MIME-Version: 1.0\n\nx",
        "Content-Type: multipart/mixed\n\n--x\n\n--x--",
        "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\nContent-Type: a\n\nno end",
        "MIME-Version: 1.0",
    ] {
        let error = Case { custom: Some(broken), ..case(AmiFamily::Al2) }.try_render().unwrap_err();
        assert!(matches!(error, UserDataError::Mime(_)), "{broken}");
    }
}

/// AWS-170, AWS-175, AWS-176, AC-206, AC-207, AC-292.
#[test]
fn al2023() {
    insta::assert_snapshot!("al2023_plain", case(AmiFamily::Al2023).render());
    let full = Case { kubelet: full_kubelet(), joins_disks: true, ..case(AmiFamily::Al2023) };
    insta::assert_snapshot!("al2023_full", full.render());
    let wrong = Case { ca_bundle: Some("no base64!"), ..case(AmiFamily::Al2023) };
    assert_eq!(wrong.try_render(), Err(UserDataError::CaBundle));
}

/// AWS-175, AWS-264, AC-204, AC-205: documents and scripts of the user before ours.
#[test]
fn al2023_with_custom_data() {
    let document =
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 42";
    let both = Case { custom: Some(document), ..case(AmiFamily::Al2023) }.render();
    let (first, second) = both.split_once("# Karpenter Generated NodeConfig").unwrap();
    assert!(first.contains("Content-Type: application/node.eks.aws\n\napiVersion") && first.contains("maxPods: 42"));
    assert!(second.contains("maxPods: 110"));
    let script = Case { custom: Some("#!/bin/bash\necho hi"), ..case(AmiFamily::Al2023) }.render();
    assert_eq!(script.matches("Content-Type: text/x-shellscript").count(), 1);
    assert_eq!(script.matches("Content-Type: application/node.eks.aws").count(), 1);
    let archive = Case { custom: Some(ARCHIVE), ..case(AmiFamily::Al2023) }.render();
    assert_eq!(archive.matches("\n--//\n").count(), 3);
    assert!(archive.ends_with("--//--\n"));
}

/// AWS-177, AC-208: without the range of services there is nothing to tell the node.
#[test]
fn al2023_needs_the_service_range() {
    let (cluster, labels) = (Cluster::default(), BTreeMap::new());
    let bootstrap = Bootstrap {
        cluster: &cluster,
        kubelet: None,
        pods: 29,
        labels: &labels,
        taints: &[],
        custom: None,
        joins_disks: false,
        image: ImageVersion::Unknown,
    };
    assert_eq!(render(AmiFamily::Al2023, &bootstrap), Err(UserDataError::NoServiceCidr));
    assert!(render(AmiFamily::Al2, &bootstrap).is_ok_and(|rendered| !rendered.text.contains("--node-labels")));
}

/// AWS-178, AC-209, AC-211, AC-212, AC-213, AWS-179.
#[test]
fn bottlerocket() {
    insta::assert_snapshot!("bottlerocket_plain", case(AmiFamily::Bottlerocket).render());
    let custom = r#"
        top = 1
        [other]
        x = 1
        [settings.network]
        hostname = "node"
        [settings.kubernetes]
        node-taints = { mine = ["x:NoSchedule"] }
        eviction-hard = { "memory.available" = "15%" }
        system-reserved = { cpu = "9" }
        unheard-of = true
        static-pods = {}
        [settings.kubernetes.node-labels]
        a = "theirs"
        b = "2"
        [settings.bootstrap-commands."111-own"]
        commands = [["echo"]]
        essential = false
        mode = "once"
    "#;
    let kubelet = json!({"systemReserved": {"cpu": "100m"}, "podsPerCore": 3, "clusterDNS": ["10.9.9.9", "10.9.9.8"]});
    let merged = Case { custom: Some(custom), kubelet, joins_disks: true, ..case(AmiFamily::Bottlerocket) };
    let rendered = merged.try_render().unwrap();
    assert_eq!(rendered.dropped, ["unheard-of"]);
    insta::assert_snapshot!("bottlerocket_merged", rendered.text);
    insta::assert_snapshot!(
        "bottlerocket_full",
        Case { kubelet: full_kubelet(), ..case(AmiFamily::Bottlerocket) }.render()
    );
}

/// AWS-180, AC-213, AC-210: joined disks by the age of the image; what is no TOML is refused, without showing it.
#[test]
fn bottlerocket_disks_and_errors() {
    let bound = |image| {
        Case { joins_disks: true, image, ..case(AmiFamily::Bottlerocket) }.render().contains("/var/lib/kubelet")
    };
    assert!(bound(ImageVersion::Known { major: 1, minor: 45 }) && bound(ImageVersion::Unknown));
    assert!(!bound(ImageVersion::Known { major: 1, minor: 46 }) && !bound(ImageVersion::Latest));
    for (custom, says) in [
        ("[settings]\nsecret = = 1", "line 2"),
        ("settings = 3", "settings is not a table"),
        ("[settings]\nkubernetes = 'x'", "kubernetes is not a table"),
        ("#!/bin/bash", "line"),
    ] {
        let result = Case { custom: Some(custom), ..case(AmiFamily::Bottlerocket) }.try_render();
        if custom.starts_with('#') {
            assert!(result.is_ok(), "a comment is TOML");
            continue;
        }
        let error = result.unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("secret"), "{error}");
    }
}

/// AWS-182, AC-214.
#[test]
fn windows() {
    insta::assert_snapshot!("windows_plain", case(AmiFamily::Windows2022).render());
    let full = Case { kubelet: full_kubelet(), ..case(AmiFamily::Windows2025) };
    insta::assert_snapshot!("windows_full", full.render());
    let custom = Case { custom: Some("Write-Host 'hi'"), joins_disks: true, ..case(AmiFamily::Windows2019) }.render();
    assert!(custom.starts_with("<powershell>\nWrite-Host 'hi'\n[string]$EKSBootstrapScriptFile"), "{custom}");
    assert_eq!(custom.matches("<powershell>").count(), 1);
}

/// AWS-183, AWS-264, AC-215: what the user brings, to the byte.
#[test]
fn custom() {
    let text = "#!/bin/bash\r\n  whatever ";
    let rendered =
        Case { custom: Some(text), kubelet: full_kubelet(), ..case(AmiFamily::Custom) }.try_render().unwrap();
    assert_eq!((rendered.text.as_str(), rendered.base64().as_str()), (text, "IyEvYmluL2Jhc2gNCiAgd2hhdGV2ZXIg"));
    assert_eq!(case(AmiFamily::Custom).render(), "");
}

/// AC-92, AC-93: several DNS addresses and pods per core, as far as a family can tell its nodes.
#[test]
fn settings_that_not_every_family_has() {
    for (family, both, per_core) in [
        (AmiFamily::Al2, false, true),
        (AmiFamily::Al2023, true, true),
        (AmiFamily::Bottlerocket, false, false),
        (AmiFamily::Windows2022, false, true),
    ] {
        let text = Case { kubelet: full_kubelet(), ..case(family) }.render();
        assert!(text.contains("10.9.9.9"), "{family}");
        assert_eq!(text.contains("10.9.9.8"), both, "{family}");
        assert_eq!(text.to_lowercase().replace('-', "").contains("podspercore"), per_core, "{family}");
    }
}

/// AWS-86, AC-206: settings of an open definition reach nodes as they are.
#[test]
fn other_settings_are_told_as_they_are() {
    let kubelet = json!({
        "serializeImagePulls": false,
        "topologyManagerPolicy": "best-effort",
        "containerLogMaxSize": "50Mi",
        "memorySwap": {"swapBehavior": "NoSwap"},
    });
    let text = Case { kubelet, ..case(AmiFamily::Al2023) }.render();
    for line in [
        "serializeImagePulls: false",
        "topologyManagerPolicy: best-effort",
        "containerLogMaxSize: 50Mi",
        "swapBehavior: NoSwap",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
