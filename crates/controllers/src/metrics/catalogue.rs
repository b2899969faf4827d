//! Every metric with its labels and buckets: the one table that the registry and the reference page are made from
//! (API-187 … API-212, V15-17, V15-18, V15-136). Reads top to bottom as the specification does.

use std::sync::Arc;

use super::family::{Counter, Description, Family, Gauge, Histogram, Kind, Stability, Summary};

/// Durations (API-182).
pub(super) const DURATION: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];
/// The library default of the target.
pub(super) const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const INSTANCE_TERMINATION: &[f64] = &exponential::<11>(1.0, 2.0);
const TERMINATION: &[f64] = &exponential::<12>(1.0, 2.0);
const LIFETIME: &[f64] = &[
    900.0,
    1800.0,
    2700.0,
    3600.0,
    7200.0,
    14_400.0,
    21_600.0,
    28_800.0,
    36_000.0,
    43_200.0,
    57_600.0,
    72_000.0,
    86_400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    864_000.0,
    1_296_000.0,
    1_728_000.0,
    2_160_000.0,
    2_592_000.0,
];
const SCORE: &[f64] = &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];
const REBOOT: &[f64] = &exponential::<8>(10.0, 2.0);
/// API-207.
pub(super) const CONDITION: &[f64] = &exponential::<15>(0.5, 2.0);
const REQUEST: &[f64] = &exponential::<20>(0.001, 1.5);
const RECONCILE: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
const BATCH_SIZE: &[f64] = &[
    1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 600.0,
    700.0, 800.0, 900.0, 1000.0,
];
const RETRIES: &[f64] = &[0.0, 1.0, 2.0, 3.0, 5.0, 10.0];
const WORK_QUEUE: &[f64] = &exponential::<10>(1e-8, 10.0);
const NONE: &[f64] = &[];

/// `start`, then each bound `factor` times the one before.
const fn exponential<const N: usize>(start: f64, factor: f64) -> [f64; N] {
    let mut bounds = [start; N];
    let mut place = 1;
    while place < N {
        bounds[place] = bounds[place - 1] * factor;
        place += 1;
    }
    bounds
}

macro_rules! catalogue {
    ($($field:ident: $kind:ident in $buckets:ident $name:literal [$($label:ident)*] $stability:ident $help:literal;)*) => {
        /// The metrics whose labels are known when this is compiled, one field each.
        #[derive(Debug, Clone)]
        pub struct Catalogue {
            $(
                #[doc = $help]
                pub $field: $kind<{ let labels: &[&str] = &[$(stringify!($label)),*]; labels.len() }>,
            )*
        }

        impl Catalogue {
            pub(super) fn new() -> Self {
                Self { $($field: $kind::new(Family::new(description(
                    $name,
                    $kind::<0>::KIND,
                    $buckets,
                    &[$(stringify!($label)),*],
                    (Stability::$stability, $help),
                ))),)* }
            }

            pub(super) fn families(&self) -> Vec<Arc<Family>> {
                vec![$(self.$field.family().clone()),*]
            }
        }
    };
}

pub(super) fn description(
    name: &str,
    kind: Kind,
    buckets: &'static [f64],
    labels: &[&str],
    (stability, help): (Stability, &str),
) -> Description {
    let labels = labels.iter().map(ToString::to_string).collect();
    Description { name: name.to_owned(), kind, buckets, labels, stability, help: help.to_owned() }
}

catalogue! {
    build_info: Gauge in NONE "karpenter_build_info" [version goversion goarch commit] Stable
        "Always 1; the labels say what was built.";

    nodeclaims_created: Counter in NONE "karpenter_nodeclaims_created_total" [reason nodepool min_values_relaxed] Stable
        "NodeClaims created, by why and for which pool.";
    nodeclaims_terminated: Counter in NONE "karpenter_nodeclaims_terminated_total" [nodepool capacity_type zone] Stable
        "NodeClaims whose finalizer was removed.";
    nodeclaims_disrupted: Counter in NONE "karpenter_nodeclaims_disrupted_total"
        [reason nodepool capacity_type consolidation_policy termination_mode] Alpha
        "NodeClaims that the controller itself decided to delete or to reboot.";
    pods_disruption_initiated: Counter in NONE "karpenter_pods_disruption_initiated_total"
        [reason nodepool capacity_type consolidation_policy termination_mode] Alpha
        "Pods that had to move because the controller decided to delete their node.";
    nodeclaims_instance_termination_duration: Histogram in INSTANCE_TERMINATION
        "karpenter_nodeclaims_instance_termination_duration_seconds" [nodepool] Beta
        "From asking the cloud to terminate an instance until it is gone.";
    nodeclaims_termination_duration: Histogram in TERMINATION
        "karpenter_nodeclaims_termination_duration_seconds" [nodepool] Beta
        "From the deletion of a NodeClaim until its finalizer was removed.";
    nodeclaims_unhealthy_disrupted: Counter in NONE "karpenter_nodeclaims_unhealthy_disrupted_total"
        [condition nodepool capacity_type image_id termination_mode] Alpha
        "NodeClaims repaired, by the condition of their node that asked for it.";
    nodes_created: Counter in NONE "karpenter_nodes_created_total" [nodepool zone] Stable
        "Nodes that registered.";
    nodes_terminated: Counter in NONE "karpenter_nodes_terminated_total" [nodepool zone] Stable
        "Nodes whose finalizer was removed.";
    nodes_drained: Counter in NONE "karpenter_nodes_drained_total" [nodepool] Alpha
        "Nodes that were drained.";
    nodes_termination_duration: Summary in NONE "karpenter_nodes_termination_duration_seconds" [nodepool] Beta
        "From the deletion of a Node until its finalizer was removed.";
    nodes_lifetime_duration: Histogram in LIFETIME "karpenter_nodes_lifetime_duration_seconds" [nodepool] Alpha
        "Age of Nodes when their finalizer was removed.";
    nodes_reboots: Counter in NONE "karpenter_nodes_reboots_total" [result] Beta
        "Reboots that ended, by how.";
    nodes_reboot_duration: Histogram in REBOOT "karpenter_nodes_reboot_duration_seconds" [result] Beta
        "From the request of a reboot to its end.";
    nodes_reboot_recovery_duration: Histogram in REBOOT "karpenter_nodes_reboot_recovery_duration_seconds" [] Beta
        "From asking the cloud to reboot an instance until its node was back.";
    cluster_utilization: Gauge in NONE "karpenter_cluster_utilization_percent" [resource_type] Alpha
        "Share of the allocatable resources of all nodes that pods request.";

    nodepools_limit: Gauge in NONE "karpenter_nodepools_limit" [resource_type nodepool] Stable
        "Limits of the pool.";
    nodepools_usage: Gauge in NONE "karpenter_nodepools_usage" [resource_type nodepool] Stable
        "What the nodes of the pool provide, as its status says.";
    nodepools_cost: Gauge in NONE "karpenter_nodepools_cost_total" [nodepool] Alpha
        "Price per hour of the pool's NodeClaims, in the currency of the provider.";
    nodepools_cost_tracker_errors: Counter in NONE "karpenter_nodepools_cost_tracker_errors_total" [nodepool] Alpha
        "NodeClaims whose price could not be found out.";
    nodepools_allowed_disruptions: Gauge in NONE "karpenter_nodepools_allowed_disruptions" [nodepool reason] Stable
        "Nodes that the budgets of the pool allow to be disrupted at a time.";
    nodepools_nodes_consuming_budgets: Gauge in NONE
        "karpenter_nodepools_nodes_consuming_budgets" [nodepool reason] Alpha
        "Nodes of the pool that count against its budgets.";

    disruption_evaluation_duration: Histogram in DURATION
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds" [reason consolidation_type] Beta
        "How long one method of disruption took to decide.";
    disruption_decisions: Counter in NONE "karpenter_voluntary_disruption_decisions_total"
        [decision reason consolidation_type] Stable
        "Disruption commands that were begun.";
    disruption_decisions_by_nodepool: Counter in NONE "karpenter_voluntary_disruption_decisions_by_nodepool_total"
        [nodepool decision reason consolidation_type] Alpha
        "Disruption commands that were begun, once for each pool they touch.";
    disruption_terminate_first_decisions: Counter in NONE
        "karpenter_voluntary_disruption_terminate_first_decisions_total" [nodepool reason terminate_first_reason] Alpha
        "Commands that delete before their replacement can exist, once for each pool they touch.";
    disruption_eligible_nodes: Gauge in NONE "karpenter_voluntary_disruption_eligible_nodes" [reason] Beta
        "Nodes that the method last looked at could have disrupted.";
    disruption_consolidation_timeouts: Counter in NONE
        "karpenter_voluntary_disruption_consolidation_timeouts_total" [consolidation_type] Beta
        "Consolidation passes that ran out of time.";
    disruption_failed_validations: Counter in NONE
        "karpenter_voluntary_disruption_failed_validations_total" [consolidation_type] Alpha
        "Candidates that were no longer valid when looked at again.";
    disruption_queue_failures: Counter in NONE "karpenter_voluntary_disruption_queue_failures_total"
        [decision reason consolidation_type] Beta
        "Replacements that were not initialized when their command failed.";
    consolidation_score: Histogram in SCORE "karpenter_consolidation_score" [decision nodepool policy] Alpha
        "Scores of the moves that the Balanced policy judged.";
    consolidation_moves: Counter in NONE "karpenter_consolidation_moves_total" [decision nodepool policy] Alpha
        "Moves that the Balanced policy judged.";

    scheduling_duration: Histogram in DURATION "karpenter_scheduler_scheduling_duration_seconds" [controller] Stable
        "How long one scheduling simulation took; of disruption, all that a method asks of one look.";
    scheduler_queue_depth: Gauge in NONE "karpenter_scheduler_queue_depth" [controller scheduling_id] Beta
        "Pods that the running simulation has not placed yet.";
    scheduler_unfinished_work: Gauge in NONE
        "karpenter_scheduler_unfinished_work_seconds" [controller scheduling_id] Alpha
        "How long the running simulation has been at work.";
    scheduler_ignored_pods: Gauge in NONE "karpenter_scheduler_ignored_pods_count" [] Alpha
        "Pods that the last pass could not consider.";
    scheduler_unschedulable_pods: Gauge in NONE "karpenter_scheduler_unschedulable_pods_count" [controller] Alpha
        "Pods that the last simulation found no place for.";
    scheduler_pending_pods_by_zone: Gauge in NONE
        "karpenter_scheduler_pending_pods_by_effective_zone_count" [controller zone] Alpha
        "Pending pods by the zone they can go to; flexible for several, none for none.";
    cluster_state_node_count: Gauge in NONE "karpenter_cluster_state_node_count" [] Stable
        "Nodes and NodeClaims that the cluster state knows, joined ones counted once.";
    cluster_state_synced: Gauge in NONE "karpenter_cluster_state_synced" [] Stable
        "1 when the cluster state is complete, else 0.";
    cluster_state_unsynced_time: Gauge in NONE "karpenter_cluster_state_unsynced_time_seconds" [] Stable
        "Since when the cluster state is incomplete; 0 when it is complete.";

    pods_state: Gauge in NONE "karpenter_pods_state"
        [name namespace owner node scheduled nodepool zone arch capacity_type instance_type phase ready managed] Beta
        "Always 1; one series per pod says where it is and how it is.";
    pods_startup_duration: Summary in NONE "karpenter_pods_startup_duration_seconds" [] Stable
        "From the creation of a pod until it is ready.";
    pods_unstarted_time: Gauge in NONE "karpenter_pods_unstarted_time_seconds" [name namespace] Alpha
        "Age of pods that have not started.";
    pods_bound_duration: Histogram in DURATION "karpenter_pods_bound_duration_seconds" [dynamic_resources] Alpha
        "From the creation of a pod until it is bound.";
    pods_unbound_time: Gauge in NONE "karpenter_pods_unbound_time_seconds" [name namespace dynamic_resources] Alpha
        "Age of pods that are not bound.";
    pods_provisioning_bound_duration: Histogram in DURATION
        "karpenter_pods_provisioning_bound_duration_seconds" [dynamic_resources] Alpha
        "From our decision where a pod goes until it is bound.";
    pods_provisioning_unbound_time: Gauge in NONE
        "karpenter_pods_provisioning_unbound_time_seconds" [name namespace dynamic_resources] Alpha
        "Since our decision where a pod goes, while it is not bound.";
    pods_provisioning_startup_duration: Histogram in DURATION
        "karpenter_pods_provisioning_startup_duration_seconds" [] Alpha
        "From our decision where a pod goes until it is ready.";
    pods_provisioning_unstarted_time: Gauge in NONE
        "karpenter_pods_provisioning_unstarted_time_seconds" [name namespace] Alpha
        "Since our decision where a pod goes, while it has not started.";
    pods_provisioning_undecided_time: Gauge in NONE
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds" [name namespace] Alpha
        "Since a pod was first seen pending, while nothing was decided about it.";
    pods_scheduling_decision_duration: Histogram in DURATION
        "karpenter_pods_scheduling_decision_duration_seconds" [] Alpha
        "From first seeing a pod pending until something was decided about it.";
    pods_eviction_requests: Counter in NONE "karpenter_pods_eviction_requests_total" [code] Alpha
        "Evictions asked for, by the status code of the answer.";
    pods_drained: Counter in NONE "karpenter_pods_drained_total" [reason] Alpha
        "Pods evicted or deleted from nodes that go, by the DisruptionReason of the claim as it is written there.";
    pod_deletion_cost_pending: Gauge in NONE
        "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes" [nodepool] Alpha
        "Nodes whose pods have not all got their deletion cost yet.";
    pod_deletion_cost_writes: Counter in NONE
        "karpenter_pod_deletion_cost_pod_annotation_writes_total" [result] Alpha
        "Deletion costs written to pods, by how that went.";

    cloudprovider_duration: Histogram in DEFAULT "karpenter_cloudprovider_duration_seconds"
        [controller method provider] Beta
        "How long calls to the cloud provider took.";
    cloudprovider_errors: Counter in NONE "karpenter_cloudprovider_errors_total"
        [controller method provider error nodepool] Beta
        "Calls to the cloud provider that failed.";

    instance_type_cpu_cores: Gauge in NONE "karpenter_cloudprovider_instance_type_cpu_cores" [instance_type] Beta
        "Processor cores of instance types.";
    instance_type_memory: Gauge in NONE "karpenter_cloudprovider_instance_type_memory_bytes" [instance_type] Beta
        "Memory of instance types.";
    offering_available: Gauge in NONE "karpenter_cloudprovider_instance_type_offering_available"
        [instance_type capacity_type zone] Beta
        "1 when an offering can be launched for some pool, else 0.";
    offering_price: Gauge in NONE "karpenter_cloudprovider_instance_type_offering_price_estimate"
        [instance_type capacity_type zone] Beta
        "Price per hour of offerings.";
    instance_launch_failures: Counter in NONE "karpenter_cloudprovider_instance_launch_failures_total"
        [zone zone_id capacity_type reason] Alpha
        "Offerings that EC2 refused to launch, by why.";
    instance_termination_failures: Counter in NONE "karpenter_cloudprovider_instance_termination_failures_total"
        [zone zone_id] Alpha
        "Instances that could not be terminated.";
    batch_time: Histogram in DURATION "karpenter_cloudprovider_batcher_batch_time_seconds" [batcher] Beta
        "How long calls were gathered before they were sent together.";
    batch_size: Histogram in BATCH_SIZE "karpenter_cloudprovider_batcher_batch_size" [batcher] Beta
        "How many calls were sent together.";
    sdk_requests: Counter in NONE "aws_sdk_go_request_total" [service operation status] Beta
        "Calls to AWS, each with all its attempts.";
    sdk_retries: Histogram in RETRIES "aws_sdk_go_request_retry_count" [service operation] Beta
        "How often calls to AWS were tried again.";
    sdk_request_duration: Histogram in DURATION "aws_sdk_go_request_duration_seconds" [service operation] Beta
        "How long calls to AWS took, with all their attempts.";
    sdk_attempts: Counter in NONE "aws_sdk_go_request_attempt_total" [service operation status] Beta
        "Attempts at calls to AWS.";
    sdk_attempt_duration: Histogram in DURATION "aws_sdk_go_request_attempt_duration_seconds" [service operation] Beta
        "How long attempts at calls to AWS took.";
    userdata_bytes: Gauge in NONE "karpenter_ec2nodeclasses_userdata_bytes" [nodeclass] Alpha
        "Size of the user data that was last rendered for a node class.";
    interruption_received: Counter in NONE "karpenter_interruption_received_messages_total" [message_type] Stable
        "Messages that came through the interruption queue.";
    interruption_deleted: Counter in NONE "karpenter_interruption_deleted_messages_total" [] Stable
        "Messages that were dealt with and deleted from the interruption queue.";
    interruption_queue_duration: Histogram in DURATION
        "karpenter_interruption_message_queue_duration_seconds" [] Stable
        "From an event until its message was dealt with.";
    interruption_unhealthy: Counter in NONE "karpenter_interruption_instance_status_unhealthy_total" [category] Alpha
        "Instances that EC2 said are not well, each once until it recovers.";

    any_condition_count: Gauge in NONE "operator_status_condition_count"
        [group kind namespace name type status reason] Deprecated
        "Always 1; one series per condition of an object.";
    any_condition_current_status: Gauge in NONE "operator_status_condition_current_status_seconds"
        [group kind namespace name type status reason] Deprecated
        "How long a condition has had its status.";
    any_condition_transition: Histogram in DEFAULT "operator_status_condition_transition_seconds"
        [group kind type status to_status] Deprecated
        "How long conditions had the status that they left.";
    any_condition_transitions: Counter in NONE "operator_status_condition_transitions_total"
        [group kind type status reason] Deprecated
        "How often conditions came into a status.";
    any_termination_current_time: Gauge in NONE "operator_termination_current_time_seconds"
        [group kind namespace name] Deprecated
        "Since when an object is being deleted.";
    any_termination_duration: Histogram in DEFAULT "operator_termination_duration_seconds" [group kind] Deprecated
        "From the deletion of an object until it was gone.";

    request_duration: Histogram in REQUEST "client_go_request_duration_seconds"
        [verb group version kind subresource] Stable
        "How long requests to the API server took.";
    requests: Counter in NONE "client_go_request_total" [code method] Stable
        "Requests to the API server by the status code of the answer.";

    reconciles: Counter in NONE "controller_runtime_reconcile_total" [controller result] Stable
        "Reconciles by result: success, error, requeue or requeue_after.";
    reconcile_errors: Counter in NONE "controller_runtime_reconcile_errors_total" [controller] Stable
        "Reconciles that failed and are tried again.";
    terminal_reconcile_errors: Counter in NONE "controller_runtime_terminal_reconcile_errors_total" [controller] Stable
        "Reconciles that failed and are not tried again.";
    reconcile_panics: Counter in NONE "controller_runtime_reconcile_panics_total" [controller] Stable
        "Reconciles that ended in a panic.";
    reconcile_timeouts: Counter in NONE "controller_runtime_reconcile_timeouts_total" [controller] Stable
        "Reconciles that took too long.";
    reconcile_time: Histogram in RECONCILE "controller_runtime_reconcile_time_seconds" [controller] Stable
        "How long reconciles took.";
    max_concurrent_reconciles: Gauge in NONE "controller_runtime_max_concurrent_reconciles" [controller] Stable
        "How many reconciles may run at a time.";
    active_workers: Gauge in NONE "controller_runtime_active_workers" [controller] Stable
        "How many reconciles are running.";
    workqueue_depth: Gauge in NONE "workqueue_depth" [name] Stable
        "Objects that wait to be looked at.";
    workqueue_adds: Counter in NONE "workqueue_adds_total" [name] Stable
        "How often something was put into the queue.";
    workqueue_queue_duration: Histogram in WORK_QUEUE "workqueue_queue_duration_seconds" [name] Stable
        "How long objects waited until they were looked at.";
    workqueue_work_duration: Histogram in WORK_QUEUE "workqueue_work_duration_seconds" [name] Stable
        "How long looking at an object took.";
    workqueue_unfinished_work: Gauge in NONE "workqueue_unfinished_work_seconds" [name] Stable
        "How long the running reconciles have been running, all together.";
    workqueue_longest_running: Gauge in NONE "workqueue_longest_running_processor_seconds" [name] Stable
        "How long the longest running reconcile has been running.";
    workqueue_retries: Counter in NONE "workqueue_retries_total" [name] Stable
        "How often something was put into the queue again after a failure.";
    leader_election_master_status: Gauge in NONE "leader_election_master_status" [name] Stable
        "1 while this process holds the lease, else 0.";
    leader_election_slowpath: Counter in NONE "leader_election_slowpath_total" [name] Stable
        "Renewals of the lease that had to read it again first.";

    heap_live: Gauge in NONE "go_gc_heap_live_bytes" [] Stable
        "Memory in use that is backed by nothing but memory. The name is the one that dashboards know.";
    process_resident_memory: Gauge in NONE "process_resident_memory_bytes" [] Stable
        "Memory in use.";
    process_virtual_memory: Gauge in NONE "process_virtual_memory_bytes" [] Stable
        "Address space in use.";
    process_cpu: Counter in NONE "process_cpu_seconds_total" [] Stable
        "Processor time used.";
    process_start_time: Gauge in NONE "process_start_time_seconds" [] Stable
        "When the process started, in seconds since 1970.";
    process_open_fds: Gauge in NONE "process_open_fds" [] Stable
        "Open files and connections.";
}
