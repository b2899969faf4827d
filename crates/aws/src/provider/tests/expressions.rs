//! Amounts of the kubelet that are expressions: what pools see, and what nodes are told.

use karpenter_model::instance_type::InstanceType;
use karpenter_model::resources::{CPU, MEMORY, PODS};

use super::*;

async fn with_gate(gate: bool) -> World {
    World::with(ProviderSettings { kubelet_expressions: gate, ..settings() }, &TYPES).await
}

async fn of(world: &World, name: &str) -> InstanceType {
    let types = world.provider.instance_types(&pool()).await.unwrap();
    types.iter().find(|one| one.name == name).unwrap().clone()
}

fn expressions() -> Value {
    json!({"kubelet": {
        "maxPods": "min(250, default_enis * (ips_per_eni - 1) * 16 + 2)",
        "kubeReserved": {"cpu": "max(60, vcpus * 30)", "memory": "11 * max_pods + 255", "ephemeral-storage": "2Gi"},
        "systemReserved": {"memory": "memory_mib / 100", "pid": "1000"},
    }})
}

fn amounts(known: &InstanceType) -> [String; 5] {
    let overhead = &known.overhead;
    [
        known.capacity.amount(PODS).to_string(),
        overhead.kube_reserved.amount(CPU).to_string(),
        overhead.kube_reserved.amount(MEMORY).to_string(),
        overhead.kube_reserved.amount("ephemeral-storage").to_string(),
        overhead.system_reserved.amount(MEMORY).to_string(),
    ]
}

/// AWS-94, AWS-97, AWS-101, AC-98, AC-99: pools see what nodes are told, each type its own.
#[tokio::test(start_paused = true)]
async fn pools_and_nodes_have_the_same_numbers() {
    let world = with_gate(true).await;
    world.class(&expressions());
    // 3 interfaces of 10 addresses on 2 CPUs and 8 GiB; 4 of 15 on 4 CPUs and 16 GiB.
    assert_eq!(amounts(&of(&world, "m5.large").await), ["250", "60m", "3008Mi", "2Gi", "96Mi"]);
    assert_eq!(amounts(&of(&world, "m5.xlarge").await), ["250", "120m", "3008Mi", "2Gi", "176Mi"]);

    world.create(&claim("a", &["m5.large", "m5.xlarge"], &["on-demand"])).await.unwrap();
    let told = world.account.lock().user_data();
    assert_eq!(told.len(), 2, "distinct reservations are distinct templates");
    for (cpu, system) in [("60m", "96Mi"), ("120m", "176Mi")] {
        let lines = [
            "maxPods: 250".to_owned(),
            format!("cpu: {cpu}"),
            "memory: 3008Mi".to_owned(),
            "ephemeral-storage: 2Gi".to_owned(),
            format!("memory: {system}"),
        ];
        assert!(told.iter().any(|text| lines.iter().all(|line| text.contains(line))), "{lines:?} in {told:?}");
    }
    assert!(told.iter().all(|text| !text.contains("vcpus") && !text.contains("default_enis")), "{told:?}");
}

/// AWS-94, AC-157: without the gate expressions count for nothing, what is no expression stays.
#[tokio::test(start_paused = true)]
async fn without_the_gate_expressions_are_ignored() {
    let world = with_gate(false).await;
    world.class(&expressions());
    assert_eq!(amounts(&of(&world, "m5.large").await), ["29", "70m", "574Mi", "2Gi", "0"]);
    world.create(&claim("a", &["m5.large"], &["on-demand"])).await.unwrap();
    let [told] = &world.account.lock().user_data()[..] else { panic!("one template") };
    assert!(
        told.contains("maxPods: 29") && told.contains("ephemeral-storage: 2Gi") && told.contains("pid: "),
        "{told}"
    );
    assert!(!told.contains("vcpus") && !told.contains("memory_mib"), "{told}");
}

/// AWS-97, AWS-115, AC-156, AC-157: no list rather than one with defaults nobody asked for; corrected, there is one again.
#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_makes_no_list() {
    let world = with_gate(true).await;
    for (kubelet, why) in [
        (json!({"maxPods": "vcpus - 100"}), "not a number of pods"),
        (json!({"maxPods": "vcpus * 4000000000"}), "not a number of pods"),
        (json!({"maxPods": "vcpus / (vcpus - vcpus)"}), "Division by zero"),
        (json!({"podsPerCore": "two"}), "spec.kubelet.podsPerCore"),
        (json!({"evictionHard": {"memory.available": "much"}}), "spec.kubelet.evictionHard[memory.available]"),
    ] {
        world.class(&json!({"kubelet": kubelet}));
        let error = world.provider.instance_types(&pool()).await.unwrap_err();
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        assert!(text.contains(why), "{kubelet}: {text}");
        world.class(&json!({"kubelet": {"maxPods": "vcpus * 10"}}));
        assert_eq!(of(&world, "m5.large").await.capacity.amount(PODS).value(), 20);
    }
}

/// AWS-99, AC-96: entries that fail are left out, and validation says so for every type.
#[tokio::test(start_paused = true)]
async fn reserved_amounts_that_fail_are_left_out() {
    let world = with_gate(true).await;
    let spec = json!({"kubelet": {
        "kubeReserved": {"cpu": "0 - vcpus", "memory": "512Mi"},
        "systemReserved": {"memory": "vcpus / 0", "cpu": "vcpus > 2 ? 100 : 0 - 1"},
    }});
    world.class(&spec);
    let large = of(&world, "m5.large").await;
    assert_eq!(amounts(&large)[1..], ["70m", "512Mi", "1Gi", "0"], "the default for CPU, the given memory");
    assert_eq!(of(&world, "m5.xlarge").await.overhead.system_reserved.amount(CPU).to_string(), "100m");
    for (kubelet, want) in [
        (json!({"kubeReserved": {"cpu": "0 - vcpus"}}), "spec.kubelet.kubeReserved[cpu] for "),
        (json!({"systemReserved": {"memory": "vcpus / 0"}}), "spec.kubelet.systemReserved[memory] for "),
        (
            json!({"systemReserved": {"cpu": "vcpus > 2 ? 100 : 0 - 1"}}),
            "spec.kubelet.systemReserved[cpu] for c5.large: ",
        ),
        (json!({"maxPods": "110 - vcpus"}), "spec.kubelet.maxPods for p5.48xlarge: "),
    ] {
        let class = NodeClass::read(&ready_class(&json!({"kubelet": kubelet}), &json!({}))).unwrap();
        let said = world.provider.expressions_hold(&class).unwrap().unwrap_err();
        assert!(said.starts_with(want), "{said}");
    }
    let class = NodeClass::read(&ready_class(&expressions(), &json!({}))).unwrap();
    assert_eq!(world.provider.expressions_hold(&class), Some(Ok(())));
    let ignorant = provider(&world.account, &world.settings, &world.clock, &world.classes, &world.seen);
    assert_eq!(ignorant.expressions_hold(&class), None, "no types are known yet");
}
