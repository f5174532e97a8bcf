# The tools that people use on files: all of them work on the tree, and end.

load common

setup_file() {
	hub_begin
	DONE=$(start "$(script 'i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); echo "line $i"; done; echo needle >&2')")
	RUNS=$(start "$(script 'echo begun; sleep 1000')")
	ended "$DONE"
	export DONE RUNS
}

# ends CMD…: as root or not, within the time that nothing but blocking takes.
ends() {
	timeout -k 5 60 "$@"
}

# later FILE TEXT: a session that prints the text after a moment, and ends.
later() {
	start "$(script "sleep 0.3; echo $1; sleep 0.2; echo $2; exit ${3:-0}")"
}

@test "df shows the room of the state directory" {
	equal "$(df --output=size,fstype "$M" | tail -n 1 | xargs)" \
		"$(df --output=size "$D/home" | tail -n 1 | xargs) fuse.cloop"
	df -i "$M"
	need busybox
	busybox df "$M"
}

@test "du, ls, find, grep -r, tar, cp -r and rsync pass by what blocks" {
	need rsync
	ends du -a "$M" > /dev/null
	ends ls -laR "$M" > /dev/null
	equal "$(ends ls -R "$M" | grep -c ^needle)" 0
	equal "$(ends find "$M" -name log | sort)" "$(printf '%s\n' "$M/sessions/"{"$DONE","$RUNS"}{,/attempts/1}/log | sort)"
	equal "$(ends find "$M" -type d -name local)" "$M/executors/local"
	equal "$(ends find "$M/sessions" -newer "$M/version" -name status | wc -l)" 4
	equal "$(ends grep -rl needle "$M/sessions/" | sort | xargs)" \
		"$(printf "$M/sessions/$DONE/%s " attempts/1/log log spec stderr | xargs)"
	ends tar -cf "$BATS_TEST_TMPDIR/tree.tar" -C "$M" .
	equal "$(tar -xOf "$BATS_TEST_TMPDIR/tree.tar" "./sessions/$DONE/stderr")" needle
	ends cp -r "$M" "$BATS_TEST_TMPDIR/copy"
	equal "$(cat "$BATS_TEST_TMPDIR/copy/sessions/$DONE/stderr")" needle
	ends rsync -a "$M/" "$BATS_TEST_TMPDIR/rsync"
	ends rsync -a "$M/" "$BATS_TEST_TMPDIR/rsync"
	# What does not move is the same in every copy.
	for copy in copy rsync; do
		ends diff -r "$M/sessions/$DONE" "$BATS_TEST_TMPDIR/$copy/sessions/$DONE" \
			--exclude follow --exclude lines --exclude wait --exclude executor
	done
	equal "$(cd "$M/sessions/$DONE" && sha256sum log stdout stderr spec)" \
		"$(cd "$BATS_TEST_TMPDIR/rsync/sessions/$DONE" && sha256sum log stdout stderr spec)"
}

@test "rsync copies again only what has changed" {
	need rsync
	ends rsync -a "$M/sessions/" "$BATS_TEST_TMPDIR/copy"
	equal "$(ends rsync -ai "$M/sessions/$DONE/" "$BATS_TEST_TMPDIR/copy/$DONE")" ''
}

@test "head, tail, wc, stat, sort, cmp, test, dd, od, cut" {
	local log=$M/sessions/$DONE/stdout

	equal "$(head -n 1 "$log")" 'line 1'
	equal "$(head -c 4 "$log")" line
	equal "$(tail -n 1 "$log")" 'line 2000'
	equal "$(tail -c 5 "$log")" 2000
	equal "$(tail -n +2000 "$log")" 'line 2000'
	equal "$(tail -c +$(($(stat -c %s "$log") - 4)) "$log")" 2000
	equal "$(wc -l < "$log")" 2000
	equal "$(wc -c < "$log")" "$(stat -c %s "$log")"
	equal "$(tac "$log" | head -n 1)" 'line 2000'
	cmp "$log" <(seq -f 'line %g' 2000)
	sort -c -t ' ' -k 2n "$log"
	[[ -s $log && -f $log && -r $log && ! -s $M/sessions/$DONE/error ]]
	equal "$(dd if="$log" bs=7 skip=1 count=1 status=none)" 'line 2'
	equal "$(dd if="$log" iflag=direct bs=4096 count=1 status=none | head -n 1)" 'line 1'
	equal "$(od -An -c -N 4 "$log" | xargs)" 'l i n e'
	equal "$(sed -n 7p "$log")" 'line 7'
	equal "$(awk 'END { print NR }' "$log")" 2000
	equal "$(split -n l/1/1 "$log" | wc -l)" 2000
}

@test "less pages, and ends in a pipe" {
	need less
	equal "$(ends less "$M/sessions/$DONE/stdout" | tail -n 1)" 'line 2000'
	equal "$(ends less "$M/status" | head -n 1 | cut -d ' ' -f 1)" cloop
}

@test "a program that maps files reads them" {
	equal "$(/usr/bin/python3 -IS -c '
import mmap, sys
with open(sys.argv[1], "rb") as f:
    with mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as m:
        print(m[-10:-1].decode())' "$M/sessions/$DONE/stdout")" 'line 2000'
}

tail_shows() {
	[[ $(cat "$1") == "$2" ]]
}

@test "tail -f and tail -F show what comes" {
	local id

	for option in -f -F '-s 0.1 -f' --follow=name; do
		id=$(later one two)
		# shellcheck disable=SC2086
		tail $option "$M/sessions/$id/log" > "$BATS_TEST_TMPDIR/seen" 2> /dev/null 3>&- &
		eventually tail_shows "$BATS_TEST_TMPDIR/seen" $'one\ntwo' || fail "$option"
		kill $!
	done
	id=$(later one two)
	ends tail -f --pid="$(now "$id" pid)" -s 0.1 "$M/sessions/$id/log" > "$BATS_TEST_TMPDIR/seen"
	equal "$(cat "$BATS_TEST_TMPDIR/seen")" $'one\ntwo'
}

@test "cat, head, grep, tail, dd and bash follow a session to its end" {
	local id

	equal "$(ends cat "$M/sessions/$(later one two)/follow")" $'one\ntwo'
	equal "$(ends head -n 1 "$M/sessions/$(later one two)/follow")" one
	equal "$(ends grep -m 1 two "$M/sessions/$(later one two)/follow")" two
	equal "$(ends tail -n 1 "$M/sessions/$(later one two)/follow")" two
	equal "$(ends dd if="$M/sessions/$(later one two)/follow" bs=3 status=none)" $'one\ntwo'
	equal "$(ends sed p -n "$M/sessions/$(later one two)/follow" | wc -l)" 2
	id=$(later one two)
	equal "$(while read -r line; do echo "<$line>"; done < "$M/sessions/$id/follow")" $'<one>\n<two>'
	equal "$(ends cat "$M/sessions/$(later one two)/lines" | jq -j '"\(.stream) \(.seq) \(.text)"')" \
		$'stdout 1 one\nstdout 2 two'
	equal "$(ends cp "$M/sessions/$(later one two)/follow" /dev/stdout | cat)" $'one\ntwo'
}

@test "lines can be read as any other file" {
	local id line n=0

	id=$(start "$(script 'for i in $(seq 300); do echo $i; echo $i >&2; done')")
	ended "$id"
	run -0 --separate-stderr head -n 1 "$M/sessions/$id/lines"
	equal "$(jq .seq <<< "$output") $stderr" '1 '
	equal "$(tail -n 1 "$M/sessions/$id/lines")" "$(cat "$M/sessions/$id/lines" | tail -n 1)"
	# bash reads a block, and goes back to the end of the line.
	while read -r line; do
		n=$((n + 1))
		equal "$(jq .seq <<< "$line")" "$n"
	done < "$M/sessions/$id/lines"
	equal "$n" "$(cat "$M/sessions/$id/lines" | wc -l)"
	equal "$(dd if="$M/sessions/$id/lines" bs=7 status=none | sha256sum)" "$(cat "$M/sessions/$id/lines" | sha256sum)"
	equal "$(less "$M/sessions/$id/lines" | sha256sum)" "$(cat "$M/sessions/$id/lines" | sha256sum)"
	# To an offset that nobody has read up to it does not go.
	run -1 dd if="$M/sessions/$id/lines" bs=1000 skip=2 count=1 status=none
	like "$output" 'Illegal seek'
}

@test "an exit code goes from wait into the shell" {
	local id

	id=$(later one two 7)
	run -7 bash -c 'exit "$(cat "$0")"' "$M/sessions/$id/wait"
	read -r id < "$M/sessions/$id/wait"
	equal "$id" 7
}

@test "busybox reads everything" {
	local id

	need busybox
	equal "$(ends busybox cat "$M/sessions/$(later one two)/follow")" $'one\ntwo'
	equal "$(ends busybox cat "$M/sessions/$(later one two)/lines" | wc -l)" 2
	equal "$(ends busybox cat "$M/sessions/$(later one two 9)/wait")" 9
	id=$(later one two 9)
	ends busybox cat "$M/sessions/$id/wait" > "$BATS_TEST_TMPDIR/code"
	equal "$(cat "$BATS_TEST_TMPDIR/code")" 9
	ends busybox cp "$M/sessions/$(later one two)/follow" "$BATS_TEST_TMPDIR/followed"
	equal "$(cat "$BATS_TEST_TMPDIR/followed")" $'one\ntwo'
	equal "$(ends busybox cat "$M/sessions/$RUNS/state")" running
	equal "$(ends busybox cat "$M/sessions/$DONE/exit_code")" 0
	equal "$(ends busybox cat "$M/sessions/$DONE/log" | wc -l)" 2001
	equal "$(ends busybox cat "$M/sessions/$DONE/stdout" | busybox md5sum)" \
		"$(seq -f 'line %g' 2000 | busybox md5sum)"
	equal "$(ends busybox cat "$M/executors/local/start" | jq -r .handle.executor_id)" local
	equal "$(ends busybox head -n 1 "$M/README")" "$(head -n 1 "$M/README")"
	equal "$(ends busybox wc -c < "$M/README")" "$(stat -c %s "$M/README")"
	equal "$(ends busybox tail -n 1 "$M/sessions/$DONE/stdout")" 'line 2000'
	# busybox grep -r follows links, here to what has ended.
	equal "$(ends busybox grep -r needle "$M/sessions/$DONE/" | grep -c /stderr:)" 1
	ends busybox find "$M" > "$BATS_TEST_TMPDIR/found"
	equal "$(sort "$BATS_TEST_TMPDIR/found")" "$(find "$M" | sort)"
	ends busybox ls -laR "$M" > /dev/null
	ends busybox du "$M" > /dev/null
	ends busybox tar -cf "$BATS_TEST_TMPDIR/tree.tar" "$M/sessions" 2> /dev/null
	ends busybox cp -r "$M/sessions" "$BATS_TEST_TMPDIR/copy"
	equal "$(cat "$BATS_TEST_TMPDIR/copy/$DONE/stderr")" needle
	id=$(later one two)
	busybox tail -f "$M/sessions/$id/log" > "$BATS_TEST_TMPDIR/seen" 3>&- &
	eventually tail_shows "$BATS_TEST_TMPDIR/seen" $'one\ntwo'
	kill $!
}

@test "the last answer can be read with whatever reads" {
	start "$(spec /bin/true)"
	for reader in cat 'head -c 65536' 'dd status=none bs=10 if=/dev/stdin' 'grep .' 'jq -c .' 'tee' 'tail -n 1'; do
		# shellcheck disable=SC2086
		equal "$($reader < "$M/executors/local/start" | jq -r .handle.executor_id)" local || fail "$reader"
	done
}

@test "perl finds directories without counting links" {
	need perl
	equal "$(perl -MFile::Find -e '$File::Find::dont_use_nlink = 0;
		find(sub { print "$_\n" if -d && $_ eq "local" }, $ARGV[0])' "$M")" local
}

@test "access(2) and the shell's tests tell what an open would" {
	[[ -r $M/status && ! -x $M/status && -d $M/sessions && -L $M/default && -w $M/executors/local/start ]]
	[[ -e $M/sessions/$DONE/wait && ! -e $M/sessions/nobody ]]
	[[ $M/sessions/$DONE/log -nt $M/version ]]
	if ((EUID == 0)); then
		as mallory test -r "$M/status"
		run -1 as mallory test -r "$M/executors/local/start"
		run -1 as mallory test -w "$M/default_id"
		run -1 as alice test -w "$M/executors"
		as carol test -w "$M/executors"
	fi
}

@test "the hub stops and leaves nothing" {
	hub_end
}
