//! Condition types and reasons (API-57, API-78, API-93, API-106, API-116, API-121, V15-6 … V15-8).

/// The root condition of every kind with a computed one.
pub const READY: &str = "Ready";

pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
pub const NODE_CLASS_READY: &str = "NodeClassReady";
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

pub const LAUNCHED: &str = "Launched";
pub const REGISTERED: &str = "Registered";
pub const INITIALIZED: &str = "Initialized";
pub const CONSOLIDATABLE: &str = "Consolidatable";
pub const DRIFTED: &str = "Drifted";
pub const DISRUPTION_REASON: &str = "DisruptionReason";
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
pub const DRAINED: &str = "Drained";
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
pub const REBOOTING: &str = "Rebooting";

pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
pub const PROVISIONING: &str = "Provisioning";
/// Reserved name, never written.
pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";

/// Reasons. A condition set True without one carries its own type as the reason (API-122).
pub mod reasons {
    pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
    pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
    pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

    pub const NODE_POOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";

    pub const LAUNCH_FAILED: &str = "LaunchFailed";
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    pub const DRA_DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
    pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";
    pub const DRAINING: &str = "Draining";
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";

    pub const NODE_POOL_DRIFTED: &str = "NodePoolDrifted";
    pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
    pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";

    pub const UNDERUTILIZED: &str = "Underutilized";
    pub const EMPTY: &str = "Empty";
    pub const DRIFTED: &str = "Drifted";
    pub const UNHEALTHY: &str = "Unhealthy";

    pub const REBOOTING: &str = "Rebooting";
    pub const REBOOT_REQUESTED: &str = "RebootRequested";
    pub const REBOOT_ISSUED: &str = "RebootIssued";
    pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
    pub const REBOOT_FAILED: &str = "RebootFailed";

    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    pub const CONFLICT: &str = "Conflict";

    pub const RESOLVED: &str = "Resolved";
    pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
    pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
    pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
    pub const BUFFER_EMPTY: &str = "BufferEmpty";
    pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
}

/// Messages that users and tools search for (API-350).
pub mod messages {
    pub const AWAITING_RECONCILIATION: &str = "object is awaiting reconciliation";
    pub const NODE_NOT_REGISTERED: &str = "Node not registered with cluster";
    pub const MULTIPLE_NODES_FOUND: &str = "Invariant violated, matched multiple nodes";
    pub const NODE_NOT_READY: &str = "Node status is NotReady";
    pub const CONSISTENCY_CHECK_FAILED: &str = "Consistency Check Failed";
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClass not found on cluster";
    pub const NODE_CLASS_TERMINATING: &str = "NodeClass is Terminating";
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "Node Class Readiness Unknown";
    pub const REGISTRATION_FAILED: &str = "Failed to register node";
    pub const OVERLAY_CONFLICT: &str = "conflict with another overlay";
}

#[cfg(test)]
mod tests {
    use super::messages;

    /// API-350: to the letter.
    #[test]
    fn messages_are_what_tools_search_for() {
        for (message, want) in [
            (messages::AWAITING_RECONCILIATION, "object is awaiting reconciliation"),
            (messages::NODE_NOT_REGISTERED, "Node not registered with cluster"),
            (messages::MULTIPLE_NODES_FOUND, "Invariant violated, matched multiple nodes"),
            (messages::NODE_NOT_READY, "Node status is NotReady"),
            (messages::CONSISTENCY_CHECK_FAILED, "Consistency Check Failed"),
            (messages::NODE_CLASS_NOT_FOUND, "NodeClass not found on cluster"),
            (messages::NODE_CLASS_TERMINATING, "NodeClass is Terminating"),
            (messages::NODE_CLASS_READINESS_UNKNOWN, "Node Class Readiness Unknown"),
            (messages::REGISTRATION_FAILED, "Failed to register node"),
            (messages::OVERLAY_CONFLICT, "conflict with another overlay"),
        ] {
            assert_eq!(message, want);
        }
    }
}
