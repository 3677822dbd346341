//! The model's replies, as the client gives them.

use redis::{Value, parse_redis_value};
use vote_status_nodes::reply::Reply;

pub(crate) fn value(reply: &Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(*number),
        Reply::Status(text) => Value::SimpleString(text.clone()),
        Reply::Bulk(bytes) => Value::BulkString(bytes.clone()),
        Reply::Array(items) => Value::Array(items.iter().map(value).collect()),
        Reply::Refused(why) => {
            parse_redis_value(format!("-{}\r\n", why.replace(['\r', '\n'], " ")).as_bytes()).expect("an error")
        }
    }
}
