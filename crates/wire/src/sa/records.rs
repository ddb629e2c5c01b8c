//! The records of subnet administration, each a field table.
//!
//! Offsets are those of OpenSM's `ib_types.h` and rdma-core `libibmad/fields.c`. Component bits are those of
//! `ib_types.h`, where defined. Each field has a constant; bits without a field are reserved.

use super::field::{Field, Show};
use super::layout::Layout;
use crate::AttributeId;

/// All records, by attribute id.
pub static ALL: [&Layout; 25] = [
    &CLASS_PORT_INFO,
    &NOTICE,
    &INFORM_INFO,
    &NODE,
    &PORT_INFO,
    &SL_TO_VL,
    &SWITCH_INFO,
    &LINEAR_FORWARDING,
    &MULTICAST_FORWARDING,
    &SM_INFO,
    &LINK,
    &GUID_INFO,
    &SERVICE,
    &PKEY_TABLE,
    &PATH,
    &VL_ARBITRATION,
    &MEMBER,
    &MULTI_PATH,
    &INFORM_INFO_RECORD,
    &REVISION,
    &TOLD_LEVEL,
    &FORGOTTEN,
    &ALIAS,
    &OUT_OF_SERVICE,
    &JOBS,
];

/// Defines a record: its layout, and a module with a constant for each field.
macro_rules! record {
    ($doc:literal, $module:ident, $layout:ident = $id:literal $name:literal $len:literal {
        $(
            $field:ident $text:literal $component:tt [$at:literal; $bits:literal] $show:ident $($special:ident)?
            $about:literal
        )*
    }) => {
        #[doc = $doc]
        pub static $layout: Layout = Layout {
            id: AttributeId::from_code($id),
            name: $name,
            len: $len,
            fields: &[$($module::$field),*],
        };

        #[doc = concat!("Fields of ", $name, ".")]
        pub mod $module {
            use super::{Field, Show};
            $(
                #[doc = concat!($about, ".")]
                pub const $field: Field = record!(@field $text $component $at $bits $show)$(.$special())?;
            )*
        }
    };
    (@field $text:literal - $at:literal $bits:literal $show:ident) => {
        Field::plain($text, $at, $bits, Show::$show)
    };
    (@field $text:literal $component:literal $at:literal $bits:literal $show:ident) => {
        Field::new($text, $component, $at, $bits, Show::$show)
    };
}

record! {
    "What the administrator's agent can do. Source: IBA vol 1 §15.2.5.1 and §13.4.8.1.",
    class_port_info, CLASS_PORT_INFO = 0x0001 "ClassPortInfo" 72 {
        BASE_VERSION "BaseVersion" - [0; 8] Number "1"
        CLASS_VERSION "ClassVersion" - [8; 8] Number "2"
        CAPABILITIES "CapabilityMask" - [16; 16] Hex "Capabilities; see [`crate::ClassPortInfo`]"
        CAPABILITIES2 "CapabilityMask2" - [32; 27] Hex "More capabilities"
        RESPONSE_TIME "RespTimeValue" - [59; 5] Number "Longest time until an answer: 4.096 µs · 2^value"
        REDIRECT_GID "RedirectGID" - [64; 128] Gid "GID to which requests should go instead"
        REDIRECT_REST "RedirectTCSLFL" - [192; 32] Hex "Its traffic class, service level and flow label"
        REDIRECT_LID "RedirectLID" - [224; 16] Number "LID of that port; 0: no redirection"
        REDIRECT_PKEY "RedirectP_Key" - [240; 16] Hex "Its P_Key"
        REDIRECT_QP "RedirectQP" - [264; 24] Number "Its queue pair"
        REDIRECT_QKEY "RedirectQ_Key" - [288; 32] Hex "Its Q_Key"
        TRAP_GID "TrapGID" - [320; 128] Gid "GID to which traps go"
        TRAP_REST "TrapTCSLFL" - [448; 32] Hex "Its traffic class, service level and flow label"
        TRAP_LID "TrapLID" - [480; 16] Number "Its LID"
        TRAP_PKEY "TrapP_Key" - [496; 16] Hex "Its P_Key"
        TRAP_HOP_LIMIT "TrapHL" - [512; 8] Number "Hop limit of traps"
        TRAP_QP "TrapQP" - [520; 24] Number "Its queue pair"
        TRAP_QKEY "TrapQ_Key" - [544; 32] Hex "Its Q_Key"
    }
}

record! {
    "An event that is reported to a subscriber. Source: IBA vol 1 §13.4.8.2 and §15.2.5.1.",
    notice, NOTICE = 0x0002 "Notice" 80 {
        IS_GENERIC "IsGeneric" - [0; 1] Number "1: of the standard, 0: of a vendor"
        TYPE "Type" - [1; 7] Number "Kind of event: 0 fatal to 4 information"
        PRODUCER "ProducerType" - [8; 24] Number "Kind of the node, or OUI of the vendor"
        TRAP_NUMBER "TrapNumber" - [32; 16] Number "Number of the trap, or the vendor's device"
        ISSUER_LID "IssuerLID" - [48; 16] Number "LID of the port that reports the event"
        TOGGLE "NoticeToggle" - [64; 1] Number "Alternates with each Notice"
        COUNT "NoticeCount" - [65; 15] Number "Notices queued"
        DETAILS "DataDetails" - [80; 432] Bytes "Details, by trap"
        ISSUER_GID "IssuerGID" - [512; 128] Gid "GID of the port that reports the event; in Reports only"
    }
}

record! {
    "A subscription. Source: IBA vol 1 §13.4.8.3; component bits as in OpenSM's `ib_types.h`.",
    inform_info, INFORM_INFO = 0x0003 "InformInfo" 36 {
        GID "GID" 0 [0; 128] Gid "GID of the port that reports; 0: chosen by LID"
        LID_BEGIN "LIDRangeBegin" 1 [128; 16] Hex "First LID of ports that report; 0xFFFF: all"
        LID_END "LIDRangeEnd" 2 [144; 16] Hex "Last LID"
        IS_GENERIC "IsGeneric" 4 [176; 8] Number "1: traps of the standard"
        SUBSCRIBE "Subscribe" 5 [184; 8] Number "1: begin, 0: end"
        TYPE "Type" 6 [192; 16] Hex "Kind of event; 0xFFFF: all"
        TRAP_NUMBER "TrapNumber" 7 [208; 16] Hex "Number of the trap, or device of the vendor; 0xFFFF: all"
        QPN "QPN" 8 [224; 24] Number "Queue pair to which reports go"
        RESPONSE_TIME "RespTimeValue" 10 [251; 5] Number "Longest time until it answers: 4.096 µs · 2^value"
        PRODUCER "ProducerType" 12 [264; 24] Hex "Kind of the node, or OUI of the vendor; 0xFFFFFF: all"
    }
}

record! {
    "An end port and its node. Source: IBA vol 1 §15.2.5.2.",
    node, NODE = 0x0011 "NodeRecord" 108 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        BASE_VERSION "BaseVersion" 2 [32; 8] Number "1"
        CLASS_VERSION "ClassVersion" 3 [40; 8] Number "1"
        TYPE "NodeType" 4 [48; 8] Number "1: channel adapter, 2: switch, 3: router"
        PORTS "NumPorts" 5 [56; 8] Number "External ports"
        SYSTEM_GUID "SystemImageGUID" 6 [64; 64] Hex "GUID of its system"
        NODE_GUID "NodeGUID" 7 [128; 64] Hex "Its GUID"
        PORT_GUID "PortGUID" 8 [192; 64] Hex "GUID of the port"
        PARTITION_CAP "PartitionCap" 9 [256; 16] Number "Entries of the P_Key table"
        DEVICE "DeviceID" 10 [272; 16] Hex "Vendor's device"
        REVISION "Revision" 11 [288; 32] Hex "Vendor's revision"
        LOCAL_PORT "LocalPortNum" 12 [320; 8] Number "Number of the port"
        VENDOR "VendorID" 13 [328; 24] Hex "Vendor's OUI"
        DESCRIPTION "NodeDescription" 14 [352; 512] Text "NodeDescription"
    }
}

record! {
    "A port. Source: IBA vol 1 §15.2.5.3; component bits as in OpenSM's `ib_types.h`.",
    port_info, PORT_INFO = 0x0012 "PortInfoRecord" 68 {
        LID "EndportLID" 0 [0; 16] Number "LID of the end port; of the switch, for its external ports"
        PORT "PortNum" 1 [16; 8] Number "Number of the port"
        OPTIONS "Options" 2 [24; 8] Hex special "What else is wanted"
        M_KEY "M_Key" 3 [32; 64] Secret "PortInfo.M_Key"
        GID_PREFIX "GidPrefix" 4 [96; 64] Hex "PortInfo.GidPrefix"
        BASE_LID "BaseLID" 5 [160; 16] Number "PortInfo.BaseLID"
        SM_LID "MasterSMLID" 6 [176; 16] Number "PortInfo.MasterSMLID"
        CAPABILITIES "CapabilityMask" 7 [192; 32] Hex "PortInfo.CapabilityMask"
        DIAG_CODE "DiagCode" 8 [224; 16] Hex "PortInfo.DiagCode"
        M_KEY_LEASE "M_KeyLeasePeriod" 9 [240; 16] Number "PortInfo.M_KeyLeasePeriod"
        LOCAL_PORT "LocalPortNum" 10 [256; 8] Number "PortInfo.LocalPortNum"
        WIDTH_ENABLED "LinkWidthEnabled" 11 [264; 8] Number "PortInfo.LinkWidthEnabled"
        WIDTH_SUPPORTED "LinkWidthSupported" 12 [272; 8] Number "PortInfo.LinkWidthSupported"
        WIDTH_ACTIVE "LinkWidthActive" 13 [280; 8] Number "PortInfo.LinkWidthActive"
        SPEED_SUPPORTED "LinkSpeedSupported" 14 [288; 4] Number "PortInfo.LinkSpeedSupported"
        STATE "PortState" 15 [292; 4] Number "PortInfo.PortState"
        PHYS_STATE "PortPhysicalState" 16 [296; 4] Number "PortInfo.PortPhysicalState"
        DOWN_DEFAULT "LinkDownDefaultState" 17 [300; 4] Number "PortInfo.LinkDownDefaultState"
        M_KEY_PROTECT "M_KeyProtectBits" 18 [304; 2] Number "PortInfo.M_KeyProtectBits"
        LMC "LMC" 20 [309; 3] Number "PortInfo.LMC"
        SPEED_ACTIVE "LinkSpeedActive" 21 [312; 4] Number "PortInfo.LinkSpeedActive"
        SPEED_ENABLED "LinkSpeedEnabled" 22 [316; 4] Number "PortInfo.LinkSpeedEnabled"
        NEIGHBOR_MTU "NeighborMTU" 23 [320; 4] Number "PortInfo.NeighborMTU"
        SM_SL "MasterSMSL" 24 [324; 4] Number "PortInfo.MasterSMSL"
        VL_CAP "VLCap" 25 [328; 4] Number "PortInfo.VLCap"
        INIT_TYPE "InitType" 26 [332; 4] Number "PortInfo.InitType"
        HIGH_LIMIT "VLHighLimit" 27 [336; 8] Number "PortInfo.VLHighLimit"
        ARB_HIGH_CAP "VLArbitrationHighCap" 28 [344; 8] Number "PortInfo.VLArbitrationHighCap"
        ARB_LOW_CAP "VLArbitrationLowCap" 29 [352; 8] Number "PortInfo.VLArbitrationLowCap"
        INIT_TYPE_REPLY "InitTypeReply" 30 [360; 4] Number "PortInfo.InitTypeReply"
        MTU_CAP "MTUCap" 31 [364; 4] Number "PortInfo.MTUCap"
        STALL_COUNT "VLStallCount" 32 [368; 3] Number "PortInfo.VLStallCount"
        HOQ_LIFE "HOQLife" 33 [371; 5] Number "PortInfo.HOQLife"
        OPER_VLS "OperationalVLs" 34 [376; 4] Number "PortInfo.OperationalVLs"
        ENFORCE_IN "PartitionEnforcementInbound" 35 [380; 1] Number "PortInfo.PartitionEnforcementInbound"
        ENFORCE_OUT "PartitionEnforcementOutbound" 36 [381; 1] Number "PortInfo.PartitionEnforcementOutbound"
        FILTER_IN "FilterRawInbound" 37 [382; 1] Number "PortInfo.FilterRawInbound"
        FILTER_OUT "FilterRawOutbound" 38 [383; 1] Number "PortInfo.FilterRawOutbound"
        M_KEY_VIOLATIONS "M_KeyViolations" 39 [384; 16] Number "PortInfo.M_KeyViolations"
        P_KEY_VIOLATIONS "P_KeyViolations" 40 [400; 16] Number "PortInfo.P_KeyViolations"
        Q_KEY_VIOLATIONS "Q_KeyViolations" 41 [416; 16] Number "PortInfo.Q_KeyViolations"
        GUID_CAP "GUIDCap" 42 [432; 8] Number "PortInfo.GUIDCap"
        REREGISTER "ClientReregister" 43 [440; 1] Number "PortInfo.ClientReregister"
        TRAP_SUPPRESSION "MulticastPKeyTrapSuppressionEnabled" 44 [441; 2] Number "PortInfo, the same"
        SUBNET_TIMEOUT "SubnetTimeOut" 45 [443; 5] Number "PortInfo.SubnetTimeOut"
        RESP_TIME "RespTimeValue" 47 [451; 5] Number "PortInfo.RespTimeValue"
        LOCAL_PHY_ERRORS "LocalPhyErrors" 48 [456; 4] Number "PortInfo.LocalPhyErrors"
        OVERRUN_ERRORS "OverrunErrors" 49 [460; 4] Number "PortInfo.OverrunErrors"
        MAX_CREDIT_HINT "MaxCreditHint" 50 [464; 16] Number "PortInfo.MaxCreditHint"
        ROUND_TRIP "LinkRoundTripLatency" 52 [488; 24] Number "PortInfo.LinkRoundTripLatency"
        CAPABILITIES2 "CapabilityMask2" 53 [512; 16] Hex "PortInfo.CapabilityMask2"
        EXT_SPEED_ACTIVE "LinkSpeedExtActive" 54 [528; 4] Number "PortInfo.LinkSpeedExtActive"
        EXT_SPEED_SUPPORTED "LinkSpeedExtSupported" 55 [532; 4] Number "PortInfo.LinkSpeedExtSupported"
        EXT_SPEED_ENABLED "LinkSpeedExtEnabled" 57 [539; 5] Number "PortInfo.LinkSpeedExtEnabled"
    }
}

record! {
    "Lanes of the service levels from one port to another. Source: IBA vol 1 §15.2.5.5.",
    sl_to_vl, SL_TO_VL = 0x0013 "SLtoVLMappingTableRecord" 16 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        IN_PORT "InputPortNum" 1 [16; 8] Number "Ingress of a switch"
        OUT_PORT "OutputPortNum" 2 [24; 8] Number "Egress of a switch"
        TABLE "SLtoVLMappingTable" - [64; 64] Hex "The table: four bits for each service level"
    }
}

record! {
    "A switch. Source: IBA vol 1 §15.2.5.4; OpenSM knows component 0 only; the others as the fields follow.",
    switch_info, SWITCH_INFO = 0x0014 "SwitchInfoRecord" 24 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        LINEAR_CAP "LinearFDBCap" 2 [32; 16] Number "SwitchInfo.LinearFDBCap"
        RANDOM_CAP "RandomFDBCap" 3 [48; 16] Number "SwitchInfo.RandomFDBCap"
        MCAST_CAP "MulticastFDBCap" 4 [64; 16] Number "SwitchInfo.MulticastFDBCap"
        LINEAR_TOP "LinearFDBTop" 5 [80; 16] Number "SwitchInfo.LinearFDBTop"
        DEFAULT_PORT "DefaultPort" 6 [96; 8] Number "SwitchInfo.DefaultPort"
        DEFAULT_PRIMARY "DefaultMulticastPrimaryPort" 7 [104; 8] Number "SwitchInfo.DefaultMulticastPrimaryPort"
        DEFAULT_OTHER "DefaultMulticastNotPrimaryPort" 8 [112; 8] Number "SwitchInfo.DefaultMulticastNotPrimaryPort"
        LIFETIME "LifeTimeValue" 9 [120; 5] Number "SwitchInfo.LifeTimeValue"
        STATE_CHANGE "PortStateChange" 10 [125; 1] Number "SwitchInfo.PortStateChange"
        OPTIMIZED "OptimizedSLtoVLMapping" 11 [126; 2] Number "SwitchInfo.OptimizedSLtoVLMapping"
        LIDS_PER_PORT "LIDsPerPort" 12 [128; 16] Number "SwitchInfo.LIDsPerPort"
        ENFORCE_CAP "PartitionEnforcementCap" 13 [144; 16] Number "SwitchInfo.PartitionEnforcementCap"
        INBOUND "InboundEnforcementCap" 14 [160; 1] Number "SwitchInfo.InboundEnforcementCap"
        OUTBOUND "OutboundEnforcementCap" 15 [161; 1] Number "SwitchInfo.OutboundEnforcementCap"
        RAW_INBOUND "FilterRawInboundCap" 16 [162; 1] Number "SwitchInfo.FilterRawInboundCap"
        RAW_OUTBOUND "FilterRawOutboundCap" 17 [163; 1] Number "SwitchInfo.FilterRawOutboundCap"
        ENHANCED_PORT0 "EnhancedPort0" 18 [164; 1] Number "SwitchInfo.EnhancedPort0"
        MCAST_TOP "MulticastFDBTop" - [176; 16] Hex "SwitchInfo.MulticastFDBTop"
    }
}

record! {
    "A block of a switch's forwarding table. Source: IBA vol 1 §15.2.5.6.",
    linear_forwarding, LINEAR_FORWARDING = 0x0015 "LinearForwardingTableRecord" 72 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        BLOCK "BlockNum" 1 [16; 16] Number "Number of the block"
        TABLE "LinearForwardingTable" - [64; 512] Bytes "64 egress ports"
    }
}

record! {
    "A block of a switch's multicast table. Source: IBA vol 1 §15.2.5.8.",
    multicast_forwarding, MULTICAST_FORWARDING = 0x0017 "MulticastForwardingTableRecord" 72 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        POSITION "Position" 1 [16; 4] Number "Which sixteen ports"
        BLOCK "BlockNum" 3 [23; 9] Number "Number of the block"
        TABLE "MulticastForwardingTable" - [64; 512] Bytes "32 port masks"
    }
}

record! {
    "A subnet manager. Source: IBA vol 1 §15.2.5.10.",
    sm_info, SM_INFO = 0x0018 "SMInfoRecord" 25 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        GUID "GUID" 2 [32; 64] Hex "GUID of its port"
        SM_KEY "SM_Key" 3 [96; 64] Secret "Its key; 0 in answers"
        ACT_COUNT "ActCount" 4 [160; 32] Number "That it is alive"
        PRIORITY "Priority" 5 [192; 4] Number "Its priority"
        STATE "SMState" 6 [196; 4] Number "Its state"
    }
}

record! {
    "One direction of a cable. Source: IBA vol 1 §15.2.5.13.",
    link, LINK = 0x0020 "LinkRecord" 6 {
        FROM_LID "FromLID" 0 [0; 16] Number "LID of the node it leaves"
        FROM_PORT "FromPort" 1 [16; 8] Number "Port it leaves by"
        TO_PORT "ToPort" 2 [24; 8] Number "Port it enters by"
        TO_LID "ToLID" 3 [32; 16] Number "LID of the node it enters"
    }
}

record! {
    "A block of a port's GUIDs. Source: IBA vol 1 §15.2.5.18.",
    guid_info, GUID_INFO = 0x0030 "GUIDInfoRecord" 72 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        BLOCK "BlockNum" 1 [16; 8] Number "Number of the block"
        GUID0 "GUID0" 4 [64; 64] Hex "Entry 0"
        GUID1 "GUID1" 5 [128; 64] Hex "Entry 1"
        GUID2 "GUID2" 6 [192; 64] Hex "Entry 2"
        GUID3 "GUID3" 7 [256; 64] Hex "Entry 3"
        GUID4 "GUID4" 8 [320; 64] Hex "Entry 4"
        GUID5 "GUID5" 9 [384; 64] Hex "Entry 5"
        GUID6 "GUID6" 10 [448; 64] Hex "Entry 6"
        GUID7 "GUID7" 11 [512; 64] Hex "Entry 7"
    }
}

record! {
    "A service that a port offers. Source: IBA vol 1 §15.2.5.14.",
    service, SERVICE = 0x0031 "ServiceRecord" 176 {
        ID "ServiceID" 0 [0; 64] Hex "ID of the service"
        GID "ServiceGID" 1 [64; 128] Gid "GID of the port that offers the service"
        PKEY "ServiceP_Key" 2 [192; 16] Hex "P_Key of the partition of the service"
        LEASE "ServiceLease" 4 [224; 32] Hex "Lease of the service in seconds; 0xFFFFFFFF: for ever"
        KEY "ServiceKey" 5 [256; 128] Secret "Key that allows changes of the record; 0 in answers to other ports"
        NAME "ServiceName" 6 [384; 512] Text "Its name"
        DATA8_0 "ServiceData8.1" 7 [896; 8] Hex "Its data"
        DATA8_1 "ServiceData8.2" 8 [904; 8] Hex "Its data"
        DATA8_2 "ServiceData8.3" 9 [912; 8] Hex "Its data"
        DATA8_3 "ServiceData8.4" 10 [920; 8] Hex "Its data"
        DATA8_4 "ServiceData8.5" 11 [928; 8] Hex "Its data"
        DATA8_5 "ServiceData8.6" 12 [936; 8] Hex "Its data"
        DATA8_6 "ServiceData8.7" 13 [944; 8] Hex "Its data"
        DATA8_7 "ServiceData8.8" 14 [952; 8] Hex "Its data"
        DATA8_8 "ServiceData8.9" 15 [960; 8] Hex "Its data"
        DATA8_9 "ServiceData8.10" 16 [968; 8] Hex "Its data"
        DATA8_10 "ServiceData8.11" 17 [976; 8] Hex "Its data"
        DATA8_11 "ServiceData8.12" 18 [984; 8] Hex "Its data"
        DATA8_12 "ServiceData8.13" 19 [992; 8] Hex "Its data"
        DATA8_13 "ServiceData8.14" 20 [1000; 8] Hex "Its data"
        DATA8_14 "ServiceData8.15" 21 [1008; 8] Hex "Its data"
        DATA8_15 "ServiceData8.16" 22 [1016; 8] Hex "Its data"
        DATA16_0 "ServiceData16.1" 23 [1024; 16] Hex "Its data"
        DATA16_1 "ServiceData16.2" 24 [1040; 16] Hex "Its data"
        DATA16_2 "ServiceData16.3" 25 [1056; 16] Hex "Its data"
        DATA16_3 "ServiceData16.4" 26 [1072; 16] Hex "Its data"
        DATA16_4 "ServiceData16.5" 27 [1088; 16] Hex "Its data"
        DATA16_5 "ServiceData16.6" 28 [1104; 16] Hex "Its data"
        DATA16_6 "ServiceData16.7" 29 [1120; 16] Hex "Its data"
        DATA16_7 "ServiceData16.8" 30 [1136; 16] Hex "Its data"
        DATA32_0 "ServiceData32.1" 31 [1152; 32] Hex "Its data"
        DATA32_1 "ServiceData32.2" 32 [1184; 32] Hex "Its data"
        DATA32_2 "ServiceData32.3" 33 [1216; 32] Hex "Its data"
        DATA32_3 "ServiceData32.4" 34 [1248; 32] Hex "Its data"
        DATA64_0 "ServiceData64.1" 35 [1280; 64] Hex "Its data"
        DATA64_1 "ServiceData64.2" 36 [1344; 64] Hex "Its data"
    }
}

record! {
    "A block of a port's P_Keys. Source: IBA vol 1 §15.2.5.11.",
    pkey_table, PKEY_TABLE = 0x0033 "P_KeyTableRecord" 72 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        BLOCK "BlockNum" 1 [16; 16] Number "Number of the block"
        PORT "PortNum" 2 [32; 8] Number "Port of a switch"
        TABLE "P_KeyTable" - [64; 512] Bytes "32 P_Keys"
    }
}

record! {
    "A path from one end port to another. Source: IBA vol 1 §15.2.5.16.",
    path, PATH = 0x0035 "PathRecord" 64 {
        SERVICE_ID_MSB "ServiceID8MSB" 0 [0; 8] Hex special "First byte of the ID of the wanted service"
        SERVICE_ID_LSB "ServiceID56LSB" 1 [8; 56] Hex special "Other bytes of that ID"
        DGID "DGID" 2 [64; 128] Gid special "GID of the destination"
        SGID "SGID" 3 [192; 128] Gid special "GID of the source"
        DLID "DLID" 4 [320; 16] Number special "LID of the destination"
        SLID "SLID" 5 [336; 16] Number special "LID of the source"
        RAW "RawTraffic" 6 [352; 1] Number special "For raw packets"
        FLOW_LABEL "FlowLabel" 8 [356; 20] Hex special "Flow label"
        HOP_LIMIT "HopLimit" 9 [376; 8] Number special "Hop limit"
        TRAFFIC_CLASS "TClass" 10 [384; 8] Number special "Traffic class"
        REVERSIBLE "Reversible" 11 [392; 1] Number special "Its reverse is a path with the same parameters"
        NUMB_PATH "NumbPath" 12 [393; 7] Number special "Most paths wanted"
        PKEY "P_Key" 13 [400; 16] Hex special "P_Key"
        QOS_CLASS "QoSClass" 14 [416; 12] Number special "QoS class of the wanted path"
        SL "SL" 15 [428; 4] Number special "Service level"
        MTU_SELECTOR "MtuSelector" 16 [432; 2] Number special "0: larger, 1: smaller, 2: equal, 3: largest"
        MTU "Mtu" 17 [434; 6] Number special "Largest payload, as its code"
        RATE_SELECTOR "RateSelector" 18 [440; 2] Number special "0: larger, 1: smaller, 2: equal, 3: largest"
        RATE "Rate" 19 [442; 6] Number special "Static rate, as its code"
        LIFE_SELECTOR "PacketLifeTimeSelector" 20 [448; 2] Number special "0: longer, 1: shorter, 2: equal, 3: shortest"
        LIFE "PacketLifeTime" 21 [450; 6] Number special "Packet lifetime on the path: 4.096 µs · 2^value"
        PREFERENCE "Preference" - [456; 8] Number "0: the best of those answered"
    }
}

record! {
    "A block of a port's arbitration table. Source: IBA vol 1 §15.2.5.9.",
    vl_arbitration, VL_ARBITRATION = 0x0036 "VLArbitrationTableRecord" 72 {
        LID "LID" 0 [0; 16] Number "LID of the end port"
        OUT_PORT "OutputPortNum" 1 [16; 8] Number "Port of a switch"
        BLOCK "BlockNum" 2 [24; 8] Number "1, 2: low priority; 3, 4: high"
        TABLE "VLArbitrationTable" - [64; 512] Bytes "32 lanes and weights"
    }
}

record! {
    "A member of a multicast group. Source: IBA vol 1 §15.2.5.17.",
    member, MEMBER = 0x0038 "MCMemberRecord" 52 {
        MGID "MGID" 0 [0; 128] Gid "The group"
        PORT_GID "PortGID" 1 [128; 128] Gid "The member"
        QKEY "Q_Key" 2 [256; 32] Hex "Its Q_Key"
        MLID "MLID" 3 [288; 16] Hex "Its multicast LID"
        MTU_SELECTOR "MTUSelector" 4 [304; 2] Number special "0: larger, 1: smaller, 2: equal, 3: largest"
        MTU "MTU" 5 [306; 6] Number special "Largest payload, as its code"
        TRAFFIC_CLASS "TClass" 6 [312; 8] Number "Traffic class"
        PKEY "P_Key" 7 [320; 16] Hex "Partition"
        RATE_SELECTOR "RateSelector" 8 [336; 2] Number special "0: larger, 1: smaller, 2: equal, 3: largest"
        RATE "Rate" 9 [338; 6] Number special "Static rate, as its code"
        LIFE_SELECTOR "PacketLifeTimeSelector" 10 [344; 2] Number special "0: longer, 1: shorter, 2: equal, 3: shortest"
        LIFE "PacketLifeTime" 11 [346; 6] Number special "Packet lifetime on the path: 4.096 µs · 2^value"
        SL "SL" 12 [352; 4] Number "Service level"
        FLOW_LABEL "FlowLabel" 13 [356; 20] Hex "Flow label"
        HOP_LIMIT "HopLimit" 14 [376; 8] Number "Hop limit"
        SCOPE "Scope" 15 [384; 4] Hex "Scope of the group: link-local, site-local and so on"
        JOIN_STATE "JoinState" 16 [388; 4] Hex special "1 full member, 2 non-member, 4 send-only, 8 send-only full"
        PROXY "ProxyJoin" 17 [392; 1] Number "1: another port joined on behalf of the member"
    }
}

record! {
    "Paths from some end ports to some others, as a question. Source: IBA vol 1 §15.2.5.20.",
    multi_path, MULTI_PATH = 0x003a "MultiPathRecord" 200 {
        RAW "RawTraffic" 0 [0; 1] Number special "For raw packets"
        FLOW_LABEL "FlowLabel" 2 [4; 20] Hex special "Flow label"
        HOP_LIMIT "HopLimit" 3 [24; 8] Number special "Hop limit"
        TRAFFIC_CLASS "TClass" 4 [32; 8] Number special "Traffic class"
        REVERSIBLE "Reversible" 5 [40; 1] Number special "Reversible paths only"
        NUMB_PATH "NumbPath" 6 [41; 7] Number special "Most paths wanted of each pair"
        PKEY "P_Key" 7 [48; 16] Hex special "P_Key"
        QOS_CLASS "QoSClass" 8 [64; 12] Number special "QoS class of the wanted path"
        SL "SL" 9 [76; 4] Number special "Service level"
        MTU_SELECTOR "MtuSelector" 10 [80; 2] Number special "0: larger, 1: smaller, 2: equal, 3: largest"
        MTU "Mtu" 11 [82; 6] Number special "Largest payload, as its code"
        RATE_SELECTOR "RateSelector" 12 [88; 2] Number special "0: larger, 1: smaller, 2: equal, 3: largest"
        RATE "Rate" 13 [90; 6] Number special "Static rate, as its code"
        LIFE_SELECTOR "PacketLifeTimeSelector" 14 [96; 2] Number special "0: longer, 1: shorter, 2: equal, 3: shortest"
        LIFE "PacketLifeTime" 15 [98; 6] Number special "Packet lifetime on the path: 4.096 µs · 2^value"
        SERVICE_ID_MSB "ServiceID8MSB" 16 [104; 8] Hex special "First byte of the ID of the wanted service"
        INDEPENDENCE "IndependenceSelector" 17 [112; 2] Number special "2: paths that fail independently"
        SGID_COUNT "SGIDCount" 19 [120; 8] Number special "GIDs of sources"
        DGID_COUNT "DGIDCount" 20 [128; 8] Number special "GIDs of destinations, behind those"
        SERVICE_ID_LSB "ServiceID56LSB" 21 [136; 56] Hex special "Other bytes of that ID"
        GIDS "GIDs" - [192; 1408] Bytes "Up to eleven GIDs"
    }
}

record! {
    "A subscription, with its subscriber. Source: IBA vol 1 §15.2.5.12; component bits as in OpenSM's `ib_types.h`.",
    inform_info_record, INFORM_INFO_RECORD = 0x00f3 "InformInfoRecord" 60 {
        SUBSCRIBER_GID "SubscriberGID" 0 [0; 128] Gid "GID of the subscriber"
        ENUM "Enum" 1 [128; 16] Number "Number of the subscription among those of the subscriber"
        GID "GID" 3 [192; 128] Gid "GID of the port that reports; 0: chosen by LID"
        LID_BEGIN "LIDRangeBegin" 4 [320; 16] Hex "First LID of ports that report; 0xFFFF: all"
        LID_END "LIDRangeEnd" 5 [336; 16] Hex "Last LID"
        IS_GENERIC "IsGeneric" 7 [368; 8] Number "1: traps of the standard"
        SUBSCRIBE "Subscribe" 8 [376; 8] Number "1: begin, 0: end"
        TYPE "Type" 9 [384; 16] Hex "Kind of event; 0xFFFF: all"
        TRAP_NUMBER "TrapNumber" 10 [400; 16] Hex "Number of the trap, or device of the vendor; 0xFFFF: all"
        QPN "QPN" 11 [416; 24] Number "Queue pair to which reports go"
        RESPONSE_TIME "RespTimeValue" 13 [443; 5] Number "Longest time until it answers: 4.096 µs · 2^value"
        PRODUCER "ProducerType" 15 [456; 24] Hex "Kind of the node, or OUI of the vendor; 0xFFFFFF: all"
    }
}

record! {
    "The revision of the registrations. Only standbys of Selvedge request it. A request that names the present run and \
     number is answered when either changes. Source: our own, in the range that the standard leaves to vendors; other \
     administrators refuse it or do not answer.",
    revision, REVISION = 0xff53 "RegistrationsRevision" 32 {
        LIFE "Life" 0 [0; 64] Hex "Run of the administrator in which the number counts"
        NUMBER "Number" 1 [64; 64] Number "Number of changes of registrations in this run"
        OUT_OF_SERVICE "OutOfService" 3 [128; 32] Hex "Another number for each list of places out of service; 0: none"
        LEVELS "Levels" 2 [160; 32] Number "Number of changes of the service levels in path records"
        JOBS "Jobs" - [192; 32] Hex "Another number for each list of jobs; 0: none"
    }
}

record! {
    "The service level of path records to a LID, if routes rely on service levels. Only standbys of Selvedge request \
     it, as the record before.",
    told_level, TOLD_LEVEL = 0xff54 "ToldLevelRecord" 16 {
        LID "LID" 0 [0; 16] Number "The destination"
        LANES "Lanes" 1 [16; 8] Number "Lanes that the routes rely on"
        LEVEL "SL" 2 [28; 4] Number "Service level of path records to the LID"
        GUID "PortGUID" 3 [64; 64] Hex "GUID of the port that has the LID"
    }
}

record! {
    "A port that is gone, so that its registrations were removed. Only standbys of Selvedge request it, as the \
     records before.",
    forgotten, FORGOTTEN = 0xff55 "ForgottenPortRecord" 8 {
        GUID "PortGUID" 0 [0; 64] Hex "GUID of the port"
    }
}

record! {
    "An alias GUID of a port, or one that was assigned to an entry. Only standbys of Selvedge request it, as the \
     records before.",
    alias, ALIAS = 0xff56 "AliasGUIDRecord" 24 {
        PORT "PortGUID" 0 [0; 64] Hex "GUID of the port"
        GUID "GUID" 1 [64; 64] Hex "The alias GUID"
        ENTRY "Entry" 2 [128; 8] Number "Entry of GUIDInfo"
        IS_GIVEN "Given" 3 [136; 8] Number "1: assigned to this entry, which gets it again on request"
    }
}

record! {
    "A piece of the text of the master's list of places out of service, in order: only standbys of Selvedge request \
     it, as the records before.",
    out_of_service, OUT_OF_SERVICE = 0xff57 "OutOfServiceRecord" 64 {
        TEXT "Text" - [0; 512] Bytes "64 bytes of the text; the last piece ends with zeros"
    }
}

record! {
    "A piece of the text of the master's list of jobs, in order: only standbys of Selvedge request it, as the records \
     before.",
    jobs, JOBS = 0xff58 "JobRecord" 64 {
        TEXT "Text" - [0; 512] Bytes "64 bytes of the text; the last piece ends with zeros"
    }
}
