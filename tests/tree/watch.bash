# What the tests of watching share.
# shellcheck shell=bash

TREE=$BATS_TEST_DIRNAME/../tree
EVENTS=$TREE/events
POLLS=$TREE/polls
MARKS=$TREE/marks

# in_background NAME PROGRAM ARG…: until the test ends, as $WHO; what it prints is in a file of that
# name. The program says "ready PID" first.
in_background() {
	local name=$1
	shift
	me "$@" > "$BATS_TEST_TMPDIR/$name" 2>&1 3>&- &
	eventually grep -q '^ready ' "$BATS_TEST_TMPDIR/$name" || return
	sed -n 's/^ready //p' "$BATS_TEST_TMPDIR/$name" >> "$BATS_TEST_TMPDIR/background"
}

# watch NAME PATH…: watches; what it sees is `seen NAME`.
watch() {
	local name=$1
	shift
	in_background "$name" "$EVENTS" "$@"
}

# known N: waits until the daemon knows of so many marks. Before, it may announce a change that was made
# just before the watch was.
known() {
	eventually watched_is "$1"
}

# The events of a watcher, one a line, with paths relative to the mount.
seen() {
	sed -n "/^[0-9]/ { s/^[0-9]* //; s,$M/,,; p }" "$BATS_TEST_TMPDIR/$1"
}

# saw NAME EVENT [N]: whether it saw the line, once or so often at least.
saw() {
	[[ $(count "$1" "$2") -ge ${3:-1} ]]
}

# count NAME EVENT: how often.
count() {
	seen "$1" | grep -cxF -- "$2" || true
}

background_ends() {
	if [[ -e $BATS_TEST_TMPDIR/background ]]; then
		# shellcheck disable=SC2046
		kill $(cat "$BATS_TEST_TMPDIR/background") 2> /dev/null || true
		rm "$BATS_TEST_TMPDIR/background"
	fi
}

# settled NAME: until the nudger can have nothing left to say to it: makes a change that comes last.
# Everything about one directory comes in its order, and other directories wait no longer than that.
settled() {
	local file

	file=settle-$RANDOM$RANDOM
	me mkdir "$M/executors/$file"
	me rmdir "$M/executors/$file"
	eventually saw "$1" "executors/$file DELETE,ISDIR"
}

# What the daemon says of itself.
announced() {
	sed -n 's/.* files watched, \([0-9]*\) changes announced$/\1/p' "$M/status"
}

watched() {
	sed -n 's/^\([^ ]*\) files watched, .*/\1/p' "$M/status"
}

watched_is() {
	[[ $(watched) == "$1" ]]
}

nudger_pid() {
	keepers_child 'cloopd: nudger'
}

# gate: a script that runs until `open_gate NAME`, printing what is said to it meanwhile.
gate() {
	mkfifo -m 666 "$D/work/$1"
	# The shell holds the fifo open, so that each line that is written is one read.
	script "exec 3<> $D/work/$1; while read -r stream text <&3; do case \$stream in
		out) echo \"\$text\";; err) echo \"\$text\" >&2;; end) exit \"\$text\";; esac; done"
}

tell() {
	local name=$1
	shift
	printf '%s\n' "$*" > "$D/work/$name"
}
