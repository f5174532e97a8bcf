# Workloads in containers of a real podman: how they start, what they are given, how they end.

load common
load container

setup_file() {
	box_begin
}

setup() {
	need_podman
}

@test "a program runs, and its words and its code come back" {
	id=$(box '{"argv":["echo","hi"]}')
	equal "$(ended "$id")" 0
	equal "$(now "$id" log)" hi
	equal "$(status "$id" '.state + .cause')" exitedexit
	like "$(now "$id" handle | jq -r .image)" '^localhost/busybox@sha256:[0-9a-f]{64}$'
	id=$(box "$(script 'echo out; echo err >&2; exit 3')")
	equal "$(ended "$id")" 3
	equal "$(now "$id" stdout)" out
	equal "$(now "$id" stderr)" err
	id=$(box "$(script 'exit 137')")
	equal "$(ended "$id")" 137
	equal "$(status "$id" .state)" exited
	no_container_is_left
}

@test "every byte is in the log, also the last ones before the end" {
	id=$(box "$(script 'seq 1 200000; printf last >&2')")
	equal "$(ended "$id")" 0
	seq 1 200000 | cmp - "$M/sessions/$id/stdout"
	equal "$(now "$id" stderr)" last
	id=$(box '{"argv":["head","-c","3000000","/dev/zero"]}')
	ended "$id"
	equal "$(stat -c %s "$M/sessions/$id/log")" 3000000
	# Shorter than the runtime's client takes to leave.
	id=$(box '{"argv":["printf","\\377\\000x"]}')
	ended "$id"
	equal "$(od -An -tx1 "$M/sessions/$id/log")" ' ff 00 78'
}

@test "signals do what they do to a process" {
	id=$(box '{"argv":["sleep","1000"]}')
	put "$M/sessions/$id/signal" terminate
	equal "$(ended "$id")" 143
	equal "$(status "$id" '.state + (.signal | tostring)')" killed15
	id=$(box "$(script 'trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.1; done')")
	eventually test -s "$M/sessions/$id/log"
	put "$M/sessions/$id/signal" interrupt
	equal "$(ended "$id")" 7
	equal "$(now "$id" log)" $'ready\ncaught'
	id=$(box "$(script 'trap "" TERM; sleep 1000 & sleep 1000; wait')")
	put "$M/sessions/$id/signal" kill
	equal "$(ended "$id")" 137
	equal "$(status "$id" '.state + .cause')" killedsignal
}

@test "limits: memory, time, processes" {
	id=$(box "$(script 'tail /dev/zero' '{"resource_limits":{"memory_mb":32}}')")
	equal "$(ended "$id")" 137
	equal "$(status "$id" .cause)" oom
	# Elsewhere a minute is one.
	if hub_has_hooks; then
		id=$(box "$(script 'sleep 1000 & sleep 1000' '{"timeout_minutes":2}')")
		equal "$(ended "$id")" 137
		equal "$(status "$id" .cause)" timeout
	fi
	# shellcheck disable=SC2016
	id=$(box "$(script 'i=0; while [ $i -lt 40 ]; do sleep 2 & i=$((i+1)); done; wait' \
		'{"resource_limits":{"pids":8}}')")
	ended "$id"
	like "$(now "$id" stderr)" "can't fork"
	refused EOPNOTSUPP resource_limits.disk_mb box \
		"$(script true '{"resource_limits":{"disk_mb":1}}')"
}

@test "what cannot start says why, and leaves nothing" {
	local before
	before=$(ls "$M/sessions")
	refused ENOENT 'argv[0]' box '{"argv":["no-such-program"]}'
	like "$refusal" 'not found'
	refused EACCES 'argv[0]' box '{"argv":["/etc"]}'
	refused ENOENT image box '{"argv":["true"],"image":"localhost/no-such:1"}'
	like "$refusal" 'nothing is pulled'
	refused EINVAL image box '{"argv":["true"],"image":"no such"}'
	printf 'FROM localhost/busybox:1\nENTRYPOINT ["/bin/echo"]\n' > "$D/Containerfile"
	box_podman build --quiet --network none --pull=never -t localhost/entry:1 -f "$D/Containerfile" \
		"$D/work" > /dev/null
	refused EINVAL image box '{"argv":["true"],"image":"localhost/entry:1"}'
	like "$refusal" ENTRYPOINT
	equal "$(ls "$M/sessions")" "$before"
	no_container_is_left
	box_config '.runtime_env.PATH = "/nonexistent"'
	refused ENOENT '' box '{"argv":["true"]}'
	like "$refusal" podman
	box_config .
}

@test "an image that is made meanwhile is found, one that goes is missed" {
	refused ENOENT image box '{"argv":["true"],"image":"localhost/later:1"}'
	box_podman image tag localhost/busybox:1 localhost/later:1
	id=$(box '{"argv":["true"],"image":"localhost/later:1"}')
	equal "$(ended "$id")" 0
	box_podman image untag localhost/later:1 localhost/later:1
	refused ENOENT image box '{"argv":["true"],"image":"localhost/later:1"}'
}

@test "setup commands are baked in once, and say what they do" {
	local spec i
	spec=$(script 'cat /made' '{"setup_commands":["echo set-up; echo by-root > /made","echo \"two  words\""]}')
	# Several starts share what one builds.
	for i in 1 2 3; do
		box "$(jq -c --arg id "setup-$i" '.labels = {"cloop.session": $id}' <<< "$spec")" 3>&- &
		pids[i]=$!
	done
	for i in 1 2 3; do
		wait "${pids[i]}"
		equal "$(ended "setup-$i")" 0
		equal "$(now "setup-$i" stdout | grep -v '^\[cloop\]')" by-root
		like "$(now "setup-$i" log)" '\[cloop\] setup: set-up'
	done
	equal "$(box_podman images --quiet localhost/cloop-setup | wc -l)" 1
	before=$(box_podman images --quiet --no-trunc localhost/cloop-setup)
	id=$(box "$spec")
	equal "$(ended "$id")" 0
	equal "$(now "$id" log)" by-root
	equal "$(box_podman images --quiet --no-trunc localhost/cloop-setup)" "$before"
	refused EIO setup_commands box "$(script true '{"setup_commands":["echo broken-pipe >&2; exit 3"]}')"
	like "$refusal" 'setup commands failed'
	# No line of a build file can be made of a command.
	refused EIO setup_commands box "$(script true '{"setup_commands":["USER root"]}')"
	equal "$(ls "$D/home/run/builds" 2> /dev/null)" ''
}

@test "an image policy holds" {
	box_config '.image_policy = {"registries":["quay.io"]} | del(.image)'
	refused EACCES image box '{"argv":["true"],"image":"localhost/busybox:1"}'
	box_config '.image_policy = {"repos":["localhost/busybox"],"require_digest":true} | del(.image)'
	refused EACCES image box '{"argv":["true"],"image":"localhost/busybox:1"}'
	digest=$(box_podman image inspect localhost/busybox:1 | jq -r '.[0].RepoDigests[0]')
	id=$(box "$(jq -nc --arg image "$digest" '{argv: ["true"], image: $image}')")
	equal "$(ended "$id")" 0
	box_config .
}

@test "the environment is what the spec says, and leads no runtime" {
	id=$(box '{"argv":["env"]}')
	ended "$id"
	run ! grep -E 'CLOOP|HUB_VARIABLE|CONTAINERS_CONF' "$M/sessions/$id/log"
	id=$(box "$(script 'printf "%s|%s|%s|%s" "$A" "$CONTAINERS_CONF" "$LD_PRELOAD" "$PATH"' \
		'{"env":["A=1 \"2\"\n3","CONTAINERS_CONF=/evil","LD_PRELOAD=/evil","PATH=/bin:/x"]}')")
	equal "$(ended "$id")" 0
	equal "$(now "$id" stdout)" $'1 "2"\n3|/evil|/evil|/bin:/x'
}

@test "it runs as who starts it, who must own the directory" {
	mkdir "$D/work/alice" "$D/work/bob" "$D/work/root"
	chown "${UID_OF[alice]}" "$D/work/alice"
	chown "${UID_OF[bob]}:${UID_OF[bob]}" "$D/work/bob"
	in_dir() {
		script 'id -u; pwd; echo made > it' "{\"work_dir\":\"$D/work/$1\"}"
	}
	id=$(WHO=alice box "$(in_dir alice)")
	WHO=alice ended "$id"
	equal "$(now "$id" log)" "${UID_OF[alice]}"$'\n/workspace'
	equal "$(stat -c %u "$D/work/alice/it")" "${UID_OF[alice]}"
	WHO=alice refused EPERM work_dir box "$(in_dir bob)"
	WHO=alice refused EPERM work_dir box "$(in_dir root)"
	# Root and administrators run as the owner.
	id=$(WHO=carol box "$(in_dir bob)")
	ended "$id"
	equal "$(stat -c %u "$D/work/bob/it")" "${UID_OF[bob]}"
	id=$(box "$(in_dir alice)")
	ended "$id"
	equal "$(now "$id" log)" "${UID_OF[alice]}"$'\n/workspace'
	refused EPERM work_dir box "$(in_dir root)"
	like "$refusal" 'no container runs as root'
	refused EINVAL work_dir box "$(script true "{\"work_dir\":\"$M\"}")"
	refused ENOENT work_dir box "$(script true "{\"work_dir\":\"$D/nowhere\"}")"
}

@test "a directory of its own goes with the session" {
	id=$(box "$(script 'id -u; mkdir -p a/b/c; ln -s /etc/passwd l; echo x > a/b/c/x; chmod 000 a; pwd')")
	equal "$(ended "$id")" 0
	equal "$(now "$id" log)" $'65534\n/workspace'
	equal "$(find "$D/home/state/sessions" -name work)" ''
	id=$(WHO=alice box "$(script 'id -u')")
	WHO=alice ended "$id"
	equal "$(now "$id" log)" "${UID_OF[alice]}"
	rmdir "$M/sessions/$id"
	# Deeper than any path is long.
	# shellcheck disable=SC2016
	id=$(box "$(script 'p=x; i=0; while [ $i -lt 900 ]; do p=$p/ddd; i=$((i+1)); done
		mkdir -p $p && cd $p && mkdir -p $p')")
	equal "$(ended "$id")" 0
	equal "$(find "$D/home/state/sessions" -name work)" ''
}

@test "mounts of the spec stay in the directory, those of the host are an administrator's" {
	mkdir -p "$D/work/m/sub" "$D/work/host"
	echo inside > "$D/work/m/sub/f"
	echo host > "$D/work/host/f"
	ln -s /etc "$D/work/m/out"
	chown -hR "${UID_OF[alice]}" "$D/work/m"
	mounted() {
		script "$1" "{\"work_dir\":\"$D/work/m\",\"mounts\":[{\"source\":\"$2\",\"target\":\"/m\",
			\"read_only\":true}]}"
	}
	id=$(WHO=alice box "$(mounted 'cat /m/f; echo x > /m/f' sub)")
	WHO=alice ended "$id"
	equal "$(now "$id" stdout)" inside
	like "$(now "$id" stderr)" 'Read-only file system'
	id=$(WHO=alice box "$(mounted 'cat /m' sub/f)")
	WHO=alice ended "$id"
	equal "$(now "$id" stdout)" inside
	WHO=alice refused EINVAL mounts box "$(mounted true out)"
	like "$refusal" 'leads out of the working directory'
	WHO=alice refused ENOENT mounts box "$(mounted true none)"
	host=$(script 'cat /h/f' "{\"host_mounts\":[{\"name\":\"h\",\"source\":\"$D/work/host\",
		\"target\":\"/h\",\"read_only\":true}]}")
	WHO=alice refused EPERM host_mounts box "$host"
	id=$(box "$host")
	ended "$id"
	equal "$(now "$id" stdout)" host
	refused EINVAL host_mounts box "$(script true \
		"{\"host_mounts\":[{\"name\":\"h\",\"source\":\"$M\",\"target\":\"/h\"}]}")"
}

# orphan NAME LABELS COMMAND…: a container that no session is known of.
orphan() {
	local name=$1 labels=$2 label options=()
	shift 2
	for label in $labels; do
		options+=(--label "$label")
	done
	box_podman run --detach --network none --name "$name" --cgroup-parent /cloop-orphans \
		--cgroups no-conmon "${options[@]}" localhost/busybox:1 "$@" > /dev/null
}

@test "a probe removes what no session is known of, once that is certain" {
	local instance ours
	instance=$(stat -c '%D-' "$D/home/state/sessions")$(printf '%x' "$(stat -c %i "$D/home/state/sessions")")
	ours='cloop.managed=true cloop.executor=box cloop.handle=gone.1'
	orphan "cloop-$instance-0000fff0.1" "$ours" true
	orphan "cloop-$instance-0000fff1.1" "$ours" sleep 9876544
	orphan cloop-other-0000fff2.1 "$ours" true
	orphan "cloop-$instance-0000fff3.1" 'cloop.managed=true cloop.executor=other cloop.handle=x' true
	orphan mine '' true
	id=$(box '{"argv":["sleep","9876544"]}')
	put "$M/executors/box/probe" now
	names() {
		box_podman ps --all --format '{{.Names}}' | sed "s/$instance/I/" | grep -v "$(printf '%08x' 1)" |
			grep -E 'fff|mine' | sort | xargs
	}
	swept() {
		equal "$(names)" "$1" 2> /dev/null
	}
	eventually swept 'cloop-I-0000fff1.1 cloop-I-0000fff3.1 cloop-other-0000fff2.1 mine'
	box_config '.orphan_grace_period_seconds = 1'
	sleep 2.1
	put "$M/executors/box/probe" now
	eventually swept 'cloop-I-0000fff3.1 cloop-other-0000fff2.1 mine'
	# A session's own container is none of them.
	is_state "$id" running
	put "$M/sessions/$id/signal" kill
	ended "$id"
	box_config .
	box_podman rm --force --time 0 mine "cloop-$instance-0000fff3.1" cloop-other-0000fff2.1 > /dev/null
	find /sys/fs/cgroup -depth -type d -path '*/cloop-orphans*' -exec rmdir {} + 2> /dev/null || true
}

@test "a preflight looks at everything, and a smoke test runs through a container" {
	put "$M/executors/box/preflight" run
	report=$(cat "$M/executors/box/preflight")
	for line in 'ok runtime: podman' 'ok daemon: ' 'ok cgroup: ' 'ok image: localhost/busybox:1 is ' \
		'ok network: none' 'ok oci-runtime: runc' 'ok uid-mapping: '; do
		like "$report" "$line" || return
	done
	[[ $report != *kvm* ]]
	put "$M/executors/box/preflight" smoke
	like "$(cat "$M/executors/box/preflight")" 'ok smoke: '
	no_container_is_left
	box_config '.image = "localhost/none:1" | .network = "no-such-network" | .oci_runtime = "kata"'
	run ! put "$M/executors/box/preflight" run
	report=$(cat "$M/executors/box/preflight")
	like "$report" 'fail image: '
	like "$report" 'fail network: '
	like "$report" 'warn oci-runtime: '
	like "$report" '(ok|fail) kvm: '
	box_config .
}

@test "a runtime that does not work makes the executor fail its probes" {
	box_config '.runtime_env.CONTAINERS_STORAGE_CONF = "/dev/null/none"'
	refused EIO '' put "$M/executors/box/probe" now
	box_config .
	put "$M/executors/box/probe" now
}

@test "a config is strict" {
	refused EINVAL network put "$M/executors/box/config" '{"kind":"container","network":"host"}'
	refused EOPNOTSUPP runtime put "$M/executors/box/config" '{"kind":"container","runtime":"docker"}'
	refused EINVAL oci_runtime put "$M/executors/box/config" \
		'{"kind":"container","oci_runtime":"/usr/bin/runc"}'
	refused EINVAL 'extra_args[0]' put "$M/executors/box/config" \
		'{"kind":"container","extra_args":["--privileged"]}'
	refused EINVAL pids put "$M/executors/box/config" '{"kind":"container","pids":1}'
	equal "$(jq -r .isolation "$M/executors/box/capabilities")" container
	box_config '.oci_runtime = "kata"'
	equal "$(jq -r '.isolation + (.virtualized | tostring)' "$M/executors/box/capabilities")" vmtrue
	box_config .
	equal "$(jq -cS 'del(.runtime)' "$M/executors/box/config")" "$(jq -cS 'del(.runtime)' "$D/box.json")"
}

@test "many containers, eight at a time: none is lost" {
	local n=24 i ids
	((${CLOOP_LONG:-0} == 0)) || n=200
	ids=$(seq 1 "$n" | M=$M xargs -P 8 -I@ bash -c '
		exec 9<> "$M/executors/box/start" &&
			printf "%s\n" "{\"argv\":[\"sh\",\"-c\",\"echo @; exit \$((@ % 100))\"],
				\"labels\":{\"cloop.session\":\"many-@\"}}" >&9 && cat <&9 | jq -r .session')
	equal "$(wc -l <<< "$ids")" "$n"
	for ((i = 1; i <= n; i++)); do
		equal "$(ended "many-$i")" $((i % 100)) || return
		equal "$(now "many-$i" log)" "$i" || return
	done
	no_container_is_left
}

@test "the hub stops and leaves nothing" {
	box_end
}
