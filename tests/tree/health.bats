# Probes: what health_check says becomes the state, whoever holds the executor meanwhile.

load common

# Fast, without jitter; three failures to unreachable.
hub_prepare() {
	settings '100ms' '100ms'
}

# settings INTERVAL BACKOFF: both without jitter.
settings() {
	local text

	text=$(jq -nc --arg interval "$1" --arg backoff "$2" '{supervisor: {interval: $interval,
		probe_timeout: "10s", backoff_base: $backoff, backoff_max: $backoff, jitter_fraction: 0,
		max_concurrent_probes: 8, degrade_after: 1, unreachable_after: 3}}')
	settle "$text"
}

settings_taken() {
	grep -c '"file":"hub.json"' "$M/events" || true
}

taken_more() {
	(($(settings_taken) > $1))
}

# settle TEXT: becomes hub.json, which differs from what it was; returns when it is in force.
settle() {
	local before

	echo "$1" > "$D/home/etc/hub.json.new"
	[[ ! -e $M/events ]] || before=$(settings_taken)
	mv "$D/home/etc/hub.json.new" "$D/home/etc/hub.json"
	[[ ! -e $M/events ]] || eventually taken_more "$before"
}

setup_file() {
	hub_begin
}

E() {
	printf '%s\n' "$M/executors/$1"
}

# checked ID PROGRAM [JSON]: an executor whose health is what a script says.
checked() {
	mkdir "$(E "$1")"
	put "$(E "$1")/config" "$(jq -nc --arg p "$2" "{kind: \"localprocess\",
		health_check: ({argv: [\"/bin/sh\", \"-c\", \$p]} + ${3:-{\}})}")"
}

# flagged ID: healthy while the file $D/work/ID.sick is not there.
flagged() {
	rm -f "$D/work/$1.sick"
	checked "$1" "[ ! -e $D/work/$1.sick ] || { echo its disk is gone >&2; exit 3; }"
}

sicken() {
	touch "$D/work/$1.sick"
}

heal() {
	rm "$D/work/$1.sick"
}

is() {
	[[ $(cat "$(E "$1")/state") == "$2" ]]
}

health() {
	jq -r "$2" "$(E "$1")/health"
}

# changes ID: the states that it went through, as events has them.
changes() {
	jq -r --arg id "$1" 'select(.type == "executor.state_change" and .executor_id == $id) | .to' \
		"$M/events" | xargs
}

failed_often() {
	(($(health "$1" .consecutive_failures) >= $2))
}

probed_since() {
	[[ $(health "$1" '.last_probe // ""') > $2 ]]
}

@test "what has no config is not probed, what has one is" {
	mkdir "$(E empty)"
	refused EHOSTUNREACH '' put "$(E empty)/probe" now
	equal "$(cat "$(E empty)/probe")" ''
	equal "$(health empty '.last_probe // "never"')" never
	put "$(E empty)/config" '{"kind":"localprocess"}'
	put "$(E empty)/probe" now
	like "$(cat "$(E empty)/probe")" '^ok 20[0-9-]+T[0-9:.]+Z$'
	like "$(health empty .last_seen)" '^20'
	# It goes on by itself.
	eventually probed_since empty "$(health empty .last_probe)"
	rmdir "$(E empty)"
}

@test "sick by its health check: degraded, unreachable, back" {
	flagged sick
	put "$(E sick)/probe" now
	equal "$(cat "$(E sick)/state")" ready
	sicken sick
	eventually is sick unreachable
	equal "$(health sick .reason)" 'health_check exited with 3: its disk is gone'
	like "$(cat "$(E sick)/probe")" '^failed 20.*Z: health_check exited with 3: its disk is gone$'
	refused EHOSTUNREACH '' put "$(E sick)/start" '{"argv":["/bin/true"]}'
	like "$refusal" 'its disk is gone'
	failed_often sick 3
	grep -qE '^sick +localprocess +unreachable ' "$M/status"
	# A hub that is killed, and a whole restart, find it as it was.
	hub_kill
	equal "$(cat "$(E sick)/state")" unreachable
	hub_restart
	equal "$(cat "$(E sick)/state")" unreachable
	heal sick
	eventually is sick ready
	equal "$(health sick '.consecutive_failures, .reason // "none"' | xargs)" '0 none'
	equal "$(ended "$(start '{"argv":["/bin/true"]}' sick)")" 0
	equal "$(changes sick)" 'degraded unreachable ready'
	rmdir "$(E sick)"
}

@test "degraded takes work" {
	settings 100ms 10m
	flagged half
	sicken half
	eventually is half degraded
	equal "$(ended "$(start '{"argv":["/bin/true"]}' half)")" 0
	# Ten minutes are not waited for by who asks.
	refused EIO '' put "$(E half)/probe" now
	refused EIO '' put "$(E half)/probe" now
	equal "$(cat "$(E half)/state")" unreachable
	heal half
	put "$(E half)/probe" now
	equal "$(cat "$(E half)/state")" ready
	settings 100ms 100ms
	rmdir "$(E half)"
}

@test "cordoned while sick: uncordon gives what the probes say" {
	flagged held
	put "$(E held)/probe" now
	put "$(E held)/state" 'cordon disk swap'
	sicken held
	eventually failed_often held 3
	equal "$(cat "$(E held)/state") $(health held .reason)" 'cordoned disk swap'
	refused EBUSY '' put "$(E held)/start" '{"argv":["/bin/true"]}'
	like "$(cat "$(E held)/probe")" 'its disk is gone'
	put "$(E held)/state" uncordon
	equal "$(cat "$(E held)/state")" unreachable
	put "$(E held)/state" drain
	heal held
	put "$(E held)/probe" now
	equal "$(cat "$(E held)/state")" draining
	put "$(E held)/state" uncordon
	equal "$(cat "$(E held)/state")" ready
	equal "$(changes held)" 'cordoned unreachable draining ready'
	rmdir "$(E held)"
}

@test "flapping: each turn is told once" {
	local i wanted=''

	flagged flap
	put "$(E flap)/probe" now
	for i in 1 2 3; do
		sicken flap
		eventually is flap unreachable
		heal flap
		eventually is flap ready
		wanted+='degraded unreachable ready '
	done
	equal "$(changes flap)" "${wanted% }"
	rmdir "$(E flap)"
}

@test "what a probe can find" {
	mkdir "$(E odd)"
	odd() {
		put "$(E odd)/config" "{\"kind\":\"localprocess\",\"health_check\":$1}"
	}
	odd '{"argv":["/nonexistent"]}'
	refused ENOENT '' put "$(E odd)/probe" now
	like "$refusal" 'health_check: cannot execute /nonexistent'
	odd '{"argv":["/bin/sleep","1000"],"timeout_ms":200}'
	refused ETIMEDOUT '' put "$(E odd)/probe" now
	like "$refusal" 'health_check took longer than 200 ms'
	odd '{"argv":["/bin/sh","-c","kill -9 $$"]}'
	refused EIO '' put "$(E odd)/probe" now
	like "$refusal" 'health_check was ended by signal 9'
	# What it says is foreign: one line, no control characters, no more than fits.
	odd '{"argv":["/bin/sh","-c","printf \"a\\\\033[2Jb\\\\nsecond\\\\n\"; head -c 100000 /dev/zero | tr \"\\\\0\" x; exit 1"]}'
	refused EIO '' put "$(E odd)/probe" now
	equal "$(jq -r .reason <<< "$refusal")" 'health_check exited with 1: a?[2Jb'
	odd '{"argv":["/bin/sh","-c","printf \"\\\\377\\\\376\" >&2; exit 1"]}'
	refused EIO '' put "$(E odd)/probe" now
	equal "$(jq -r .reason <<< "$refusal")" 'health_check exited with 1'
	# On the mount itself the hub would wait for itself.
	odd "{\"argv\":[\"$M/version\"]}"
	refused EINVAL '' put "$(E odd)/probe" now
	odd '{"argv":["/bin/true"]}'
	put "$(E odd)/probe" now
	refused EINVAL '' put "$(E odd)/probe" later
	refused EINVAL health_check.argv put "$(E odd)/config" '{"kind":"localprocess","health_check":{}}'
	rmdir "$(E odd)"
}

@test "a health check gets a minimal environment, and none of its processes stay" {
	rm -f "$D/work/env" "$D/work/pid"
	checked env "env > $D/work/env.new; id -u >> $D/work/env.new; mv $D/work/env.new $D/work/env
		(setsid sh -c 'echo \$\$ > $D/work/pid; exec sleep 1000' &) ; while [ ! -s $D/work/pid ]; do sleep 0.01; done"
	put "$(E env)/probe" now
	run ! grep -E 'HUB_VARIABLE|CLOOP_' "$D/work/env"
	grep -qx 'PATH=/usr/local/bin:/usr/bin:/bin' "$D/work/env"
	equal "$(tail -n 1 "$D/work/env")" "$EUID"
	run ! kill -0 "$(cat "$D/work/pid")"
	rmdir "$(E env)"
}

@test "several ask at once: each is answered with a probe that began later" {
	local i pids=()

	settings 10m 10m
	rm -f "$D/work/runs"
	checked many "echo run >> $D/work/runs; sleep 0.3"
	eventually test -s "$D/work/runs"
	for i in 1 2 3 4 5 6; do
		put "$(E many)/probe" now &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	# They shared what they could share.
	(($(wc -l < "$D/work/runs") <= 4)) || fail "$(wc -l < "$D/work/runs") runs"
	(($(wc -l < "$D/work/runs") >= 2))
	settings 100ms 100ms
	rmdir "$(E many)"
}

@test "members of cloop-admin probe, others do not" {
	need_root
	flagged whose
	WHO=carol put "$(E whose)/probe" now
	for WHO in alice mallory; do
		run ! put "$(E whose)/probe" now
		like "$(me cat "$(E whose)/probe")" '^ok '
	done
	unset WHO
	rmdir "$(E whose)"
}

@test "removed while it is probed" {
	rm -f "$D/work/begun"
	checked going "touch $D/work/begun; while [ ! -e $D/work/go ]; do sleep 0.01; done"
	eventually test -e "$D/work/begun"
	put "$(E going)/probe" now 2> /dev/null &
	rmdir "$(E going)"
	touch "$D/work/go"
	run ! wait $!
	[ ! -e "$(E going)" ]
	rm "$D/work/go"
}

@test "a hub that is killed in the middle of a probe leaves no process, and the write is done again" {
	rm -f "$D/work/pids" "$D/work/go"
	checked killed "echo \$\$ >> $D/work/pids; (setsid sleep 1000 & echo \$! >> $D/work/pids)
		while [ ! -e $D/work/go ]; do sleep 0.01; done"
	two_lines() {
		(($(wc -l < "$D/work/pids") == 2))
	}
	eventually test -e "$D/work/pids"
	eventually two_lines
	put "$(E killed)/probe" now &
	local writer=$! before pid
	before=$(cat "$D/work/pids")
	hub_kill
	gone() {
		! kill -0 "$1" 2> /dev/null
	}
	for pid in $before; do
		eventually gone "$pid"
	done
	touch "$D/work/go"
	wait "$writer" || fail "$(cat "$M/error.json" "$(E killed)/health")"
	equal "$(cat "$(E killed)/state")" ready
	rmdir "$(E killed)"
}

@test "a launcher that hangs, and one that is killed" {
	local pid

	mkdir "$(E plain)"
	put "$(E plain)/config" '{"kind":"localprocess"}'
	put "$(E plain)/probe" now
	pid=$(launcher_pid)
	settle "$(jq -c '.supervisor.probe_timeout = "200ms"' "$D/home/etc/hub.json")"
	kill -STOP "$pid"
	eventually is plain unreachable
	like "$(health plain .reason)" 'did not come back|has not come back'
	kill -CONT "$pid"
	eventually is plain ready
	settings 100ms 100ms
	kill -9 "$pid"
	eventually put "$(E plain)/probe" now
	eventually is plain ready
	rmdir "$(E plain)"
}

lines_of() {
	cut -d : -f 1 "$(E "$1")/preflight" | xargs
}

@test "preflight: what a workload would need, and what is wrong" {
	mkdir "$(E pre)"
	refused EHOSTUNREACH '' put "$(E pre)/preflight" run
	put "$(E pre)/config" '{"kind":"localprocess"}'
	refused EINVAL '' put "$(E pre)/preflight" walk
	put "$(E pre)/preflight" run
	like "$(lines_of pre)" '^[okwarn]+ cgroup.cpu [okwarn]+ cgroup.memory [okwarn]+ cgroup.pids [okwarn]+ cgroup.kill [okwarn]+ user [okwarn]+ sessions [okwarn]+ group.cloop [okwarn]+ group.cloop-admin ok launcher ok run$'
	grep -qx 'ok run: /bin/true exited with 0' "$(E pre)/preflight"
	like "$(cat "$(E pre)/probe")" '^ok '
	# It is there for the next hub, and goes with the executor.
	hub_kill
	grep -qx 'ok launcher: it answers' "$(E pre)/preflight"
	rmdir "$(E pre)"
	mkdir "$(E pre)"
	equal "$(cat "$(E pre)/preflight")" ''
	rmdir "$(E pre)"
	# A check that fails is the write's error, and counts as a failed probe.
	settings 10m 10m
	flagged pre
	put "$(E pre)/probe" now
	sicken pre
	refused EIO '' put "$(E pre)/preflight" run
	equal "$(jq -r .reason <<< "$refusal")" \
		'1 of its checks failed: health_check: health_check exited with 3: its disk is gone'
	equal "$(jq -r .remedy <<< "$refusal")" 'cat executors/pre/preflight'
	equal "$(cat "$(E pre)/state")" degraded
	like "$(health pre .reason)" '^preflight: health_check'
	heal pre
	put "$(E pre)/preflight" run
	equal "$(cat "$(E pre)/state")" ready
	grep -qx 'ok health_check: exited with 0' "$(E pre)/preflight"
	settings 100ms 100ms
	rmdir "$(E pre)"
}

@test "a config that was accepted is looked at once, without being asked" {
	local at program=/nonexistent

	settings 100ms 10m
	rm -f "$D/work/runs"
	checked auto "echo run >> $D/work/runs; exit 4"
	eventually is auto degraded
	equal "$(health auto '.consecutive_failures, .reason' | xargs)" '1 preflight: health_check: health_check exited with 4'
	grep -qx 'ok run: /bin/true exited with 0' "$(E auto)/preflight"
	grep -q '^fail health_check: ' "$(E auto)/preflight"
	equal "$(wc -l < "$D/work/runs")" 1
	# It is degraded, not gone: it takes work.
	equal "$(ended "$(start '{"argv":["/bin/true"]}' auto)")" 0
	# A hub that finds its report does not look again; a new config is looked at.
	hub_kill
	equal "$(cat "$(E auto)/state")" degraded
	hub_restart
	equal "$(cat "$(E auto)/state")" degraded
	equal "$(wc -l < "$D/work/runs")" 1
	put "$(E auto)/config" '{"kind":"localprocess"}'
	eventually is auto ready
	equal "$(lines_of auto | grep -c health_check)" 0
	# The probes after it are probes.
	at=$(stat -c %Y.%y "$(E auto)/preflight")
	eventually probed_since auto "$(health auto .last_probe)"
	eventually probed_since auto "$(health auto .last_probe)"
	equal "$(stat -c %Y.%y "$(E auto)/preflight")" "$at"
	# So is one that a file asks for.
	mkdir "$D/home/etc/executors.d"
	echo "{\"kind\":\"localprocess\",\"health_check\":{\"argv\":[\"$program\"]}}" \
		> "$D/home/etc/executors.d/filed.json"
	eventually test -e "$(E filed)"
	eventually is filed degraded
	like "$(health filed .reason)" "^preflight: health_check: .*$program"
	rm -r "$D/home/etc/executors.d"
	eventually test ! -e "$(E filed)"
	settings 100ms 100ms
	rmdir "$(E auto)"
}

@test "a preflight that a hub did not live to end is done again; nobody waits for it" {
	settings 10m 10m
	rm -f "$D/work/runs" "$D/work/go"
	checked cut "echo run >> $D/work/runs; while [ ! -e $D/work/go ]; do sleep 0.01; done"
	eventually test -s "$D/work/runs"
	equal "$(cat "$(E cut)/preflight")" ''
	equal "$(ended "$(start '{"argv":["/bin/true"]}' cut)")" 0
	hub_kill
	again() {
		(($(wc -l < "$D/work/runs") >= 2))
	}
	eventually again
	touch "$D/work/go"
	looked() {
		grep -qx 'ok health_check: exited with 0' "$(E cut)/preflight"
	}
	eventually looked
	equal "$(cat "$(E cut)/state")" ready
	settings 100ms 100ms
	rmdir "$(E cut)"
}

@test "smoke: a session from its start to its end, of which nothing stays" {
	local before

	before=$(ls "$M/sessions")
	put "$(E local)/preflight" smoke
	grep -qx 'ok smoke: a session ran to its end, and its log is whole' "$(E local)/preflight"
	equal "$(ls "$M/sessions")" "$before"
	equal "$(cat "$(E local)/inflight")" 0
	[ "$(jq -r 'select(.type == "session.started" or .type == "session.removed") | .type' "$M/events" |
		tail -n 2 | xargs)" = 'session.started session.removed' ]
	# Where no session may start, it says so.
	put "$(E local)/state" cordon
	refused EIO '' put "$(E local)/preflight" smoke
	grep -q '^fail smoke: executor local is cordoned' "$(E local)/preflight"
	put "$(E local)/state" uncordon
	put "$(E local)/probe" now
	equal "$(cat "$(E local)/state")" ready
	need_root
	WHO=carol put "$(E local)/preflight" smoke
	WHO=alice
	run ! put "$(E local)/preflight" run
}

@test "a hub that is killed in the middle of smokes: each write is answered, and nothing stays" {
	local i pids=()

	for i in 1 2 3 4 5 6 7 8; do
		put "$(E local)/preflight" smoke &
		pids+=($!)
	done
	hub_kill
	for i in "${pids[@]}"; do
		wait "$i" || fail "$(cat "$M/error.json" "$(E local)/preflight")"
	done
	equal "$(find "$M/sessions" -mindepth 1 -maxdepth 1 | wc -l)" "$(jq -rs 'map(select(.type == "session.started")) as $s |
		map(select(.type == "session.removed")) as $r | ($s | length) - ($r | length)' "$M/events")"
}

# metric NAME: its value.
metric() {
	awk -v name="$1" '$1 == name { print $2 }' "$M/metrics"
}

@test "metrics count what happens" {
	local before i ids=()

	before=$(metric 'cloop_sessions_ended_total{state="exited"}')
	for i in 1 2 3 4 5; do
		ids+=("$(start '{"argv":["/bin/true"]}')")
	done
	ended "${ids[@]}" > /dev/null
	equal "$(metric 'cloop_sessions_ended_total{state="exited"}')" $((before + 5))
	before=$(metric 'cloop_start_failures_total{errno="EINVAL"}')
	refused EINVAL argv put "$(E local)/start" '{"argv":[]}'
	equal "$(metric 'cloop_start_failures_total{errno="EINVAL"}')" $((before + 1))
	before=$(metric 'cloop_probes_total{result="failed"}')
	checked failing 'exit 1'
	eventually is failing unreachable
	(($(metric 'cloop_probes_total{result="failed"}') >= before + 3))
	(($(metric 'cloop_executor_transitions_total{to="unreachable"}') >= 1))
	equal "$(metric 'cloop_executors{state="unreachable"}')" 1
	rmdir "$(E failing)"
	# The buckets of a histogram grow, and the last has everything.
	equal "$(awk '/^cloop_store_commit_seconds_(bucket\{le="\+Inf"\}|count) / { print $2 }' "$M/metrics" |
		uniq | wc -l)" 1
	awk '/_bucket/ { if ($2 < last) exit 1; last = $2 }' "$M/metrics"
	(($(metric 'cloop_store_commit_seconds_bucket{le="1.000"}') > 0))
	timeout 20 cat "$M/sessions/$(start '{"argv":["/bin/sleep","2"]}')/follow" &
	blocked() {
		(($(metric cloop_blocked_readers) >= 1))
	}
	eventually blocked
	wait $!
}

@test "300 executors are probed, and the tree answers meanwhile" {
	local i slowest=0 begin took

	for ((i = 0; i < 300; i++)); do
		flagged "n$i"
	done
	for ((i = 0; i < 300; i += 10)); do
		sicken "n$i"
	done
	for ((i = 0; i < 300; i++)); do
		begin=${EPOCHREALTIME/./}
		cat "$(E "n$i")/state" > /dev/null
		took=$((${EPOCHREALTIME/./} - begin))
		((took <= slowest)) || slowest=$took
	done
	echo "# slowest read: $slowest us" >&3
	for ((i = 0; i < 300; i += 10)); do
		eventually is "n$i" unreachable
	done
	for ((i = 1; i < 300; i += 50)); do
		equal "$(cat "$(E "n$i")/state")" ready
	done
	rmdir "$M"/executors/n*
}

@test "the hub stops, and nothing is left" {
	hub_end
}

teardown_file() {
	hub_clean
}
