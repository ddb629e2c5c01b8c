//! Macros that define a [`Key`](crate::Key) for common kinds of values.

/// Builds a `Key` for a field that holds a small number.
macro_rules! small {
    ($section:literal, $name:literal, $($field:ident).+, 0..=$max:literal, $want:literal, $doc:literal) => {
        Key {
            section: $section,
            name: $name,
            want: $want,
            doc: $doc,
            set: |s, v| {
                s.$($field).+ = v.u8_up_to($max)?;
                Some(())
            },
            show: |s| Some(Value::Int(u64::from(s.$($field).+))),
        }
    };
}

/// Builds a `Key` for a field that holds a public 64-bit number, as a subnet prefix.
macro_rules! key64 {
    ($section:literal, $name:literal, $($field:ident).+, $doc:literal) => {
        Key {
            section: $section,
            name: $name,
            want: "a 64-bit number, as \"0x0123456789abcdef\"",
            doc: $doc,
            set: |s, v| {
                s.$($field).+ = v.key64()?;
                Some(())
            },
            show: |s| Some(Value::Text(format!("{:#018x}", s.$($field).+))),
        }
    };
}

/// Builds a `Key` for a 64-bit key that no output may show.
macro_rules! secret64 {
    ($section:literal, $name:literal, |$s:ident| $get:expr, |$t:ident, $key:ident| $set:expr, $doc:literal) => {
        Key {
            section: $section,
            name: $name,
            want: "a 64-bit number, as \"0x0123456789abcdef\"",
            doc: $doc,
            set: |$t, v| {
                let $key = SecretKey::new(v.key64()?);
                $set;
                Some(())
            },
            show: |$s| Some(Value::Secret($get)),
        }
    };
}

/// Builds a `Key` for an optional path.
macro_rules! path {
    ($name:literal, $field:ident, $doc:literal) => {
        Key {
            section: "daemon",
            name: $name,
            want: "a path; relative ones start at the configuration file's folder",
            doc: $doc,
            set: |s, v| {
                s.daemon.$field = Some(PathBuf::from(v.text().filter(|path| !path.is_empty())?));
                Some(())
            },
            show: |s| Some(Value::Text(s.daemon.$field.as_ref()?.display().to_string())),
        }
    };
}

/// Builds a `Key` for the optional path of a file about telemetry.
macro_rules! file_key {
    ($name:literal, $field:ident, $doc:literal) => {
        Key {
            section: "telemetry",
            name: $name,
            want: "a path; relative ones start at the configuration file's folder",
            doc: $doc,
            set: |s, v| {
                s.telemetry_choices.$field = Some(PathBuf::from(v.text().filter(|path| !path.is_empty())?));
                Some(())
            },
            show: |s| {
                let path = s.telemetry_choices.$field.as_ref()?;
                Some(Value::Text(path.display().to_string()))
            },
        }
    };
}

/// Builds a `Key` for a time that must not be zero, in milliseconds.
macro_rules! millis {
    ($name:literal, $field:ident, $doc:literal) => {
        Key {
            section: "manager",
            name: $name,
            want: "1 to 3600000 milliseconds",
            doc: $doc,
            set: |s, v| {
                s.manager.$field = Duration::from_millis(v.int_up_to(3_600_000).filter(|&ms| ms > 0)?);
                Some(())
            },
            show: |s| Some(millis(s.manager.$field)),
        }
    };
}

/// Builds a `Key` for the interval of a sampling class, in milliseconds.
macro_rules! interval {
    ($name:literal, $field:ident, $doc:literal) => {
        Key {
            section: "telemetry",
            name: $name,
            want: "100 to 86400000 milliseconds",
            doc: $doc,
            set: |s, v| {
                s.telemetry.$field = Duration::from_millis(v.int_up_to(DAY_MS).filter(|&ms| ms >= 100)?);
                Some(())
            },
            show: |s| Some(millis(s.telemetry.$field)),
        }
    };
}

/// Builds a `Key` for a count that must not be zero.
macro_rules! count {
    ($section:literal, $name:literal, $($field:ident).+, 1..=$max:literal, $want:literal, $doc:literal) => {
        Key {
            section: $section,
            name: $name,
            want: $want,
            doc: $doc,
            set: |s, v| {
                s.$($field).+ = v.int_up_to($max).filter(|&n| n > 0)?.try_into().ok()?;
                Some(())
            },
            show: |s| Some(Value::Int(s.$($field).+ as u64)),
        }
    };
}

/// Builds a `Key` for a list of GUIDs.
macro_rules! guids {
    ($name:literal, $field:ident, $doc:literal) => {
        Key {
            section: "routing",
            name: $name,
            want: "a list of GUIDs, as [\"0x0002c90300001234\"]",
            doc: $doc,
            set: |s, v| {
                s.policy.$field = v.list()?.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
                Some(())
            },
            show: |s| Some(Value::List(s.policy.$field.iter().map(ToString::to_string).collect())),
        }
    };
}
