// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * adapter-closed: whether an adapter that no driver has is closed: reset, and not
 * enabled since, as its own registers say.
 */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rnic-hw.h>

#include "common.h"

static const char help[] =
"usage: adapter-closed PCI-ADDRESS\n"
"Reads the registers of an adapter that has no driver, for example 0000:01:00.0.\n"
"Exit status: 0 it is closed, 1 it is not, or is no adapter, 2 usage.\n";

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const volatile uint32_t *map_registers(const char *address)
{
	char path[200];
	void *registers;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource%d",
		 address, RNIC_BAR_REGISTERS);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	registers = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd,
			 0);
	if (registers == MAP_FAILED)
		fail("%s: mmap: %s", path, strerror(errno));
	close(fd);
	return registers;
}

static uint32_t read_register(const volatile uint32_t *registers,
			      unsigned int offset)
{
	return le32toh(registers[offset / sizeof(*registers)]);
}

static void check(const char *address)
{
	const volatile uint32_t *registers = map_registers(address);
	uint32_t magic = read_register(registers, RNIC_REG_MAGIC);
	uint32_t status = read_register(registers, RNIC_REG_STATUS);

	if (magic != RNIC_MAGIC)
		fail("%s is no adapter: magic 0x%x", address, magic);
	if (status)
		fail("%s is not closed: status 0x%x", address, status);
}

int main(int argc, char **argv)
{
	int c;

	program = "adapter-closed";
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 'h')
			fail_usage();
		fputs(help, stdout);
		return 0;
	}
	if (argc - optind != 1)
		fail_usage();
	check(argv[optind]);
	return 0;
}
