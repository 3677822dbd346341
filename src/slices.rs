//! Cuts long work of one thread into slices, so that threads that answer readers get the processor in between.
//! Otherwise the kernel lets a thread run on for milliseconds, even while another one is due.

use std::thread;

/// Rows in a slice: some tenths of a millisecond. Each end of a slice gives up the rest of the kernel's turn. With much
/// smaller slices, a thread that shares its processor with busy processes would get next to nothing of it.
const ROWS: usize = 128;

/// Rows that a thread has worked on since it last gave way.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    rows: usize,
}

impl Slices {
    /// Counts `rows` as done. At the end of a slice the thread yields, so it must hold no lock that readers wait for.
    #[inline]
    pub(crate) fn done(&mut self, rows: usize) {
        self.rows += rows;
        if self.rows >= ROWS {
            self.rows = 0;
            thread::yield_now();
        }
    }
}
