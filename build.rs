//! Makes the documents of `src/pages` ready when the program is built: the samples go into the page for callers,
//! the parts into the descriptions, and each document is compressed. It becomes `NAME`, `NAME.gz`, and `NAME.tag` with
//! what tells this content from any other.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, GzBuilder};

/// Each with what its content stands for besides itself.
const DOCUMENTS: [&[&str]; 4] =
    [&["public.html", "public.csp"], &["control.html", "control.csp"], &["openapi.json"], &["control.openapi.json"]];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PARTS}");
    let parts = fs::read_to_string(PARTS)?;
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for names in DOCUMENTS {
        let mut contents = Vec::new();
        for name in names {
            let path = Path::new("src/pages").join(name);
            println!("cargo::rerun-if-changed={}", path.display());
            contents.push(with_samples(&with_parts(&fs::read_to_string(path)?, &parts)?)?);
        }
        let mut hasher = DefaultHasher::new();
        contents.hash(&mut hasher);
        let tag = format!("{:016x}", hasher.finish());
        // Without a time: the same sources make the same program.
        let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
        encoder.write_all(contents[0].as_bytes())?;
        fs::write(Path::new(&out).join(names[0]), &contents[0])?;
        fs::write(Path::new(&out).join(format!("{}.gz", names[0])), encoder.finish()?)?;
        fs::write(Path::new(&out).join(format!("{}.tag", names[0])), tag)?;
    }
    Ok(())
}

/// What many answers of the descriptions share. A part begins with its name and those of its values, and ends with an
/// empty line.
const PARTS: &str = "src/pages/openapi.parts";

/// The text with a part in place of each line `"$NAME": ["VALUE", "VALUE"]`.
fn with_parts(text: &str, parts: &str) -> io::Result<String> {
    let mut filled = String::new();
    for line in text.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let wanted = line.trim_start().strip_prefix("\"$").and_then(|line| line.split_once("\": ["));
        let Some((name, (values, end))) = wanted.and_then(|(name, rest)| Some((name, rest.rsplit_once(']')?))) else {
            filled.extend([line, "\n"]);
            continue;
        };
        let part = parts.split("\n\n").find_map(|part| {
            let (first, lines) = part.split_once('\n')?;
            let mut names = first.split(' ');
            (names.next() == Some(name)).then_some((names, lines))
        });
        let (names, lines) = part.ok_or(io::ErrorKind::InvalidData)?;
        let values = names.zip(values.trim_matches('"').split("\", \""));
        let lines = values.fold(lines.to_owned(), |lines, (name, value)| lines.replace(name, value));
        let lines = with_parts(&lines, parts)?.trim_end().replace('\n', &format!("\n{indent}"));
        filled.extend([indent, &lines, end, "\n"]);
    }
    Ok(filled)
}

/// The page with the text of `contrib/samples/NAME` behind each `data-sample="NAME">`.
fn with_samples(page: &str) -> io::Result<String> {
    const PLACE: &str = "data-sample=\"";
    let mut parts = page.split(PLACE);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        filled.push_str(PLACE);
        let Some((name, rest)) = part.split_once("\">") else { return Err(io::ErrorKind::InvalidData.into()) };
        let path = Path::new("contrib/samples").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(path)?.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        filled.extend([name, "\">", text.trim_end_matches('\n'), rest]);
    }
    Ok(filled)
}
