//! One version everywhere, and the formats that the changelog promises to read.

use std::fs;

/// A version is named everywhere at once, and the changelog says what it stores.
#[test]
fn the_changelog_names_the_version_and_its_formats() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = fs::read_to_string("CHANGELOG.md").expect("it is part of the project");
    assert!(changelog.contains(&format!("\n## {version}\n")), "{version} has no heading");
    let formats = format!("schema {} of the store", vote_status::store::SCHEMA);
    assert!(changelog.contains(&formats), "{formats}");
    #[cfg(feature = "redis")]
    {
        let formats = format!("schema {} in Redis", vote_status::cluster::snapshot::SCHEMA);
        assert!(changelog.contains(&formats), "{formats}");
    }
    for description in ["openapi.json", "control.openapi.json"] {
        let text = fs::read_to_string(format!("src/pages/{description}")).expect("it is part of the project");
        assert!(text.contains(&format!("\"version\": \"{version}\"")), "{description}");
    }
}
