# What the keeper's tests share. The stand-ins are in $STAND_INS; everything of a test is below $T.
# shellcheck shell=bash disable=SC2154,SC2174

keeper_setup() {
	T=$BATS_TEST_TMPDIR
	STATE=$T/state RUN=$T/run MNT=$T/mnt
	mkdir "$T/bin" "$MNT"
	cp "$STAND_INS/cloopd-one" "$T/bin/cloopd"
	cp "$STAND_INS/stand-in-launcher" "$T/bin/cloop-launcher"
	PLACES=(--state-dir "$STATE" --runtime-dir "$RUN" --config-dir "$T/etc")
	BACKGROUND=()
}

# Ends what a test started, by its pid, and demands that nothing is left mounted by itself.
keeper_teardown() {
	local pid
	timeout -k 5 40 "$STAND_INS/cloopd-one" stop --state-dir "$STATE" 2>/dev/null
	for pid in "${BACKGROUND[@]}" $(cat "$STATE/shims" 2>/dev/null); do
		kill -9 "$pid" 2>/dev/null
	done
	! mounted
}

# serve [ARGUMENT...]: as a daemon, at $MNT.
serve() {
	timeout -k 5 60 "$T/bin/cloopd" serve "${PLACES[@]}" "$@" "$MNT" 3>&-
}

# serve_foreground [ARGUMENT...]: in the background of the test, logging to $T/log; sets KEEPER.
serve_foreground() {
	rm -f "$T/log"
	"$T/bin/cloopd" serve "${PLACES[@]}" --foreground "$@" "$MNT" 2>"$T/log" 3>&- &
	KEEPER=$!
	BACKGROUND+=("$KEEPER")
	until_ grep -q "serving $MNT" "$T/log"
}

stop() {
	timeout -k 5 40 "$T/bin/cloopd" stop --state-dir "$STATE"
}

# refused RC TEXT...: what `run` ran failed with that status and one sentence that has each text.
refused() {
	echo "status $status: $output"
	[ "$status" -eq "$1" ] || return 1
	shift
	[ "${#lines[@]}" -eq 1 ] || return 1
	for text; do
		[[ $output == *"$text"* ]] || return 1
	done
}

mounted() {
	grep -q " $MNT .* fuse.cloop cloop " /proc/self/mountinfo
}

not() {
	! "$@"
}

# until_ COMMAND...: within 30 seconds.
until_() {
	local i
	for ((i = 0; i < 600; i++)); do
		"$@" && return 0
		sleep 0.05
	done
	echo "never: $*"
	return 1
}

# The pid of the latest hub, of the latest that became ready, of the latest launcher.
hub() { tail -n 1 "$STATE/hubs" | cut -d ' ' -f 1; }
ready() { until_ test -s "$STATE/ready" && tail -n 1 "$STATE/ready" | cut -d ' ' -f 1; }
launcher() { until_ test -s "$STATE/launchers" && tail -n 1 "$STATE/launchers"; }
keeper() { keeper_of "$(hub)"; }
keeper_of() { ps -o ppid= -p "$1" | tr -d ' '; }

alive() { kill -0 "$1" 2>/dev/null && [ "$(ps -o stat= -p "$1" | cut -c 1)" != Z ]; }
hub_is_not() { [ "$(hub)" != "$1" ]; }
ready_is_not() { [ "$(ready)" != "$1" ]; }
hubs_started() { [ "$(wc -l <"$STATE/hubs")" -ge "$1" ]; }
launchers_started() { [ "$(wc -l <"$STATE/launchers")" -ge "$1" ]; }
link_is() { [ "$(readlink "$1")" = "$2" ]; }
has_open() { readlink "/proc/$1/fd/"* | grep -qx "$2"; }
logged() { grep -q -- "$1" "$STATE/cloopd.log"; }
answers() { [ "$(timeout 5 cat "$MNT/hello" 2>/dev/null)" = "$1" ]; }

behave() {
	mkdir -p -m 700 "$STATE"
	echo "$1" >"$STATE/behave"
}
