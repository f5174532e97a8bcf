# Placement: /start and /place choose among the executors, or say of each why not.

load common

setup_file() {
	hub_begin
	mkdir "$M/executors/east" "$M/executors/west"
	put "$M/executors/east/config" '{"kind":"localprocess","labels":{"zone":"east","disk":"ssd"},"max_concurrent":4}'
	put "$M/executors/west/config" '{"kind":"localprocess","labels":{"zone":"west"},"max_concurrent":2}'
	mkdir "$M/executors/unconfigured"
}

# write FILE TEXT: writes a document, prints the answer that is read on the same descriptor, and
# returns how the write went.
write() {
	# shellcheck disable=SC2016
	me bash -c '
		exec 9<> "$0" || exit
		printf "%s\n" "$1" 2> /dev/null >&9
		r=$?
		cat <&9
		exit $r' "$M/$1" "$2"
}

# placed REQUIREMENTS: where work with these would go.
placed() {
	write place "{\"requirements\":$1}" | jq -r .selected
}

# launch REQUIREMENTS SPEC: starts it; prints the answer.
launch() {
	write start "{\"requirements\":$1,\"spec\":$2}"
}

finish() {
	local id

	for id; do
		put "$M/sessions/$id/signal" kill
		ended "$id" > /dev/null
	done
}

@test "the requirements choose the executor" {
	# No maximum is plenty of room, then the most free slots.
	equal "$(placed '{}')" local
	equal "$(placed '{"labels":{"zone":"west"}}')" west
	equal "$(placed '{"labels":{"zone":"east","disk":"ssd"}}')" east
	equal "$(placed '{"executor_id":"east"}')" east
	equal "$(placed '{"platform":"LINUX","require_stream":true,"require_signal":true}')" local
	# What the spec implies is asked for as well.
	equal "$(write place '{"spec":{"argv":["x"],"image":"i"}}' | jq -r .constraint)" image_override
	equal "$(write place '{}' | jq -c .)" '{"selected":"local"}'
	equal "$(ls "$M/sessions")" ''
}

@test "a refusal says of each executor why" {
	local answer

	refused ENODEV labels put "$M/place" '{"requirements":{"labels":{"zone":"north"}}}'
	like "$(cat "$M/error")" '^place: labels: none of 3 executors can take the workload \(labels\): east label zone is east, not north; '
	answer=$(write place '{"requirements":{"labels":{"zone":"north"}}}' || true)
	equal "$(jq -c '[.constraint, .considered, [.rejections[] | [.executor_id, .constraint, .detail]]]' <<< "$answer")" \
		'["labels",3,[["east","labels","label zone is east, not north"],["local","labels","has no label zone"],["west","labels","label zone is west, not north"]]]'
	equal "$(jq -c keys <<< "$answer")" '["considered","constraint","rejections"]'
	# The same through start, and on a fresh descriptor.
	refused ENODEV isolation put "$M/start" '{"spec":{"argv":["true"]},"requirements":{"require_isolation":true}}'
	equal "$(jq -c '[.constraint, .considered]' "$M/start")" '["isolation",3]'
	# The most frequent constraint is the headline.
	refused ENODEV executor_id put "$M/place" '{"requirements":{"executor_id":"west","labels":{"zone":"east"}}}'
	refused ENODEV executor_id put "$M/place" '{"requirements":{"executor_id":"nobody"}}'
	refused ENODEV virtualization put "$M/start" '{"spec":{"argv":["true"]},"requirements":{"require_virtualization":true}}'
	equal "$(ls "$M/sessions")" ''
}

@test "health and load, with their errno" {
	local id

	put "$M/executors/west/state" 'cordon new disk'
	refused ENODEV executor_id put "$M/place" '{"requirements":{"executor_id":"west"}}'
	equal "$(write place '{"requirements":{"executor_id":"west"}}' | jq -r '.rejections[] | select(.executor_id == "west") | .constraint + ": " + .detail')" \
		'health: the executor is cordoned'
	put "$M/executors/east/state" drain
	put "$M/executors/local/state" cordon
	refused EBUSY health put "$M/place" '{}'
	refused EBUSY health put "$M/start" '{"argv":["true"]}'
	put "$M/executors/west/state" uncordon
	equal "$(placed '{}')" west
	id=$(launch '{}' '{"argv":["sleep","1000"]}' | jq -r .session)
	id+=" $(launch '{}' '{"argv":["sleep","1000"]}' | jq -r .session)"
	put "$M/executors/local/state" uncordon
	equal "$(placed '{}')" local
	equal "$(placed '{"labels":{"zone":"west"},"ignore_capacity":true}')" west
	equal "$(write place '{"requirements":{"labels":{"zone":"west"}}}' | jq -c '[.constraint, (.rejections[] | select(.executor_id == "west") | .detail)]')" \
		'["capacity","runs 2 of at most 2"]'
	# Load is ignored where it is asked to be; the executor's own ceiling still holds.
	refused EBUSY '' put "$M/start" \
		'{"spec":{"argv":["true"]},"requirements":{"labels":{"zone":"west"},"ignore_capacity":true}}'
	put "$M/executors/east/state" uncordon
	# shellcheck disable=SC2086
	finish $id
}

@test "work is spread over what is free" {
	local i answer ids=() where=()

	for i in 1 2 3 4 5 6; do
		answer=$(launch '{"labels":{"zone":"east"}}' '{"argv":["sleep","1000"]}') || break
		ids+=("$(jq -r .session <<< "$answer")")
		where+=("$(jq -r .handle.executor_id <<< "$answer")")
	done
	equal "${where[*]}" 'east east east east'
	equal "$(readlink "$M/sessions/${ids[0]}/executor")" ../../executors/east
	finish "${ids[@]}"
	put "$M/executors/local/state" cordon
	ids=() where=()
	for i in 1 2 3 4; do
		answer=$(write start '{"argv":["sleep","1000"]}')
		ids+=("$(jq -r .session <<< "$answer")")
		where+=("$(jq -r .handle.executor_id <<< "$answer")")
	done
	# 4 and 2 free: two go east, then they take turns, east first.
	equal "${where[*]}" 'east east east west'
	finish "${ids[@]}"
	put "$M/executors/local/state" uncordon
}

@test "of many starts at once for the last free slots as many are placed as there are slots" {
	local pids=() i won=0 id

	for i in $(seq 20); do
		launch '{"labels":{"zone":"west"}}' '{"argv":["sleep","1000"]}' \
			> "$BATS_TEST_TMPDIR/answer.$i" 2> /dev/null 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" && won=$((won + 1))
	done
	equal "$won $(cat "$M/executors/west/inflight")" '2 2'
	# The others have the reason.
	equal "$(jq -r 'select(.constraint) | .rejections[] | select(.executor_id == "west") | .constraint' \
		"$BATS_TEST_TMPDIR"/answer.* | sort | uniq -c | xargs)" '18 capacity'
	for id in $(jq -r 'select(.session) | .session' "$BATS_TEST_TMPDIR"/answer.*); do
		finish "$id"
	done
	equal "$(cat "$M/executors/west/inflight")" 0
}

@test "a retry is answered whatever became of the fleet" {
	local doc answer

	doc='{"spec":{"argv":["sh","-c","echo ran >> '$D'/work/retried"],"labels":{"cloop.session":"retried"}},"requirements":{"labels":{"zone":"west"}}}'
	answer=$(write start "$doc")
	equal "$(jq -r '.session + " " + .handle.executor_id' <<< "$answer")" 'retried west'
	ended retried
	put "$M/executors/west/state" cordon
	equal "$(write start "$doc" | jq -r '.session + " " + .handle.executor_id')" 'retried west'
	hub_kill
	equal "$(write start "$doc" | jq -r .session)" retried
	equal "$(cat "$D/work/retried")" ran
	# Another spec, other requirements, another file: not the same.
	refused EEXIST labels.cloop.session put "$M/start" "${doc/echo ran/echo run}"
	refused EEXIST labels.cloop.session put "$M/start" "${doc/west/east}"
	refused EEXIST labels.cloop.session put "$M/start" "$(jq -c .spec <<< "$doc")"
	refused EEXIST labels.cloop.session put "$M/executors/west/start" "$(jq -c .spec <<< "$doc")"
	equal "$(cat "$D/work/retried")" ran
	put "$M/executors/west/state" uncordon
	# rmdir frees the name.
	rmdir "$M/sessions/retried"
	equal "$(write start "$doc" | jq -r .session)" retried
	ended retried
}

@test "of twenty retries at once one starts" {
	local i pids=()

	for i in $(seq 20); do
		write start '{"argv":["sh","-c","echo ran >> '"$D"'/work/once"],"labels":{"cloop.session":"once"}}' \
			> "$BATS_TEST_TMPDIR/once.$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	equal "$(jq -r .session "$BATS_TEST_TMPDIR"/once.* | sort | uniq -c | xargs)" '20 once'
	ended once
	equal "$(cat "$D/work/once")" ran
}

@test "the hub is killed under placed starts, and each happens once" {
	local i pids=() ids

	for i in $(seq 24); do
		launch '{"labels":{"zone":"'"$( ((i % 2)) && echo east || echo west)"'"},"ignore_capacity":true}' \
			'{"argv":["sh","-c","echo ran >> '"$D/work/killed.$i"'"]}' > "$BATS_TEST_TMPDIR/killed.$i" 2>&1 3>&- &
		pids+=($!)
		((i != 8 && i != 16)) || hub_kill
	done
	for i in "${!pids[@]}"; do
		wait "${pids[i]}" || jq -e '.errno == "EBUSY"' "$BATS_TEST_TMPDIR/killed.$((i + 1))"
	done
	ids=$(jq -r '.session // empty' "$BATS_TEST_TMPDIR"/killed.*)
	# shellcheck disable=SC2086
	ended $ids > "$BATS_TEST_TMPDIR/codes"
	equal "$(sort -u "$BATS_TEST_TMPDIR/codes")" 0
	# Those that were acknowledged ran, once; the others never did.
	equal "$(cat "$D"/work/killed.* | sort | uniq -c | xargs)" "$(wc -w <<< "$ids") ran"
	equal "$(wc -l "$D"/work/killed.* | awk '$2 != "total" && $1 != 1')" ''
}

@test "documents that are none" {
	refused EINVAL requirements.require_isolated put "$M/start" \
		'{"spec":{"argv":["true"]},"requirements":{"require_isolated":true}}'
	refused EINVAL spec.argvs put "$M/start" '{"spec":{"argvs":["true"]}}'
	refused EINVAL spec put "$M/start" '{"requirements":{}}'
	refused EINVAL requirement put "$M/place" '{"requirement":{}}'
	refused EINVAL argv put "$M/place" '{"argv":["true"]}'
	refused EINVAL 'requirements.allowed_isolations[0]' put "$M/place" \
		'{"requirements":{"allowed_isolations":["jail"]}}'
	refused EINVAL requirements.min_memory_mb put "$M/place" '{"requirements":{"min_memory_mb":-5}}'
	refused EINVAL 'requirements.harnesses[0]' put "$M/place" '{"requirements":{"harnesses":[""]}}'
	refused EINVAL '' put "$M/start" '[]'
	refused EINVAL '' put "$M/start" '{"spec":{"argv":["true"]}} x'
	refused EINVAL labels.cloop.session put "$M/start" '{"argv":["true"],"labels":{"cloop.session":"../x"}}'
	# Names are compared, and nothing else.
	refused ENODEV executor_id put "$M/place" '{"requirements":{"executor_id":"../../etc"}}'
	refused ENODEV labels put "$M/place" '{"requirements":{"labels":{"a\"b":"c\nd"}}}'
	equal "$(jq -r '.reason | contains("\n")' "$M/error.json")" false
}

@test "documents of a megabyte" {
	# Just below: read, and the answer is about the whole of it.
	jq -nc '{requirements: {harnesses: [range(64) | "h\(.)"]}, spec: {argv: ["true", ("x" * 100000)],
		env: [range(8) | "V\(.)=" + ("y" * 100000)]}}' > "$BATS_TEST_TMPDIR/large"
	(($(stat -c %s "$BATS_TEST_TMPDIR/large") > 900000))
	equal "$(write place "$(jq -c 'del(.spec)' "$BATS_TEST_TMPDIR/large")" | jq -c .)" '{"selected":"local"}'
	me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/large" "$M/start"
	equal "$(me jq -r .handle.executor_id "$M/start")" local
	ended "$(me jq -r .session "$M/start")"
	jq -nc '{spec: {argv: ["true", ("x" * 1048576)]}}' > "$BATS_TEST_TMPDIR/large"
	refused EFBIG '' me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/large" "$M/start"
	jq -nc '{requirements: {harnesses: [range(65) | "h\(.)"]}}' > "$BATS_TEST_TMPDIR/many"
	refused EINVAL requirements.harnesses me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/many" "$M/place"
}

@test "who may: root, members of cloop-admin and cloop, nobody else" {
	local who id

	need_root
	for who in alice bob carol; do
		equal "$(WHO=$who placed '{"labels":{"zone":"east"}}')" east
		id=$(WHO=$who write start '{"argv":["id","-un"]}' | jq -r .session)
		WHO=$who ended "$id"
		equal "$(WHO=$who now "$id" stdout)" "$who"
		# Each reads his own answer.
		equal "$(WHO=$who me jq -r .session "$M/start")" "$id"
	done
	equal "$(WHO=mallory fsop open-write "$M/start") $(WHO=mallory fsop open-write "$M/place")" 'EACCES EACCES'
	# The names of others are theirs.
	WHO=alice put "$M/start" '{"argv":["true"],"labels":{"cloop.session":"hers"}}'
	WHO=bob refused EPERM labels.cloop.session put "$M/start" '{"argv":["true"],"labels":{"cloop.session":"hers"}}'
	# Paths of the host are for administrators, secrets want a lease, whoever asks.
	WHO=alice refused EPERM spec.host_mounts put "$M/start" \
		'{"spec":{"argv":["true"],"host_mounts":[{"source":"/srv","target":"/srv"}]}}'
	WHO=alice refused EPERM host_mounts put "$M/start" \
		'{"argv":["true"],"host_mounts":[{"source":"/srv","target":"/srv"}]}'
	WHO=carol refused ENODEV host_mounts put "$M/start" \
		'{"argv":["true"],"host_mounts":[{"source":"/srv","target":"/srv"}]}'
	refused ENOKEY 'spec.secrets[0].lease_id' put "$M/start" \
		'{"spec":{"argv":["true"],"secrets":[{"lease_id":"l","env_keys":["T"]}]}}'
}

@test "who is chosen has a say, and then the next best" {
	local spec='{"argv":["true"],"disable_network":true}'

	# What no requirement stands for: the driver refuses, and nobody is left.
	refused EOPNOTSUPP disable_network put "$M/start" "$spec"
	refused EOPNOTSUPP disable_network put "$M/place" "{\"spec\":$spec}"
	refused EOPNOTSUPP disable_network put "$M/check/requirements" "{\"spec\":$spec}"
	equal "$(me jq -c '[.selected, .candidates, .field, has("constraint")]' "$M/check/requirements")" \
		'[null,["local","east","west"],"disable_network",false]'
	need_root
	mkdir "$M/executors/boxed"
	put "$M/executors/boxed/config" '{"kind":"container","image":"example.org/none:1","max_concurrent":1}'
	equal "$(write place "{\"spec\":${spec/\"true\"/\"\/bin\/true\"},\"requirements\":{}}" | jq -r .selected)" boxed
	refused EOPNOTSUPP disable_network put "$M/place" "{\"spec\":$spec,\"requirements\":{\"executor_id\":\"local\"}}"
	rmdir "$M/executors/boxed"
}

@test "what must not run on the host is placed nowhere, bound or not" {
	local file answer

	mkdir "$M/projects/app"
	put "$M/policy/host_execution" denied
	for file in start place; do
		refused EACCES host_execution_policy put "$M/$file" '{"spec":{"argv":["true"]}}'
		equal "$(me jq -c '[.constraint, .considered, (.rejections | map(.constraint) | unique)]' "$M/$file")" \
			'["host_execution_policy",3,["host_execution_policy"]]'
	done
	refused EACCES host_execution_policy put "$M/check/requirements" '{}'
	# The default, and a binding.
	refused EACCES '' put "$M/projects/app/start" '{"argv":["true"]}'
	put "$M/projects/app/binding" east
	refused EACCES '' put "$M/projects/app/start" '{"argv":["true"]}'
	like "$(cat "$M/error")" 'east'
	put "$M/projects/app/requirements" '{"labels":{"zone":"east"}}'
	put "$M/projects/app/binding" ''
	answer=$(write projects/app/start '{"argv":["true"]}' || true)
	equal "$(jq -r .constraint <<< "$answer")" host_execution_policy
	rmdir "$M/projects/app"
}

@test "a fleet of nobody" {
	local id

	rmdir "$M/executors/unconfigured"
	for id in east west local; do
		rmdir "$M/executors/$id"
	done
	refused ENODEV no_candidates put "$M/place" '{}'
	equal "$(write place '{}' | jq -c .)" '{"constraint":"no_candidates","considered":0,"rejections":[]}'
	refused ENODEV no_candidates put "$M/start" '{"argv":["true"]}'
}

@test "the hub stops, and nothing is left" {
	hub_end
}
