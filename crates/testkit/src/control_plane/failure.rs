//! Keeps the logs when something failed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

static LOGS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Tells the janitor to leave the logs.
pub(super) fn keep_logs(logs: &Path) -> std::io::Result<()> {
    File::create(logs.join("failed")).map(drop)
}

/// A failed test panics; which control plane it talked to is not known, so all that run keep their logs.
pub(super) fn keep_logs_on_panic(logs: &Path) {
    static HOOK: Once = Once::new();
    LOGS.lock().unwrap_or_else(PoisonError::into_inner).push(logs.to_owned());
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            previous(info);
            for logs in LOGS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // Those of a control plane that has ended cleanly are gone.
                if logs.is_dir() && keep_logs(logs).is_ok() {
                    #[expect(clippy::print_stderr, reason = "belongs to the output of the failed test")]
                    {
                        eprintln!("logs of the control plane are kept in {}", logs.display());
                    }
                }
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::super::process::Janitor;
    use super::*;

    fn folder_after(what_happens: impl FnOnce(&Path)) -> (tempfile::TempDir, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("cluster");
        for part in ["etcd", "logs"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
            std::fs::write(folder.join(part).join("file"), "text").unwrap();
        }
        let janitor = Janitor::start(&folder).unwrap();
        what_happens(&folder.join("logs"));
        drop(janitor);
        let left = std::fs::read_dir(&folder).map_or_else(
            |_| Vec::new(),
            |entries| entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect(),
        );
        (dir, left)
    }

    #[test]
    fn logs_stay_only_after_a_failure() {
        assert_eq!(folder_after(|_| {}).1, Vec::<String>::new());
        let (dir, left) = folder_after(|logs| keep_logs(logs).unwrap());
        assert_eq!(left, ["logs"]);
        assert_eq!(std::fs::read_to_string(dir.path().join("cluster/logs/file")).unwrap(), "text");
    }

    #[test]
    fn a_panic_is_a_failure() {
        let (_dir, left) = folder_after(|logs| {
            keep_logs_on_panic(logs);
            std::thread::spawn(|| panic!("as a failing test does")).join().unwrap_err();
        });
        assert_eq!(left, ["logs"]);
    }
}
