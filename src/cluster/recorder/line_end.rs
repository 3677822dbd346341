//! The recorder's end of a line.

use std::sync::mpsc::Sender;

use crate::cluster::address::Host;
use crate::cluster::line::LineOrder;
use crate::cluster::socket::SocketCloser;

/// One of the two connections, as the recorder knows it.
pub(in crate::cluster) struct LineEnd {
    orders: Sender<LineOrder>,
    /// The number of the connection that is open or being made. The recorder ignores news of any other.
    pub(super) connection: u64,
    pub(super) closer: Option<SocketCloser>,
    /// The machine that it leads to, or led to last.
    pub(super) host: Option<Host>,
}

impl LineEnd {
    pub(in crate::cluster) const fn new(orders: Sender<LineOrder>) -> Self {
        Self { orders, connection: 0, closer: None, host: None }
    }

    pub(super) fn order(&self, order: LineOrder) {
        // A line ends before the recorder only where it breaks, which ends the process.
        let _ended = self.orders.send(order);
    }

    pub(super) fn close(&mut self) {
        self.connection += 1;
        self.closer.take().into_iter().for_each(SocketCloser::close);
    }
}
