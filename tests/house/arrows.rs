//! Who imports from whom, file by file: no circle, and a picture of the floors for who asks for it
//! (`cargo test house::arrows -- --show-output`).

use super::source::{Source, behind_bracket, find_flat, words};
use super::{FLOORS, module_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// For each file of `src`, the files that it imports from.
type Arrows<'s> = BTreeMap<&'s str, BTreeSet<&'s str>>;

#[test]
fn no_file_imports_from_one_that_imports_from_it() {
    let sources = Source::all(&["src"]);
    let arrows = arrows(&sources);
    assert!(arrows.values().map(BTreeSet::len).sum::<usize>() > 100, "the imports are not seen");
    println!("{}", picture(&sources, &arrows));
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
        // A file of a folder may name what its folder is about: `mod.rs` and its files are one thing.
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
    let mut paths = Vec::new();
    for root in ["crate::", "vote_status::"] {
        for at in words(code, root) {
            follow(code, at + root.len(), &[], &mut paths);
        }
    }
    for at in words(code, "super::") {
        // Behind another `super::` it was followed with that one.
        if !code[..at].ends_with("::") {
            let ups = code[at..].split("::").take_while(|part| *part == "super").count();
            let base = &own[..own.len().saturating_sub(ups)];
            follow(code, at + ups * "super::".len(), base, &mut paths);
        }
    }
    for at in words(code, "use") {
        let from = at + "use ".len();
        let name = name_at(code, from);
        if is_child(name) {
            follow(code, from, own, &mut paths);
        }
    }
    paths
}

/// The path, or all paths of the group, that begins at `at`.
fn follow<'c>(code: &'c str, at: usize, before: &[&'c str], paths: &mut Vec<Vec<&'c str>>) {
    if code[at..].starts_with('{') {
        let end = behind_bracket(code, at) - 1;
        let mut item = at + 1;
        while item < end {
            item += code[item..].len() - code[item..].trim_start().len();
            if item < end {
                follow(code, item, before, paths);
            }
            item = find_flat(code, item, b",}").map_or(end, |comma| comma + 1);
        }
        return;
    }
    let name = name_at(code, at);
    let path = [before, &[name]].concat();
    match code[at + name.len()..].strip_prefix("::") {
        Some(_) if !name.is_empty() => follow(code, at + name.len() + 2, &path, paths),
        _ => paths.push(path),
    }
}

fn name_at(code: &str, at: usize) -> &str {
    let end = code[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &code[at..at + end.unwrap_or(code.len() - at)]
}

/// Files that reach each other.
fn circles<'s>(arrows: &Arrows<'s>) -> Vec<Vec<&'s str>> {
    let reached: Arrows<'s> = arrows.keys().map(|file| (*file, reached_from(file, arrows))).collect();
    let mut circles = Vec::new();
    for (file, all) in &reached {
        let circle: Vec<&str> = all.iter().copied().filter(|other| reached[other].contains(file)).collect();
        // Told once, by its first file.
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

/// Floors from the top, and on each the modules with their lines and what they import from.
fn picture(sources: &[Source], arrows: &Arrows<'_>) -> String {
    let mut drawn = String::new();
    let highest = FLOORS.iter().map(|(_, floor)| *floor).max().unwrap_or_default();
    for floor in (0..=highest).rev() {
        for (module, _) in FLOORS.iter().filter(|(_, on)| *on == floor) {
            let files: Vec<&Source> = sources.iter().filter(|source| module_of(&source.path) == Some(module)).collect();
            let lines: usize = files.iter().map(|source| source.text.lines().count()).sum();
            let targets = files.iter().flat_map(|source| &arrows[source.path.as_str()]);
            let targets: BTreeSet<&str> =
                targets.filter_map(|file| module_of(file)).filter(|to| to != module).collect();
            let targets: Vec<&str> = targets.into_iter().collect();
            let name = format!("{module} ({} files, {lines} lines)", files.len());
            writeln!(drawn, "floor {floor}  {name:40} → {}", targets.join(", ")).expect("memory");
        }
    }
    drawn
}

#[test]
fn circles_are_found_through_every_form_of_import() {
    type Files = &'static [(&'static str, &'static str)];
    let cases: &[(Files, &[&[&str]])] = &[
        (&[("src/a/b.rs", "use crate::a::c::X;"), ("src/a/c.rs", "use super::d::Y;"), ("src/a/d.rs", "")], &[]),
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
        (
            &[("src/a.rs", "use crate::b::X;"), ("src/b.rs", "use crate::{c::Y};"), ("src/c.rs", "use crate::a;")],
            &[&["src/a.rs", "src/b.rs", "src/c.rs"]],
        ),
        (&[("src/a.rs", "use crate::b::X;"), ("src/b.rs", "#[cfg(test)]\nmod tests {\n use crate::a;\n}")], &[]),
    ];
    for (files, expected) in cases {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        assert_eq!(circles(&arrows(&sources)), *expected, "{files:?}");
    }
}
