# The disk under the state directory is full, its database held, newer, damaged: callers are told what is the
# matter, what runs goes on, and all is well again when the disk is.

load ../tree/common
load disk

setup_file() {
	hub_make
	mkdir "$D/home/state"
	((EUID != 0)) || mount -t tmpfs -o size=24m,mode=700 cloop-test "$D/home/state"
	hub_start
}

teardown_file() {
	[[ -z ${D-} ]] || touch "$D"/work/*/end
	umount -l "$D/home/state" 2> /dev/null || true
	hub_clean
}

setup() {
	need_root
	mkdir -p "$D/work/$BATS_TEST_NUMBER"
	WORK=$D/work/$BATS_TEST_NUMBER
}

# Takes all the room that there is; `room` gives it back.
fill() {
	dd if=/dev/zero of="$D/home/state/filler" bs=4k 2> /dev/null || true
	# The rest in small pieces.
	cat /dev/zero 2> /dev/null >> "$D/home/state/filler" || true
}

room() {
	rm "$D/home/state/filler"
}

# The database's log may find some room in what is there already.
is_full() {
	refused ENOSPC '' mkdir "$M/executors/new$RANDOM" 2> /dev/null
}

@test "a full disk: ENOSPC, and what runs goes on" {
	local before

	prepare
	running on-full
	running through-full
	before=$(ls "$M/executors" "$M/sessions" | xargs)
	fill
	eventually is_full
	before=$(ls "$M/executors" "$M/sessions" | xargs)
	each_change ENOSPC 'cloop.db'
	nothing_changed "$before"
	counts_on
	echo terminate > "$M/sessions/through-full/signal" || like "$(jq -r .errno "$M/error.json")" ENOSPC
	like "$(cat "$M/status")" 'sessions in flight'
	room
	eventually works_again
	touch "$WORK/end"
	equal "$(ended on-full)" 9
	like "$(ended through-full)" '^(143|9)$'
	equal "$(now on-full stdout)" 'the end'
	rmdir "$M/executors"/new* 2> /dev/null || true
}

@test "a session that ends on a full disk has its code, and its end is recorded when there is room" {
	local pid

	running ends-full
	pid=$(now ends-full pid)
	fill
	eventually is_full
	touch "$WORK/end"
	# Who waits is told at once: what is known needs no disk.
	equal "$(ended ends-full)" 9
	equal "$(now ends-full state)" exited
	run ! kill -0 "$pid"
	room
	eventually works_again
	hub_kill
	equal "$(ended ends-full) $(now ends-full state) $(now ends-full error)" '9 exited '
	rmdir "$M/executors"/new* 2> /dev/null || true
}

@test "a hub that dies on a full disk is followed by one that tells, and both heal" {
	running dies-full
	fill
	eventually is_full
	hub_kill
	eventually is_full
	like "$(jq -r .reason <<< "$refusal")" 'cloop.db'
	equal "$(now dies-full state)" running
	counts_on
	room
	eventually works_again
	touch "$WORK/end"
	equal "$(ended dies-full)" 9
	rmdir "$M/executors"/new* 2> /dev/null || true
}

# held COMMAND…: while another process holds the database.
held() {
	python3 -IS -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
db.execute("ROLLBACK")' "$D/home/state/cloop.db" < "$D/hold" > "$D/holds" 3>&- &
	exec 8> "$D/hold"
	eventually grep -q held "$D/holds"
	"$@"
	exec 8>&-
	wait $!
}

busy() {
	refused EBUSY '' mkdir "$M/executors/new" || return
	like "$(jq -r .reason <<< "$refusal")" 'cloop.db' || return
	# Who looks does not wait.
	equal "$(cat "$M/executors/local/state")" ready || return
	counts_on || return
	touch "$WORK/end"
	equal "$(ended busy)" 9
}

@test "a database that somebody holds: EBUSY after a while, and what runs goes on" {
	need python3
	running busy
	mkfifo "$D/hold"
	held busy
	eventually works_again
	hub_kill
	equal "$(ended busy) $(now busy state)" '9 exited'
}

@test "a database of a newer version is refused at the start, and left as it is" {
	local before

	running newer
	hub_stop
	cp -p "$D/home/state/cloop.db" "$D/kept.db"
	python3 -IS -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
version = db.execute("PRAGMA user_version").fetchone()[0]
db.execute("PRAGMA user_version = %d" % (version + 1))
db.commit()' "$D/home/state/cloop.db"
	before=$(sha256sum "$D/home/state/cloop.db")
	run -1 hub_exec
	like "$output" 'cloop.db'
	like "$output" '[Nn]ewer'
	equal "$(sha256sum "$D/home/state/cloop.db")" "$before"
	counts_on
	cp -p "$D/kept.db" "$D/home/state/cloop.db"
	hub_start
	touch "$WORK/end"
	equal "$(ended newer)" 9
}

@test "a damaged database is refused at the start, and left as it is" {
	local before

	running damaged
	hub_stop
	cp -p "$D/home/state/cloop.db" "$D/kept.db"
	# A page in the middle.
	dd if=/dev/urandom of="$D/home/state/cloop.db" bs=4096 seek=3 count=1 conv=notrunc 2> /dev/null
	before=$(sha256sum "$D/home/state/cloop.db")
	# An orderly end is remembered, with the file's size and time: they no longer fit.
	run -1 hub_exec
	like "$output" 'cloop.db'
	equal "$(sha256sum "$D/home/state/cloop.db")" "$before"
	counts_on
	cp -p "$D/kept.db" "$D/home/state/cloop.db"
	hub_start
	touch "$WORK/end"
	equal "$(ended damaged)" 9
}

@test "the hub stops and leaves nothing" {
	hub_end
}
