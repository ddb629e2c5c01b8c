//! Replaces names of groups and levels by their places.

use selvedge_types::Sl;

use super::{Named, PolicyError};
use crate::near::meant;
use crate::opensm::policy::{ArbScope, Level, LevelRef, MatchRule, PolicyFile, PortGroup, RowScope};

/// Name of the level of queries that match no rule.
const DEFAULT: &str = "default";

/// What a file has, with names.
#[derive(Default)]
pub(super) struct Unlinked {
    groups: Vec<PortGroup>,
    levels: Vec<Level>,
    pub rules: Vec<UnlinkedRule>,
    pub ulps: Vec<UnlinkedRule>,
    pub arbitration: Vec<UnlinkedArbitration>,
    pub rows: Vec<UnlinkedRow>,
    pub default: Option<Sl>,
}

#[derive(Default)]
pub(super) struct UnlinkedRule {
    pub rule: MatchRule,
    pub sources: Vec<Named>,
    pub destinations: Vec<Named>,
    /// The level; `None`: the rule has one already.
    pub level: Option<Named>,
}

#[derive(Default)]
pub(super) struct UnlinkedArbitration {
    pub scope: ArbScope,
    pub groups: Vec<Named>,
    pub across: Vec<Named>,
}

#[derive(Default)]
pub(super) struct UnlinkedRow {
    pub scope: RowScope,
    pub groups: Vec<Named>,
    pub across_from: Vec<Named>,
    pub across_to: Vec<Named>,
}

impl Unlinked {
    pub fn add_group(&mut self, group: PortGroup) -> Result<(), PolicyError> {
        if self
            .groups
            .iter()
            .any(|known| known.name.eq_ignore_ascii_case(&group.name))
        {
            return Err(PolicyError::Twice {
                line: group.line,
                what: format!("port-group '{}'", group.name),
            });
        }
        self.groups.push(group);
        Ok(())
    }

    pub fn add_level(&mut self, line: usize, level: Level) -> Result<(), PolicyError> {
        if self
            .levels
            .iter()
            .any(|known| known.name.eq_ignore_ascii_case(&level.name))
        {
            return Err(PolicyError::Twice {
                line,
                what: format!("qos-level '{}'", level.name),
            });
        }
        self.levels.push(level);
        Ok(())
    }

    /// Returns the policy. The rules of qos-ulps come after the others.
    pub fn link(self) -> Result<PolicyFile, PolicyError> {
        let Self {
            groups,
            levels,
            rules,
            ulps,
            arbitration,
            rows,
            default,
        } = self;
        let default = match (find_level(&levels, DEFAULT), default) {
            (Some(at), _) => LevelRef::Level(at),
            (None, Some(sl)) => LevelRef::Sl(sl),
            (None, None) => return Err(PolicyError::NoDefault),
        };
        let rules = rules.into_iter().chain(ulps);
        let rules = rules
            .map(|rule| rule.link(&groups, &levels))
            .collect::<Result<_, _>>()?;
        let arbitration = arbitration.into_iter().map(|found| {
            Ok(ArbScope {
                groups: places(&groups, &found.groups)?,
                across: places(&groups, &found.across)?,
                ..found.scope
            })
        });
        let arbitration = arbitration.collect::<Result<_, PolicyError>>()?;
        let rows = rows.into_iter().map(|found| {
            Ok(RowScope {
                groups: places(&groups, &found.groups)?,
                across_from: places(&groups, &found.across_from)?,
                across_to: places(&groups, &found.across_to)?,
                ..found.scope
            })
        });
        let rows = rows.collect::<Result<_, PolicyError>>()?;
        Ok(PolicyFile {
            groups,
            arbitration,
            rows,
            levels,
            rules,
            default,
        })
    }
}

impl UnlinkedRule {
    fn link(self, groups: &[PortGroup], levels: &[Level]) -> Result<MatchRule, PolicyError> {
        let level = match self.level {
            None => self.rule.level,
            Some((line, name)) => match find_level(levels, &name) {
                Some(at) => LevelRef::Level(at),
                None => {
                    let meant = meant(&name, levels.iter().map(|level| &level.name));
                    return Err(PolicyError::UnknownLevel { line, name, meant });
                }
            },
        };
        Ok(MatchRule {
            sources: places(groups, &self.sources)?,
            destinations: places(groups, &self.destinations)?,
            level,
            ..self.rule
        })
    }
}

fn find_level(levels: &[Level], name: &str) -> Option<usize> {
    levels.iter().position(|level| level.name.eq_ignore_ascii_case(name))
}

fn places(groups: &[PortGroup], names: &[Named]) -> Result<Vec<usize>, PolicyError> {
    let place = |(line, name): &Named| {
        let found = groups.iter().position(|group| group.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| PolicyError::UnknownGroup {
            line: *line,
            name: name.clone(),
            meant: meant(name, groups.iter().map(|group| &group.name)),
        })
    };
    names.iter().map(place).collect()
}
