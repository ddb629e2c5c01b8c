//! Reads the 25 `qos_*` settings of OpenSM's configuration.

use selvedge_plan::qos::{Settings, Target};
use selvedge_types::{Sl, Vl};

use super::number::number;
use crate::SettingError;
use crate::near::meant;

/// Most entries of an arbitration table. Source: IBA vol 1 §14.2.5.9 (two blocks of 32).
const MOST_ENTRIES: usize = 64;
const MAX_VLS: &str = "0 to 15 data lanes; 0: as qos_max_vls";
const HIGH_LIMIT: &str = "-1 to 255 (x 4 KiB; 0: one packet, 255: unbounded, -1: as qos_high_limit)";
const PAIR: &str = "VL:WEIGHT, as 0:64: VL 0 to 14, weight 0 to 255 (x 64 bytes), no blank after a number";
const LANE: &str = "a VL from 0 to 15 (15 drops the SL), no blank after a number";
const NAMES: [&str; 5] = ["max_vls", "high_limit", "vlarb_high", "vlarb_low", "sl2vl"];

/// Sets a key as OpenSM's configuration has it: `qos_vlarb_high 0:4,1:0`. `(null)` takes the setting back.
pub fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), SettingError> {
    let unknown = || SettingError::UnknownKey {
        key: key.to_owned(),
        meant: meant(key, keys()),
    };
    let name = key.strip_prefix("qos_").ok_or_else(unknown)?;
    let target = Target::ALL.into_iter().find(|target| name.starts_with(target.prefix()));
    let (options, name) = match target {
        Some(target) => (settings.of_mut(target), &name[target.prefix().len()..]),
        None => (&mut settings.common, name),
    };
    match name {
        "max_vls" => options.max_vls = limited(key, value, "0", 15, MAX_VLS)?,
        "high_limit" => options.high_limit = limited(key, value, "-1", 255, HIGH_LIMIT)?,
        "vlarb_high" => options.vlarb_high = given(value).map(|text| pairs(key, text)).transpose()?,
        "vlarb_low" => options.vlarb_low = given(value).map(|text| pairs(key, text)).transpose()?,
        "sl2vl" => options.sl2vl = given(value).map(|text| lanes(key, text)).transpose()?,
        _ => return Err(unknown()),
    }
    Ok(())
}

/// Returns all keys, in the order of OpenSM's file.
pub fn keys() -> impl Iterator<Item = String> {
    let prefixes = [""].into_iter().chain(Target::ALL.map(Target::prefix));
    prefixes.flat_map(|prefix| NAMES.map(|name| format!("qos_{prefix}{name}")))
}

/// Returns a text, except OpenSM's word for a setting that is not set.
fn given(value: &str) -> Option<&str> {
    (value != "(null)").then_some(value)
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Parses a number up to `most`; `unset` is OpenSM's word for a setting that is not set.
fn limited(key: &str, value: &str, unset: &str, most: u8, want: &'static str) -> Result<Option<u8>, SettingError> {
    if value == unset {
        return Ok(None);
    }
    let found = number(value).and_then(|found| u8::try_from(found).ok());
    let refused = || SettingError::Number {
        key: key.to_owned(),
        found: cut(value),
        want,
    };
    found.filter(|found| *found <= most).map(Some).ok_or_else(refused)
}

/// Splits a list at its commas. OpenSM accepts blanks before an entry and one comma at the end.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_suffix(',').unwrap_or(text);
    text.split(',').map(|entry| entry.trim_start_matches([' ', '\t']))
}

fn refused(key: &str, at: usize, found: &str, want: &'static str) -> SettingError {
    SettingError::Entry {
        key: key.to_owned(),
        entry: at + 1,
        found: cut(found),
        want,
    }
}

fn lane(text: &str, most: u8) -> Option<Vl> {
    let number = number(text).and_then(|found| u8::try_from(found).ok())?;
    Vl::new(number).filter(|vl| vl.get() <= most)
}

/// Parses one arbitration entry, `VL:WEIGHT`.
pub(super) fn pair(entry: &str) -> Option<(Vl, u8)> {
    let (vl, weight) = entry.split_once(':')?;
    let weight = number(weight.trim_start_matches([' ', '\t']))?;
    Some((lane(vl, 14)?, u8::try_from(weight).ok()?))
}

fn pairs(key: &str, text: &str) -> Result<Vec<(Vl, u8)>, SettingError> {
    let parse = |(at, entry)| pair(entry).ok_or_else(|| refused(key, at, entry, PAIR));
    let found: Vec<_> = entries(text).enumerate().map(parse).collect::<Result<_, _>>()?;
    if found.len() > MOST_ENTRIES {
        return Err(SettingError::Length {
            key: key.to_owned(),
            found: found.len(),
            want: "1 to 64",
        });
    }
    Ok(found)
}

fn lanes(key: &str, text: &str) -> Result<[Vl; Sl::COUNT], SettingError> {
    let parse = |(at, entry)| lane(entry, 15).ok_or_else(|| refused(key, at, entry, LANE));
    let found: Vec<Vl> = entries(text).enumerate().map(parse).collect::<Result<_, _>>()?;
    found.try_into().map_err(|found: Vec<Vl>| SettingError::Length {
        key: key.to_owned(),
        found: found.len(),
        want: "16, one for each SL",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lanes: &[Vl]) -> String {
        lanes
            .iter()
            .map(|vl| vl.get().to_string())
            .collect::<Vec<_>>()
            .join(",")
    }

    fn pair_text(entries: &[(Vl, u8)]) -> String {
        let all = entries.iter().map(|(vl, weight)| format!("{}:{weight}", vl.get()));
        all.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn defaults_are_those_of_opensm() {
        let settings = Settings::default();
        for target in Target::ALL {
            assert_eq!(settings.high_limit(target), 0);
            assert_eq!(text(&settings.sl2vl(target)), "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7");
            assert_eq!(
                pair_text(&settings.vlarb_high(target)),
                "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0"
            );
            assert_eq!(
                pair_text(&settings.vlarb_low(target)),
                "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4"
            );
        }
    }

    /// A target's own setting is used before the common one, and `(null)`, `-1` and `0` take a setting back.
    #[test]
    fn a_target_inherits_what_it_does_not_set() {
        let mut settings = Settings::default();
        let mut given = |key: &str, value: &str| set(&mut settings, key, value).unwrap();
        given("qos_vlarb_high", "0:4");
        given("qos_high_limit", "6");
        given("qos_swe_vlarb_high", "3:0x40, 4:077,");
        given("qos_swe_high_limit", "0");
        given("qos_sw0_sl2vl", "0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,15");
        given("qos_rtr_max_vls", "8");
        assert_eq!(pair_text(&settings.vlarb_high(Target::Ca)), "0:4");
        assert_eq!(pair_text(&settings.vlarb_high(Target::SwitchExternal)), "3:64,4:63");
        let limits = Target::ALL.map(|target| settings.high_limit(target));
        assert_eq!(limits, [6, 6, 0, 6]);
        assert_eq!(
            text(&settings.sl2vl(Target::SwitchPort0)),
            "0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,15"
        );
        assert_eq!(
            text(&settings.sl2vl(Target::SwitchExternal)),
            "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7"
        );
        assert_eq!(settings.of(Target::Router).max_vls, Some(8));
        set(&mut settings, "qos_swe_vlarb_high", "(null)").unwrap();
        set(&mut settings, "qos_swe_high_limit", "-1").unwrap();
        set(&mut settings, "qos_rtr_max_vls", "0").unwrap();
        assert_eq!(pair_text(&settings.vlarb_high(Target::SwitchExternal)), "0:4");
        assert_eq!(settings.high_limit(Target::SwitchExternal), 6);
        assert_eq!(settings.of(Target::Router).max_vls, None);
    }

    #[test]
    fn every_key_can_be_set() {
        let keys: Vec<String> = keys().collect();
        assert_eq!(keys.len(), 25);
        for key in keys {
            let value = match key.rsplit('_').next() {
                Some("vls" | "limit") => "3",
                Some("sl2vl") => "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                _ => "1:2",
            };
            let mut settings = Settings::default();
            set(&mut settings, &key, value).unwrap();
            assert_ne!(settings, Settings::default(), "{key}");
        }
    }

    /// OpenSM only warns about each of these, and then reads a part of the value, or something else.
    #[test]
    fn what_opensm_reads_as_something_else_is_an_error() {
        let check = |key: &str, value: &str, want: &str| {
            let error = set(&mut Settings::default(), key, value).unwrap_err().to_string();
            assert_eq!(error, want);
        };
        let pairs = |entry, found| format!("SLV-QOS-0002: qos_ca_vlarb_low, entry {entry}: '{found}'; want {PAIR}");
        check("qos_ca_vlarb_low", "0:4,15:4", &pairs(2, "15:4"));
        check("qos_ca_vlarb_low", "0:256", &pairs(1, "0:256"));
        check("qos_ca_vlarb_low", "0:4,1;4", &pairs(2, "1;4"));
        check("qos_ca_vlarb_low", "0:4 ,1:4", &pairs(1, "0:4 "));
        check("qos_ca_vlarb_low", "0:4,,1:4", &pairs(2, ""));
        check("qos_ca_vlarb_low", "-1:4", &pairs(1, "-1:4"));
        check("qos_ca_vlarb_low", "", &pairs(1, ""));
        check(
            "qos_vlarb_high",
            &vec!["0:1"; 65].join(","),
            "SLV-QOS-0003: qos_vlarb_high has 65 entries; want 1 to 64",
        );
        check(
            "qos_sl2vl",
            "0,1,2",
            "SLV-QOS-0003: qos_sl2vl has 3 entries; want 16, one for each SL",
        );
        check(
            "qos_sl2vl",
            "0,1,16",
            &format!("SLV-QOS-0002: qos_sl2vl, entry 3: '16'; want {LANE}"),
        );
        check(
            "qos_high_limit",
            "256",
            &format!("SLV-QOS-0001: qos_high_limit 256: want {HIGH_LIMIT}"),
        );
        check(
            "qos_max_vls",
            "16",
            &format!("SLV-QOS-0001: qos_max_vls 16: want {MAX_VLS}"),
        );
        check(
            "qos_ca_vlarb_hihg",
            "0:4",
            "SLV-QOS-0004: no QoS setting is called 'qos_ca_vlarb_hihg'; did you mean 'qos_ca_vlarb_high'?",
        );
    }
}
