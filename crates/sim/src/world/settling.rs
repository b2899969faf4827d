//! When a world is at rest.

use std::time::Duration;

use serde_json::Value;

use super::World;

/// Nothing takes longer than this to come to rest: the longest single wait of the controllers is a quarter of an hour for
/// a node that never registers.
const LIMIT: Duration = Duration::from_hours(2);
const STEP: Duration = Duration::from_secs(5);
/// Looks in a row at which everything must be in place.
const QUIET: u32 = 6;

impl World {
    /// Lets time pass until every pod runs, every claim is ready and every node too; fails when that takes too long.
    pub async fn settle(&self) {
        let (mut quiet, mut waited) = (0, Duration::ZERO);
        let mut last = String::new();
        while quiet < QUIET {
            if waited > LIMIT {
                self.fail(&format!("not at rest after {LIMIT:?}: {last}"));
            }
            self.advance(STEP).await;
            waited += STEP;
            match self.unrest() {
                None => quiet += 1,
                Some(why) => (quiet, last) = (0, why),
            }
        }
    }

    /// The first thing that is not in place.
    pub fn unrest(&self) -> Option<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_true = |object: &Value, condition: &str| {
            let conditions = object["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|c| c["type"] == condition && c["status"] == "True")
        };
        let deleting = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        for pod in self.objects("", "v1", "Pod") {
            let done = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            if deleting(&pod) || !done && !is_true(&pod, "Ready") {
                return Some(format!("pod {} is {}", name(&pod), pod["status"]));
            }
        }
        for deployment in self.objects("apps", "v1", "Deployment") {
            let count = |value: &Value| value.as_i64().unwrap_or(0);
            let (wanted, available) =
                (count(&deployment["spec"]["replicas"]), count(&deployment["status"]["availableReplicas"]));
            let all = count(&deployment["status"]["replicas"]);
            let seen = deployment["metadata"]["generation"] == deployment["status"]["observedGeneration"];
            if (wanted, wanted) != (available, all) || !seen {
                return Some(format!("{available} of {wanted} pods of deployment {} are available", name(&deployment)));
            }
        }
        for (group, kind) in [("karpenter.sh", "NodeClaim"), ("", "Node")] {
            for object in self.objects(group, "v1", kind) {
                if deleting(&object) || !is_true(&object, "Ready") {
                    return Some(format!("{kind} {} is {}", name(&object), object["status"]["conditions"]));
                }
            }
        }
        self.doomed()
    }

    /// A machine that nobody has missed yet, or that is about to be taken back: what stands for it looks well until it does
    /// not, and that is not rest.
    fn doomed(&self) -> Option<String> {
        if let Some((id, at)) = self.cloud.interruptions().into_iter().next() {
            return Some(format!("machine {id} is taken back at {at}"));
        }
        let running = self.cloud.running();
        for claim in self.objects("karpenter.sh", "v1", "NodeClaim") {
            let id = claim["status"]["providerID"].as_str().unwrap_or_default();
            if !running.contains_key(id) {
                return Some(format!("machine {id} of NodeClaim {} does not run", claim["metadata"]["name"]));
            }
        }
        None
    }

    /// All objects of a kind as the API server has them.
    pub fn objects(&self, group: &str, version: &str, kind: &str) -> Vec<std::sync::Arc<Value>> {
        self.api.objects(group, version, kind)
    }

    /// The names of the pods that run and are ready.
    pub fn running_pods(&self) -> Vec<String> {
        let ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let pods = self.objects("", "v1", "Pod");
        let running = pods.iter().filter(|pod| ready(pod) && pod["metadata"]["deletionTimestamp"].is_null());
        running.map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}
