//! Reads the store's replies to questions. A server may have very many votes: they are read without a value for each number.

use std::io::BufRead;

use super::entry;
use super::link::{LinkError, StoreLink, with_key};
use super::resp::{ReadError, read_line};
use super::wire::answer::{StoreAnswer, StoreReply};
use super::wire::question::StoreQuestion;
use crate::vote::address::VoterAddress;
use crate::vote::time::UnixSeconds;

/// The number of votes of a long reply between two calls of `progress`.
const PROGRESS_VOTES: usize = 65_536;

/// Reads the reply to a question, and calls `progress` while a long one comes.
///
/// # Errors
/// [`LinkError::Lost`]
pub fn answer(link: &mut StoreLink, question: &StoreQuestion, progress: &dyn Fn()) -> Result<StoreAnswer, LinkError> {
    let mut answer = match question {
        StoreQuestion::Votes(..) => votes(link, progress)?,
        question => StoreAnswer::read(question, &link.read_value()?),
    };
    if let StoreReply::Refused(refusal) = &mut answer.reply {
        refusal.text = with_key(std::mem::take(&mut refusal.text), &question.words());
    }
    Ok(answer)
}

fn votes(link: &mut StoreLink, progress: &dyn Fn()) -> Result<StoreAnswer, LinkError> {
    let address = |text: &[u8]| entry::address(std::str::from_utf8(text).ok()?);
    let mut votes: Vec<(VoterAddress, UnixSeconds)> = Vec::new();
    let read = read_pairs(link.unread(), address, &mut |address, voted_at| {
        votes.push((address, UnixSeconds(voted_at)));
        if votes.len().is_multiple_of(PROGRESS_VOTES) {
            progress();
        }
    });
    match read {
        Ok(None) => Ok(StoreAnswer { now_ms: None, reply: StoreReply::Votes(votes) }),
        Ok(Some(refusal)) => Ok(StoreAnswer::of_error(refusal)),
        Err(ReadError::Io(error)) => Err(link.lost(&error)),
        Err(ReadError::Form) => Err(link.strange("a list of votes")),
    }
}

/// Reads members, each with its score, which is a whole number. Gives the store's refusal, if it refuses.
fn read_pairs<M>(
    reader: &mut impl BufRead,
    member: impl Fn(&[u8]) -> Option<M>,
    visit: &mut dyn FnMut(M, u32),
) -> Result<Option<String>, ReadError> {
    let mut line = Vec::new();
    read_line(reader, &mut line)?;
    let count: u32 = match line.split_first() {
        Some((b'*', count)) => decimal(count).ok_or(ReadError::Form)?,
        Some((b'-', why)) => return Ok(Some(String::from_utf8_lossy(why).into_owned())),
        _ => return Err(ReadError::Form),
    };
    if !count.is_multiple_of(2) {
        return Err(ReadError::Form);
    }
    for _ in 0..count / 2 {
        let first = read_text(reader, &mut line, &member)?;
        let second = read_text(reader, &mut line, decimal)?;
        visit(first, second);
    }
    Ok(None)
}

/// Reads a text: its length is on one line, the text on the next.
fn read_text<T>(
    reader: &mut impl BufRead,
    line: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<T, ReadError> {
    read_line(reader, line)?;
    let length: u32 = line.strip_prefix(b"$").and_then(decimal).ok_or(ReadError::Form)?;
    read_line(reader, line)?;
    if line.len() != length as usize {
        return Err(ReadError::Form);
    }
    parse(line).ok_or(ReadError::Form)
}

fn decimal(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 10 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    u32::try_from(text.iter().fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'))).ok()
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{decimal, read_pairs};
    use crate::cluster::resp::ReadError;

    /// Reads `wire` in pieces of any size, all with one outcome.
    fn read(wire: &str) -> Result<Vec<(u32, u32)>, ReadError> {
        let mut outcomes = (1..=wire.len().max(1)).map(|piece| {
            let mut pairs = Vec::new();
            let mut reader = BufReader::with_capacity(piece, wire.as_bytes());
            let refusal = read_pairs(&mut reader, decimal, &mut |first, second| pairs.push((first, second)))?;
            assert_eq!(refusal, None, "{wire:?}");
            Ok(pairs)
        });
        let first = outcomes.next().expect("one");
        for other in outcomes {
            assert_eq!(format!("{other:?}"), format!("{first:?}"), "{wire:?}");
        }
        first
    }

    #[test]
    fn pairs_are_read_in_pieces_of_any_size() {
        let wire = "*4\r\n$1\r\n7\r\n$10\r\n1795172696\r\n$10\r\n4294967295\r\n$1\r\n0\r\n";
        assert_eq!(read(wire).expect("pairs"), [(7, 1_795_172_696), (u32::MAX, 0)]);
        assert_eq!(read("*0\r\n").expect("nothing"), []);
    }

    #[test]
    fn anything_else_is_refused() {
        for wire in [
            "*1\r\n$1\r\n7\r\n",
            "*2\r\n$2\r\n7\r\n$1\r\n1\r\n",
            "*2\r\n$1\r\nx\r\n$1\r\n1\r\n",
            "*2\r\n$1\r\n7\n$1\r\n1\r\n",
            "*2\r\n:7\r\n$1\r\n1\r\n",
            "*-1\r\n",
            "$1\r\n7\r\n",
            "*2\r\n$10\r\n4294967296\r\n$1\r\n1\r\n",
            "\r\n",
        ] {
            assert!(matches!(read(wire), Err(ReadError::Form)), "{wire:?}");
        }
        assert!(matches!(read("*2\r\n$1\r\n7\r\n"), Err(ReadError::Io(_))), "cut off");
        let refusal = read_pairs(&mut "-LOADING it is\r\n".as_bytes(), decimal, &mut |_, _| ());
        assert_eq!(refusal.expect("a reply").as_deref(), Some("LOADING it is"));
        assert_eq!(decimal(b"99999999999"), None);
    }
}
