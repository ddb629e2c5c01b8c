//! Section qos-setup.

use selvedge_types::{Sl, Vl};

use super::link::{Unlinked, UnlinkedArbitration, UnlinkedRow};
use super::{Kind, Parser, PolicyError, needed};

const SETUP: &[&str] = &["vlarb-tables", "sl2vl-tables", "end-qos-setup"];
const ARB_SCOPES: &[&str] = &["vlarb-scope", "end-vlarb-tables"];
const ARB_SCOPE: &[&str] = &[
    "group:",
    "across:",
    "vlarb-high:",
    "vlarb-low:",
    "vl-high-limit:",
    "end-vlarb-scope",
];
const ROW_SCOPES: &[&str] = &["sl2vl-scope", "end-sl2vl-tables"];
const ROW_SCOPE: &[&str] = &[
    "group:",
    "across:",
    "across-from:",
    "across-to:",
    "from:",
    "to:",
    "sl2vl-table:",
    "end-sl2vl-scope",
];
const DATA_LANE: &str = "a VL from 0 to 14";
const WEIGHT: &str = "a weight from 0 to 255 (x 64 bytes)";
const HIGH_LIMIT: &str = "vl-high-limit 0 to 255 (x 4 KiB; 0: one packet, 255: unbounded)";
const LANE: &str = "a VL from 0 to 15 (15 drops the SL)";
const SIXTEEN: &str = "16 VLs, one for each SL";
/// Most entries of an arbitration table. Source: IBA vol 1 §14.2.5.9.
const MOST: usize = 64;

impl Parser<'_> {
    pub(super) fn setup(&mut self, found: &mut Unlinked) -> Result<(), PolicyError> {
        loop {
            match self.take() {
                Kind::Section("vlarb-tables") => self.arb_scopes(found)?,
                Kind::Section("sl2vl-tables") => self.row_scopes(found)?,
                Kind::Section("end-qos-setup") => return Ok(()),
                _ => return Err(self.wrong(SETUP)),
            }
        }
    }

    fn arb_scopes(&mut self, found: &mut Unlinked) -> Result<(), PolicyError> {
        loop {
            match self.take() {
                Kind::Section("vlarb-scope") => {
                    let scope = self.arb_scope()?;
                    found.arbitration.push(scope);
                }
                Kind::Section("end-vlarb-tables") => return Ok(()),
                _ => return Err(self.wrong(ARB_SCOPES)),
            }
        }
    }

    fn arb_scope(&mut self) -> Result<UnlinkedArbitration, PolicyError> {
        let mut found = UnlinkedArbitration::default();
        found.scope.line = self.line();
        loop {
            match self.take() {
                Kind::Key("group") => found.groups.extend(self.texts()?),
                Kind::Key("across") => found.across.extend(self.texts()?),
                Kind::Key("vlarb-high") => self.entries(&mut found.scope.high)?,
                Kind::Key("vlarb-low") => self.entries(&mut found.scope.low)?,
                Kind::Key("vl-high-limit") => {
                    self.once(&found.scope.high_limit, "vl-high-limit")?;
                    found.scope.high_limit = Some(self.byte((0, 255), HIGH_LIMIT)?);
                }
                Kind::Section("end-vlarb-scope") => break,
                _ => return Err(self.wrong(ARB_SCOPE)),
            }
        }
        let named = found.groups.first().or(found.across.first());
        needed(named, found.scope.line, "vlarb-scope", "group or across")?;
        Ok(found)
    }

    /// Takes arbitration entries, and adds them to those of the same table.
    fn entries(&mut self, table: &mut Option<Vec<(Vl, u8)>>) -> Result<(), PolicyError> {
        let entries = table.get_or_insert_default();
        loop {
            let vl = self.byte((0, 14), DATA_LANE)?;
            if !self.takes(Kind::Colon) {
                return Err(self.unexpected(&["':' and a weight"]));
            }
            let weight = self.byte((0, 255), WEIGHT)?;
            entries.push((Vl::new(vl).unwrap_or_default(), weight));
            if entries.len() > MOST {
                return Err(PolicyError::Value {
                    line: self.line(),
                    found: format!("{} entries", entries.len()),
                    want: "at most 64 entries in a table",
                });
            }
            if !self.takes(Kind::Comma) {
                return Ok(());
            }
        }
    }

    fn row_scopes(&mut self, found: &mut Unlinked) -> Result<(), PolicyError> {
        loop {
            match self.take() {
                Kind::Section("sl2vl-scope") => {
                    let scope = self.row_scope()?;
                    found.rows.push(scope);
                }
                Kind::Section("end-sl2vl-tables") => return Ok(()),
                _ => return Err(self.wrong(ROW_SCOPES)),
            }
        }
    }

    fn row_scope(&mut self) -> Result<UnlinkedRow, PolicyError> {
        let mut found = UnlinkedRow::default();
        found.scope.line = self.line();
        let mut row = None;
        loop {
            match self.take() {
                Kind::Key("group") => found.groups.extend(self.texts()?),
                Kind::Key("across") => {
                    let both = self.texts()?;
                    found.across_from.extend(both.iter().cloned());
                    found.across_to.extend(both);
                }
                Kind::Key("across-from") => found.across_from.extend(self.texts()?),
                Kind::Key("across-to") => found.across_to.extend(self.texts()?),
                Kind::Key("from") => self.port_numbers(&mut found.scope.from)?,
                Kind::Key("to") => self.port_numbers(&mut found.scope.to)?,
                Kind::Key("sl2vl-table") => {
                    self.once(&row, "sl2vl-table")?;
                    row = Some(self.row()?);
                }
                Kind::Section("end-sl2vl-scope") => break,
                _ => return Err(self.wrong(ROW_SCOPE)),
            }
        }
        let line = found.scope.line;
        found.scope.row = needed(row, line, "sl2vl-scope", "sl2vl-table")?;
        let named = [&found.groups, &found.across_from, &found.across_to];
        let named = named.into_iter().find(|names| !names.is_empty());
        needed(named, line, "sl2vl-scope", "group, across-to or across-from")?;
        Ok(found)
    }

    fn row(&mut self) -> Result<[Vl; Sl::COUNT], PolicyError> {
        let mut lanes = Vec::with_capacity(Sl::COUNT);
        loop {
            let lane = self.byte((0, 15), LANE)?;
            lanes.push(Vl::new(lane).unwrap_or_default());
            if !self.takes(Kind::Comma) {
                break;
            }
        }
        let line = self.line();
        lanes.try_into().map_err(|lanes: Vec<Vl>| PolicyError::Value {
            line,
            found: format!("{} VLs", lanes.len()),
            want: SIXTEEN,
        })
    }
}
