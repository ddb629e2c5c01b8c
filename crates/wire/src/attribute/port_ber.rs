//! PortBer of our own vendor class: bit error ratios of a port's receiver.

use core::fmt;

use super::bytes::{put, u16_at, u64_at};
use super::{AttributeId, GmpAttribute};
use crate::{DecodeError, GmpData};

/// A bit error ratio: `mantissa · 10^-exponent`; 0 if no error was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ber {
    /// The mantissa.
    pub mantissa: u16,
    /// The negative exponent.
    pub exponent: u8,
}

impl Ber {
    /// Parses `2e-5`, `1.5e-12` or `0`. `None`: the text has another form, too many digits, or a ratio above 1.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "0" {
            return Some(Self::default());
        }
        let (digits, exponent) = text.split_once(['e', 'E'])?;
        let exponent: i16 = exponent.parse().ok()?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() || ![whole, fraction].concat().bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let places = i16::try_from(fraction.len()).ok()?;
        let ber = Self {
            mantissa: format!("{whole}{fraction}").parse().ok()?,
            exponent: u8::try_from(places.checked_sub(exponent)?).ok()?,
        };
        let digits = u32::from(ber.mantissa).checked_ilog10().unwrap_or(0);
        (digits <= u32::from(ber.exponent)).then_some(ber)
    }
}

impl fmt::Display for Ber {
    /// Prints `15e-13`, or `0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mantissa {
            0 => f.write_str("0"),
            mantissa => write!(f, "{mantissa}e-{}", self.exponent),
        }
    }
}

/// Bit error ratios of a port's receiver, and the errors since its counters were lost last. The attribute modifier is
/// 0; PortSelect names the port.
///
/// A layout of our own for the class [`crate::Class::SELVEDGE`], answered by the built-in emulator only.
/// ```text
///  0 reserved | 1 PortSelect | 2 reserved
///  4 RawMantissa       (16) |  6 RawExponent       (8) |  7 reserved
///  8 EffectiveMantissa (16) | 10 EffectiveExponent (8) | 11 reserved
/// 16 RawErrors         (64)
/// 24 EffectiveErrors   (64)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortBer {
    /// The port.
    pub port_select: u8,
    /// Ratio before error correction.
    pub raw: Ber,
    /// Ratio after error correction.
    pub effective: Ber,
    /// Bits in error before correction.
    pub raw_errors: u64,
    /// Bits in error after error correction; SymbolErrorCounter counts them.
    pub effective_errors: u64,
}

impl GmpAttribute for PortBer {
    const ID: AttributeId = AttributeId::PORT_BER;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        let ber = |at: usize| Ber {
            mantissa: u16_at(data, at),
            exponent: data[at + 2],
        };
        Ok(Self {
            port_select: data[1],
            raw: ber(4),
            effective: ber(8),
            raw_errors: u64_at(data, 16),
            effective_errors: u64_at(data, 24),
        })
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        data[1] = self.port_select;
        for (at, ber) in [(4, self.raw), (8, self.effective)] {
            put(&mut data, at, ber.mantissa.to_be_bytes());
            data[at + 2] = ber.exponent;
        }
        put(&mut data, 16, self.raw_errors.to_be_bytes());
        put(&mut data, 24, self.effective_errors.to_be_bytes());
        data
    }
}

impl fmt::Display for PortBer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PortBer port={} raw={} effective={} raw_errors={} effective_errors={}",
            self.port_select, self.raw, self.effective, self.raw_errors, self.effective_errors,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_as_text() {
        let check = |text: &str, want: Option<&str>| {
            let found = Ber::parse(text);
            assert_eq!(found.map(|ber| ber.to_string()).as_deref(), want, "{text}");
            assert!(found.is_none() || Ber::parse(want.unwrap_or_default()) == found);
        };
        check("0", Some("0"));
        check("2e-5", Some("2e-5"));
        check("1.5E-12", Some("15e-13"));
        check("1e0", Some("1e-0"));
        for wrong in [
            "", "2", "e-5", "2e5", "10e0", "1.x e-3", "70000e-9", "1e-300", "-1e-3", "1e-+3",
        ] {
            check(wrong, None);
        }
    }
}
