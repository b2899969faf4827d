//! Values that keep the text they were written in.
//!
//! The controller must write back `720h` as `720h` and `cpu: 4` as a number, or tools that compare manifests with the
//! cluster see a difference that nobody made (API-7). Reading such a value never fails; [`parse`](DurationText::parse)
//! says later, where field and object are known, whether the text means something.

use std::fmt;

use karpenter_model::duration::{DurationError, GoDuration, NillableDuration};
use karpenter_model::quantity::{Quantity, QuantityError};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Number;

/// A duration such as `1h30m`, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DurationText(pub String);

/// A duration or `Never`, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct NillableDurationText(pub String);

impl DurationText {
    pub fn parse(&self) -> Result<GoDuration, DurationError> {
        self.0.parse()
    }
}

impl NillableDurationText {
    /// The text that switches a feature off.
    pub const NEVER: &'static str = "Never";

    pub fn never() -> Self {
        Self(Self::NEVER.to_owned())
    }

    pub fn parse(&self) -> Result<NillableDuration, DurationError> {
        self.0.parse()
    }
}

impl From<&str> for DurationText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<&str> for NillableDurationText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NillableDurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A quantity, number or string, as written (API-9).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QuantityText {
    Number(Number),
    Text(String),
}

impl QuantityText {
    pub fn parse(&self) -> Result<Quantity, QuantityError> {
        match self {
            Self::Number(number) => number.to_string().parse(),
            Self::Text(text) => text.parse(),
        }
    }
}

impl Default for QuantityText {
    fn default() -> Self {
        Self::Text("0".to_owned())
    }
}

impl From<&str> for QuantityText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for QuantityText {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

/// Canonical text, as the controller writes amounts that it computed.
impl From<Quantity> for QuantityText {
    fn from(quantity: Quantity) -> Self {
        Self::Text(quantity.to_string())
    }
}

impl fmt::Display for QuantityText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Serialize for QuantityText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => text.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = QuantityText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a number or a string")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<QuantityText, E> {
        Ok(QuantityText::Number(number.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<QuantityText, E> {
        Ok(QuantityText::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<QuantityText, E> {
        // Not admitted by the API server, but met in files; infinities are kept as text and fail to parse later.
        Ok(Number::from_f64(number).map_or_else(|| QuantityText::Text(number.to_string()), QuantityText::Number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<QuantityText, E> {
        Ok(QuantityText::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<QuantityText, E> {
        Ok(QuantityText::Text(text))
    }
}

#[cfg(test)]
impl schemars::JsonSchema for QuantityText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// API-9: a quantity keeps the form in which it was written.
    #[test]
    fn quantities_keep_their_form() {
        for written in [json!(4), json!("4"), json!("500m"), json!(-1), json!("1.50Gi"), json!("1e3"), json!(u64::MAX)]
        {
            let quantity: QuantityText = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&quantity).unwrap(), written);
            quantity.parse().unwrap();
        }
        for (yaml, want) in [("4\n", QuantityText::from(4)), ("\"4\"\n", "4".into()), ("500m\n", "500m".into())] {
            let quantity: QuantityText = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(quantity, want, "{yaml}");
            assert_eq!(serde_saphyr::to_string(&quantity).unwrap(), yaml);
        }
    }

    /// API-6, API-7: durations keep their text, `Never` switches off, and a wrong text is found on parsing only.
    #[test]
    fn durations_keep_their_text() {
        for (text, seconds) in [("720h", 2_592_000), ("1h30m5s", 5_405), ("0s", 0), ("43200m", 2_592_000)] {
            let duration: DurationText = serde_json::from_value(json!(text)).unwrap();
            assert_eq!(serde_json::to_value(&duration).unwrap(), json!(text));
            assert_eq!(duration.parse(), Ok(GoDuration::from_secs(seconds)));
            let nillable: NillableDurationText = serde_json::from_value(json!(text)).unwrap();
            assert_eq!(serde_json::to_value(&nillable).unwrap(), json!(text));
            assert_eq!(nillable.parse(), Ok(NillableDuration::After(GoDuration::from_secs(seconds))));
        }
        assert_eq!(NillableDurationText::never().parse(), Ok(NillableDuration::Never));
        assert!(DurationText::from("Never").parse().is_err());
        assert!(NillableDurationText::from("never").parse().is_err());
        assert!(DurationText::from("soon").parse().is_err());
    }

    proptest! {
        #[test]
        fn any_text_reads_writes_and_parses_without_panic(text in any::<String>()) {
            let quantity: QuantityText = serde_json::from_value(json!(text)).unwrap();
            prop_assert_eq!(serde_json::to_value(&quantity).unwrap(), json!(text));
            let _ = quantity.parse();
            let _ = DurationText(text.clone()).parse();
            let _ = NillableDurationText(text).parse();
        }

        #[test]
        fn any_number_reads_and_writes(number in any::<i64>()) {
            let quantity: QuantityText = serde_json::from_value(json!(number)).unwrap();
            prop_assert_eq!(serde_json::to_value(&quantity).unwrap(), json!(number));
            prop_assert_eq!(quantity.parse(), QuantityText::Text(number.to_string()).parse());
        }
    }
}
