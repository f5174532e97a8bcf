# Executors: names, configs, states, the default; and that everything persists over a restart.

load common

setup_file() {
	hub_begin
}

E() {
	printf '%s\n' "$M/executors/$1"
}

# make ID [CONFIG]
make() {
	mkdir "$(E "$1")"
	put "$(E "$1")/config" "${2:-{\"kind\":\"localprocess\"\}}"
}

@test "names of executors" {
	local id

	for id in a 0 gpu-1 a.b_c-d 1.2.3 "$(printf 'a%062d' 0)"; do
		mkdir "$(E "$id")" || fail "$id"
		rmdir "$(E "$id")" || fail "$id"
	done
	for id in A a/b '.a' -a _a 'a b' a$'\n'b é "$(printf 'a%063d' 0)" $'\xff' 'a:b' '*'; do
		[[ $id == */* ]] || refused EINVAL '' mkdir "$(E "$id")" || fail "$id"
	done
	like "$(jq -r .remedy "$M/error.json")" '1 to 63 of a-z'
	equal "$(fsop mkdir "$(E a/b)") $(fsop mkdir "$(E local)") $(fsop mkdir "$(E local/sub)")" 'ENOENT EEXIST EPERM'
	equal "$(ls "$M/executors")" local
}

@test "a new one is unconfigured until its config was accepted" {
	mkdir "$(E new)"
	equal "$(cat "$(E new)/state")" unconfigured
	equal "$(cat "$(E new)/kind" "$(E new)/inflight" "$(E new)/max_concurrent" "$(E new)/labels" | xargs)" '0 0 {}'
	equal "$(timeout 10 cat "$(E new)/drained")" 0
	equal "$(jq -r .state "$(E new)/health")" unconfigured
	refused EHOSTUNREACH '' put "$(E new)/start" '{"argv":["/bin/true"]}'
	refused ENOENT '' put "$M/default_id" new
	put "$(E new)/config" '{"kind":"localprocess"}'
	equal "$(cat "$(E new)/state" "$(E new)/kind" | xargs)" 'ready localprocess'
	equal "$(ended "$(start '{"argv":["/bin/true"]}' new)")" 0
	rmdir "$(E new)"
}

@test "a config reads back canonical, and applies to new sessions" {
	local id

	make conf '{ "labels": {"b":"2","a":"1"}, "max_concurrent": 1, "kind": "localprocess" }'
	equal "$(cat "$(E conf)/config")" '{"kind":"localprocess","labels":{"a":"1","b":"2"},"max_concurrent":1}'
	equal "$(cat "$(E conf)/labels" "$(E conf)/max_concurrent" | xargs)" '{a:1,b:2} 1'
	equal "$(jq .max_concurrent "$(E conf)/capabilities")" 1
	id=$(start '{"argv":["/bin/sleep","1000"]}' conf)
	refused EBUSY '' put "$(E conf)/start" '{"argv":["/bin/true"]}'
	put "$(E conf)/config" '{"kind":"localprocess","max_concurrent":2}'
	equal "$(ended "$(start '{"argv":["/bin/true"]}' conf)")" 0
	# What is left out is gone.
	equal "$(cat "$(E conf)/labels")" '{}'
	put "$(E conf)/config" '{"kind":"localprocess","max_concurrent":0,"labels":{}}'
	equal "$(cat "$(E conf)/config")" '{"kind":"localprocess"}'
	put "$M/sessions/$id/signal" kill
	ended "$id"
	rmdir "$(E conf)"
}

@test "cordon, drain and uncordon, with their reasons" {
	local id before

	make states
	put "$(E states)/state" 'cordon  for  a new disk '
	equal "$(cat "$(E states)/state")" cordoned
	equal "$(jq -r '.state + ": " + .reason' "$(E states)/health")" 'cordoned: for  a new disk'
	put "$(E states)/state" cordoned
	equal "$(jq -r '.state + ": " + .reason' "$(E states)/health")" 'cordoned: cordoned by an operator'
	put "$(E states)/state" 'drain è un guasto'
	equal "$(jq -r '.state + ": " + .reason' "$(E states)/health")" 'draining: è un guasto'
	before=$(jq -r .state_changed_at "$(E states)/health")
	put "$(E states)/state" draining
	equal "$(jq -r .state_changed_at "$(E states)/health")" "$before"
	put "$(E states)/state" uncordon
	equal "$(jq -c '[.state, has("reason")]' "$(E states)/health")" '["ready",false]'
	[[ $(jq -r .state_changed_at "$(E states)/health") != "$before" ]]
	put "$(E states)/state" ready
	# Running work goes on.
	id=$(start '{"argv":["/bin/sh","-c","sleep 0.3; exit 5"]}' states)
	put "$(E states)/state" drain
	refused EBUSY '' put "$(E states)/start" '{"argv":["/bin/true"]}'
	equal "$(timeout 60 cat "$(E states)/drained") $(now "$id" exit_code)" '0 5'
	# The same state again is no event, a reason of control bytes no new line.
	equal "$(jq -r 'select(.executor_id == "states" and .type == "executor.state_change") | .from + ">" + .to' \
		"$M/events" | xargs)" 'ready>cordoned cordoned>draining draining>ready ready>draining'
	put "$(E states)/state" $'cordon a\tb\x01c'
	equal "$(jq -r .reason "$(E states)/health" | wc -l)" 1
	rmdir "$(E states)"
}

@test "inflight and sessions are those that run; drained waits for them" {
	local ids=() i

	make fly
	for i in 1 2 3; do
		ids+=("$(start '{"argv":["/bin/sleep","1000"]}' fly)")
		equal "$(cat "$(E fly)/inflight")" "$i"
	done
	equal "$(ls "$(E fly)/sessions" | sort | xargs)" "$(printf '%s\n' "${ids[@]}" | sort | xargs)"
	equal "$(cat "$(E fly)/sessions/${ids[1]}/state")" running
	equal "$(ls "$M/executors/local/sessions")" ''
	cat "$(E fly)/drained" > "$BATS_TEST_TMPDIR/drained" 3>&- &
	for i in "${ids[@]}"; do
		equal "$(cat "$BATS_TEST_TMPDIR/drained")" ''
		put "$M/sessions/$i/signal" kill
		ended "$i"
		[[ ! -e $(E fly)/sessions/$i ]]
	done
	wait $!
	equal "$(cat "$BATS_TEST_TMPDIR/drained") $(cat "$(E fly)/inflight")" '0 0'
	equal "$(timeout 10 cat "$(E fly)/drained")" 0
	rmdir "$(E fly)"
}

@test "who has read drained is not held by what starts then" {
	local id

	make late
	exec 5< "$(E late)/drained"
	read -r -u 5 id
	equal "$id" 0
	id=$(start '{"argv":["/bin/sleep","1000"]}' late)
	equal "$(timeout 10 cat <&5; echo $?)" 0
	exec 5<&-
	put "$M/sessions/$id/signal" kill
	ended "$id"
	rmdir "$(E late)"
}

@test "the ceiling holds for starts at the same time" {
	local pids=() i won=0 id

	make ceiling '{"kind":"localprocess","max_concurrent":3}'
	for i in $(seq 20); do
		start '{"argv":["/bin/sleep","1000"]}' ceiling > "$BATS_TEST_TMPDIR/id.$i" 2> /dev/null 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" && won=$((won + 1))
	done
	equal "$won $(cat "$(E ceiling)/inflight")" '3 3'
	while read -r id; do
		put "$M/sessions/$id/signal" kill
		ended "$id"
	done < <(cat "$BATS_TEST_TMPDIR"/id.*)
	equal "$(ended "$(start '{"argv":["/bin/true"]}' ceiling)")" 0
	rmdir "$(E ceiling)"
}

@test "the default is chosen, and passes on" {
	equal "$(cat "$M/default_id") $(readlink "$M/default")" 'local executors/local'
	make zeta
	make beta
	equal "$(cat "$M/default_id")" local
	put "$M/default_id" zeta
	equal "$(cat "$M/default_id") $(readlink "$M/default")" 'zeta executors/zeta'
	equal "$(ended "$(me jq -r .session <(put "$M/default/start" '{"argv":["/bin/true"]}'; cat "$M/default/start"))")" 0
	# To the lowest id that is left and registered.
	mkdir "$(E alpha)"
	rmdir "$(E zeta)"
	equal "$(cat "$M/default_id")" beta
	rmdir "$(E beta)"
	equal "$(cat "$M/default_id")" local
	rmdir "$(E alpha)"
	# The last one, too.
	rmdir "$(E local)"
	equal "$(cat "$M/default_id"; echo .)" $'\n.'
	[[ ! -L $M/default && ! -e $M/default ]]
	equal "$(ls -A "$M" | grep -c '^default$')" 0
	# The first that is registered is the default again.
	make first
	equal "$(cat "$M/default_id") $(readlink "$M/default")" 'first executors/first'
	make local
	put "$M/default_id" local
	rmdir "$(E first)"
}

@test "an executor that is in use is not removed, and one that comes again is another" {
	local id inode

	make used
	inode=$(stat -c %i "$(E used)")
	id=$(start '{"argv":["/bin/sleep","1000"]}' used)
	refused EBUSY '' rmdir "$(E used)"
	put "$M/sessions/$id/signal" kill
	ended "$id"
	rmdir "$(E used)"
	make used
	[[ $(stat -c %i "$(E used)") != "$inode" ]]
	equal "$(cat "$(E used)/inflight")" 0
	rmdir "$(E used)"
}

@test "of twenty that make the same one, one does; of twenty that remove it, one does" {
	local pids=() i made=0 removed=0

	for i in $(seq 20); do
		mkdir "$(E same)" 2> /dev/null 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" && made=$((made + 1))
	done
	pids=()
	for i in $(seq 20); do
		rmdir "$(E same)" 2> /dev/null 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" && removed=$((removed + 1))
	done
	equal "$made $removed" '1 1'
	[[ ! -e $(E same) ]]
}

@test "all of it is there after a restart, and what runs is adopted" {
	local id finished before

	make kept '{"kind":"localprocess","labels":{"a":"b"},"max_concurrent":4,"log_quota_bytes":8192}'
	mkdir "$(E raw)"
	put "$M/default_id" kept
	put "$(E local)/state" 'cordon until tomorrow'
	finished=$(start '{"argv":["/bin/sh","-c","echo done; exit 9"]}' kept)
	ended "$finished"
	id=$(start "{\"argv\":[\"/bin/sh\",\"-c\",\"echo begun; while [ ! -e $D/work/end ]; do sleep 0.05; done; echo ended; exit 8\"]}" kept)
	before=$(cd "$M" && cat default_id executors/*/{config,state,health,labels,inflight} "sessions/$finished/"{spec,status,log} events)
	hub_restart
	equal "$(cd "$M" && cat default_id executors/*/{config,state,health,labels,inflight} "sessions/$finished/"{spec,status,log} events)" "$before"
	equal "$(now "$id" state) $(now "$id" log) $(cat "$(E kept)/inflight")" 'running begun 1'
	[[ -d /proc/$(now "$id" pid) ]]
	touch "$D/work/end"
	equal "$(ended "$id")" 8
	equal "$(now "$id" log)" $'begun\nended'
	# Also what ends in between.
	rm "$D/work/end"
	id=$(start "{\"argv\":[\"/bin/sh\",\"-c\",\"while [ ! -e $D/work/end ]; do sleep 0.05; done; exit 7\"]}" kept)
	hub_stop
	touch "$D/work/end"
	hub_start
	equal "$(ended "$id")" 7
	equal "$(stat -c %y "$M/sessions/$id/status" | cut -d . -f 1 | tr ' ' T)" \
		"$(status "$id" .finished_at | cut -d . -f 1)"
	# And is signalled.
	id=$(start '{"argv":["/bin/sleep","1000"]}' kept)
	hub_restart
	put "$M/sessions/$id/signal" terminate
	equal "$(ended "$id")" 143
	put "$(E local)/state" uncordon
	put "$M/default_id" local
	rmdir "$(E kept)" "$(E raw)"
}

@test "local that was removed stays removed" {
	rmdir "$(E local)"
	hub_restart
	equal "$(ls "$M/executors"; cat "$M/default_id")" ''
	make local
	equal "$(cat "$M/default_id")" local
}

@test "serials are not given out again after a restart" {
	local inode id

	make again
	inode=$(stat -c %i "$(E again)")
	id=$(start '{"argv":["/bin/true"]}' again)
	ended "$id"
	equal "$(stat -c %i "$M/sessions/$id")" "$(ls -di "$M/sessions/$id" | cut -d ' ' -f 1)"
	inode+=" $(stat -c %i "$M/sessions/$id")"
	rmdir "$(E again)" "$M/sessions/$id"
	hub_restart
	make again
	id=$(start '{"argv":["/bin/true"]}' again)
	[[ "$(stat -c %i "$(E again)")" != "${inode% *}" && "$(stat -c %i "$M/sessions/$id")" != "${inode#* }" ]]
	ended "$id"
	rmdir "$(E again)"
}

@test "the hub stops and leaves nothing" {
	hub_end
}
