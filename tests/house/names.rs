//! One meaning per word: no two files of `src` define a type of the same name.

use super::source::Source;
use std::collections::BTreeMap;

#[test]
fn every_type_has_a_name_of_its_own() {
    let twice = defined_twice(&Source::all(&["src"]));
    assert!(twice.is_empty(), "{}", twice.join("\n"));
}

#[test]
fn a_name_that_is_defined_twice_is_found() {
    let one =
        Source::new("src/a.rs", "pub struct Page;\nenum Step {\n}\n#[cfg(test)]\nmod tests {\n    struct Own;\n}\n");
    let other =
        Source::new("src/b.rs", "// struct Step\npub(in crate::b) trait Page {\n    type Step;\n}\nstruct Own;\n");
    assert_eq!(defined_twice(&[one, other]), ["Page is defined in src/a.rs:1 and src/b.rs:2"]);
}

/// Names of types and traits that are defined more than once, each with its places.
fn defined_twice(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        for (index, line) in source.product.lines().enumerate() {
            if let Some(name) = defined(line) {
                places.entry(name).or_default().push(format!("{}:{}", source.path, index + 1));
            }
        }
    }
    assert!(!places.is_empty(), "no type was seen");
    let twice = places.into_iter().filter(|(_, places)| places.len() > 1);
    twice.map(|(name, places)| format!("{name} is defined in {}", places.join(" and "))).collect()
}

/// The name that a line defines, if it begins a struct, an enum or a trait.
fn defined(line: &str) -> Option<&str> {
    let is_visibility = |word: &&str| ["pub", "crate::"].iter().any(|start| word.starts_with(start));
    let mut words = line.split_whitespace().skip_while(is_visibility);
    let is_definition = ["struct", "enum", "trait"].contains(&words.next()?);
    let end = |c: char| !c.is_alphanumeric() && c != '_';
    words.next().filter(|_| is_definition)?.split(end).next()
}
