# Dry runs: what the rules say of a document, as the real thing would, and nothing changes.

load common

setup_file() {
	hub_begin
	mkdir "$M/executors/east" "$M/executors/west"
	put "$M/executors/east/config" '{"kind":"localprocess","labels":{"zone":"east"},"max_concurrent":4}'
	put "$M/executors/west/config" '{"kind":"localprocess","labels":{"zone":"west"},"max_concurrent":2}'
	everything > "$D/before"
}

# What a check could have changed.
everything() {
	(cd "$M" && cat default_id executors/*/{config,state,inflight} && ls executors sessions projects)
}

# check FILE TEXT: writes the document and prints the answer; fails as the write does.
check() {
	# shellcheck disable=SC2016
	me bash -c '
		exec 9<> "$0" || exit
		printf "%s\n" "$1" 2> /dev/null >&9
		r=$?
		cat <&9
		exit $r' "$M/check/$1" "$2"
}

# verdict FILE TEXT FILTER: of an answer, whatever became of the write.
verdict() {
	(check "$1" "$2" || true) | jq -c "$3"
}

@test "a spec: the verdict, and what it demands" {
	equal "$(check spec '{"argv":["true"]}' | jq -c '[.ok, (.requirements | to_entries | map(select(.value)) | map(.key)), (.requirements | length)]')" \
		'[true,[],16]'
	equal "$(check spec '{"argv":["x"],"image":"i","setup_commands":["a"],"resource_limits":{"pids":1},"workspace":{"kind":"git","repo":"https://h.example/a/b"}}' |
		jq -c '.requirements | to_entries | map(select(.value)) | map(.key)')" \
		'["image_override","resource_limits","sandbox_build","workspace_provisioning"]'
	refused EINVAL 'mounts[0].source' put "$M/check/spec" '{"argv":["x"],"mounts":[{"source":"/etc","target":"/x"}]}'
	equal "$(verdict spec '{"argv":["x"],"mounts":[{"source":"/etc","target":"/x"}]}' '[.ok, .sentinel, .field, (.error | length > 0)]')" \
		'[false,"ErrInvalidSpec","mounts[0].source",true]'
	refused EINVAL argvs put "$M/check/spec" '{"argv":["x"],"argvs":[]}'
	refused EINVAL labels.cloop.session put "$M/check/spec" '{"argv":["x"],"labels":{"cloop.session":"A"}}'
	refused ENOKEY 'secrets[0].lease_id' put "$M/check/spec" '{"argv":["x"],"secrets":[{"lease_id":"l","env_keys":["T"]}]}'
	equal "$(verdict spec '[1]' .ok) $(verdict spec '{"argv":7}' '[.ok, .field]')" 'null [false,"argv"]'
	# A taken id is no matter of the rules.
	check spec '{"argv":["x"],"labels":{"cloop.session":"taken"}}' | jq -e .ok
}

@test "requirements: who is chosen, who else could, and why the others cannot" {
	equal "$(check requirements '{"labels":{"zone":"west"}}' | jq -c '[.selected, .considered, .candidates, (.rejections | map([.executor_id, .constraint])), .requirements, has("constraint")]')" \
		'["west",3,["west"],[["east","labels"],["local","labels"]],{"labels":{"zone":"west"}},false]'
	# The best first, as a start would choose: no ceiling, then the most free slots.
	equal "$(check requirements '{}' | jq -c '[.selected, .candidates, .rejections]')" '["local",["local","east","west"],[]]'
	equal "$(check requirements '{"spec":{"argv":["x"]},"requirements":{"executor_id":"east"}}' | jq -c '[.selected, .candidates]')" '["east",["east"]]'
	refused ENODEV isolation put "$M/check/requirements" '{"require_isolation":true}'
	equal "$(verdict requirements '{"require_isolation":true}' '[.selected, .constraint, .considered, .candidates, (.rejections | map(.executor_id)), .requirements]')" \
		'[null,"isolation",3,[],["east","local","west"],{"require_isolation":true}]'
	equal "$(verdict requirements '{"spec":{"argv":["x"],"image":"i"}}' '[.constraint, .requirements]')" \
		'["image_override",{"require_image_override":true}]'
	# The answer of the write that failed is also that of a fresh descriptor.
	equal "$(me jq -r .constraint "$M/check/requirements")" image_override
	put "$M/executors/east/state" cordon
	put "$M/executors/west/state" cordon
	put "$M/executors/local/state" cordon
	refused EBUSY health put "$M/check/requirements" '{}'
	for id in east west local; do
		put "$M/executors/$id/state" uncordon
	done
	refused EINVAL require_isolated put "$M/check/requirements" '{"require_isolated":true}'
	refused EINVAL requirements.arch put "$M/check/requirements" '{"requirements":{"arch":1}}'
	equal "$(verdict requirements '{"requirements":{"arch":1}}' '[.ok, .field, has("sentinel")]')" '[false,"requirements.arch",false]'
	refused EINVAL spec.argv put "$M/check/requirements" '{"spec":{}}'
}

@test "a workspace: what is derived from it, and the plan" {
	local answer

	answer=$(check workspace '{"kind":"git","repo":"https://git.example.org/team/app.git","ref":"main","depth":1}')
	equal "$(jq -c '[.ok, .needs_provisioning, .requires_credential, .is_zero, .base_url, .host, .repo_path, .repo_path_ok]' <<< "$answer")" \
		'[true,true,false,false,"https://git.example.org/","git.example.org","team/app",true]'
	equal "$(jq -r '.steps[] | .name + ": " + (.argv | join(" ")) + (if .authenticated then " (authenticated)" else "" end)' <<< "$answer")" \
		'init: git init --quiet -- /workspace
remote: git -C /workspace remote add origin -- https://git.example.org/team/app.git
fetch: git -C /workspace fetch --no-tags --prune --depth 1 -- origin main (authenticated)
checkout: git -C /workspace checkout --quiet --detach FETCH_HEAD'
	equal "$(check workspace '{"workspace":{"kind":"git","repo":"https://h.example/a/b"},"dir":"/src"}' | jq -r '.steps[0].argv[-1]')" /src
	equal "$(check workspace '{"kind":"bind"}' | jq -c '[.ok, .needs_provisioning, has("steps")]')" '[true,false,false]'
	equal "$(check workspace '{}' | jq -c '[.ok, .is_zero]')" '[true,true]'
	refused EINVAL repo put "$M/check/workspace" '{"kind":"git","repo":"https://user:secret@h.example/a/b"}'
	equal "$(grep -c secret "$M/error.json" "$M/check/workspace" | cut -d : -f 2 | xargs)" '0 0'
	refused EINVAL workspace.ref put "$M/check/workspace" '{"workspace":{"kind":"git","repo":"https://h.example/a/b","ref":"--upload-pack=x"}}'
	refused EINVAL dir put "$M/check/workspace" '{"workspace":{"kind":"git","repo":"https://h.example/a/b"},"dir":7}'
	refused EINVAL repository put "$M/check/workspace" '{"kind":"git","repository":"x"}'
	equal "$(verdict workspace '{"kind":"svn"}' '[.ok, .sentinel, .field]')" '[false,"ErrInvalidSpec","kind"]'
}

@test "a write-back: what may be asked for, and what may come back" {
	equal "$(check writeback '{"mode":"push","branch":"cloop/t-1"}' | jq -c '[.ok, .cap > 0]')" '[true,true]'
	equal "$(check writeback '{"mode":"bundle","branch":"cloop/t-1","max_bundle_bytes":1000}' | jq -c .)" '{"ok":true,"cap":1000}'
	refused EINVAL branch put "$M/check/writeback" '{"mode":"push","branch":"main"}'
	equal "$(verdict writeback '{"mode":"push","branch":"main"}' '[.ok, .sentinel, .field]')" '[false,"ErrInvalidSpec","branch"]'
	refused EINVAL bransh put "$M/check/writeback" '{"mode":"push","bransh":"cloop/t-1"}'
	# What a sandbox returned.
	local sha=0123456789012345678901234567890123456789
	equal "$(check writeback '{"branch":"cloop/t","commit_sha":"'$sha'","entries":[{"path":"src/a.c","mode":"100644"}]}' | jq -c .)" '{"ok":true}'
	refused EBADMSG '' put "$M/check/writeback" '{"branch":"cloop/t","commit_sha":"'$sha'","entries":[{"path":"a","mode":"100644"},{"path":".git/config","mode":"100644"}]}'
	equal "$(verdict writeback '{"branch":"cloop/t","commit_sha":"'$sha'","entries":[{"path":".git/config","mode":"100644"}]}' '[.ok, .sentinel, .path, .branch, .commit_sha, (.code | length > 0), (.error | length > 0)]')" \
		'[false,"ErrWriteBackRejected",".git/config","cloop/t","'$sha'",true,true]'
	equal "$(verdict writeback '{"branch":"cloop/t","commit_sha":"","entries":[{"path":"l","mode":"120000","link_target":"../../etc/passwd"}]}' '[.path, .target]')" \
		'["l","../../etc/passwd"]'
	refused EINVAL 'entries[1].way' put "$M/check/writeback" '{"branch":"cloop/t","commit_sha":"","entries":[{"path":"a"},{"way":"b"}]}'
	refused EINVAL entries put "$M/check/writeback" '{"branch":"cloop/t","commit_sha":"","entries":{}}'
}

@test "documents of a megabyte, and deep ones" {
	jq -nc '{branch: "cloop/t", commit_sha: "", entries: [range(20000) | {path: "a/\(.)", mode: "100644"}]}' > "$BATS_TEST_TMPDIR/many"
	(($(stat -c %s "$BATS_TEST_TMPDIR/many") > 600000))
	me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/many" "$M/check/writeback"
	equal "$(me jq -c . "$M/check/writeback")" '{"ok":true}'
	jq -nc '{branch: "cloop/t", commit_sha: "", entries: [range(20001) | {path: "a/\(.)", mode: "100644"}]}' > "$BATS_TEST_TMPDIR/many"
	refused EBADMSG '' me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/many" "$M/check/writeback"
	jq -nc '{argv: ["x" * 1048576]}' > "$BATS_TEST_TMPDIR/large"
	for file in spec requirements workspace writeback; do
		refused EFBIG '' me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/large" "$M/check/$file"
		{ printf '{"a":%.0s' $(seq 20000) && printf '1%.0s' 1 && printf '}%.0s' $(seq 20000); } > "$BATS_TEST_TMPDIR/deep"
		refused EINVAL '' me sh -c 'cat "$0" > "$1"' "$BATS_TEST_TMPDIR/deep" "$M/check/$file"
	done
}

@test "who may check: root, members of cloop-admin and cloop, nobody else" {
	local who file

	need_root
	for who in alice carol; do
		equal "$(WHO=$who check spec '{"argv":["x"]}' | jq .ok)" true
		equal "$(WHO=$who check requirements '{"executor_id":"east"}' | jq -r .selected)" east
	done
	for file in spec requirements workspace writeback; do
		equal "$(WHO=mallory fsop open-write "$M/check/$file")" EACCES
		# Each caller has an answer of his own.
		equal "$(WHO=bob me cat "$M/check/$file")" ''
	done
	WHO=alice refused EPERM host_mounts put "$M/check/spec" '{"argv":["x"],"host_mounts":[{"source":"/srv","target":"/srv"}]}'
	equal "$(WHO=carol check spec '{"argv":["x"],"host_mounts":[{"source":"/srv","target":"/srv"}]}' | jq .requirements.host_mounts)" true
}

@test "nothing was changed" {
	everything | diff "$D/before" -
	equal "$(jq -r .type "$M/events" | sort -u | xargs)" 'executor.added executor.default executor.registered executor.state_change'
}

@test "the hub stops, and nothing is left" {
	hub_end
}
