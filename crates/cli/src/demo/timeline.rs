//! What changes in a world from second to second, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use karpenter_sim::cloud::Bill;
use karpenter_sim::world::World;
use serde_json::Value;

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// Somebody watches: at a pace that can be followed, with a line that counts along.
    Live,
    /// A file or a pipe.
    Plain,
}

/// A virtual second takes so long when somebody watches: five minutes are ten seconds.
const PACE: Duration = Duration::from_millis(33);
const STEP: Duration = Duration::from_secs(1);

/// Where things stand.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Standing {
    pub pods: usize,
    /// Pods that are on their way out.
    pub leaving: usize,
    pub running: usize,
    pub nodes: usize,
    pub ready: usize,
    pub claims: usize,
    pub machines: usize,
    usd_per_hour: f64,
}

/// What was there at the last look.
#[derive(Debug, Default)]
struct Seen {
    standing: Standing,
    waiting: BTreeMap<String, usize>,
    claims: BTreeSet<String>,
    /// Claims that were chosen to go, and why.
    going: BTreeMap<String, String>,
    bills: BTreeMap<String, Bill>,
    nodes: BTreeMap<String, NodeIs>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeIs {
    Joined,
    Ready,
    Draining,
}

pub(super) struct Timeline<'a> {
    world: &'a World,
    show: Show,
    out: &'a mut dyn Write,
    began: Timestamp,
    seen: Seen,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(world: &'a World, show: Show, out: &'a mut dyn Write) -> Self {
        Self { world, show, out, began: world.clock.now(), seen: Seen::default() }
    }

    pub(super) fn chapter(&mut self, title: &str) -> io::Result<()> {
        let (bold, plain) = if self.show == Show::Live { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        self.clear()?;
        if self.began == self.world.clock.now() {
            writeln!(self.out, "   time  pods run  nodes  $/hour  what happens")?;
        }
        writeln!(self.out, "{bold}-- {title}{plain}")
    }

    /// Lets time pass until `done`; an error when that takes longer than `limit`.
    pub(super) async fn until(&mut self, limit: Duration, done: &dyn Fn(&Standing) -> bool) -> Result<()> {
        let mut waited = Duration::ZERO;
        loop {
            for line in self.news() {
                self.line(&line)?;
            }
            if done(&self.seen.standing) {
                return Ok(());
            }
            if waited >= limit {
                let unrest = self.world.unrest().unwrap_or_else(|| format!("{:?}", self.seen.standing));
                bail!("still not there after {} s: {unrest}", limit.as_secs());
            }
            self.pass()?;
            tokio::time::sleep(STEP).await;
            waited += STEP;
        }
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.line("everything is gone again")
    }

    fn clear(&mut self) -> io::Result<()> {
        if self.show == Show::Live { write!(self.out, "\r\x1b[2K") } else { Ok(()) }
    }

    fn columns(&self) -> String {
        let now = self.world.clock.now().duration_since(self.began).as_secs();
        let Standing { pods, running, nodes, usd_per_hour, .. } = &self.seen.standing;
        let pods = format!("{running}/{pods}");
        format!("  {:>2}:{:02}  {pods:>8}  {nodes:>5}  {usd_per_hour:>6.3}", now / 60, now % 60)
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.clear()?;
        let columns = self.columns();
        writeln!(self.out, "{columns}  {text}")
    }

    /// A moment for whoever watches.
    fn pass(&mut self) -> io::Result<()> {
        if self.show == Show::Live {
            self.clear()?;
            let columns = self.columns();
            write!(self.out, "{columns}")?;
            self.out.flush()?;
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// What is new since the last look.
    fn news(&mut self) -> Vec<String> {
        let (pods, nodes) = (self.world.objects("", "v1", "Pod"), self.world.objects("", "v1", "Node"));
        let claims = self.world.objects("karpenter.sh", "v1", "NodeClaim");
        let now = Seen {
            waiting: waiting(pods.iter().map(AsRef::as_ref)),
            claims: claims.iter().map(|claim| name(claim)).collect(),
            going: claims.iter().filter_map(|claim| Some((name(claim), why_it_goes(claim)?))).collect(),
            bills: self.world.cloud.bills(),
            nodes: nodes.iter().map(|node| (name(node), node_is(node))).collect(),
            standing: Standing::default(),
        };
        let before = std::mem::replace(&mut self.seen, now);
        let now = &mut self.seen;
        now.standing = Standing {
            pods: pods.iter().filter(|pod| !is_deleted(pod)).count(),
            leaving: pods.iter().filter(|pod| is_deleted(pod)).count(),
            running: pods.iter().filter(|pod| is_true(pod, "Ready") && !is_deleted(pod)).count(),
            nodes: nodes.len(),
            ready: now.nodes.values().filter(|is| **is == NodeIs::Ready).count(),
            claims: claims.len(),
            machines: now.bills.len(),
            // The sum of nothing is a negative zero.
            usd_per_hour: now.bills.values().map(|bill| bill.usd_per_hour).sum::<f64>() + 0.0,
        };
        let mut news = Vec::new();
        for (why, count) in &now.waiting {
            if before.waiting.get(why) != Some(count) {
                news.push(format!("{count} {} for a node: {why}", plural(*count, "pod waits", "pods wait")));
            }
        }
        for claim in claims.iter().filter(|claim| !before.claims.contains(&name(claim))) {
            news.push(planned(claim));
        }
        news.extend(now.bills.iter().filter(|(id, _)| !before.bills.contains_key(*id)).map(|(id, bill)| {
            let Bill { instance_type, zone, capacity_type, usd_per_hour } = bill;
            let id = id.rsplit('/').next().unwrap_or_default();
            format!(
                "{id} is launched: {instance_type}, {capacity_type} in {zone}, ${usd_per_hour:.4} an hour, the cheapest"
            )
        }));
        news.extend(chosen(&before.going, &now.going));
        news.extend(changes(&before.nodes, &now.nodes));
        let (was, is) = (before.standing.running, now.standing.running);
        if was != is && is == 0 {
            news.push("no pod runs any more".to_owned());
        } else if was != is {
            news.push(format!("{is} of {} pods run", now.standing.pods));
        }
        let ended: Vec<&str> = before.bills.iter().filter(|(id, _)| !now.bills.contains_key(*id)).map(short).collect();
        if !ended.is_empty() {
            news.push(format!("{} {} terminated", listed(&ended), plural(ended.len(), "is", "are")));
        }
        news
    }
}

fn short<'a>((id, _): (&'a String, &Bill)) -> &'a str {
    id.rsplit('/').next().unwrap_or_default()
}

fn changes(before: &BTreeMap<String, NodeIs>, now: &BTreeMap<String, NodeIs>) -> Vec<String> {
    let mut news = Vec::new();
    for (what, is) in [("joined", NodeIs::Joined), ("ready", NodeIs::Ready), ("draining", NodeIs::Draining)] {
        let new = now.iter().filter(|(name, state)| **state == is && before.get(*name) != Some(&is));
        let names: Vec<&str> = new.map(|(name, _)| name.split('.').next().unwrap_or_default()).collect();
        let verb = match (is, names.len()) {
            (_, 0) => continue,
            (NodeIs::Joined, _) => "",
            (_, 1) => "is ",
            _ => "are ",
        };
        news.push(format!("{} {} {verb}{what}", plural(names.len(), "node", "nodes"), listed(&names)));
    }
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let gone: Vec<&str> = gone.map(|name| name.split('.').next().unwrap_or_default()).collect();
    if !gone.is_empty() {
        let nodes = plural(gone.len(), "node", "nodes");
        news.push(format!("{nodes} {} {} gone", listed(&gone), plural(gone.len(), "is", "are")));
    }
    news
}

/// Claims that were chosen to go since the last look, by reason.
fn chosen(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (claim, reason) in now.iter().filter(|(claim, _)| !before.contains_key(*claim)) {
        by_reason.entry(reason).or_default().push(claim);
    }
    let line = |(reason, claims): (&str, Vec<&str>)| {
        let (claim, go) = (plural(claims.len(), "nodeclaim", "nodeclaims"), plural(claims.len(), "goes", "go"));
        format!("{claim} {} {go}: {}", listed(&claims), reason.to_lowercase())
    };
    by_reason.into_iter().map(line).collect()
}

fn why_it_goes(claim: &Value) -> Option<String> {
    let reason = condition(claim, "DisruptionReason").filter(|condition| condition["status"] == "True")?;
    reason["reason"].as_str().map(ToOwned::to_owned)
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// A few names, and how many more.
fn listed(names: &[&str]) -> String {
    match names {
        [first, second, _, rest @ ..] => format!("{first}, {second} and {} more", rest.len() + 1),
        few => few.join(" and "),
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == "True")
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn node_is(node: &Value) -> NodeIs {
    if is_deleted(node) {
        NodeIs::Draining
    } else if is_true(node, "Ready") {
        NodeIs::Ready
    } else {
        NodeIs::Joined
    }
}

/// How many pods wait, by what the scheduler says of them.
fn waiting<'a>(pods: impl Iterator<Item = &'a Value>) -> BTreeMap<String, usize> {
    let mut waiting = BTreeMap::new();
    for pod in pods {
        let refused = condition(pod, "PodScheduled").filter(|scheduled| scheduled["status"] == "False");
        if let Some(refused) = refused {
            // The first sentence; what preemption could do is another story.
            let why = refused["message"].as_str().unwrap_or_default().split(". ").next().unwrap_or_default();
            *waiting.entry(why.trim_end_matches('.').to_owned()).or_default() += 1;
        }
    }
    waiting
}

/// What a claim asks the cloud for.
fn planned(claim: &Value) -> String {
    let requirements = claim["spec"]["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let types = requirements.iter().find(|r| r["key"] == "node.kubernetes.io/instance-type");
    let types = types.and_then(|r| r["values"].as_array()).map_or(0, Vec::len);
    let requests = &claim["spec"]["resources"]["requests"];
    let amount = |name: &str| requests[name].as_str().unwrap_or("0").to_owned();
    let choice = if types == 0 { "any instance type".to_owned() } else { format!("any of {types} instance types") };
    let (pods, cpu) = (amount("pods"), amount("cpu"));
    let kind = if pods == "1" { "pod" } else { "pods" };
    format!("nodeclaim {} for {pods} {kind} with {cpu} CPU: {choice} that fits", name(claim))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_and_refusals_in_words() {
        let claim = json!({
            "metadata": {"name": "default-x"},
            "spec": {
                "requirements": [{"key": "node.kubernetes.io/instance-type", "values": ["a", "b"]}],
                "resources": {"requests": {"cpu": "5", "pods": "5"}},
            },
        });
        assert_eq!(planned(&claim), "nodeclaim default-x for 5 pods with 5 CPU: any of 2 instance types that fits");
        let refused = |message: &str| json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}});
        let pods = [refused("no nodes. preemption: not helpful."), refused("no nodes."), json!({})];
        assert_eq!(waiting(pods.iter()), BTreeMap::from([("no nodes".to_owned(), 2)]));
    }

    #[test]
    fn nodes_come_and_go_in_words() {
        let nodes = |states: &[(&str, NodeIs)]| {
            states.iter().map(|(name, is)| (format!("{name}.sim"), *is)).collect::<BTreeMap<_, _>>()
        };
        let before = nodes(&[("a", NodeIs::Joined), ("b", NodeIs::Ready), ("c", NodeIs::Ready)]);
        let now = nodes(&[("a", NodeIs::Ready), ("b", NodeIs::Draining), ("d", NodeIs::Joined), ("e", NodeIs::Joined)]);
        let words = ["nodes d and e joined", "node a is ready", "node b is draining", "node c is gone"];
        assert_eq!(changes(&before, &now), words);
        assert_eq!(listed(&["a", "b", "c", "d"]), "a, b and 2 more");
        let going = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "Empty".to_owned())).collect();
        assert_eq!(chosen(&going(&["a"]), &going(&["a", "b"])), ["nodeclaim b goes: empty"]);
        assert_eq!(chosen(&going(&[]), &going(&["a", "b"])), ["nodeclaims a and b go: empty"]);
    }
}
