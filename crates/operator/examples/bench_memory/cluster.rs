//! Objects as an API server serves them, made when they are asked for.

use std::fmt::Write as _;

/// Three tenths of the pods are in DaemonSets, one twentieth in StatefulSets, the others in deployments of a hundred.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
}

const DAEMONS: usize = 4;
const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];

impl Cluster {
    pub(crate) fn count(self, kind: &str) -> usize {
        match kind {
            "pods" => self.pods,
            "nodes" | "nodeclaims" => self.nodes,
            "nodepools" | "kwoknodeclasses" => 1,
            "namespaces" => 20,
            "daemonsets" => DAEMONS,
            _ => 0,
        }
    }

    pub(crate) fn object(self, kind: &str, number: usize) -> String {
        match kind {
            "pods" => self.pod(number, 0),
            "nodes" => Self::node(number),
            "nodeclaims" => Self::claim(number),
            "nodepools" => POOL.to_owned(),
            "kwoknodeclasses" => CLASS.to_owned(),
            "namespaces" => format!(
                r#"{{"metadata":{{"name":"team-{number}","uid":"ns-{number}","resourceVersion":"1","labels":{{"kubernetes.io/metadata.name":"team-{number}"}}}},"spec":{{}},"status":{{"phase":"Active"}}}}"#
            ),
            _ => daemon_set(number),
        }
    }

    /// `version` 0 is the one on the list; events bring others.
    pub(crate) fn pod(self, number: usize, version: usize) -> String {
        let node = number % self.nodes;
        let nth = number / self.nodes;
        let (name, app, owner) = if nth < DAEMONS {
            (format!("agent-{nth}-{number:x}"), format!("agent-{nth}"), ("DaemonSet", format!("agent-{nth}")))
        } else if number.is_multiple_of(20) {
            (
                format!("db-{}-{}", number / 200, number % 200),
                format!("db-{}", number / 200),
                ("StatefulSet", format!("db-{}", number / 200)),
            )
        } else {
            let app = number / 100;
            let hash = format!("{:x}", app * 2_654_435_761 % 0xffff_ffff);
            (
                format!("web-{app}-{hash}-{:05x}", number % 100 * 7919),
                format!("web-{app}"),
                ("ReplicaSet", format!("web-{app}-{hash}")),
            )
        };
        let mut text = String::with_capacity(5000);
        let uid = format!(
            "{:08x}-{:04x}-4000-8000-{:012x}",
            number.wrapping_mul(2_654_435_761) & 0xffff_ffff,
            number & 0xffff,
            number
        );
        let namespace = number / 100 % 20;
        let (kind, owner_name) = owner;
        let extra = if kind == "StatefulSet" {
            format!(
                r#","statefulset.kubernetes.io/pod-name":"{name}","apps.kubernetes.io/pod-index":"{}""#,
                number % 200
            )
        } else {
            String::new()
        };
        let affinity = match kind {
            "DaemonSet" => format!(
                r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"In","values":["node-{node}"]}}]}}]}}}}}},"#
            ),
            _ => format!(
                r#""topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{{"matchLabels":{{"app":"{app}"}}}}}}],"#
            ),
        };
        let ready = if version.is_multiple_of(2) { "True" } else { "False" };
        let (cpu, memory) = (100 + number / 100 % 7 * 50, 128 + number / 100 % 5 * 128);
        let _ = write!(
            text,
            r#"{{"metadata":{{"name":"{name}","generateName":"{app}-","namespace":"team-{namespace}","uid":"{uid}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"{app}","app.kubernetes.io/part-of":"shop","app.kubernetes.io/managed-by":"Helm","pod-template-hash":"{owner_name}"{extra}}},"annotations":{{"cni.example.com/podIP":"10.{}.{}.{}/32","prometheus.io/scrape":"true"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"{kind}","name":"{owner_name}","uid":"{owner_name}-uid","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:pod-template-hash":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner_name}-uid\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"app\"}}":{{".":{{}},"f:image":{{}},"f:name":{{}},"f:resources":{{".":{{}},"f:limits":{{".":{{}},"f:memory":{{}}}},"f:requests":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}}}}}}}},"f:dnsPolicy":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:terminationGracePeriodSeconds":{{}}}}}}}}]}},"#,
            1000 + number + version * self.pods,
            number >> 16 & 255,
            number >> 8 & 255,
            number & 255,
        );
        let _ = write!(
            text,
            r#""spec":{{"volumes":[{{"name":"kube-api-access-{number:05x}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}},{{"name":"config","configMap":{{"name":"{app}","defaultMode":420}}}}],"containers":[{{"name":"app","image":"registry.example.com/shop/{app}:v1.2.3","ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}},{{"name":"LOG_LEVEL","value":"info"}}],"resources":{{"limits":{{"memory":"{memory}Mi"}},"requests":{{"cpu":"{cpu}m","memory":"{memory}Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/app"}},{{"name":"kube-api-access-{number:05x}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":"http","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-{node}",{affinity}"securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"#
        );
        let _ = write!(
            text,
            r#""status":{{"phase":"Running","conditions":[{{"type":"PodReadyToStartContainers","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:03Z"}},{{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:01Z"}},{{"type":"Ready","status":"{ready}","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:05Z"}},{{"type":"ContainersReady","status":"{ready}","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:05Z"}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:01Z"}}],"hostIP":"10.1.{}.{}","podIP":"10.2.{}.{}","startTime":"2026-01-01T00:00:01Z","containerStatuses":[{{"name":"app","state":{{"running":{{"startedAt":"2026-01-01T00:00:04Z"}}}},"lastState":{{}},"ready":true,"restartCount":{version},"image":"registry.example.com/shop/{app}:v1.2.3","imageID":"registry.example.com/shop/{app}@sha256:2f0c7f{number:058x}","containerID":"containerd://{number:064x}","started":true,"allocatedResources":{{"cpu":"{cpu}m","memory":"{memory}Mi"}},"resources":{{"limits":{{"memory":"{memory}Mi"}},"requests":{{"cpu":"{cpu}m","memory":"{memory}Mi"}}}}}}],"qosClass":"Burstable"}}}}"#,
            node >> 8 & 255,
            node & 255,
            number >> 8 & 255,
            number & 255,
        );
        text
    }

    fn node(number: usize) -> String {
        let zone = ZONES[number % 3];
        let mut images = String::new();
        for image in 0..50 {
            let _ = write!(
                images,
                r#"{}{{"names":["registry.example.com/shop/image-{image}@sha256:{image:064x}","registry.example.com/shop/image-{image}:v1"],"sizeBytes":{}}}"#,
                if image > 0 { "," } else { "" },
                1000 * image
            );
        }
        let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|name| {
            let status = if name == "Ready" { "True" } else { "False" };
            format!(r#"{{"type":"{name}","status":"{status}","lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Kubelet{name}","message":"kubelet has said so"}}"#)
        });
        format!(
            r#"{{"metadata":{{"name":"node-{number}","uid":"node-uid-{number:024}","resourceVersion":"{}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{{},"kubernetes.io/hostname":"node-{number}","karpenter.sh/registered":"true","karpenter.sh/initialized":"true"}},"annotations":{{"node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true","csi.volume.kubernetes.io/nodeid":"{{\"ebs.csi.example.com\":\"i-{number:017x}\"}}","karpenter.sh/nodepool-hash":"1","karpenter.sh/nodepool-hash-version":"v3"}},"finalizers":["karpenter.sh/termination"],"ownerReferences":[{{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","name":"claim-{number}","uid":"claim-uid-{number}","blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"Ready\"}}":{{"f:lastHeartbeatTime":{{}},"f:lastTransitionTime":{{}},"f:message":{{}},"f:reason":{{}},"f:status":{{}}}}}},"f:images":{{}}}}}}}}]}},"spec":{{"podCIDR":"10.0.0.0/24","providerID":"kwok://node-{number}"}},"status":{{"capacity":{RESOURCES},"allocatable":{RESOURCES},"conditions":[{}],"addresses":[{{"type":"InternalIP","address":"10.1.{}.{}"}},{{"type":"Hostname","address":"node-{number}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":10250}}}},"nodeInfo":{{"machineID":"{number:032x}","systemUUID":"{number:032x}","bootID":"{number:032x}","kernelVersion":"6.12","osImage":"Linux","containerRuntimeVersion":"containerd://2.1","kubeletVersion":"v1.35.4","kubeProxyVersion":"v1.35.4","operatingSystem":"linux","architecture":"amd64"}},"images":[{images}]}}}}"#,
            2000 + number,
            labels(number, zone),
            conditions.join(","),
            number >> 8 & 255,
            number & 255,
        )
    }

    fn claim(number: usize) -> String {
        let zone = ZONES[number % 3];
        let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(|name| {
            format!(r#"{{"type":"{name}","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"{name}","message":"","observedGeneration":1}}"#)
        });
        format!(
            r#"{{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{{"name":"claim-{number}","generateName":"default-","uid":"claim-uid-{number}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{{{}}},"annotations":{{"karpenter.sh/nodepool-hash-version":"v3"}},"finalizers":["karpenter.sh/termination"],"ownerReferences":[{{"apiVersion":"karpenter.sh/v1","kind":"NodePool","name":"default","uid":"pool-uid","blockOwnerDeletion":true}}],"managedFields":[]}},"spec":{{"nodeClassRef":{{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}},"requirements":[{{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}},{{"key":"node.kubernetes.io/instance-type","operator":"In","values":["c-16x-amd64-linux","c-32x-amd64-linux","m-16x-amd64-linux","m-32x-amd64-linux","s-16x-amd64-linux","s-32x-amd64-linux"]}},{{"key":"karpenter.sh/nodepool","operator":"In","values":["default"]}}],"resources":{{"requests":{{"cpu":"12","memory":"20Gi","pods":"30"}}}},"expireAfter":"Never"}},"status":{{"providerID":"kwok://node-{number}","nodeName":"node-{number}","capacity":{RESOURCES},"allocatable":{RESOURCES},"conditions":[{}],"lastPodEventTime":"2026-01-01T00:00:06Z"}}}}"#,
            3000 + number,
            labels(number, zone),
            conditions.join(","),
        )
    }
}

const RESOURCES: &str =
    r#"{"cpu":"16","memory":"64Gi","ephemeral-storage":"100Gi","pods":"110","hugepages-1Gi":"0","hugepages-2Mi":"0"}"#;

/// Nothing is to be done in this cluster: memory at rest is measured, and what an event costs.
const POOL: &str = r#"{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"default","uid":"pool-uid","resourceVersion":"5","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"template":{"spec":{"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"},"requirements":[]}},"disruption":{"consolidateAfter":"Never","budgets":[{"nodes":"0"}]}}}"#;

const CLASS: &str = r#"{"apiVersion":"karpenter.kwok.sh/v1alpha1","kind":"KWOKNodeClass","metadata":{"name":"default","uid":"class-uid","resourceVersion":"6","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Ready","message":""}]}}"#;

fn labels(number: usize, zone: &str) -> String {
    format!(
        r#""karpenter.sh/nodepool":"default","karpenter.sh/capacity-type":"on-demand","karpenter.kwok.sh/kwoknodeclass":"default","kubernetes.io/arch":"amd64","kubernetes.io/os":"linux","beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","node.kubernetes.io/instance-type":"s-16x-amd64-linux","topology.kubernetes.io/zone":"{zone}","topology.kubernetes.io/region":"test","karpenter.kwok.sh/instance-cpu":"16","karpenter.kwok.sh/instance-memory":"65536","karpenter.kwok.sh/instance-family":"s","karpenter.kwok.sh/instance-size":"16x","example.com/rack":"rack-{}""#,
        number % 200
    )
}

fn daemon_set(number: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"agent-{number}","namespace":"team-0","uid":"ds-{number}","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"selector":{{"matchLabels":{{"app":"agent-{number}"}}}},"template":{{"metadata":{{"labels":{{"app":"agent-{number}"}}}},"spec":{{"containers":[{{"name":"app","resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}}}}}}]}}}}}}}}"#
    )
}
