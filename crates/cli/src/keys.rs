//! Keys from the command line, from files and from the environment.

use std::path::PathBuf;

use clap::Args;
use selvedge_config::{FlagFile, KeyName, KeyText, Sources};

/// The sources of keys. A flag overrules its file, a file the environment, and all of them the configuration file.
#[derive(Args, Clone, Debug, Default)]
pub struct KeyArgs {
    /// M_Key set at every port, as 0x0123456789abcdef. DANGER: every user of this machine sees it in 'ps'; prefer
    /// --m-key-file, or SELVEDGE_M_KEY in the environment
    // Checked later: errors of the argument parser quote the refused text.
    #[arg(long, value_name = "KEY", conflicts_with = "m_key_file")]
    m_key: Option<KeyText>,
    /// Read the M_Key from FILE, as 0x0123456789abcdef; read again with the configuration
    #[arg(long, value_name = "FILE")]
    m_key_file: Option<PathBuf>,
    /// Read the SM_Key from FILE, as --m-key-file reads the M_Key (or SELVEDGE_SM_KEY in the environment)
    #[arg(long, value_name = "FILE")]
    sm_key_file: Option<PathBuf>,
    /// Read the SM_Key of trusted SA requests from FILE, as --m-key-file reads the M_Key (or SELVEDGE_SA_KEY in the
    /// environment)
    #[arg(long, value_name = "FILE")]
    sa_key_file: Option<PathBuf>,
}

impl KeyArgs {
    /// Adds these keys to the sources of the settings.
    pub fn give(&self, sources: &mut Sources) {
        let files = [
            (KeyName::MKey, "--m-key-file", &self.m_key_file),
            (KeyName::SmKey, "--sm-key-file", &self.sm_key_file),
            (KeyName::SaKey, "--sa-key-file", &self.sa_key_file),
        ];
        for (name, flag, file) in files {
            let given = self.m_key.as_ref().filter(|_| name == KeyName::MKey);
            match (given, file, std::env::var_os(name.variable())) {
                (Some(text), _, _) => sources.keys.push((name, text.clone(), "--m-key")),
                (None, Some(file), _) => sources.flags.push((flag, FlagFile::Key(name), file.clone())),
                (None, None, Some(text)) => {
                    let text = KeyText::new(text.to_string_lossy().into_owned());
                    sources.keys.push((name, text, name.variable()));
                }
                (None, None, None) => {}
            }
        }
    }
}
