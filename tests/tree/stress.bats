# Programs that are made to break file systems, run by an ordinary user who may do much: fio, and what
# stress-ng has against file systems. Meanwhile another user is served; the daemon neither dies nor grows.

load common

setup_file() {
	need_root
	need fio stress-ng
	hub_begin
	WHO=alice ended "$(WHO=alice start "$(script 'seq 200000' '{labels: {"cloop.session": "big"}}')")"
	mkdir -m 1777 "$D/stress"
}

setup() {
	HUB=$(hub_pid)
	BEFORE=$(private_kib)
	BATS_TEST_TIMEOUT=300
}

# What the hub has of its own. A sanitizer keeps what was freed for a while.
private_kib() {
	awk '/^RssAnon/ { print $2 }' "/proc/$HUB/status"
}

held_well() {
	equal "$(hub_pid)" "$HUB" || return
	[[ $(nm -D "$CLOOPD") == *__asan_* ]] || (($(private_kib) < BEFORE + 32768)) ||
		fail "the hub had $BEFORE KiB of its own, now it has $(private_kib)"
}

# others_are_served PID: until that ends, somebody else reads, writes, starts, and sees the right bytes.
others_are_served() {
	local n=0 id

	while kill -0 "$1" 2> /dev/null; do
		id=$(WHO=bob start "$(spec /bin/echo "$n")") || return
		equal "$(WHO=bob ended "$id")" 0 || return
		equal "$(WHO=bob now "$id" log)" "$n" || return
		WHO=bob refused EINVAL '' put "$M/sessions/$id/signal" nonsense || return
		WHO=alice me cmp "$M/sessions/big/log" "$D/numbers" || return
		n=$((n + 1))
	done
	((n > 0))
}

# besides CMD…: as carol, an administrator, with others at work. Its output is in $said, its status in $status.
besides() {
	local pid

	(cd "$D/stress" && WHO=carol me timeout -k 5 "$PATIENCE_S" "$@") > "$D/said" 2>&1 3>&- &
	pid=$!
	seq 200000 > "$D/numbers"
	others_are_served "$pid"
	status=0
	wait "$pid" || status=$?
	((status < 124)) || fail "it ended with $status: $(tail -n 20 "$D/said")"
}

@test "fio reads a log in every way that does not map it" {
	local engine

	for engine in psync vsync pvsync2 libaio posixaio splice; do
		besides fio --name=read --ioengine="$engine" --filename="$M/sessions/big/log" --readonly \
			--rw=randread --bs=4k --size=1m --iodepth=8 --time_based --runtime=1 --numjobs=2 --thread \
			--output-format=json --output="$D/stress/$engine"
		equal "$status" 0 || fail "$engine: $(cat "$D/said" "$D/stress/$engine")"
		# Notes stand before the object.
		equal "$(sed -n '/^{/,$p' "$D/stress/$engine" | jq -c '[.jobs[] | .error, .read.total_ios > 100]')" \
			'[0,true,0,true]' || fail "$engine"
	done
	held_well
}

@test "fio maps a log, and is refused" {
	besides fio --name=map --ioengine=mmap --filename="$M/sessions/big/log" --readonly --rw=read --size=1m
	grep -q 'func=mmap, error=No such device' "$D/said"
	held_well
}

@test "fio writes thousands of times what nothing takes" {
	local before

	before=$(cat "$M/executors/local/config")
	besides fio --name=write --ioengine=psync --filename="$M/executors/local/config" --rw=randwrite --bs=16 \
		--filesize=16 --size=16 --time_based --runtime=5 --numjobs=4 --thread --allow_file_create=0 \
		--fallocate=none --ignore_error=,EINVAL --continue_on_error=all \
		--output-format=json --output="$D/stress/writes"
	equal "$(jq -c '[.jobs[] | .total_err > 100] | all' "$D/stress/writes")" true
	equal "$(jq -c '[.jobs[] | .error] | unique' "$D/stress/writes")" '[22]'
	equal "$(cat "$M/executors/local/config")" "$before"
	held_well
}

@test "stress-ng in a directory where it may make directories" {
	local stressor args=()

	for stressor in access aio chmod chown copy-file dentry dir dirdeep dirmany fallocate fiemap file-ioctl \
		filename flock fpunch getdent hdd inotify io iomix lease link locka lockf lockofd mknod open \
		readahead rename seek sendfile symlink sync-file touch utime xattr; do
		args+=("--$stressor" 1)
	done
	besides stress-ng --temp-path "$M/executors" --timeout 8 "${args[@]}" --fstat 2 \
		--fstat-dir "$M/sessions/big"
	grep -q 'failed, errno=13' "$D/said"
	# What it left there, it could make: directories, and nothing in them.
	for stressor in "$M/executors/"tmp-stress-ng-*; do
		[[ ! -e $stressor ]] || rmdir "$stressor"
	done
	equal "$(ls "$M/executors")" local
	held_well
}

@test "the hub stops and leaves nothing" {
	hub_end
}
