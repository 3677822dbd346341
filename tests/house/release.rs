//! Releases: one version everywhere, the formats that the changelog promises to read, the test command, and no example
//! addresses.

use crate::util::package::read_text;
use std::fs;
use std::process::Command;

/// Every place names the version, and the changelog names its formats.
#[test]
fn the_changelog_names_the_version_and_its_formats() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = read_text("CHANGELOG.md");
    assert!(changelog.contains(&format!("\n## {version}\n")), "{version} has no heading");
    let formats = format!("schema {} of the store", vote_status::store::SCHEMA);
    assert!(changelog.contains(&formats), "{formats}");
    #[cfg(feature = "redis")]
    {
        let formats = format!("schema {} in Redis", vote_status::cluster::keys::SCHEMA);
        assert!(changelog.contains(&formats), "{formats}");
    }
    for description in ["openapi.template.json", "control.openapi.template.json"] {
        let text = read_text(format!("src/pages/{description}"));
        assert!(text.contains(&format!("\"version\": \"{version}\"")), "{description}");
    }
}

/// CI looks for this line in README and runs it.
#[test]
fn readme_gives_the_command_that_tests() {
    assert!(read_text("README.md").lines().any(|line| line == "cargo test"));
}

/// A report to an example address reaches nobody. The test runs in a folder of its own, where nothing can be built.
#[test]
fn a_release_is_refused_until_the_publisher_has_filled_in_the_addresses() {
    let cases = [
        ("https://vote-status.example", "us <us@vote-status.net>", "1.0.0", "\"homepage\" in Cargo.toml"),
        ("https://vote-status.net", "us <us@vote-status.example>", "1.0.0", "\"maintainer\" in Cargo.toml"),
        ("https://vote-status.net", "us <us@vote-status.net>", "0.9.0", "the changelog begins with 1.0.0"),
        ("https://vote-status.net", "us <us@vote-status.net>", "1.0.0", "not committed"),
    ];
    for (homepage, maintainer, version, why) in cases {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("it can be written");
        fs::create_dir(folder.path().join("contrib")).expect("a folder can be made");
        write("contrib/release", &read_text("contrib/release"));
        write("CHANGELOG.md", "# Changelog\n\n## 1.0.0\n");
        write(
            "Cargo.toml",
            &format!("version = \"{version}\"\nhomepage = \"{homepage}\"\nmaintainer = \"{maintainer}\"\n"),
        );
        Command::new("git").args(["init", "-q"]).current_dir(folder.path()).status().expect("git can be run");
        let ended = Command::new("bash").arg(folder.path().join("contrib/release")).output().expect("bash can be run");
        let said = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.starts_with("no release: ") && said.contains(why), "{why:?}: {said}");
    }
}
