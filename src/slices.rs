//! Long work of one thread, cut into slices, so that threads that answer readers have the processor in between. The kernel
//! lets a thread run on for milliseconds otherwise, however soon another one is due.

use std::thread;

/// Rows in a slice: some tenths of a millisecond. With much smaller ones a thread that shares its processor with busy
/// processes would get next to nothing of it, as each end of a slice gives up what is left of the kernel's turn.
const ROWS: usize = 128;

/// Rows that a thread has worked on since it last gave way.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    rows: usize,
}

impl Slices {
    /// So many rows more are done. At the end of a slice the thread gives way. It must hold no lock that readers wait for.
    #[inline]
    pub(crate) fn done(&mut self, rows: usize) {
        self.rows += rows;
        if self.rows >= ROWS {
            self.rows = 0;
            thread::yield_now();
        }
    }
}
