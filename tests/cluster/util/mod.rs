//! Tools of the tests with many nodes: Redis servers, nodes, callers, a network that fails, and the
//! truth to compare with. They know no test.

pub(crate) mod calls;
pub(crate) mod engine;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod oracle;
pub(crate) mod proxy;
pub(crate) mod resp;
