# What the tests of the tree share: a hub of their own, people, and words for what they expect.
#
# Environment: CLOOPD, the daemon under test, with its launcher beside it; CLOOP_DOCS, the program
# that prints the tree's tables.
#
# In a test, $D is the directory of this file's hub and $M its mount. Commands run as $WHO (default:
# whoever runs the tests).
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

# No test takes nearly as long; what hangs is a bug that is to be seen.
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-180}

: "${CLOOPD:?the daemon under test}"

HERE=$BATS_TEST_DIRNAME
FSOP=$HERE/fsop

# Generous: a machine that is busy with something else makes no test fail.
PATIENCE_S=60

# --- people -----------------------------------------------------------------------------------

# The accounts that `run` made: groups cloop and cloop-admin.
declare -gA UID_OF=([alice]=64001 [bob]=64002 [carol]=64003 [mallory]=64004 [erin]=64005)
declare -gA GROUPS_OF=([alice]=64100,64200 [bob]=64100 [carol]=64100,64101 [mallory]='' [erin]='')

# as NAME CMD…: runs a program as that person, with nothing of ours but PATH.
as() {
	local uid=${UID_OF[$1]} groups=${GROUPS_OF[$1]}
	local who=$1
	shift
	local set=(--clear-groups)
	[[ -z $groups ]] || set=(--groups "$groups")
	env -i PATH="$PATH" HOME="/home/$who" USER="$who" \
		setpriv --reuid "$uid" --regid "$uid" "${set[@]}" -- "$@"
}

# me CMD…: as $WHO.
me() {
	if [[ -n ${WHO-} ]]; then
		as "$WHO" "$@"
	else
		"$@"
	fi
}

# --- words for what is expected ----------------------------------------------------------------

fail() {
	printf '%s\n' "$*" >&2
	return 1
}

# equal GOT WANTED
equal() {
	[[ $1 == "$2" ]] || fail "got:    $(printf '%q' "$1")" $'\n'"wanted: $(printf '%q' "$2")"
}

# like GOT REGEX
like() {
	[[ $1 =~ $2 ]] || fail "got: $(printf '%q' "$1")" $'\n'"which is not like $2"
}

# eventually CMD…: until it succeeds.
eventually() {
	local end=$((SECONDS + PATIENCE_S))

	until "$@"; do
		((SECONDS < end)) || fail "never came true: $*" || return
		sleep 0.02
	done
}

# need PROGRAM…
need() {
	local program

	for program; do
		command -v "$program" > /dev/null || skip "$program is not installed"
	done
}

need_root() {
	((EUID == 0)) || skip "needs root"
}

# --- writing -----------------------------------------------------------------------------------

# put FILE TEXT: as `echo TEXT > FILE` in a shell.
put() {
	# shellcheck disable=SC2016
	me sh -c 'printf "%s\n" "$1" > "$0"' "$@"
}

# refused ERRNO FIELD CMD…: the command fails, and error.json says with which errno and at which field
# ('' for none). Leaves the object in $refusal.
refused() {
	local errno=$1 field=$2 before
	shift 2

	before=$(me cat "$M/error.json")
	if "$@" > "$BATS_TEST_TMPDIR/out" 2>&1; then
		fail "succeeded: $*" || return
	fi
	refusal=$(me cat "$M/error.json")
	[[ $refusal != "$before" ]] || fail "no refusal was recorded: $* ($(cat "$BATS_TEST_TMPDIR/out"))" ||
		return
	equal "$(jq -r '.errno' <<< "$refusal")" "$errno" || fail "$refusal" || return
	equal "$(jq -r '.field // ""' <<< "$refusal")" "$field" || fail "$refusal"
}

# fsop CALL …: makes one system call and prints 0 or the name of its errno.
fsop() {
	me "$FSOP" "$@"
}

# --- sessions ----------------------------------------------------------------------------------

# spec PROGRAM ARG…: a spec that runs it.
spec() {
	jq -nc '{argv: $ARGS.positional}' --args -- "$@"
}

# script TEXT [JSON]: a spec that runs a script, with more fields.
script() {
	jq -nc --arg text "$1" "{argv: [\"/bin/sh\", \"-c\", \$text]} + ${2:-{\}}"
}

# start SPEC [EXECUTOR]: prints the id of the session that it became.
start() {
	local answer

	# shellcheck disable=SC2016
	answer=$(me bash -c '
		exec 9<> "$0" || exit
		printf "%s\n" "$1" >&9 || { cat <&9 >&2; exit 1; }
		cat <&9' "$M/executors/${2:-local}/start" "$1") || return
	jq -r .session <<< "$answer"
}

# now SESSION FILE
now() {
	me cat "$M/sessions/$1/$2"
}

# ended SESSION…: waits, and prints what `wait` says.
ended() {
	local id

	for id; do
		me timeout -k 5 "$PATIENCE_S" cat "$M/sessions/$id/wait"
	done
}

is_state() {
	[[ $(now "$1" state) == "$2" ]]
}

# status SESSION FILTER: a value of its status.
status() {
	now "$1" status | jq -r "$2"
}

# --- the hub -----------------------------------------------------------------------------------

# hub_begin: makes directories and starts a hub; for setup_file. As $HUB_USER when that is set. What a
# function hub_prepare does to $D/home/etc, the configuration directory, is done before.
hub_begin() {
	hub_make
	hub_start
}

hub_make() {
	D=$(mktemp -d "${TMPDIR:-/tmp}/cloop-tree.XXXXXX")
	M=$D/mnt
	export D M
	chmod 755 "$D"
	mkdir "$M" "$D/work"
	chmod 1777 "$D/work"
	mkdir "$D/home"
	mkdir "$D/home/etc"
	! declare -F hub_prepare > /dev/null || hub_prepare
	[[ -z ${HUB_USER-} ]] || chown -R "${UID_OF[$HUB_USER]}" "$D/home" "$M"
}

# hub_setting NAME VALUE: from its next start on, the hub has that in its environment.
hub_setting() {
	printf '%s=%s\n' "$@" >> "$D/settings"
}

# hub_exec: becomes the keeper. Its own environment is what its own user's workloads inherit.
hub_exec() {
	# With test hooks, a minute is short.
	local command=(env HUB_VARIABLE=inherited CLOOP_HIDDEN=hidden CLOOP_MINUTE_MS=1000)
	local options=() settings=()

	[[ ! -e $D/settings ]] || mapfile -t settings < "$D/settings"
	command+=("${settings[@]}")
	((EUID == 0)) && [[ -z ${HUB_USER-} ]] || options+=(--no-allow-other)
	if [[ -n ${HUB_USER-} ]]; then
		command=(env -i PATH="$PATH" HOME="/home/$HUB_USER" ASAN_OPTIONS="${ASAN_OPTIONS-}"
			"${command[@]:1}" setpriv --reuid "${UID_OF[$HUB_USER]}"
			--regid "${UID_OF[$HUB_USER]}" --clear-groups --)
	fi
	exec "${command[@]}" "$CLOOPD" serve --foreground --state-dir "$D/home/state" \
		--runtime-dir "$D/home/run" --config-dir "$D/home/etc" "${options[@]}" "$M"
}

keeper() {
	cat "$D/keeper"
}

# What the daemon says is kept, run by run.
hub_is_ready() {
	grep -q '^cloopd: serving ' "$1" && return
	if keeper_is_gone; then
		fail "the hub did not start: $(cat "$1")"
		exit 1
	fi
	return 1
}

hub_start() {
	local said

	said=$(mktemp "$D/said.XXXXXX")
	hub_exec > /dev/null 2> "$said" 3>&- < /dev/null &
	echo $! > "$D/keeper"
	eventually hub_is_ready "$said"
}

hub_stop() {
	WHO=${HUB_USER-} me "$CLOOPD" stop --state-dir "$D/home/state"
	eventually keeper_is_gone
}

keeper_is_gone() {
	! kill -0 "$(keeper)" 2> /dev/null
}

hub_has_hooks() {
	grep -q CLOOP_BOOT_ID "$CLOOPD"
}

hub_restart() {
	hub_stop
	hub_start
}

# keepers_child TITLE: the pid of the process that calls itself so.
keepers_child() {
	local pid

	# shellcheck disable=SC2013
	for pid in $(cat "/proc/$(keeper)/task/$(keeper)/children"); do
		if [[ $(tr '\0' ' ' < "/proc/$pid/cmdline") == "$1 "* ]]; then
			printf '%s\n' "$pid"
			return
		fi
	done
	return 1
}

# The pid of the hub process itself.
hub_pid() {
	keepers_child 'cloopd: hub'
}

launcher_pid() {
	keepers_child cloop-launcher
}

# The processes that supervise sessions: they hold locks in the sessions directory.
hub_shims() {
	find /proc/[0-9]*/fd -lname "$D/home/state/sessions/*/lock" 2> /dev/null | cut -d / -f 3 | sort -u
}

hub_is_other() {
	local pid

	pid=$(hub_pid) && [[ $pid != "$1" ]]
}

# hub_kill: kills the hub as a bug would, and waits for the next one.
hub_kill() {
	local pid

	pid=$(hub_pid)
	kill -9 "$pid"
	echo "$pid" >> "$D/killed"
	eventually hub_is_other "$pid"
}

# Ends what still runs, so that nothing outlives the test.
sessions_end() {
	local id

	for id in $(me ls "$M/sessions"); do
		if [[ $(now "$id" exit_code) == '' ]]; then
			put "$M/sessions/$id/signal" kill
			ended "$id" > /dev/null
		fi
	done
}

# Processes that belong to this file's hub: by what they were told, or where they are.
hub_processes() {
	# The pattern comes from a file, or grep would find itself.
	echo "$D/home" > "$D/pattern"
	grep -laF -f "$D/pattern" /proc/[0-9]*/cmdline 2> /dev/null || true
}

hub_has_no_processes() {
	[[ -z $(hub_processes) ]]
}

# What the groups of this file's hub are called by.
hub_instance() {
	stat -c '%D-' "$D/home/run" | tr -d '\n'
	printf '%x' "$(stat -c %i "$D/home/run")"
}

hub_groups() {
	find /sys/fs/cgroup -maxdepth 4 -type d -path "*/cloop/$INSTANCE*" 2> /dev/null
}

hub_has_no_groups() {
	[[ -z $(hub_groups) ]]
}

# hub_end: stops the hub and looks at what is left; for the last test of a file.
hub_end() {
	local INSTANCE said

	INSTANCE=$(hub_instance)
	WHO=${HUB_USER-} sessions_end
	hub_stop
	eventually hub_has_no_processes || fail "left: $(hub_processes)" || return
	eventually hub_has_no_groups || fail "left: $(hub_groups)" || return
	! grep -q " $M " /proc/self/mountinfo || fail "still mounted" || return
	equal "$(ls -A "$M")" '' || return
	said=$(cat "$D"/said.*)
	! grep -E 'ERROR: |runtime error|ssertion|was not taken|Sanitizer|stack smashing' <<< "$said" ||
		return
	# No hub died but those that the tests killed.
	touch "$D/killed"
	equal "$(grep -c '^cloopd: the hub ended: signal' <<< "$said")" "$(wc -l < "$D/killed")"
}

# For teardown_file: whatever became of the tests, nothing stays.
hub_clean() {
	if [[ -n ${D-} ]]; then
		if ! keeper_is_gone; then
			WHO=${HUB_USER-} sessions_end 2> /dev/null || true
			hub_stop || kill -9 "$(keeper)" || true
		fi
		# A daemon that was killed leaves a dead mount.
		umount -l "$M" 2> /dev/null || fusermount3 -uz "$M" 2> /dev/null || true
		rm -rf --one-file-system "$D"
	fi
}

setup_file() {
	hub_begin
}

teardown_file() {
	hub_clean
}
