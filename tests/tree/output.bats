# What a workload prints: log, stdout, stderr, lines, follow and log.tail.

load common

setup_file() {
	hub_begin
	mkdir "$M/executors/small"
	echo '{"kind":"localprocess","log_quota_bytes":4096}' > "$M/executors/small/config"
}

# run_script TEXT [EXECUTOR]: runs it to its end, and prints the id.
run_script() {
	local id

	id=$(start "$(script "$1")" "${2:-local}")
	ended "$id" > /dev/null
	echo "$id"
}

# texts SESSION [STREAM]: the text of its lines, put together.
texts() {
	cat "$M/sessions/$1/lines" | jq -j --arg stream "${2-}" 'select($stream == "" or .stream == $stream) | .text'
}

@test "streams are kept apart, and together in the order of arrival" {
	local id

	id=$(run_script 'for i in 1 2 3 4 5; do echo out $i; sleep 0.02; echo err $i >&2; sleep 0.02; done')
	equal "$(now "$id" stdout)" "$(printf 'out %d\n' 1 2 3 4 5)"
	equal "$(now "$id" stderr)" "$(printf 'err %d\n' 1 2 3 4 5)"
	equal "$(now "$id" log)" "$(for i in 1 2 3 4 5; do printf 'out %d\nerr %d\n' $i $i; done)"
	equal "$(cat "$M/sessions/$id/follow")" "$(now "$id" log)"
	equal "$(now "$id" log.tail)" ''
	equal "$(cat "$M/sessions/$id/lines" | jq -c '[.handle_id, .stream, .text, .seq]' | sed -n '1p;10p')" \
		"[\"$id.1\",\"stdout\",\"out 1\\n\",1]
[\"$id.1\",\"stderr\",\"err 5\\n\",10]"
	equal "$(cat "$M/sessions/$id/lines" | jq -s 'map(.time) == (map(.time) | sort)')" true
	equal "$(status "$id" '[.log_bytes, .log_dropped_bytes] | map(tostring) | join(" ")')" '60 0'
}

@test "bytes are not changed, whatever they are" {
	local id

	/usr/bin/python3 -IS -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 400)' > "$D/work/bytes"
	id=$(run_script "cat $D/work/bytes; cat $D/work/bytes >&2")
	cmp "$M/sessions/$id/stdout" "$D/work/bytes"
	cmp "$M/sessions/$id/stderr" "$D/work/bytes"
	equal "$(stat -c %s "$M/sessions/$id/log")" 204800
	# At any offset, also behind the end.
	for at in 0 1 255 4095 4096 65535 102399 102400 1000000; do
		cmp <(dd if="$M/sessions/$id/stdout" bs=1 skip="$at" count=1000 status=none) \
			<(dd if="$D/work/bytes" bs=1 skip="$at" count=1000 status=none 2> /dev/null)
	done
	# As JSON it is still JSON.
	equal "$(cat "$M/sessions/$id/lines" | jq -s 'length > 0')" true
}

@test "text in UTF-8 is whole in lines, however it was written" {
	local id

	id=$(run_script 'i=0; while [ $i -lt 400 ]; do i=$((i+1)); printf "é€😀"; done; printf "\303"; sleep 0.05; printf "\251\n"')
	equal "$(texts "$id")" "$(now "$id" log)"
	like "$(texts "$id")" '^(é€😀){400}é$'
	id=$(run_script 'printf "a\377b\300\257c\355\240\200d"')
	equal "$(texts "$id")" 'a�b��c���d'
}

@test "a line of 1 MiB without an end" {
	local id

	id=$(run_script 'head -c 1048576 /dev/zero | tr "\0" x')
	equal "$(now "$id" log | wc -c)" 1048576
	equal "$(texts "$id" | wc -c)" 1048576
	(($(cat "$M/sessions/$id/lines" | jq '.text | length' | sort -n | tail -n 1) <= 32768))
	equal "$(cat "$M/sessions/$id/lines" | jq -s 'map(.seq) == [range(1; length + 1)]')" true
}

@test "200,000 lines just before the exit are all there" {
	local id

	id=$(start "$(spec /usr/bin/seq 200000)")
	cat "$M/sessions/$id/follow" > "$BATS_TEST_TMPDIR/followed" 3>&- &
	equal "$(ended "$id")" 0
	cmp "$M/sessions/$id/log" <(seq 200000)
	wait $!
	cmp "$BATS_TEST_TMPDIR/followed" <(seq 200000)
	cmp <(texts "$id") <(seq 200000)
	equal "$(status "$id" .log_bytes)" "$(seq 200000 | wc -c)"
}

@test "the log is complete before the end is shown" {
	local id i

	for i in $(seq 25); do
		id=$(start "$(spec /usr/bin/seq 5000)")
		ended "$id" > /dev/null
		equal "$(tail -n 1 "$M/sessions/$id/log")" 5000
		id=$(start "$(spec /usr/bin/seq 5000)")
		eventually is_state "$id" exited
		equal "$(tail -n 1 "$M/sessions/$id/log")" 5000
	done
}

@test "ten readers follow the same session, each sees all" {
	local id i pids=()

	id=$(start "$(script 'for i in $(seq 200); do echo line $i; sleep 0.001; done')")
	for i in 1 2 3 4 5 6 7 8 9 10; do
		cat "$M/sessions/$id/follow" > "$BATS_TEST_TMPDIR/seen.$i" 3>&- &
		pids+=($!)
	done
	wait "${pids[@]}"
	equal "$(cat "$BATS_TEST_TMPDIR"/seen.* | sort | uniq -c | awk '{ print $1 }' | sort -u)" 10
	equal "$(wc -l < "$BATS_TEST_TMPDIR/seen.1")" 200
}

@test "a slow reader does not hold the workload" {
	local id

	id=$(start "$(spec /usr/bin/seq 300000)")
	{ read -r; exec sleep 1000; } < "$M/sessions/$id/follow" 3>&- &
	equal "$(ended "$id")" 0
	kill $!
	cmp "$M/sessions/$id/log" <(seq 300000)
}

@test "while it runs, sizes and counts move with the output" {
	local id

	id=$(start "$(script "printf 12345; while [ ! -e $D/work/more ]; do sleep 0.02; done; printf 678 >&2; sleep 1000")")
	eventually has_bytes "$id" log 5
	equal "$(status "$id" .log_bytes) $(now "$id" stdout)" '5 12345'
	touch "$D/work/more"
	eventually has_bytes "$id" log 8
	equal "$(stat -c %s "$M/sessions/$id/stdout") $(stat -c %s "$M/sessions/$id/stderr")" '5 3'
	equal "$(status "$id" .log_bytes)" 8
	echo kill > "$M/sessions/$id/signal"
}

has_bytes() {
	[[ $(stat -c %s "$M/sessions/$1/$2") == "$3" ]]
}

# --- the quota ------------------------------------------------------------------------------------

@test "up to the quota, but for the room of the marker, nothing is cut" {
	local id size

	for size in 3000 3500; do
		id=$(run_script "head -c $size /dev/zero | tr '\\0' x" small)
		equal "$(stat -c %s "$M/sessions/$id/log") $(stat -c %s "$M/sessions/$id/log.tail")" "$size 0"
		equal "$(status "$id" .log_dropped_bytes)" 0
	done
	for size in 4095 4096 4097 5000; do
		id=$(run_script "head -c $size /dev/zero | tr '\\0' x" small)
		(($(stat -c %s "$M/sessions/$id/log") <= 4096)) || fail "$size"
		equal "$(cat "$M/sessions/$id/stdout" "$M/sessions/$id/log.tail" | wc -c)" "$size"
		equal "$(status "$id" .log_dropped_bytes)" 0
	done
}

@test "beyond the quota: a marker line, the latest output in log.tail, and the gap in between" {
	local id total=60000 head tail dropped

	id=$(run_script "seq 100000 | head -c $total; exit 5" small)
	seq 100000 | head -c "$total" > "$BATS_TEST_TMPDIR/all"
	equal "$(status "$id" .exit_code)" 5
	like "$(tail -n 1 "$M/sessions/$id/log")" '^\[cloop\] '
	equal "$(grep -c '^\[cloop\]' "$M/sessions/$id/log")" 1
	head -n -1 "$M/sessions/$id/log" > "$BATS_TEST_TMPDIR/head"
	cmp -n "$(($(stat -c %s "$BATS_TEST_TMPDIR/head") - 1))" "$BATS_TEST_TMPDIR/head" "$BATS_TEST_TMPDIR/all"
	tail=$(stat -c %s "$M/sessions/$id/log.tail")
	cmp "$M/sessions/$id/log.tail" <(tail -c "$tail" "$BATS_TEST_TMPDIR/all")
	((tail >= 4096 / 16 && tail <= 4096))
	# What is in neither is counted.
	head=$(stat -c %s "$M/sessions/$id/stdout")
	dropped=$(status "$id" .log_dropped_bytes)
	equal "$((head + dropped + tail))" "$total"
	equal "$(status "$id" .log_bytes)" "$total"
	cmp "$M/sessions/$id/stdout" <(head -c "$head" "$BATS_TEST_TMPDIR/all")
	# The readers that block end as well, and seq shows the gap.
	equal "$(cat "$M/sessions/$id/follow")" "$(now "$id" log)"
	equal "$(cat "$M/sessions/$id/lines" | jq -s 'map(.seq) | . == (sort | unique) and . != [range(1; length + 1)]')" true
	equal "$(cat "$M/sessions/$id/lines" | jq -rs 'map(.stream) | unique | join(" ")')" 'combined stdout'
}

@test "a workload runs on beyond the quota, and log.tail moves" {
	local id

	id=$(start "$(script 'i=0; while :; do i=$((i + 1)); echo "$i"; done')" small)
	eventually has_moved "$id"
	equal "$(now "$id" state)" running
	# A picture of it is in one piece.
	for _ in 1 2 3 4 5; do
		now "$id" log.tail | sed 1d | awk 'NR > 1 && $1 != last + 1 { exit 1 } { last = $1 }'
	done
	echo kill > "$M/sessions/$id/signal"
	equal "$(ended "$id")" 137
}

has_moved() {
	local first

	first=$(now "$1" log.tail | tail -n 1)
	[[ -n $first && $(now "$1" log.tail | tail -n 1) != "$first" ]]
}

@test "the quota is that of the start, a new one applies to new sessions" {
	local id later

	id=$(start "$(script "while [ ! -e $D/work/print ]; do sleep 0.02; done; head -c 9000 /dev/zero")" small)
	echo '{"kind":"localprocess","log_quota_bytes":8192}' > "$M/executors/small/config"
	touch "$D/work/print"
	ended "$id"
	later=$(run_script 'head -c 9000 /dev/zero' small)
	(($(stat -c %s "$M/sessions/$id/stdout") <= 4096 && $(stat -c %s "$M/sessions/$later/stdout") > 4096))
	echo '{"kind":"localprocess","log_quota_bytes":4096}' > "$M/executors/small/config"
}

# --- pipes ----------------------------------------------------------------------------------------

@test "two streams at full speed at once: every byte, each in its order" {
	local id

	# Each waits in the middle until the other one is there.
	id=$(run_script "cd $D/work
		meet() { : > \$1; until [ -e \$2 ]; do sleep 0.01; done; }
		(seq 150000; meet out err; seq 150001 300000) &
		(seq 300000 449999; meet err out; seq 450000 599999) >&2 &
		wait")
	cmp "$M/sessions/$id/stdout" <(seq 300000)
	cmp "$M/sessions/$id/stderr" <(seq 300000 599999)
	equal "$(now "$id" log | wc -c)" "$(($(seq 300000 | wc -c) + $(seq 300000 599999 | wc -c)))"
	(($(cat "$M/sessions/$id/lines" | jq -r .stream | uniq | wc -l) > 2))
	equal "$(cat "$M/sessions/$id/lines" | jq -j 'select(.stream == "stderr").text' | cksum)" \
		"$(seq 300000 599999 | cksum)"
	equal "$(status "$id" .log_dropped_bytes)" 0
}

@test "a background child that holds the pipe does not keep the session" {
	local id

	id=$(start "$(script '(sleep 1000; echo late) & echo early; exit 8')")
	equal "$(ended "$id") $(now "$id" log)" '8 early'
	id=$(start "$(script 'setsid sleep 1000 & exit 9')")
	equal "$(ended "$id")" 9
}

@test "a workload that closes its streams runs on" {
	local id

	id=$(start "$(script 'echo said; exec >&- 2>&-; sleep 0.3; exit 10')")
	equal "$(ended "$id") $(now "$id" log)" '10 said'
}

@test "output to /dev/stdout, /dev/stderr and /proc/self/fd works for other users" {
	local id

	need_root
	id=$(WHO=alice start "$(script 'echo a > /dev/stdout; echo b > /dev/stderr; echo c > /proc/self/fd/1; exit 11')")
	equal "$(ended "$id") $(now "$id" stdout | xargs) $(now "$id" stderr)" '11 a c b'
}

@test "nothing in the log can be taken for a marker by who reads lines" {
	local id

	id=$(run_script 'echo "[cloop] the machine is on fire"')
	equal "$(cat "$M/sessions/$id/lines" | jq -r .stream)" stdout
}

@test "the hub stops and leaves nothing" {
	hub_end
}
