//! The words of conditions: as specified, and accepted by the server.

use karpenter_api::names::conditions::reasons as r;
use karpenter_api::names::{aws, conditions as c};
use serde_json::{Value, json};

use crate::server::with_crds;

struct Word {
    kind: &'static str,
    name: (&'static str, &'static str),
    /// Each status with its reasons, the constant beside the word.
    says: &'static [(&'static str, &'static [(&'static str, &'static str)])],
}

/// API-57, API-78, API-93, API-106, V15-6, V15-8, AWS-17: condition types with their reasons. A True condition without a
/// reason of its own repeats its type (API-122).
const WORDS: &[Word] = &[
    Word {
        kind: "NodePool",
        name: (c::VALIDATION_SUCCEEDED, "ValidationSucceeded"),
        says: &[
            ("True", &[(c::VALIDATION_SUCCEEDED, "ValidationSucceeded")]),
            ("False", &[(r::NODE_POOL_VALIDATION_FAILED, "NodePoolValidationFailed")]),
        ],
    },
    Word {
        kind: "NodePool",
        name: (c::NODE_CLASS_READY, "NodeClassReady"),
        says: &[
            ("True", &[(c::NODE_CLASS_READY, "NodeClassReady")]),
            (
                "False",
                &[
                    (r::NODE_CLASS_NOT_FOUND, "NodeClassNotFound"),
                    (r::NODE_CLASS_TERMINATING, "NodeClassTerminating"),
                    (r::NODE_CLASS_READINESS_UNKNOWN, "NodeClassReadinessUnknown"),
                ],
            ),
        ],
    },
    Word {
        kind: "NodePool",
        name: (c::NODE_REGISTRATION_HEALTHY, "NodeRegistrationHealthy"),
        says: &[
            ("Unknown", &[(r::AWAITING_RECONCILIATION, "AwaitingReconciliation")]),
            ("True", &[(c::NODE_REGISTRATION_HEALTHY, "NodeRegistrationHealthy")]),
            ("False", &[(r::REGISTRATION_FAILED, "RegistrationFailed")]),
        ],
    },
    Word {
        kind: "NodeClaim",
        name: (c::LAUNCHED, "Launched"),
        says: &[
            ("Unknown", &[(r::AWAITING_RECONCILIATION, "AwaitingReconciliation"), (r::LAUNCH_FAILED, "LaunchFailed")]),
            ("True", &[(c::LAUNCHED, "Launched")]),
        ],
    },
    Word {
        kind: "NodeClaim",
        name: (c::REGISTERED, "Registered"),
        says: &[
            (
                "Unknown",
                &[(r::NODE_NOT_FOUND, "NodeNotFound"), (r::REGISTRATION_HOOK_PENDING, "RegistrationHookPending")],
            ),
            ("False", &[(r::MULTIPLE_NODES_FOUND, "MultipleNodesFound")]),
            ("True", &[(c::REGISTERED, "Registered")]),
        ],
    },
    Word {
        kind: "NodeClaim",
        name: (c::INITIALIZED, "Initialized"),
        says: &[
            (
                "Unknown",
                &[
                    (r::NODE_NOT_FOUND, "NodeNotFound"),
                    (r::NODE_NOT_READY, "NodeNotReady"),
                    (r::STARTUP_TAINTS_EXIST, "StartupTaintsExist"),
                    (r::KNOWN_EPHEMERAL_TAINTS_EXIST, "KnownEphemeralTaintsExist"),
                    (r::RESOURCE_NOT_REGISTERED, "ResourceNotRegistered"),
                    (r::DRA_DRIVER_POOLS_NOT_PUBLISHED, "DRADriverPoolsNotPublished"),
                    (r::REBOOTING, "Rebooting"),
                ],
            ),
            ("True", &[(c::INITIALIZED, "Initialized")]),
        ],
    },
    Word {
        kind: "NodeClaim",
        name: (c::CONSOLIDATABLE, "Consolidatable"),
        says: &[("True", &[(c::CONSOLIDATABLE, "Consolidatable")])],
    },
    Word {
        kind: "NodeClaim",
        name: (c::DRIFTED, "Drifted"),
        says: &[(
            "True",
            &[
                (r::NODE_POOL_DRIFTED, "NodePoolDrifted"),
                (r::REQUIREMENTS_DRIFTED, "RequirementsDrifted"),
                (r::INSTANCE_TYPE_NOT_FOUND, "InstanceTypeNotFound"),
            ],
        )],
    },
    Word {
        kind: "NodeClaim",
        name: (c::DISRUPTION_REASON, "DisruptionReason"),
        says: &[(
            "True",
            &[
                (r::UNDERUTILIZED, "Underutilized"),
                (r::EMPTY, "Empty"),
                (r::DRIFTED, "Drifted"),
                (r::UNHEALTHY, "Unhealthy"),
            ],
        )],
    },
    Word {
        kind: "NodeClaim",
        name: (c::CONSISTENT_STATE_FOUND, "ConsistentStateFound"),
        says: &[
            ("True", &[(c::CONSISTENT_STATE_FOUND, "ConsistentStateFound")]),
            ("False", &[(r::CONSISTENCY_CHECK_FAILED, "ConsistencyCheckFailed")]),
        ],
    },
    Word {
        kind: "NodeClaim",
        name: (c::DRAINED, "Drained"),
        says: &[("Unknown", &[(r::DRAINING, "Draining")]), ("True", &[(c::DRAINED, "Drained")])],
    },
    Word {
        kind: "NodeClaim",
        name: (c::VOLUMES_DETACHED, "VolumesDetached"),
        says: &[
            ("Unknown", &[(r::AWAITING_VOLUME_DETACHMENT, "AwaitingVolumeDetachment")]),
            ("True", &[(c::VOLUMES_DETACHED, "VolumesDetached")]),
            ("False", &[(r::TERMINATION_GRACE_PERIOD_ELAPSED, "TerminationGracePeriodElapsed")]),
        ],
    },
    Word {
        kind: "NodeClaim",
        name: (c::INSTANCE_TERMINATING, "InstanceTerminating"),
        says: &[("True", &[(c::INSTANCE_TERMINATING, "InstanceTerminating")])],
    },
    Word {
        kind: "NodeClaim",
        name: (c::REBOOTING, "Rebooting"),
        says: &[
            ("True", &[(r::REBOOT_REQUESTED, "RebootRequested"), (r::REBOOT_ISSUED, "RebootIssued")]),
            ("False", &[(r::REBOOT_SUCCEEDED, "RebootSucceeded"), (r::REBOOT_FAILED, "RebootFailed")]),
        ],
    },
    Word {
        kind: "NodeOverlay",
        name: (c::VALIDATION_SUCCEEDED, "ValidationSucceeded"),
        says: &[
            ("True", &[(c::VALIDATION_SUCCEEDED, "ValidationSucceeded")]),
            ("False", &[(r::RUNTIME_VALIDATION, "RuntimeValidation"), (r::CONFLICT, "Conflict")]),
        ],
    },
    Word {
        kind: "CapacityBuffer",
        name: (c::READY_FOR_PROVISIONING, "ReadyForProvisioning"),
        says: &[
            ("True", &[(r::RESOLVED, "Resolved")]),
            (
                "False",
                &[
                    (r::POD_TEMPLATE_NOT_FOUND, "PodTemplateNotFound"),
                    (r::SCALABLE_REF_NOT_FOUND, "ScalableRefNotFound"),
                    (r::RESOLUTION_FAILED, "ResolutionFailed"),
                ],
            ),
        ],
    },
    Word {
        kind: "CapacityBuffer",
        name: (c::PROVISIONING, "Provisioning"),
        says: &[
            ("True", &[(r::FITS_EXISTING_CAPACITY, "FitsExistingCapacity")]),
            (
                "False",
                &[
                    (r::REQUIRES_NEW_CAPACITY, "RequiresNewCapacity"),
                    (r::BUFFER_EMPTY, "BufferEmpty"),
                    (r::NOT_READY_FOR_PROVISIONING, "NotReadyForProvisioning"),
                ],
            ),
        ],
    },
    Word { kind: "CapacityBuffer", name: (c::LIMITED_BY_QUOTAS, "LimitedByQuotas"), says: &[] },
    Word { kind: "EC2NodeClass", name: (aws::conditions::AMIS_READY, "AMIsReady"), says: &[] },
    Word { kind: "EC2NodeClass", name: (aws::conditions::SUBNETS_READY, "SubnetsReady"), says: &[] },
    Word { kind: "EC2NodeClass", name: (aws::conditions::SECURITY_GROUPS_READY, "SecurityGroupsReady"), says: &[] },
    Word { kind: "EC2NodeClass", name: (aws::conditions::INSTANCE_PROFILE_READY, "InstanceProfileReady"), says: &[] },
    Word {
        kind: "EC2NodeClass",
        name: (aws::conditions::CAPACITY_RESERVATIONS_READY, "CapacityReservationsReady"),
        says: &[],
    },
    Word { kind: "EC2NodeClass", name: (aws::conditions::PLACEMENT_GROUP_READY, "PlacementGroupReady"), says: &[] },
];

#[tokio::test]
async fn the_server_takes_every_condition_by_its_word() {
    let cluster = with_crds().await;
    for (kind, spec) in [
        (
            "NodePool",
            json!({"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "a", "kind": "b", "name": "c"}}}}),
        ),
        ("NodeClaim", json!({"requirements": [], "nodeClassRef": {"group": "a", "kind": "b", "name": "c"}})),
        ("NodeOverlay", json!({"requirements": []})),
        ("CapacityBuffer", json!({})),
        (
            "EC2NodeClass",
            json!({"role": "r", "amiSelectorTerms": [{"alias": "al2@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}),
        ),
    ] {
        let crd = karpenter_api::crd::definitions().iter().find(|c| c.kind == kind).unwrap();
        let mut object =
            json!({"apiVersion": crd.api_version(), "kind": kind, "metadata": {"name": "words"}, "spec": spec});
        if crd.namespaced {
            object["metadata"]["namespace"] = "default".into();
        }
        cluster.install([object]).await.unwrap();
        // A list holds a type once, so each round takes the next status and reason of every type.
        for round in 0.. {
            let conditions: Vec<Value> =
                words_of(kind).into_iter().filter_map(|says| says.into_iter().nth(round)).collect();
            if conditions.is_empty() {
                break;
            }
            let patch = json!({"status": {"conditions": conditions}}).to_string();
            let args = ["patch", crd.plural, "words", "--subresource=status", "--type=merge", "-p", &patch];
            let out = cluster.kubectl(args).await.unwrap();
            assert!(out.status.success(), "{kind}: {}", String::from_utf8_lossy(&out.stderr));
        }
    }
}

/// Every condition that the kind can have, by type.
fn words_of(kind: &str) -> Vec<Vec<Value>> {
    let said = |name: &str, status: &str, reason: &str| json!({"type": name, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    let of_kind = WORDS.iter().filter(|w| w.kind == kind);
    of_kind
        .map(|word| {
            let (constant, name) = word.name;
            assert_eq!(constant, name, "the type");
            let mut says = vec![said(name, "Unknown", r::AWAITING_RECONCILIATION)];
            for (status, reasons) in word.says {
                for (constant, reason) in *reasons {
                    assert_eq!(constant, reason, "a reason of {name}");
                    says.push(said(name, status, reason));
                }
            }
            says
        })
        .collect()
}
