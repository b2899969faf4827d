//! The queue of interruptions (AWS-214, AWS-215).

use std::fmt;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::MessageSystemAttributeName;
use karpenter_aws::cloud::{ApiError, Queue, QueueMessage};
use tokio::sync::OnceCell;

use crate::failures::{failure, incomplete};

/// Of one ReceiveMessage call.
const MESSAGES: i32 = 10;
/// Seconds; both the wait for a message and how long others do not see it.
const SECONDS: i32 = 20;

pub(crate) struct Messages {
    client: Client,
    name: String,
    url: OnceCell<String>,
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Messages {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, name: name.to_owned(), url: OnceCell::new() }
    }

    /// Known once it was found; a queue that is missing is looked for again each time.
    async fn url(&self) -> Result<&str, ApiError> {
        let found = self.url.get_or_try_init(async || {
            let answer = self.client.get_queue_url().queue_name(&self.name).send().await.map_err(failure)?;
            answer.queue_url.ok_or_else(|| incomplete("address of the queue"))
        });
        Ok(found.await?.as_str())
    }
}

#[async_trait]
impl Queue for Messages {
    async fn receive(&self) -> Result<Vec<QueueMessage>, ApiError> {
        let call = self.client.receive_message().queue_url(self.url().await?).max_number_of_messages(MESSAGES);
        let call = call.wait_time_seconds(SECONDS).visibility_timeout(SECONDS).message_attribute_names("All");
        let call = call.message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
        let answer = call.send().await.map_err(failure)?;
        let messages = answer.messages.unwrap_or_default().into_iter().map(|message| QueueMessage {
            body: message.body.unwrap_or_default(),
            receipt: message.receipt_handle.unwrap_or_default(),
        });
        Ok(messages.collect())
    }

    async fn delete(&self, message: &QueueMessage) -> Result<(), ApiError> {
        let call = self.client.delete_message().queue_url(self.url().await?).receipt_handle(&message.receipt);
        call.send().await.map(|_| ()).map_err(failure)
    }
}
