#!/bin/bash
# Runs every test there is, and says how it went in its last line: `N passed, N failed`.
#
#	contrib/test.sh [--quick | --long]
#
# To be run as root on Debian bookworm; installs what the tests need. Everything is built and run in
# a directory of its own, with its own /tmp, in mount and pid namespaces of its own: what a test leaves
# behind there is found at the end, and counted as a failure.
#
#	--quick  only the build that people use, and its tests
#	--long   also the long forms: CLOOP_LONG=1 for every test
#
# Exit status: 0 when nothing failed and not fewer tests ran than tests/expected says.
set -u

readonly packages_test=(
	bats
	bsdextrautils # col
	busybox-static
	clang
	clang-tidy
	codespell
	conmon
	cppcheck
	dash
	diffutils
	fio
	fish
	git
	inotify-tools
	jq
	less
	libclang-rt-dev # what clang's sanitizers and fuzzers link
	libcmocka-dev
	mandoc
	mount
	netavark
	passwd # useradd
	perl
	podman
	procps
	python3
	rsync
	runc
	shellcheck
	stress-ng
	systemd # systemd-analyze; nothing is started
	util-linux
	zsh
)

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit
# shellcheck source=contrib/packages.sh
. "$source_dir/contrib/packages.sh"

die() {
	printf 'test.sh: %s\n' "$*" >&2
	exit 1
}

usage() {
	die "usage: contrib/test.sh [--quick | --long]"
}

# --- what happened --------------------------------------------------------------------------------

passed=0 failed=0 skipped=0

say() {
	printf '%s\n' "$*"
}

stage() {
	printf '[%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"
}

# report KIND FILE: counts the results in a file (see tests/report.py), shows what failed.
report() {
	local text p f s
	text=$("$source_dir/tests/report.py" "$1" "$2") || text+=$'\n0 1 0'
	read -r p f s <<<"${text##*$'\n'}"
	[[ $text == *$'\n'* ]] && say "${text%$'\n'*}"
	say "   $p passed, $f failed, $s skipped"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# check NAME COMMAND...: one test that is a command; its output is shown when it fails.
check() {
	local name=$1 output
	shift
	if output=$("$@" 2>&1); then
		passed=$((passed + 1))
		return 0
	fi
	failed=$((failed + 1))
	say "   FAILED: $name"
	printf '%s\n' "$output" | tail -n 200 | sed 's/^/   | /'
	return 1
}

# --- builds ---------------------------------------------------------------------------------------

# build NAME [MESON-OPTION...]: configures and compiles $builds/NAME with $CC. One test.
build() {
	local dir=$builds/$1
	stage "building: $1"
	shift
	check "build ${dir##*/}" build_in "$dir" "$@"
}

build_in() {
	local dir=$1
	shift
	meson setup "$dir" "$source_dir" -Dwerror=true "$@" && ninja -C "$dir"
}

# run_tests NAME [MESON-TEST-OPTION...]: runs the tests of a build, by way of the command ${prefix[@]}.
prefix=()
run_tests() {
	local dir=$builds/$1
	stage "testing: $1"
	shift
	[[ -f $dir/build.ninja ]] || return
	rm -f "$dir/meson-logs/testlog.json"
	(cd "$dir" && "${prefix[@]}" meson test --no-rebuild "$@") >"$dir/test-output" 2>&1
	if [[ -f $dir/meson-logs/testlog.json ]]; then
		report meson "$dir/meson-logs/testlog.json"
	elif [[ -f $dir/meson-logs/benchmarklog.json ]]; then
		report meson "$dir/meson-logs/benchmarklog.json"
	else
		check "tests of ${dir##*/} can be run" cat_and_fail "$dir/test-output"
	fi
}

cat_and_fail() {
	cat "$1"
	return 1
}

sanitizers() {
	export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99:detect_stack_use_after_return=1
	export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:exitcode=99
	build sanitizers -Dtest_hooks=true -Db_sanitize=address,undefined &&
		run_tests sanitizers --timeout-multiplier 4
	unset ASAN_OPTIONS UBSAN_OPTIONS
}

# Where threads meet: the store's writer and the loop.
threads() {
	local prefix=()
	# Older runtimes do not find their way in an address space that is spread too far.
	! setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null ||
		prefix=(setarch "$(uname -m)" --addr-no-randomize)
	export TSAN_OPTIONS=halt_on_error=1:exitcode=99:second_deadlock_stack=1
	if build threads -Dtest_hooks=true -Db_sanitize=thread; then
		run_tests threads --timeout-multiplier 4 store store_fault store_open event session fleet dispatch
	fi
	unset TSAN_OPTIONS
}

# Each parser of foreign bytes, on from its corpus: always the same way, or with --long anew each time.
fuzzers() {
	local target name how=(-seed=1 -runs=20000)
	[[ $mode != long ]] || how=(-max_total_time=1800)
	build fuzzers -Dfuzzers=true -Db_sanitize=address,undefined -Db_lundef=false || return
	stage "fuzzing"
	for target in "$builds"/fuzzers/tests/fuzz/fuzz-*; do
		[[ -x $target && -f $target ]] || continue
		name=${target##*/fuzz-}
		mkdir "$builds/found-$name"
		check "fuzz $name" env -C "$builds/found-$name" "$target" "${how[@]}" -timeout=60 \
			-print_final_stats=1 "$builds/found-$name" "$source_dir/tests/fuzz/corpus/$name"
	done
}

# What takes long: figures, and a store with a million sessions.
benchmarks() {
	run_tests gcc --benchmark
	sed 's/^/   | /' "$builds/gcc/test-output"
}

static_checks() {
	stage "static checks"
	BUILD=$builds/clang bats --tap "$source_dir/tests/static" >"$builds/static.tap" 2>&1
	report tap "$builds/static.tap"
}

# --- in the namespaces ----------------------------------------------------------------------------

# Everything runs here: as the first process of its own pid namespace, with its own /tmp.
inside() {
	builds=$work/builds
	mkdir "$builds" || exit
	mount_list >"$work/mounts.before"
	trap 'exit 130' INT
	trap 'exit 143' TERM

	CC=gcc build gcc && run_tests gcc
	if [[ $mode != quick ]]; then
		CC=clang build clang
		CC=gcc sanitizers
		CC=gcc threads
		CC=clang fuzzers
		static_checks
	fi
	[[ $mode != long ]] || benchmarks

	stage "what is left"
	check "no process is left" nothing_runs
	check "no mount is left" nothing_is_mounted
	check "no temporary file is left" nothing_in_tmp
	printf '%d %d %d\n' "$passed" "$failed" "$skipped" >"$work/result"
}

mount_list() {
	awk '{print $5, $3}' /proc/self/mountinfo | sort
}

# Daemons that were told to end may need a moment.
nothing_runs() {
	local i
	for ((i = 0; i < 100; i++)); do
		[[ -z $(others) ]] && return 0
		sleep 0.1
	done
	others
	return 1
}

# Every process of the namespace but this shell and what it is made of right now.
others() (
	self=$BASHPID
	ps -e -o pid=,ppid=,stat=,args= | awk -v self="$self" '
		{ parent[$1] = $2; line[$1] = $0; zombie[$1] = $3 ~ /^Z/ }
		END {
			for (p = self; p > 0; p = parent[p])
				own[p] = 1
			for (p in line)
				if (!own[p] && !zombie[p] && parent[p] != self)
					print line[p]
		}'
)

nothing_is_mounted() {
	mount_list | diff "$work/mounts.before" -
}

nothing_in_tmp() {
	local left
	left=$(find /tmp -mindepth 1 -maxdepth 1)
	[[ -z $left ]] || {
		find /tmp -mindepth 1 | head -n 50
		return 1
	}
}

# --- around them ----------------------------------------------------------------------------------

# Control groups of ours that nobody uses: no launcher has them open, nothing runs in them.
idle_cgroups() {
	local dir
	find /sys/fs/cgroup -mindepth 2 -maxdepth 4 -type d -path '*/cloop/*' 2>/dev/null | sort |
		while read -r dir; do
			held "$dir" || printf '%s\n' "$dir"
		done
}

held() {
	find /proc/[0-9]*/fd -lname "$1" 2>/dev/null | grep -q .
}

host_state() {
	idle_cgroups
	ls -d /cloop /etc/cloop /run/cloop /var/lib/cloop /usr/local/sbin/cloopd 2>/dev/null
	grep -E '^cloop(-admin)?:' /etc/group
	git -C "$source_dir" status --porcelain 2>/dev/null
}

nothing_on_host() {
	host_state | diff "$work/host.before" -
}

finish() {
	local expected=0 ran
	read -r passed failed skipped <"$work/result" 2>/dev/null || {
		say "   FAILED: the tests did not come to their end"
		passed=0 failed=1 skipped=0
	}
	check "the host is as it was" nothing_on_host
	ran=$((passed + failed))
	expected=$(awk -v mode="$mode" '$1 == mode {print $2}' "$source_dir/tests/expected")
	if ((ran < expected)); then
		say "   FAILED: $ran tests ran, $expected were expected"
		failed=$((failed + 1))
	elif ((ran > expected)); then
		say "   note: $ran tests ran; let tests/expected say so ($mode $ran)"
	fi
	if ((skipped > 0)); then
		say "$passed passed, $failed failed, $skipped skipped"
	else
		say "$passed passed, $failed failed"
	fi
	((failed == 0))
}

# The namespaces die with their first process, and that one with unshare.
abandon() {
	trap - EXIT INT TERM HUP
	say "interrupted"
	[[ -z $namespace ]] || kill -9 "$namespace" 2>/dev/null
	wait
	rm -rf "$work"
	exit "$1"
}

main() {
	mode=full work='' namespace=''
	case ${1-} in
	'') ;;
	--quick) mode=quick ;;
	--long) mode=long ;;
	*) usage ;;
	esac
	(($# <= 1)) || usage
	((EUID == 0)) || die "run this as root: it installs packages, mounts, and tests as several users"
	[[ -c /dev/fuse ]] || die "/dev/fuse is missing: run 'modprobe fuse', or give the container the device"

	stage "packages"
	packages_install "${packages_build[@]}" "${packages_test[@]}" ||
		die "the packages could not be installed: $(packages_explain)"
	# Not below /tmp, which the tests see another one of.
	work=$(mktemp -d /var/tmp/cloop-test.XXXXXX) || exit
	trap 'abandon 130' INT
	trap 'abandon 143' TERM
	trap 'abandon 129' HUP
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work"
	mkdir -m 1777 "$work/tmp" || exit
	host_state >"$work/host.before"

	export TMPDIR=/tmp CLOOP_LONG=0 PYTHONDONTWRITEBYTECODE=1
	[[ $mode != long ]] || CLOOP_LONG=1
	unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
		"${BASH_SOURCE[0]}" --inside "$mode" "$work" </dev/null &
	namespace=$!
	wait "$namespace"
	namespace=''
	finish
}

if [[ ${1-} == --inside ]]; then
	mode=$2 work=$3
	# The clone may be below the /tmp that is hidden; no test writes to it.
	mkdir "$work/source" && mount --bind "$source_dir" "$work/source" &&
		mount -o remount,bind,ro "$work/source" && mount --bind "$work/tmp" /tmp || exit
	source_dir=$work/source
	cd "$work" || exit
	inside
else
	main "$@"
fi
