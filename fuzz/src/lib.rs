//! The checks of the fuzz targets, one module for each target, so that the same checks run in plain tests.
//!
//! A check takes any bytes and panics where the service breaks a promise. It knows the service's
//! public interfaces only, and finds the right outcome a second time, in another way: with
//! `httparse`, with the standard library, or by spelling the answer out.
#![forbid(unsafe_code)]

pub mod answers;
pub mod cuts;
pub mod head;
pub mod reference;
pub mod session;
pub mod target;

#[cfg(test)]
mod replay;
