#include "drivers/shim/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/owner.h"
#include "drivers/shim/client_internal.h"

/* Taken from one stream in one turn of the loop, so that others get theirs. */
#define READ_BYTES ((size_t)64 << 10)

struct run_stream {
	struct client_run *run;
	enum shim_stream stream;
	struct client_watch *watch; /* NULL: not there yet, or at its end */
	struct buf kept;
};

struct client_run {
	TAILQ_ENTRY(client_run) entry;
	struct shim_client *client;
	uint64_t id;
	int runner_fd; /* the runner's end, until it is sent to the launcher; else -1 */
	struct client_watch *control;
	struct run_stream out, err;
	bool truncated;
	run_output_fn *on_output;
	run_done_fn *done;
	void *user;
};

static struct client_run *run_free(struct client_run *run)
{
	struct shim_client *c = run->client;

	TAILQ_REMOVE(&c->runs, run, entry);
	c->n_runs--;
	run->runner_fd = close_fd(run->runner_fd);
	run->control = client_watch_free(run->control);
	run->out.watch = client_watch_free(run->out.watch);
	run->err.watch = client_watch_free(run->err.watch);
	buf_free(&run->out.kept);
	buf_free(&run->err.kept);
	free(run);
	return NULL;
}

static struct client_run *find(struct shim_client *c, uint64_t id)
{
	struct client_run *run;

	TAILQ_FOREACH (run, &c->runs, entry)
		if (run->id == id)
			return run;
	return NULL;
}

static void finish(struct client_run *run, const struct run_result *result, const struct error *err)
{
	struct shim_client *c = run->client;
	run_done_fn *done = run->done;
	void *user = run->user;

	/* The callback may begin others, and the result lives in this one: it is out of the way but
	 * there. A cancel of it finds nothing. */
	run->id = 0;
	run->control = client_watch_free(run->control);
	c->n_runs_ending++;
	done(user, result, err);
	c->n_runs_ending--;
	(void)run_free(run);
}

static void keep(struct client_run *run, struct run_stream *s, const char *bytes, size_t len)
{
	size_t room = s->kept.max - s->kept.len;

	if (len > room)
		run->truncated = true;
	buf_append(&s->kept, bytes, len < room ? len : room);
	/* No memory: what came before is worth having. */
	if (s->kept.failed != 0) {
		s->kept.failed = 0;
		run->truncated = true;
	}
}

/* Reads once: more than 0 when there may be more; 0 at the end, -EAGAIN when there is none now. The
 * run may be gone afterwards, when the callback cancelled it. */
static ssize_t read_stream(struct run_stream *s)
{
	char bytes[READ_BYTES];
	struct client_run *run = s->run;
	ssize_t n;

	do
		n = read(s->watch->fd, bytes, sizeof(bytes));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > 0) {
		keep(run, s, bytes, (size_t)n);
		if (run->on_output)
			run->on_output(run->user, s->stream, bytes, (size_t)n);
	}
	return n;
}

static void on_stream(void *owner, int events)
{
	struct run_stream *s = owner;

	(void)events;
	uint64_t id = s->run->id;
	struct shim_client *c = s->run->client;
	ssize_t n = read_stream(s);

	if (n > 0 || n == -EAGAIN || !find(c, id))
		return;
	s->watch = client_watch_free(s->watch);
}

/* Nobody of the program writes any more: what is in the pipe, and no more than it can hold. False
 * when the run was cancelled meanwhile. */
static bool drain(struct shim_client *c, uint64_t id, struct run_stream *s)
{
	int left = s->watch ? fcntl(s->watch->fd, F_GETPIPE_SZ) : 0;

	while (left > 0) {
		ssize_t n = read_stream(s);

		if (!find(c, id))
			return false;
		if (n <= 0)
			break;
		left -= (int)n;
	}
	return true;
}

static void on_exited(struct client_run *run, const struct shim_run_exit *exit)
{
	struct shim_client *c = run->client;
	uint64_t id = run->id;

	if (!drain(c, id, &run->out) || !drain(c, id, &run->err))
		return;
	const struct run_result result = {
		.timed_out = exit->timed_out != 0,
		.exit_code = exit->code,
		.signal = exit->signal,
		.out = run->out.kept.data ? run->out.kept.data : "",
		.err = run->err.kept.data ? run->err.kept.data : "",
		.out_len = run->out.kept.len,
		.err_len = run->err.kept.len,
		.truncated = run->truncated,
	};
	finish(run, &result, NULL);
}

static void on_failed(struct client_run *run, const struct shim_failure *failure)
{
	struct error err;

	if (failure->step == SHIM_STEP_SHIM && failure->error == EAGAIN)
		(void)error_set(&err, EAGAIN, "the launcher runs too many programs already");
	else
		(void)shim_failure_error(failure, &err);
	finish(run, NULL, &err);
}

static void on_gone(struct client_run *run)
{
	struct error err;

	(void)error_set(&err, EIO, "the launcher went away while the program ran; it was ended");
	finish(run, NULL, &err);
}

/* Takes the reading end of a stream. */
static int take_output(struct client_run *run, const struct shim_run_output *output, int *fd)
{
	struct run_stream *s = output->stream == SHIM_STREAM_STDOUT ? &run->out : &run->err;

	if (*fd < 0 || s->watch)
		return -EPROTO;
	if (fcntl(*fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	int r = client_watch_new(run->client->loop, *fd, on_stream, s, &s->watch);
	if (r == 0)
		(void)take_fd(fd);
	return r;
}

static void on_control(void *owner, int events)
{
	struct client_run *run = owner;

	(void)events;
	for (;;) {
		AUTO_CLOSE int fd = -1;
		struct shim_message m;
		int r = shim_message_recv(run->control->fd, &m, &fd);

		if (r == -EAGAIN)
			return;
		if (r == 1 && m.header.type == SHIM_RUN_OUTPUT) {
			if (take_output(run, &m.body.run_output, &fd) == 0)
				continue;
			on_gone(run);
		} else if (r == 1 && m.header.type == SHIM_RUN_EXITED) {
			on_exited(run, &m.body.run_exit);
		} else if (r == 1 && m.header.type == SHIM_FAILED) {
			on_failed(run, &m.body.failure);
		} else {
			on_gone(run);
		}
		return;
	}
}

bool client_run_send(struct shim_client *c, int *ret_error)
{
	for (struct client_run *run = TAILQ_FIRST(&c->runs); run; run = TAILQ_NEXT(run, entry)) {
		struct shim_message m;

		if (run->runner_fd < 0)
			continue;
		shim_message_init(&m, SHIM_RUN, 0, 0);
		*ret_error = shim_message_send(c->launcher->fd, &m, run->runner_fd);
		if (*ret_error < 0)
			return true;
		run->runner_fd = close_fd(run->runner_fd);
	}
	*ret_error = 0;
	return false;
}

void client_run_drop_unsent(struct shim_client *c)
{
	/* The end of file on the other end says the rest. */
	for (struct client_run *run = TAILQ_FIRST(&c->runs); run; run = TAILQ_NEXT(run, entry))
		run->runner_fd = close_fd(run->runner_fd);
}

void client_run_free_all(struct shim_client *c)
{
	struct client_run *run;

	while ((run = TAILQ_FIRST(&c->runs)))
		(void)run_free(run);
}

static int check(const struct shim_client *c, const struct run_command *command, struct error *err)
{
	if (!c->ready) {
		int r = error_set(err, EAGAIN, "the launcher is not there at the moment");
		error_remedy(err, "try again; the service starts it anew");
		return r;
	}
	if (c->n_runs >= SHIM_CLIENT_RUNS_MAX + c->n_runs_ending)
		return error_set(err, EAGAIN, "%d programs run already", SHIM_CLIENT_RUNS_MAX);
	if (command->timeout_ms <= 0 || command->timeout_ms > RUN_TIMEOUT_MAX_MS) {
		int r = error_set(err, EINVAL, "is not between 1 and %lld",
				  (long long)RUN_TIMEOUT_MAX_MS);
		error_field(err, "timeout_ms");
		return r;
	}
	if (command->output_max_bytes > RUN_OUTPUT_MAX_BYTES)
		return error_set(err, EINVAL, "more output is asked for than %zu bytes",
				 RUN_OUTPUT_MAX_BYTES);
	return 0;
}

static size_t count(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static int encode(const struct shim_client *c, const struct run_command *command, int *ret_fd,
		  struct error *err)
{
	const struct launch_request request = {
		.serial = 1, /* a record has one; the runner does not use it */
		.attempt = 1,
		.uid = command->uid,
		.gid = command->gid,
		.groups = command->groups,
		.n_groups = command->n_groups,
		.argv = (const char *const *)command->argv,
		.n_argv = count(command->argv),
		.env = (const char *const *)command->env,
		.n_env = count(command->env),
		.work_dir = command->cwd ? command->cwd : "/",
		.timeout_ms = command->timeout_ms,
		.forbidden_dev = c->config.forbidden_dev,
	};

	return launch_record_encode(&request, ret_fd, err);
}

/* The socket pair, with the record in the runner's end. */
static int open_control(int record_fd, int *ret_ours, int *ret_theirs)
{
	AUTO_CLOSE int ours = -1, theirs = -1;
	struct shim_message m;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	ours = fds[0];
	theirs = fds[1];
	shim_message_init(&m, SHIM_RUN_RECORD, 0, 0);
	int r = shim_message_send(ours, &m, record_fd);
	if (r < 0)
		return r;
	*ret_ours = take_fd(&ours);
	*ret_theirs = take_fd(&theirs);
	return 0;
}

int shim_client_run(struct shim_client *c, const struct run_command *command, run_done_fn *done,
		    void *user, uint64_t *ret_id, struct error *err)
{
	AUTO_CLOSE int record = -1, ours = -1, theirs = -1;
	int r = check(c, command, err);

	if (r == 0)
		r = encode(c, command, &record, err);
	if (r < 0)
		return r;
	r = open_control(record, &ours, &theirs);
	/* As many descriptors in flight as one user may have. */
	if (r == -ETOOMANYREFS)
		r = -EAGAIN;
	if (r < 0)
		return error_set(err, -r, "the program cannot be handed to the launcher: %s",
				 strerrordesc_np(-r));
	struct client_run *run = calloc(1, sizeof(*run));
	if (!run)
		return error_oom(err);
	run->client = c;
	run->id = ++c->last_run;
	run->runner_fd = -1;
	run->out.run = run->err.run = run;
	run->out.stream = SHIM_STREAM_STDOUT;
	run->err.stream = SHIM_STREAM_STDERR;
	run->out.kept = run->err.kept = BUF_INIT(command->output_max_bytes);
	run->on_output = command->on_output;
	run->done = done;
	run->user = user;
	TAILQ_INSERT_TAIL(&c->runs, run, entry);
	c->n_runs++;
	r = client_watch_new(c->loop, ours, on_control, run, &run->control);
	if (r == 0) {
		(void)take_fd(&ours);
		/* Sent from the loop, so that all of a turn go at once. */
		run->runner_fd = take_fd(&theirs);
		r = client_watch_events(c->launcher, UV_READABLE | UV_WRITABLE);
	}
	if (r < 0) {
		(void)run_free(run);
		return error_set(err, -r, "cannot reach the launcher: %s", uv_strerror(r));
	}
	if (ret_id)
		*ret_id = run->id;
	return 0;
}

void shim_client_run_cancel(struct shim_client *c, uint64_t id)
{
	struct client_run *run = id == 0 ? NULL : find(c, id);

	if (run)
		(void)run_free(run);
}
