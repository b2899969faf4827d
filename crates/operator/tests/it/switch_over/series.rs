//! What dashboards show of a cluster that nothing happens to.

use std::time::{Duration, Instant};

use crate::live::installed::{LIMIT, Replica};
use crate::live::scene::Scene;

/// API-187 to API-212, AWS-236, V15-17: starts of lines, each with what must also stand in it.
const SERIES: &[(&str, &[&str])] = &[
    ("karpenter_build_info{", &["version=", "goversion=", "goarch=", "commit="]),
    (
        "karpenter_nodes_allocatable{",
        &["nodepool=\"default\"", "resource_type=\"cpu\"", "managed=\"true\"", "zone=", "} 2"],
    ),
    ("karpenter_nodes_total_pod_requests{", &["nodepool=\"spot\"", "resource_type=\"cpu\"", "} 1.55"]),
    ("karpenter_nodes_total_pod_limits{", &["nodepool=\"spot\""]),
    ("karpenter_nodes_total_daemon_requests{", &["nodepool=\"spot\"", "resource_type=\"cpu\"", "} 0.05"]),
    ("karpenter_nodes_total_daemon_limits{", &["nodepool=\"spot\""]),
    ("karpenter_nodes_system_overhead{", &["nodepool=\"default\"", "resource_type=\"memory\""]),
    ("karpenter_nodes_current_lifetime_seconds{", &["nodepool=\"default\"", "instance_type=\"m5.large\""]),
    ("karpenter_cluster_utilization_percent{", &["resource_type=\"cpu\""]),
    ("karpenter_nodepools_limit{", &["resource_type=\"cpu\"", "nodepool=\"default\"", "} 100"]),
    ("karpenter_nodepools_usage{", &["resource_type=\"cpu\"", "nodepool=\"default\"", "} 4"]),
    ("karpenter_nodepools_usage{", &["resource_type=\"nodes\"", "nodepool=\"spot\"", "} 1"]),
    ("karpenter_nodepools_cost_total{", &["nodepool=\"default\"", "} 0.192"]),
    ("karpenter_nodepools_cost_total{", &["nodepool=\"spot\""]),
    ("karpenter_nodepools_allowed_disruptions{", &["nodepool=\"default\"", "reason=\"underutilized\"", "} 1"]),
    ("karpenter_nodepools_allowed_disruptions{", &["nodepool=\"default\"", "reason=\"drifted\"", "} 1"]),
    ("karpenter_nodepools_nodes_consuming_budgets{", &["nodepool=\"default\"", "reason=\"empty\"", "} 0"]),
    ("karpenter_voluntary_disruption_eligible_nodes{", &["reason=\"drifted\"", "} 0"]),
    ("karpenter_voluntary_disruption_eligible_nodes{", &["reason=\"underutilized\"", "} 3"]),
    ("karpenter_voluntary_disruption_decision_evaluation_duration_seconds_bucket{", &["consolidation_type=\"multi\""]),
    ("karpenter_voluntary_disruption_consolidation_timeouts_total{", &["consolidation_type=\"multi\"", "} 0"]),
    ("karpenter_voluntary_disruption_consolidation_timeouts_total{", &["consolidation_type=\"single\"", "} 0"]),
    ("karpenter_cluster_state_node_count 3", &[]),
    ("karpenter_cluster_state_synced 1", &[]),
    ("karpenter_cluster_state_unsynced_time_seconds 0", &[]),
    (
        "karpenter_pods_state{",
        &["namespace=\"switch-over\"", "nodepool=\"spot\"", "phase=\"Running\"", "managed=\"true\""],
    ),
    ("karpenter_cloudprovider_duration_seconds_bucket{", &["method=\"GetInstanceTypes\"", "provider=\"aws\""]),
    (
        "karpenter_cloudprovider_duration_seconds_bucket{",
        &["method=\"IsDrifted\"", "controller=\"nodeclaim.disruption\""],
    ),
    ("karpenter_cloudprovider_duration_seconds_bucket{", &["method=\"List\""]),
    ("karpenter_cloudprovider_instance_type_cpu_cores{", &["instance_type=\"m5.large\"", "} 2"]),
    ("karpenter_cloudprovider_instance_type_memory_bytes{", &["instance_type=\"m5.large\""]),
    (
        "karpenter_cloudprovider_instance_type_offering_available{",
        &["instance_type=\"m5.large\"", "capacity_type=\"spot\"", "} 1"],
    ),
    (
        "karpenter_cloudprovider_instance_type_offering_price_estimate{",
        &["instance_type=\"m5.large\"", "on-demand", "} 0.096"],
    ),
    ("karpenter_cloudprovider_batcher_batch_size_bucket{", &["batcher=\"describe_instances\""]),
    ("karpenter_cloudprovider_batcher_batch_time_seconds_bucket{", &["batcher=\"describe_instances\""]),
    ("karpenter_ec2nodeclasses_userdata_bytes{", &["nodeclass=\"default\""]),
    (
        "operator_nodeclaim_status_condition_count{",
        &["name=\"spot-m4c8t\"", "type=\"Ready\"", "status=\"True\"", "karpenter_sh_nodepool=\"spot\""],
    ),
    ("operator_nodeclaim_status_condition_current_status_seconds{", &["type=\"Initialized\""]),
    ("operator_nodeclaim_status_condition_transitions_total{", &["type=\"Registered\"", "status=\"True\""]),
    (
        "operator_nodepool_status_condition_count{",
        &["name=\"default\"", "type=\"NodeRegistrationHealthy\"", "status=\"True\""],
    ),
    ("operator_nodepool_status_condition_current_status_seconds{", &["type=\"Ready\""]),
    ("operator_node_status_condition_count{", &["type=\"Ready\"", "karpenter_sh_initialized=\"true\""]),
    (
        "operator_ec2nodeclass_status_condition_count{",
        &["name=\"default\"", "type=\"ValidationSucceeded\"", "status=\"True\""],
    ),
    ("operator_ec2nodeclass_status_condition_current_status_seconds{", &["type=\"Ready\""]),
    ("operator_status_condition_count{", &["kind=\"NodeClaim\"", "type=\"Ready\""]),
    ("operator_status_condition_count{", &["kind=\"NodePool\"", "type=\"Ready\""]),
    ("operator_status_condition_current_status_seconds{", &["kind=\"NodeClaim\""]),
    ("client_go_request_total{", &["code=\"200\"", "method="]),
    ("client_go_request_duration_seconds_bucket{", &["verb=\"LIST\"", "kind=\"nodeclaims\""]),
    ("controller_runtime_reconcile_total{", &["controller=\"nodeclaim.lifecycle\"", "result="]),
    ("controller_runtime_reconcile_errors_total{", &["controller=\"nodeclass\"", "} 0"]),
    ("controller_runtime_terminal_reconcile_errors_total{", &["controller="]),
    ("controller_runtime_reconcile_panics_total{", &["controller="]),
    ("controller_runtime_reconcile_timeouts_total{", &["controller="]),
    ("controller_runtime_reconcile_time_seconds_bucket{", &["controller="]),
    ("controller_runtime_max_concurrent_reconciles{", &["controller=\"nodeclaim.lifecycle\""]),
    ("controller_runtime_active_workers{", &["controller="]),
    ("karpenter_scheduler_scheduling_duration_seconds_bucket{", &["controller=\"disruption\""]),
    ("workqueue_depth{", &[]),
    ("workqueue_adds_total{", &[]),
    ("workqueue_queue_duration_seconds_bucket{", &[]),
    ("workqueue_work_duration_seconds_bucket{", &[]),
    ("workqueue_unfinished_work_seconds{", &[]),
    ("workqueue_longest_running_processor_seconds{", &[]),
    ("workqueue_retries_total{", &[]),
    ("aws_sdk_go_request_total{", &[]),
];

/// What a cluster without trouble must not count.
const NONE: &[&str] = &[
    "karpenter_nodeclaims_created_total{",
    "karpenter_nodeclaims_disrupted_total{",
    "karpenter_nodeclaims_terminated_total{",
    "karpenter_nodes_created_total{",
    "karpenter_nodes_terminated_total{",
    "karpenter_voluntary_disruption_decisions_total{",
    "karpenter_pods_eviction_requests_total{",
];

pub(super) async fn all_there(scene: &Scene<'_>, replica: &Replica) {
    let port = replica.port("metrics").await;
    let since = Instant::now();
    loop {
        let (_, text) = replica.get(port, "/metrics").await;
        let absent = SERIES.iter().filter(|(start, rest)| {
            !text.lines().any(|line| line.starts_with(start) && rest.iter().all(|part| line.contains(part)))
        });
        let absent: Vec<_> = absent.collect();
        if absent.is_empty() {
            break;
        }
        assert!(since.elapsed() < LIMIT, "{absent:#?}\n{text}\n{}", scene.picture().await);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (_, text) = replica.get(port, "/metrics").await;
    for start in NONE {
        let counted = text.lines().find(|line| line.starts_with(start) && !line.ends_with(" 0"));
        assert_eq!(counted, None);
    }
}
