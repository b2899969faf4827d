//! What the process itself uses (V15-136), and what was built (API-187).

use jiff::Timestamp;
use karpenter_controllers::metrics::{Collector, Metrics, Samples};
use std::sync::Weak;

use crate::logging::COMMIT;

/// Ticks of `/proc/self/stat` per second: the same on every Linux we run on.
const TICKS: f64 = 100.0;

#[derive(Debug)]
pub(crate) struct Process(pub(crate) Weak<Metrics>);

impl Collector for Process {
    fn collect(&self, _: Timestamp, into: &mut Samples<'_>) {
        let Some(metrics) = self.0.upgrade() else { return };
        let metrics = &metrics.all;
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let toolchain = concat!("rust", env!("CARGO_PKG_RUST_VERSION"));
        into.add(metrics.build_info.family(), &[env!("CARGO_PKG_VERSION"), toolchain, arch, COMMIT], 1.0);
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        for (family, field) in [
            (metrics.heap_live.family(), "RssAnon:"),
            (metrics.process_resident_memory.family(), "VmRSS:"),
            (metrics.process_virtual_memory.family(), "VmSize:"),
        ] {
            if let Some(bytes) = status_bytes(&status, field) {
                into.add(family, &[], bytes);
            }
        }
        if let Some((cpu, started)) = times(&read("/proc/self/stat")) {
            into.add(metrics.process_cpu.family(), &[], cpu);
            if let Some(boot) = boot_time(&read("/proc/stat")) {
                into.add(metrics.process_start_time.family(), &[], boot + started);
            }
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            let open = u32::try_from(files.count()).unwrap_or(u32::MAX);
            into.add(metrics.process_open_fds.family(), &[], f64::from(open));
        }
    }
}

/// Memory that the process has now, in bytes.
pub(crate) fn resident_bytes() -> Option<f64> {
    status_bytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// `RssAnon:     1234 kB`
fn status_bytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// Seconds of processor time, and seconds from boot to start. The name of the program, in brackets, may hold anything.
fn times(stat: &str) -> Option<(f64, f64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
    Some(((field(14)? + field(15)?) / TICKS, field(22)? / TICKS))
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// API-187, V15-136: all three of them, and none is zero.
    #[test]
    fn the_process_knows_what_it_uses() {
        let metrics = Arc::new(Metrics::new(&karpenter_model::labels::LabelRules::core(), Vec::new()));
        metrics.add_collector(Arc::new(Process(Arc::downgrade(&metrics))));
        let text = metrics.render(Timestamp::UNIX_EPOCH);
        let value = |name: &str| -> f64 {
            let line =
                text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        for name in ["go_gc_heap_live_bytes", "process_resident_memory_bytes", "process_open_fds"] {
            assert!(value(name) > 0.0, "{name}");
        }
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_start_time_seconds") > 1.6e9);
        assert!(value("go_gc_heap_live_bytes") <= value("process_resident_memory_bytes"));
        assert!(text.contains("karpenter_build_info{version=\""), "{text}");
    }

    #[test]
    fn odd_program_names_do_not_confuse() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 1 0 1234 5 6";
        assert_eq!(times(stat), Some((2.0, 12.34)));
        assert_eq!(times("nonsense"), None);
    }
}
