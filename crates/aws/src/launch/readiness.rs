//! Whether a class may launch anything now (AWS-147).

use karpenter_api::kinds::{ConditionStatus, EC2NodeClass};
use karpenter_platform::CreateError;

use super::tags::restricted_tag;
use crate::class::NodeClass;

const READY: &str = "Ready";

/// What is said of the class must be said of what it is now, not of what it was.
pub fn readiness(object: &EC2NodeClass, class: &NodeClass) -> Result<(), CreateError> {
    let conditions = object.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == READY);
    let not_ready = |why: String| Err(CreateError::NodeClassNotReady(why));
    match ready.map(|condition| condition.status) {
        Some(ConditionStatus::False) => {
            return not_ready(ready.map(|condition| condition.message.clone()).unwrap_or_default());
        }
        Some(ConditionStatus::True) => {}
        _ => {
            return Err(CreateError::Explained {
                reason: "NodeClassReadinessUnknown".to_owned(),
                message: "NodeClass is in Ready=Unknown".to_owned(),
            });
        }
    }
    let seen = ready.and_then(|condition| condition.observed_generation);
    if seen != Some(class.generation) {
        return not_ready(format!("generation {} of class {} is not judged yet", class.generation, class.name));
    }
    match restricted_tag(class) {
        Some(key) => not_ready(format!("spec.tags: {key} is restricted")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(status: Option<&str>, observed: i64, tags: &Value) -> Result<(), CreateError> {
        let condition = |status: &str| {
            json!({"type": "Ready", "status": status, "reason": "x", "message": "SubnetsReady=False",
                "observedGeneration": observed, "lastTransitionTime": "2026-11-16T04:00:00Z"})
        };
        let conditions: Vec<Value> = status.map(condition).into_iter().collect();
        let object: EC2NodeClass = serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "generation": 2},
            "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [],
                "securityGroupSelectorTerms": [], "role": "r", "tags": tags,
            },
            "status": {"conditions": conditions},
        }))
        .unwrap();
        readiness(&object, &NodeClass::read(&object).unwrap())
    }

    /// AWS-147, AC-160.
    #[test]
    fn classes_that_may_not_launch() {
        assert!(judged(Some("True"), 2, &json!({})).is_ok());
        let not_ready = |result| matches!(result, Err(CreateError::NodeClassNotReady(_)));
        assert!(not_ready(judged(Some("False"), 2, &json!({}))));
        assert!(not_ready(judged(Some("True"), 1, &json!({}))));
        assert!(not_ready(judged(Some("True"), 2, &json!({"karpenter.sh/nodepool": "x"}))));
        for status in [Some("Unknown"), None] {
            let Err(CreateError::Explained { reason, message }) = judged(status, 2, &json!({})) else { panic!() };
            assert_eq!(
                (reason.as_str(), message.as_str()),
                ("NodeClassReadinessUnknown", "NodeClass is in Ready=Unknown")
            );
        }
    }
}
