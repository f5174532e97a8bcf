# Streams: who follows a session gets what it wrote as soon as it wrote it, not with what comes next.

load common

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

@test "nothing is left" {
	hub_end
}
