//! OpenSM's options of quality of service: `qos`, `qos_policy_file`, and the settings of tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge_plan::qos::{OpenSmQos, PolicyFile, QosPolicy, Settings};
use selvedge_qos::opensm::{policy, set};

use super::value::boolean;
use crate::ConfigError;
use crate::guid_list::read_text;

/// Path of the policy file that OpenSM reads by default. A missing file is then no mistake.
const POLICY: &str = "/etc/opensm/qos-policy.conf";

/// The options of quality of service. They count only with `qos TRUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Qos {
    /// `qos`.
    is_on: bool,
    /// `qos_policy_file`; `None`: no file is read.
    file: Option<PathBuf>,
    settings: Settings,
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            is_on: false,
            file: Some(PathBuf::from(POLICY)),
            settings: Settings::default(),
        }
    }
}

impl Qos {
    /// Takes the value of an option; the error names the values allowed.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "qos" => self.is_on = boolean(value).ok_or_else(|| format!("qos = {value}; want TRUE or FALSE"))?,
            "qos_policy_file" => self.file = (value != "(null)").then(|| PathBuf::from(value)),
            _ => set(&mut self.settings, name, value).map_err(|error| error.to_string())?,
        }
        Ok(())
    }

    /// Returns the policy, without its file, for this many data lanes. `None`: it is off.
    pub(super) fn policy(&self, lanes: u8) -> Option<OpenSmQos> {
        self.is_on.then(|| OpenSmQos {
            lanes,
            settings: self.settings.clone(),
            policy: None,
        })
    }

    /// Reads the policy file.
    pub(super) fn read(&self) -> Result<Option<Arc<PolicyFile>>, ConfigError> {
        let Some(file) = self.file.as_deref() else {
            return Ok(None);
        };
        if file == Path::new(POLICY) && !file.exists() {
            return Ok(None);
        }
        let read = policy::parse(&read_text(file)?).map_err(|error| ConfigError::Qos {
            place: file.display().to_string(),
            what: error.to_string(),
        })?;
        Ok(Some(Arc::new(read)))
    }
}

/// Returns a policy as the manager's policy holds it.
pub(super) fn shared(qos: OpenSmQos) -> Option<Arc<QosPolicy>> {
    Some(Arc::new(QosPolicy::OpenSm(Box::new(qos))))
}

#[cfg(test)]
mod tests {
    use super::super::parse_opensm_conf;
    use super::*;
    use crate::Treatment;

    #[test]
    fn settings_count_with_qos_only() {
        let conf = |text: &str| parse_opensm_conf(text, Path::new("o.conf")).unwrap();
        let text = "qos_max_vls 4\nqos_ca_vlarb_high 0:4,1:0\nqos_swe_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15\n";
        let off = conf(&format!("{text}qos FALSE\n"));
        assert_eq!(off.settings.policy.qos, None);
        assert!(off.findings[..3].iter().all(|found| found.treatment == Treatment::Moot));
        let on = conf(&format!("{text}max_op_vls 3\nqos TRUE\n"));
        let Some(QosPolicy::OpenSm(qos)) = on.settings.policy.qos.as_deref() else {
            panic!("{:?}", on.settings.policy.qos)
        };
        let mut want = Settings::default();
        for line in text.lines() {
            let (key, value) = line.split_once(' ').unwrap();
            set(&mut want, key, value).unwrap();
        }
        assert_ne!(want, Settings::default());
        assert_eq!((qos.lanes, &qos.settings, &qos.policy), (4, &want, &None));
        assert!(on.findings.iter().all(|found| found.treatment == Treatment::Honoured));
    }

    #[test]
    fn mistakes_name_file_line_and_remedy() {
        let check = |text: &str, want: &str| {
            let error = parse_opensm_conf(text, Path::new("o.conf")).unwrap_err().to_string();
            assert_eq!(error, want);
        };
        check(
            "\nqos_high_limit 256",
            "SLV-CONFIG-0014: o.conf, line 2: SLV-QOS-0001: qos_high_limit 256: want -1 to 255 (x 4 KiB; 0: one \
             packet, 255: unbounded, -1: as qos_high_limit)",
        );
        check(
            "qos on",
            "SLV-CONFIG-0014: o.conf, line 1: qos = on; want TRUE or FALSE",
        );
    }

    #[test]
    fn a_policy_file_is_read_and_judged() {
        let folder = std::env::temp_dir().join(format!("selvedge-qos-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (conf, file) = (folder.join("opensm.conf"), folder.join("policy.conf"));
        let load = |policy: &str| {
            std::fs::write(&file, policy).unwrap();
            super::super::load(&format!("qos TRUE\nqos_policy_file {}\n", file.display()), &conf)
        };
        let read = load("qos-ulps\ndefault: 3\nend-qos-ulps\n");
        let Some(QosPolicy::OpenSm(qos)) = read.settings.policy.qos.as_deref() else {
            panic!("{:?}", read.settings.policy.qos)
        };
        assert_eq!(qos.policy.as_ref().unwrap().level(Default::default()).1.get(), 0);
        assert_eq!(
            qos.policy.as_ref().unwrap().default,
            selvedge_plan::qos::LevelRef::Sl(selvedge_types::Sl::new(3).unwrap())
        );
        let wrong = load("qos-ulps\ndefault: 16\nend-qos-ulps\n");
        let error = &wrong.findings[1].error;
        assert!(
            error.contains("policy.conf: SLV-QOS-001") && error.contains("line 2"),
            "{error}"
        );
        std::fs::remove_file(&file).unwrap();
        let missing = super::super::load(&format!("qos TRUE\nqos_policy_file {}\n", file.display()), &conf);
        assert!(
            missing.findings[1].error.contains("SLV-CONFIG-0001"),
            "{:?}",
            missing.findings
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
