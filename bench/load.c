/*
 * A load client for HTTP/1.1 proxies that costs next to nothing itself: content is discarded inside the kernel, or compared
 * with a file when asked to. Sends absolute-form GETs, keeps connections open, prints one line of JSON.
 *
 *   load -a 127.0.0.1:3142 -c 8 -n 1000 [-s SECONDS] [-f FILE] TARGET...
 *
 *   -c  connections at once       -n  requests in all, over the targets in turn
 *   -s  no new request after so many seconds, and twice that until the end (30)
 *   -f  every content has to equal this file, byte for byte
 *
 * Only answers framed by Content-Length are understood; anything else counts as failed, anything but 200 as wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16384, PIECE = 1 << 20 };

typedef struct {
  int fd;
  int busy;            /* a request is out */
  int reused;          /* the connection has answered before: if it ends now, the request is repeated on a new one */
  char head[HEAD_MAX];
  size_t head_length;  /* bytes of the head read so far */
  long long left;      /* bytes of content to come; -1 while the head is incomplete */
  long long offset;    /* bytes of content read */
  int wrong;           /* content differed, or the status was not 200 */
  int last;            /* the answer said Connection: close */
  const char *target;
  double sent, first;
} Connection;

static struct sockaddr_in proxy;
static int poller;
static char **targets;
static int target_count;
static long long requests_left, taken;
static double begun, no_new_after = 30;
static unsigned char *expected;
static long long expected_size;
static char piece[PIECE];

static long long responses, bytes, failed, wrong;
static double *first_bytes, *wholes, last_first;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void open_connection(Connection *c) {
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0) die("socket");
  if (connect(c->fd, (struct sockaddr *)&proxy, sizeof proxy) < 0) die("connect");
  int on = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  c->reused = 0;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) < 0) die("epoll_ctl");
}

static void close_connection(Connection *c) {
  close(c->fd);
  c->fd = -1;
}

static void send_request(Connection *c) {
  char text[4096], host[256] = "";
  sscanf(c->target, "http://%255[^/]", host);
  int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Debian APT-HTTP/1.3 (2.6.2)\r\n\r\n",
                        c->target, host);
  if (c->fd < 0) open_connection(c);
  c->head_length = 0;
  c->left = -1;
  c->offset = 0;
  c->wrong = 0;
  c->last = 0;
  c->first = 0;
  c->busy = 1;
  if (send(c->fd, text, (size_t)length, MSG_NOSIGNAL) != length && c->reused) {
    close_connection(c);
    send_request(c);
  }
}

/* Takes the next request, if there is one. */
static void next_request(Connection *c) {
  c->busy = 0;
  if (requests_left == 0 || now() - begun > no_new_after) return;
  requests_left--;
  c->target = targets[taken++ % target_count];
  c->sent = now();
  send_request(c);
}

static void finish(Connection *c) {
  double end = now();
  if (expected && c->offset != expected_size) c->wrong = 1;
  first_bytes[responses] = c->first - c->sent;
  wholes[responses] = end - c->sent;
  responses++;
  bytes += c->offset;
  wrong += c->wrong;
  if (c->last) close_connection(c);
  else c->reused = 1;
  next_request(c);
}

static void fail(Connection *c) {
  int repeat = c->reused && c->head_length == 0;
  close_connection(c);
  if (repeat) {
    send_request(c);
    return;
  }
  failed++;
  next_request(c);
}

static void take(Connection *c, const char *content, long long length) {
  if (c->first == 0 && length > 0) c->first = last_first = now();
  if (expected && !c->wrong &&
      (c->offset + length > expected_size || memcmp(expected + c->offset, content, (size_t)length) != 0))
    c->wrong = 1;
  c->offset += length;
  c->left -= length;
}

/* Answers 1 when the head is complete and understood, 0 when more has to come, -1 when it cannot be used. */
static int read_head(Connection *c) {
  ssize_t n = recv(c->fd, c->head + c->head_length, HEAD_MAX - 1 - c->head_length, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n <= 0) return -1;
  c->head_length += (size_t)n;
  c->head[c->head_length] = 0;
  char *end = strstr(c->head, "\r\n\r\n");
  if (!end) return c->head_length < HEAD_MAX - 1 ? 0 : -1;
  char *content = end + 4;
  *end = 0;
  if (strncmp(c->head, "HTTP/1.1 200", 12) != 0) c->wrong = 1;
  char *length = strcasestr(c->head, "\r\nContent-Length:");
  if (!length) return -1;
  c->left = atoll(length + 17);
  c->last = strcasestr(c->head, "\r\nConnection: close") != NULL;
  take(c, content, c->head + c->head_length - content);
  return 1;
}

static void readable(Connection *c) {
  if (!c->busy) {
    close_connection(c);
    return;
  }
  if (c->left < 0) {
    int head = read_head(c);
    if (head < 0) fail(c);
    if (head <= 0) return;
  }
  /* Bounded, so that one fast connection does not starve the others. */
  for (int round = 0; round < 8 && c->left > 0; round++) {
    size_t most = c->left < PIECE ? (size_t)c->left : PIECE;
    ssize_t n = recv(c->fd, piece, most, expected ? 0 : MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      fail(c);
      return;
    }
    take(c, piece, n);
  }
  if (c->left == 0) finish(c);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_times(const char *name, double *times) {
  qsort(times, (size_t)responses, sizeof *times, by_size);
  double at[4] = {0, 0.5, 0.99, 1};
  const char *names[4] = {"min", "median", "p99", "max"};
  printf("\"%s\":{", name);
  for (int i = 0; i < 4; i++) {
    double value = responses ? times[(long long)((double)(responses - 1) * at[i])] : 0;
    printf("%s\"%s\":%.3f", i ? "," : "", names[i], value * 1000);
  }
  printf("}");
}

int main(int count, char **arguments) {
  int option, connections = 1;
  requests_left = 1;
  while ((option = getopt(count, arguments, "a:c:n:s:f:")) != -1) {
    if (option == 'a') {
      char host[64];
      int port;
      if (sscanf(optarg, "%63[^:]:%d", host, &port) != 2) return fprintf(stderr, "-a ADDRESS:PORT\n"), 2;
      proxy.sin_family = AF_INET;
      proxy.sin_port = htons((unsigned short)port);
      inet_pton(AF_INET, host, &proxy.sin_addr);
    } else if (option == 'c') connections = atoi(optarg);
    else if (option == 'n') requests_left = atoll(optarg);
    else if (option == 's') no_new_after = atof(optarg);
    else if (option == 'f') {
      int fd = open(optarg, O_RDONLY);
      struct stat info;
      if (fd < 0 || fstat(fd, &info) < 0) die(optarg);
      expected_size = info.st_size;
      expected = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (expected == MAP_FAILED) die("mmap");
    } else return 2;
  }
  targets = arguments + optind;
  target_count = count - optind;
  if (target_count == 0 || !proxy.sin_port) return fprintf(stderr, "load -a ADDRESS:PORT ... TARGET...\n"), 2;
  first_bytes = calloc((size_t)requests_left + 1, sizeof *first_bytes);
  wholes = calloc((size_t)requests_left + 1, sizeof *wholes);
  poller = epoll_create1(0);
  Connection *all = calloc((size_t)connections, sizeof *all);
  begun = now();
  for (int i = 0; i < connections; i++) {
    all[i].fd = -1;
    next_request(&all[i]);
  }
  for (;;) {
    int busy = 0;
    for (int i = 0; i < connections; i++) busy += all[i].busy;
    if (!busy || now() - begun > 2 * no_new_after) {
      failed += busy;
      break;
    }
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, 100);
    for (int i = 0; i < ready; i++) {
      Connection *c = events[i].data.ptr;
      if (c->fd >= 0) readable(c);
    }
  }
  double seconds = now() - begun;
  printf("{\"seconds\":%.4f,\"responses\":%lld,\"bytes\":%lld,\"failed\":%lld,\"wrong\":%lld,", seconds, responses, bytes, failed, wrong);
  printf("\"lastFirst\":%.3f,", last_first * 1000);
  print_times("first", first_bytes);
  printf(",");
  print_times("whole", wholes);
  printf("}\n");
  return 0;
}
