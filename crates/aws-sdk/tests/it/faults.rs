use karpenter_aws::cloud::Run;
use karpenter_aws_sdk::{Fixed, connect_to};
use serde_json::json;

use crate::setup::{fixed, fleet, template, world};

/// AWS-252: throttling is waited out, but for dry runs; every call says who makes it.
#[tokio::test]
async fn throttled_calls_are_made_again() {
    let world = world().await;
    let throttle = |operation: &str, times: u32| json!({"faults": [{"operation": operation, "code": "RequestLimitExceeded", "message": "slow down", "status": 503, "times": times}]});
    world.account.change(throttle("DescribeSubnets", 2));
    assert_eq!(world.subnets().await.len(), 4);
    assert_eq!(world.account.count("DescribeSubnets"), 3);

    world.account.change(throttle("CreateFleet", 5));
    let subnets = world.subnets().await;
    let said = world.clients.writes.create_fleet(&fleet(&subnets), "t", Run::Dry).await.unwrap_err();
    assert!(said.is_rate_limited() && said.message == "slow down", "{said:?}");
    assert_eq!(world.account.count("CreateFleet"), 1);
    world.account.change(throttle("RunInstances", 5));
    let said = world.clients.writes.run_instances(&template("x"), "m5.large", &subnets[0].id).await.unwrap_err();
    assert!(said.is_rate_limited(), "{said:?}");
    assert_eq!(world.account.count("RunInstances"), 1);
    for call in world.account.calls() {
        assert!(call["user_agent"].as_str().unwrap().contains("karpenter.sh-1.15.0"), "{call}");
    }
}

/// AWS-252: an answer that was lost is asked for again with the same token, and nothing is launched twice.
#[tokio::test]
async fn a_lost_answer_is_no_second_launch() {
    let world = world().await;
    world.clients.writes.create_launch_template(&template("karpenter.k8s.aws/1")).await.unwrap();
    let subnets = world.subnets().await;
    world.account.change(json!({"faults": [{"operation": "CreateFleet", "status": 500, "applied": true, "times": 1}]}));
    let answer = world.clients.writes.create_fleet(&fleet(&subnets), "token", Run::Real).await.unwrap();
    assert_eq!(world.account.count("CreateFleet"), 2);
    let all = world.clients.reads.instances(&[]).await.unwrap();
    assert_eq!(all.iter().map(|one| &one.id).collect::<Vec<_>>(), [&answer.instances[0].id]);
}

/// AWS-251: codes and messages stay as they are; a failing service is told from a refusal, and both from no answer at all.
#[tokio::test]
async fn failures_say_what_they_are() {
    let world = world().await;
    world.account.change(json!({"faults": [{"operation": "DescribeSubnets", "code": "InternalError", "message": "oh", "status": 500, "times": -1}]}));
    let said = world.clients.reads.subnets(&[]).await.unwrap_err();
    assert_eq!((said.code.as_str(), said.message.as_str(), said.server_fault), ("InternalError", "oh", true));
    assert_eq!(world.account.count("DescribeSubnets"), 3);
    // One code of each protocol.
    world.account.change(json!({"faults": [
        {"operation": "GetInstanceProfile", "code": "LimitExceeded", "message": "full", "status": 409, "times": 1},
        {"operation": "GetParameter", "code": "ValidationException", "message": "odd", "status": 400, "times": 1},
        {"operation": "GetQueueUrl", "code": "AWS.SimpleQueueService.NonExistentQueue", "message": "none", "status": 400, "times": 1},
        {"operation": "GetProducts", "code": "AccessDeniedException", "message": "no", "status": 400, "times": 1}]}));
    let clients = &world.clients;
    assert_eq!(clients.iam.instance_profile("x").await.unwrap_err().to_string(), "LimitExceeded: full");
    assert_eq!(clients.lookups.parameter("x").await.unwrap_err().to_string(), "ValidationException: odd");
    assert!(clients.queue("x").receive().await.unwrap_err().is_not_found());

    // A port that nobody listens on: taken, and given back.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = Fixed { endpoint: format!("http://{closed}"), ..fixed(&world.account) };
    let said = connect_to(&nowhere, "1.15.0").await.unwrap().check().await.unwrap_err();
    assert_eq!((said.code.as_str(), said.server_fault), ("", false));
    assert!(said.message.to_lowercase().contains("refused"), "{said}");
    assert!(connect_to(&nowhere, "1.15 (beta)").await.unwrap_err().to_string().contains("1.15 (beta)"));
}

/// What is not allowed is named.
#[tokio::test]
async fn denied_calls_name_the_right() {
    let world = world().await;
    world.account.change(json!({"policy": [{"Action": "ec2:DescribeSubnets", "Resource": "*"}]}));
    world.clients.reads.subnets(&[]).await.unwrap();
    let said = world.clients.check().await.unwrap_err();
    assert!(said.is_unauthorized() && said.message.contains("ec2:DescribeInstanceTypes"), "{said:?}");
    let said = world.clients.iam.instance_profile("x").await.unwrap_err();
    assert!(said.code == "AccessDenied" && said.message.contains("iam:GetInstanceProfile"), "{said:?}");
    assert_eq!(world.account.denials().len(), 2);
}
