/*
 * The load client of the bench: sends requests, drops content inside the kernel, and prints what it timed as JSON.
 *
 *   load -a 127.0.0.1:3142 [-c 8] [-n 1000] [-s SECONDS] [-i MS] [-f FILE] [-k] [-o] [-t]
 *        [-H LINES] [-u BYTES] [-w BYTES] [-q PATH] [-x STATUS] TARGET...
 *
 *   -c  connections at once              -n  requests in all, over the targets in turn
 *   -s  no new request after so many seconds (30); the run ends 30 s later at the latest
 *   -i  a connection waits so many milliseconds from one request to its next; the first requests are spread over that time
 *   -f  every content has to equal this file, byte for byte; it is then read and not dropped
 *   -k  a new connection for each request
 *   -o  the request names a path, as origins are asked; otherwise the whole URL, as proxies are asked
 *   -t  every connection is a tunnel made with CONNECT, and the requests in it name a path
 *   -H  further field lines of each request, without the last line break
 *   -u  each request is a POST of so many bytes, which count as those of its response
 *   -w  every connection is a WebSocket, and each request so many bytes that come back
 *   -q  each request is a check of nginx at this path, and names the target in X-Original-URI
 *   -x  the status that is expected (200); 304 has no content
 *
 * Dropping is recv with MSG_TRUNC: the kernel counts the bytes and copies none, so that the client is not what limits large
 * transfers. Content is framed by Content-Length or by the end of the connection; chunked content counts as failed.
 * A status other than the expected one counts as wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16384, PIECE = 1 << 20, TARGET_MAX = 2048 };
enum stage { IDLE, TUNNEL, HEAD, CONTENT };

typedef struct {
  int fd;
  enum stage stage;
  int reused;          /* the connection has answered before: if it ends now, the request is repeated on a new one */
  int last;            /* the response ends the connection */
  int wrong;           /* the content differs, or the status was not the expected one */
  char head[HEAD_MAX];
  size_t head_length;
  long long left;      /* bytes of content to come; LLONG_MAX when the end of the connection ends it */
  long long offset;    /* bytes of content so far */
  const char *target;
  long long to_send;   /* bytes of the request's content that wait for the connection */
  double due, sent, first;
} Connection;

static struct sockaddr_in server;
static char **targets;
static int target_count, always_new, origin_form, tunnels, poller;
static double begun, no_new_after = 30, interval;
static long long requests_left, requests_sent, upload, echo;
static const char *lines = "", *check, *status = "200";
static unsigned char *expected;
static long long expected_size;
static char piece[PIECE];

static long long responses, bytes, failed, wrong;
static double *first_bytes, *wholes;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void close_connection(Connection *c) {
  close(c->fd);
  c->fd = -1;
}

/* Connecting blocks: on the loopback the kernel accepts at once. */
static void open_connection(Connection *c) {
  int on = 1;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0) die("socket");
  if (connect(c->fd, (struct sockaddr *)&server, sizeof server) < 0) die("connect");
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  c->reused = 0;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) < 0) die("epoll_ctl");
}

/* A failed send shows as the end of the connection, which is read next. */
static void send_text(Connection *c, const char *text, int length) {
  c->head_length = 0;
  if (send(c->fd, text, (size_t)length, MSG_NOSIGNAL) != length) shutdown(c->fd, SHUT_RDWR);
}

/* Sends what the connection takes of the request's content; the rest when it takes more. */
static void send_content(Connection *c) {
  while (c->to_send > 0) {
    ssize_t n = send(c->fd, piece, c->to_send < PIECE ? (size_t)c->to_send : PIECE, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n < 0) shutdown(c->fd, SHUT_RDWR);
    c->to_send = n < 0 ? 0 : c->to_send - n;
  }
  struct epoll_event event = {.events = EPOLLIN | (c->to_send > 0 ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
}

static void send_echo(Connection *c) {
  c->stage = CONTENT;
  c->left = c->to_send = echo;
  send_content(c);
}

static void send_get(Connection *c) {
  char text[16 * TARGET_MAX], more[256] = "";
  const char *host = strstr(c->target, "://") + 3, *path = strchr(host, '/');
  if (upload) snprintf(more, sizeof more, "Content-Length: %lld\r\n", upload);
  if (echo) snprintf(more, sizeof more, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
  const char *asked = check ? check : tunnels || origin_form ? path : c->target;
  int length = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: Debian APT-HTTP/1.3 (2.6.1)\r\n%s%s%s%s%s%s%s\r\n",
                        upload ? "POST" : "GET", asked, (int)(path - host), host,
                        check ? "X-Original-URI: " : "", check ? path : "", check ? "\r\n" : "",
                        always_new ? "Connection: close\r\n" : "", more, lines, *lines ? "\r\n" : "");
  if (length >= (int)sizeof text) exit(2);
  c->stage = HEAD;
  send_text(c, text, length);
  c->to_send = upload;
  if (upload) send_content(c);
}

static void send_request(Connection *c) {
  c->offset = c->wrong = c->last = 0;
  c->first = 0;
  int is_new = c->fd < 0;
  if (is_new) open_connection(c);
  if (!is_new && echo) return send_echo(c);
  if (!is_new || !tunnels) return send_get(c);
  char text[2 * TARGET_MAX];
  const char *host = strstr(c->target, "://") + 3;
  int name = (int)(strchr(host, '/') - host);
  c->stage = TUNNEL;
  send_text(c, text, snprintf(text, sizeof text, "CONNECT %.*s HTTP/1.1\r\nHost: %.*s\r\n\r\n", name, host, name, host));
}

/* Sends the connection's next request if one is left and its time has come. */
static void next_request(Connection *c) {
  double time = now();
  c->stage = IDLE;
  if (requests_left == 0 || time - begun > no_new_after || time < c->due) return;
  requests_left--;
  c->target = targets[requests_sent++ % target_count];
  c->sent = time;
  c->due = time + interval;
  send_request(c);
}

static void finish(Connection *c) {
  if (expected && c->offset != expected_size) c->wrong = 1;
  first_bytes[responses] = c->first - c->sent;
  wholes[responses] = now() - c->sent;
  responses++;
  bytes += c->offset + upload;
  wrong += c->wrong;
  if (c->last || always_new) close_connection(c);
  else c->reused = 1;
  next_request(c);
}

/* A server may close a connection it has kept open just when the next request is sent; that request is sent again. */
static void fail(Connection *c) {
  int again = c->reused && c->stage == HEAD && c->head_length == 0;
  close_connection(c);
  failed += !again;
  if (again) send_request(c);
  else next_request(c);
}

static void take(Connection *c, const char *content, long long length) {
  if (c->first == 0 && length > 0) c->first = now();
  if (expected && !c->wrong &&
      (c->offset + length > expected_size || memcmp(expected + c->offset, content, (size_t)length) != 0))
    c->wrong = 1;
  c->offset += length;
  if (c->left != LLONG_MAX) c->left -= length;
}

/* Answers 1 when content may follow, 0 when more has to come, -1 when the response cannot be used. */
static int read_head(Connection *c) {
  ssize_t n = recv(c->fd, c->head + c->head_length, HEAD_MAX - 1 - c->head_length, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n <= 0) return -1;
  c->head_length += (size_t)n;
  c->head[c->head_length] = 0;
  char *end = strstr(c->head, "\r\n\r\n");
  if (!end) return c->head_length < HEAD_MAX - 1 ? 0 : -1;
  *end = 0;
  int http = strncmp(c->head, "HTTP/1.", 7) == 0 && c->head[8] == ' ';
  int good = http && strncmp(c->head + 9, c->stage == TUNNEL ? "200" : status, 3) == 0;
  if (c->stage == TUNNEL) {
    if (!good) return -1;
    send_get(c);
    return 0;
  }
  if (echo) {
    if (strncmp(c->head + 8, " 101", 4) != 0) return -1;
    send_echo(c);
    return 0;
  }
  if (!good) c->wrong = 1;
  if (strcasestr(c->head, "\r\nTransfer-Encoding:")) return -1;
  char *length = strcasestr(c->head, "\r\nContent-Length:");
  int without = http && strncmp(c->head + 9, "304", 3) == 0;
  c->left = without ? 0 : length ? atoll(length + 17) : LLONG_MAX;
  c->last = (!length && !without) || c->head[7] == '0' || strcasestr(c->head, "\r\nConnection: close") != NULL;
  c->stage = CONTENT;
  take(c, end + 4, c->head + c->head_length - (end + 4));
  return 1;
}

static void readable(Connection *c) {
  if (c->stage == IDLE) close_connection(c);
  int head = c->stage == CONTENT ? 1 : c->stage == IDLE ? 0 : read_head(c);
  if (head < 0) fail(c);
  if (head <= 0) return;
  /* Bounded, so that one fast connection leaves time for the others. */
  for (int round = 0; round < 8 && c->left > 0; round++) {
    size_t most = c->left < PIECE ? (size_t)c->left : PIECE;
    ssize_t n = recv(c->fd, piece, most, expected ? 0 : MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n == 0 && c->left == LLONG_MAX) c->left = 0;
    else if (n <= 0) return fail(c);
    take(c, piece, n);
  }
  if (c->left == 0) finish(c);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_times(const char *name, double *times) {
  const char *names[] = {"min", "median", "p99", "max"};
  const double at[] = {0, 0.5, 0.99, 1};
  qsort(times, (size_t)responses, sizeof *times, by_size);
  printf(",\"%s\":{", name);
  for (int i = 0; i < 4; i++)
    printf("%s\"%s\":%.3f", i ? "," : "", names[i], responses ? times[(long long)((double)(responses - 1) * at[i])] * 1000 : 0);
  printf("}");
}

static void expect(const char *file) {
  struct stat info;
  int fd = open(file, O_RDONLY);
  if (fd < 0 || fstat(fd, &info) < 0) die(file);
  expected_size = info.st_size;
  expected = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (expected == MAP_FAILED) die("mmap");
}

static void read_options(int count, char **arguments, int *connections) {
  int option, port;
  char host[64];
  requests_left = 1;
  while ((option = getopt(count, arguments, "a:c:n:s:i:f:kotH:u:w:q:x:")) != -1) switch (option) {
    case 'a':
      if (sscanf(optarg, "%63[^:]:%d", host, &port) != 2) exit(2);
      server.sin_family = AF_INET;
      server.sin_port = htons((unsigned short)port);
      inet_pton(AF_INET, host, &server.sin_addr);
      break;
    case 'c': *connections = atoi(optarg); break;
    case 'n': requests_left = atoll(optarg); break;
    case 's': no_new_after = atof(optarg); break;
    case 'i': interval = atof(optarg) / 1000; break;
    case 'k': always_new = 1; break;
    case 'o': origin_form = 1; break;
    case 't': tunnels = 1; break;
    case 'f': expect(optarg); break;
    case 'H': lines = optarg; break;
    case 'u': upload = atoll(optarg); break;
    case 'w': echo = atoll(optarg); break;
    case 'q': check = optarg; break;
    case 'x': status = optarg; break;
    default: exit(2);
    }
  targets = arguments + optind;
  target_count = count - optind;
  if (target_count > 0 && server.sin_port) return;
  fprintf(stderr, "load -a ADDRESS:PORT ... TARGET...\n");
  exit(2);
}

/* Whether a request is out, or one waits for its time. */
static int busy(Connection *c) {
  if (c->stage == IDLE && interval > 0) next_request(c);
  return c->stage != IDLE || (interval > 0 && requests_left > 0 && now() - begun <= no_new_after);
}

int main(int count, char **arguments) {
  int connections = 1;
  read_options(count, arguments, &connections);
  first_bytes = calloc((size_t)requests_left + 1, sizeof *first_bytes);
  wholes = calloc((size_t)requests_left + 1, sizeof *wholes);
  Connection *all = calloc((size_t)connections, sizeof *all);
  poller = epoll_create1(0);
  begun = now();
  for (int i = 0; i < connections; i++) {
    all[i].fd = -1;
    all[i].due = begun + interval * i / connections;
    next_request(&all[i]);
  }
  for (;;) {
    int still = 0;
    for (int i = 0; i < connections; i++) still += busy(&all[i]);
    if (!still) break;
    if (now() - begun > no_new_after + 30) {
      failed += still;
      break;
    }
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, interval > 0 ? 1 : 100);
    for (int i = 0; i < ready; i++) {
      Connection *c = events[i].data.ptr;
      if (c->fd >= 0 && c->to_send > 0) send_content(c);
      if (c->fd >= 0 && events[i].events & ~EPOLLOUT) readable(c);
    }
  }
  printf("{\"seconds\":%.4f,\"responses\":%lld,\"bytes\":%lld,\"failed\":%lld,\"wrong\":%lld", now() - begun, responses, bytes,
         failed, wrong);
  print_times("first", first_bytes);
  print_times("whole", wholes);
  printf("}\n");
  return 0;
}
