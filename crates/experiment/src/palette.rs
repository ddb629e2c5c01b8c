//! Colours of series.

use plotters::style::RGBColor;

/// Colours that people with any colour vision can distinguish. Source: Okabe and Ito 2008.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
    RGBColor(200, 190, 40),
];

/// Returns the colour of a series. After the last colour they start again, darker.
#[must_use]
pub fn colour(series: usize) -> RGBColor {
    let RGBColor(r, g, b) = COLOURS[series % COLOURS.len()];
    let rounds = (series / COLOURS.len()).min(2) as u32;
    let darker = |part: u8| u8::try_from(u32::from(part) * (5 - 2 * rounds) / 5).unwrap_or(part);
    RGBColor(darker(r), darker(g), darker(b))
}
