# Documents that are large, deep, cut or hostile.

load common

setup_file() {
	hub_begin
}

START() {
	printf '%s\n' "$M/executors/local/start"
}

# make PYTHON: the bytes that an expression gives.
make() {
	/usr/bin/python3 -IS -c 'import sys; sys.stdout.buffer.write(eval(sys.argv[1]))' "$1"
}

# rejects_at_once ERRNO PYTHON: refused in one write.
rejects_at_once() {
	local before

	before=$(ls "$M/sessions")
	make "$2" > "$BATS_TEST_TMPDIR/doc"
	run -1 dd if="$BATS_TEST_TMPDIR/doc" of="$(START)" bs=65536 status=none
	equal "$(jq -r .errno "$M/error.json")" "$1" || fail "$2" || return
	equal "$(ls "$M/sessions")" "$before"
}

# rejects ERRNO PYTHON: refused however it is cut, and nothing starts.
rejects() {
	local errno=$1 before size

	before=$(ls "$M/sessions")
	make "$2" > "$BATS_TEST_TMPDIR/doc"
	for size in 1 13 131072 4194304; do
		((size > 1 || $(stat -c %s "$BATS_TEST_TMPDIR/doc") < 5000)) || continue
		run -1 dd if="$BATS_TEST_TMPDIR/doc" of="$(START)" bs="$size" status=none
		equal "$(jq -r .errno "$M/error.json")" "$errno" || fail "in pieces of $size: $2" || return
	done
	equal "$(ls "$M/sessions")" "$before"
}

# accepts PYTHON: started, however it is cut.
accepts() {
	local id

	make "$1" > "$BATS_TEST_TMPDIR/doc"
	for size in 13 131072 4194304; do
		dd if="$BATS_TEST_TMPDIR/doc" of="$(START)" bs="$size" status=none
		id=$(jq -r .session "$(START)")
		equal "$(ended "$id")" 0
	done
}

@test "exactly 1 MiB is taken, one byte more is EFBIG" {
	accepts 'b"{\"argv\":[\"/bin/true\"]" + b" " * (1048576 - 22) + b"}"'
	rejects EFBIG 'b"{\"argv\":[\"/bin/true\"]" + b" " * (1048576 - 21) + b"}"'
	rejects EFBIG 'b"{\"argv\":[\"" + b"x" * 3000000 + b"\"]}"'
}

@test "what follows a document that was too large starts nothing" {
	local before

	before=$(ls "$M/sessions")
	# A writer that ignores errors.
	make 'b"{\"argv\":[\"" + b"x" * 1100000' > "$BATS_TEST_TMPDIR/doc"
	# shellcheck disable=SC2016
	bash -c 'exec 3<> "$0"
		dd if="$1" bs=65536 status=none conv=noerror >&3
		echo "{\"argv\":[\"/bin/true\"]}" >&3
		echo "{\"argv\":[\"/bin/true\"]}" >&3' "$(START)" "$BATS_TEST_TMPDIR/doc" 2> /dev/null || true
	equal "$(ls "$M/sessions")" "$before"
	equal "$(jq -r .errno "$M/error.json")" EFBIG
}

@test "large values: a long argument, many arguments, a large environment, many labels" {
	accepts '(b"{\"argv\":[\"/bin/true\",\"" + b"x" * 131071 + b"\"]}")'
	rejects EINVAL '(b"{\"argv\":[\"/bin/true\",\"" + b"x" * 131072 + b"\"]}")'
	accepts '(b"{\"argv\":[\"/bin/true\"" + b",\"a\"" * 20000 + b"]}")'
	accepts '(b"{\"argv\":[\"/bin/true\"],\"env\":[" + b",".join(b"\"V%d=%s\"" % (i, b"x" * 100) for i in range(3000)) + b"]}")'
	rejects EINVAL '(b"{\"argv\":[\"/bin/true\"" + b",\"a\"" * 200000 + b"]}")'
}

@test "deep nesting ends in a refusal, not in the daemon's stack" {
	local pid

	pid=$(hub_pid)
	rejects EINVAL 'b"{\"a\":" * 2000 + b"1" + b"}" * 2000'
	rejects EINVAL 'b"{\"a\":" * 100000 + b"1" + b"}" * 100000'
	rejects EINVAL 'b"{\"argv\":" + b"[" * 500000 + b"]" * 500000 + b"}"'
	rejects EINVAL 'b"{\"argv\":" + b"[" * 1000 + b"}"'
	equal "$(hub_pid)" "$pid"
}

@test "duplicate keys are refused, also when escaped, also deep" {
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"argv\":[\"/bin/true\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"\\u0061rgv\":[\"/bin/true\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"labels\":{\"a\":\"1\",\"a\":\"1\"}}"'
}

@test "NUL bytes, bad UTF-8, surrogates and control characters" {
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\x00\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\\u0000\"]}"'
	rejects_at_once EINVAL 'b"{\"argv\":[\"/bin/true\"]}\x00"'
	rejects EINVAL 'b"\x00{\"argv\":[\"/bin/true\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\xff\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\xc0\xaf\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\xed\xa0\x80\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\xf4\x90\x80\x80\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\\ud800\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"\\udc00\\ud800\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\",\"a\nb\"]}"'
	rejects EINVAL 'b"\xef\xbb\xbf{\"argv\":[\"/bin/true\"]}"'
	rejects_at_once EINVAL 'b"{\"argv\":[\"/bin/true\"]}\xc2\xa0"'
	rejects EINVAL 'b"\xfe\xff" + "{\"argv\":[\"/bin/true\"]}".encode("utf-16-be")'
	accepts '"{\"argv\":[\"/bin/true\",\"é€😀\",\"\\ud83d\\ude00\",\"\\u00e9\"]}".encode()'
}

@test "what follows the document, in the same write or a later one" {
	rejects_at_once EINVAL 'b"{\"argv\":[\"/bin/true\"]}}"'
	rejects_at_once EINVAL 'b"{\"argv\":[\"/bin/true\"]}{\"argv\":[\"/bin/true\"]}"'
	rejects_at_once EINVAL 'b"{}[]"'
	# In a later write the first one has started: the second is refused, and the first stays.
	local before
	before=$(ls "$M/sessions" | wc -l)
	# shellcheck disable=SC2016
	run -1 bash -c 'exec 3<> "$0"; echo "{\"argv\":[\"/bin/true\"]}" >&3; echo "{\"argv\":[\"/bin/true\"]}" >&3' "$(START)"
	equal "$(ls "$M/sessions" | wc -l)" $((before + 1))
	# shellcheck disable=SC2016
	run -1 bash -c 'exec 3<> "$0"; echo "{\"argv\":[\"/bin/true\"]}" >&3; printf x >&3' "$(START)"
	equal "$(ls "$M/sessions" | wc -l)" $((before + 2))
}

@test "words of JSON in every wrong place" {
	rejects EINVAL 'b"null"'
	rejects EINVAL 'b"true"'
	rejects EINVAL 'b"1"'
	rejects EINVAL 'b"[]"'
	rejects EINVAL 'b"\"{}\""'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"timeout_minutes\":1e3}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"timeout_minutes\":99999999999999999999}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"timeout_minutes\":-0.0}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"timeout_minutes\":NaN}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"timeout_minutes\":01}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],\"disable_network\":\"false\"}"'
	rejects EINVAL 'b"{\x27argv\x27:[\"/bin/true\"]}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"]/**/}"'
	rejects EINVAL 'b"{\"argv\":[\"/bin/true\"],}"'
	rejects EINVAL 'b"{\"\":1}"'
	accepts 'b"{\"argv\":[\"/bin/true\"],\"timeout_minutes\":null,\"image\":null,\"labels\":null,\"workspace\":null}"'
}

@test "braces and quotes inside strings do not end a document" {
	accepts 'b"{\"argv\":[\"/bin/true\",\"}\",\"]\",\"{\",\"[\",\"\\\"\",\"\\\\\",\"\\\\\\\"}\",\"\\u007d\"]}"'
}

@test "random bytes start nothing, and the daemon lives" {
	local pid before

	pid=$(hub_pid)
	before=$(ls "$M/sessions")
	/usr/bin/python3 -IS - "$(START)" <<-'PROGRAM'
		import os, random, sys
		random.seed(7)
		good = b'{"argv":["/nonexistent","x"],"env":["A=b"],"labels":{"a":"b"},"timeout_minutes":1}'
		refused = 0
		for i in range(400):
		    text = bytearray(good)
		    for _ in range(random.randint(1, 6)):
		        at = random.randrange(len(text))
		        what = random.random()
		        if what < 0.4:
		            text[at] = random.randrange(256)
		        elif what < 0.7:
		            del text[at]
		        else:
		            text[at:at] = random.choice([b"{", b"}", b'"', b"\\", b",", b"[", b"\0"])
		    fd = os.open(sys.argv[1], os.O_WRONLY)
		    try:
		        os.write(fd, text)
		    except OSError:
		        refused += 1
		    try:
		        os.close(fd)
		    except OSError:
		        refused += 1
		# What is neither refused by write nor by close was not complete, or blank.
		assert refused > 300, refused
	PROGRAM
	equal "$(ls "$M/sessions")" "$before"
	equal "$(hub_pid)" "$pid"
}

# Documents that nobody finishes must not use up what all share.
@test "unfinished documents of one user leave room for others" {
	local errors

	need_root
	# shellcheck disable=SC2016
	errors=$(as alice /usr/bin/python3 -IS -c '
import errno, os, sys, collections
seen = collections.Counter()
fds = []
text = b"{" + b" " * 1000000
for i in range(200):
    try:
        fds.append(os.open(sys.argv[1], os.O_RDWR))
        os.write(fds[-1], text)
        seen["ok"] += 1
    except OSError as e:
        seen[errno.errorcode[e.errno]] += 1
print(seen["ok"] > 0 and seen["ENOSPC"] > 0 and seen["ok"] + seen["ENOSPC"] == 200)
' "$(START)")
	equal "$errors" True
	equal "$(ended "$(WHO=bob start "$(spec /bin/true)")")" 0
	# When they are closed, all is as before.
	equal "$(ended "$(WHO=alice start "$(spec /bin/true)")")" 0
}

@test "configs are held to the same" {
	local config=$M/executors/doc/config

	mkdir "$M/executors/doc"
	# shellcheck disable=SC2094
	{
		run -1 cp <(make 'b"{\"kind\":\"localprocess\"" + b" " * 1100000 + b"}"') "$config"
		equal "$(jq -r .errno "$M/error.json")" EFBIG
		run -1 cp <(printf '{"kind":"localprocess"') "$config"
		run -1 cp <(printf '{"kind":"localprocess","kind":"localprocess"}') "$config"
		equal "$(cat "$config")" ''
		dd if=<(printf '\n{ "max_concurrent": 2, "kind": "localprocess" }\n') of="$config" bs=1 status=none
		equal "$(cat "$config")" '{"kind":"localprocess","max_concurrent":2}'
		# What is read can be written.
		cp "$config" "$BATS_TEST_TMPDIR/config"
		cp "$BATS_TEST_TMPDIR/config" "$config"
		equal "$(cat "$config")" "$(cat "$BATS_TEST_TMPDIR/config")"
		# A refused one leaves the last one, also for who reads on the descriptor.
		run -1 cp <(printf '{"kind":"elsewhere"}') "$config"
		equal "$(cat "$config")" "$(cat "$BATS_TEST_TMPDIR/config")"
	}
	rmdir "$M/executors/doc"
}

@test "the hub stops and leaves nothing" {
	hub_end
}
