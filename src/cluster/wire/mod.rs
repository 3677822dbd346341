//! What a node says to the store and hears from it, as types. `functions.lua` is the other side: its first lines say what facts, entries
//! and replies are, and each function says what it takes and answers. What neither says alone:
//!
//! **Who checks what.** The function checks store, schema, term and the caller's last entry in each change, as nothing else sees the
//! moment of the change. The node sees whether a live node owes the store something: only the node has a monotonic clock, and the
//! record of a dead node would stop the store for ever. A change that slips between two heartbeats names what it changes, so it
//! ends nothing that it does not know. The node reads what a change names (the record before it, the instant of a vote, the
//! listing) on the same connection, just before.
//!
//! **Held** means that `meta` has the caller's last entry, or that the log has it. A trimmed log cannot say, so that counts as lost:
//! both lead to the same reading.
//!
//! **Reading whole.** First `meta`, then `dir`, the votes of each server, `gone`, and the log behind the last entry that `meta` named. An
//! entry that is seen twice does no harm. `gone` is read by ranks from its end: what is added meanwhile moves members to ranks
//! that are still to be read, what expires takes the other end, and the log has a member whose instant moves, so none is missed.
//!
//! **Giving back.** One call is of one server, one step and one entry. What takes away comes first. Each word of the answer but
//! `unlisted` settles its fact. The answer to a record may be a spare.
//!
//! **Taking over.** The library's name stays `vote_status`: nodes of 1.0.0 find another text there, and stop taking votes. Several
//! nodes may take over at once, as the second call finds schema 3. Records get stamp 0: with the takeover's stamp, an older copy that is
//! taken over later would beat newer tokens.

pub mod answer;
pub mod fact;
pub mod last;
pub mod question;
pub mod sha1;

#[cfg(test)]
mod tests;
