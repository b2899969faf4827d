//! The regular expressions of the schemas. The API server searches, so what must match as a whole anchors itself.

pub(super) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
pub(super) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
pub(super) const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
pub(super) const DURATION: &str = "^([0-9]+(s|m|h))+$";
pub(super) const NILLABLE_DURATION: &str = "^(([0-9]+(s|m|h))+|Never)$";
pub(super) const BUDGET_NODES: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";
/// Each alternative is anchored at one end only. Clusters hold objects that this lets through, so it stays as it is; the
/// cron parser has the last word.
pub(super) const CRON: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
pub(super) const BUDGET_DURATION: &str = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";
pub(super) const GROUP: &str = "^[^/]*$";
pub(super) const CONDITION_TYPE: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
pub(super) const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
pub(super) const CONDITION_REASON_OR_EMPTY: &str = "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";
pub(super) const PRICE: &str = r"^\d+(\.\d+)?$";
pub(super) const PRICE_ADJUSTMENT: &str = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";
