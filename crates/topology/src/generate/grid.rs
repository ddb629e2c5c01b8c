//! Meshes, tori and rings.

use crate::SpecError;
use crate::generate::plane::Plane;
use crate::generate::{Recipe, Size};

/// Returns a mesh, or a torus if it `wraps`. A switch has its ports to hosts first, then two ports for each dimension
/// `d`: port `2d + 1` after the hosts leads to the next switch, port `2d + 2` to the previous one.
pub fn plane(recipe: &Recipe, dimensions: &[u32], wraps: bool, hosts: u32) -> Result<Plane, SpecError> {
    if dimensions.is_empty() || dimensions.contains(&0) {
        return Err(recipe.bad(
            "dimensions",
            &format!("{dimensions:?}"),
            "sizes of at least 1, as in 4x4x4",
        ));
    }
    let switches = dimensions.iter().fold(1_u128, |all, &n| all.saturating_mul(n.into()));
    let ports = u128::from(hosts) * u128::from(recipe.ports_per_plane()) + 2 * dimensions.len() as u128;
    let size = Size {
        switches,
        hosts: switches.saturating_mul(hosts.into()),
        ports,
    };
    let mut plane = Plane::new(recipe, size)?;
    let count = usize::try_from(switches).unwrap_or(0);
    for index in 0..count {
        plane.add(name(dimensions, index), hosts);
    }
    let (mut stride, mut port) = (1, 1);
    for &length in dimensions {
        let length = length as usize;
        for from in 0..count {
            let at = from / stride % length;
            let to = match at + 1 < length {
                true => from + stride,
                // Two switches in a dimension have one cable between them; a single switch has none to itself.
                false if wraps && length > 2 => from - stride * (length - 1),
                false => continue,
            };
            plane.cable_ports((from, port), (to, port + 1));
        }
        stride *= length;
        port += 2;
    }
    Ok(plane)
}

/// Returns the coordinates, lowest dimension first: `1-0-2`.
fn name(dimensions: &[u32], index: usize) -> String {
    let mut rest = index;
    let coordinates = dimensions.iter().map(|&length| {
        let coordinate = rest % length as usize;
        rest /= length as usize;
        coordinate.to_string()
    });
    coordinates.collect::<Vec<_>>().join("-")
}
