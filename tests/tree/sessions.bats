# Sessions: names and retries, how they end, what cannot be started, and signals.

load common

setup_file() {
	hub_begin
}

named() {
	jq -nc --arg name "$1" '{argv: ["/bin/sh", "-c", "exit 4"], labels: {"cloop.session": $name}}'
}

begin() {
	put "$M/executors/local/start" "$1"
}

# --- names and retries --------------------------------------------------------------------------

@test "an id is chosen by the label, or made" {
	local id

	id=$(start "$(spec /bin/true)")
	like "$id" '^s-[a-z2-7]{16}$'
	for id in a 0 build.1 a_b-c.d 123456789012345678901234567890123456789012345678901234567890abcd s-short \
		s-3k6bziqh5z6akgo s-3k6bziqh5z6akgo39 s-3k6bziqh5z6akgo1; do
		equal "$(start "$(named "$id")")" "$id"
		equal "$(ended "$id")" 4
	done
	for id in '' A a/b a..b/ '.a' -a _a 'a b' a$'\n' .. . "$(printf '%065d' 0)" s-3k6bziqh5z6akgo3 é; do
		refused EINVAL labels.cloop.session begin "$(named "$id")" || fail "$id"
	done
}

@test "a retry by the same user with the same spec is answered with the same session" {
	local first again

	echo 'echo x >> "$1"' > "$D/work/count"
	first=$(start "{\"argv\":[\"/bin/sh\",\"$D/work/count\",\"$D/work/counted\"],\"labels\":{\"cloop.session\":\"once\"}}")
	# The same, written otherwise.
	again=$(start "{ \"labels\" : {\"cloop.session\":\"once\"}, \"work_dir\": \"\",
		\"argv\" : [\"/bin/sh\", \"$D/work/c\\u006funt\", \"$D/work/counted\"], \"timeout_minutes\": 0, \"image\": null }")
	equal "$first $again" 'once once'
	ended once
	equal "$(start "$(jq -c . "$M/sessions/once/spec")")" once
	equal "$(wc -l < "$D/work/counted")" 1
	# Not the same: another spec, another executor.
	refused EEXIST labels.cloop.session begin "$(named once)"
	mkdir "$M/executors/other"
	put "$M/executors/other/config" '{"kind":"localprocess"}'
	refused EEXIST labels.cloop.session put "$M/executors/other/start" "$(jq -c . "$M/sessions/once/spec")"
	# A retry is answered also when nothing new is taken.
	put "$M/executors/local/state" cordon
	equal "$(start "$(jq -c . "$M/sessions/once/spec")")" once
	put "$M/executors/local/state" uncordon
	rmdir "$M/executors/other" "$M/sessions/once"
	# The name is free again.
	equal "$(start "$(named once)")" once
}

@test "of twenty retries at once one starts, and all have its id" {
	local spec pids=() i

	spec="{\"argv\":[\"/bin/sh\",\"-c\",\"echo x >> $D/work/parallel; sleep 0.3\"],\"labels\":{\"cloop.session\":\"parallel\"}}"
	for i in $(seq 20); do
		start "$spec" > "$BATS_TEST_TMPDIR/id.$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	ended parallel
	equal "$(cat "$BATS_TEST_TMPDIR"/id.* | sort | uniq -c | xargs)" '20 parallel'
	equal "$(wc -l < "$D/work/parallel")" 1
}

@test "of twenty different specs of one name one starts" {
	local pids=() i won=0

	for i in $(seq 20); do
		start "{\"argv\":[\"/bin/sh\",\"-c\",\"echo $i >> $D/work/race\"],\"labels\":{\"cloop.session\":\"race\"}}" \
			> /dev/null 2>&1 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" && won=$((won + 1))
	done
	equal "$won" 1
	ended race
	equal "$(wc -l < "$D/work/race")" 1
}

@test "of twenty retries of what cannot be executed none leaves a session" {
	local pids=() i

	for i in $(seq 20); do
		start '{"argv":["/nonexistent"],"labels":{"cloop.session":"never"}}' > /dev/null 2>&1 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		run ! wait "$i"
	done
	[[ ! -e $M/sessions/never ]]
	equal "$(start "$(named never)")" never
	ended never
}

# --- how they end ---------------------------------------------------------------------------------

@test "wait prints the exit code, 0 to 255" {
	local code ids=()

	for code in 0 1 2 77 126 127 128 137 254 255; do
		ids+=("$(start "$(spec /bin/sh -c "exit $code")")")
	done
	equal "$(ended "${ids[@]}" | xargs)" '0 1 2 77 126 127 128 137 254 255'
	equal "$(status "${ids[7]}" '[.state, .cause, .exit_code, .signal] | map(tostring) | join(" ")')" \
		'exited exit 137 null'
	equal "$(for code in "${ids[@]}"; do now "$code" exit_code; done | xargs)" '0 1 2 77 126 127 128 137 254 255'
}

@test "wait prints 128 + n after signal n, and status has the cause" {
	local signal id

	for signal in 1 2 3 6 9 10 11 13 14 15 34 64; do
		id=$(start "$(script "ulimit -c 0; kill -$signal \$\$; sleep 1000")")
		equal "$(ended "$id")" $((128 + signal)) || fail "$signal"
		equal "$(status "$id" '[.state, .cause, .exit_code, .signal] | map(tostring) | join(" ")')" \
			"killed signal -1 $signal" || fail "$signal"
		equal "$(now "$id" exit_code) $(now "$id" pid) $(now "$id" state)" '-1 0 killed'
	done
	like "$(now "$id" error)" 'ended by signal 64'
}

@test "terminate, interrupt and kill reach every process of the session" {
	local id word

	for word in terminate:143 interrupt:130 kill:137; do
		id=$(start "$(spec /bin/bash -c 'trap - INT; sleep 1000 & sleep 1000 & (setsid sleep 1000 &) ; echo up; wait')")
		timeout 60 head -n 1 "$M/sessions/$id/follow"
		put "$M/sessions/$id/signal" "${word%:*}"
		equal "$(ended "$id")" "${word#*:}"
	done
	equal "$(status "$id" .signal)" 9
}

@test "a signal to what has ended succeeds, and does nothing" {
	local id

	id=$(start "$(spec /bin/sh -c 'exit 3')")
	ended "$id"
	put "$M/sessions/$id/signal" kill
	put "$M/sessions/$id/signal" terminate
	equal "$(ended "$id") $(status "$id" .cause)" '3 exit'
}

@test "a workload that handles a signal decides its end" {
	local id

	id=$(start "$(spec /usr/bin/python3 -uIS -c '
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("asked"), sys.exit(9)))
print("up")
while True: signal.pause()')")
	timeout 60 head -n 1 "$M/sessions/$id/follow"
	put "$M/sessions/$id/signal" terminate
	equal "$(ended "$id")" 9
	equal "$(now "$id" log)" $'up\nasked'
}

# Processes of a session, by what only they have in their environment.
left_of() {
	grep -laz "^MARK=$1\$" /proc/[0-9]*/environ 2> /dev/null || true
}

nothing_left_of() {
	[[ -z $(left_of "$1") ]]
}

@test "nothing of a session is left: background children, setsid, double forks, ignored signals" {
	local id mark

	for mark in exits killed; do
		id=$(start "$(script '
			trap "" HUP INT TERM
			sleep 1000 &
			setsid sleep 1000 &
			(setsid sh -c "trap \"\" TERM HUP; sleep 1000 & sleep 1000" > /dev/null 2>&1 &)
			nohup setsid sh -c "exec > /dev/null 2>&1 < /dev/null; cd /; sleep 1000" &
			echo up; test $MARK = exits || sleep 1000' "{env: [\"MARK=$mark\", \"PATH=$PATH\"]}")")
		timeout 60 head -n 1 "$M/sessions/$id/follow"
		if [[ $mark == killed ]]; then
			put "$M/sessions/$id/signal" kill
			equal "$(ended "$id")" 137
		else
			equal "$(ended "$id")" 0
		fi
		eventually nothing_left_of "$mark"
	done
}

@test "a fork bomb's children die with it" {
	local id

	id=$(start "$(script 'i=0; while [ $i -lt 60 ]; do i=$((i + 1)); (while :; do sleep 1000; done) & done; echo up; wait' \
		'{env: ["MARK=bomb", "PATH=/usr/bin:/bin"], resource_limits: {}}')")
	timeout 60 head -n 1 "$M/sessions/$id/follow"
	put "$M/sessions/$id/signal" kill
	equal "$(ended "$id")" 137
	eventually nothing_left_of bomb
}

@test "a killed supervisor makes its session failed, with nothing left running" {
	local id shim

	id=$(start "$(script 'sleep 1000' '{env: ["MARK=orphan", "PATH=/usr/bin:/bin"]}')")
	shim=$(awk '/^PPid:/ { print $2 }' "/proc/$(now "$id" pid)/status")
	kill -9 "$shim"
	equal "$(ended "$id")" 255
	equal "$(status "$id" '[.state, .cause, .exit_code] | map(tostring) | join(" ")')" 'failed lost -1'
	like "$(now "$id" error)" .
	eventually nothing_left_of orphan
}

@test "before the end: running, no exit code, a pid" {
	local id

	id=$(start "$(spec /bin/sleep 1000)")
	equal "$(now "$id" state)" running
	equal "$(cat "$M/sessions/$id/exit_code"; echo .)" $'\n.'
	equal "$(tr '\0' ' ' < "/proc/$(now "$id" pid)/cmdline")" '/bin/sleep 1000 '
	equal "$(status "$id" '.pid')" "$(now "$id" pid)"
	equal "$(jq .pid "$M/sessions/$id/handle")" "$(now "$id" pid)"
	equal "$(status "$id" 'has("finished_at") or has("cause") or has("error")')" false
	put "$M/sessions/$id/signal" kill
	ended "$id"
	equal "$(status "$id" 'has("pid")')" false
}

@test "start is answered when the workload runs" {
	local id

	# No wait in between: the answer says that the program was executed.
	for _ in 1 2 3 4 5 6 7 8; do
		id=$(start "$(spec /bin/sleep 1000)")
		equal "$(now "$id" state)" running
		[[ -d /proc/$(now "$id" pid) ]]
		put "$M/sessions/$id/signal" kill
	done
}

# --- what cannot be started ------------------------------------------------------------------------

@test "what cannot be executed is refused by the write, and leaves no session" {
	local before errno field spec

	printf 'echo no interpreter\n' > "$D/work/script"
	printf '#!/nonexistent/interpreter\n' > "$D/work/lost"
	printf '#!/bin/sh\nexit 6\n' > "$D/work/good"
	printf '\177ELFgarbage' > "$D/work/garbage"
	: > "$D/work/empty"
	printf data > "$D/work/data"
	chmod 755 "$D/work"/{script,lost,good,garbage,empty}
	ln -sfn loop "$D/work/loop"
	before=$(ls "$M/sessions")
	while IFS='|' read -r errno field spec; do
		refused "$errno" "$field" begin "${spec//WORK/$D/work}" || fail "$spec"
		[[ $(jq -r .remedy <<< "$refusal") != null || $errno == ENOTDIR || $errno == ELOOP || \
			$errno == ENAMETOOLONG ]] || fail "no remedy: $refusal"
	done <<-CASES
		ENOENT|argv[0]|{"argv":["/nonexistent"]}
		ENOENT|argv[0]|{"argv":["WORK/nonexistent"]}
		ENOENT|argv[0]|{"argv":["nonexistent-program"]}
		ENOENT|argv[0]|{"argv":["true"],"env":["PATH=/nonexistent"]}
		ENOENT|argv[0]|{"argv":["WORK/lost"]}
		ENOTDIR|argv[0]|{"argv":["/etc/passwd/x"]}
		EACCES|argv[0]|{"argv":["WORK/data"]}
		EACCES|argv[0]|{"argv":["/etc"]}
		ENOEXEC|argv[0]|{"argv":["WORK/script"]}
		ENOEXEC|argv[0]|{"argv":["WORK/garbage"]}
		ENOEXEC|argv[0]|{"argv":["WORK/empty"]}
		ELOOP|argv[0]|{"argv":["WORK/loop"]}
		ENAMETOOLONG|argv[0]|{"argv":["/$(printf '%0300d' 0)"]}
		ENOENT|work_dir|{"argv":["/bin/true"],"work_dir":"WORK/nonexistent"}
		ENOTDIR|work_dir|{"argv":["/bin/true"],"work_dir":"/etc/passwd"}
		ELOOP|work_dir|{"argv":["/bin/true"],"work_dir":"WORK/loop"}
		EINVAL|work_dir|{"argv":["/bin/true"],"work_dir":"$M"}
		EINVAL|work_dir|{"argv":["/bin/true"],"work_dir":"$M/sessions"}
		EINVAL|argv[0]|{"argv":["$M/version"]}
	CASES
	equal "$(ls "$M/sessions")" "$before"
	equal "$(cat "$M/executors/local/inflight")" 0
	# The same with a name: it is free again.
	refused ENOENT 'argv[0]' begin '{"argv":["/nonexistent"],"labels":{"cloop.session":"free"}}'
	equal "$(start "$(named free)")" free
	equal "$(ended "$(start "$(spec "$D/work/good")")")" 6
}

@test "work_dir is where the workload runs; empty is the root" {
	local id

	id=$(start "{\"argv\":[\"/bin/pwd\"],\"work_dir\":\"$D/work\"}")
	ended "$id"
	equal "$(now "$id" log)" "$D/work"
	# argv[0] with a slash begins there.
	printf '#!/bin/sh\necho here\n' > "$D/work/here"
	chmod 755 "$D/work/here"
	id=$(start "{\"argv\":[\"./here\"],\"work_dir\":\"$D/work\"}")
	ended "$id"
	equal "$(now "$id" log)" here
	id=$(start '{"argv":["/bin/pwd"],"work_dir":""}')
	ended "$id"
	equal "$(now "$id" log)" /
}

@test "the mount is no working directory, by whatever path" {
	need_root
	mkdir "$D/bound"
	mount --bind "$M" "$D/bound"
	ln -s "$M/executors" "$D/work/link"
	for path in "$D/bound" "$D/bound/executors" "$D/work/link" "$M/../mnt"; do
		refused EINVAL work_dir begin "{\"argv\":[\"/bin/true\"],\"work_dir\":\"$path\"}" || fail "$path"
		like "$(jq -r .reason <<< "$refusal")" 'inside the mount'
	done
	umount "$D/bound"
}

@test "a work_dir that hangs holds nobody but who asked for it, and is killed" {
	local id other hub starter pid dead=$D/dead

	# A file system whose server does not answer: another daemon of ours, stopped.
	need_root
	mkdir "$dead" "$dead/mnt" "$dead/etc"
	"$CLOOPD" serve --foreground --state-dir "$dead/state" --runtime-dir "$dead/run" --config-dir "$dead/etc" \
		"$dead/mnt" > /dev/null 2> "$dead/said" 3>&- < /dev/null &
	other=$!
	eventually grep -q '^cloopd: serving' "$dead/said"
	# shellcheck disable=SC2013
	for pid in $(cat "/proc/$other/task/$other/children"); do
		[[ $(tr '\0' ' ' < "/proc/$pid/cmdline") != 'cloopd: hub '* ]] || hub=$pid
	done
	kill -STOP "$hub"
	WHO=alice start "{\"argv\":[\"/bin/true\"],\"work_dir\":\"$dead/mnt/executors/x\",\"labels\":{\"cloop.session\":\"hangs\"}}" \
		> "$BATS_TEST_TMPDIR/id" 3>&- &
	starter=$!
	eventually is_state hangs pending
	# Everybody else goes on.
	timeout 20 ls -lR "$M" > /dev/null
	equal "$(ended "$(WHO=bob start "$(spec /bin/sh -c 'exit 3')")")" 3
	refused EBUSY '' rmdir "$M/sessions/hangs"
	timeout -k 1 20 sh -c "echo kill > $M/sessions/hangs/signal"
	equal "$(ended hangs)" 137
	wait "$starter"
	equal "$(cat "$BATS_TEST_TMPDIR/id")" hangs
	rmdir "$M/sessions/hangs"
	kill -CONT "$hub"
	kill "$other"
	wait "$other"
	rm -r "$dead"
}

@test "argv[0] without a slash is sought in the workload's own PATH" {
	local id

	mkdir -p "$D/work/bin"
	printf '#!/bin/sh\necho mine\n' > "$D/work/bin/cloop-mine"
	chmod 755 "$D/work/bin/cloop-mine"
	refused ENOENT 'argv[0]' begin '{"argv":["cloop-mine"]}'
	id=$(start "{\"argv\":[\"cloop-mine\"],\"env\":[\"PATH=$D/work/bin:/bin\"]}")
	ended "$id"
	equal "$(now "$id" log)" mine
	equal "$(ended "$(start '{"argv":["true"]}')")" 0
}

@test "arguments arrive as they are" {
	local id

	id=$(start "$(spec /usr/bin/printf '[%s]\n' '' ' a  b ' '$HOME' "it's" '"' '\n' '*' é $'tab\t' -- -x)")
	ended "$id"
	equal "$(now "$id" log)" "$(printf '[%s]\n' '' ' a  b ' '$HOME' "it's" '"' '\n' '*' é $'tab\t' -- -x)"
	id=$(start "$(jq -nc '{argv: (["/bin/sh", "-c", "echo $#", "sh"] + [range(5000) | tostring])}')")
	ended "$id"
	equal "$(now "$id" log)" 5000
}

# --- forgetting -----------------------------------------------------------------------------------

folders() {
	find "$D/home/state/sessions" -mindepth 2 -maxdepth 2 -type d | wc -l
}

has_folders() {
	[[ $(folders) == "$1" ]]
}

@test "a forgotten session leaves no folder, and no descriptor in the hub" {
	local id before fds

	before=$(folders)
	fds=$(ls "/proc/$(hub_pid)/fd" | wc -l)
	for _ in 1 2 3 4 5 6 7 8; do
		id=$(start "$(spec /bin/echo x)")
		ended "$id" > /dev/null
		equal "$(now "$id" log)" x
		rmdir "$M/sessions/$id"
	done
	eventually has_folders "$before"
	[[ ! -e $M/sessions/$id && ! -e $M/.live/sessions/$id ]]
	(($(ls "/proc/$(hub_pid)/fd" | wc -l) <= fds + 2))
	equal "$(tail -n 1 "$M/events" | jq -r '.type + " " + .session')" "session.removed $id"
}

@test "an executor that was removed is a dangling link, and its sessions stay" {
	local id

	mkdir "$M/executors/short"
	put "$M/executors/short/config" '{"kind":"localprocess"}'
	id=$(start "$(spec /bin/echo stays)" short)
	ended "$id"
	rmdir "$M/executors/short"
	equal "$(now "$id" log) $(readlink "$M/sessions/$id/executor")" 'stays ../../executors/short'
	[[ ! -e $M/sessions/$id/executor ]]
	equal "$(status "$id" .executor_id)" short
	rmdir "$M/sessions/$id"
}

@test "the hub stops and leaves nothing" {
	hub_end
}
