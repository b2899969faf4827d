use karpenter_aws::pricing::{on_demand_queries, parse_products};
use serde_json::json;

use crate::setup::world;

/// AWS-205, AWS-206, AC-242: the price list, over its pages, from a region that has one.
#[tokio::test]
async fn the_price_list() {
    let world = world().await;
    world.account.change(json!({"prices": {"c98.large": 1.2, "c99.large": 1.23}, "empty_pages": {"GetProducts": 2}}));
    let [shared, _] = on_demand_queries("us-west-2");
    let found = world.clients.lookups.products(&shared).await.unwrap();
    assert_eq!(parse_products("us-west-2", found.iter().map(String::as_str)).len(), 2, "{found:?}");
    let calls = world.account.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call["region"] == "us-east-1" && call["page_size"] == 100), "{calls:?}");
}

/// AWS-109, AWS-242: parameters and the cluster.
#[tokio::test]
async fn parameters_and_the_cluster() {
    let world = world().await;
    let lookups = &world.clients.lookups;
    world.account.change(json!({"parameters": {"/aws/service/eks/x/image_id": "ami-1"}}));
    assert_eq!(lookups.parameter("/aws/service/eks/x/image_id").await.unwrap(), "ami-1");
    let missing = lookups.parameter("/aws/service/eks/y").await.unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");

    let missing = lookups.cluster("shop").await.unwrap_err();
    assert_eq!(missing.code, "ResourceNotFoundException");
    let network = aws_sdk_eks::types::VpcConfigRequest::builder().build();
    aws_sdk_eks::Client::new(&world.sdk)
        .create_cluster()
        .name("shop")
        .version("1.35")
        .role_arn(format!("arn:aws:iam::{}:role/cluster", world.account.id()))
        .resources_vpc_config(network)
        .send()
        .await
        .unwrap();
    let cluster = lookups.cluster("shop").await.unwrap();
    assert_eq!(cluster.arn, format!("arn:aws:eks:us-west-2:{}:cluster/shop", world.account.id()));
    assert_eq!(cluster.version, "1.35");
    assert!(cluster.endpoint.starts_with("https://"), "{}", cluster.endpoint);
    assert!(cluster.service_cidr.is_some_and(|cidr| cidr.contains('/')));
}

/// AWS-225, AWS-226: shifts of a cluster, and one that nobody manages.
#[tokio::test]
async fn zonal_shifts() {
    let world = world().await;
    let arn = "arn:aws:eks:us-west-2:123456789012:cluster/shop";
    let missing = world.clients.lookups.zonal_shifts(arn).await.unwrap_err();
    assert_eq!(missing.code, "ResourceNotFoundException");
    let shift = json!({"appliedStatus": "APPLIED", "zonalShiftId": "1", "resourceIdentifier": arn, "awayFrom": "usw2-az1",
        "expiryTime": 1_800_000_000, "startTime": 1_700_000_000, "comment": "a flood"});
    world.account.change(json!({"managed_resources": {arn: {"zonalShifts": [shift]}}}));
    let shifts = world.clients.lookups.zonal_shifts(arn).await.unwrap();
    assert_eq!(shifts.len(), 1);
    assert_eq!((shifts[0].away_from.as_str(), shifts[0].applied_status.as_str()), ("usw2-az1", "APPLIED"));
    assert_eq!(shifts[0].expires.as_second(), 1_800_000_000);
}
