//! The documents that are served beside the answers: the pages for callers and for operators, and the interface
//! descriptions for tools. The program contains each, plain and compressed; the request chooses. This module must not
//! know the path and the listener of a document.

use crate::http::head::HeaderLines;
use crate::http::negotiation::{names_tag, wants_gzip};
use crate::http::response::{self, Framing};
use crate::vote::time::UnixSeconds;

/// One document, in both of its codings.
#[derive(Debug)]
pub struct Document {
    content_type: &'static str,
    /// The `Content-Security-Policy`, for a page with scripts.
    policy: Option<&'static str>,
    plain: Coded,
    gzipped: Coded,
}

#[derive(Debug)]
struct Coded {
    bytes: &'static [u8],
    /// Its entity tag, quotes included.
    tag: &'static str,
}

macro_rules! document {
    ($name:literal, $content_type:literal, $policy:expr) => {
        Document {
            content_type: $content_type,
            policy: $policy,
            plain: Coded {
                bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
                tag: concat!("\"", include_str!(concat!(env!("OUT_DIR"), "/", $name, ".tag")), "\""),
            },
            gzipped: Coded {
                bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")),
                tag: concat!("\"", include_str!(concat!(env!("OUT_DIR"), "/", $name, ".tag")), "-gzip\""),
            },
        }
    };
}

/// The page for callers.
pub static PUBLIC: Document = document!(
    "public.html",
    "text/html; charset=utf-8",
    Some(include_str!(concat!(env!("OUT_DIR"), "/public.html.csp")))
);
/// The public interface, for tools.
pub static OPENAPI: Document = document!("openapi.json", "application/json", None);
/// The control interface, for tools.
pub static CONTROL_OPENAPI: Document = document!("control.openapi.json", "application/json", None);
/// The page for operators.
pub static CONTROL: Document = document!(
    "control.html",
    "text/html; charset=utf-8",
    Some(include_str!(concat!(env!("OUT_DIR"), "/control.html.csp")))
);

/// The form of an answer with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentForm {
    /// The body is compressed with gzip.
    pub is_gzipped: bool,
    /// The client has this version already: the answer is 304, without a body.
    pub is_known: bool,
}

impl DocumentForm {
    /// Every form, in the order of [`DocumentForm::index`].
    pub const ALL: [Self; 4] = [
        Self { is_gzipped: false, is_known: false },
        Self { is_gzipped: false, is_known: true },
        Self { is_gzipped: true, is_known: false },
        Self { is_gzipped: true, is_known: true },
    ];

    /// Its place in tables.
    #[must_use]
    pub fn index(self) -> usize {
        2 * usize::from(self.is_gzipped) + usize::from(self.is_known)
    }

    /// The status of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        if self.is_known { 304 } else { 200 }
    }
}

impl Document {
    /// The form that a request wants.
    #[must_use]
    pub fn form(&self, lines: HeaderLines<'_>) -> DocumentForm {
        let is_gzipped = wants_gzip(lines.values("Accept-Encoding"));
        let tag = self.coded(is_gzipped).tag;
        DocumentForm { is_gzipped, is_known: names_tag(lines.values("If-None-Match"), tag) }
    }

    const fn coded(&self, is_gzipped: bool) -> &Coded {
        if is_gzipped { &self.gzipped } else { &self.plain }
    }

    /// The header fields of the answer.
    #[must_use]
    pub fn fields(&self, form: DocumentForm) -> Vec<(&'static str, &'static str)> {
        // A browser asks each time whether its copy is current: another version of the program has another page.
        let mut fields = vec![
            ("Cache-Control", "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            ("Vary", "Accept-Encoding"),
            ("ETag", self.coded(form.is_gzipped).tag),
        ];
        if form.is_known {
            return fields;
        }
        fields.insert(0, ("Content-Type", self.content_type));
        if form.is_gzipped {
            fields.push(("Content-Encoding", "gzip"));
        }
        if let Some(policy) = self.policy {
            fields.extend([("Content-Security-Policy", policy), ("Referrer-Policy", "no-referrer")]);
        }
        fields
    }

    /// The body of the answer.
    #[must_use]
    pub const fn body(&self, form: DocumentForm) -> &'static [u8] {
        if form.is_known { &[] } else { self.coded(form.is_gzipped).bytes }
    }

    /// Appends the whole response.
    pub fn append(&self, form: DocumentForm, framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) {
        response::append(out, form.status(), &now.imf_fixdate(), &self.fields(form), self.body(form), framing);
    }
}

#[cfg(test)]
mod tests {
    use super::{CONTROL, PUBLIC};

    /// The size of a page includes the samples that the build puts in.
    #[test]
    fn pages_stay_small_and_show_the_samples() {
        assert!(PUBLIC.plain.bytes.len() < 60_000, "{} bytes", PUBLIC.plain.bytes.len());
        assert!(PUBLIC.gzipped.bytes.len() < 15_000, "{} bytes", PUBLIC.gzipped.bytes.len());
        assert!(CONTROL.plain.bytes.len() < 60_000, "{} bytes", CONTROL.plain.bytes.len());
        let page = str::from_utf8(PUBLIC.plain.bytes).expect("the page is UTF-8");
        let names: Vec<&str> =
            page.split("data-sample=\"").skip(1).filter_map(|part| Some(part.split_once("\">")?.0)).collect();
        let asking = ["status.sh", "status.php", "status.java", "status.js", "status.py"];
        let waiting = ["wait.php", "wait.java", "wait.js"];
        assert_eq!(names, [&asking[..], &waiting[..]].concat());
        assert!(page.contains("data-sample=\"status.php\">&lt;?php\n"), "a sample is not in its place");
    }
}
