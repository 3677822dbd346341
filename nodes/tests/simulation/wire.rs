//! The model's replies, as the client gives them.

use vote_status::cluster::resp::Value;
use vote_status_nodes::reply::Reply;

pub(crate) fn value(reply: &Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(*number),
        Reply::Status(text) => Value::Text(text.clone().into_bytes()),
        Reply::Bulk(bytes) => Value::Text(bytes.clone()),
        Reply::Array(items) => Value::Array(items.iter().map(value).collect()),
        Reply::Refused(why) => Value::Error(why.replace(['\r', '\n'], " ")),
    }
}
