//! The controller dies at each call of a launch and of a termination, before and after it was carried out.

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
    let mut replica = aws.start_alone("karpenter-0");
    class_is_ready(&scene).await;
    let cases = CALLS.iter().flat_map(|call| [(*call, false), (*call, true)]);
    for (number, (call, applied)) in cases.enumerate() {
        hang(&aws, call, applied);
        // A label of its own, hence a template of its own.
        let pool = format!("p{number}");
        let mut over = spec("default", "on-demand");
        over["template"]["metadata"]["labels"]["example.com/case"] = Value::from(pool.clone());
        scene.create(scene.pool(&pool, over)).await;
        let wanted = json!({"spec": {"nodeSelector": {"example.com/case": pool}}});
        scene.create(scene.pod(&pool, "1", wanted)).await;
        is_hanging(&aws, call).await;
        drop(replica);
        aws.account.change(json!({"faults": []}));
        replica = aws.start_alone(&format!("karpenter-{}", number + 1));
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
    aws.nothing_was_denied();
}

/// What the end of a claim and of its class calls, in order. Looks at instances are also taken for other reasons, which is as good
/// a moment to die.
const LAST_CALLS: [&str; 5] = [
    "DescribeInstances",
    "TerminateInstances",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
    "DeleteLaunchTemplate",
];

/// AWS-40, AWS-41, AWS-74, AWS-200: what was not carried out is done again by the next process, which then dies after the same call was
/// carried out. In the end there is no instance, no launch template and no profile.
#[tokio::test]
async fn nothing_is_left_whenever_the_controller_dies() {
    let aws = OnAws::new().await;
    let scene = Scene::new(&aws.installed, "last-deaths").await;
    scene.create(aws.class("default")).await;
    let mut replica = aws.start_alone("karpenter-0");
    class_is_ready(&scene).await;
    let profile = scene.get("EC2NodeClass", "default").await.unwrap().unwrap();
    let profile = profile["status"]["instanceProfile"].as_str().unwrap().to_owned();
    aws.clients.iam.instance_profile(&profile).await.unwrap();
    scene.create(scene.pool("", spec("default", "on-demand"))).await;
    scene.create(scene.pod("one", "1", json!({}))).await;
    scene.runs("one").await;
    assert_eq!(aws.instances().await.len(), 1);
    assert!(!aws.clients.reads.launch_templates(&[]).await.unwrap().is_empty());

    let cases = LAST_CALLS.iter().flat_map(|call| [(*call, false), (*call, true)]);
    for (number, (call, applied)) in cases.enumerate() {
        hang(&aws, call, applied);
        if number == 0 {
            scene.delete("Pod", "one").await;
            scene.delete("NodePool", &scene.pool_name("")).await;
            scene.delete("EC2NodeClass", "default").await;
        }
        is_hanging(&aws, &format!("{call} {applied}")).await;
        drop(replica);
        aws.account.change(json!({"faults": []}));
        replica = aws.start_alone(&format!("karpenter-{}", number + 1));
    }
    scene.nothing_left().await;
    scene
        .wait("the class is gone", async || Ok(scene.get("EC2NodeClass", "default").await?.is_none().then_some(())))
        .await;
    let instances = aws.instances().await;
    assert!(instances.is_empty(), "{instances:?}");
    let templates = aws.clients.reads.launch_templates(&[]).await.unwrap();
    assert!(templates.is_empty(), "{templates:?}");
    let gone = aws.clients.iam.instance_profile(&profile).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone:?}");
    aws.nothing_was_denied();
    drop(replica);
}

/// The next answer to this call comes an hour late, which is never.
fn hang(aws: &OnAws, call: &str, applied: bool) {
    let fault = json!({"operation": call, "applied": applied, "delay": 3600, "times": 1});
    aws.account.change(json!({"faults": [fault]}));
}

async fn is_hanging(aws: &OnAws, call: &str) {
    wait(&format!("{call} is called"), async || (aws.account.settings()["faults"][0]["times"] == 0).then_some(()))
        .await;
}

async fn class_is_ready(scene: &Scene<'_>) {
    scene
        .wait("the class is ready", async || {
            let class = scene.get("EC2NodeClass", "default").await?;
            Ok(class.filter(crate::live::scene::is_ready).map(|_| ()))
        })
        .await;
}
