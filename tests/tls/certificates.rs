//! The files of the certificate and its key: what is refused, and what SIGHUP does.

use super::{Service, ask, folder, text};
use crate::util::DEADLINE;
use crate::util::client::Client;
use crate::util::server::{Server, run_to_end};
use crate::util::tls::{Pair, client};
use rustix::process::Signal;
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn der(path: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(path).expect("it was made as one").to_vec()
}

/// The certificate that the server shows.
fn shown(client: &mut Client) -> Vec<u8> {
    ask(client);
    let chain = client.tls().connection().peer_certificates().expect("the handshake is done");
    assert_eq!(chain.len(), 1);
    chain[0].to_vec()
}

/// Waits until the log has a line with `words` for the `count`th time.
fn wait_for_line(service: &Service, words: &str, count: usize) {
    let until = Instant::now() + DEADLINE;
    while service.server.stderr().matches(words).count() < count {
        assert!(Instant::now() < until, "no line {words:?}: {}", service.server.stderr());
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn files_that_cannot_be_used_are_refused_in_one_line() {
    let Some(folder) = folder() else { return };
    let first = Pair::make(folder.path(), "first", "ec");
    let second = Pair::make(folder.path(), "second", "rsa:2048");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("empty"), "").expect("written");
    fs::write(path("nonsense"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").expect("written");
    fs::write(path("cut"), &fs::read(&first.cert).expect("read")[..200]).expect("written");
    let mut encrypt = Command::new("openssl");
    encrypt.args(["pkcs8", "-topk8", "-passout", "pass:secret", "-in"]).arg(&first.key);
    assert!(encrypt.arg("-out").arg(path("locked")).output().expect("openssl runs").status.success());
    let (cert, key) = (first.cert.as_path(), first.key.as_path());
    for (cert, key, words) in [
        (path("missing").as_path(), key, &["missing", "cannot read"][..]),
        (cert, &path("missing"), &["missing", "cannot read"]),
        (folder.path(), key, &["cannot read"]),
        (&path("empty"), key, &["empty", "no certificate"]),
        (cert, &path("empty"), &["empty", "no private key"]),
        (&path("nonsense"), key, &["nonsense", "cannot be used"]),
        (&path("cut"), key, &["cut", "PEM"]),
        (key, key, &["first.key.pem", "no certificate"]),
        (cert, cert, &["first.cert.pem", "no private key"]),
        (cert, &path("locked"), &["locked", "pass phrase"]),
        (cert, &second.key, &["second.key.pem", "not the key"]),
        (&second.cert, key, &["first.key.pem", "not the key"]),
    ] {
        let mut command = Server::command();
        command.args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
        let ended = run_to_end({
            command.args(["--tls-cert", text(cert), "--tls-key", text(key)]);
            command
        });
        assert_eq!(ended.status.code(), Some(2), "{cert:?} {key:?}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{cert:?} {key:?}: {ended:?}");
        for word in words {
            assert!(ended.stderr.contains(word), "{cert:?} {key:?}: without {word:?}: {ended:?}");
        }
    }
    for (option, file, missing) in [("--tls-cert", cert, "--tls-key"), ("--tls-key", key, "--tls-cert")] {
        let mut command = Server::command();
        command.args(["serve", "--in-memory", option, text(file)]);
        let ended = run_to_end(command);
        assert_eq!(ended.status.code(), Some(2), "{option}: {ended:?}");
        assert!(ended.stderr.contains(missing), "{option}: {ended:?}");
    }
}

#[test]
fn sighup_reads_the_files_again_and_drops_nobody() {
    const AGAIN: &str = "the certificate was read again";
    const KEPT: &str = "the certificate stays as it was";
    let Some(service) = Service::start(&["--workers", "2"]) else { return };
    let path = |name: &str| service.folder.path().join(name);
    let (cert, key) = (path("first.cert.pem"), path("first.key.pem"));
    let first = der(&cert);
    let config = client();
    let mut before = service.connect_as(&config, None);
    assert_eq!(shown(&mut before), first);

    // One of another kind.
    let pair = Pair::make(service.folder.path(), "second", "rsa:2048");
    let second = der(&pair.cert);
    fs::copy(&pair.cert, &cert).expect("copied");
    fs::copy(&pair.key, &key).expect("copied");
    assert_eq!(shown(&mut service.connect()), first, "nobody has said that it is to be read");
    service.server.signal(Signal::HUP);
    wait_for_line(&service, AGAIN, 1);
    assert_eq!(shown(&mut service.connect()), second);
    ask(&mut before);
    // What a client has kept of the session before is still good.
    let mut resumed = service.connect_as(&config, None);
    ask(&mut resumed);
    assert_eq!(resumed.tls().connection().handshake_kind(), Some(HandshakeKind::Resumed));

    // Written halfway, mismatched, gone: what was good stays.
    let half_written = || fs::write(&cert, "-----BEGIN CERT").expect("written");
    let mismatched = || fs::write(&cert, fs::read(path("other.cert.pem")).expect("read")).expect("written");
    let gone = || fs::remove_file(&cert).expect("it is there");
    Pair::make(service.folder.path(), "other", "ec");
    let spoils: [&dyn Fn(); 3] = [&half_written, &mismatched, &gone];
    for (round, spoil) in spoils.into_iter().enumerate() {
        spoil();
        service.server.signal(Signal::HUP);
        wait_for_line(&service, KEPT, round + 1);
        assert_eq!(shown(&mut service.connect()), second, "round {round}");
    }
    assert!(service.server.stderr().contains(text(&cert)), "{}", service.server.stderr());
    fs::copy(&pair.cert, &cert).expect("copied");
    service.server.signal(Signal::HUP);
    wait_for_line(&service, AGAIN, 2);
    assert_eq!(shown(&mut service.connect()), second);
    ask(&mut before);
}
