//! Facts about types that DescribeInstanceTypes does not report: limits in a VPC and the speed of the network.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use karpenter_api::instance_types::ec2;

const TABLE: &str = include_str!("vpc_limits.csv");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VpcLimits {
    pub(super) ipv4_per_interface: i64,
    /// None for types that cannot trunk.
    pub(super) branch_interfaces: Option<i64>,
}

static LIMITS: LazyLock<BTreeMap<&'static str, VpcLimits>> =
    LazyLock::new(|| TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(parse).collect());

/// A broken table must not end the process: what it says nothing of is not known, and a test reads all of it.
static BANDWIDTHS: LazyLock<BTreeMap<&'static str, i64>> = LazyLock::new(|| {
    let rows = ec2::types().unwrap_or_default();
    rows.into_iter().filter_map(|row| Some((row.name, row.network_mbps?))).collect()
});

fn parse(line: &'static str) -> Option<(&'static str, VpcLimits)> {
    let mut fields = line.split(',');
    let (name, addresses, branches) = (fields.next()?, fields.next()?, fields.next()?);
    let limits = VpcLimits { ipv4_per_interface: addresses.parse().ok()?, branch_interfaces: branches.parse().ok() };
    Some((name, limits))
}

pub(super) fn vpc_limits(name: &str) -> Option<VpcLimits> {
    LIMITS.get(name).copied()
}

pub(super) fn network_mbps(name: &str) -> Option<i64> {
    BANDWIDTHS.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-124, AWS-125: every line of the table is read, and it knows what §3.11 says.
    #[test]
    fn the_tables_are_complete() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(LIMITS.len(), lines);
        assert!(lines > 1300 && BANDWIDTHS.len() > 1200, "{lines} {}", BANDWIDTHS.len());
        let branches = |name| vpc_limits(name).and_then(|limits| limits.branch_interfaces);
        assert_eq!((branches("m5.large"), branches("m5.xlarge"), branches("t3.large")), (Some(9), Some(18), None));
        assert_eq!(vpc_limits("m5.large").map(|limits| limits.ipv4_per_interface), Some(10));
        assert_eq!(network_mbps("m5.large"), Some(750));
    }
}
