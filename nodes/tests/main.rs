//! The model of the store, compared with a Redis and a Valkey; and the functions, over the model.
#![expect(clippy::disallowed_methods, reason = "tests say how long they took")]

mod calls;
mod compared;
mod draws;
mod engine;
mod facts;
mod join;
mod planted;
mod random;
mod refusals;
mod rights;
mod situations;
mod takeover;
