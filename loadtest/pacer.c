/* Asks, or casts votes, at a fixed rate, and says how long each answer took from the instant at which its request
 * was due. Nothing waits for an answer before the next request is due, so a server that stalls is charged for every
 * request that should have been sent meanwhile (no coordinated omission).
 *
 * It is charged for nothing else. An answer has come when the kernel has it, by its receive time stamp, and not when
 * this program gets to read it. Every 100 µs what has come is read and what is due is sent, because waking for each
 * would cost more than all else. Where this program is woken later than that, what follows is due as much later, and
 * the share of time that was lost is told: it says nothing about the server.
 *
 * Usage: pacer PORT RATE SECONDS CONNECTIONS [KEY FIRST]
 * Without KEY it asks for addresses all over the table; with it, it casts single votes, numbered from FIRST. At RATE 0
 * every connection asks again as soon as it has its answer.
 * A line of JSON on standard output.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, MESSAGE_BYTES = 1024, DUE_MAX = 1 << 22 };
enum { SECOND_NS = 1000000000, TICKS_PER_SECOND = 10000, TICK_NS = SECOND_NS / TICKS_PER_SECOND, SETTLE_TICKS = 2000 };
/* 64 buckets for every doubling: a figure is good to 1.6 %. */
enum { SUB_BITS = 6, BUCKETS = (64 - SUB_BITS) << SUB_BITS };

struct connection {
	int fd, length;
	int64_t due;
	char answer[MESSAGE_BYTES];
};

static struct connection all[CONNECTIONS_MAX];
static int idle[CONNECTIONS_MAX], idle_first, idle_count;
/* When each request that no connection is free for yet was due. */
static int64_t due[DUE_MAX];
static uint64_t buckets[BUCKETS];
static int64_t answered, failed;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The clock of the kernel's time stamps. */
static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * (int64_t)SECOND_NS + now.tv_nsec;
}

static void sleep_until(int64_t ns)
{
	struct timespec until = {ns / SECOND_NS, ns % SECOND_NS};
	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
}

static void count(int64_t ns)
{
	uint64_t value = ns > 0 ? (uint64_t)ns : 1;
	int shift = 63 - __builtin_clzll(value) - SUB_BITS;
	buckets[shift <= 0 ? value : ((uint64_t)shift << SUB_BITS) + (value >> shift)]++;
}

static double percentile_us(double share)
{
	uint64_t left = (uint64_t)((double)answered * share);
	for (int at = 0; at < BUCKETS; at++) {
		int shift = at < 2 << SUB_BITS ? 0 : (at >> SUB_BITS) - 1;
		if (left < buckets[at])
			return (double)((uint64_t)(at - (shift << SUB_BITS)) << shift) / 1000;
		left -= buckets[at];
	}
	return 0;
}

static void open_connection(int epoll, int at, int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)at};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("connect");
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		die("socket");
	all[at].fd = fd;
	idle[idle_count++] = at;
}

static int write_request(char *out, int64_t nth, const char *key)
{
	char body[64];
	if (!key) {
		uint64_t mixed = (uint64_t)nth * 0x9E3779B97F4A7C15u;
		return snprintf(out, MESSAGE_BYTES,
				"GET /api/vote/%d/status/%d.%d.%d.%d HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/8.5.0\r\n"
				"Accept: */*\r\n\r\n", 28 + (int)(mixed >> 58) % 50, 11 + (int)(mixed >> 50 & 63),
				(int)(mixed >> 40 & 255), (int)(mixed >> 32 & 255), (int)(mixed >> 24 & 255));
	}
	int length = snprintf(body, sizeof(body), "{\"server_id\":28,\"ip\":\"%d.%d.%d.%d\"}", 130 + (int)(nth >> 24 & 31),
			      (int)(nth >> 16 & 255), (int)(nth >> 8 & 255), (int)(nth & 255));
	return snprintf(out, MESSAGE_BYTES,
			"POST /v1/votes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n"
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", key, length, body);
}

static void send_next(int64_t due_ns, int64_t nth, const char *key)
{
	char request[MESSAGE_BYTES];
	struct connection *on = &all[idle[idle_first]];
	int length = write_request(request, nth, key);
	idle_first = (idle_first + 1) % CONNECTIONS_MAX, idle_count--;
	on->due = due_ns, on->length = 0;
	if (send(on->fd, request, (size_t)length, MSG_NOSIGNAL) != length)
		die("send");
}

/* Reads what is there; the length of a whole answer, or 0. */
static int take_answer(struct connection *from, int64_t *arrived)
{
	char control[CMSG_SPACE(sizeof(struct timespec))];
	struct iovec room = {from->answer + from->length, sizeof(from->answer) - 1 - (size_t)from->length};
	struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(from->fd, &message, MSG_DONTWAIT);
	if (length <= 0) {
		if (length < 0 && errno == EAGAIN)
			return 0;
		die("the connection ended");
	}
	struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
	if (stamp && stamp->cmsg_type == SO_TIMESTAMPNS) {
		struct timespec at;
		memcpy(&at, CMSG_DATA(stamp), sizeof(at));
		*arrived = at.tv_sec * (int64_t)SECOND_NS + at.tv_nsec;
	}
	from->length += (int)length;
	from->answer[from->length] = 0;
	char *end = strstr(from->answer, "\r\n\r\n"), *said = strstr(from->answer, "Content-Length: ");
	return end && said && from->length >= end + 4 - from->answer + atoi(said + 16) ? from->length : 0;
}

static void read_answers(int epoll, int64_t counted_from)
{
	struct epoll_event events[CONNECTIONS_MAX];
	int ready = epoll_wait(epoll, events, CONNECTIONS_MAX, 0);
	for (int i = 0; i < ready; i++) {
		int at = (int)events[i].data.u32;
		int64_t arrived = 0;
		if (!take_answer(&all[at], &arrived))
			continue;
		idle[(idle_first + idle_count++) % CONNECTIONS_MAX] = at;
		if (all[at].due < counted_from)
			continue;
		answered++;
		failed += strncmp(all[at].answer, "HTTP/1.1 20", 11) != 0;
		count(arrived - all[at].due);
	}
}

int main(int argc, char **argv)
{
	if (argc != 5 && argc != 7) {
		fprintf(stderr, "usage: pacer PORT RATE SECONDS CONNECTIONS [KEY FIRST]\n");
		return 2;
	}
	int connections = atoi(argv[4]), epoll = epoll_create1(EPOLL_CLOEXEC);
	const char *key = argc == 7 ? argv[5] : NULL;
	double rate = atof(argv[2]), seconds = atof(argv[3]);
	int64_t first = key ? atoll(argv[6]) : 0, sent = 0, made = 0, lost = 0, counted_from = INT64_MAX;
	int64_t ticks = SETTLE_TICKS + (int64_t)(seconds * TICKS_PER_SECOND), planned = now_ns(), over = 0;
	if (connections < 1 || connections > CONNECTIONS_MAX || rate < 0 || epoll < 0)
		die("arguments");
	for (int at = 0; at < connections; at++)
		open_connection(epoll, at, atoi(argv[1]));
	for (int64_t tick = 0; tick < ticks || sent < made || idle_count < connections; tick++) {
		int64_t now = now_ns();
		if (tick > ticks + 30 * TICKS_PER_SECOND)
			die("no answer for 30 s");
		/* What is due before the connections have settled is asked, and not counted. */
		if (tick == SETTLE_TICKS)
			counted_from = now;
		if (now > planned + TICK_NS) {
			lost += counted_from <= now && tick < ticks ? now - planned : 0;
			planned = now;
		}
		read_answers(epoll, counted_from);
		int64_t wanted = rate > 0 ? (int64_t)((double)(tick + 1) * rate / TICKS_PER_SECOND) : sent + idle_count;
		while (tick < ticks && made < wanted && made < sent + DUE_MAX)
			due[made++ % DUE_MAX] = now;
		for (; sent < made && idle_count > 0; sent++)
			send_next(due[sent % DUE_MAX], first + sent, key);
		over = tick < ticks ? now : over;
		planned += TICK_NS;
		sleep_until(planned);
	}
	seconds = (double)(over - counted_from) / SECOND_NS;
	printf("{\"requests\":%lld,\"failed\":%lld,\"requests_per_second\":%.1f,\"lost\":%.4f,", (long long)answered,
	       (long long)failed, (double)answered / seconds, (double)lost / SECOND_NS / seconds);
	printf("\"p50\":%.1f,\"p99\":%.1f,\"p99.9\":%.1f,\"max\":%.1f}\n", percentile_us(0.5), percentile_us(0.99),
	       percentile_us(0.999), percentile_us(0.9999999));
	return 0;
}
