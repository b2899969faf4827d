use serde_json::json;

use crate::setup::world;

/// AWS-214, AWS-215, AWS-251: a queue that is not there yet, then its messages.
#[tokio::test]
async fn messages_come_and_go() {
    let world = world().await;
    let queue = world.clients.queue("shop");
    let missing = queue.receive().await.unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    let sdk = aws_sdk_sqs::Client::new(&world.sdk);
    let url = sdk.create_queue().queue_name("shop").send().await.unwrap().queue_url.unwrap();
    for body in ["one", "two"] {
        sdk.send_message().queue_url(&url).message_body(body).send().await.unwrap();
    }
    let mut bodies = Vec::new();
    while bodies.len() < 2 {
        for message in queue.receive().await.unwrap() {
            queue.delete(&message).await.unwrap();
            bodies.push(message.body);
        }
    }
    bodies.sort();
    assert_eq!(bodies, ["one", "two"]);
    let left = sdk.receive_message().queue_url(&url).visibility_timeout(0).send().await.unwrap();
    assert_eq!(left.messages(), []);
    let calls = world.account.calls();
    let asked = &calls.iter().find(|call| call["operation"] == "ReceiveMessage").unwrap()["parameters"];
    assert_eq!((&asked["MaxNumberOfMessages"], &asked["WaitTimeSeconds"]), (&json!(10), &json!(20)));
    assert_eq!((&asked["VisibilityTimeout"], &asked["MessageAttributeNames"]), (&json!(20), &json!(["All"])));
    assert_eq!(asked["MessageSystemAttributeNames"], json!(["SentTimestamp"]));
    assert_eq!(world.account.count("GetQueueUrl"), 2, "one that failed, one that is remembered");
}
