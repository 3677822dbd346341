//! What nodes and the store's functions say to each other: questions as words, and replies as values.

pub mod answer;
pub mod fact;
pub mod last;
pub mod question;
pub mod sha1;

#[cfg(test)]
mod tests;
