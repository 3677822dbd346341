//! Writes the seed corpus from the cases in `src/seeds.rs`. Leaves other files of the corpus alone.

use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, cases) in vote_status_fuzz::seeds::all() {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        println!("{target}: {} files", cases.len());
        for (name, bytes) in cases {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
