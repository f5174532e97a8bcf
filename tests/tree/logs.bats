# Output as it is read: whoever follows gets what was written as soon as it was written; and the bytes are
# those of the file, however they are asked for.

load common

# The file behind the log of the only session that has much output.
log_file() {
	find "$D/home/state/sessions" -name log -size +1M
}

@test "a follower gets each line while the workload waits for its answer" {
	local line n=0

	mkfifo "$D/work/answers"
	exec 5<> "$D/work/answers"
	# shellcheck disable=SC2016
	id=$(start "$(script 'exec 3<> "$0"; for i in $(seq 500); do echo "$i"; read -r _ <&3; done' |
		jq -c --arg fifo "$D/work/answers" '.argv += [$fifo]')")
	exec 4< "$M/sessions/$id/follow"
	# A line that is held back stops both for good.
	while read -r -t "$PATIENCE_S" line <&4; do
		n=$((n + 1))
		equal "$line" "$n"
		echo go >&5
	done
	equal "$n" 500
	equal "$(ended "$id")" 0
}

@test "a log reads the same in pieces of any size, from any offset" {
	local size at file

	# Lines that all differ, so that no piece looks like another one.
	id=$(start "$(script 'seq 400000' '{labels: {"cloop.session": "numbers"}}')")
	ended "$id"
	file=$(log_file)
	cmp "$M/sessions/$id/log" <(seq 400000)
	cmp "$M/sessions/$id/stdout" <(seq 400000)
	for size in 4095 16384 16385 100001 131072 1000003; do
		for at in 0 1 3 17; do
			cmp <(dd if="$M/sessions/$id/log" bs="$size" skip="$at" status=none) \
				<(dd if="$file" bs="$size" skip="$at" status=none)
		done
	done
	# Beyond the end, and over it.
	equal "$(tail -c 7 "$M/sessions/$id/log")" 400000
	size=$(stat -c %s "$file")
	equal "$(dd if="$M/sessions/$id/log" bs="$size" skip=1 status=none | wc -c)" 0
}

@test "eight readers of one log do not get each other's bytes" {
	local reader pids=() id=numbers

	for reader in $(seq 8); do
		cmp "$M/sessions/$id/log" <(seq 400000) 3>&- &
		pids+=($!)
	done
	for reader in "${pids[@]}"; do
		wait "$reader"
	done
}

@test "a log that lost its end is an error where the end was, and no more" {
	local file id=numbers

	file=$(log_file)
	truncate -s 1000000 "$file"
	equal "$(head -c 131072 "$M/sessions/$id/log" | cmp - <(seq 400000 | head -c 131072))" ''
	run -1 dd if="$M/sessions/$id/log" of=/dev/null bs=128k
	like "$output" 'Input/output error'
	equal "$(head -c 131072 "$M/sessions/$id/log" | cmp - <(seq 400000 | head -c 131072))" ''
}

@test "nothing is left" {
	hub_end
}
