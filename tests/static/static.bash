# What the checks of files share. $BUILD is a build directory of clang with compile_commands.json.

ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

# files [PATTERN...]: those that belong to the project, relative to its top.
files() {
	git -c safe.directory="$ROOT" -C "$ROOT" ls-files -- "$@"
}

# c_files DIR...: the C sources below, absolute.
c_files() {
	local dir
	for dir; do
		files "$dir/*.c" "$dir/*.h"
	done | sed "s,^,$ROOT/,"
}

# nothing: what comes in on stdin is what is wrong; there must be none.
nothing() {
	! grep .
}

cpus() {
	getconf _NPROCESSORS_ONLN
}
