//! Pods. The status column is one word for where the pod stands: the phase, unless a container tells more.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::read::{age as age_of, condition, deleting, is_true, list, name, number, text, text_or};

pub(super) fn cells(kind: &str, pod: &Value, now: Timestamp) -> Option<Vec<Value>> {
    if kind != "Pod" {
        return None;
    }
    let state = State::of(pod);
    let (spec, status) = (&pod["spec"], &pod["status"]);
    Some(vec![
        name(pod),
        json!(format!("{}/{}", state.ready, state.total)),
        json!(state.reason),
        json!(state.restarts.text(now)),
        age_of(pod, now),
        json!(text_or(&status["podIPs"][0]["ip"], "<none>")),
        json!(text_or(&spec["nodeName"], "<none>")),
        json!(text_or(&status["nominatedNodeName"], "<none>")),
        json!(readiness_gates(pod)),
    ])
}

/// Lets clients sort out pods that are done.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let phase = text(&pod["status"]["phase"]);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

#[derive(Default, Clone)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += number(&container["restartCount"]);
        self.last = self.last.max(age::time(&container["lastState"]["terminated"]["finishedAt"]));
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last.filter(|_| self.count != 0) {
            Some(last) => format!("{} ({} ago)", self.count, age::between(last, now)),
            None => self.count.to_string(),
        }
    }
}

struct State {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts,
}

impl State {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let sidecars = list(&spec["initContainers"]).iter().filter(|c| c["restartPolicy"] == "Always").count();
        let mut reason = text_or(&status["reason"], text(&status["phase"])).to_owned();
        if condition(&status["conditions"], "PodScheduled").is_some_and(|c| c["reason"] == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut reason);
        }
        let total = list(&spec["containers"]).len() + sidecars;
        let mut state = Self { ready: 0, total, reason, restarts: Restarts::default() };
        let of_sidecars = state.read_init_containers(pod);
        if of_sidecars.is_some() || is_true(&status["conditions"], "Initialized") {
            state.restarts = of_sidecars.unwrap_or_else(|| sidecar_restarts(pod));
            state.read_containers(status);
        }
        let terminal = ["Succeeded", "Failed"].contains(&text(&status["phase"]));
        if deleting(pod) && status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut state.reason);
        } else if deleting(pod) && !terminal {
            "Terminating".clone_into(&mut state.reason);
        }
        state
    }

    /// The restarts of sidecars when initialisation is over. While it is not, the first init container that is not done
    /// gives the reason.
    fn read_init_containers(&mut self, pod: &Value) -> Option<Restarts> {
        for (index, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            self.restarts.add(container);
            let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
                continue;
            }
            if is_sidecar(pod, container) && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let why = text(&waiting["reason"]);
            self.reason = if terminated.is_object() {
                format!("Init:{}", ended(terminated))
            } else if why.is_empty() || why == "PodInitializing" {
                format!("Init:{index}/{}", list(&pod["spec"]["initContainers"]).len())
            } else {
                format!("Init:{why}")
            };
            return None;
        }
        Some(sidecar_restarts(pod))
    }

    /// The first container that has something to say gives the reason.
    fn read_containers(&mut self, status: &Value) {
        let mut running = false;
        let mut error = None;
        for container in list(&status["containerStatuses"]).iter().rev() {
            self.restarts.add(container);
            let state = &container["state"];
            let (terminated, why) = (&state["terminated"], text(&state["waiting"]["reason"]));
            if !why.is_empty() {
                why.clone_into(&mut self.reason);
            } else if terminated.is_object() {
                self.reason = ended(terminated);
                if number(&terminated["exitCode"]) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if container["ready"] == true && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && is_true(&status["conditions"], "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(error) = error {
                self.reason = error;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

fn is_sidecar(pod: &Value, status: &Value) -> bool {
    list(&pod["spec"]["initContainers"]).iter().any(|c| c["name"] == status["name"] && c["restartPolicy"] == "Always")
}

fn sidecar_restarts(pod: &Value) -> Restarts {
    let mut restarts = Restarts::default();
    for container in list(&pod["status"]["initContainerStatuses"]).iter().filter(|c| is_sidecar(pod, c)) {
        restarts.add(container);
    }
    restarts
}

fn ended(terminated: &Value) -> String {
    let (reason, signal) = (text(&terminated["reason"]), number(&terminated["signal"]));
    match () {
        () if !reason.is_empty() => reason.to_owned(),
        () if signal != 0 => format!("Signal:{signal}"),
        () => format!("ExitCode:{}", number(&terminated["exitCode"])),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = |gate: &&Value| is_true(&pod["status"]["conditions"], text(&gate["conditionType"]));
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}
