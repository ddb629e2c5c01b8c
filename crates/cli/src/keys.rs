//! Keys from the command line, from files and from the environment.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use selvedge_config::{ConfigError, KeyName, Settings};

/// Where keys come from. A flag goes before its file, a file before the environment, all before the configuration file.
#[derive(Args, Clone, Debug, Default)]
pub struct KeyArgs {
    /// M_Key set at every port, as 0x0123456789abcdef. DANGER: every user of this machine sees it in 'ps'; prefer
    /// --m-key-file, or SELVEDGE_M_KEY in the environment
    #[arg(long, value_name = "KEY", conflicts_with = "m_key_file")]
    m_key: Option<GivenKey>,
    /// Read the M_Key from FILE, as 0x0123456789abcdef; read again with the configuration
    #[arg(long, value_name = "FILE")]
    m_key_file: Option<PathBuf>,
    /// Read the SM_Key from FILE, likewise (or SELVEDGE_SM_KEY in the environment)
    #[arg(long, value_name = "FILE")]
    sm_key_file: Option<PathBuf>,
    /// Read the SM_Key of trusted SA requests from FILE, likewise (or SELVEDGE_SA_KEY in the environment)
    #[arg(long, value_name = "FILE")]
    sa_key_file: Option<PathBuf>,
}

/// A key as it was typed. It is checked later, because errors of the argument parser quote the refused text.
#[derive(Clone)]
struct GivenKey(String);

impl FromStr for GivenKey {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for GivenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

impl KeyArgs {
    /// Sets these keys in the settings.
    pub fn over(&self, settings: &mut Settings) -> Result<(), ConfigError> {
        let files = [
            (KeyName::MKey, &self.m_key_file),
            (KeyName::SmKey, &self.sm_key_file),
            (KeyName::SaKey, &self.sa_key_file),
        ];
        for (name, file) in files {
            match (&self.m_key, file, std::env::var_os(name.variable())) {
                (Some(GivenKey(text)), ..) if name == KeyName::MKey => name.set(settings, text, "--m-key")?,
                (_, Some(file), _) => name.set_from_file(settings, file)?,
                (_, None, Some(text)) => name.set(settings, &text.to_string_lossy(), name.variable())?,
                (_, None, None) => {}
            }
        }
        Ok(())
    }
}
