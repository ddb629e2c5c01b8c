//! Changes of state: every transport, pair of states and attribute against a table written from the standard.

use selvedge_hca::{AttrMask as M, QpAttr, QpState, SendWr, Sge, Transport, VerbsError, check};

use crate::net::{Net, all, attributes, connect, path, steps, to_rts};

/// Transport, states, required attributes, optional attributes. From the man page of `ibv_modify_qp` and IBA vol 1
/// §11.2.5, table 91, as Linux reads it.
const TABLE: &str = "
RC RESET INIT | ACCESS_FLAGS PKEY_INDEX PORT |
RC INIT INIT  | | ACCESS_FLAGS PKEY_INDEX PORT
RC INIT RTR   | AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER | ALT_PATH ACCESS_FLAGS PKEY_INDEX
RC RTR RTS    | SQ_PSN MAX_QP_RD_ATOMIC RETRY_CNT RNR_RETRY TIMEOUT | \
              CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
RC RTS RTS    | | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
RC RTS SQD    | | EN_SQD_ASYNC_NOTIFY
RC SQD RTS    | | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
RC SQD SQD    | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC \
              ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
RC SQE RTS    | |
UC RESET INIT | ACCESS_FLAGS PKEY_INDEX PORT |
UC INIT INIT  | | ACCESS_FLAGS PKEY_INDEX PORT
UC INIT RTR   | AV PATH_MTU DEST_QPN RQ_PSN | ALT_PATH ACCESS_FLAGS PKEY_INDEX
UC RTR RTS    | SQ_PSN | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
UC RTS RTS    | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
UC RTS SQD    | | EN_SQD_ASYNC_NOTIFY
UC SQD RTS    | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
UC SQD SQD    | | AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
UC SQE RTS    | | CUR_STATE ACCESS_FLAGS
UD RESET INIT | QKEY PKEY_INDEX PORT |
UD INIT INIT  | | QKEY PKEY_INDEX PORT
UD INIT RTR   | | QKEY PKEY_INDEX
UD RTR RTS    | SQ_PSN | CUR_STATE QKEY
UD RTS RTS    | | CUR_STATE QKEY
UD RTS SQD    | | EN_SQD_ASYNC_NOTIFY
UD SQD RTS    | | CUR_STATE QKEY
UD SQD SQD    | | PKEY_INDEX QKEY
UD SQE RTS    | | CUR_STATE QKEY
";

/// Changes without attributes: to RESET from everywhere, to ERR from everywhere but RESET.
fn listed(transport: Transport, from: QpState, to: QpState) -> Option<(M, M)> {
    if to == QpState::Reset || (to == QpState::Err && from != QpState::Reset) {
        return Some((M::NONE, M::NONE));
    }
    let head = format!("{transport} {from} {to}");
    let line = TABLE.lines().find(|line| {
        let words: Vec<&str> = line.split('|').next().unwrap_or("").split_whitespace().collect();
        words.join(" ") == head
    })?;
    let mut parts = line
        .split('|')
        .skip(1)
        .map(|part| all(&part.split_whitespace().map(mask).collect::<Vec<_>>()));
    Some((parts.next()?, parts.next()?))
}

fn mask(name: &str) -> M {
    M::NAMES
        .iter()
        .find(|(_, other)| *other == name)
        .unwrap_or_else(|| panic!("{name}"))
        .0
}

#[test]
fn every_transport_states_and_attribute() {
    let mut legal = 0;
    for transport in Transport::ALL {
        for from in QpState::ALL {
            for to in QpState::ALL {
                let Some((required, optional)) = listed(transport, from, to) else {
                    let found = check(transport, from, to, M::STATE);
                    assert_eq!(found, Err(VerbsError::Transition { from, to }), "{transport}");
                    continue;
                };
                legal += 1;
                let full = required.with(M::STATE);
                assert_eq!(check(transport, from, to, full), Ok(()), "{transport} {from} {to}");
                assert_eq!(check(transport, from, to, full.with(optional)), Ok(()));
                for &(bit, name) in M::NAMES.iter().filter(|(bit, _)| *bit != M::STATE) {
                    let found = if required.has(bit) {
                        check(transport, from, to, full.without(bit))
                    } else {
                        check(transport, from, to, full.with(bit))
                    };
                    let want = if required.has(bit) {
                        Err(VerbsError::AttributeMissing {
                            transport,
                            from,
                            to,
                            missing: bit,
                        })
                    } else if optional.has(bit) {
                        Ok(())
                    } else {
                        Err(VerbsError::AttributeForbidden {
                            transport,
                            from,
                            to,
                            forbidden: bit,
                        })
                    };
                    assert_eq!(found, want, "{transport} {from} {to} {name}");
                    if let Err(error) = found {
                        assert!(error.to_string().contains(name), "the error names {name}: {error}");
                    }
                }
            }
        }
    }
    assert_eq!(
        legal,
        TABLE.lines().filter(|line| line.contains('|')).count() + 3 * (7 + 6)
    );
}

/// Brings a queue pair to a state.
fn bring(net: &mut Net, transport: Transport, state: QpState) -> selvedge_hca::Qp {
    let qp = net.hosts[0].create_qp(transport, None);
    let attr = attributes(2, path(1, (1, 1), 0));
    for (step, mask) in steps(transport) {
        if net.state(0, qp) != state && state != QpState::Reset {
            net.modify(0, qp, &QpAttr { state: step, ..attr }, mask).unwrap();
        }
    }
    if state == QpState::Sqe {
        // A local range without a region.
        let wr = SendWr::send(
            1,
            Sge {
                addr: 0,
                bytes: 8,
                lkey: 99,
            },
        );
        if transport != Transport::Ud {
            net.send_wr(0, qp, &wr);
        } else {
            let pd = net.hosts[0].pd;
            let ah = net.hosts[0].hca.create_ah(pd, 1, &attr.primary.ah).unwrap();
            let datagram = Some(selvedge_hca::Datagram {
                ah,
                remote_qpn: 2,
                remote_qkey: 0,
            });
            net.send_wr(0, qp, &SendWr { datagram, ..wr });
        }
    } else if matches!(state, QpState::Sqd | QpState::Err) {
        net.modify(0, qp, &QpAttr { state, ..attr }, M::STATE).unwrap();
    }
    assert_eq!(net.state(0, qp), state, "{transport}");
    qp
}

#[test]
fn modify_follows_the_table_and_changes_nothing_when_it_refuses() {
    for transport in Transport::ALL {
        for from in QpState::ALL {
            if (transport, from) == (Transport::Rc, QpState::Sqe) {
                // A reliable connection never gets there.
                continue;
            }
            for to in QpState::ALL {
                let mut net = Net::free(1);
                let qp = bring(&mut net, transport, from);
                let before = net.hosts[0].hca.query_qp(qp).unwrap();
                let attr = QpAttr {
                    state: to,
                    qkey: 77,
                    ..attributes(2, path(2, (1, 2), 0))
                };
                let Some((required, _)) = listed(transport, from, to) else {
                    assert!(net.modify(0, qp, &attr, M::STATE).is_err(), "{transport} {from} {to}");
                    assert_eq!(net.hosts[0].hca.query_qp(qp).unwrap(), before);
                    continue;
                };
                if !required.is_empty() {
                    assert!(net.modify(0, qp, &attr, M::STATE).is_err(), "{transport} {from} {to}");
                    assert_eq!(net.hosts[0].hca.query_qp(qp).unwrap(), before);
                }
                net.modify(0, qp, &attr, required.with(M::STATE)).unwrap();
                assert_eq!(net.state(0, qp), to, "{transport} {from} {to}");
            }
        }
    }
}

#[test]
fn query_returns_every_attribute() {
    let mut net = Net::free(1);
    let qp = net.hosts[0].create_qp(Transport::Rc, None);
    let attr = QpAttr {
        retry_cnt: 5,
        rnr_retry: 3,
        min_rnr_timer: 12,
        max_rd_atomic: 2,
        max_dest_rd_atomic: 3,
        ..attributes(77, path(2, (1, 2), 1))
    };
    to_rts(&mut net, 0, qp, Transport::Rc, &attr);
    let alternate = path(1, (1, 1), 0);
    net.modify(0, qp, &QpAttr { alternate, ..attr }, M::ALT_PATH).unwrap();
    let found = net.hosts[0].hca.query_qp(qp).unwrap();
    let want = QpAttr {
        state: QpState::Rts,
        cur_state: QpState::Rts,
        alternate,
        cap: found.cap,
        ..attr
    };
    assert_eq!(found, want);
}

#[test]
fn values_out_of_range_are_refused() {
    let check = |transport: Transport, want: &str, change: fn(&mut QpAttr)| {
        let mut net = Net::free(1);
        let qp = net.hosts[0].create_qp(transport, None);
        let mut attr = attributes(2, path(1, (1, 1), 0));
        change(&mut attr);
        let steps = steps(transport);
        let mut found = steps
            .into_iter()
            .map(|(state, mask)| net.modify(0, qp, &QpAttr { state, ..attr }, mask));
        let error = found
            .find_map(Result::err)
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.contains(want) && error.is_empty() == want.is_empty(),
            "{error} instead of {want}"
        );
    };
    let rc = Transport::Rc;
    check(rc, "", |_| {});
    check(rc, "port number is 3; want 1 to 2", |a| a.primary.port = 3);
    check(rc, "port number is 0", |a| a.primary.port = 0);
    check(rc, "pkey_index is 1; want 0 to 0", |a| a.primary.pkey_index = 1);
    check(rc, "destination LID is 0", |a| a.primary.ah.dlid.0 = 0);
    check(rc, "destination LID is 49152", |a| a.primary.ah.dlid.0 = 0xC000);
    check(rc, "src_path_bits is 128", |a| a.primary.ah.src_path_bits = 128);
    check(rc, "rq_psn is 16777216", |a| a.rq_psn = 1 << 24);
    check(rc, "sq_psn is 16777216", |a| a.sq_psn = 1 << 24);
    check(rc, "dest_qp_num", |a| a.dest_qp_num = 1 << 24);
    check(rc, "timeout is 32", |a| a.primary.timeout = 32);
    check(rc, "retry_cnt is 8", |a| a.retry_cnt = 8);
    check(rc, "rnr_retry is 8", |a| a.rnr_retry = 8);
    check(rc, "min_rnr_timer is 32", |a| a.min_rnr_timer = 32);
    check(rc, "max_rd_atomic is 17", |a| a.max_rd_atomic = 17);
    check(rc, "max_dest_rd_atomic is 17", |a| a.max_dest_rd_atomic = 17);
    check(rc, "qp_access_flags is 16", |a| a.access.0 = 16);
    check(Transport::Uc, "", |a| a.retry_cnt = 9);
}

#[test]
fn the_assumed_state_must_be_the_present_one() {
    let mut net = Net::free(1);
    let qp = connect(&mut net, Transport::Rc, |_| {})[0];
    let attr = QpAttr {
        cur_state: QpState::Sqe,
        ..attributes(2, path(1, (1, 1), 0))
    };
    let found = net.modify(0, qp, &attr, M::CUR_STATE);
    assert_eq!(
        found,
        Err(VerbsError::NotInState {
            assumed: QpState::Sqe,
            found: QpState::Rts
        })
    );
}

#[test]
fn objects_in_use_are_not_destroyed() {
    let mut net = Net::free(1);
    let qp = connect(&mut net, Transport::Rc, |_| {})[0];
    let host = &mut net.hosts[0];
    let texts = [
        host.hca.close(host.context).unwrap_err().to_string(),
        host.hca.dealloc_pd(host.pd).unwrap_err().to_string(),
        host.hca.destroy_cq(host.cq).unwrap_err().to_string(),
    ];
    assert!(texts.iter().all(|text| text.starts_with("SLV-HCA-0004")), "{texts:?}");
    host.hca.destroy_qp(qp).unwrap();
    host.hca.destroy_cq(host.cq).unwrap();
    host.hca.dereg_mr(host.mr).unwrap();
    host.hca.dealloc_pd(host.pd).unwrap();
    host.hca.close(host.context).unwrap();
    assert!(matches!(host.hca.query_qp(qp), Err(VerbsError::UnknownHandle { .. })));
}

#[test]
fn more_queue_pairs_than_the_adapter_holds_are_refused() {
    let mut net = Net::new(1, 1, 1, |config| config.limits.qps = 2);
    let host = &mut net.hosts[0];
    host.create_qp(Transport::Rc, None);
    host.create_qp(Transport::Rc, None);
    let init = selvedge_hca::QpInit {
        transport: Transport::Rc,
        send_cq: host.cq,
        recv_cq: host.cq,
        srq: None,
        cap: Default::default(),
        sq_sig_all: false,
    };
    let error = host.hca.create_qp(host.pd, &init).unwrap_err();
    assert_eq!(
        error.to_string(),
        "SLV-HCA-0002: the HCA holds 2 objects of kind queue pair; destroy one, or raise the limit"
    );
}
