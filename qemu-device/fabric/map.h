/*
 * rnic: the address map of a fabric, guest addresses to host addresses
 *
 * Addresses are 16 octets in network order, IPv6 or IPv4-mapped, as in
 * struct rnic_cm_addr.  A map is a one-to-one relation: what two guest
 * addresses, or two host addresses, would claim belongs to the longer
 * prefixes, and to none where the two directions disagree.
 *
 * Needs only glib and the C library: the unit test links it alone.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_MAP_H
#define HW_RNIC_FABRIC_MAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct RnicMap RnicMap;

/*
 * @text is "loopback", "identity", or entries GUEST/length=HOST/length separated
 * by ';'.  The longest prefix wins.  The bits behind the prefix are
 * copied, so both sides must leave the same number of them (10.0.0.0/8 goes
 * with fd00::/104).  NULL, and a message in *@error to be freed, if @text is
 * not such a map.
 *
 * Loopback: guest a.b.c.d is host 127.b.c.d.  The host address has lost the
 * first octet; on the way back it is taken from another guest address of the
 * same connection.  So guests that talk to each other have it in common.
 */
RnicMap *rnic_map_parse(const char *text, char **error);
void rnic_map_free(RnicMap *map);

/* False: the address is outside the map. */
bool rnic_map_to_host(const RnicMap *map, const uint8_t guest[16],
                      uint8_t host[16]);

/*
 * @near is a guest address the guest's end of the connection goes by; any
 * address (all zero) if there is none: then the loopback map gives 10.b.c.d.
 */
bool rnic_map_to_guest(const RnicMap *map, const uint8_t host[16],
                       const uint8_t near[16], uint8_t guest[16]);

bool rnic_ip_is_v4(const uint8_t ip[16]);
/* 0.0.0.0 or :: */
bool rnic_ip_is_any(const uint8_t ip[16]);
/* Neither the any-address nor a multicast or the broadcast address. */
bool rnic_ip_is_unicast(const uint8_t ip[16]);
/* Of IPv6: fe80::/10. */
bool rnic_ip_is_link_local(const uint8_t ip[16]);

enum { RNIC_IP_TEXT = 46 };

/* Writes @ip to @text, IPv4 as a dotted quad, and returns @text. */
const char *rnic_ip_text(const uint8_t ip[16], char text[RNIC_IP_TEXT]);

#endif /* HW_RNIC_FABRIC_MAP_H */
