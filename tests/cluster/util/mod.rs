//! What the tests of many nodes are made with: Redis servers, nodes, callers, a network that fails, and the
//! truth to compare with. It knows no test.

pub(crate) mod calls;
pub(crate) mod engine;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod oracle;
pub(crate) mod proxy;
pub(crate) mod resp;
