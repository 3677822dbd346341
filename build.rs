//! Makes the documents of `src/pages` ready when the program is built: the samples go into the page for callers,
//! the parts into the templates of the descriptions, and each document is compressed. It becomes `NAME`, `NAME.gz`, and
//! `NAME.tag` with what tells this content from any other. A page also becomes `NAME.csp`: what a browser lets the page
//! do.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, GzBuilder};

/// Each document, and the file that it is made of.
const DOCUMENTS: [(&str, &str); 4] = [
    ("public.html", "public.html"),
    ("control.html", "control.html"),
    ("openapi.json", "openapi.template.json"),
    ("control.openapi.json", "control.openapi.template.json"),
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PARTS}");
    let parts = fs::read_to_string(PARTS)?;
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for (name, source) in DOCUMENTS {
        let path = Path::new("src/pages").join(source);
        println!("cargo::rerun-if-changed={}", path.display());
        let content = with_samples(&with_parts(&fs::read_to_string(path)?, &parts)?)?;
        let policy = if name.ends_with(".html") { policy(&content)? } else { String::new() };
        let mut hasher = DefaultHasher::new();
        [&content, &policy].hash(&mut hasher);
        let tag = format!("{:016x}", hasher.finish());
        // Without a time: the same sources make the same program.
        let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
        encoder.write_all(content.as_bytes())?;
        let zipped = encoder.finish()?;
        for (end, bytes) in
            [("", content.as_bytes()), (".gz", &zipped), (".tag", tag.as_bytes()), (".csp", policy.as_bytes())]
        {
            fs::write(Path::new(&out).join(format!("{name}{end}")), bytes)?;
        }
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
        // A reference begins like a part.
        let Some(wanted) = line.trim_start().strip_prefix("\"$").filter(|wanted| !wanted.starts_with("ref\"")) else {
            filled.extend([line, "\n"]);
            continue;
        };
        let fail = |why: &str| io::Error::other(format!("{}: {why}", line.trim()));
        let wanted = wanted.split_once("\": [").and_then(|(name, rest)| Some((name, rest.rsplit_once(']')?)));
        let (name, (values, end)) = wanted.ok_or_else(|| fail("not a part and its values"))?;
        let part = parts.split("\n\n").find_map(|part| {
            let (first, lines) = part.split_once('\n')?;
            let mut names = first.split(' ');
            (names.next() == Some(name)).then_some((names, lines))
        });
        let (names, lines) = part.ok_or_else(|| fail("there is no such part"))?;
        let names: Vec<&str> = names.collect();
        let values: Vec<&str> =
            if values.is_empty() { Vec::new() } else { values.trim_matches('"').split("\", \"").collect() };
        if names.len() != values.len() {
            return Err(fail(&format!("{} values, and the part has {}", values.len(), names.len())));
        }
        let mut lines = lines.to_owned();
        for (name, value) in names.into_iter().zip(values) {
            if !lines.contains(name) {
                return Err(fail(&format!("the part has no place for {name}")));
            }
            lines = lines.replace(name, value);
        }
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

/// What a page may do: run its one script, use its one style, and ask its own service.
fn policy(page: &str) -> io::Result<String> {
    let source = |tag: &str| {
        let fail = || io::Error::other(format!("a page has one <{tag}>"));
        let (_, behind) = page.split_once(&format!("<{tag}>")).ok_or_else(fail)?;
        let (content, rest) = behind.split_once(&format!("</{tag}>")).ok_or_else(fail)?;
        if rest.contains(&format!("<{tag}")) { Err(fail()) } else { Ok(base64(&sha256(content.as_bytes()))) }
    };
    let (script, style) = (source("script")?, source("style")?);
    Ok(format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ))
}

/// RFC 4648, with its padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = char::from(ALPHABET[bits >> (18 - 6 * place) & 63]);
            text.push(if place <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

/// FIPS 180-4. A browser refuses a page whose hash is wrong, and `tests/browser/csp.py` computes each a second time.
fn sha256(bytes: &[u8]) -> Vec<u8> {
    // The constants are the first 32 bits behind the point of square and cube roots of the first primes.
    let primes = (2_u32..).filter(|n| (2..*n).all(|divisor| n % divisor != 0)).map(f64::from).take(64);
    let bits = |root: f64| (root.fract() * 4_294_967_296.0) as u32;
    let primes: Vec<f64> = primes.collect();
    let constants: Vec<u32> = primes.iter().map(|prime| bits(prime.cbrt())).collect();
    let mut state: Vec<u32> = primes.iter().take(8).map(|prime| bits(prime.sqrt())).collect();
    let mut padded = [bytes, &[0x80]].concat();
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut words: Vec<u32> =
            block.chunks(4).map(|word| word.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte))).collect();
        for at in 16..64 {
            let (near, far) = (words[at - 2], words[at - 15]);
            let near = near.rotate_right(17) ^ near.rotate_right(19) ^ near >> 10;
            let far = far.rotate_right(7) ^ far.rotate_right(18) ^ far >> 3;
            words.push(words[at - 16].wrapping_add(far).wrapping_add(words[at - 7]).wrapping_add(near));
        }
        let mut turned = state.clone();
        for (word, constant) in words.iter().zip(&constants) {
            let (a, e) = (turned[0], turned[4]);
            let chosen = e & turned[5] ^ !e & turned[6];
            let most = a & turned[1] ^ a & turned[2] ^ turned[1] & turned[2];
            let first = (e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25)).wrapping_add(chosen);
            let first = first.wrapping_add(turned[7]).wrapping_add(*constant).wrapping_add(*word);
            let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(most);
            turned.rotate_right(1);
            turned[4] = turned[4].wrapping_add(first);
            turned[0] = first.wrapping_add(second);
        }
        state.iter_mut().zip(turned).for_each(|(kept, new)| *kept = kept.wrapping_add(new));
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}
