//! Configuration keys about quality of service.

use std::sync::Arc;

use selvedge_plan::qos::QosPolicy;
use selvedge_qos::intent;

use crate::{Key, Value};

/// Classes of traffic.
pub const CLASSES: Key = Key {
    section: "qos",
    name: "classes",
    want: "a list of lines NAME: WORD, ... as [\"MPI: share=70, default\", \"MDS: latency=low, sl=3\"], with one \
           default class; words: share=PERCENT, latency=low, cap=PERCENT, mtu=BYTES, default, job=NAME, \
           partition=KEY, service-id=FIRST-LAST, ulp=NAME, group=NAME, tclass=N, sl=N; 'group NAME: GUID, ...' gives \
           a group",
    doc: "Classes of traffic, what each is promised on every link, and what belongs to it. Selvedge compiles them to \
        service levels, lanes and arbitration tables, proves that the tables keep the promises, and answers path \
        queries with the service level of their class. Empty: no classes; used_lanes alone decides about lane tables.",
    set: |s, v| {
        let lines = v.list()?;
        s.policy.qos = match lines.is_empty() {
            true => None,
            false => {
                let read = intent::parse(lines.iter().map(AsRef::as_ref)).ok()?;
                Some(Arc::new(QosPolicy::Classes(Arc::new(read))))
            }
        };
        Some(())
    },
    show: |s| {
        let lines = match s.policy.qos.as_deref() {
            Some(QosPolicy::Classes(read)) => intent::lines(read),
            Some(QosPolicy::OpenSm(_)) | None => Vec::new(),
        };
        Some(Value::List(lines))
    },
};
