# Files that block, and large directories: interrupts, O_NONBLOCK, poll, many readers, many sessions.

load common

setup_file() {
	hub_begin
	RUNS=$(start "$(script 'echo begun; sleep 1000')")
	DONE=$(start "$(script 'echo done; exit 3')")
	ended "$DONE"
	export RUNS DONE
}

# py PROGRAM ARG…
py() {
	/usr/bin/python3 -IS -c "$@"
}

@test "O_NONBLOCK: EAGAIN while there is nothing, else what there is" {
	local program='
import errno, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
for _ in range(3):
    try:
        print(os.read(fd, 4096).decode().strip() or "end", end=" ")
    except OSError as e:
        print(errno.errorcode[e.errno], end=" ")'

	eventually grep -q begun "$M/sessions/$RUNS/log"
	equal "$(py "$program" "$M/sessions/$RUNS/wait")" 'EAGAIN EAGAIN EAGAIN '
	equal "$(py "$program" "$M/sessions/$RUNS/follow")" 'begun EAGAIN EAGAIN '
	like "$(py "$program" "$M/sessions/$RUNS/lines")" '\{.*begun.*\} EAGAIN EAGAIN '
	equal "$(py "$program" "$M/executors/local/drained")" 'EAGAIN EAGAIN EAGAIN '
	equal "$(py "$program" "$M/sessions/$DONE/wait")" '3 end end '
	equal "$(py "$program" "$M/sessions/$DONE/follow")" 'done end end '
	# Also when it is set later.
	run -1 dd if="$M/sessions/$RUNS/wait" iflag=nonblock status=none
	like "$output" 'Resource temporarily unavailable'
}

@test "Ctrl-C, TERM and KILL end a blocked reader at once" {
	local file signal reader

	for file in "sessions/$RUNS/wait" "sessions/$RUNS/lines" "executors/local/drained"; do
		for signal in INT TERM KILL HUP; do
			# A background job of a shell without job control ignores INT, what nohup starts HUP.
			/usr/bin/python3 -IS -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execvp("cat", ["cat", sys.argv[1]])' "$M/$file" > /dev/null 3>&- &
			reader=$!
			eventually is_reading "$reader"
			kill -"$signal" "$reader"
			wait "$reader" || equal $? $((128 + $(kill -l "$signal")))
		done
	done
	run -124 timeout 0.2 cat "$M/sessions/$RUNS/wait"
	equal "$output" ''
}

# Whether cat waits.
is_reading() {
	[[ $(tr '\0' ' ' < "/proc/$1/cmdline" 2> /dev/null) == 'cat '* && $(cut -d ' ' -f 3 "/proc/$1/stat") == [SD] ]]
}

@test "a reader that is stopped goes on when it is continued" {
	local id reader

	id=$(start "$(script 'sleep 0.6; echo late; exit 4')")
	cat "$M/sessions/$id/follow" > "$BATS_TEST_TMPDIR/followed" 3>&- &
	reader=$!
	for _ in 1 2 3 4; do
		eventually is_reading "$reader"
		kill -STOP "$reader"
		sleep 0.05
		kill -CONT "$reader"
		sleep 0.02
	done
	wait "$reader"
	equal "$(cat "$BATS_TEST_TMPDIR/followed")" late
}

@test "a signal with a handler that returns lets the reader go on" {
	local id

	id=$(start "$(script 'sleep 0.5; echo late; exit 4')")
	equal "$(py '
import os, signal, sys
caught = []
signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
print(open(sys.argv[1]).read().strip(), len(caught) > 3)' "$M/sessions/$id/wait")" '4 True'
}

@test "poll: not readable, then readable; epoll wakes each waiter" {
	local id

	id=$(start "$(script "while [ ! -e $D/work/go ]; do sleep 0.05; done; echo out; exit 5")")
	py '
import os, select, sys, threading
path, go = sys.argv[1], sys.argv[2]
def opened(name):
    return os.open(path + "/" + name, os.O_RDONLY)
waits = [opened("wait") for _ in range(5)] + [opened("follow"), opened("lines")]
p = select.poll()
for fd in waits:
    p.register(fd, select.POLLIN)
assert p.poll(50) == [], "nothing is there yet"
e = select.epoll()
for fd in waits:
    e.register(fd, select.EPOLLIN)
assert e.poll(0.05) == []
threading.Timer(0.1, lambda: open(go, "w").close()).start()
seen = set()
while len(seen) < len(waits):
    events = e.poll(60)
    assert events, "not woken"
    for fd, what in events:
        assert what & select.EPOLLIN
        seen.add(fd)
        e.unregister(fd)
for fd in waits[:5]:
    assert os.read(fd, 10) == b"5\n"
assert os.read(waits[5], 100) == b"out\n"
assert select.select([waits[6]], [], [], 60)[0]' "$M/sessions/$id" "$D/work/go"
	# What does not block is always ready.
	py '
import os, select, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
p = select.poll()
p.register(fd, select.POLLIN)
assert p.poll(0)' "$M/status"
}

@test "poll goes on over the death of a hub" {
	local id

	id=$(start "$(script "while [ ! -e $D/work/poll ]; do sleep 0.05; done; exit 6")")
	py '
import os, select, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
open(sys.argv[2], "w").close()
p = select.poll()
p.register(fd, select.POLLIN)
assert p.poll(60000)
print(os.read(fd, 10).decode().strip())' "$M/sessions/$id/wait" "$D/work/polling" > "$BATS_TEST_TMPDIR/code" 3>&- &
	eventually test -e "$D/work/polling"
	sleep 0.2
	hub_kill
	touch "$D/work/poll"
	wait $!
	equal "$(cat "$BATS_TEST_TMPDIR/code")" 6
}

@test "100 blocked readers are all answered, and hold nobody up" {
	local id i pids=()

	id=$(start "$(script "while [ ! -e $D/work/many ]; do sleep 0.05; done; echo end; exit 7")")
	for i in $(seq 50); do
		cat "$M/sessions/$id/wait" > "$BATS_TEST_TMPDIR/wait.$i" 3>&- &
		pids+=($!)
		cat "$M/sessions/$id/follow" > "$BATS_TEST_TMPDIR/follow.$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		eventually is_reading "$i"
	done
	# The tree is as quick as ever.
	timeout 10 ls -lR "$M" > /dev/null
	equal "$(ended "$(start "$(spec /bin/true)")")" 0
	hub_kill
	touch "$D/work/many"
	for i in "${pids[@]}"; do
		wait "$i"
	done
	equal "$(cat "$BATS_TEST_TMPDIR"/wait.* | sort | uniq -c | xargs)" '50 7'
	equal "$(cat "$BATS_TEST_TMPDIR"/follow.* | sort | uniq -c | xargs)" '50 end'
}

@test "hundreds of blocked reads of one ordinary user leave everybody else alone" {
	local reader

	need_root
	# Threads of one process, so that the machine is not the bottleneck.
	as alice /usr/bin/python3 -IS -c '
import os, sys, threading
threading.stack_size(65536)
fd = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(300):
    threading.Thread(target=lambda: os.read(os.open(sys.argv[1], os.O_RDONLY), 10), daemon=True).start()
open(sys.argv[2], "w").close()
threading.Event().wait()' "$M/executors/local/drained" "$D/work/blocked" 3>&- &
	reader=$!
	eventually test -e "$D/work/blocked"
	timeout 20 ls -lR "$M" > /dev/null
	equal "$(ended "$(WHO=bob start "$(spec /bin/true)")")" 0
	pkill -9 -u "${UID_OF[alice]}" -f "$D/work/blocked"
	wait "$reader" || true
}

@test "a blocked reader ends when the daemon is stopped" {
	cat "$M/sessions/$RUNS/wait" > "$BATS_TEST_TMPDIR/wait" 3>&- &
	eventually is_reading $!
	hub_stop
	wait $!
	equal "$(cat "$BATS_TEST_TMPDIR/wait")" ''
	hub_start
	equal "$(now "$RUNS" state)" running
}

# --- large directories ----------------------------------------------------------------------------

# launch N: starts as many sessions, eight at a time.
launch() {
	py '
import os, sys, threading
path, n = sys.argv[1], int(sys.argv[2])
def launch(first):
    for i in range(first, n, 8):
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, b"{\"argv\":[\"/bin/true\"],\"labels\":{\"cloop.session\":\"many.%05d\"}}" % i)
        os.close(fd)
threads = [threading.Thread(target=launch, args=(k,)) for k in range(8)]
for t in threads: t.start()
for t in threads: t.join()' "$M/executors/local/start" "$1"
}

drained_of_many() {
	(($(cat "$M/executors/local/inflight") <= 1))
}

@test "2,000 sessions are listed, each once, in one order, from any offset" {
	launch 2000
	eventually drained_of_many
	equal "$(ls "$M/sessions" | grep -c '^many')" 2000
	equal "$(ls -U "$M/sessions" | sha256sum)" "$(ls -U "$M/sessions" | sha256sum)"
	equal "$(find "$M/sessions" -maxdepth 1 -name 'many.*' | sort -u | wc -l)" 2000
	cc -o "$BATS_TEST_TMPDIR/seek" -x c - <<-'PROGRAM' || skip "no compiler"
		#include <dirent.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>

		/* Lists a directory, going back to a remembered place after each 97 entries. */
		int main(int argc, char **argv)
		{
			DIR *d = opendir(argv[argc - 1]);
			struct dirent *e;
			long place = 0, n = 0;
			char name[256] = "";

			while ((e = readdir(d))) {
				puts(e->d_name);
				place = telldir(d);
				if (++n % 97 == 0) {
					e = readdir(d);
					if (!e)
						break;
					strcpy(name, e->d_name);
					rewinddir(d);
					seekdir(d, place);
					e = readdir(d);
					if (!e || strcmp(e->d_name, name) != 0)
						return 1;
					puts(e->d_name);
				}
			}
			closedir(d);
			return 0;
		}
	PROGRAM
	equal "$("$BATS_TEST_TMPDIR/seek" "$M/sessions" | sort)" "$(ls -a "$M/sessions" | sort)"
}

@test "an offset stays right while entries come and go" {
	py '
import os, sys
# One small read of the directory at a time, with removals in between.
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
path = sys.argv[1]
fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
SYS_getdents64 = 217 if os.uname().machine == "x86_64" else 61
buf = ctypes.create_string_buffer(4096)
seen = []
removed = 0
while True:
    n = libc.syscall(SYS_getdents64, fd, buf, 4096)
    if n <= 0:
        break
    at = 0
    while at < n:
        length = int.from_bytes(buf.raw[at + 16:at + 18], "little")
        seen.append(buf.raw[at + 19:at + length].split(b"\0")[0].decode())
        at += length
    if removed < 10:
        # What was seen goes; what was not seen must not be skipped for that.
        for name in [s for s in seen if s.startswith("many.")][removed * 5:removed * 5 + 5]:
            os.rmdir(path + "/" + name)
        removed += 1
many = [s for s in seen if s.startswith("many.")]
assert len(many) == len(set(many)) == 2000, len(many)
assert removed == 10' "$M/sessions"
	equal "$(ls "$M/sessions" | grep -c '^many')" 1950
}

@test "find -delete forgets sessions, but not from inside" {
	run -1 find "$M/sessions/$DONE" -delete
	find "$M/sessions" -name 'many.001*' -delete
	equal "$(ls "$M/sessions" | grep -c '^many.001')" 0
	find "$M/sessions" -mindepth 1 -maxdepth 1 -name 'many.*' -exec rmdir {} +
	equal "$(ls "$M/sessions" | grep -c '^many')" 0
	eventually folders_are_gone
}

folders_are_gone() {
	(($(find "$D/home/state/sessions" -mindepth 2 -maxdepth 2 -type d | wc -l) == $(ls "$M/sessions" | wc -l)))
}

@test "the hub stops and leaves nothing" {
	hub_end
}
