//! How instances are named: `aws:///<zone>/<instance id>` (AWS-34).

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("provider id {0:?} is not of the form aws:///<zone>/<instance id>")]
pub struct ProviderIdError(String);

pub fn provider_id(zone: &str, instance_id: &str) -> String {
    format!("aws:///{zone}/{instance_id}")
}

/// The instance's id. Whoever wrote the id may have put anything before and between.
pub fn instance_id(provider_id: &str) -> Result<&str, ProviderIdError> {
    let wrong = || ProviderIdError(provider_id.to_owned());
    let (_, rest) = provider_id.split_once(":///").ok_or_else(wrong)?;
    let (zone, _) = rest.split_once('/').ok_or_else(wrong)?;
    rest.rsplit('/').next().filter(|id| !id.is_empty() && !zone.is_empty()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-34, AC-37.
    #[test]
    fn ids() {
        assert_eq!(instance_id("aws:///us-east-1a/i-0abc"), Ok("i-0abc"));
        assert_eq!(instance_id("other:///us-east-1a/more/i-0abc"), Ok("i-0abc"));
        assert_eq!(instance_id(&provider_id("z", "i-1")), Ok("i-1"));
        for wrong in ["i-0abc", "", "aws://zone/i-1", "aws:///i-0abc", "aws:////i-1", "aws:///zone/"] {
            assert!(instance_id(wrong).is_err_and(|error| error.to_string().contains(wrong)), "{wrong}");
        }
    }
}
