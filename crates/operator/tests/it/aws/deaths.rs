//! The controller dies at each call of a launch, before and after it was carried out.

use serde_json::{Value, json};

use super::OnAws;
use super::life::{instance_id, spec};
use crate::live::installed::wait;
use crate::live::scene::Scene;

/// What a launch calls, in order.
const CALLS: [&str; 3] = ["CreateLaunchTemplate", "CreateFleet", "CreateTags"];

/// After a new start there is exactly one instance for each claim, whatever had been done.
#[tokio::test]
async fn one_instance_per_claim_whenever_the_controller_dies() {
    let aws = OnAws::new().await;
    let scene = Scene::new(&aws.installed, "deaths").await;
    scene.create(aws.class("default")).await;
    let mut replica = aws.start("karpenter-0");
    scene
        .wait("the class is ready", async || {
            let class = scene.get("EC2NodeClass", "default").await?;
            Ok(class.filter(crate::live::scene::is_ready).map(|_| ()))
        })
        .await;
    let cases = CALLS.iter().flat_map(|call| [(*call, false), (*call, true)]);
    for (number, (call, applied)) in cases.enumerate() {
        // Answers come an hour late, which is never.
        let fault = json!({"operation": call, "applied": applied, "delay": 3600, "times": 1});
        aws.account.change(json!({"faults": [fault]}));
        // A label of its own, hence a template of its own.
        let pool = format!("p{number}");
        let mut over = spec("default", "on-demand");
        over["template"]["metadata"]["labels"]["example.com/case"] = Value::from(pool.clone());
        scene.create(scene.pool(&pool, over)).await;
        let wanted = json!({"spec": {"nodeSelector": {"example.com/case": pool}}});
        scene.create(scene.pod(&pool, "1", wanted)).await;
        wait(&format!("{call} is called"), async || (aws.account.settings()["faults"][0]["times"] == 0).then_some(()))
            .await;
        drop(replica);
        aws.account.change(json!({"faults": []}));
        replica = aws.start(&format!("karpenter-{}", number + 1));
        scene.runs(&pool).await;
        scene
            .wait(&format!("{call} {applied}: one instance for each claim"), async || {
                let claims = scene.claims().await?;
                let mut known: Vec<String> = claims.iter().map(|claim| instance_id(claim).to_owned()).collect();
                let mut running: Vec<String> = aws.instances().await.into_iter().map(|one| one.id).collect();
                known.sort();
                running.sort();
                Ok((claims.len() == number + 1 && known == running).then_some(()))
            })
            .await;
    }
}
