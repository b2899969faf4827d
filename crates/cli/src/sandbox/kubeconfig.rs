//! A kubeconfig that is there as long as its cluster, and never in place of somebody else's.

use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// How files begin that may be replaced once their cluster is gone.
const MARK: &str = "# Made by `karpenter sandbox`, which removes it when it ends.\n";

/// The file; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    path: PathBuf,
    text: String,
}

impl Kubeconfig {
    pub(crate) fn write(path: &Path, config: &str) -> Result<Self> {
        let text = format!("{MARK}{config}");
        if is_left_over(path) {
            fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let created = fs::OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = match created {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{} is there already and stays as it is: choose another file with --kubeconfig", path.display())
            }
            Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
        };
        // From here on it is ours to remove.
        let ours = Self { path: path.to_owned(), text };
        file.write_all(ours.text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(ours)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Not if somebody made it theirs meanwhile.
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Made by us for a cluster that does not answer any more, as after a crash.
fn is_left_over(path: &Path) -> bool {
    let Ok(text) = fs::read_to_string(path) else { return false };
    let Some(config) = text.strip_prefix(MARK) else { return false };
    let server = config.lines().find_map(|line| line.trim().strip_prefix("server: http://"));
    let address = server.and_then(|server| server.parse::<SocketAddr>().ok());
    address.is_some_and(|address| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_its_cluster_and_spares_what_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = format!("    server: http://{}\n", listener.local_addr().unwrap());

        let ours = Kubeconfig::write(&path, &config).unwrap();
        let taken = Kubeconfig::write(&path, &config).unwrap_err().to_string();
        assert!(taken.contains("is there already and stays as it is"), "its cluster still answers: {taken}");
        drop(ours);
        assert!(!path.exists());

        fs::write(&path, "mine").unwrap();
        assert!(Kubeconfig::write(&path, &config).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");

        fs::write(&path, format!("{MARK}{config}")).unwrap();
        drop(listener);
        let ours = Kubeconfig::write(&path, "new").unwrap();
        fs::write(&path, "somebody's").unwrap();
        drop(ours);
        assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");

        let nowhere = Kubeconfig::write(&folder.path().join("no/such"), &config).unwrap_err();
        assert!(nowhere.to_string().starts_with("cannot write"), "{nowhere}");
    }
}
