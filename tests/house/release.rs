//! One version everywhere, the formats that the changelog promises to read, and the command that tests.

use crate::util::package::read_text;

/// A version is named everywhere at once, and the changelog says what it stores.
#[test]
fn the_changelog_names_the_version_and_its_formats() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = read_text("CHANGELOG.md");
    assert!(changelog.contains(&format!("\n## {version}\n")), "{version} has no heading");
    let formats = format!("schema {} of the store", vote_status::store::SCHEMA);
    assert!(changelog.contains(&formats), "{formats}");
    #[cfg(feature = "redis")]
    {
        let formats = format!("schema {} in Redis", vote_status::cluster::snapshot::SCHEMA);
        assert!(changelog.contains(&formats), "{formats}");
    }
    for description in ["openapi.json", "control.openapi.json"] {
        let text = read_text(format!("src/pages/{description}"));
        assert!(text.contains(&format!("\"version\": \"{version}\"")), "{description}");
    }
}

/// CI looks for this line in README, and runs it.
#[test]
fn readme_gives_the_command_that_tests() {
    assert!(read_text("README.md").lines().any(|line| line == "cargo test"));
}
