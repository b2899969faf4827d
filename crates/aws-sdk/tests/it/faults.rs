use std::sync::Arc;

use karpenter_aws::cloud::{ImageQuery, ReservationQuery, Run};
use karpenter_aws::fake::Seen;
use karpenter_aws::pricing::on_demand_queries;
use karpenter_aws_sdk::{Fixed, connect_to};
use serde_json::{Value, json};

use crate::setup::{fixed, fleet, observed_world, tags, template, world};

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

/// AWS-252: there is no operation that is given up because AWS is busy, and each service says so in its own words.
#[tokio::test]
async fn every_operation_is_tried_again() {
    let world = world().await;
    let slow = |code: &str, operations: &[&str]| -> Vec<Value> {
        let fault = |operation: &&str| json!({"operation": operation, "code": code, "message": "slow down", "status": 503, "times": 1});
        operations.iter().map(fault).collect()
    };
    let ec2 = [
        "DescribeInstanceTypes",
        "DescribeInstanceTypeOfferings",
        "DescribeImages",
        "DescribeSubnets",
        "DescribeSecurityGroups",
        "DescribeCapacityReservations",
        "DescribePlacementGroups",
        "DescribeLaunchTemplates",
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeSpotPriceHistory",
        "CreateFleet",
        "CreateLaunchTemplate",
        "DeleteLaunchTemplate",
        "CreateTags",
        "TerminateInstances",
        "RebootInstances",
    ];
    let iam = [
        "GetInstanceProfile",
        "CreateInstanceProfile",
        "AddRoleToInstanceProfile",
        "RemoveRoleFromInstanceProfile",
        "DeleteInstanceProfile",
        "ListInstanceProfiles",
    ];
    let others = [
        "DescribeCluster",
        "GetParameter",
        "GetProducts",
        "GetManagedResource",
        "GetQueueUrl",
        "ReceiveMessage",
        "DeleteMessage",
    ];
    let all =
        [slow("RequestLimitExceeded", &ec2), slow("Throttling", &iam), slow("ThrottlingException", &others)].concat();
    world.account.change(json!({"faults": all}));
    let (reads, writes) = (&world.clients.reads, &world.clients.writes);
    let (iam_client, lookups) = (&world.clients.iam, &world.clients.lookups);
    let (request, fleet_request) = (template("x"), fleet(&[]));
    let image = ImageQuery { owners: vec!["self".to_owned()], filters: Vec::new() };
    let reservation = ReservationQuery { id: None, filters: Vec::new() };
    let id = ["i-00000000000000000".to_owned()];
    let queue = world.account.call("sqs", "create_queue", json!({"QueueName": "x"}));
    world.account.call("sqs", "send_message", json!({"QueueUrl": queue["QueueUrl"], "MessageBody": "{}"}));
    let queue = world.clients.queue("x");
    // What comes of it is not the point; nobody depends on another's answer.
    tokio::join!(
        async { drop(reads.instance_types().await) },
        async { drop(reads.type_offerings().await) },
        async { drop(reads.images(&image).await) },
        async { drop(reads.subnets(&[]).await) },
        async { drop(reads.security_groups(&[]).await) },
        async { drop(reads.capacity_reservations(&reservation).await) },
        async { drop(reads.placement_groups(&[]).await) },
        async { drop(reads.launch_templates(&[]).await) },
        async { drop(reads.instances(&[]).await) },
        async { drop(reads.instance_status(&[]).await) },
        async { drop(reads.spot_prices(jiff::Timestamp::UNIX_EPOCH).await) },
        async { drop(writes.create_fleet(&fleet_request, "t", Run::Real).await) },
        async { drop(writes.create_launch_template(&request).await) },
        async { drop(writes.delete_launch_template("lt-1").await) },
        async { drop(writes.create_tags(&id[0], &tags(&[("a", "b")])).await) },
        async { drop(writes.terminate_instances(&id).await) },
        async { drop(writes.reboot_instance(&id[0]).await) },
    );
    tokio::join!(
        async { drop(iam_client.instance_profile("x").await) },
        async { drop(iam_client.create_instance_profile("y", "/", &tags(&[])).await) },
        async { drop(iam_client.add_role("z", "role").await) },
        async { drop(iam_client.remove_role("z", "role").await) },
        async { drop(iam_client.delete_instance_profile("z").await) },
        async { drop(iam_client.instance_profiles("/").await) },
        async { drop(lookups.cluster("x").await) },
        async { drop(lookups.parameter("x").await) },
        async { drop(lookups.products(&on_demand_queries("us-west-2")[0]).await) },
        async { drop(lookups.zonal_shifts("arn:x").await) },
        async {
            let message = queue.receive().await.unwrap().remove(0);
            queue.delete(&message).await.unwrap();
        },
    );
    let calls = world.account.calls();
    for operation in ec2.iter().chain(&iam).chain(&others) {
        let count = calls.iter().filter(|call| call["operation"] == *operation).count();
        assert!(count >= 2, "{operation} was called {count} times");
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
    let seen = Arc::new(Seen::default());
    let nowhere = Fixed { endpoint: format!("http://{closed}"), ..fixed(&world.account) };
    let said = connect_to(&nowhere, "1.15.0", seen.clone()).await.unwrap().check().await.unwrap_err();
    assert_eq!((said.code.as_str(), said.server_fault), ("", false));
    assert!(said.message.to_lowercase().contains("refused"), "{said}");
    let told = seen.take();
    let last = told.last().unwrap();
    assert_eq!(last, "finished EC2 DescribeInstanceTypes None after 2 retries", "{told:?}");
    assert!(connect_to(&nowhere, "1.15 (beta)", seen.clone()).await.unwrap_err().to_string().contains("1.15 (beta)"));
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

/// AWS-237: every attempt and every call is told, of every service.
#[tokio::test]
async fn calls_are_observed() {
    let seen = Arc::new(Seen::default());
    let world = observed_world(seen.clone()).await;
    world.account.change(json!({"faults": [{"operation": "DescribeSubnets", "code": "RequestLimitExceeded", "status": 503, "times": 2}]}));
    world.subnets().await;
    let want = [
        "attempted EC2 DescribeSubnets Some(503)",
        "attempted EC2 DescribeSubnets Some(503)",
        "attempted EC2 DescribeSubnets Some(200)",
        "finished EC2 DescribeSubnets Some(200) after 2 retries",
    ];
    assert_eq!(seen.take(), want);
    let clients = &world.clients;
    clients.iam.instance_profile("x").await.unwrap_err();
    clients.lookups.parameter("x").await.unwrap_err();
    clients.lookups.cluster("x").await.unwrap_err();
    clients.queue("x").receive().await.unwrap_err();
    clients.writes.run_instances(&template("x"), "m5.large", "subnet-1").await.unwrap_err();
    let finished: Vec<String> = seen.take().into_iter().filter(|text| text.starts_with("finished")).collect();
    for call in
        ["IAM GetInstanceProfile", "SSM GetParameter", "EKS DescribeCluster", "SQS GetQueueUrl", "EC2 RunInstances"]
    {
        let begins = format!("finished {call} Some(4");
        assert_eq!(finished.iter().filter(|text| text.starts_with(&begins)).count(), 1, "{call}: {finished:?}");
    }
}

/// AC-282, AWS-241: with the controller's own policy only templates of a pool can be deleted, and ours are such.
#[tokio::test]
async fn only_templates_of_pools_can_be_deleted() {
    let world = world().await;
    let writes = &world.clients.writes;
    let foreign = writes.create_launch_template(&template("foreign")).await.unwrap();
    let policy = json!({"cluster": "shop", "account": world.account.id(), "region": "us-west-2"});
    world.account.change(json!({"policy_of": policy}));
    let said = writes.delete_launch_template(&foreign.id).await.unwrap_err();
    assert!(said.is_unauthorized() && said.message.contains("ec2:DeleteLaunchTemplate"), "{said:?}");
    let said = writes.create_launch_template(&template("another")).await.unwrap_err();
    assert!(said.is_unauthorized(), "without the tag none can be made either: {said:?}");
    let mut own = template("own");
    own.tags.extend(tags(&[("kubernetes.io/cluster/shop", "owned"), ("karpenter.sh/nodepool", "")]));
    let own = writes.create_launch_template(&own).await.unwrap();
    writes.delete_launch_template(&own.id).await.unwrap();
}
