//! A lock that permits only one study at a time on a machine. Two studies at the same time would
//! disturb each other's measurements.
use anyhow::{Context, Result, bail};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::{
    io::ErrorKind,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
};

/// The lock. It is held until it is dropped or its process ends.
///
/// The lock is an abstract socket name in the kernel, not a file. The name is the same for every
/// user and every `TMPDIR`, and it disappears with its process. A container with its own network
/// namespace has its own names.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "closing it releases the name")] UnixListener);

impl Lock {
    /// Takes the lock called `name`, which all studies on this machine share.
    ///
    /// # Errors
    /// Another study is running. The text names its process.
    pub fn take(name: &str) -> Result<Lock> {
        let what = || format!("the lock {name}");
        let address = SocketAddr::from_abstract_name(name).with_context(what)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Lock(listener)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let owner = UnixStream::connect_addr(&address).with_context(what)?;
                let owner = getsockopt(&owner, PeerCredentials).with_context(what)?;
                bail!("another study is running on this machine (process {}); it holds {}", owner.pid(), what())
            }
            Err(error) => Err(error).with_context(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_study_is_refused_until_the_first_ends() {
        let name = format!("terrace-study-test-{}", std::process::id());
        let first = Lock::take(&name).unwrap();
        let refused = Lock::take(&name).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        Lock::take(&name).unwrap();
    }
}
