//! The conventions of the house that no lint checks, by the text of the source files: imports between modules, and the
//! length of files and functions. Knows nothing but the text.

mod arrows;
mod commands;
mod links;
mod names;
mod release;
mod source;

use crate::util::package::{files_below, read_text};
use source::{Source, behind_bracket, find_flat, paths, words};
use std::path::Path;

/// How the library names itself, and how the program names it.
const ROOTS: [&str; 2] = ["crate::", "vote_status::"];
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const DOCUMENT_WORDS_MAX: usize = 20_000;

/// The floor of every module. A module imports only from floors below it, never sideways, except
/// inside one folder. `lib.rs`, the plan of the house, is on no floor.
const FLOORS: &[(&str, u32)] = &[
    ("vote", 0),
    ("lists", 0),
    ("slices", 0),
    ("http", 1),
    ("metrics", 1),
    ("clock", 1),
    ("json", 1),
    ("limits", 1),
    ("random", 1),
    ("readiness", 1),
    ("store", 1),
    ("waiting", 1),
    ("watch", 1),
    ("whole_file", 1),
    ("net", 2),
    ("pages", 2),
    ("recorder", 2),
    ("public", 3),
    ("control", 3),
    ("cluster", 3),
    ("server", 4),
    ("cli", 5),
    ("main", 6),
];

/// Names that the pure floors must not use. Addresses of `std::net` are values, and allowed.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::io",
    "std::time",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "mio::",
    "rustix::",
    "log::",
];

#[test]
fn the_house_is_in_order() {
    let sources = Source::all(&["src", "tests", "benches", "fuzz/fuzz_targets"]);
    assert!(sources.len() > 10, "the sources are not here");
    let rules = [floors, subjects, purity, imports, lengths, openings, forbidden];
    let mut broken = Vec::new();
    for source in &sources {
        for rule in rules {
            rule(source, &mut broken);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The bound makes new text in the documents push out needless text. Reports of measurements are no documents.
#[test]
fn the_documents_stay_short() {
    let documents = files_below(Path::new("."), "md");
    let read = documents.iter().filter(|path| !path.starts_with("./loadtest/results")).map(read_text);
    let count = |text: String| {
        text.split_whitespace().filter(|word| word.contains(|c: char| c.is_ascii_alphanumeric())).count()
    };
    let count: usize = read.map(count).sum();
    assert!((5_000..=DOCUMENT_WORDS_MAX).contains(&count), "{count} words, {DOCUMENT_WORDS_MAX} at most");
}

/// The floor rule, over `use` lines and paths in the code alike.
fn floors(source: &Source, broken: &mut Vec<String>) {
    let Some(own) = module_of(&source.path) else {
        return;
    };
    let floor_of = |name: &str| FLOORS.iter().find(|floor| floor.0 == name);
    let Some((_, own_floor)) = floor_of(own) else {
        broken.push(format!("{}: {own} has no floor in FLOORS", source.path));
        return;
    };
    for (offset, path) in paths(&source.product, &ROOTS) {
        let other = path[0];
        let allowed = match floor_of(other) {
            Some((_, floor)) => floor < own_floor || other == own,
            None => false,
        };
        if !allowed {
            let at = source.at(offset);
            broken.push(format!("{at}: {own} (floor {own_floor}) must not import from {other}"));
        }
    }
    // At the top of a folder, or in a file beside it, `super` is the whole house.
    let at_the_top = source.path.matches('/').count() == 1 || source.path.ends_with("/mod.rs");
    let beyond = if at_the_top { "super::" } else { "super::super::" };
    for offset in words(&source.product, beyond) {
        let at = source.at(offset);
        broken.push(format!("{at}: name other modules as crate::…, not through super"));
    }
}

/// `vote` for `src/vote/ipv4.rs`, `server` for `src/server.rs`; None outside `src`, or for `lib.rs`.
fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let first = inside.split('/').next()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (module != "lib").then_some(module)
}

/// A test imports from its own subject and from tools, which are in folders named `util`; tools import from tools.
fn subjects(source: &Source, broken: &mut Vec<String>) {
    let Some(inside) = source.path.strip_prefix("tests/") else {
        return;
    };
    let own = inside.split(['/', '.']).next().filter(|_| !inside.contains("util/"));
    for (offset, path) in paths(&source.code, &["crate::"]) {
        let other = path[0];
        if !path[..path.len().min(2)].contains(&"util") && own != Some(other) {
            broken.push(format!("{}: {other} is another subject: what both need is a tool", source.at(offset)));
        }
    }
}

/// The pure floors: `vote/` and `http/` take bytes and `now`, and give values and bytes.
fn purity(source: &Source, broken: &mut Vec<String>) {
    if !["src/vote/", "src/http/"].iter().any(|floor| source.path.starts_with(floor)) {
        return;
    }
    for impure in IMPURE {
        for offset in words(&source.product, impure) {
            broken.push(format!("{}: {impure} on a pure floor (vote, http)", source.at(offset)));
        }
    }
}

/// Imports are explicit, in tests too.
fn imports(source: &Source, broken: &mut Vec<String>) {
    for offset in words(&source.code, "use") {
        let end = source.code[offset..].find(';').map_or(source.code.len(), |end| offset + end);
        let import = &source.code[offset..end];
        if import.contains("::*") || import.contains("{*") || import.contains(" *") {
            broken.push(format!("{}: a glob import", source.at(offset)));
        }
    }
}

/// The length of all files, and of functions outside tests.
fn lengths(source: &Source, broken: &mut Vec<String>) {
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let path = &source.path;
        broken.push(format!("{path}:{lines}: more than {FILE_LINES_MAX} lines in a file"));
    }
    for offset in words(&source.product, "fn") {
        let Some(open) = find_flat(&source.product, offset, b"{;") else {
            continue;
        };
        if source.product.as_bytes()[open] == b';' {
            continue;
        }
        let end = behind_bracket(&source.product, open);
        let lines = source.product[offset..end].lines().count();
        if lines > FUNCTION_LINES_MAX {
            let at = source.at(offset);
            broken.push(format!("{at}: a function of {lines} lines, {FUNCTION_LINES_MAX} at most"));
        }
    }
}

/// The first lines of a file say what it owns.
fn openings(source: &Source, broken: &mut Vec<String>) {
    if !source.text.starts_with("//! ") {
        let path = &source.path;
        broken.push(format!("{path}:1: does not begin with `//!` and what the file owns"));
    }
}

/// Words that no file may contain, not even in tests or comments.
fn forbidden(source: &Source, broken: &mut Vec<String>) {
    // This file has to name them.
    if source.path != "tests/house.rs" {
        for word in ["TODO", "FIXME", "XXX"] {
            for offset in words(&source.text, word) {
                broken.push(format!("{}: {word}: open an issue instead", source.at(offset)));
            }
        }
    }
}

/// Each rule against a file that breaks it, and against one that nearly does.
#[test]
fn the_rules_find_what_they_are_for() {
    let long = format!("//! x\nfn f() {{\n{}}}\n", "    x();\n".repeat(69));
    let longest = format!("//! x\nfn f() {{\n{}}}\n", "    x();\n".repeat(68));
    let file = format!("//! x\n{}", "\n".repeat(500));
    type Rule = fn(&Source, &mut Vec<String>);
    let cases: &[(Rule, &str, &str, &[&str])] = &[
        (floors, "src/net/a.rs", "use crate::http::x;\nuse super::b;\nuse crate::net::c;", &[]),
        (
            floors,
            "src/store/mod.rs",
            "use crate::{vote::{id, ip}, http::x,\n cli};",
            &[
                "src/store/mod.rs:1: store (floor 1) must not import from http",
                "src/store/mod.rs:2: store (floor 1) must not import from cli",
            ],
        ),
        (floors, "src/net/a.rs", "#[cfg(test)]\nmod tests {\n use crate::cli::x;\n}", &[]),
        (floors, "src/lib.rs", "use crate::cli::x;", &[]),
        (floors, "src/main.rs", "use vote_status::cli::x;", &[]),
        (floors, "src/new.rs", "", &["src/new.rs: new has no floor in FLOORS"]),
        (
            floors,
            "src/clock.rs",
            "use super::cli;",
            &["src/clock.rs:1: name other modules as crate::…, not through super"],
        ),
        (subjects, "tests/a/b.rs", "use crate::a::c;\nuse crate::{util::d, e::util::f};\nuse vote_status::g;", &[]),
        (subjects, "tests/a.rs", "use crate::b::c;", &["tests/a.rs:1: b is another subject: what both need is a tool"]),
        (
            subjects,
            "tests/a/util/b.rs",
            "use crate::a::util::c;\nuse crate::a::d;",
            &["tests/a/util/b.rs:2: a is another subject: what both need is a tool"],
        ),
        (
            purity,
            "src/vote/a.rs",
            "use std::net::Ipv4Addr;\nlet log = 1;\nlog::info!();",
            &["src/vote/a.rs:3: log:: on a pure floor (vote, http)"],
        ),
        (imports, "tests/a.rs", "use a::b;\nuse a::*;\nlet c = a *b;", &["tests/a.rs:2: a glob import"]),
        (lengths, "src/a.rs", &long, &["src/a.rs:2: a function of 71 lines, 70 at most"]),
        (lengths, "src/a.rs", &longest, &[]),
        (lengths, "tests/a.rs", &long, &[]),
        (lengths, "tests/a.rs", &file, &["tests/a.rs:501: more than 500 lines in a file"]),
        (openings, "src/a.rs", "// x\n", &["src/a.rs:1: does not begin with `//!` and what the file owns"]),
        (forbidden, "src/a.rs", "// FIXME", &["src/a.rs:1: FIXME: open an issue instead"]),
    ];
    for (rule, path, text, expected) in cases {
        let mut broken = Vec::new();
        rule(&Source::new(path, text), &mut broken);
        assert_eq!(broken, *expected, "{path}: {text:?}");
    }
}
