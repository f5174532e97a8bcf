# Projects: paths, bindings, requirements, where their work goes, and their sessions.

load common

setup_file() {
	hub_begin
	mkdir "$M/executors/east" "$M/executors/west"
	put "$M/executors/east/config" '{"kind":"localprocess","labels":{"zone":"east"},"max_concurrent":4}'
	put "$M/executors/west/config" '{"kind":"localprocess","labels":{"zone":"west"},"max_concurrent":2}'
}

P() {
	printf '%s\n' "$M/projects/$1"
}

# launch PROJECT SPEC: prints the answer; fails as the write does.
launch() {
	# shellcheck disable=SC2016
	me bash -c '
		exec 9<> "$0" || exit
		printf "%s\n" "$1" 2> /dev/null >&9
		r=$?
		cat <&9
		exit $r' "$(P "$1")/start" "$2"
}

# goes PROJECT: the executor that a start goes to.
goes() {
	local answer

	answer=$(launch "$1" '{"argv":["true"]}') || return
	ended "$(jq -r .session <<< "$answer")" > /dev/null
	jq -r .handle.executor_id <<< "$answer"
}

target() {
	basename "$(readlink "$(P "$1")/executor")"
}

@test "names of projects" {
	local id

	for id in a 0 app-1 a.b_c-d 1.2.3 "$(printf 'a%062d' 0)"; do
		mkdir "$(P "$id")" || fail "$id"
		rmdir "$(P "$id")" || fail "$id"
	done
	for id in A '.a' -a _a 'a b' a$'\n'b é "$(printf 'a%063d' 0)" $'\xff' 'a:b' '*' .. '../x'; do
		[[ $id == *..* ]] || refused EINVAL '' mkdir "$(P "$id")" || fail "$id"
	done
	like "$(jq -r .reason "$M/error.json")" 'not a name of a project'
	mkdir "$(P one)"
	equal "$(fsop mkdir "$(P one)") $(fsop mkdir "$(P one/sub)") $(fsop rmdir "$(P nobody)")" 'EEXIST EPERM ENOENT'
	equal "$(ls "$(P one)" | xargs)" 'binding executor path requirements sessions start'
	equal "$(cat "$(P one)/path" "$(P one)/binding" "$(P one)/requirements" | xargs)" '{}'
	rmdir "$(P one)"
	equal "$(ls "$M/projects")" ''
}

@test "a path is absolute, cleaned, one project's alone, and never looked at" {
	mkdir "$(P one)" "$(P two)"
	put "$(P one)/path" '/srv//apps/./x/../one/'
	equal "$(cat "$(P one)/path")" /srv/apps/one
	put "$(P one)/path" '/../..'
	equal "$(cat "$(P one)/path")" /
	put "$(P one)/path" '/srv/ with blanks '
	equal "$(cat "$(P one)/path")" '/srv/ with blanks '
	refused EINVAL path put "$(P one)/path" srv/one
	refused EINVAL path put "$(P one)/path" ../one
	refused EINVAL path put "$(P one)/path" $'/srv/\xff'
	refused EINVAL path put "$(P one)/path" $'/srv/a\x01b'
	refused EINVAL '' put "$(P one)/path" $'/srv/a\n/srv/b'
	refused EFBIG '' put "$(P one)/path" "/$(printf '%05000d' 0)"
	put "$(P one)/path" "/$(printf '%04094d' 0)"
	# Through the mount itself, or a link: names only.
	put "$(P one)/path" "$M/sessions"
	put "$(P one)/path" /srv/one
	refused EEXIST path put "$(P two)/path" /srv//one/.
	put "$(P one)/path" ''
	equal "$(cat "$(P one)/path")" ''
	put "$(P two)/path" /srv/one
	rmdir "$(P one)" "$(P two)"
}

@test "without binding and requirements work goes to the default" {
	mkdir "$(P plain)"
	equal "$(target plain) $(goes plain)" 'local local'
	put "$M/default_id" west
	equal "$(target plain) $(goes plain)" 'west west'
	put "$M/default_id" local
	rmdir "$(P plain)"
}

@test "a binding is where work goes, and nowhere else" {
	mkdir "$(P bound)"
	put "$(P bound)/binding" east
	equal "$(cat "$(P bound)/binding") $(target bound) $(goes bound)" 'east east east'
	# It is held by an operator: no other takes its place.
	put "$M/executors/east/state" cordon
	refused EBUSY '' put "$(P bound)/start" '{"argv":["true"]}'
	put "$M/executors/east/state" uncordon
	# Bound before it is there.
	put "$(P bound)/binding" later
	equal "$(cat "$(P bound)/binding")" later
	[[ ! -e $(P bound)/executor && ! -L $(P bound)/executor ]]
	equal "$(ls "$(P bound)" | xargs)" 'binding path requirements sessions start'
	refused ENOENT '' put "$(P bound)/start" '{"argv":["true"]}'
	like "$(cat "$M/error")" '^projects/bound/start: the project is bound to executor later, which is not registered; '
	mkdir "$M/executors/later"
	refused ENOENT '' put "$(P bound)/start" '{"argv":["true"]}'
	put "$M/executors/later/config" '{"kind":"localprocess"}'
	equal "$(target bound) $(goes bound)" 'later later'
	rmdir "$M/executors/later"
	refused ENOENT '' put "$(P bound)/start" '{"argv":["true"]}'
	# Requirements choose no node for what is bound, but what they need must be there.
	put "$(P bound)/binding" east
	put "$(P bound)/requirements" '{"labels":{"zone":"west"},"require_signal":true}'
	equal "$(target bound) $(goes bound)" 'east east'
	put "$(P bound)/requirements" '{"require_revocation":true}'
	refused ENODEV revocation put "$(P bound)/start" '{"argv":["true"]}'
	put "$(P bound)/requirements" '{"require_isolation":true}'
	refused ENODEV isolation put "$(P bound)/start" '{"argv":["true"]}'
	# What cannot run beside the hub.
	put "$(P bound)/requirements" '{}'
	refused EACCES '' put "$(P bound)/start" '{"argv":["true"],"image":"x"}'
	like "$(cat "$M/error")" 'east'
	put "$(P bound)/binding" ''
	equal "$(cat "$(P bound)/binding") $(target bound)" ' local'
	for id in A 'a b' ../local 'a/b' "$(printf 'a%063d' 0)"; do
		refused EINVAL binding put "$(P bound)/binding" "$id"
	done
	equal "$(cat "$(P bound)/binding")" ''
	rmdir "$(P bound)"
}

@test "requirements choose where there is no binding" {
	local answer

	mkdir "$(P needs)"
	put "$(P needs)/requirements" '{ "labels": {"zone": "west"}, "executor_id": null }'
	equal "$(cat "$(P needs)/requirements")" '{"labels":{"zone":"west"}}'
	equal "$(target needs) $(goes needs)" 'west west'
	put "$(P needs)/requirements" '{"labels":{"zone":"north"}}'
	[[ ! -L $(P needs)/executor ]]
	refused ENODEV labels put "$(P needs)/start" '{"argv":["true"]}'
	answer=$(launch needs '{"argv":["true"]}' || true)
	equal "$(jq -c '[.constraint, .considered, (.rejections | length)]' <<< "$answer")" '["labels",3,3]'
	# What a spec implies joins them.
	put "$(P needs)/requirements" '{"labels":{"zone":"west"}}'
	answer=$(launch needs '{"argv":["true"],"image":"x"}' || true)
	equal "$(jq -r '.rejections[] | select(.executor_id == "west") | .constraint' <<< "$answer")" image_override
	# No executor is fallen back to.
	put "$M/executors/west/state" cordon
	refused ENODEV labels put "$(P needs)/start" '{"argv":["true"]}'
	put "$M/executors/west/state" uncordon
	refused EINVAL labels put "$(P needs)/requirements" '{"labels":[]}'
	refused EINVAL require put "$(P needs)/requirements" '{"require":true}'
	refused EINVAL '' put "$(P needs)/requirements" '[]'
	refused EINVAL 'harnesses[1]' put "$(P needs)/requirements" '{"harnesses":["a",""]}'
	jq -nc '{arch: ("x" * 1048576)}' > "$BATS_TEST_TMPDIR/large"
	refused EFBIG '' me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/large" "$(P needs)/requirements"
	equal "$(cat "$(P needs)/requirements")" '{"labels":{"zone":"west"}}'
	put "$(P needs)/requirements" '{}'
	equal "$(cat "$(P needs)/requirements") $(target needs)" '{} local'
	rmdir "$(P needs)"
}

@test "the path is the work_dir of a spec that has none" {
	local id

	mkdir "$(P dirs)"
	put "$(P dirs)/path" "$D/work/"
	id=$(launch dirs '{"argv":["pwd"]}' | jq -r .session)
	ended "$id"
	equal "$(now "$id" stdout) $(now "$id" spec | jq -r .work_dir)" "$D/work $D/work"
	id=$(launch dirs '{"argv":["pwd"],"work_dir":"/usr"}' | jq -r .session)
	ended "$id"
	equal "$(now "$id" stdout)" /usr
	# What is not there is the workload's own refusal.
	put "$(P dirs)/path" "$D/work/nowhere"
	refused ENOENT work_dir put "$(P dirs)/start" '{"argv":["pwd"]}'
	refused EINVAL spec put "$(P dirs)/start" '{"spec":{"argv":["pwd"]}}'
	rmdir "$(P dirs)"
}

@test "its sessions are its own, running and finished, and link back" {
	local first second other

	mkdir "$(P app)"
	first=$(launch app '{"argv":["true"]}' | jq -r .session)
	ended "$first"
	second=$(launch app '{"argv":["sleep","1000"],"labels":{"cloop.session":"second"}}' | jq -r .session)
	other=$(start '{"argv":["true"]}')
	ended "$other"
	equal "$(ls "$(P app)/sessions" | xargs)" "$(printf '%s\n' "$first" second | sort | xargs)"
	equal "$(readlink "$(P app)/sessions/second") $(cat "$(P app)/sessions/second/state")" '../../../sessions/second running'
	equal "$(readlink "$M/sessions/second/project")" ../../projects/app
	equal "$(cat "$M/sessions/second/project/sessions/second/state")" running
	[[ ! -L $M/sessions/$other/project && ! -e $(P app)/sessions/$other ]]
	like "$(ls "$M/sessions/$other" | xargs)" ' pid signal spec '
	equal "$(fsop rmdir "$(P app)/sessions/second")" ENOTDIR
	refused EBUSY '' rmdir "$(P app)"
	like "$(cat "$M/error")" '1 sessions of project app are in flight'
	put "$M/sessions/second/signal" kill
	ended second
	rmdir "$M/sessions/$first"
	equal "$(ls "$(P app)/sessions")" second
	# The project goes, and its sessions stay; another one of that name is another one.
	rmdir "$(P app)"
	[[ ! -L $M/sessions/second/project ]]
	mkdir "$(P app)"
	equal "$(ls "$(P app)/sessions")" ''
	[[ ! -L $M/sessions/second/project && ! -e $(P app)/sessions/second ]]
	rmdir "$(P app)"
}

@test "a retry is answered by the session, and only through the same project" {
	local doc='{"argv":["sh","-c","echo ran >> '
	doc+="$D/work/retry"
	doc+='"],"labels":{"cloop.session":"retry"}}'

	mkdir "$(P retry)" "$(P other)"
	put "$(P retry)/requirements" '{"labels":{"zone":"west"}}'
	equal "$(launch retry "$doc" | jq -r '.session + " " + .handle.executor_id')" 'retry west'
	ended retry
	# Whatever became of the project meanwhile.
	put "$(P retry)/binding" nobody
	equal "$(launch retry "$doc" | jq -r .session)" retry
	hub_kill
	equal "$(launch retry "$doc" | jq -r .session)" retry
	refused EEXIST labels.cloop.session put "$(P other)/start" "$doc"
	refused EEXIST labels.cloop.session put "$M/start" "$doc"
	refused EEXIST labels.cloop.session put "$M/executors/west/start" "$doc"
	equal "$(cat "$D/work/retry")" ran
	rmdir "$(P retry)" "$(P other)"
}

@test "all of it is there after a kill and a restart" {
	local id before i

	mkdir "$(P keep)"
	put "$(P keep)/path" "$D/work"
	put "$(P keep)/binding" west
	put "$(P keep)/requirements" '{"require_signal":true}'
	id=$(launch keep '{"argv":["sleep","1000"]}' | jq -r .session)
	before=$(stat -c '%n %i %y' "$M/projects" "$(P keep)" "$(P keep)/"{path,binding,requirements})
	for i in kill restart; do
		"hub_$i"
		equal "$(cat "$(P keep)/"{path,binding,requirements} | xargs -d '\n')" "$D/work west {\"require_signal\":true}"
		equal "$(ls "$(P keep)/sessions") $(readlink "$M/sessions/$id/project")" "$id ../../projects/keep"
		[[ $i == restart ]] ||
			equal "$(stat -c '%n %i %y' "$M/projects" "$(P keep)" "$(P keep)/"{path,binding,requirements})" "$before"
	done
	put "$M/sessions/$id/signal" kill
	ended "$id"
	rmdir "$(P keep)"
	# Serials are not given out again.
	mkdir "$(P keep)"
	[[ $(stat -c %i "$(P keep)") != $(sed -n 2p <<< "$before" | cut -d ' ' -f 2) ]]
	rmdir "$(P keep)"
}

@test "an open file of a project that was removed is stale, also when the name comes again" {
	mkdir "$(P gone)"
	exec 5<> "$(P gone)/start" 6<> "$(P gone)/binding"
	rmdir "$(P gone)"
	mkdir "$(P gone)"
	run -1 bash -c 'echo "{\"argv\":[\"true\"]}" >&5'
	like "$output" 'Stale'
	run -1 bash -c 'echo east >&6'
	like "$output" 'Stale'
	exec 5>&- 6>&-
	equal "$(cat "$(P gone)/binding")" ''
	rmdir "$(P gone)"
}

@test "each change is told in the events, once" {
	local from

	from=$(jq -s 'last.seq' "$M/events")
	mkdir "$(P told)"
	put "$(P told)/path" /srv/told
	put "$(P told)/binding" east
	put "$(P told)/requirements" '{"arch":"x"}'
	rmdir "$(P told)"
	equal "$(jq -c "select(.seq > $from) | [.type, .project, .path, .executor_id]" "$M/events")" \
		'["config.project_added","told",null,null]
["config.project_path","told","/srv/told",null]
["config.project_binding","told",null,"east"]
["config.project_requirements","told",null,null]
["config.project_removed","told",null,null]'
}

@test "who may do what" {
	local id

	need_root
	equal "$(WHO=alice fsop mkdir "$(P no)") $(WHO=bob fsop mkdir "$(P no)") $(WHO=mallory fsop mkdir "$(P no)")" \
		'EACCES EACCES EACCES'
	WHO=carol me mkdir "$(P team)"
	equal "$(stat -c %u:%g:%a "$(P team)" "$(P team)/"{path,start,requirements} | xargs)" \
		'0:0:755 0:64101:664 0:64100:660 0:64101:664'
	WHO=carol put "$(P team)/path" "$D/work"
	equal "$(WHO=bob fsop open-write "$(P team)/path") $(WHO=bob fsop open-write "$(P team)/binding") $(WHO=bob fsop open-write "$(P team)/requirements")" \
		'EACCES EACCES EACCES'
	equal "$(WHO=mallory fsop open-write "$(P team)/start")" EACCES
	id=$(WHO=bob launch team '{"argv":["id","-un"]}' | jq -r .session)
	WHO=bob ended "$id"
	equal "$(WHO=bob now "$id" stdout)" bob
	# Everybody sees which sessions there are, and nobody reads another's.
	equal "$(WHO=mallory me ls "$(P team)/sessions")" "$id"
	run -1 env WHO=mallory bash -c "$(declare -f me as); $(declare -p UID_OF GROUPS_OF); me cat '$(P team)/sessions/$id/stdout'"
	equal "$(WHO=bob fsop rmdir "$(P team)")" EACCES
	WHO=bob refused EPERM host_mounts put "$(P team)/start" \
		'{"argv":["true"],"host_mounts":[{"source":"/srv","target":"/srv"}]}'
	WHO=carol me rmdir "$(P team)"
}

@test "many at once: each project is made, bound and removed once" {
	local i pids=() from

	from=$(jq -s 'last.seq' "$M/events")
	for i in $(seq 12); do
		{ mkdir "$(P "n$i")" && put "$(P "n$i")/binding" "b$i" && put "$(P "n$i")/path" "/srv/$i"; } 3>&- &
		pids+=($!)
		((i != 6)) || hub_kill
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	equal "$(ls "$M/projects" | wc -l)" 12
	for i in $(seq 12); do
		equal "$(cat "$(P "n$i")/binding" "$(P "n$i")/path" | xargs)" "b$i /srv/$i"
		rmdir "$(P "n$i")"
	done
	equal "$(jq -r "select(.seq > $from) | .type" "$M/events" | sort | uniq -c | xargs)" \
		'12 config.project_added 12 config.project_binding 12 config.project_path 12 config.project_removed'
}

@test "no default, no executor, no start" {
	local id

	mkdir "$(P alone)"
	for id in east west local; do
		rmdir "$M/executors/$id"
	done
	[[ ! -L $(P alone)/executor ]]
	refused ENXIO '' put "$(P alone)/start" '{"argv":["true"]}'
	put "$(P alone)/requirements" '{"require_signal":true}'
	refused ENODEV no_candidates put "$(P alone)/start" '{"argv":["true"]}'
}

@test "the hub stops, and nothing is left" {
	hub_end
}
