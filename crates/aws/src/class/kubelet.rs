//! The kubelet's settings as amounts (AWS-131, AWS-132).

use std::collections::BTreeMap;

use karpenter_api::kinds::ec2nodeclass::KubeletConfiguration;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;

use super::ClassError;

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
    /// Zero counts as not set.
    pub pods_per_core: Option<i64>,
    pub kube_reserved: Resources,
    pub system_reserved: Resources,
    pub memory_eviction: Option<EvictionThreshold>,
    pub storage_eviction: Option<EvictionThreshold>,
}

impl Kubelet {
    pub(super) fn read(raw: &KubeletConfiguration) -> Result<Self, ClassError> {
        let hard = |signal: &str| {
            let text = raw.eviction_hard.as_ref().and_then(|signals| signals.get(signal));
            // An empty text is admitted and means nothing (AWS-285).
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| EvictionThreshold::read(&format!("spec.kubelet.evictionHard[{signal}]"), text)).transpose()
        };
        Ok(Self {
            max_pods: raw.max_pods.map(i64::from),
            pods_per_core: raw.pods_per_core.map(i64::from).filter(|pods| *pods > 0),
            kube_reserved: amounts("kubeReserved", raw.kube_reserved.as_ref())?,
            system_reserved: amounts("systemReserved", raw.system_reserved.as_ref())?,
            memory_eviction: hard("memory.available")?,
            storage_eviction: hard("nodefs.available")?,
        })
    }
}

fn amounts(list: &str, raw: Option<&BTreeMap<String, String>>) -> Result<Resources, ClassError> {
    let entries = raw.into_iter().flatten().map(|(name, text)| {
        let field = || format!("spec.kubelet.{list}[{name}]");
        let amount: Quantity = text.parse().map_err(|source| ClassError::Quantity { field: field(), source })?;
        Ok((name.clone(), amount))
    });
    entries.collect::<Result<Vec<_>, _>>().map(|entries| entries.into_iter().collect())
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
