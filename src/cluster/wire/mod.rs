//! The questions of a node to the store, and the answers, as types. `functions.lua` is the other side: its first lines explain
//! facts, entries and replies, and each function describes its arguments and its answer. Neither side alone says the following:
//!
//! **The checks.** Only the function sees the moment of a change, so it checks store, schema, term and the caller's
//! last entry. The node checks whether a live node owes the store something, as only the node has a monotonic clock. If
//! the function checked that, the record of a dead node would stop the store for ever. A change that slips between two
//! heartbeats names its target, so it ends nothing that its caller does not know. The node reads the named value (the
//! record before it, the instant of a vote, the listing) on the same connection, just before.
//!
//! **Held** means that `meta` or the log has the caller's last entry. A trimmed log cannot say so, and that counts as lost: both
//! lead to the same reading.
//!
//! **Reading whole.** The node reads `meta`, then `dir`, the votes of each server, `gone`, and the log behind the last
//! entry that `meta` named. An entry that is seen twice does no harm. The node reads `gone` by ranks from its end, and
//! misses no member. New members move others to ranks that are still to be read. Expired members leave at the other
//! end. If the instant of a member moves, the log has that member.
//!
//! **Giving back.** One call is about one server, and makes one step and one entry. Removals come first. Each word of the answer
//! but `unlisted` settles its fact. The answer to a record may be a spare.
//!
//! **Taking over.** The library's name stays `vote_status`: nodes of 1.0.0 find another text there, and stop taking votes.
//! Several nodes may take over at once, as the second call finds schema 3. Records get stamp 0: with the takeover's stamp, an
//! older copy that is taken over later would beat newer tokens.

pub mod answer;
pub mod fact;
pub mod last;
pub mod question;
pub mod sha1;

#[cfg(test)]
mod tests;
