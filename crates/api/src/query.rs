//! Parameters of queries, read and written.

use std::str::FromStr;

use crate::{Error, ErrorKind};

/// Reads the parameters of a query with `take`, which gets one parameter at a time and returns the mistake in it.
/// `take` refuses unknown names: a misspelt condition must not be answered with everything.
pub(crate) fn read<Q: Default>(
    parameters: &[(String, String)],
    take: impl Fn(&mut Q, &str, &str) -> Result<(), String>,
) -> Result<Q, Error> {
    let mut query = Q::default();
    for (name, value) in parameters {
        take(&mut query, name, value).map_err(|what| ErrorKind::BadRequest.error(what))?;
    }
    Ok(query)
}

/// Reads the value of a parameter. `want` describes the legal values.
pub(crate) fn parse<T: FromStr>(name: &str, value: &str, want: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}={value}: want {want}"))
}

/// Returns the parameters that have a value.
pub(crate) fn written<const N: usize>(all: [(&str, Option<String>); N]) -> Vec<(String, String)> {
    let pair = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
    all.into_iter().filter_map(pair).collect()
}
