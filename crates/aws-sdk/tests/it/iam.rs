use karpenter_aws::cloud::InstanceProfileInfo;
use serde_json::json;

use crate::setup::{tags, world};

/// AWS-69 to AWS-75: the life of a profile, found by its path; AWS-254 for its pages.
#[tokio::test]
async fn the_life_of_a_profile() {
    let world = world().await;
    let iam = &world.clients.iam;
    let sdk = aws_sdk_iam::Client::new(&world.sdk);
    sdk.create_role().role_name("nodes").path("/team/").assume_role_policy_document("{}").send().await.unwrap();
    let missing = iam.instance_profile("shop_1").await.unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    let path = "/karpenter/us-west-2/shop/uid/";
    let owned = tags(&[("karpenter.k8s.aws/ec2nodeclass", "default")]);
    iam.create_instance_profile("shop_1", path, &owned).await.unwrap();
    let again = iam.create_instance_profile("shop_1", path, &owned).await.unwrap_err();
    assert!(again.is_already_exists(), "{again:?}");
    iam.create_instance_profile("other", "/", &owned).await.unwrap();
    iam.add_role("shop_1", "nodes").await.unwrap();
    let no_role = iam.add_role("other", "nobody").await.unwrap_err();
    assert!(no_role.is_not_found() && no_role.message.contains("nobody"), "{no_role:?}");
    let whole = InstanceProfileInfo { name: "shop_1".to_owned(), roles: vec!["nodes".to_owned()] };
    assert_eq!(iam.instance_profile("shop_1").await.unwrap(), whole);
    world.account.change(json!({"empty_pages": {"ListInstanceProfiles": 2}}));
    assert_eq!(iam.instance_profiles("/karpenter/us-west-2/shop/").await.unwrap(), [whole]);
    let kept = sdk.get_instance_profile().instance_profile_name("shop_1").send().await.unwrap();
    let kept = kept.instance_profile.unwrap();
    assert_eq!((kept.path(), kept.tags()[0].value()), (path, "default"));

    let in_use = iam.delete_instance_profile("shop_1").await.unwrap_err();
    assert_eq!(in_use.code, "DeleteConflict");
    iam.remove_role("shop_1", "nodes").await.unwrap();
    iam.delete_instance_profile("shop_1").await.unwrap();
    assert!(iam.delete_instance_profile("shop_1").await.unwrap_err().is_not_found());
}
