//! Nodes that go because they should: empty, not worth their price, not what their pool asks for any more, too old; and what
//! keeps them.
//!
//! Scenes of one test run side by side: most of their time is waiting for windows to close.

mod held;
mod moved;
mod repaired;
mod replaced;

use std::time::Duration;

use serde_json::{Value, json};

use super::installed::shared_replica;
use super::scene::{Scene, condition};

/// A scene whose pools may be disrupted.
struct Stage(Scene<'static>);

impl std::ops::Deref for Stage {
    type Target = Scene<'static>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Stage {
    async fn new(name: &'static str) -> Self {
        Self(Scene::new(super::installed::shared().await, name).await)
    }

    /// In a cluster where nobody else is.
    async fn alone(name: &'static str) -> Self {
        Self(Scene::new(super::installed::quiet().await, name).await)
    }

    /// A pool whose nodes have so many CPUs, with budgets as they are given; `more` is laid over its spec.
    fn pool_of(&self, suffix: &str, cpus: &[&str], budgets: &Value, more: Value) -> Value {
        let mut spec = json!({"disruption": {"consolidateAfter": "1s", "budgets": budgets}, "template": {"spec": {"requirements": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": cpus}]}}});
        super::scene::lay_over(&mut spec, more);
        self.pool(suffix, spec)
    }

    /// Waits until every claim of the scene says this of itself.
    async fn all_are(&self, type_: &str, count: usize) -> Vec<Value> {
        self.wait(&format!("{count} claims are {type_}"), async || {
            let claims = self.claims().await?;
            let all = claims.iter().filter(|claim| condition(claim, type_).0 == "True").count();
            Ok((all == count && claims.len() == count).then_some(claims))
        })
        .await
    }

    async fn allow(&self, pool: &str, budgets: Value) {
        self.patch("NodePool", pool, json!({"spec": {"disruption": {"budgets": budgets}}})).await;
    }

    /// A condition of a node, since long ago; `None` takes it away.
    async fn set_condition(&self, node: &str, type_: &str, status: Option<&str>) {
        // Whoever else writes conditions at the same time makes us read again.
        self.wait(&format!("{type_} of {node}"), async || {
            let Some(read) = self.get("Node", node).await? else { return Ok(Some(())) };
            let mut conditions = read["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.retain(|condition| condition["type"] != type_);
            let since = "2020-01-01T00:00:00Z";
            conditions.extend(status.map(|status| {
                json!({"type": type_, "status": status, "reason": "Test", "message": "",
                    "lastTransitionTime": since, "lastHeartbeatTime": since})
            }));
            let version = &read["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
            self.try_patch("Node", &format!("{node}/status"), &patch).await.map(|_| Some(()))
        })
        .await;
    }

    /// Waits until repair has looked at the cluster twice more: the first look may have begun before.
    async fn looked_at(&self) {
        let metric = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count{";
        let looks = async || {
            let replica = shared_replica().await;
            let (_, text) = replica.get(replica.port("metrics").await, "/metrics").await;
            let lines = text.lines().filter(|line| line.starts_with(metric) && line.contains("reason=\"unhealthy\""));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
        };
        let before = looks().await;
        self.wait("two more looks", async || Ok((looks().await >= before + 2.0).then_some(()))).await;
    }

    /// How often a decision with these labels was made about a pool.
    async fn decisions(&self, pool: &str, labels: &str) -> f64 {
        self.counted("karpenter_voluntary_disruption_decisions_by_nodepool_total", pool, labels).await
    }

    /// The sum of a counter's series of this pool with these labels.
    async fn counted(&self, metric: &str, pool: &str, labels: &str) -> f64 {
        let replica = shared_replica().await;
        let (_, text) = replica.get(replica.port("metrics").await, "/metrics").await;
        let (start, ours) = (format!("{metric}{{"), format!("nodepool=\"{pool}\""));
        let fits = |line: &&str| line.starts_with(&start) && line.contains(&ours) && line.contains(labels);
        text.lines().filter(fits).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// A pod that leaves and one that stays, on one node of a pool that may not be disrupted yet; the node's claim after the
    /// one has left and the window has closed.
    async fn shrunk(&self, suffix: &str, pool: Value, leaves: &str, stays: &str) -> Value {
        let pool_name = self.pool_name(suffix);
        let (big, keeper) = (format!("big{suffix}"), format!("keeper{suffix}"));
        let selector = json!({"spec": {"nodeSelector": {"karpenter.sh/nodepool": pool_name}}});
        self.create(self.pod(&big, leaves, selector.clone())).await;
        self.create(super::scene::workload("Deployment", &keeper, 1, self.pod(&keeper, stays, selector))).await;
        self.wait("both wait", async || {
            let waits = |pod: &&Value| condition(pod, "PodScheduled") == ("False", "Unschedulable");
            let pods = self.list("Pod").await?;
            let ours =
                pods.iter().filter(|pod| [&big, &keeper].iter().any(|app| super::scene::label(pod, "app") == **app));
            Ok((ours.filter(waits).count() == 2).then_some(()))
        })
        .await;
        self.create(pool).await;
        let of_pool = |claim: &Value| super::scene::label(claim, "karpenter.sh/nodepool") == pool_name;
        let claim = self.claim("a ready claim", |claim| of_pool(claim) && super::scene::is_ready(claim)).await;
        self.runs(&big).await;
        assert_eq!(self.claims().await.unwrap().iter().filter(|claim| of_pool(claim)).count(), 1, "they share a node");
        self.wait("the keeper runs", async || {
            let pods = self.list("Pod").await?;
            let runs = |pod: &Value| super::scene::label(pod, "app") == keeper && super::scene::is_running(pod);
            Ok(pods.iter().any(runs).then_some(()))
        })
        .await;
        self.delete("Pod", &big).await;
        let name = super::scene::name(&claim).to_owned();
        let quiet = |claim: &Value| super::scene::name(claim) == name && condition(claim, "Consolidatable").0 == "True";
        self.claim("its window has closed", quiet).await
    }

    /// Nothing of the scene is left that could keep the loop busy.
    async fn end(&self) {
        for kind in ["Deployment", "Pod"] {
            for object in self.list(kind).await.unwrap() {
                self.delete(kind, super::scene::name(&object)).await;
            }
        }
        for pool in self.list("NodePool").await.unwrap() {
            if super::scene::label(&pool, "example.com/scene") == self.name {
                self.delete("NodePool", super::scene::name(&pool)).await;
            }
        }
    }
}

/// Looks at the scene again and again until the work is done; `law` says what is wrong, if anything is.
async fn throughout<T>(law: impl AsyncFn() -> Result<Option<String>, kube::Error>, work: impl Future<Output = T>) -> T {
    let watch = async {
        loop {
            if let Ok(Some(broken)) = law().await {
                return broken;
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        broken = watch => panic!("{broken}"),
    }
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}
