//! What an AWS call answers when it fails (AWS-193, AWS-251).

/// Codes that mean that what was asked about is not there.
const NOT_FOUND: [&str; 8] = [
    "InvalidCapacityReservationId.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
    "QueueDoesNotExist",
    // The older spelling of the same.
    "AWS.SimpleQueueService.NonExistentQueue",
    "NoSuchEntity",
    "ParameterNotFound",
];

/// An answer of a service, or none at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// As the service spells it; empty when there was no answer.
    pub code: String,
    pub message: String,
    /// The service says that it is its own fault, or its status is 500 or above.
    pub server_fault: bool,
}

impl ApiError {
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), server_fault: false }
    }

    pub fn is_not_found(&self) -> bool {
        NOT_FOUND.contains(&self.code.as_str())
    }

    pub fn is_already_exists(&self) -> bool {
        self.code == "EntityAlreadyExists"
    }

    pub fn is_unauthorized(&self) -> bool {
        self.code == "UnauthorizedOperation"
    }

    pub fn is_rate_limited(&self) -> bool {
        self.code == "RequestLimitExceeded"
    }

    /// A dry run that would have been carried out.
    pub fn is_dry_run_success(&self) -> bool {
        self.code == "DryRunOperation"
    }

    pub fn is_template_not_found(&self) -> bool {
        self.code == "InvalidLaunchTemplateName.NotFoundException"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-193, AWS-251.
    #[test]
    fn codes() {
        for code in NOT_FOUND {
            assert!(ApiError::new(code, "").is_not_found(), "{code}");
        }
        assert!(!ApiError::new("UnauthorizedOperation", "").is_not_found());
        assert!(ApiError::new("EntityAlreadyExists", "").is_already_exists());
        assert!(ApiError::new("InvalidLaunchTemplateName.NotFoundException", "").is_template_not_found());
        assert_eq!(ApiError::new("Code", "text").to_string(), "Code: text");
    }
}
