//! Small clusters and pods to place on them, the same for the same numbers.

use karpenter_sim::scheduler::Key;
use serde_json::{Map, Value, json};

pub(super) struct Case {
    /// The first is where most pods are.
    pub(super) namespaces: Vec<Value>,
    pub(super) nodes: Vec<Value>,
    pub(super) csi_nodes: Vec<Value>,
    pub(super) classes: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) claims: Vec<Value>,
    /// Pods that are on a node from the start, whoever put them there.
    pub(super) present: Vec<Value>,
    pub(super) budgets: Vec<Value>,
    pub(super) steps: Vec<Step>,
}

pub(super) const PRIORITIES: [(&str, i32); 4] = [("low", 10), ("middle", 20), ("upper", 30), ("top", 1000)];

/// Nodes full of pods of different priorities, and important pods that want in.
pub(super) fn crowded_case(seed: u64, number: u64) -> Case {
    let mut chance = Chance(seed.wrapping_mul(0xA076_1D64_78BD_642F) ^ number.wrapping_mul(0xE703_7ED1_A0B4_28DB));
    let c = &mut chance;
    let namespace = format!("crowd-{number}");
    let names: Vec<_> = (0..c.between(1, 4)).map(|i| format!("crowd-{number}-{i}")).collect();
    let node = |name: &String| {
        let room = json!({"cpu": "2", "memory": "4Gi", "pods": "10"});
        let labels = json!({"kubernetes.io/hostname": name});
        json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}})
    };
    let nodes = names.iter().map(node).collect();
    let mut present = Vec::new();
    for name in &names {
        for _ in 0..c.between(1, 5) {
            let index = present.len();
            let requests = json!({"cpu": c.pick(&["200m", "500m", "900m"])});
            let class = PRIORITIES[usize::try_from(c.between(0, 2)).unwrap()].0;
            let mut pod = json!({
                "metadata": {"name": format!("present-{index}"), "namespace": namespace, "labels": {"app": c.pick(&["a", "b", "c"])}},
                "spec": {
                    "nodeName": name, "priorityClassName": class,
                    "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
                },
                // All different, so that there is never a tie.
                "status": {"startTime": format!("2026-01-01T00:{:02}:{:02}Z", c.between(0, 59), index)},
            });
            if c.percent(15) {
                let apart = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "top"}}}]);
                pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = apart;
            }
            present.push(pod);
        }
    }
    let mut budgets = Vec::new();
    for app in ["a", "b"] {
        if c.percent(40) {
            budgets.push(json!({
                "metadata": {"name": app, "namespace": namespace},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
                "status": {
                    "disruptionsAllowed": c.between(0, 1), "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                },
            }));
        }
    }
    let mut steps = Vec::new();
    for i in 0..2 {
        let requests = json!({"cpu": c.pick(&["500m", "1", "1500m", "2", "3"])});
        let class = c.pick(&["middle", "upper", "top", "top", "top"]);
        let mut pod = json!({
            "metadata": {"name": format!("new-{i}"), "namespace": namespace, "labels": {"app": "top"}},
            "spec": {
                "priorityClassName": class,
                "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
            },
        });
        if c.percent(20) {
            let apart =
                json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]);
            pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = apart;
        }
        steps.push(Step::Place(pod));
    }
    Case {
        namespaces: vec![json!({"metadata": {"name": namespace}})],
        nodes,
        present,
        budgets,
        steps,
        csi_nodes: Vec::new(),
        classes: Vec::new(),
        volumes: Vec::new(),
        claims: Vec::new(),
    }
}

pub(super) enum Step {
    Place(Value),
    /// With this many seconds of grace; there is no kubelet, so a pod with any stays and is going.
    Remove(Key, u32),
}

/// What the pods of a case are about; everything else is sprinkled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    Resources,
    Nodes,
    Affinity,
    Spread,
    Ports,
    Volumes,
    Mixed,
}

const THEMES: [Theme; 9] = [
    Theme::Resources,
    Theme::Nodes,
    Theme::Affinity,
    Theme::Spread,
    Theme::Ports,
    Theme::Volumes,
    Theme::Spread,
    Theme::Affinity,
    Theme::Mixed,
];

pub(super) fn case(seed: u64, number: u64) -> Case {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03));
    let theme = THEMES[usize::try_from(number).unwrap() % THEMES.len()];
    let mut maker = Maker { chance: &mut chance, theme, number };
    let nodes: Vec<_> = (0..maker.chance.between(1, 5)).map(|i| maker.node(i)).collect();
    let (classes, volumes, claims, csi_nodes) = maker.storage(&nodes);
    let present = (0..maker.chance.between(0, 4)).map(|i| maker.present(i, &nodes)).collect();
    let mut steps = Vec::new();
    for i in 0..maker.chance.between(3, 8) {
        if i > 2 && maker.chance.percent(20) {
            let key = Key { namespace: maker.namespace(0), name: format!("pod-{}", maker.chance.between(0, i)) };
            steps.push(Step::Remove(key, maker.chance.pick(&[0, 30])));
        }
        let pod = maker.pod(&format!("pod-{i}"), &nodes);
        steps.push(Step::Place(pod));
    }
    let namespaces = (0..2)
        .map(|i| json!({"metadata": {"name": maker.namespace(i), "labels": {"team": if i == 0 { "red" } else { "blue" }}}}))
        .collect();
    let budgets = Vec::new();
    Case { namespaces, nodes, csi_nodes, classes, volumes, claims, present, budgets, steps }
}

struct Maker<'a> {
    chance: &'a mut Chance,
    theme: Theme,
    number: u64,
}

impl Maker<'_> {
    fn namespace(&self, index: u64) -> String {
        format!("case-{}-{index}", self.number)
    }

    /// Mostly what the case is about, now and then something else.
    fn about(&mut self, theme: Theme) -> bool {
        let percent = if self.theme == theme {
            70
        } else if self.theme == Theme::Mixed {
            30
        } else {
            6
        };
        self.chance.percent(percent)
    }

    fn node(&mut self, index: u64) -> Value {
        let name = format!("node-{}-{index}", self.number);
        let mut labels = Map::new();
        labels.insert("kubernetes.io/hostname".into(), json!(name));
        if self.chance.percent(90) {
            labels.insert("topology.kubernetes.io/zone".into(), json!(self.chance.pick(&["a", "b", "c"])));
        }
        labels.insert("disk".into(), json!(self.chance.pick(&["ssd", "hdd"])));
        labels.insert("cores".into(), json!(self.chance.pick(&["2", "4", "8", "many"])));
        let mut taints = Vec::new();
        let tainted = if self.theme == Theme::Nodes { 60 } else { 20 };
        if self.chance.percent(tainted) {
            for _ in 0..self.chance.between(1, 2) {
                let effect = self.chance.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
                let key = self.chance.pick(&["dedicated", "gpu"]);
                let value = self.chance.pick(&["x", "y"]);
                let taint = json!({"key": key, "value": value, "effect": effect});
                if !taints.iter().any(|t: &Value| t["key"] == taint["key"] && t["effect"] == taint["effect"]) {
                    taints.push(taint);
                }
            }
        }
        let mut allocatable = json!({
            "cpu": self.chance.pick(&["1", "2", "1500m", "4"]),
            "memory": self.chance.pick(&["1Gi", "2Gi", "3000M"]),
            "ephemeral-storage": "4Gi",
            "pods": self.chance.pick(&["2", "10", "10", "10"]),
        });
        if self.chance.percent(40) {
            allocatable["example.com/gpu"] = json!(self.chance.pick(&["1", "2"]));
        }
        if self.chance.percent(20) {
            allocatable["hugepages-2Mi"] = json!("8Mi");
        }
        json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": self.chance.percent(5)},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        })
    }

    fn present(&mut self, index: u64, nodes: &[Value]) -> Value {
        let mut pod = self.pod(&format!("present-{index}"), &[]);
        let node = &nodes[usize::try_from(self.chance.between(0, nodes.len() as u64 - 1)).unwrap()];
        pod["spec"]["nodeName"] = node["metadata"]["name"].clone();
        // Claims stay for the pods to be placed, so that each has a say.
        pod["spec"].as_object_mut().unwrap().remove("volumes");
        pod
    }

    fn pod(&mut self, name: &str, nodes: &[Value]) -> Value {
        // Mostly one application, so that its pods meet.
        let app = self.chance.pick(&["web", "web", "web", "db", "job"]);
        let mut labels = json!({"app": app, "version": self.chance.pick(&["1", "2"])});
        if self.chance.percent(10) {
            labels = json!({});
        }
        let elsewhere = u64::from(self.chance.percent(15));
        let namespace = self.namespace(elsewhere);
        let mut container = json!({"name": "main", "image": "none", "resources": {"requests": self.requests()}});
        if self.about(Theme::Ports) {
            container["ports"] = self.ports();
        }
        let mut spec = json!({"containers": [container]});
        if self.about(Theme::Resources) {
            self.shape(&mut spec);
        }
        if self.about(Theme::Nodes) {
            self.choose_nodes(&mut spec, nodes);
        }
        if self.about(Theme::Nodes) || self.chance.percent(20) {
            spec["tolerations"] = self.tolerations();
        }
        if self.about(Theme::Affinity) {
            let kind = self.chance.pick(&["podAffinity", "podAntiAffinity", "podAntiAffinity"]);
            let terms: Vec<_> = (0..self.chance.pick(&[1, 1, 2])).map(|_| self.affinity_term()).collect();
            spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] = json!(terms);
        }
        if self.about(Theme::Spread) {
            let mut constraints: Vec<Value> = Vec::new();
            for _ in 0..self.chance.pick(&[1, 1, 2]) {
                let constraint = self.spread_constraint();
                let key = |c: &Value| (c["topologyKey"].clone(), c["whenUnsatisfiable"].clone());
                if !constraints.iter().any(|c| key(c) == key(&constraint)) {
                    constraints.push(constraint);
                }
            }
            spec["topologySpreadConstraints"] = json!(constraints);
        }
        if self.theme == Theme::Volumes && self.chance.percent(80) && namespace == self.namespace(0) {
            let claims = if self.chance.percent(20) { 2 } else { 1 };
            let volumes: Vec<_> = (0..claims)
                .map(|i| json!({"name": format!("v{i}"), "persistentVolumeClaim": {"claimName": self.claim_name()}}))
                .collect();
            spec["volumes"] = json!(volumes);
        }
        json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec})
    }

    fn requests(&mut self) -> Value {
        let mut requests = Map::new();
        let heavy = self.theme == Theme::Resources;
        if self.chance.percent(if heavy { 80 } else { 30 }) {
            requests.insert("cpu".into(), json!(self.chance.pick(&["100m", "500m", "750m", "1", "2"])));
        }
        if self.chance.percent(if heavy { 60 } else { 20 }) {
            requests.insert("memory".into(), json!(self.chance.pick(&["128Mi", "600M", "1Gi", "0.5Gi", "2Gi"])));
        }
        if heavy && self.chance.percent(25) {
            requests.insert("ephemeral-storage".into(), json!(self.chance.pick(&["1Gi", "3Gi", "5Gi"])));
        }
        json!(requests)
    }

    /// Init containers, sidecars, requests of the whole pod, extended resources, huge pages.
    fn shape(&mut self, spec: &mut Value) {
        match self.chance.between(0, 5) {
            0 => {
                spec["initContainers"] = json!([
                    {"name": "first", "image": "none", "resources": {"requests": self.requests()}},
                    {"name": "side", "image": "none", "restartPolicy": "Always", "resources": {"requests": self.requests()}},
                    {"name": "last", "image": "none", "resources": {"requests": self.requests()}},
                ]);
            }
            1 => {
                // Not less than what the containers ask for, which the API server would refuse.
                spec["resources"] = json!({"requests": {"cpu": "2", "memory": "2Gi"}});
            }
            2 => {
                let gpus = self.chance.pick(&["1", "2"]);
                let resources = &mut spec["containers"][0]["resources"];
                resources["requests"]["example.com/gpu"] = json!(gpus);
                resources["limits"] = json!({"example.com/gpu": gpus});
            }
            3 => {
                let resources = &mut spec["containers"][0]["resources"];
                resources["requests"]["cpu"] = json!("100m");
                resources["requests"]["hugepages-2Mi"] = json!("4Mi");
                resources["limits"] = json!({"hugepages-2Mi": "4Mi"});
            }
            4 => {
                let more = json!({"name": "second", "image": "none", "resources": {"requests": self.requests()}});
                spec["containers"].as_array_mut().unwrap().push(more);
            }
            _ => {
                spec["containers"][0]["resources"]["limits"] = json!({"cpu": "3"});
            }
        }
    }

    fn choose_nodes(&mut self, spec: &mut Value, nodes: &[Value]) {
        if self.chance.percent(40) {
            spec["nodeSelector"] = json!({"disk": self.chance.pick(&["ssd", "hdd", "nvme"])});
        }
        if self.chance.percent(50) {
            let terms: Vec<_> = (0..self.chance.between(1, 2)).map(|_| self.node_term(nodes)).collect();
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        if self.chance.percent(20) {
            let term = self.node_term(&[]);
            spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": 50, "preference": term}]);
        }
    }

    fn node_term(&mut self, nodes: &[Value]) -> Value {
        let zone = "topology.kubernetes.io/zone";
        let expression = match self.chance.between(0, 6) {
            0 => json!({"key": zone, "operator": "In", "values": ["a", "b"]}),
            1 => json!({"key": zone, "operator": "NotIn", "values": ["a"]}),
            2 => json!({"key": "cores", "operator": "Gt", "values": [self.chance.pick(&["2", "4"])]}),
            3 => json!({"key": "cores", "operator": "Lt", "values": ["8"]}),
            4 => json!({"key": zone, "operator": self.chance.pick(&["Exists", "DoesNotExist"])}),
            5 if !nodes.is_empty() => {
                let name = nodes[0]["metadata"]["name"].clone();
                let operator = self.chance.pick(&["In", "In", "NotIn"]);
                return json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]});
            }
            _ => json!({"key": "disk", "operator": "In", "values": ["ssd"]}),
        };
        json!({"matchExpressions": [expression]})
    }

    fn tolerations(&mut self) -> Value {
        let all: Vec<_> = (0..self.chance.between(1, 2)).map(|_| self.toleration()).collect();
        json!(all)
    }

    fn toleration(&mut self) -> Value {
        match self.chance.between(0, 4) {
            0 => json!({"operator": "Exists"}),
            1 => json!({"key": "dedicated", "operator": "Equal", "value": self.chance.pick(&["x", "y"])}),
            2 => json!({"key": "gpu", "operator": "Exists", "effect": self.chance.pick(&["NoSchedule", "NoExecute"])}),
            3 => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}),
            _ => json!({"key": "gpu", "value": "x", "effect": "NoSchedule"}),
        }
    }

    fn topology_key(&mut self) -> &'static str {
        self.chance.pick(&[
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
            "topology.kubernetes.io/zone",
            "disk",
        ])
    }

    fn selector(&mut self) -> Value {
        match self.chance.between(0, 6) {
            0 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
            1 => json!({"matchExpressions": [{"key": "version", "operator": "Exists"}]}),
            2 => json!({}),
            _ => json!({"matchLabels": {"app": self.chance.pick(&["web", "web", "db", "job"])}}),
        }
    }

    fn affinity_term(&mut self) -> Value {
        let mut term = json!({"topologyKey": self.topology_key(), "labelSelector": self.selector()});
        match self.chance.between(0, 9) {
            0 => term["namespaceSelector"] = json!({"matchLabels": {"team": "blue"}}),
            1 => term["namespaceSelector"] = json!({}),
            2 => term["namespaces"] = json!([self.namespace(0), self.namespace(1)]),
            3 => term["matchLabelKeys"] = json!(["version"]),
            4 => term["mismatchLabelKeys"] = json!(["version"]),
            5 => _ = term.as_object_mut().unwrap().remove("labelSelector"),
            _ => {}
        }
        let uses_version = term["labelSelector"].to_string().contains("version");
        if uses_version {
            // The API server refuses a key that is in both.
            term.as_object_mut().unwrap().retain(|k, _| !k.ends_with("LabelKeys"));
        }
        term
    }

    fn spread_constraint(&mut self) -> Value {
        let when = if self.chance.percent(85) { "DoNotSchedule" } else { "ScheduleAnyway" };
        let mut constraint = json!({
            "topologyKey": self.topology_key(),
            "maxSkew": self.chance.pick(&[1, 1, 2]),
            "whenUnsatisfiable": when,
            "labelSelector": self.selector(),
        });
        if when == "DoNotSchedule" && self.chance.percent(25) {
            constraint["minDomains"] = json!(self.chance.between(1, 4));
        }
        if self.chance.percent(25) {
            constraint["nodeAffinityPolicy"] = json!(self.chance.pick(&["Honor", "Ignore"]));
        }
        if self.chance.percent(40) {
            constraint["nodeTaintsPolicy"] = json!(self.chance.pick(&["Honor", "Ignore"]));
        }
        if self.chance.percent(25) && !constraint["labelSelector"].to_string().contains("version") {
            constraint["matchLabelKeys"] = json!(["version"]);
        }
        constraint
    }

    fn ports(&mut self) -> Value {
        let port = self.chance.pick(&[80, 443]);
        let mut port = json!({"containerPort": port, "hostPort": port});
        if self.chance.percent(30) {
            port["protocol"] = json!("UDP");
        }
        if self.chance.percent(40) {
            port["hostIP"] = json!(self.chance.pick(&["10.0.0.1", "10.0.0.2", "0.0.0.0"]));
        }
        json!([port])
    }

    fn claim_name(&mut self) -> String {
        // Five that exist, and now and then one that does not.
        format!("claim-{}", if self.chance.percent(5) { 9 } else { self.chance.between(0, 4) })
    }

    /// Classes, volumes and claims: bound to a zone, local, made on demand, exclusive, never bound.
    fn storage(&mut self, nodes: &[Value]) -> (Vec<Value>, Vec<Value>, Vec<Value>, Vec<Value>) {
        if self.theme != Theme::Volumes {
            return Default::default();
        }
        let n = self.number;
        let class = |kind: &str, provisioner: &str, mode: &str| json!({"metadata": {"name": format!("{kind}-{n}")}, "provisioner": provisioner, "volumeBindingMode": mode});
        let mut classes = vec![
            class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            class("made", "csi.example.com", "WaitForFirstConsumer"),
            class("now", "csi.example.com", "Immediate"),
        ];
        if self.chance.percent(50) {
            classes[1]["allowedTopologies"] =
                json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a", "b"]}]}]);
        }
        let (mut volumes, mut claims) = (Vec::new(), Vec::new());
        for i in 0..5 {
            let name = format!("claim-{i}");
            let mode = self.chance.pick(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"]);
            let mut claim = json!({
                "metadata": {"name": name, "namespace": self.namespace(0)},
                "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
            });
            match self.chance.between(0, 9) {
                0 => claim["spec"]["storageClassName"] = json!(format!("local-{n}")),
                1 => claim["spec"]["storageClassName"] = json!(format!("made-{n}")),
                2 => claim["spec"]["storageClassName"] = json!(format!("now-{n}")),
                _ => {
                    let volume = format!("volume-{n}-{i}");
                    volumes.push(self.volume(&volume, &name, mode));
                    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
                    claim["spec"]["storageClassName"] = json!("");
                    claim["spec"]["volumeName"] = json!(if self.chance.percent(95) { volume } else { "gone".into() });
                }
            }
            claims.push(claim);
        }
        for (i, node) in nodes.iter().enumerate().take(2) {
            volumes.push(json!({
                "metadata": {"name": format!("local-{n}-{i}")},
                "spec": {
                    "capacity": {"storage": self.chance.pick(&["500Mi", "1Gi", "2Gi"])},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": format!("local-{n}"),
                    "local": {"path": "/none"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node["metadata"]["name"]]}
                    ]}]}},
                },
            }));
        }
        let mut csi_nodes = Vec::new();
        for node in nodes {
            if self.chance.percent(60) {
                let name = &node["metadata"]["name"];
                let count = self.chance.between(1, 2);
                csi_nodes.push(json!({"metadata": {"name": name}, "spec": {"drivers": [
                    {"name": "csi.example.com", "nodeID": name, "allocatable": {"count": count}}
                ]}}));
            }
        }
        (classes, volumes, claims, csi_nodes)
    }

    fn volume(&mut self, name: &str, claim: &str, mode: &str) -> Value {
        let mut volume = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": [mode],
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "claimRef": {"name": claim, "namespace": self.namespace(0)},
            },
        });
        let zone = self.chance.pick(&["a", "b", "c"]);
        match self.chance.between(0, 3) {
            0 => volume["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": zone}),
            1 => volume["metadata"]["labels"] = json!({"failure-domain.beta.kubernetes.io/zone": format!("{zone}__b")}),
            2 => {
                volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
                ]}]}});
            }
            _ => {}
        }
        volume
    }
}

/// SplitMix64: small, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.next() % all.len() as u64).unwrap()]
    }
}
