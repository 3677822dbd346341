//! Imports between files make no circle.

use super::ROOTS;
use super::source::{Source, follow, name_at, paths, words};
use std::collections::{BTreeMap, BTreeSet};

/// For each file of `src`, the files that it imports from.
type Arrows<'s> = BTreeMap<&'s str, BTreeSet<&'s str>>;

#[test]
fn no_file_imports_from_one_that_imports_from_it() {
    let sources = Source::all(&["src"]);
    let arrows = arrows(&sources);
    assert!(arrows.values().map(BTreeSet::len).sum::<usize>() > 100, "the imports are not seen");
    let circles = circles(&arrows);
    assert!(circles.is_empty(), "files in a circle of imports: {circles:#?}");
}

fn arrows(sources: &[Source]) -> Arrows<'_> {
    let files: BTreeMap<Vec<&str>, &str> =
        sources.iter().map(|source| (module_path(&source.path), source.path.as_str())).collect();
    let file_of = |path: &[&str]| {
        let known = (1..=path.len()).rev().find_map(|length| files.get(&path[..length]));
        known.copied().filter(|file| *file != "src/lib.rs")
    };
    let mut arrows = Arrows::new();
    for source in sources {
        let own = module_path(&source.path);
        let is_child = |name: &str| files.contains_key(&[&own[..], &[name]].concat());
        let paths = paths_in(&source.product, &own, &is_child);
        // A file may import from the module of its own folder: `mod.rs` and its files are one thing.
        let is_own = |file: &str| file == source.path || own.starts_with(&module_path(file));
        let targets = paths.iter().filter_map(|path| file_of(path)).filter(|file| !is_own(file));
        arrows.insert(&source.path, targets.collect());
    }
    arrows
}

/// `["net", "worker"]` for `src/net/worker.rs` and for `src/net/worker/mod.rs`; the library is empty.
fn module_path(file: &str) -> Vec<&str> {
    let inside = file.strip_prefix("src/").unwrap_or(file);
    let inside = inside.strip_suffix("/mod.rs").or(inside.strip_suffix(".rs")).unwrap_or(inside);
    if inside == "lib" { Vec::new() } else { inside.split('/').collect() }
}

/// Every path in `code` that leads to a module, from the root of the crate.
fn paths_in<'c>(code: &'c str, own: &[&'c str], is_child: &dyn Fn(&str) -> bool) -> Vec<Vec<&'c str>> {
    let mut found = paths(code, &ROOTS);
    for at in words(code, "super::") {
        // Behind another `super::` this one was followed already.
        if !code[..at].ends_with("::") {
            let ups = code[at..].split("::").take_while(|part| *part == "super").count();
            let base = &own[..own.len().saturating_sub(ups)];
            follow(code, at + ups * "super::".len(), base, &mut found);
        }
    }
    for at in words(code, "use") {
        let from = at + "use ".len();
        let name = name_at(code, from);
        if is_child(name) {
            follow(code, from, own, &mut found);
        }
    }
    found.into_iter().map(|(_, path)| path).collect()
}

/// Groups of files that reach each other by imports.
fn circles<'s>(arrows: &Arrows<'s>) -> Vec<Vec<&'s str>> {
    let reached: Arrows<'s> = arrows.keys().map(|file| (*file, reached_from(file, arrows))).collect();
    let mut circles = Vec::new();
    for (file, all) in &reached {
        let circle: Vec<&str> = all.iter().copied().filter(|other| reached[other].contains(file)).collect();
        // Each circle once, with its first file.
        if circle.first() == Some(file) {
            circles.push(circle);
        }
    }
    circles
}

fn reached_from<'s>(file: &str, arrows: &Arrows<'s>) -> BTreeSet<&'s str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = arrows[file].iter().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(&arrows[next]);
        }
    }
    reached
}

#[test]
fn circles_are_found_through_every_form_of_import() {
    type Files = &'static [(&'static str, &'static str)];
    let cases: &[(Files, &[&[&str]])] = &[
        (
            &[
                ("src/a/b.rs", "use crate::a::{c::X, d};"),
                ("src/a/c.rs", "fn f() { super::b::x() }"),
                ("src/a/d.rs", ""),
            ],
            &[&["src/a/b.rs", "src/a/c.rs"]],
        ),
        (&[("src/a/mod.rs", "mod b;\nuse b::X;"), ("src/a/b.rs", "use super::Y;")], &[]),
        (
            &[
                ("src/a/mod.rs", "mod b;\nuse b::X;"),
                ("src/a/b.rs", "use crate::c::Y;"),
                ("src/c.rs", "use crate::a::Z;"),
            ],
            &[&["src/a/b.rs", "src/a/mod.rs", "src/c.rs"]],
        ),
        (&[("src/a.rs", "use crate::b::X;"), ("src/b.rs", "#[cfg(test)]\nmod tests {\n use crate::a;\n}")], &[]),
    ];
    for (files, expected) in cases {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        assert_eq!(circles(&arrows(&sources)), *expected, "{files:?}");
    }
}
