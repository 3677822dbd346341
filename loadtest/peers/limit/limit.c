/* The limit: what this machine's TCP costs when a server does nothing else.
 *
 * One thread, one epoll loop. Every blank line that ends a head is answered with fixed bytes of the
 * length that vote-status sends for "can vote"; nothing is parsed, looked up, or remembered. The only
 * thing read from the head is a line `Connection: close`, so that the same loop is the limit for a new
 * connection per request. A head cut inside its last line end is recognised; a `Connection` line cut
 * between two segments is not, because load generators send a head in one piece.
 *
 * Usage: limit PORT   (listens on 127.0.0.1)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADERS                                                                                    \
	"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\n"                               \
	"Content-Type: application/json; charset=utf-8\r\nCache-Control: no-store\r\n"             \
	"Access-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n"                    \
	"Content-Length: 115\r\n"
#define BODY                                                                                       \
	"{\"success\":true,\"can_vote\":true,\"message\":\"Vous pouvez voter maintenant\","        \
	"\"next_vote_at\":null,\"cooldown_minutes\":90}"
#define KEEP HEADERS "\r\n" BODY
#define CLOSE HEADERS "Connection: close\r\n\r\n" BODY
#define CLOSE_LINE "Connection: close\r\n"

_Static_assert(sizeof(BODY) - 1 == 115, "Content-Length above");

enum { RESPONSES_PER_WRITE = 64, EVENTS_PER_TURN = 1024, READ_BYTES = 64 * 1024, FD_MAX = 1 << 20 };

static char keep_block[RESPONSES_PER_WRITE * (sizeof(KEEP) - 1)];
static char input[READ_BYTES];
/* The last bytes of the previous read of a descriptor, as far as they may begin "\n\r\n". */
static unsigned char matched[FD_MAX];

struct heads {
	int count;
	int close;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Counts the heads that end inside input[0..length]; `state` carries a cut line end to the next read. */
static struct heads heads_in(const char *bytes, size_t length, unsigned char *state)
{
	struct heads found = {0, 0};
	const char *at = bytes, *end = bytes + length;
	unsigned char cut = *state;

	*state = 0;
	if (cut == 1 && length >= 2 && at[0] == '\r' && at[1] == '\n')
		found.count++, at += 2;
	else if (cut == 2 && at[0] == '\n')
		found.count++, at += 1;
	else if (cut == 1 && length == 1 && at[0] == '\r')
		*state = 2;
	while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		size_t left = (size_t)(end - ++at);
		if (left >= 2 && at[0] == '\r' && at[1] == '\n')
			found.count++, at += 2;
		else if (left < 2)
			*state = left == 0 ? 1 : at[0] == '\r' ? 2 : 0;
		else if (at[0] == 'C' && left >= sizeof(CLOSE_LINE) - 1 &&
			 memcmp(at, CLOSE_LINE, sizeof(CLOSE_LINE) - 1) == 0)
			found.close = 1;
	}
	return found;
}

/* Reads once and answers; 0 when the descriptor is done with, 1 when it stays, -1 when nothing was there. */
static int serve(int fd)
{
	ssize_t length = recv(fd, input, sizeof(input), MSG_DONTWAIT);
	if (length < 0)
		return -1;
	if (length == 0)
		return 0;
	struct heads found = heads_in(input, (size_t)length, &matched[fd]);
	if (found.close) {
		ssize_t sent = send(fd, CLOSE, sizeof(CLOSE) - 1, MSG_NOSIGNAL);
		(void)sent; /* the connection ends here either way */
		return 0;
	}
	while (found.count > 0) {
		int now = found.count < RESPONSES_PER_WRITE ? found.count : RESPONSES_PER_WRITE;
		size_t want = (size_t)now * (sizeof(KEEP) - 1);
		if (send(fd, keep_block, want, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)want)
			return 0; /* a peer that does not read is dropped: no state, no buffer */
		found.count -= now;
	}
	return 1;
}

/* One connection a turn: asking for another until there is none costs one call more for every turn. */
static void accept_one(int listener, int epoll)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	if (fd >= FD_MAX) {
		close(fd);
		return;
	}
	matched[fd] = 0;
	/* Most new connections bring their request with them. */
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	if (serve(fd) == 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		close(fd);
}

static int listen_on(int port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		die("socket");
	/* Accepted sockets inherit it: no call per connection. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		die("TCP_NODELAY");
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4096) < 0)
		die("listen");
	return fd;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: limit PORT\n");
		return 2;
	}
	for (int i = 0; i < RESPONSES_PER_WRITE; i++)
		memcpy(keep_block + (size_t)i * (sizeof(KEEP) - 1), KEEP, sizeof(KEEP) - 1);
	int listener = listen_on(atoi(argv[1])), epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS_PER_TURN];
	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
		die("epoll");
	for (;;) {
		int ready = epoll_wait(epoll, events, EVENTS_PER_TURN, -1);
		for (int i = 0; i < ready; i++) {
			int fd = events[i].data.fd;
			if (fd == listener)
				accept_one(listener, epoll);
			else if (serve(fd) == 0 || (events[i].events & EPOLLERR))
				close(fd);
		}
	}
}
