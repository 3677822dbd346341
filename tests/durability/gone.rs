//! The data directory is deleted, moved or covered while the service runs. The next start would not find
//! votes in such a file, so none is answered 201. Status goes on, the operator can export the votes, and
//! once the right file is back votes are taken again.

use crate::durability::files::{await_ready, furnished, store_file};
use crate::util::client::get;
use crate::util::control::Control;
use crate::util::ledger::{Ledger, Pair, SERVER, address, next_votes, serve, voted};
use crate::util::load::{Caller, Load, Notes};
use crate::util::server::{Server, run_to_end};
use crate::util::time::now_unix;
use crate::util::wait_until;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Later than this after the file has gone, no vote is answered 201.
const TOLD_MAX: Duration = Duration::from_secs(1);

/// Votes in order, each with the time of the request, the status of the answer, and its instant.
type Asked = Vec<(Pair, Instant, u16, i64)>;

fn voting(control: Control) -> Load<Asked> {
    let mut pairs = (1_000..).map(|number| (SERVER, address(number)));
    let cast = move |asked: &Notes<Asked>| {
        let (pair, at, voted_at) = (pairs.next().expect("one more"), Instant::now(), now_unix());
        let status = control.cast_at(pair.0, &pair.1.to_string(), voted_at).status;
        asked.open().push((pair, at, status, voted_at));
        sleep(Duration::from_millis(1));
    };
    Load::start([Box::new(cast) as Caller<Asked>])
}

/// Notes recorded and refused votes in `ledger`. No vote may have been recorded between `TOLD_MAX` after
/// `gone` and `back`.
fn stop(load: Load<Asked>, ledger: &mut Ledger, gone: Instant, back: Option<Instant>) {
    let (mut late, mut refused) = (0, 0);
    for (pair, at, status, voted_at) in load.stop() {
        match status {
            201 => drop(ledger.recorded.insert(pair, voted_at)),
            503 => ledger.refused.push(pair),
            _ => panic!("{status}"),
        }
        refused += u32::from(status == 503);
        let is_late = at > gone + TOLD_MAX && back.is_none_or(|back| at < back);
        late += u32::from(status == 201 && is_late);
    }
    println!("{} recorded, {refused} refused, {late} recorded too late", ledger.recorded.len());
    assert!(refused > 0, "it was noticed");
    assert_eq!(late, 0, "recorded in a file that is gone");
}

fn trouble(server: &Server) -> Option<String> {
    let ready = get(server.control_endpoint().clone(), "/readyz");
    assert_eq!(ready.status, 200, "status is served: {ready:?}");
    let body = ready.json();
    let is_gone = body["reason"] == "store_gone";
    assert!(!is_gone || body["votes"] == false, "{body}");
    is_gone.then(|| body["message"].as_str().expect("what to do").to_owned())
}

fn wait_for_trouble(server: &Server, is_wanted: bool) {
    wait_until("it says what is the matter", || trouble(server).is_some() == is_wanted);
}

/// A server with some votes, and a load that casts more.
fn under_load(data: &Path) -> (Server, Ledger, Load<Asked>) {
    let (server, ledger) = voted(data, 100);
    let load = voting(server.control_client());
    sleep(Duration::from_millis(300));
    (server, ledger, load)
}

/// Regression: votes were still answered 201, and after a restart there was nothing.
#[test]
fn a_deleted_directory_takes_no_votes_and_can_be_exported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder can be made");
    fs::write(data.join("control.key"), Server::KEY).expect("a key can be written");
    let (server, mut ledger, load) = under_load(&data);
    fs::remove_dir_all(&data).expect("it can be deleted");
    let gone = Instant::now();
    wait_for_trouble(&server, true);
    assert!(gone.elapsed() < TOLD_MAX + Duration::from_secs(2), "{:?}", gone.elapsed());
    sleep(TOLD_MAX + Duration::from_millis(300));
    let message = trouble(&server).expect("it lasts");
    stop(load, &mut ledger, gone, None);
    ledger.expect(&server, "from memory");

    // The export that the line advises.
    assert!(server.stderr().contains(&message), "{}", server.stderr());
    let key = message.split("--control-key-file ").nth(1).expect("a key").split(' ').next().expect("a path");
    let mut export = Server::command();
    export.env_remove("VOTE_STATUS_CONTROL_KEY").arg("export").arg(folder.path().join("saved"));
    export.args(["--control-key-file", key, "--control-url", &format!("http://{}", server.control())]);
    let ended = run_to_end(export);
    assert!(ended.status.success(), "{ended:?}");
    let saved = fs::read_to_string(folder.path().join("saved")).expect("it was saved");
    assert_eq!(saved.lines().filter(|line| line.contains("\"ip\"")).count(), ledger.recorded.len());
    assert!(!data.exists(), "nothing is made where something may be put back");
}

fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    fs::rename(from, to).expect("it can be moved");
}

/// A copy is another file: it does not hold the votes in memory.
#[test]
fn a_file_that_is_moved_and_a_copy_and_the_file_put_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    let (server, mut ledger, load) = under_load(&data);
    rename(store_file(&data), &aside);
    fs::copy(&aside, store_file(&data)).expect("it can be copied");
    let gone = Instant::now();
    wait_for_trouble(&server, true);
    sleep(TOLD_MAX);
    let back = Instant::now();
    rename(aside, store_file(&data));
    wait_for_trouble(&server, false);
    sleep(Duration::from_millis(200));
    stop(load, &mut ledger, gone, Some(back));
    ledger.cast_all(&server, 900..901);
    assert_eq!(get(server.control_endpoint(), "/readyz").json(), serde_json::json!({"ready": true}));
    ledger.expect(&server, "back again");
    ledger.expect_after_kill(server, &data, "back again");
}

#[test]
fn a_second_name_of_the_file_is_no_loss() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, mut ledger) = voted(folder.path(), 5);
    fs::hard_link(store_file(folder.path()), folder.path().join("backup")).expect("a link can be made");
    let until = Instant::now() + Duration::from_millis(1_200);
    for number in (100..).take_while(|_| Instant::now() < until) {
        ledger.cast_all(&server, number..number + 1);
    }
    assert_eq!(trouble(&server), None);
}

/// Regression: without the note, a start after a kill took the store for damaged.
#[test]
fn small_files_beside_the_store_are_made_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, mut ledger) = voted(folder.path(), 5);
    let names = ["votes.sequence", "lock"].map(|name| folder.path().join(name));
    names.iter().for_each(|path| fs::remove_file(path).expect("it can be deleted"));
    wait_until("they are made again", || names.iter().all(|path| path.exists()));
    ledger.cast_all(&server, 100..101);
    ledger.expect_after_kill(server, folder.path(), "small files that were made again");
}

/// Regression: where a volume was not mounted, the service made and served an empty store.
#[test]
fn a_store_that_is_required_is_waited_for_and_made_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    let init = || {
        let mut command = Server::command();
        command.arg("init").arg("--data-dir").arg(&data);
        run_to_end(command)
    };
    let made = init();
    assert!(made.status.success(), "{made:?}");
    let again = init();
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert!(again.stderr.contains("there is a store already"), "{again:?}");
    let ledger = furnished(&data, 3);
    rename(&data, &aside);
    fs::create_dir(&data).expect("an empty mount point");

    let server = serve(&data, &["--require-store"]);
    let ready = get(server.control_endpoint().clone(), "/readyz");
    assert_eq!((ready.status, &ready.json()["reason"]), (503, &"store_unavailable".into()), "{ready:?}");
    assert!(ready.text().contains("--require-store"), "{ready:?}");
    let answer = get(server.public(), &format!("/api/vote/{SERVER}/status/{}", address(1)));
    assert_eq!((answer.status, &answer.json()["can_vote"]), (503, &true.into()), "{answer:?}");
    assert_eq!(fs::read_dir(&data).expect("it can be read").count(), 0, "nothing is made there");
    fs::remove_dir(&data).expect("it is empty");
    rename(&aside, &data);
    await_ready(&server);
    assert!(next_votes(&server, &[(SERVER, address(1))])[0].is_some());
    ledger.expect(&server, "once it is there");
}
