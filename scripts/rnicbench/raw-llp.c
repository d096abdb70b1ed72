// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * raw-llp: what a socket alone can do between two processes of this host: the
 * sizes that RDMA moves, over the sockets that carry it. One process sends as
 * fast as it can or waits for each answer, the other one receives or answers.
 *
 *   raw-llp tcp|unix bandwidth SIZE SECONDS    MiB/s, messages/s
 *   raw-llp tcp|unix latency SIZE COUNT        half a round trip, microseconds
 *   raw-llp tcp|unix connect COUNT             connections/s, each with a
 *                                              message and its answer
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE		64	/* of a connection */
#define UNIX_BUFFER	(1 << 20)	/* as the device asks for */

static bool is_unix;
static struct sockaddr_in tcp_address;
static struct sockaddr_un unix_address;

static void fail(const char *what)
{
	fprintf(stderr, "raw-llp: error: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* --------------------------------------------------------------- sockets */

static int new_socket(void)
{
	int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		fail("socket");
	return fd;
}

static struct sockaddr *address(socklen_t *length)
{
	*length = is_unix ? sizeof(unix_address) : sizeof(tcp_address);
	return is_unix ? (void *)&unix_address : (void *)&tcp_address;
}

static void tune(int fd)
{
	int one = 1, size = UNIX_BUFFER;

	if (is_unix)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	else
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int listen_somewhere(void)
{
	int fd = new_socket();
	socklen_t length;
	struct sockaddr *sa;

	tcp_address.sin_family = AF_INET;
	tcp_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	unix_address.sun_family = AF_UNIX;
	snprintf(unix_address.sun_path, sizeof(unix_address.sun_path),
		 "/tmp/raw-llp.%d", getpid());
	sa = address(&length);
	if (bind(fd, sa, length) < 0)
		fail("bind");
	if (!is_unix && getsockname(fd, sa, &length) < 0)
		fail("getsockname");
	if (listen(fd, 100) < 0)
		fail("listen");
	return fd;
}

static int connect_there(void)
{
	int fd = new_socket();
	socklen_t length;
	struct sockaddr *sa = address(&length);

	tune(fd);
	if (connect(fd, sa, length) < 0)
		fail("connect");
	return fd;
}

static int accept_one(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		fail("accept");
	tune(fd);
	return fd;
}

static void put(int fd, const char *data, size_t length)
{
	while (length) {
		ssize_t n = send(fd, data, length, MSG_NOSIGNAL);

		if (n <= 0)
			fail("send");
		data += n;
		length -= n;
	}
}

/* False at the end of the stream. */
static bool get(int fd, char *data, size_t length)
{
	while (length) {
		ssize_t n = read(fd, data, length);

		if (n < 0)
			fail("read");
		if (n == 0)
			return false;
		data += n;
		length -= n;
	}
	return true;
}

static char *new_buffer(size_t size)
{
	char *buffer = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

	if (!buffer)
		fail("memory");
	memset(buffer, 1, size);
	return buffer;
}

/* -------------------------------------------------------------- measures */

/* The receiver tells what has arrived, from the first octet to the last. */
static void receive_all(int fd, char *buffer, size_t size)
{
	uint64_t octets = 0;
	double start;
	ssize_t n;

	if (!get(fd, buffer, size))
		fail("no data");
	start = now();
	/* Small messages are taken as they come, many at a time. */
	if (size < 65536)
		size = 65536;
	while ((n = read(fd, buffer, size)) > 0)
		octets += n;
	put(fd, (char *)&octets, sizeof(octets));
	start = now() - start;
	put(fd, (char *)&start, sizeof(start));
}

static void bandwidth(int listener, size_t size, double seconds)
{
	char *buffer = new_buffer(size < 65536 ? 65536 : size);
	uint64_t octets;
	double end, took;
	int fd;

	if (fork() == 0) {
		receive_all(accept_one(listener), buffer, size);
		exit(0);
	}
	fd = connect_there();
	end = now() + seconds;
	while (now() < end)
		for (size_t sent = 0; sent < 1 << 20; sent += size)
			put(fd, buffer, size);
	shutdown(fd, SHUT_WR);
	if (!get(fd, (char *)&octets, sizeof(octets)) ||
	    !get(fd, (char *)&took, sizeof(took)))
		fail("no result");
	printf("%.1f MiB/s %.0f messages/s\n", octets / took / 1048576,
	       octets / took / size);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void latency(int listener, size_t size, int count)
{
	char *buffer = new_buffer(size);
	double *times = calloc(count, sizeof(*times));
	int fd;

	if (fork() == 0) {
		fd = accept_one(listener);
		while (get(fd, buffer, size))
			put(fd, buffer, size);
		exit(0);
	}
	fd = connect_there();
	for (int i = 0; i < count; i++) {
		double start = now();

		put(fd, buffer, size);
		if (!get(fd, buffer, size))
			fail("no answer");
		times[i] = (now() - start) / 2;
	}
	close(fd);
	qsort(times, count, sizeof(*times), compare);
	printf("%.3f us\n", 1e6 * times[count / 2]);
}

static void connections(int listener, int count)
{
	char buffer[MESSAGE] = { 0 };
	double start = now();
	int fd;

	if (fork() == 0) {
		for (int i = 0; i < count; i++) {
			fd = accept_one(listener);
			if (get(fd, buffer, MESSAGE))
				put(fd, buffer, MESSAGE);
			close(fd);
		}
		exit(0);
	}
	for (int i = 0; i < count; i++) {
		fd = connect_there();
		put(fd, buffer, MESSAGE);
		if (!get(fd, buffer, MESSAGE))
			fail("no answer");
		close(fd);
	}
	printf("%.1f connections/s\n", count / (now() - start));
}

static void usage(void)
{
	fprintf(stderr, "usage: raw-llp tcp|unix bandwidth SIZE SECONDS\n"
		"       raw-llp tcp|unix latency SIZE COUNT\n"
		"       raw-llp tcp|unix connect COUNT\n");
	exit(2);
}

int main(int argc, char **argv)
{
	int listener;

	if (argc < 4)
		usage();
	is_unix = !strcmp(argv[1], "unix");
	listener = listen_somewhere();
	if (!strcmp(argv[2], "bandwidth") && argc == 5)
		bandwidth(listener, atol(argv[3]), atof(argv[4]));
	else if (!strcmp(argv[2], "latency") && argc == 5)
		latency(listener, atol(argv[3]), atoi(argv[4]));
	else if (!strcmp(argv[2], "connect"))
		connections(listener, atoi(argv[3]));
	else
		usage();
	if (is_unix)
		unlink(unix_address.sun_path);
	while (wait(NULL) > 0)
		;
	return 0;
}
