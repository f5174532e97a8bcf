#!/bin/sh
# run.sh FILE.bats: a file of tests in a mount namespace of its own, so that whatever it leaves
# mounted goes with it. Prints TAP. $STAND_INS is where the stand-ins were built.
set -eu
skip() {
	echo "1..0 # SKIP $1"
	exit 0
}
[ "$(id -u)" = 0 ] || skip "needs root to mount"
[ -c /dev/fuse ] || skip "needs /dev/fuse"
for tool in bats unshare setpriv fusermount3 python3; do
	command -v "$tool" >/dev/null || skip "needs $tool"
done
exec unshare --mount --propagation private timeout -k 10 900 bats --formatter tap "$1"
