/*
 * rnic: STags in state Invalid, and windows of other streams, that a peer names
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

typedef struct World {
    Connection *c;
    StagRegion region;          /* Valid, with octets that nobody may change */
} World;

/* Each makes an STag that the peer of @w may not use. */
static uint32_t allocated(World *w)
{
    return stag_alloc(w->c->r, w->c->r->pd, 1, 0x10, true);
}

static uint32_t invalidated(World *w)
{
    StagRegion copy = w->region;

    stag_register(w->c->r, &copy);
    g_assert_cmpint(stag_invalidate(w->c, copy.stag), ==, RNIC_WC_SUCCESS);
    return copy.stag;
}

static uint32_t unbound(World *w)
{
    return stag_alloc_mw(w->c->r, w->c->r->pd, 0x11);
}

static uint32_t unbound_again(World *w)
{
    StagBind bind = stag_window(unbound(w), &w->region, w->region.va, 8,
                                RNIC_ACCESS_REMOTE_READ |
                                RNIC_ACCESS_REMOTE_WRITE);

    g_assert_cmpint(stag_bind(w->c, &bind), ==, RNIC_WC_SUCCESS);
    g_assert_cmpint(stag_invalidate(w->c, bind.mw), ==, RNIC_WC_SUCCESS);
    return bind.mw;
}

static const struct {
    const char *name;
    uint32_t (*make)(World *w);
} kinds[] = {
    { "allocated", allocated },
    { "invalidated", invalidated },
    { "unbound", unbound },
    { "unbound again", unbound_again },
};

static void expect_refused(World *w, uint16_t event, uint16_t code)
{
    uint8_t got[8];

    wire_expect_terminate(w->c->peer, code);
    rnic_expect_async(w->c->r, event, w->c->qp.number);
    rnic_settle(w->c->r);
    rnic_expect_no_async(w->c->r);
    rnic_mem_read(w->c->r, w->region.bus[0], got, 8);
    g_assert_cmpmem(got, 8, "original", 8);
    stag_reconnect(w->c);
}

static void test_invalid(void)
{
    World w = { connection_new(&stag_options) };

    w.region = stag_region(w.c->r, 1);
    stag_register(w.c->r, &w.region);
    rnic_mem_write(w.c->r, w.region.bus[0], "original", 8);
    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        uint32_t stag = kinds[i].make(&w);

        g_test_message("%s", kinds[i].name);
        wire_put_write(w.c->peer, stag, w.region.va, "intruder", 8);
        expect_refused(&w, RNIC_AE_TAGGED_INVALID_STAG, 0x1100);
        wire_put_read_request(w.c->peer, &(WireRead) {
            .size = 8, .source_stag = stag, .source_to = w.region.va });
        expect_refused(&w, RNIC_AE_IRRQ_INVALID_STAG, 0x0100);
    }
    connection_free(w.c);
    rnic_shows("V9.5.3-16 V9.5.3-25");
}

/* Valid, but not of this stream: the buffer is one that the QP may not use. */
static void test_of_other_stream(void)
{
    World w = { connection_new(&stag_options) };
    Connection *other = connection_prepare_second(w.c, &stag_options);
    StagBind bind;

    connection_establish(other, &stag_options);
    w.region = stag_region(w.c->r, 1);
    stag_register(w.c->r, &w.region);
    rnic_mem_write(w.c->r, w.region.bus[0], "original", 8);
    bind = stag_window(stag_alloc_mw(w.c->r, w.c->r->pd, 1), &w.region,
                       w.region.va, 8, RNIC_ACCESS_REMOTE_READ |
                       RNIC_ACCESS_REMOTE_WRITE);
    g_assert_cmpint(stag_bind(other, &bind), ==, RNIC_WC_SUCCESS);
    wire_put_write(w.c->peer, bind.mw, bind.va, "intruder", 8);
    expect_refused(&w, RNIC_AE_TAGGED_INVALID_PD, 0x1102);
    wire_put_read_request(w.c->peer, &(WireRead) {
        .size = 8, .source_stag = bind.mw, .source_to = bind.va });
    expect_refused(&w, RNIC_AE_IRRQ_INVALID_PD, 0x0103);
    g_assert_cmpint(rnic_qp_state(w.c->r, &other->qp), ==, RNIC_QPS_RTS);
    connection_free_second(other);
    connection_free(w.c);
    rnic_shows("V9.5.3-19 V9.5.3-27 V10.3-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/invalid-stags/invalid", test_invalid);
    qtest_add_func("rnic/invalid-stags/of-other-stream", test_of_other_stream);
    return g_test_run();
}
