//! The value of `--fabric`: a file, or a generator with its keys.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use selvedge_fabric::{BuildError, PortCapability};
use selvedge_sim::Seed;
use selvedge_types::Mtu;

use crate::generate::{GuidOrder, LinkRemoval, Options, Recipe, Shape, Tree};
use crate::text::parse_rate;

/// Source of a fabric.
///
/// `name:key=value,…` (or the name of a generator without required keys) is a generator; everything else is a file. A
/// file with a name like that of a generator is written `./name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A topology file, to be read by [`crate::read`].
    File(PathBuf),
    /// A generated fabric.
    Generated(Recipe),
}

/// Reason why a `--fabric` text is invalid or cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// SLV-TOPOLOGY-0001: no generator has this name.
    #[error("SLV-TOPOLOGY-0001: no generator is called '{name}'{hint}; known: {known} (a file of that name: ./{name})")]
    UnknownGenerator {
        /// The name given.
        name: String,
        /// `; did you mean '…'?`, or empty.
        hint: String,
        /// Names of all generators.
        known: String,
    },
    /// SLV-TOPOLOGY-0002: the generator has no such key.
    #[error("SLV-TOPOLOGY-0002: {generator} has no key '{key}'{hint}; known: {known}")]
    UnknownKey {
        /// Name of the generator.
        generator: String,
        /// The key given.
        key: String,
        /// `; did you mean '…'?`, or empty.
        hint: String,
        /// All keys of this generator.
        known: String,
    },
    /// SLV-TOPOLOGY-0003: the value of a key is not allowed.
    #[error("SLV-TOPOLOGY-0003: {generator}: {key}={value}: want {want}")]
    BadValue {
        /// Name of the generator.
        generator: String,
        /// Name of the key.
        key: String,
        /// The value given.
        value: String,
        /// The values allowed.
        want: String,
    },
    /// SLV-TOPOLOGY-0004: a key that has no default is missing.
    #[error("SLV-TOPOLOGY-0004: {generator} needs {key}, as in {example}")]
    MissingKey {
        /// Name of the generator.
        generator: String,
        /// Name of the key.
        key: String,
        /// A complete specification.
        example: String,
    },
    /// SLV-TOPOLOGY-0005: the fabric would be larger than the generator allows.
    #[error("SLV-TOPOLOGY-0005: {generator} would have {wanted} {what}; at most {limit}: make it smaller")]
    TooBig {
        /// Name of the generator.
        generator: String,
        /// The quantity that is too large.
        what: &'static str,
        /// The number wanted.
        wanted: String,
        /// The largest number allowed.
        limit: u64,
    },
    /// SLV-TOPOLOGY-0006: the generated parts contradict each other; a mistake of the generator.
    #[error("SLV-TOPOLOGY-0006: {generator} made a contradiction; report it with this command line")]
    Build {
        /// Name of the generator.
        generator: String,
        /// The contradiction.
        source: BuildError,
    },
    /// SLV-TOPOLOGY-0007: the specification of a fabric is empty.
    #[error("SLV-TOPOLOGY-0007: no fabric is named; give a file, or a generator as {example}")]
    Empty {
        /// A complete specification.
        example: &'static str,
    },
}

/// A generator: its name, its own keys, and a working example.
struct Generator {
    name: &'static str,
    keys: &'static [&'static str],
    /// True if the part before the first key may be dimensions, as in `4x4`.
    has_dimensions: bool,
    example: &'static str,
}

const GENERATORS: &[Generator] = &[
    Generator::new("karytree", &["k", "n"], "karytree:k=18,n=2"),
    Generator::new("mport", &["m", "n"], "mport:m=8,n=3"),
    Generator::new("pgft", &["h", "m", "w", "p"], "pgft:m=18x18,w=1x9,p=1x2"),
    Generator::new("xgft", &["h", "m", "w"], "xgft:m=4x4,w=1x4"),
    Generator::new("sx6536", &[], "sx6536"),
    Generator::with_dimensions("mesh", &["hosts"], "mesh:4x4"),
    Generator::with_dimensions("torus", &["hosts"], "torus:4x4x4,hosts=1"),
    Generator::new(
        "random",
        &["switches", "degree", "hosts"],
        "random:switches=128,degree=4,hosts=2,seed=1",
    ),
    Generator::new("ring", &["switches", "hosts"], "ring:switches=8,hosts=1"),
    Generator::new("clusters", &["hosts", "links"], "clusters:hosts=8,links=1"),
    Generator::new("single", &["ports", "hosts"], "single:ports=36,hosts=36"),
];

/// Keys of every generator.
const COMMON_KEYS: &[&str] = &[
    "ports-per-host",
    "hcas",
    "rails",
    "remove-links",
    "seed",
    "guids",
    "rate",
    "mtu",
    "vls",
    "guidcap",
];

impl Generator {
    const fn new(name: &'static str, keys: &'static [&'static str], example: &'static str) -> Self {
        Self {
            name,
            keys,
            has_dimensions: false,
            example,
        }
    }

    const fn with_dimensions(name: &'static str, keys: &'static [&'static str], example: &'static str) -> Self {
        Self {
            name,
            keys,
            has_dimensions: true,
            example,
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text.trim().is_empty() {
            return Err(SpecError::Empty { example: "sx6536" });
        }
        let (name, rest) = text.split_once(':').map_or((text, None), |(n, r)| (n, Some(r)));
        if let Some(generator) = GENERATORS.iter().find(|g| g.name == name) {
            return Ok(Self::Generated(Given::parse(generator, rest.unwrap_or(""))?.recipe()?));
        }
        let is_word = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if is_word && rest.is_some_and(|r| !r.contains(['/', '\\'])) {
            let names: Vec<&str> = GENERATORS.iter().map(|g| g.name).collect();
            return Err(SpecError::UnknownGenerator {
                name: name.to_owned(),
                hint: hint(name, &names),
                known: names.join(", "),
            });
        }
        Ok(Self::File(PathBuf::from(text)))
    }
}

impl Spec {
    /// Returns a working specification of every generator, for help texts and tests.
    pub fn examples() -> impl Iterator<Item = &'static str> {
        GENERATORS.iter().map(|g| g.example)
    }

    /// Returns `; did you mean '…'?` if `word` begins with a generator's name or is similar to one, else an empty text.
    #[must_use]
    pub fn nearest(word: &str) -> String {
        match GENERATORS.iter().find(|g| word.starts_with(g.name)) {
            Some(generator) => format!("; did you mean '{}'?", generator.example),
            None => hint(word, &GENERATORS.iter().map(|g| g.name).collect::<Vec<_>>()),
        }
    }
}

/// Returns `; did you mean '…'?` if one of `known` is similar to `word`, else an empty text.
fn hint(word: &str, known: &[&str]) -> String {
    known
        .iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .min()
        .filter(|&(distance, k)| distance <= 1 + k.len() / 4)
        .map_or_else(String::new, |(_, k)| format!("; did you mean '{k}'?"))
}

/// Returns the error for a key that the generator lacks. Suggests only keys that the text does not set yet.
fn unknown_key(generator: &Generator, key: &str, rest: &str) -> SpecError {
    let known: Vec<&str> = generator.keys.iter().chain(COMMON_KEYS).copied().collect();
    let is_given = |known: &&str| {
        let mut keys = rest.split(',').filter_map(|part| Some(part.split_once('=')?.0));
        keys.any(|given| given == *known)
    };
    let open: Vec<&str> = known.iter().copied().filter(|known| !is_given(known)).collect();
    SpecError::UnknownKey {
        generator: generator.name.to_owned(),
        key: key.to_owned(),
        hint: hint(key, &open),
        known: known.join(", "),
    }
}

/// The keys that a text gives to a generator.
struct Given<'a> {
    generator: &'static Generator,
    dimensions: Option<&'a str>,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Given<'a> {
    fn parse(generator: &'static Generator, rest: &'a str) -> Result<Self, SpecError> {
        let mut given = Self {
            generator,
            dimensions: None,
            values: BTreeMap::new(),
        };
        for (at, part) in rest.split(',').filter(|p| !p.is_empty()).enumerate() {
            let Some((key, value)) = part.split_once('=') else {
                if at == 0 && generator.has_dimensions {
                    given.dimensions = Some(part);
                    continue;
                }
                return Err(given.bad(part, "", "key=value pairs, separated by commas"));
            };
            if !generator.keys.iter().chain(COMMON_KEYS).any(|known| *known == key) {
                return Err(unknown_key(generator, key, rest));
            }
            if given.values.insert(key, value).is_some() {
                return Err(given.bad(key, value, "each key once"));
            }
        }
        Ok(given)
    }

    fn recipe(&self) -> Result<Recipe, SpecError> {
        let shape = match self.generator.name {
            "karytree" => Shape::Tree(Tree::k_ary(self.positive("k")?, self.positive("n")?)),
            "mport" => {
                let ports: u32 = self.positive("m")?;
                if ports % 2 == 1 {
                    return Err(self.bad("m", &ports.to_string(), "an even number of ports"));
                }
                Shape::Tree(Tree::m_port(ports, self.positive("n")?))
            }
            "pgft" | "xgft" => Shape::Tree(self.tree()?),
            "sx6536" => Shape::Tree(Tree::sx6536()),
            "mesh" | "torus" => Shape::Grid {
                dimensions: self.dimensions()?,
                wraps: self.generator.name == "torus",
                hosts: self.or("hosts", 1)?,
            },
            "ring" => Shape::Grid {
                dimensions: vec![self.positive("switches")?],
                wraps: true,
                hosts: self.or("hosts", 1)?,
            },
            "random" => Shape::Random {
                switches: self.required("switches")?,
                degree: self.required("degree")?,
                hosts: self.or("hosts", 1)?,
            },
            "clusters" => Shape::Clusters {
                hosts: self.required("hosts")?,
                links: self.or("links", 1)?,
            },
            // The only other generator in the table is "single".
            _ => {
                let ports = self.or("ports", 36)?;
                Shape::Single {
                    ports,
                    hosts: self.or("hosts", u32::from(ports))?,
                }
            }
        };
        Ok(Recipe {
            name: self.generator.name.to_owned(),
            shape,
            options: self.options()?,
        })
    }

    fn tree(&self) -> Result<Tree, SpecError> {
        let children = self.vector("m")?.ok_or_else(|| self.missing("m"))?;
        let parents = self.vector("w")?.ok_or_else(|| self.missing("w"))?;
        let links = self.vector("p")?.unwrap_or_else(|| vec![1; children.len()]);
        let height = self.or("h", children.len())?;
        for (key, vector) in [("m", &children), ("w", &parents), ("p", &links)] {
            if vector.len() != height || height == 0 {
                let want = format!(
                    "a number for each of the {height} levels (h), as in {}",
                    self.generator.example
                );
                let vector: Vec<String> = vector.iter().map(ToString::to_string).collect();
                return Err(self.bad(key, &vector.join("x"), &want));
            }
        }
        if parents[0] != 1 || links[0] != 1 {
            let want = "1 on the lowest level; hosts get more ports by ports-per-host and rails";
            return Err(self.bad("w and p", &format!("{},{}", parents[0], links[0]), want));
        }
        Ok(Tree {
            children,
            parents,
            links,
        })
    }

    fn options(&self) -> Result<Options, SpecError> {
        let default = Options::default();
        let rails = self.or("rails", default.rails)?;
        let hcas = self.or("hcas", default.hcas)?;
        Ok(Options {
            rails,
            ports_per_host: self.or("ports-per-host", rails.max(hcas))?,
            hcas,
            removal: self.value(
                "remove-links",
                default.removal,
                "a number of links or a share as 1%",
                parse_removal,
            )?,
            seed: Seed(self.or("seed", default.seed.0)?),
            guids: self.value("guids", default.guids, "ordered or shuffled", |text| match text {
                "ordered" => Some(GuidOrder::Ordered),
                "shuffled" => Some(GuidOrder::Shuffled),
                _ => None,
            })?,
            rate: self.value("rate", default.rate, "a width and a speed, as in 4xEDR", parse_rate)?,
            mtu: self.value("mtu", default.mtu, "256, 512, 1024, 2048 or 4096 bytes", |text| {
                text.parse::<u16>().ok().and_then(|bytes| Mtu::try_from(bytes).ok())
            })?,
            vls: self.value("vls", default.vls, "1, 2, 4, 8 or 15 data lanes", |text| {
                let lanes: u8 = text.parse().ok()?;
                (1..=5).find(|&code| PortCapability::lanes_of_code(code) == lanes)
            })?,
            guid_cap: self.value("guidcap", default.guid_cap, "1 to 255 entries", |text| {
                text.parse().ok().filter(|&entries| entries > 0)
            })?,
        })
    }

    fn dimensions(&self) -> Result<Vec<u32>, SpecError> {
        let text = self.dimensions.ok_or_else(|| self.missing("dimensions"))?;
        parse_vector(text).ok_or_else(|| self.bad("dimensions", text, "sizes of at least 1, as in 4x4x4"))
    }

    fn vector(&self, key: &str) -> Result<Option<Vec<u32>>, SpecError> {
        let parse = |text: &&str| {
            parse_vector(text).ok_or_else(|| self.bad(key, text, "numbers of at least 1, as in 4x4x8 or 4;4;8"))
        };
        self.values.get(key).map(parse).transpose()
    }

    fn required<T: Number>(&self, key: &str) -> Result<T, SpecError> {
        self.number(key)?.ok_or_else(|| self.missing(key))
    }

    /// Returns a number that must be given and must not be 0.
    fn positive<T: Number + PartialEq + From<u8>>(&self, key: &str) -> Result<T, SpecError> {
        match self.required(key)? {
            zero if zero == T::from(0) => Err(self.bad(key, "0", "at least 1")),
            number => Ok(number),
        }
    }

    fn or<T: Number>(&self, key: &str, default: T) -> Result<T, SpecError> {
        Ok(self.number(key)?.unwrap_or(default))
    }

    fn number<T: Number>(&self, key: &str) -> Result<Option<T>, SpecError> {
        let parse = |text: &&str| {
            let want = format!("a whole number from 0 to {}", T::MAX);
            text.parse().map_err(|_| self.bad(key, text, &want))
        };
        self.values.get(key).map(parse).transpose()
    }

    fn value<T>(&self, key: &str, default: T, want: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, SpecError> {
        match self.values.get(key) {
            None => Ok(default),
            Some(text) => parse(text).ok_or_else(|| self.bad(key, text, want)),
        }
    }

    fn bad(&self, key: &str, value: &str, want: &str) -> SpecError {
        SpecError::BadValue {
            generator: self.generator.name.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            want: want.to_owned(),
        }
    }

    fn missing(&self, key: &str) -> SpecError {
        SpecError::MissingKey {
            generator: self.generator.name.to_owned(),
            key: key.to_owned(),
            example: self.generator.example.to_owned(),
        }
    }
}

/// A number type of the grammar, with its largest value for messages.
trait Number: FromStr {
    /// The largest value.
    const MAX: u64;
}

impl Number for u8 {
    const MAX: u64 = Self::MAX as u64;
}

impl Number for u32 {
    const MAX: u64 = Self::MAX as u64;
}

impl Number for u64 {
    const MAX: u64 = Self::MAX;
}

impl Number for usize {
    const MAX: u64 = Self::MAX as u64;
}

/// Parses `4x4x8` or `4;4;8`: numbers of at least 1. The first form needs no quotes in a shell.
fn parse_vector(text: &str) -> Option<Vec<u32>> {
    text.split([';', 'x'])
        .map(|n| n.parse().ok().filter(|&n| n >= 1))
        .collect()
}

/// Parses `12` or `1%` or `0.25%`.
pub(crate) fn parse_removal(text: &str) -> Option<LinkRemoval> {
    let Some(percent) = text.strip_suffix('%') else {
        return text.parse().ok().map(LinkRemoval::Count);
    };
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    if fraction.len() > 4 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: u32 = format!("{fraction:0<4}").parse().ok()?;
    let per_million = whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(fraction)?;
    (per_million <= 1_000_000).then_some(LinkRemoval::PerMillion(per_million))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_generators() {
        let check = |text: &str, is_file: bool| {
            let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(matches!(spec, Spec::File(_)), is_file, "{text}");
        };
        check("net", true);
        check("./sx6536", true);
        check("a/b:c", true);
        check("host:/fabric", true);
        check("fabric.topo", true);
        check("sx6536", false);
        check("single", false);
        check("sx6536:remove-links=1%", false);
        for example in Spec::examples() {
            check(example, false);
        }
    }

    #[test]
    fn mistakes_are_explained() {
        let check = |text: &str, want: &[&str]| {
            let error = text.parse::<Spec>().expect_err(text).to_string();
            for part in want {
                assert!(error.contains(part), "{text}: {error} lacks {part}");
            }
        };
        check("karytre:k=3,n=2", &["0001", "did you mean 'karytree'?", "torus"]);
        check("zzzzzzzz:k=3", &["0001", "known: karytree"]);
        check("karytree:k=3,n=2,rail=2", &["0002", "did you mean 'rails'?", "guids"]);
        check("karytree:k=3", &["0004", "needs n", "karytree:k=18,n=2"]);
        check("karytree:k=-3,n=2", &["0003", "k=-3"]);
        check("karytree:k=3,k=4,n=2", &["each key once"]);
        check("karytree:3,n=2", &["key=value"]);
        check("mport:m=7,n=2", &["even"]);
        check("clusters:links=2", &["0004", "needs hosts"]);
        check("torus", &["0004", "dimensions", "torus:4x4x4"]);
        check("torus:4x0", &["0003", "at least 1"]);
        check("pgft:h=3,m=4;4,w=1;4", &["pgft: m=4x4: want", "each of the 3 levels"]);
        check("pgft:m=4x4,w=2x4", &["lowest level"]);
        check("ring:switches=8,guids=random", &["ordered or shuffled"]);
        check("ring:switches=8,rate=5xEDR", &["4xEDR"]);
        check("ring:switches=8,mtu=1500", &["4096"]);
        check("ring:switches=8,vls=3", &["15 data lanes"]);
        check("ring:switches=8,remove-links=101%", &["1%"]);
        check("ring:switches=0", &["0003", "switches=0", "at least 1"]);
        check(
            "ring:switches=99999999999",
            &["switches=99999999999", "from 0 to 4294967295"],
        );
        check(
            "karytree:k=4,n=two",
            &["0003", "n=two: want a whole number from 0 to 255"],
        );
        check("karytree:k=4,n=256", &["n=256: want a whole number from 0 to 255"]);
        check("mport:m=8.5,n=2", &["m=8.5: want a whole number"]);
        check("karytree:k=0,n=2", &["karytree: k=0: want at least 1"]);
        check("karytree:k=2,n=0", &["karytree: n=0: want at least 1"]);
        check("mport:m=0,n=2", &["mport: m=0: want at least 1"]);
        // A key that the text already sets is not suggested.
        check("karytree:k=4,m=2", &["0002", "no key 'm'; did you mean 'n'?"]);
        check("karytree:m=2,k=4", &["0002", "did you mean 'n'?"]);
        check("mport:k=8,n=2", &["0002", "did you mean 'm'?"]);
    }

    #[test]
    fn what_is_no_file_may_be_a_generator() {
        let check = |text: &str, want: &str| assert_eq!(Spec::nearest(text), want, "{text}");
        check("sx6356", "; did you mean 'sx6536'?");
        check("tours", "; did you mean 'torus'?");
        check("torus4x4", "; did you mean 'torus:4x4x4,hosts=1'?");
        check("fabric", "");
        check("", "");
        let error = " ".parse::<Spec>().expect_err("nothing").to_string();
        assert!(error.starts_with("SLV-TOPOLOGY-0007: no fabric is named"), "{error}");
    }

    #[test]
    fn shares_of_links() {
        let check = |text: &str, want: Option<LinkRemoval>| assert_eq!(parse_removal(text), want, "{text}");
        check("7", Some(LinkRemoval::Count(7)));
        check("1%", Some(LinkRemoval::PerMillion(10_000)));
        check("0.25%", Some(LinkRemoval::PerMillion(2_500)));
        check("100%", Some(LinkRemoval::PerMillion(1_000_000)));
        check("1.23456%", None);
        check("-1%", None);
        check("%", None);
    }
}
