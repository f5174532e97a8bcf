# What is refused, with which errno, and what error and error.json say about it.

load common

setup_file() {
	hub_begin
	mkdir "$M/executors/raw"
}

begin() {
	put "$M/executors/local/start" "$1"
}

config() {
	put "$M/executors/raw/config" "$1"
}

@test "EINVAL: a spec that is not one names the field" {
	local field spec

	while IFS='|' read -r field spec; do
		refused EINVAL "$field" begin "$spec" || fail "$spec"
	done <<-'CASES'
		argv|{}
		argv|{"argv":[]}
		argv|{"argv":"/bin/true"}
		argv|{"argv":null}
		argv[0]|{"argv":[""]}
		argv[0]|{"argv":["  "]}
		argv[1]|{"argv":["a",1]}
		argv[0]|{"argv":[null]}
		work_dir|{"argv":["/bin/true"],"work_dir":"tmp"}
		work_dir|{"argv":["/bin/true"],"work_dir":"./tmp"}
		work_dir|{"argv":["/bin/true"],"work_dir":7}
		env[0]|{"argv":["/bin/true"],"env":["X"]}
		env[0]|{"argv":["/bin/true"],"env":["=x"]}
		env[1]|{"argv":["/bin/true"],"env":["A=1","A=2"]}
		env|{"argv":["/bin/true"],"env":{"A":"1"}}
		timeout_minutes|{"argv":["/bin/true"],"timeout_minutes":-1}
		timeout_minutes|{"argv":["/bin/true"],"timeout_minutes":1.5}
		timeout_minutes|{"argv":["/bin/true"],"timeout_minutes":9223372036854775807}
		resource_limits.pids|{"argv":["/bin/true"],"resource_limits":{"pids":-1}}
		resource_limits.cores|{"argv":["/bin/true"],"resource_limits":{"cores":1}}
		labels|{"argv":["/bin/true"],"labels":["a"]}
		labels.a|{"argv":["/bin/true"],"labels":{"a":1}}
		labels.cloop.session|{"argv":["/bin/true"],"labels":{"cloop.session":"A"}}
		argvs|{"argv":["/bin/true"],"argvs":[]}
		secret_files|{"argv":["/bin/true"],"secret_files":[]}
		workspace.kind|{"argv":["/bin/true"],"workspace":{"kind":"elsewhere"}}
		setup_commands[0]|{"argv":["/bin/true"],"setup_commands":[""]}
	CASES
	equal "$(ls "$M/sessions")" ''
}

@test "EINVAL: what is not one JSON object" {
	local text

	for text in nonsense '[1]' '"text"' '{"argv":["/bin/true"]}x' '{"argv":["/bin/true"]} {"argv":["/bin/true"]}' \
		'{"argv":["/bin/true"],"argv":["/bin/true"]}' '{argv:1}' '{"argv":["/bin/true",]}' '}' '{"a":]}'; do
		refused EINVAL '' begin "$text" || fail "$text"
	done
	equal "$(ls "$M/sessions")" ''
}

@test "EOPNOTSUPP: every field that a local process cannot honour is named" {
	local field spec sha=0123456789012345678901234567890123456789

	while IFS='|' read -r field spec; do
		refused EOPNOTSUPP "$field" begin "{\"argv\":[\"/bin/true\"],${spec/SHA/$sha}}" || fail "$spec"
		like "$(jq -r .remedy <<< "$refusal")" 'use an executor whose capabilities have it' || fail "$spec"
	done <<-'CASES'
		image|"image":"alpine"
		setup_commands|"setup_commands":["true"]
		mounts|"mounts":[{"source":"a","target":"/a"}]
		host_mounts|"host_mounts":[{"name":"a","source":"/a","target":"/b"}]
		disable_network|"disable_network":true
		workspace.kind|"workspace":{"kind":"git","repo":"https://example.org/x.git"}
		workspace.kind|"workspace":{"kind":"none"}
		workspace.kind|"workspace":{"kind":"git","repo":"https://example.org/x.git","ref":"SHA"},"write_back":{"mode":"bundle","branch":"cloop/a"}
		resource_limits.disk_mb|"resource_limits":{"disk_mb":1}
	CASES
	equal "$(ls "$M/sessions")" ''
	# What it does have: the tree where it is.
	ended "$(start '{"argv":["/bin/true"],"workspace":{"kind":"bind"},"work_dir":"/tmp"}')"
}

@test "EINVAL: a config that is not one names the field" {
	local field text

	while IFS='|' read -r field text; do
		refused EINVAL "$field" config "$text" || fail "$text"
	done <<-'CASES'
		kind|{}
		kind|{"kind":"elsewhere"}
		kind|{"kind":""}
		kind|{"kind":1}
		max_concurrent|{"kind":"localprocess","max_concurrent":-1}
		max_concurrent|{"kind":"localprocess","max_concurrent":1000001}
		max_concurrent|{"kind":"localprocess","max_concurrent":"3"}
		log_quota_bytes|{"kind":"localprocess","log_quota_bytes":4095}
		log_quota_bytes|{"kind":"localprocess","log_quota_bytes":1099511627777}
		labels|{"kind":"localprocess","labels":[]}
		lables|{"kind":"localprocess","lables":{}}
		container.image|{"kind":"localprocess","container.image":"x"}
	CASES
	equal "$(cat "$M/executors/raw/config" "$M/executors/raw/state")" unconfigured
}

@test "EINVAL: words that no control knows" {
	local id

	id=$(start "$(spec /bin/sleep 1000)")
	refused EINVAL '' put "$M/sessions/$id/signal" stop
	refused EINVAL '' put "$M/sessions/$id/signal" ''
	refused EINVAL '' put "$M/sessions/$id/signal" KILL
	refused EINVAL '' put "$M/sessions/$id/signal" 9
	refused EINVAL '' put "$M/sessions/$id/signal" $'kill\nkill'
	refused EINVAL '' put "$M/executors/local/state" off
	refused EINVAL '' put "$M/executors/local/state" ''
	refused EINVAL '' put "$M/executors/local/state" 'uncordon because'
	refused EINVAL '' put "$M/executors/local/state" "drain $(printf '%0201d' 0)"
	refused EINVAL '' put "$M/executors/local/state" $'cordon \xff'
	refused EINVAL '' put "$M/executors/local/state" 'unreachable'
	equal "$("$FSOP" write "$M/executors/local/state" cordon$'\x01'ed)" EINVAL
	equal "$(now "$id" state) $(cat "$M/executors/local/state")" 'running ready'
	put "$M/sessions/$id/signal" kill
	equal "$(ended "$id")" 137
}

@test "EFBIG: a command of more than 4096 bytes, a document of more than 1 MiB" {
	refused EFBIG '' put "$M/executors/local/state" "cordon $(printf '%05000d' 0)"
	head -c 1048577 /dev/zero | tr '\0' ' ' > "$BATS_TEST_TMPDIR/large"
	printf '{"argv":["/bin/true"]}' | cat "$BATS_TEST_TMPDIR/large" - > "$BATS_TEST_TMPDIR/larger"
	printf '{"argv":["/bin/true","' > "$BATS_TEST_TMPDIR/long"
	head -c 1048576 /dev/zero | tr '\0' x >> "$BATS_TEST_TMPDIR/long"
	printf '"]}' >> "$BATS_TEST_TMPDIR/long"
	refused EFBIG '' cp "$BATS_TEST_TMPDIR/long" "$M/executors/local/start"
	refused EFBIG '' dd if="$BATS_TEST_TMPDIR/long" of="$M/executors/local/start" bs=4000 status=none
	# What is in front of the document does not count.
	cp "$BATS_TEST_TMPDIR/larger" "$M/executors/local/start"
	ended "$(jq -r .session "$M/executors/local/start")"
}

@test "ENOENT and EEXIST" {
	equal "$("$FSOP" rmdir "$M/executors/nobody")" ENOENT
	equal "$("$FSOP" rmdir "$M/sessions/nobody")" ENOENT
	equal "$("$FSOP" read "$M/executors/nobody/state")" ENOENT
	equal "$("$FSOP" read "$M/executors/local/nothing")" ENOENT
	equal "$("$FSOP" write "$M/executors/nobody/start" '{}')" ENOENT
	refused ENOENT '' put "$M/default_id" nobody
	refused ENOENT '' put "$M/default_id" raw
	refused ENOENT '' put "$M/default_id" ''
	equal "$(cat "$M/default_id")" local
	equal "$("$FSOP" mkdir "$M/executors/raw")" EEXIST
	start "$(script 'exit 0' '{labels: {"cloop.session": "taken"}}')"
	refused EEXIST labels.cloop.session begin "$(script 'exit 1' '{labels: {"cloop.session": "taken"}}')"
}

@test "EHOSTUNREACH: an executor without a config takes nothing" {
	refused EHOSTUNREACH '' put "$M/executors/raw/start" '{"argv":["/bin/true"]}'
	like "$(jq -r .remedy <<< "$refusal")" 'executors/raw/config$'
	refused EHOSTUNREACH '' put "$M/executors/raw/state" cordon
	equal "$(cat "$M/executors/raw/state")" unconfigured
	equal "$(cat "$M/executors/raw/capabilities" "$M/executors/raw/kind" "$M/executors/raw/config")" '{}'
}

@test "EBUSY: cordoned, draining, at its ceiling, in use" {
	local id

	mkdir "$M/executors/busy"
	put "$M/executors/busy/config" '{"kind":"localprocess","max_concurrent":1}'
	id=$(start "$(spec /bin/sleep 1000)" busy)
	refused EBUSY '' put "$M/executors/busy/start" '{"argv":["/bin/true"]}'
	like "$(jq -r '.reason + .remedy' <<< "$refusal")" 'max_concurrent.*raise max_concurrent in executors/busy/config'
	refused EBUSY '' rmdir "$M/executors/busy"
	like "$(jq -r .remedy <<< "$refusal")" 'executors/busy/state'
	refused EBUSY '' rmdir "$M/sessions/$id"
	like "$(jq -r .remedy <<< "$refusal")" "echo kill > sessions/$id/signal"
	put "$M/executors/busy/state" 'cordon new disk'
	refused EBUSY '' put "$M/executors/busy/start" '{"argv":["/bin/true"]}'
	like "$(jq -r .reason <<< "$refusal")" 'cordoned: new disk$'
	put "$M/executors/busy/state" drain
	refused EBUSY '' put "$M/executors/busy/start" '{"argv":["/bin/true"]}'
	like "$(jq -r .reason <<< "$refusal")" 'is draining, by an operator'
	put "$M/sessions/$id/signal" kill
	equal "$(ended "$id")" 137
	rmdir "$M/sessions/$id" "$M/executors/busy"
}

@test "ESTALE: what was removed while it was open, also when the name comes again" {
	local id

	id=$(start "$(script 'echo first' '{labels: {"cloop.session": "again"}}')")
	ended "$id"
	mkdir "$M/executors/again"
	exec 5< "$M/sessions/again/log" 6<> "$M/sessions/again/signal" 7< "$M/sessions/again/status" \
		8<> "$M/executors/again/start" 9< "$M/executors/again/state"
	rmdir "$M/sessions/again" "$M/executors/again"
	id=$(start "$(script 'echo second' '{labels: {"cloop.session": "again"}}')")
	ended "$id"
	mkdir "$M/executors/again"
	put "$M/executors/again/config" '{"kind":"localprocess"}'

	for fd in 5 7 9; do
		run -1 cat <&$fd
		like "$output" 'Stale file handle' || fail "descriptor $fd"
		equal "$(stat -L -c %h /dev/fd/$fd)" 0 || fail "descriptor $fd"
	done
	run -1 bash -c 'echo kill >&6'
	like "$output" 'Stale file handle'
	run -1 bash -c "echo '{\"argv\":[\"/bin/true\"]}' >&8"
	like "$output" 'Stale file handle'
	exec 5<&- 6>&- 7<&- 8>&- 9<&-
	equal "$(now again log)" second
	equal "$(stat -c %h "$M/sessions/again/log")" 1
	equal "$(cat "$M/executors/again/state")" ready
	rmdir "$M/executors/again"
}

@test "a reader that is blocked on what is removed is told" {
	local id

	mkdir "$M/executors/gone"
	put "$M/executors/gone/config" '{"kind":"localprocess"}'
	id=$(start "$(spec /bin/sleep 1000)" gone)
	cat "$M/executors/gone/drained" > "$BATS_TEST_TMPDIR/drained" 3>&- &
	put "$M/sessions/$id/signal" kill
	wait $!
	equal "$(cat "$BATS_TEST_TMPDIR/drained")" 0
	rmdir "$M/executors/gone"
}

@test "the answer to a refusal is the object of error.json" {
	local said

	# shellcheck disable=SC2016
	said=$(me bash -c 'exec 9<> "$0"; echo "{\"argv\":[]}" >&9 2> /dev/null; cat <&9' "$M/executors/local/start")
	equal "$(jq -c 'del(.at)' <<< "$said")" \
		"$(jq -c 'del(.at)' "$M/error.json")"
	equal "$(jq -c 'keys_unsorted' <<< "$said")" '["file","errno","reason","field","remedy","at"]'
	equal "$(jq -r .file <<< "$said")" executors/local/start
	# Also from a fresh descriptor.
	equal "$(cat "$M/executors/local/start")" "$said"
}

@test "error is one sentence with the place, the field, the reason and the remedy" {
	refused EINVAL argv begin '{"argv":[]}'
	equal "$(cat "$M/error")" \
		'executors/local/start: argv: must name the program to run; write it as ["program","argument"]'
	equal "$(wc -l < "$M/error")" 1
}

@test "file is relative to the mount, whatever was refused" {
	local file

	begin '{"argv":[]}' 2> /dev/null || true
	equal "$(jq -r .file "$M/error.json")" executors/local/start
	run ! put "$M/executors/raw/config" '{}' 2> /dev/null
	equal "$(jq -r .file "$M/error.json")" executors/raw/config
	run ! put "$M/default_id" nobody 2> /dev/null
	equal "$(jq -r .file "$M/error.json")" default_id
	run ! mkdir "$M/executors/-" 2> /dev/null
	equal "$(jq -r .file "$M/error.json")" executors/-
	run ! rmdir "$M/executors/none" 2> /dev/null
	equal "$(jq -r .file "$M/error.json")" executors/-
	run ! mkdir "$M/here" 2> /dev/null
	equal "$(jq -r '.file, .errno' "$M/error.json" | xargs)" 'here EPERM'
	run ! rm -f "$M/version" 2> /dev/null
	equal "$(jq -r '.file, .errno' "$M/error.json" | xargs)" 'version EPERM'
	run ! mkdir "$M/executors/"$'\xff' 2> /dev/null
	equal "$(jq -r .file "$M/error.json")" 'executors/?'
	file=$(jq -c . "$M/error.json")
	# What merely is not there is no refusal of a change.
	run ! cat "$M/executors/none/state" 2> /dev/null
	equal "$(jq -c . "$M/error.json")" "$file"
}

@test "the latest refusal stays: after successes, and over the death of a hub" {
	local before

	refused EINVAL argv begin '{"argv":[]}'
	before=$(cat "$M/error.json")
	ended "$(start "$(spec /bin/true)")"
	equal "$(cat "$M/error.json")" "$before"
	hub_kill
	equal "$(cat "$M/error.json")" "$before"
	like "$(jq -r .at <<< "$before")" '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{1,9}Z$'
}

@test "each user sees the own latest refusal, and nobody else's" {
	need_root
	WHO=alice refused EINVAL argv begin '{"argv":[]}'
	WHO=bob refused EINVAL work_dir begin '{"argv":["x"],"work_dir":"y"}'
	equal "$(as alice jq -r .field "$M/error.json")" argv
	equal "$(as bob jq -r .field "$M/error.json")" work_dir
	equal "$(as mallory cat "$M/error" "$M/error.json")" ''
}

@test "no sentence, answer or line of the daemon holds a value of the environment or an argument" {
	local secret=hunter2hunter2 spec

	for spec in "{\"argv\":[\"/bin/true\"],\"env\":[\"PASSWORD=$secret\",\"PASSWORD=$secret\"]}" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"$secret\"]}" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"=$secret\"]}" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"PASSWORD=$secret\"],\"image\":\"x\"}" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"PASSWORD=$secret\"],}" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"PASSWORD=$secret\"" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"PASSWORD=$secret\"]} x" \
		"{\"argv\":[\"/nonexistent\"],\"env\":[\"PASSWORD=$secret\"]}" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"PASSWORD=$secret\",\"A\"]}" \
		"{\"argv\":[\"/bin/true\"],\"env\":\"PASSWORD=$secret\"}" \
		"{\"env\":[\"PASSWORD=$secret\"], \"$secret" \
		"{\"argv\":[\"/bin/true\"],\"env\":[\"PASSWORD=$secret\\ud800\"]}"; do
		run cp <(printf %s "$spec") "$M/executors/local/start"
		equal "$status" 1
		output+=$(cat "$M/executors/local/start")
		[[ $output != *$secret* ]] || fail "$output"
		[[ $(cat "$M/error" "$M/error.json") != *$secret* ]] || fail "$(cat "$M/error.json")"
	done
	run ! grep -l "$secret" "$D"/said.* "$M/events"
}

@test "the hub stops and leaves nothing" {
	hub_end
}
