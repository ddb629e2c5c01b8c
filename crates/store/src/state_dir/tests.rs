//! State survives crashes, damage and edits: each test tries one way in which it could be lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use selvedge_sim::{Ratio, Seed};
use selvedge_types::{Guid, Lid, LidRange, SecretKey};

use super::*;
use crate::{MemoryDisk, SealError, Trouble};

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("selvedge-store-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn lids(entries: &[(u64, u16)]) -> LidMap {
    let range = |&(guid, lid): &(u64, u16)| (Guid(guid), LidRange::single(Lid(lid)));
    entries.iter().map(range).collect()
}

fn state(generation: u64, entries: &[(u64, u16)]) -> PersistentState {
    PersistentState {
        lids: lids(entries),
        generation: Generation(generation),
        lane_count: 2,
        lanes: BTreeMap::from([(Guid(1), 3)]),
        levels: BTreeMap::from([(Guid(2), vec![1, 0])]),
        engines: vec![EngineName("updn".to_owned())],
        m_keys: vec![SecretKey::new(generation), SecretKey::new(u64::MAX)],
        ..PersistentState::default()
    }
}

/// Returns a state folder on a disk in memory, with content in each file.
fn full() -> (Arc<MemoryDisk>, StateDir) {
    let disk = Arc::new(MemoryDisk::default());
    let dir = reopen(&disk);
    dir.save_state(&state(7, &[(1, 7), (2, 8)]), None).unwrap();
    dir.save_registrations(&Registrations::default()).unwrap();
    dir.mark_stored(false).unwrap();
    (disk, dir)
}

fn reopen(disk: &Arc<MemoryDisk>) -> StateDir {
    let disk = Arc::clone(disk);
    StateDir::on(Path::new("state"), disk).unwrap()
}

#[test]
fn places_out_of_service_are_stored_and_a_bad_line_is_named() {
    let (disk, dir) = full();
    assert!(dir.load_out_of_service().unwrap().is_empty());
    let list = OutOfService::parse("drain link 0x1[2] 0x3[4] since 5 reason bad cable").unwrap();
    dir.save_out_of_service(&list).unwrap();
    assert_eq!(reopen(&disk).load_out_of_service().unwrap(), list);
    disk.write(OUT_OF_SERVICE, b"# edited\ndrain rack 7\n").unwrap();
    let error = dir.load_out_of_service().unwrap_err().to_string();
    assert!(error.contains("SLV-STORE-0018") && error.contains("line 2"), "{error}");
}

#[test]
fn what_was_saved_is_loaded() {
    let path = scratch("saved");
    let dir = StateDir::open(&path).unwrap();
    assert_eq!(dir.load_state().unwrap(), (PersistentState::default(), vec![]));
    let (first, second) = (state(1, &[(1, 7), (2, 8)]), state(2, &[(1, 7)]));
    dir.save_state(&first, None).unwrap();
    dir.save_state(&second, Some(&first)).unwrap();
    drop(dir);
    assert_eq!(StateDir::open(&path).unwrap().load_state().unwrap(), (second, vec![]));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn others_may_not_read_state() {
    let path = scratch("modes").join("a/b");
    let dir = StateDir::open(&path).unwrap();
    dir.save_state(&state(1, &[(1, 7)]), None).unwrap();
    dir.save_registrations(&Registrations::default()).unwrap();
    dir.mark_stored(false).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path) & 0o027, 0, "{:o}", mode(&path));
    let files: Vec<PathBuf> = fs::read_dir(&path).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 5, "{files:?}");
    assert_eq!(mode(&path.join(PLAN_STATE)), 0o600);
    for file in files {
        assert_eq!(mode(&file) & 0o137, 0, "{}: {:o}", file.display(), mode(&file));
    }
    drop(dir);
    fs::remove_dir_all(scratch("modes")).unwrap_or_default();
}

#[test]
fn a_crash_before_the_rename_leaves_the_old_file() {
    let path = scratch("crash");
    let dir = StateDir::open(&path).unwrap();
    dir.save_state(&state(1, &[(1, 7)]), None).unwrap();
    drop(dir);
    let halves = ["guid2lid.new", "plan-state.new", "registrations.new"].map(|name| path.join(name));
    for half in &halves {
        fs::write(half, "0x0000000000000001 0x00").unwrap();
    }
    let dir = StateDir::open(&path).unwrap();
    assert_eq!(dir.load_state().unwrap().0, state(1, &[(1, 7)]));
    assert!(halves.iter().all(|half| !half.exists()));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn two_managers_cannot_share_a_folder() {
    let path = scratch("shared");
    let first = StateDir::open(&path).unwrap();
    let error = StateDir::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    drop(first);
    StateDir::open(&path).unwrap();
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn each_flipped_bit_and_each_cut_is_refused_or_changes_nothing() {
    let (disk, dir) = full();
    let want = (dir.load_state().unwrap(), dir.load_registrations().unwrap());
    for name in [GUID2LID, PLAN_STATE, REGISTRATIONS] {
        let whole = disk.read(name).unwrap();
        let mut refused = 0;
        let mut check = |damaged: &[u8], what: &str| {
            disk.write(name, damaged).unwrap();
            let (state, registered) = (dir.load_state(), dir.load_registrations());
            match (state, registered) {
                // Only entries that the mark protects may be lost, and then hosts are asked again.
                (Ok(state), Ok(registered)) => {
                    assert_eq!(
                        (&state.0, registered.map(|(all, _)| all)),
                        (&want.0.0, want.1.clone().map(|(all, _)| all)),
                        "{name}: {what}"
                    );
                }
                _ => refused += 1,
            }
        };
        for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            check(&damaged, &format!("byte {at}, bit {bit}"));
        }
        for len in 0..whole.len() {
            check(&whole[..len], &format!("cut to {len} bytes"));
        }
        let all = whole.len() * 9;
        assert!(refused > all - 120, "{name}: {refused} of {all}");
        disk.write(name, &whole).unwrap();
    }
}

#[test]
fn a_damaged_file_is_never_overwritten() {
    let (disk, dir) = full();
    for name in [GUID2LID, PLAN_STATE, REGISTRATIONS] {
        let whole = disk.read(name).unwrap();
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 4;
        disk.write(name, &damaged).unwrap();
        let saved = dir
            .save_state(&state(9, &[(1, 7)]), None)
            .and_then(|()| dir.save_registrations(&Registrations::default()));
        let error = saved.unwrap_err().to_string();
        assert!(error.contains("SLV-STORE-0006") && error.contains(name), "{error}");
        assert_eq!(disk.read(name).unwrap(), damaged);
        disk.write(name, &whole).unwrap();
    }
}

#[test]
fn an_edited_file_is_read_once_its_seal_is_deleted() {
    let (disk, dir) = full();
    let sealed = String::from_utf8(disk.read(GUID2LID).unwrap()).unwrap();
    let edited = sealed.replace("0x0007 0x0007", "0x004d 0x004d");
    disk.write(GUID2LID, edited.as_bytes()).unwrap();
    let error = dir.load_state().unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Damaged {
                what: SealError::Sum,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("delete its first line"), "{error}");
    let (_, entries) = edited.split_once('\n').unwrap();
    for text in [entries, "0x0000000000000001 0x004d 0x004d\n\n0x2 8 8\n"] {
        disk.write(GUID2LID, text.as_bytes()).unwrap();
        assert_eq!(
            dir.load_state().unwrap(),
            (state(7, &[(1, 77), (2, 8)]), vec![]),
            "{text}"
        );
    }
    // The next save seals the file again.
    dir.save_state(&state(8, &[(1, 77), (2, 8)]), None).unwrap();
    assert!(disk.read(GUID2LID).unwrap().starts_with(b"# selvedge: generation 1,"));
    assert_eq!(dir.load_state().unwrap().0, state(8, &[(1, 77), (2, 8)]));
}

#[test]
fn what_cannot_all_be_right_is_named() {
    let (disk, dir) = full();
    let old = disk.read(GUID2LID).unwrap();
    dir.save_state(&state(8, &[(1, 7), (2, 8), (3, 9)]), None).unwrap();
    assert_eq!(dir.load_state().unwrap().1, vec![]);
    disk.write(GUID2LID, &old).unwrap();
    let [warning] = &dir.load_state().unwrap().1[..] else {
        panic!("one warning");
    };
    let (found, known) = (1, 2);
    assert!(matches!(warning, StateWarning::OldLids { found: f, known: k, .. } if (*f, *k) == (found, known)));
    // OpenSM's own file gives one LID to two ports.
    disk.write(GUID2LID, b"0x11 0x0005 0x0005\n\n0x22 0x0005 0x0005\n\n")
        .unwrap();
    let (state, warnings) = dir.load_state().unwrap();
    assert_eq!(state.lids, lids(&[(0x11, 5), (0x22, 5)]));
    let text = warnings[0].to_string();
    for part in ["state/guid2lid", "LID 5", "0x0000000000000011", "0x0000000000000022"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_empty_file_of_lids_is_refused_where_some_were_stored() {
    let (disk, dir) = full();
    disk.write(GUID2LID, b"").unwrap();
    let error = dir.load_state().unwrap_err().to_string();
    assert!(
        error.contains("SLV-STORE-0007") && error.contains("generation 1"),
        "{error}"
    );
    // OpenSM creates an empty file when it starts. If the operator moves the file away, a fresh start is wanted.
    disk.remove(PLAN_STATE).unwrap();
    assert_eq!(dir.load_state().unwrap().0, PersistentState::default());
    let (disk, dir) = full();
    disk.remove(GUID2LID).unwrap();
    assert_eq!(dir.load_state().unwrap().0.lids, LidMap::new());
}

#[test]
fn the_mark_vouches_for_one_file_in_one_life_of_the_machine() {
    let (disk, dir) = full();
    let is_all = || dir.load_registrations().unwrap().unwrap().1;
    assert!(is_all());
    dir.mark_unstored().unwrap();
    dir.mark_unstored().unwrap();
    assert!(!is_all());
    dir.save_registrations(&Registrations::default()).unwrap();
    assert!(!is_all());
    dir.mark_stored(false).unwrap();
    assert!(is_all());
    let mark = disk.read(STORED).unwrap();
    // A mark that belongs to another file, was half written, or comes from another boot.
    dir.save_registrations(&Registrations::default()).unwrap();
    assert!(!is_all());
    dir.mark_stored(false).unwrap();
    let text = String::from_utf8(disk.read(STORED).unwrap()).unwrap();
    assert_ne!(text.as_bytes(), mark);
    for wrong in ["", &text[..5], &text.replace("memory", "another")] {
        disk.write(STORED, wrong.as_bytes()).unwrap();
        assert!(!is_all(), "{wrong:?}");
    }
    dir.mark_stored(true).unwrap();
    assert!(is_all());
    let text = String::from_utf8(disk.read(STORED).unwrap()).unwrap();
    assert!(text.contains("ended") && !text.contains("memory"), "{text}");
}

#[test]
fn registrations_of_older_versions_are_read_with_their_mark() {
    let disk = Arc::new(MemoryDisk::default());
    let dir = reopen(&disk);
    assert_eq!(dir.load_registrations().unwrap(), None);
    disk.write(REGISTRATIONS, b"format 1\nserial 3\n").unwrap();
    assert!(dir.load_registrations().unwrap().unwrap().1);
    disk.write(UNSTORED, b"").unwrap();
    assert!(!dir.load_registrations().unwrap().unwrap().1);
    disk.write(REGISTRATIONS, b"format 1\nhello\n").unwrap();
    let error = dir.load_registrations().unwrap_err().to_string();
    assert!(error.contains("SLV-STORE-0005") && error.contains("line 2"), "{error}");
    disk.write(REGISTRATIONS, b"format 1\nserial 3\n").unwrap();
    dir.save_registrations(&Registrations::default()).unwrap();
    dir.mark_stored(false).unwrap();
    assert!(dir.load_registrations().unwrap().unwrap().1);
    assert!(!disk.has(UNSTORED).unwrap());
}

#[test]
fn lids_of_another_fabric_are_kept_beside() {
    let disk = Arc::new(MemoryDisk::default());
    let dir = reopen(&disk);
    let save = |entries: &[(u64, u16)]| dir.save_state(&state(1, entries), None).unwrap();
    save(&[(1, 7), (2, 8)]);
    save(&[(2, 8), (3, 9)]);
    assert!(!disk.has(SET_ASIDE).unwrap());
    save(&[(4, 7)]);
    let aside = || disk.read(SET_ASIDE).unwrap();
    let first = aside();
    let (body, _) = unseal(&first).unwrap();
    assert_eq!(parse_guid2lid(body).unwrap(), lids(&[(2, 8), (3, 9)]));
    // The first file set aside is kept: an operator may look for it.
    save(&[(5, 7)]);
    assert_eq!(aside(), first);
}

#[test]
fn a_foreign_file_is_refused_and_kept() {
    let path = scratch("foreign");
    fs::create_dir_all(&path).unwrap();
    for (text, line) in [("not ours\n", "line 1"), ("\n# selvedge\n", "line 2")] {
        fs::write(path.join(GUID2LID), text).unwrap();
        let error = StateDir::open(&path).unwrap().load_state().unwrap_err().to_string();
        assert!(error.contains("SLV-STORE-0003") && error.contains(line), "{error}");
        assert_eq!(fs::read_to_string(path.join(GUID2LID)).unwrap(), text);
    }
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn whatever_fails_the_old_state_is_there_or_the_new_one() {
    let mut failed = [0; 2];
    for seed in 0..400 {
        let (disk, dir) = full();
        let (old, new) = (state(7, &[(1, 7), (2, 8)]), state(8, &[(1, 7), (2, 8), (3, 9)]));
        disk.set_trouble(Some(Trouble {
            share: Ratio {
                numerator: 1,
                denominator: 16,
            },
            seed: Seed(seed),
        }));
        let saved = dir.save_state(&new, Some(&old));
        disk.set_trouble(None);
        failed[usize::from(saved.is_ok())] += 1;
        // The process is killed here.
        let (found, warnings) = reopen(&disk).load_state().unwrap();
        assert_eq!(warnings, vec![], "seed {seed}");
        assert!(saved.is_err() || found == new, "seed {seed}: {found:?}");
        assert!([&old.lids, &new.lids].contains(&&found.lids), "seed {seed}: {found:?}");
        assert!(
            found.generation != new.generation || found == new,
            "seed {seed}: {found:?}"
        );
        // The failed save is retried and works.
        dir.save_state(&new, None).unwrap();
        assert_eq!(reopen(&disk).load_state().unwrap().0, new, "seed {seed}");
    }
    assert!(failed.iter().all(|count| *count > 40), "{failed:?}");
}
