# Every way in which shells and tools write a document: a good one starts exactly one session, whatever
# the pieces; a bad one makes the command fail and starts nothing.

load common

setup_file() {
	hub_begin
}

START() {
	printf '%s\n' "$M/executors/local/start"
}

# A spec that appends a line to a file of this test.
counted() {
	printf '{"argv":["/bin/sh","-c","echo x >> %s"],"env":["PATH=/usr/bin:/bin","TEXT=a } ] %s b"]}' \
		"$BATS_TEST_TMPDIR/counted" "${1-}"
}

setup() {
	counted '\\\"' > "$BATS_TEST_TMPDIR/good"
	{ cat "$BATS_TEST_TMPDIR/good"; echo; } > "$BATS_TEST_TMPDIR/good.line"
	jq . "$BATS_TEST_TMPDIR/good" > "$BATS_TEST_TMPDIR/good.pretty"
	printf '{"argv":[]}\n' > "$BATS_TEST_TMPDIR/bad"
	counted | head -c -1 > "$BATS_TEST_TMPDIR/half"
	: > "$BATS_TEST_TMPDIR/counted"
	chmod -R a+rwX "$BATS_TEST_TMPDIR"
	# Without backslashes, which each echo takes otherwise.
	GOOD=$(counted)
	T=$BATS_TEST_TMPDIR
	export GOOD T
	ls "$M/sessions" > "$T/before"
}

# new_sessions: those that were not there.
new_sessions() {
	ls "$M/sessions" | grep -vxFf "$T/before" || true
}

# good N CMD…: succeeds, and N sessions more have run.
good() {
	local n=$1 id had
	shift

	ls "$M/sessions" > "$T/before"
	had=$(wc -l < "$T/counted")
	timeout -k 5 60 "$@" > "$T/out" 2>&1 || fail "failed: $*: $(cat "$T/out") $(cat "$M/error")" || return
	for id in $(new_sessions); do
		ended "$id" > /dev/null
	done
	equal "$(new_sessions | wc -l) $(($(wc -l < "$T/counted") - had))" "$n $n" || fail "$*"
}

# bad CMD…: fails, and nothing is started.
bad() {
	ls "$M/sessions" > "$T/before"
	if timeout -k 5 60 "$@" > "$T/out" 2>&1; then
		fail "succeeded: $*"
		return
	fi
	equal "$(new_sessions)" '' || fail "$*"
}

# For each shell: a document in a variable, by the builtins.
by_shell() {
	local shell=$1 start

	start=$(START)
	need "${shell%% *}"
	# shellcheck disable=SC2086,SC2016
	{
		good 1 $shell -c 'echo "$GOOD" > "$0"' "$start"
		good 1 $shell -c 'printf "%s" "$GOOD" > "$0"' "$start"
		good 1 $shell -c 'printf "%s\n" "$GOOD" >> "$0"' "$start"
		good 1 $shell -c 'cat < "$1" > "$0"' "$start" "$T/good.pretty"
		bad $shell -c 'echo "{}" > "$0"' "$start"
		bad $shell -c 'printf "%s" "{\"argv\":[]}" > "$0"' "$start"
		# Whether closing failed, busybox cat does not look.
		[[ $shell == busybox* ]] || bad $shell -c 'cat "$1" > "$0"' "$start" "$T/half"
		bad $shell -c 'cat "$1" > "$0"' "$start" "$T/bad"
		bad $shell -c 'echo nonsense > "$0"' "$start"
		good 1 $shell -c '
			exec 3<> "$0"
			printf "%s" "$GOOD" >&3
			read -r answer <&3
			echo "$answer"' "$start"
	}
	like "$(cat "$T/out")" '^\{"session":"s-'
}

@test "bash" {
	by_shell bash
}

@test "busybox cat shows of an answer all, or nothing" {
	local answer

	need busybox
	# It copies with sendfile(2), and the kernel takes the end of the document for that of the file.
	for text in '"a"' '"a","b","c","d","e","f","g","h"'; do
		# shellcheck disable=SC2016
		answer=$(busybox sh -c 'exec 3<> "$0"; printf "{\"argv\":[\"/bin/true\",$1]}" >&3; busybox cat <&3' \
			"$(START)" "$text")
		[[ -z $answer ]] || like "$(jq -r .session <<< "$answer")" ^s-
		answer=$(busybox sh -c 'exec 3<> "$0"; printf "{\"argv\":[\"/bin/true\",$1]}" >&3; busybox tee <&3' \
			"$(START)" "$text")
		like "$(jq -r .session <<< "$answer")" ^s-
	done
}

@test "dash" {
	by_shell dash
}

@test "busybox sh" {
	by_shell 'busybox sh'
}

@test "zsh" {
	by_shell zsh
}

@test "fish" {
	local start

	need fish
	start=$(START)
	# shellcheck disable=SC2016
	{
		good 1 fish -c 'echo $GOOD > $argv[1]' "$start"
		good 1 fish -c 'printf %s $GOOD > $argv[1]' "$start"
		good 1 fish -c 'cat $argv[2] > $argv[1]' "$start" "$T/good.pretty"
		bad fish -c 'cat $argv[2] > $argv[1]; or exit 1' "$start" "$T/bad"
		bad fish -c 'cat $argv[2] > $argv[1]; or exit 1' "$start" "$T/half"
	}
}

@test "bash: here documents, here strings, printf in a loop, process substitution, mapfile" {
	# shellcheck disable=SC2016
	{
		good 1 bash -c 'cat > "$0" <<< "$GOOD"' "$(START)"
		good 1 bash -c $'cat > "$0" <<END\n$GOOD\nEND' "$(START)"
		good 1 bash -c 'cat <(printf %s "$GOOD") > "$0"' "$(START)"
		good 1 bash -c 'exec 3> "$0"; for ((i = 0; i < ${#GOOD}; i++)); do printf %s "${GOOD:i:1}" >&3; done' "$(START)"
		good 2 bash -c 'echo "$GOOD" > "$0" && echo "$GOOD" > "$0"' "$(START)"
		good 1 bash -c 'set -o noclobber; echo "$GOOD" >| "$0"' "$(START)"
		good 1 bash -c '{ printf %s "${GOOD:0:20}"; sleep 0.05; printf %s "${GOOD:20}"; } > "$0"' "$(START)"
		bad bash -c 'set -e; echo "{\"argv\":[]}" > "$0"; true' "$(START)"
		# The shell goes on, and the status tells.
		good 1 bash -c 'echo "{}" > "$0" || echo "$GOOD" > "$0"' "$(START)"
	}
}

@test "tee, cp, dd, cat, sponge, install, rsync, python and jq" {
	# shellcheck disable=SC2016
	{
		good 1 sh -c 'tee "$0" < "$1"' "$(START)" "$T/good"
		good 1 sh -c 'jq -c . "$1" | tee "$0" > /dev/null' "$(START)" "$T/good.pretty"
		good 1 sh -c 'jq . "$1" > "$0"' "$(START)" "$T/good"
		good 1 sh -c 'sed s/a/a/ "$1" > "$0"' "$(START)" "$T/good.pretty"
		good 1 sh -c 'awk "{ print }" "$1" > "$0"' "$(START)" "$T/good.pretty"
		good 1 sh -c 'python3 -c "import sys; open(sys.argv[1], \"w\").write(sys.argv[2])" "$0" "$GOOD"' "$(START)"
		good 1 python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1])), open(sys.argv[2], "w"), indent=4)' \
			"$T/good" "$(START)"
		bad python3 -c 'import sys; open(sys.argv[1], "w", 1).write("{}\n")' "$(START)"
		bad sh -c 'tee "$0" < "$1"' "$(START)" "$T/bad"
		bad sh -c 'jq . "$1" > "$0"' "$(START)" "$T/bad"
	}
	good 1 cp "$T/good" "$(START)"
	good 1 cp --no-preserve=all "$T/good.pretty" "$(START)"
	good 1 cp --sparse=always --reflink=auto "$T/good.pretty" "$(START)"
	bad cp "$T/bad" "$(START)"
	bad cp "$T/half" "$(START)"
	bad tee "$(START)" < "$T/half"
	if command -v busybox > /dev/null; then
		good 1 busybox cp "$T/good" "$(START)"
		good 1 busybox dd if="$T/good" of="$(START)" bs=5
		bad busybox cp "$T/bad" "$(START)"
		bad busybox dd if="$T/bad" of="$(START)" bs=5
	fi
}

@test "dd in pieces of any size" {
	local size

	for size in 1 7 64 4095 4096 4097 131072 1048576; do
		good 1 dd if="$T/good.pretty" of="$(START)" bs="$size" status=none
		bad dd if="$T/bad" of="$(START)" bs="$size" status=none
		bad dd if="$T/half" of="$(START)" bs="$size" status=none
	done
	good 1 dd if="$T/good" of="$(START)" conv=notrunc status=none
	good 1 dd if="$T/good" of="$(START)" conv=fsync bs=10 status=none
	good 1 dd if="$T/good" of="$(START)" oflag=append conv=notrunc bs=10 status=none
	good 1 dd if="$T/good" of="$(START)" obs=16 ibs=3 oflag=sync status=none
	good 1 dd if="$T/good.line" of="$(START)" cbs=1000 conv=block status=none
	bad dd if="$T/good" of="$(START)" count=1 bs=10 status=none
}

@test "writev of any parts is one document" {
	local parts

	equal "$(fsop writev "$(START)" '{"argv":["/bin/tr' 'ue"]' '}' $'\n')" 0
	equal "$(fsop writev "$(START)" '{' '"argv":[]' '}')" EINVAL
	mapfile -t parts < <(fold -w 1 "$T/good" | head -c -1)
	: > "$T/counted"
	python3 -c '
import os, sys
text = open(sys.argv[1], "rb").read()
fd = os.open(sys.argv[2], os.O_WRONLY)
assert os.writev(fd, [text[i:i + 1] for i in range(len(text))]) == len(text)
os.close(fd)' "$T/good" "$(START)"
	for id in $(new_sessions); do
		ended "$id" > /dev/null
	done
	equal "$(wc -l < "$T/counted")" 1
}

@test "the answer is read where it was written, also a refusal, and again from the beginning" {
	local answer

	# shellcheck disable=SC2016
	{
		answer=$(bash -c 'exec 3<> "$0"; echo "$GOOD" >&3; cat <&3' "$(START)")
		like "$answer" '^\{"session":"s-.*\}$'
		answer=$(bash -c 'exec 3<> "$0"; echo "{}" >&3; cat <&3' "$(START)" 2> /dev/null)
		equal "$(jq -r '.errno + " " + .field' <<< "$answer")" 'EINVAL argv'
		# In small pieces, then the end of the file.
		answer=$(bash -c 'exec 3<> "$0"; echo "$GOOD" >&3; dd bs=1 status=none <&3; cat <&3' "$(START)")
		like "$(jq -r .session <<< "$answer")" ^s-
		# One after the other on one descriptor.
		answer=$(bash -c 'exec 3<> "$0"; echo "$GOOD" >&3; cat <&3; echo "$GOOD" >&3; cat <&3' "$(START)")
		equal "$(jq -r .session <<< "$answer" | sort -u | wc -l)" 2
		# After a refusal that was read, too.
		answer=$(bash -c 'exec 3<> "$0"; echo "{}" >&3; cat <&3; echo "$GOOD" >&3; cat <&3' "$(START)" 2> /dev/null)
		equal "$(jq -r '.errno // "started"' <<< "$answer" | xargs)" 'EINVAL started'
	}
	# On a fresh one, the caller's latest.
	equal "$(cat "$(START)")" "$(tail -n 1 <<< "$answer")"
}

@test "two scripts that start at the same time get their own ids" {
	local pids=() i

	for i in $(seq 24); do
		# shellcheck disable=SC2016
		bash -c 'exec 3<> "$0"; printf "{\"argv\":[\"/bin/echo\",\"$1\"]}" >&3; cat <&3' "$(START)" "text-$i" \
			> "$T/answer.$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	for i in $(seq 24); do
		ended "$(jq -r .session "$T/answer.$i")" > /dev/null
		equal "$(now "$(jq -r .session "$T/answer.$i")" log)" "text-$i"
	done
}

@test "a writer that is stopped and continued in the middle writes one document" {
	local writer

	# shellcheck disable=SC2016
	bash -c 'exec 3> "$0"; for ((i = 0; i < ${#GOOD}; i++)); do printf %s "${GOOD:i:1}" >&3; sleep 0.002; done' \
		"$(START)" 3>&- &
	writer=$!
	for _ in 1 2 3 4 5; do
		sleep 0.03
		kill -STOP "$writer"
		sleep 0.01
		kill -CONT "$writer"
	done
	wait "$writer"
	equal "$(new_sessions | wc -l)" 1
}

@test "a writer that is killed in the middle starts nothing, and the error says so" {
	local writer

	# shellcheck disable=SC2016
	bash -c 'exec 3> "$0"; printf %s "${GOOD:0:30}" >&3; touch "$1"; exec sleep 1000' "$(START)" "$T/begun" 3>&- &
	writer=$!
	eventually test -e "$T/begun"
	kill -9 "$writer"
	wait "$writer" || true
	equal "$(new_sessions)" ''
	eventually grep -q 'incomplete' "$M/error"
}

@test "an unfinished document is no error before it is closed for good" {
	# Shells duplicate descriptors and close them all the time.
	# shellcheck disable=SC2016
	good 1 bash -c '
		exec 3> "$0"
		{ printf %s "${GOOD:0:30}"; } >&3
		(exit 0) 4>&3
		/bin/true 5>&3
		{ printf %s "${GOOD:30}"; } >&3' "$(START)"
}

@test "writing nothing, or only white space, means nothing" {
	local text

	for text in '' ' ' $'\n' $'\t\r\n  '; do
		printf %s "$text" > "$(START)"
		printf %s "$text" | dd of="$(START)" status=none
	done
	: > "$(START)"
	equal "$(new_sessions)" ''
	# shellcheck disable=SC2016
	good 1 bash -c 'printf "\n\n  %s\n\n \n" "$GOOD" > "$0"' "$(START)"
	# shellcheck disable=SC2016
	good 1 bash -c 'exec 3> "$0"; printf "\n" >&3; printf "%s" "$GOOD" >&3; printf "\n\n" >&3; echo >&3' "$(START)"
}

@test "commands: with and without newline, by every tool, each write its own" {
	local state=$M/executors/local/state text

	for text in 'cordon\n' cordon '  cordon  \n' 'cordoned\n' 'cordon  new   disk \n'; do
		# shellcheck disable=SC2059
		printf "$text" > "$state"
		equal "$(cat "$state")" cordoned || fail "$text"
		echo uncordon > "$state"
		equal "$(cat "$state")" ready
	done
	echo drain | tee "$state"
	equal "$(cat "$state")" draining
	echo ready | dd of="$state" status=none
	equal "$(cat "$state")" ready
	# What is read can be written.
	echo cordon > "$state"
	cat "$state" > "$T/saved"
	cat "$T/saved" > "$state"
	echo ready > "$state"
	# Two writes on one descriptor are two commands.
	# shellcheck disable=SC2016
	bash -c 'exec 3> "$0"; echo cordon >&3; echo uncordon >&3' "$state"
	equal "$(cat "$state")" ready
	# Two lines in one write are none.
	equal "$(fsop write "$state" $'cordon\nuncordon\n')" EINVAL
	equal "$(fsop write "$state" '')" 0
	equal "$(fsop write "$state" $'\n')" EINVAL
	equal "$(cat "$state")" ready
}

@test "the hub stops and leaves nothing" {
	hub_end
}
