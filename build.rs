//! Makes the documents of `src/pages` ready when the program is built: the samples go into the page for callers,
//! and each document is compressed. It becomes `NAME`, `NAME.gz`, and `NAME.tag` with what tells this content from
//! any other.

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
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for names in DOCUMENTS {
        let mut contents = Vec::new();
        for name in names {
            let path = Path::new("src/pages").join(name);
            println!("cargo::rerun-if-changed={}", path.display());
            contents.push(with_samples(&fs::read_to_string(path)?)?);
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
