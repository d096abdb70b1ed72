/*
 * rnic: how many of the process's file descriptors the fabrics may have
 *
 * A guest and its peers can make as many streams as there are QPs.  The limit
 * leaves descriptors for the monitor, disks and migration.  It is the whole
 * process's, of all fabrics and devices: half of RLIMIT_NOFILE, at least 64.
 * What peers send comes unasked, and takes up to half as many again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_DESCRIPTORS_H
#define HW_RNIC_FABRIC_DESCRIPTORS_H

/*
 * Before @n descriptors are made.  False, with errno EMFILE: that would be too
 * many.  Any thread.
 */
bool rnic_descriptors_take(unsigned n);
/*
 * Before a call that may make @n, which the peer decides.  False: that would be
 * too many.  After it those that are there are exceeded, and none is expected.
 * Any thread.
 */
bool rnic_descriptors_expect(unsigned n);
void rnic_descriptors_expected(unsigned n);
/* @n more are there already, to be closed soon.  Any thread. */
void rnic_descriptors_exceed(unsigned n);
/* They are closed, or could not be made.  errno stays.  Any thread. */
void rnic_descriptors_release(unsigned n);
/* close(2) and release @fd.  errno stays.  Any thread. */
void rnic_descriptors_close(int fd);

#endif /* HW_RNIC_FABRIC_DESCRIPTORS_H */
