//! "Did you mean": the known name that is nearest to an unknown one.

/// Returns `; did you mean '…'?` with the known name nearest to `word`, or nothing if none is near.
pub(crate) fn meant<S: AsRef<str>>(word: &str, known: impl IntoIterator<Item = S>) -> String {
    let wanted = word.to_lowercase();
    let distance = |name: &S| strsim::damerau_levenshtein(&wanted, &name.as_ref().to_lowercase());
    let near = known.into_iter().map(|name| (distance(&name), name));
    // Of two names as near, the first one is taken.
    let near = near.min_by_key(|(distance, _)| *distance);
    match near {
        Some((distance, name)) if distance <= 1 + wanted.chars().count() / 4 => {
            format!("; did you mean '{}'?", name.as_ref())
        }
        _ => String::new(),
    }
}
