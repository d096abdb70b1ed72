/*
 * rnic: the file of a capture, whose it may be, and its older ones
 *
 * Each call may take as long as the file's host likes: the writer's thread makes them,
 * and no other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CAPTURE_FILE_H
#define HW_RNIC_CAPTURE_FILE_H

/*
 * A descriptor of @file, locked, which does not block; nothing of a file that was
 * there has been changed yet.  @ring: it has to be a regular file.  -1 with *@errp.
 */
int rnic_capture_file_open(const char *file, bool ring, Error **errp);

/* What was in the file is lost; it is for the user of QEMU only. */
bool rnic_capture_file_clear(int fd, const char *file, Error **errp);

/* FILE.1 becomes FILE.2 and so on, and FILE becomes FILE.1: @files in all. */
bool rnic_capture_file_age(const char *file, uint32_t files, Error **errp);

#endif /* HW_RNIC_CAPTURE_FILE_H */
