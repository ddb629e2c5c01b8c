//! A socket before a manager's, where a question has the same answer each time.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at `at` and passes requests on to the manager at `to`. Every request that was answered before
/// is answered with the same bytes. So tables of a manager with figures that move can be compared.
pub fn repeat_answers(at: &Path, to: &Path) {
    let listener = UnixListener::bind(at).unwrap();
    let to = to.to_owned();
    std::thread::spawn(move || {
        let mut answers = BTreeMap::new();
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let request = request(&client);
            let answer = answers.entry(request).or_insert_with_key(|request| ask(&to, request));
            // A client that has ended no longer reads.
            let _ = client.write_all(answer);
        }
    });
}

/// Returns a request: its lines before the empty line that ends its head, and its body.
fn request(client: &UnixStream) -> (Vec<String>, Vec<u8>) {
    let mut reader = BufReader::new(client);
    let lines = reader.by_ref().lines().map(Result::unwrap);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let len = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; len.map_or(0, |len| len.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

fn ask(to: &Path, (head, body): &(Vec<String>, Vec<u8>)) -> Vec<u8> {
    let mut manager = UnixStream::connect(to).unwrap();
    let head = head.join("\r\n") + "\r\nconnection: close\r\n\r\n";
    manager.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    manager.read_to_end(&mut answer).unwrap();
    answer
}
