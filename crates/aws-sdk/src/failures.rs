//! What a failed call says, without the SDK's types (AWS-251).

use std::error::Error;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use karpenter_aws::cloud::ApiError;

/// The code and message of the service, or what kept it from answering.
#[expect(clippy::needless_pass_by_value, reason = "every call ends with `map_err(failure)`")]
pub(crate) fn failure<E>(error: SdkError<E, HttpResponse>) -> ApiError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let status = error.raw_response().map(|response| response.status().as_u16());
    let code = error.code().unwrap_or_default().to_owned();
    let message = match error.message() {
        Some(message) => message.to_owned(),
        // Neither a message nor a code: whatever is known, from the outside in.
        None => chain(&error),
    };
    ApiError { code, message, server_fault: status.is_some_and(|status| status >= 500) }
}

/// An error and what it was caused by, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut said = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // Wrappers repeat what they wrap.
        if said.last() != Some(&text) {
            said.push(text);
        }
        next = cause.source();
    }
    said.join(": ")
}

/// An answer without what it must have.
pub(crate) fn incomplete(what: &str) -> ApiError {
    ApiError::new("", &format!("the answer has no {what}"))
}
