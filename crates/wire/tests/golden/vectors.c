/*
 * Vectors for what no peer on ibsim produces: every field of an attribute with a value of its own, extended speeds to
 * NDR, and traps other than 128 and 144. The bytes are laid out by libibmad (mad_set_field and its field table) and by
 * the structures of OpenSM's ib_types.h; this file only chooses the values.
 *
 * Build and run (needs libibmad-dev and libopensm-dev; not needed for the tests):
 *   cc -I/usr/include/infiniband -o vectors vectors.c -libmad && ./vectors > vectors.txt
 */
#include <stdio.h>
#include <string.h>
#include <infiniband/mad.h>
#include <iba/ib_types.h>

struct value {
	enum MAD_FIELDS field;
	uint64_t value;
};

static uint8_t mad[256];

/* mad_set_field for fields of up to 32 bits, mad_set_field64 for the few of 64 bits. */
static void set(int base, enum MAD_FIELDS field, uint64_t value, int wide)
{
	if (wide)
		mad_set_field64(mad, base, field, value);
	else
		mad_set_field(mad, base, field, (uint32_t) value);
}

static void header(unsigned class, unsigned method, unsigned attribute, uint32_t modifier)
{
	memset(mad, 0, sizeof mad);
	mad_set_field(mad, 0, IB_MAD_BASEVER_F, 1);
	mad_set_field(mad, 0, IB_MAD_CLASSVER_F, 1);
	mad_set_field(mad, 0, IB_MAD_MGMTCLASS_F, class);
	mad_set_field(mad, 0, IB_MAD_METHOD_F, method & 0x7f);
	mad_set_field(mad, 0, IB_MAD_RESPONSE_F, method >> 7);
	mad_set_field64(mad, 0, IB_MAD_TRID_F, 0x1122334455667788ULL);
	mad_set_field(mad, 0, IB_MAD_ATTRID_F, attribute);
	mad_set_field(mad, 0, IB_MAD_ATTRMOD_F, modifier);
}

static void print(const char *title)
{
	int i;

	printf("# %s\n> ", title);
	for (i = 0; i < 256; i++)
		printf("%02x", mad[i]);
	printf("\n");
}

#define FIELDS(table) (sizeof(table) / sizeof((table)[0]))

static void fields(const struct value *table, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		set(64, table[i].field, table[i].value, table[i].value > 0xffffffffULL);
}

static void directed_header(void)
{
	uint8_t path[64] = { 0, 1, 254, 36 };

	header(0x81, 0x81, 0x0015, 0x80000007);
	mad_set_field(mad, 0, IB_DRSMP_STATUS_F, 0x1c);
	mad_set_field(mad, 0, IB_DRSMP_DIRECTION_F, 1);
	mad_set_field(mad, 0, IB_DRSMP_HOPCNT_F, 3);
	mad_set_field(mad, 0, IB_DRSMP_HOPPTR_F, 2);
	mad_set_field64(mad, 0, IB_MAD_MKEY_F, 0x0123456789abcdefULL);
	mad_set_field(mad, 0, IB_DRSMP_DRSLID_F, 17);
	mad_set_field(mad, 0, IB_DRSMP_DRDLID_F, 0xffff);
	mad_set_array(mad, 0, IB_DRSMP_PATH_F, path);
	print("header of a directed-route SMP on its way back, bad field");
}

static const struct value port_info[] = {
	{ IB_PORT_MKEY_F, 0x0102030405060708ULL },
	{ IB_PORT_GID_PREFIX_F, 0xfe80000000000001ULL },
	{ IB_PORT_LID_F, 0xbffe },
	{ IB_PORT_SMLID_F, 0x0203 },
	{ IB_PORT_CAPMASK_F, 0x8242c06a },
	{ IB_PORT_DIAG_F, 0x4321 },
	{ IB_PORT_MKEY_LEASE_F, 61 },
	{ IB_PORT_LOCAL_PORT_F, 35 },
	{ IB_PORT_LINK_WIDTH_ENABLED_F, 3 },
	{ IB_PORT_LINK_WIDTH_SUPPORTED_F, 0x13 },
	{ IB_PORT_LINK_WIDTH_ACTIVE_F, 0x10 },
	{ IB_PORT_LINK_SPEED_SUPPORTED_F, 7 },
	{ IB_PORT_STATE_F, 4 },
	{ IB_PORT_PHYS_STATE_F, 5 },
	{ IB_PORT_LINK_DOWN_DEF_F, 1 },
	{ IB_PORT_MKEY_PROT_BITS_F, 2 },
	{ IB_PORT_LMC_F, 5 },
	{ IB_PORT_LINK_SPEED_ACTIVE_F, 4 },
	{ IB_PORT_LINK_SPEED_ENABLED_F, 3 },
	{ IB_PORT_NEIGHBOR_MTU_F, 3 },
	{ IB_PORT_SMSL_F, 9 },
	{ IB_PORT_VL_CAP_F, 5 },
	{ IB_PORT_INIT_TYPE_F, 6 },
	{ IB_PORT_VL_HIGH_LIMIT_F, 77 },
	{ IB_PORT_VL_ARBITRATION_HIGH_CAP_F, 64 },
	{ IB_PORT_VL_ARBITRATION_LOW_CAP_F, 32 },
	{ IB_PORT_INIT_TYPE_REPLY_F, 11 },
	{ IB_PORT_MTU_CAP_F, 5 },
	{ IB_PORT_VL_STALL_COUNT_F, 6 },
	{ IB_PORT_HOQ_LIFE_F, 18 },
	{ IB_PORT_OPER_VLS_F, 2 },
	{ IB_PORT_PART_EN_INB_F, 1 },
	{ IB_PORT_PART_EN_OUTB_F, 0 },
	{ IB_PORT_FILTER_RAW_INB_F, 0 },
	{ IB_PORT_FILTER_RAW_OUTB_F, 1 },
	{ IB_PORT_MKEY_VIOL_F, 101 },
	{ IB_PORT_PKEY_VIOL_F, 102 },
	{ IB_PORT_QKEY_VIOL_F, 103 },
	{ IB_PORT_GUID_CAP_F, 128 },
	{ IB_PORT_CLIENT_REREG_F, 1 },
	{ IB_PORT_MCAST_PKEY_SUPR_ENAB_F, 2 },
	{ IB_PORT_SUBN_TIMEOUT_F, 19 },
	{ IB_PORT_RESP_TIME_VAL_F, 17 },
	{ IB_PORT_LOCAL_PHYS_ERR_F, 8 },
	{ IB_PORT_OVERRUN_ERR_F, 7 },
	{ IB_PORT_MAX_CREDIT_HINT_F, 0x1234 },
	{ IB_PORT_LINK_ROUND_TRIP_F, 0xabcdef },
	{ IB_PORT_CAPMASK2_F, 0x0432 },
	{ IB_PORT_LINK_SPEED_EXT_ACTIVE_F, 0 },
	{ IB_PORT_LINK_SPEED_EXT_SUPPORTED_F, 0xf },
	{ IB_PORT_LINK_SPEED_EXT_ENABLED_F, 30 },
};

/* A port whose extended speed is in use: LinkSpeedExt* are bits of FDR 1, EDR 2, HDR 4, NDR 8. */
static void extended_speed(const char *title, unsigned width, unsigned speed)
{
	header(0x01, 0x81, 0x0015, 1);
	mad_set_field(mad, 64, IB_PORT_LINK_WIDTH_ACTIVE_F, width);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_ACTIVE_F, 4);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_EXT_ACTIVE_F, speed);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_EXT_SUPPORTED_F, 2 * speed - 1);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_EXT_ENABLED_F, speed);
	print(title);
}

static const struct value node_info[] = {
	{ IB_NODE_BASE_VERS_F, 1 },
	{ IB_NODE_CLASS_VERS_F, 1 },
	{ IB_NODE_TYPE_F, 3 },
	{ IB_NODE_NPORTS_F, 254 },
	{ IB_NODE_SYSTEM_GUID_F, 0x1000000000000001ULL },
	{ IB_NODE_GUID_F, 0x2000000000000002ULL },
	{ IB_NODE_PORT_GUID_F, 0x3000000000000003ULL },
	{ IB_NODE_PARTITION_CAP_F, 128 },
	{ IB_NODE_DEVID_F, 0xd2f0 },
	{ IB_NODE_REVISION_F, 0xa0 },
	{ IB_NODE_LOCAL_PORT_F, 41 },
	{ IB_NODE_VENDORID_F, 0x0002c9 },
};

static const struct value switch_info[] = {
	{ IB_SW_LINEAR_FDB_CAP_F, 49152 },
	{ IB_SW_RANDOM_FDB_CAP_F, 1024 },
	{ IB_SW_MCAST_FDB_CAP_F, 16384 },
	{ IB_SW_LINEAR_FDB_TOP_F, 0xbffe },
	{ IB_SW_DEF_PORT_F, 11 },
	{ IB_SW_DEF_MCAST_PRIM_F, 12 },
	{ IB_SW_DEF_MCAST_NOT_PRIM_F, 13 },
	{ IB_SW_LIFE_TIME_F, 18 },
	{ IB_SW_STATE_CHANGE_F, 1 },
	{ IB_SW_OPT_SLTOVL_MAPPING_F, 2 },
	{ IB_SW_LIDS_PER_PORT_F, 14 },
	{ IB_SW_PARTITION_ENFORCE_CAP_F, 32 },
	{ IB_SW_PARTITION_ENF_INB_F, 1 },
	{ IB_SW_PARTITION_ENF_OUTB_F, 0 },
	{ IB_SW_FILTER_RAW_INB_F, 1 },
	{ IB_SW_FILTER_RAW_OUTB_F, 0 },
	{ IB_SW_ENHANCED_PORT0_F, 1 },
	{ IB_SW_MCAST_FDB_TOP_F, 0xc123 },
};

static const struct value sm_info[] = {
	{ IB_SMINFO_GUID_F, 0x0002c90300001234ULL },
	{ IB_SMINFO_KEY_F, 0x1122334455667788ULL },
	{ IB_SMINFO_ACT_F, 0x89abcdef },
	{ IB_SMINFO_PRIO_F, 14 },
	{ IB_SMINFO_STATE_F, 3 },
};

static const struct value port_counters[] = {
	{ IB_PC_PORT_SELECT_F, 36 },
	{ IB_PC_COUNTER_SELECT_F, 0xf00f },
	{ IB_PC_ERR_SYM_F, 1001 },
	{ IB_PC_LINK_RECOVERS_F, 102 },
	{ IB_PC_LINK_DOWNED_F, 103 },
	{ IB_PC_ERR_RCV_F, 1004 },
	{ IB_PC_ERR_PHYSRCV_F, 1005 },
	{ IB_PC_ERR_SWITCH_REL_F, 1006 },
	{ IB_PC_XMT_DISCARDS_F, 1007 },
	{ IB_PC_ERR_XMTCONSTR_F, 108 },
	{ IB_PC_ERR_RCVCONSTR_F, 109 },
	{ IB_PC_COUNTER_SELECT2_F, 1 },
	{ IB_PC_ERR_LOCALINTEG_F, 11 },
	{ IB_PC_ERR_EXCESS_OVR_F, 12 },
	{ IB_PC_VL15_DROPPED_F, 1013 },
	{ IB_PC_XMT_BYTES_F, 100014 },
	{ IB_PC_RCV_BYTES_F, 100015 },
	{ IB_PC_XMT_PKTS_F, 100016 },
	{ IB_PC_RCV_PKTS_F, 100017 },
	{ IB_PC_XMT_WAIT_F, 100018 },
};

static void port_counters_extended(void)
{
	enum MAD_FIELDS field;
	uint64_t value = 0x100000001ULL;

	header(0x04, 0x81, 0x001d, 0);
	mad_set_field(mad, 64, IB_PC_EXT_PORT_SELECT_F, 36);
	mad_set_field(mad, 64, IB_PC_EXT_COUNTER_SELECT_F, 0xf00f);
	mad_set_field(mad, 64, IB_PC_EXT_COUNTER_SELECT2_F, 0x1fff);
	/* Both ranges are counters in the order of the table: the traffic, then the errors. */
	for (field = IB_PC_EXT_XMT_BYTES_F; field < IB_PC_EXT_LAST_F; field++)
		mad_set_field64(mad, 64, field, value++);
	for (field = IB_PC_EXT_ERR_SYM_F; field < IB_PC_EXT_ERR_LAST_F; field++)
		mad_set_field64(mad, 64, field, value++);
	print("PortCountersExtended, counters 0x100000001 and up in the order of libibmad's table");
}

/* The fields from first to last (exclusive) have the values base, base + 1, and up, in the order of libibmad's table. */
static void counters(const char *title, unsigned attribute, enum MAD_FIELDS first, enum MAD_FIELDS last, uint32_t base)
{
	enum MAD_FIELDS field;

	header(0x04, 0x81, attribute, 0);
	mad_set_field(mad, 64, IB_PC_PORT_SELECT_F, 36);
	mad_set_field(mad, 64, IB_PC_COUNTER_SELECT_F, 0xf00f);
	for (field = first; field < last; field++)
		mad_set_field(mad, 64, field, base++);
	print(title);
}

/* Counters of 64 bits selected, then rows of 16 and of 32 bits: all fields after CounterSelect, in order. */
static void extended_speeds(void)
{
	enum MAD_FIELDS field;
	uint32_t value = 9001;

	header(0x04, 0x81, IB_GSI_PORT_EXT_SPEEDS_COUNTERS, 0);
	mad_set_field(mad, 64, IB_PESC_PORT_SELECT_F, 36);
	mad_set_field64(mad, 64, IB_PESC_COUNTER_SELECT_F, 0xf00f00000000f00fULL);
	for (field = IB_PESC_SYNC_HDR_ERR_CTR_F; field < IB_PESC_LAST_F; field++)
		mad_set_field(mad, 64, field, value++);
	print("PortExtendedSpeedsCounters, counters 9001 and up");
}

static void details(void)
{
	counters("PortRcvErrorDetails, counters 1001 and up", IB_GSI_PORT_RCV_ERROR_DETAILS,
		 IB_PC_RCV_LOCAL_PHY_ERR_F, IB_PC_RCV_ERR_LAST_F, 1001);
	counters("PortXmitDiscardDetails, counters 2001 and up", IB_GSI_PORT_XMIT_DISCARD_DETAILS,
		 IB_PC_XMT_INACT_DISC_F, IB_PC_XMT_DISC_LAST_F, 2001);
	counters("PortOpRcvCounters, counters 1400001 and up", IB_GSI_PORT_PORT_OP_RCV_COUNTERS,
		 IB_PC_PORT_OP_RCV_COUNTERS_FIRST_F, IB_PC_PORT_OP_RCV_COUNTERS_LAST_F, 1400001);
	counters("PortFlowCtlCounters, counters 1500001 and up", IB_GSI_PORT_PORT_FLOW_CTL_COUNTERS,
		 IB_PC_PORT_FLOW_CTL_COUNTERS_FIRST_F, IB_PC_PORT_FLOW_CTL_COUNTERS_LAST_F, 1500001);
	extended_speeds();
	counters("PortVLOpPackets, counters 3001 and up", IB_GSI_PORT_PORT_VL_OP_PACKETS,
		 IB_PC_PORT_VL_OP_PACKETS_FIRST_F, IB_PC_PORT_VL_OP_PACKETS_LAST_F, 3001);
	counters("PortVLOpData, counters 400001 and up", IB_GSI_PORT_PORT_VL_OP_DATA,
		 IB_PC_PORT_VL_OP_DATA_FIRST_F, IB_PC_PORT_VL_OP_DATA_LAST_F, 400001);
	counters("PortVLXmitWaitCounters, counters 5001 and up", IB_GSI_PORT_PORT_VL_XMIT_WAIT_COUNTERS,
		 IB_PC_PORT_VL_XMIT_WAIT_COUNTERS_FIRST_F, IB_PC_PORT_VL_XMIT_WAIT_COUNTERS_LAST_F, 5001);
}

static void congestion(void)
{
	counters("SwPortVLCongestion, counters 6001 and up", IB_GSI_SW_PORT_VL_CONGESTION,
		 IB_PC_SW_PORT_VL_CONGESTION_FIRST_F, IB_PC_SW_PORT_VL_CONGESTION_LAST_F, 6001);
	counters("PortRcvConCtrl, counters 700001 and up", IB_GSI_PORT_RCV_CON_CTRL,
		 IB_PC_RCV_CON_CTRL_FIRST_F, IB_PC_RCV_CON_CTRL_LAST_F, 700001);
	counters("PortSLRcvFECN, counters 800001 and up", IB_GSI_PORT_SL_RCV_FECN,
		 IB_PC_SL_RCV_FECN_FIRST_F, IB_PC_SL_RCV_FECN_LAST_F, 800001);
	counters("PortSLRcvBECN, counters 900001 and up", IB_GSI_PORT_SL_RCV_BECN,
		 IB_PC_SL_RCV_BECN_FIRST_F, IB_PC_SL_RCV_BECN_LAST_F, 900001);
	counters("PortXmitConCtrl, counter 1000001", IB_GSI_PORT_XMIT_CON_CTRL,
		 IB_PC_XMIT_CON_CTRL_FIRST_F, IB_PC_XMIT_CON_CTRL_LAST_F, 1000001);
	counters("PortVLXmitTimeCong, counters 1100001 and up", IB_GSI_PORT_VL_XMIT_TIME_CONG,
		 IB_PC_VL_XMIT_TIME_CONG_FIRST_F, IB_PC_VL_XMIT_TIME_CONG_LAST_F, 1100001);
	counters("PortXmitDataSL, counters 1200001 and up", IB_GSI_PORT_XMIT_DATA_SL,
		 IB_PC_XMT_DATA_SL0_F, IB_PC_XMT_DATA_SL_LAST_F, 1200001);
	counters("PortRcvDataSL, counters 1300001 and up", IB_GSI_PORT_RCV_DATA_SL,
		 IB_PC_RCV_DATA_SL0_F, IB_PC_RCV_DATA_SL_LAST_F, 1300001);
}

static void class_port_info(void)
{
	static const struct value values[] = {
		{ IB_CPI_BASEVER_F, 1 },
		{ IB_CPI_CLASSVER_F, 1 },
		{ IB_CPI_CAPMASK_F, 0x1300 },
		{ IB_CPI_CAPMASK2_F, 0x5a5a5a5 },
		{ IB_CPI_RESP_TIME_VALUE_F, 18 },
		{ IB_CPI_REDIRECT_TC_F, 21 },
		{ IB_CPI_REDIRECT_SL_F, 2 },
		{ IB_CPI_REDIRECT_FL_F, 0xabcde },
		{ IB_CPI_REDIRECT_LID_F, 301 },
		{ IB_CPI_REDIRECT_PKEY_F, 0x8001 },
		{ IB_CPI_REDIRECT_QP_F, 0x123456 },
		{ IB_CPI_REDIRECT_QKEY_F, 0x80010000 },
		{ IB_CPI_TRAP_TC_F, 22 },
		{ IB_CPI_TRAP_SL_F, 3 },
		{ IB_CPI_TRAP_FL_F, 0x54321 },
		{ IB_CPI_TRAP_LID_F, 302 },
		{ IB_CPI_TRAP_PKEY_F, 0x7fff },
		{ IB_CPI_TRAP_HL_F, 64 },
		{ IB_CPI_TRAP_QP_F, 0x654321 },
		{ IB_CPI_TRAP_QKEY_F, 0x80020000 },
	};
	uint8_t redirect[16] = { 0xfe, 0x80, [15] = 7 }, trap[16] = { 0xfe, 0x80, [15] = 8 };

	header(0x04, 0x81, 0x0001, 0);
	fields(values, FIELDS(values));
	mad_set_array(mad, 64, IB_CPI_REDIRECT_GID_F, redirect);
	mad_set_array(mad, 64, IB_CPI_TRAP_GID_F, trap);
	print("ClassPortInfo, every field");
}

/* The generic part by libibmad's table, the details by OpenSM's structure, which is what it reads and sends. */
static ib_mad_notice_attr_t *notice(unsigned type, unsigned producer, unsigned number)
{
	header(0x01, 0x05, 0x0002, 0);
	mad_set_field(mad, 64, IB_NOTICE_IS_GENERIC_F, 1);
	mad_set_field(mad, 64, IB_NOTICE_TYPE_F, type);
	mad_set_field(mad, 64, IB_NOTICE_PRODUCER_F, producer);
	mad_set_field(mad, 64, IB_NOTICE_TRAP_NUMBER_F, number);
	mad_set_field(mad, 64, IB_NOTICE_ISSUER_LID_F, 515);
	mad_set_field(mad, 64, IB_NOTICE_TOGGLE_F, 1);
	mad_set_field(mad, 64, IB_NOTICE_COUNT_F, 0x1234);
	return (ib_mad_notice_attr_t *) (mad + 64);
}

static void gid(ib_gid_t *target, uint8_t first, uint8_t last)
{
	memset(target, 0, sizeof *target);
	target->raw[0] = first;
	target->raw[1] = 0x80;
	target->raw[15] = last;
}

static void service_traps(void)
{
	char title[64];
	unsigned number;

	for (number = 64; number <= 67; number++) {
		ib_mad_notice_attr_t *ntc = notice(3, 4, number);

		gid(&ntc->data_details.ntc_64_67.gid, number < 66 ? 0xfe : 0xff, (uint8_t) number);
		snprintf(title, sizeof title, "trap %u", number);
		print(title);
	}
}

static void link_traps(void)
{
	char title[64];
	unsigned number;

	notice(1, 2, 128)->data_details.ntc_128.sw_lid = cl_hton16(77);
	print("trap 128");
	for (number = 129; number <= 131; number++) {
		ib_mad_notice_attr_t *ntc = notice(1, 2, number);

		ntc->data_details.ntc_129_131.lid = cl_hton16(78);
		ntc->data_details.ntc_129_131.port_num = 36;
		snprintf(title, sizeof title, "trap %u", number);
		print(title);
	}
}

static void change_traps(void)
{
	ib_mad_notice_attr_t *ntc = notice(4, 1, 144);

	ntc->data_details.ntc_144.lid = cl_hton16(79);
	ntc->data_details.ntc_144.local_changes = 1;
	ntc->data_details.ntc_144.new_cap_mask = cl_hton32(0x0251486a);
	ntc->data_details.ntc_144.change_flgs = cl_hton16(0x000b);
	ntc->data_details.ntc_144.cap_mask2 = cl_hton16(0x0421);
	print("trap 144");
	ntc = notice(4, 1, 145);
	ntc->data_details.ntc_145.lid = cl_hton16(80);
	ntc->data_details.ntc_145.new_sys_guid = cl_hton64(0x0002c90300005678ULL);
	print("trap 145");
}

static void key_traps(void)
{
	ib_mad_notice_attr_t *ntc = notice(2, 1, 256);
	unsigned number;
	int i;

	ntc->data_details.ntc_256.lid = cl_hton16(81);
	ntc->data_details.ntc_256.dr_slid = cl_hton16(82);
	ntc->data_details.ntc_256.method = 2;
	ntc->data_details.ntc_256.attr_id = cl_hton16(0x15);
	ntc->data_details.ntc_256.attr_mod = cl_hton32(0x80000003);
	ntc->data_details.ntc_256.mkey = cl_hton64(0xdeadbeefcafef00dULL);
	ntc->data_details.ntc_256.dr_trunc_hop = 0xc0 | 33;
	for (i = 0; i < 30; i++)
		ntc->data_details.ntc_256.dr_rtn_path[i] = i;
	print("trap 256");
	for (number = 257; number <= 258; number++) {
		ntc = notice(2, 1, number);
		ntc->data_details.ntc_257_258.lid1 = cl_hton16(83);
		ntc->data_details.ntc_257_258.lid2 = cl_hton16(84);
		ntc->data_details.ntc_257_258.key = cl_hton32(number == 257 ? 0x8001 : 0x80010000);
		ntc->data_details.ntc_257_258.qp1 = cl_hton32(0x50000000 | 0x010203);
		ntc->data_details.ntc_257_258.qp2 = cl_hton32(0x040506);
		gid(&ntc->data_details.ntc_257_258.gid1, 0xfe, 9);
		gid(&ntc->data_details.ntc_257_258.gid2, 0xfe, 10);
		print(number == 257 ? "trap 257" : "trap 258");
	}
	ntc = notice(2, 2, 259);
	ntc->data_details.ntc_259.data_valid = cl_hton16(0x00ff);
	ntc->data_details.ntc_259.lid1 = cl_hton16(85);
	ntc->data_details.ntc_259.lid2 = cl_hton16(86);
	ntc->data_details.ntc_259.pkey = cl_hton16(0x7fff);
	ntc->data_details.ntc_259.sl_qp1 = cl_hton32(0x60000000 | 0x010203);
	ntc->data_details.ntc_259.qp2 = cl_hton32(0x040506);
	gid(&ntc->data_details.ntc_259.gid1, 0xfe, 11);
	gid(&ntc->data_details.ntc_259.gid2, 0xfe, 12);
	ntc->data_details.ntc_259.sw_lid = cl_hton16(87);
	ntc->data_details.ntc_259.port_no = 37;
	print("trap 259");
}

/*
 * XDR: libibmad 44 does not know the second fields of extended speeds; their places are those of the field table of
 * libibmad 65: LinkSpeedExtActive2 bits 449-450, LinkSpeedExtSupported2 451-452, LinkSpeedExtEnabled2 453-455. The rest
 * of the port is as for NDR.
 */
static void xdr(void)
{
	header(0x01, 0x81, 0x0015, 1);
	mad_set_field(mad, 64, IB_PORT_LINK_WIDTH_ACTIVE_F, 2);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_ACTIVE_F, 4);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_EXT_ACTIVE_F, 8);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_EXT_SUPPORTED_F, 15);
	mad_set_field(mad, 64, IB_PORT_LINK_SPEED_EXT_ENABLED_F, 8);
	mad[64 + 449 / 8] = 1 << (6 - 449 % 8) | 1 << (6 - 451 % 8) | 1 << (5 - 453 % 8);
	print("PortInfo, 4x XDR");
}

static void mlnx_ext_port_info(void)
{
	header(0x01, 0x81, IB_ATTR_MLNX_EXT_PORT_INFO, 1);
	mad_set_field(mad, 64, IB_MLNX_EXT_PORT_STATE_CHG_ENABLE_F, 0x81);
	mad_set_field(mad, 64, IB_MLNX_EXT_PORT_LINK_SPEED_SUPPORTED_F, 0x43);
	mad_set_field(mad, 64, IB_MLNX_EXT_PORT_LINK_SPEED_ENABLED_F, 0x25);
	mad_set_field(mad, 64, IB_MLNX_EXT_PORT_LINK_SPEED_ACTIVE_F, 0x17);
	print("MlnxExtPortInfo, every field");
}

/* Tables: OpenSM's structures again. */
static void tables(void)
{
	ib_slvl_table_t *slvl = (ib_slvl_table_t *) (mad + 64);
	ib_vl_arb_table_t *arb = (ib_vl_arb_table_t *) (mad + 64);
	ib_guid_info_t *guids = (ib_guid_info_t *) (mad + 64);
	ib_pkey_table_t *keys = (ib_pkey_table_t *) (mad + 64);
	int i;

	header(0x01, 0x02, 0x0017, 3 << 8 | 4);
	for (i = 0; i < 16; i++)
		ib_slvl_table_set(slvl, (uint8_t) i, (uint8_t) (15 - i));
	print("SLtoVLMappingTable, SL i to VL 15 - i, input port 3, output port 4");
	header(0x01, 0x02, 0x0018, 4 << 16 | 5);
	for (i = 0; i < 32; i++) {
		arb->vl_entry[i].vl = (uint8_t) (i % 15);
		arb->vl_entry[i].weight = (uint8_t) (255 - i);
	}
	print("VLArbitrationTable, VL i % 15 weight 255 - i, block 4, port 5");
	header(0x01, 0x81, 0x0014, 1);
	for (i = 0; i < 8; i++)
		guids->guid[i] = cl_hton64(0x0002c90300000000ULL + (uint64_t) i + 1);
	print("GUIDInfo, block 1, GUIDs 0x0002c90300000001 and up");
	header(0x01, 0x02, 0x0016, 6 << 16 | 1);
	for (i = 0; i < 32; i++)
		keys->pkey_entry[i] = cl_hton16((uint16_t) ((i % 2 ? 0x8000 : 0) | (i + 1)));
	print("P_KeyTable, block 1, port 6, keys 0x0001, 0x8002 and up");
}

int main(void)
{
	directed_header();
	header(0x01, 0x81, 0x0011, 0);
	fields(node_info, FIELDS(node_info));
	print("NodeInfo, every field");
	header(0x01, 0x81, 0x0012, 0);
	fields(switch_info, FIELDS(switch_info));
	print("SwitchInfo, every field");
	header(0x01, 0x81, 0x0015, 7);
	fields(port_info, FIELDS(port_info));
	print("PortInfo, every field; extended speeds switched off");
	extended_speed("PortInfo, 4x FDR", 2, 1);
	extended_speed("PortInfo, 12x EDR", 8, 2);
	extended_speed("PortInfo, 2x HDR", 16, 4);
	extended_speed("PortInfo, 4x NDR", 2, 8);
	xdr();
	mlnx_ext_port_info();
	header(0x01, 0x81, 0x0020, 0);
	fields(sm_info, FIELDS(sm_info));
	print("SMInfo, every field");
	tables();
	service_traps();
	link_traps();
	change_traps();
	key_traps();
	class_port_info();
	header(0x04, 0x81, 0x0012, 0);
	fields(port_counters, FIELDS(port_counters));
	print("PortCounters, every field but QP1Dropped");
	port_counters_extended();
	details();
	congestion();
	return 0;
}
