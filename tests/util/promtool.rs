//! Prometheus' own tool, `promtool`.

use crate::util::needs::has;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs promtool in the package's folder with `input`. Where it is not installed, prints that and gives `None`.
pub(crate) fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = has(&["promtool"]).then(|| command.spawn().expect("it can be run"))?;
    // The output of promtool shows whether it has read all input.
    let _taken = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    Some(child.wait_with_output().expect("it ends"))
}

/// Requires success, and nothing on standard error.
pub(crate) fn expect_well(arguments: &[&str], input: &str) {
    let Some(output) = promtool(arguments, input) else { return };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{arguments:?}: {out}\n{err}");
    println!("{}", out.trim());
}
