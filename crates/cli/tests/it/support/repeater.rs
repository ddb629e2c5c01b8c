//! A socket before a manager's, where a question has the same answer each time.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at `at` and passes requests without a body on to the manager at `to`. Every request that was answered before
/// is answered with the same bytes. So tables of a manager with figures that move can be compared.
pub fn repeat_answers(at: &Path, to: &Path) {
    let listener = UnixListener::bind(at).unwrap();
    let to = to.to_owned();
    std::thread::spawn(move || {
        let mut answers = BTreeMap::new();
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let request = head(&client);
            let answer = answers.entry(request).or_insert_with_key(|request| ask(&to, request));
            // A client that has ended no longer reads.
            let _ = client.write_all(answer);
        }
    });
}

/// Returns the lines before the empty line that ends the head of a request.
fn head(client: &UnixStream) -> Vec<String> {
    let lines = BufReader::new(client).lines();
    lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect()
}

fn ask(to: &Path, request: &[String]) -> Vec<u8> {
    let mut manager = UnixStream::connect(to).unwrap();
    let head = request.join("\r\n") + "\r\nconnection: close\r\n\r\n";
    manager.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    manager.read_to_end(&mut answer).unwrap();
    answer
}
