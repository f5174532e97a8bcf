# The host policy: a ratchet, what it refuses, and how long it lasts; and the settings of hub.json at
# the start of a daemon.
# shellcheck shell=bash
# shellcheck disable=SC2154

load common

POLICY() {
	cat "$M/policy/host_execution"
}

settings() {
	printf '%s\n' "$1" > "$D/home/etc/hub.json"
}

# The daemon does not come up, and says why.
does_not_start() {
	local said

	said=$(mktemp "$D/refused.XXXXXX")
	if (hub_exec) > /dev/null 2> "$said" 3>&- < /dev/null; then
		fail "it served" || return
	fi
	grep -qF "$1" "$said" || fail "$(cat "$said")"
	! grep -q " $M " /proc/self/mountinfo
}

register() {
	[[ -d $M/executors/$1 ]] || mkdir "$M/executors/$1"
	put "$M/executors/$1/config" '{"kind":"localprocess"}'
}

@test "it is allowed at first, and saying so changes nothing" {
	before=$(cat "$M/events")
	equal "$(POLICY)" allowed
	put "$M/policy/host_execution" allowed
	put "$M/policy/host_execution" ' allowed'
	equal "$(cat "$M/events")" "$before"
	refused EINVAL '' put "$M/policy/host_execution" loose
	refused EINVAL '' put "$M/policy/host_execution" 'denied again'
	refused EINVAL '' put "$M/policy/host_execution" ''
	equal "$(POLICY)" allowed
}

@test "administrators alone change it" {
	need_root
	equal "$(stat -c '%A %U' "$M/policy/host_execution")" '-rw-rw-r-- root'
	WHO=bob run ! put "$M/policy/host_execution" denied
	equal "$(WHO=mallory me cat "$M/policy/host_execution")" allowed
}

@test "denied: what does not isolate takes no work and is not registered; what is there stays" {
	register before
	running=$(start "$(spec sleep 1000)" before)
	put "$M/policy/host_execution" denied
	equal "$(POLICY)" denied
	like "$(tail -n 1 "$M/events")" '"type":"config.policy".*"host_execution":"denied"'

	refused EACCES '' start "$(spec true)" local
	like "$(jq -r .reason <<< "$refusal")" 'executor local does not isolate'
	like "$(jq -r .remedy <<< "$refusal")" 'executors.allow_host_process'
	refused EACCES '' start "$(spec true)" before
	mkdir "$M/executors/new"
	refused EACCES '' put "$M/executors/new/config" '{"kind":"localprocess"}'
	equal "$(cat "$M/executors/new/state")" unconfigured
	# Nor does anything find its way there by placement.
	refused EACCES host_execution_policy me sh -c "echo '{\"spec\":{\"argv\":[\"true\"]}}' > '$M/start'"
	like "$(jq -r .reason <<< "$refusal")" 'host execution is denied by policy'
	# What was registered before is configured as ever, and its work goes on.
	put "$M/executors/before/config" '{"kind":"localprocess","max_concurrent":3}'
	equal "$(now "$running" state)" running
	put "$M/executors/before/state" 'drain for good'
	put "$M/sessions/$running/signal" kill
	equal "$(ended "$running")" 137
}

@test "it is not loosened while the daemon runs, nor by a hub that takes over" {
	refused EPERM '' put "$M/policy/host_execution" allowed
	like "$(jq -r .remedy <<< "$refusal")" 'restart with a permissive configuration'
	before=$(stat -c '%Y %Z %s' "$M/policy/host_execution")
	hub_kill
	equal "$(POLICY)" denied
	equal "$(stat -c '%Y %Z %s' "$M/policy/host_execution")" "$before"
	settings '{"executors":{"allow_host_process":true}}'
	hub_kill
	equal "$(POLICY)" denied
	refused EACCES '' start "$(spec true)" local
}

@test "a written denial survives restarts until hub.json says true in so many words" {
	rm "$D/home/etc/hub.json"
	hub_restart
	equal "$(POLICY)" denied
	settings '{"executors":{}}'
	hub_restart
	equal "$(POLICY)" denied
	settings '{"executors":{"allow_host_process":true}}'
	hub_restart
	equal "$(POLICY)" allowed
	equal "$(ended "$(start "$(spec true)" local)")" 0
	rm "$D/home/etc/hub.json"
	hub_restart
	equal "$(POLICY)" allowed
}

@test "what hub.json forbids is forbidden as long as it says so" {
	settings '{"executors":{"allow_host_process":false}}'
	hub_restart
	equal "$(POLICY)" denied
	refused EACCES '' start "$(spec true)" local
	refused EPERM '' put "$M/policy/host_execution" allowed
	rm "$D/home/etc/hub.json"
	hub_restart
	equal "$(POLICY)" allowed
	equal "$(ended "$(start "$(spec true)" local)")" 0
}

@test "a hub does not start with settings that are wrong, and says where" {
	hub_stop
	settings '{"retention":{"age":"soon"}}'
	does_not_start 'hub.json: retention.age: is no duration'
	settings '{"retnetion":{}}'
	does_not_start 'hub.json: retnetion: unknown field'
	settings 'rubbish'
	does_not_start 'hub.json: '
	settings '{}'
	chmod o+w "$D/home/etc/hub.json"
	does_not_start 'hub.json: is writable for everybody'
	rm "$D/home/etc/hub.json"
	mkfifo "$D/home/etc/hub.json"
	does_not_start 'hub.json: is a fifo, not a plain file'
	rm "$D/home/etc/hub.json"
	ln -s /etc/passwd "$D/home/etc/hub.json"
	does_not_start 'hub.json: is a symbolic link, not a plain file'
	rm "$D/home/etc/hub.json"
	truncate -s 1G "$D/home/etc/hub.json"
	does_not_start 'hub.json: is larger than'
	rm "$D/home/etc/hub.json"
	mkdir "$D/home/etc/hub.json"
	does_not_start 'hub.json: is a directory, not a plain file'
	rmdir "$D/home/etc/hub.json"
	if ((EUID == 0)); then
		settings '{}'
		chown "${UID_OF[mallory]}" "$D/home/etc/hub.json"
		does_not_start 'hub.json: belongs to uid'
		rm "$D/home/etc/hub.json"
	fi
	hub_start
}

@test "sessions get the log quota of hub.json when their executor says none" {
	settings '{"log_quota_bytes":4096}'
	hub_restart
	id=$(start "$(script 'head -c 9000 /dev/zero')")
	equal "$(ended "$id")" 0
	(($(status "$id" .log_dropped_bytes) > 0 || $(now "$id" log | wc -c) < 9000))
	rm "$D/home/etc/hub.json"
	hub_restart
	id=$(start "$(script 'head -c 9000 /dev/zero')")
	equal "$(ended "$id")" 0
	equal "$(now "$id" log | wc -c)" 9000
}

@test "the hub stops, and nothing is left" {
	hub_end
}
