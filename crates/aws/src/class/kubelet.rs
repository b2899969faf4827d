//! The kubelet's settings as amounts (AWS-131, AWS-132).

use std::collections::BTreeMap;

use karpenter_api::kinds::ec2nodeclass::KubeletConfiguration;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;
use serde_json::Value;

use super::ClassError;

/// What the provider itself makes use of (AWS-92).
pub const MANAGED: [&str; 12] = [
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];

/// How much must stay free before the kubelet evicts pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionThreshold {
    Amount(Quantity),
    /// Hundredths of a percent of what there is, as the API server admits no finer ones.
    Share(i64),
}

impl EvictionThreshold {
    /// In bytes, rounded up. All of it means that nothing is evicted (AWS-132).
    pub fn of(self, bytes: i64) -> i64 {
        match self {
            Self::Amount(amount) => amount.value(),
            Self::Share(10_000..) => 0,
            Self::Share(share) => {
                let exact = i128::from(bytes) * i128::from(share);
                i64::try_from((exact + 9_999).div_euclid(10_000)).unwrap_or(i64::MAX)
            }
        }
    }

    fn read(field: &str, text: &str) -> Result<Self, ClassError> {
        let wrong = || ClassError::Threshold { field: field.to_owned(), text: text.to_owned() };
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Self::Amount).map_err(|_| wrong());
        };
        let (whole, hundredths) = percent.split_once('.').unwrap_or((percent, ""));
        let padded = format!("{hundredths:0<2}");
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
        match (digits(whole), digits(&padded), padded.len()) {
            (Some(whole), Some(hundredths), 2) if whole <= 100 => Ok(Self::Share(whole * 100 + hundredths)),
            _ => Err(wrong()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kubelet {
    pub max_pods: Option<i64>,
    /// Instead of a number (AWS-94).
    pub max_pods_expression: Option<String>,
    /// Zero counts as not set.
    pub pods_per_core: Option<i64>,
    pub kube_reserved: Resources,
    pub system_reserved: Resources,
    /// Values that are no quantities, by resource (AWS-94).
    pub kube_expressions: BTreeMap<String, String>,
    pub system_expressions: BTreeMap<String, String>,
    pub memory_eviction: Option<EvictionThreshold>,
    pub storage_eviction: Option<EvictionThreshold>,
}

impl Kubelet {
    pub fn read(raw: &KubeletConfiguration) -> Result<Self, ClassError> {
        let hard = |signal: &str| {
            let text = raw.eviction_hard.as_ref().and_then(|signals| signals.get(signal));
            // An empty text is admitted and means nothing (AWS-285).
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| EvictionThreshold::read(&format!("spec.kubelet.evictionHard[{signal}]"), text)).transpose()
        };
        if let Some((name, _)) =
            raw.other.iter().find(|(name, value)| MANAGED.contains(&name.as_str()) && !is_expression(name, value))
        {
            return Err(ClassError::KubeletType(name.clone()));
        }
        let (kube_reserved, kube_expressions) = amounts(raw.kube_reserved.as_ref());
        let (system_reserved, system_expressions) = amounts(raw.system_reserved.as_ref());
        Ok(Self {
            max_pods: raw.max_pods.map(i64::from),
            max_pods_expression: raw.other.get("maxPods").and_then(Value::as_str).map(str::to_owned),
            pods_per_core: raw.pods_per_core.map(i64::from).filter(|pods| *pods > 0),
            kube_reserved,
            system_reserved,
            kube_expressions,
            system_expressions,
            memory_eviction: hard("memory.available")?,
            storage_eviction: hard("nodefs.available")?,
        })
    }
}

fn is_expression(name: &str, value: &Value) -> bool {
    name == "maxPods" && value.is_string()
}

/// Quantities, and what is none.
fn amounts(raw: Option<&BTreeMap<String, String>>) -> (Resources, BTreeMap<String, String>) {
    let (mut amounts, mut expressions) = (Resources::new(), BTreeMap::new());
    for (name, text) in raw.into_iter().flatten() {
        match text.parse() {
            Ok(amount) => amounts.set(name, amount),
            Err(_) => drop(expressions.insert(name.clone(), text.clone())),
        }
    }
    (amounts, expressions)
}

impl Kubelet {
    /// Every expression with the field that it is in.
    pub fn expressions(&self) -> impl Iterator<Item = (String, &str)> {
        let pods = self.max_pods_expression.iter().map(|text| ("maxPods".to_owned(), text.as_str()));
        let reserved = [("kubeReserved", &self.kube_expressions), ("systemReserved", &self.system_expressions)];
        let reserved = reserved
            .into_iter()
            .flat_map(|(list, all)| all.iter().map(move |(name, text)| (format!("{list}[{name}]"), text.as_str())));
        pods.chain(reserved)
    }

    pub fn has_expressions(&self) -> bool {
        self.expressions().next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(text: &str) -> Result<EvictionThreshold, ClassError> {
        EvictionThreshold::read("spec.kubelet.evictionHard[memory.available]", text)
    }

    /// AWS-132: amounts as they are, shares rounded up, all of it switches eviction off.
    #[test]
    fn thresholds() {
        for (text, of, want) in [
            ("500Mi", 1000, 500 << 20),
            ("10%", 1001, 101),
            ("5.25%", 10_000, 525),
            ("0.1%", 1000, 1),
            ("100%", 1000, 0),
            ("100.0%", 1000, 0),
            ("0%", 1000, 0),
        ] {
            assert_eq!(threshold(text).unwrap().of(of), want, "{text}");
        }
        for text in ["10 %", "%", "x", "101%", "1.234%", "-5%"] {
            let error = threshold(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with("spec.kubelet.evictionHard[memory.available]: "), "{error}");
        }
    }
}
