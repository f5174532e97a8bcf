# Which Debian packages are needed, and how the missing ones are installed. To be sourced.
# shellcheck shell=bash

# To build and to run.
# shellcheck disable=SC2034 # used by those who source this
packages_build=(
	gcc
	libc6-dev # with libc.a: the launcher is static
	meson
	ninja-build
	pkg-config
	libfuse3-dev
	libgit2-dev
	libjansson-dev
	libsqlite3-dev
	libssl-dev
	libuv1-dev
	fuse3 # fusermount3, for hubs of ordinary users
)

# packages_missing NAME...: prints those that are not installed.
packages_missing() {
	local name
	for name; do
		case $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) in
		installed) ;;
		*) printf '%s\n' "$name" ;;
		esac
	done
}

# packages_install NAME...: installs what is missing, asking nothing. A list of packages that is
# absent or too old for the mirror is fetched again; one that is good enough is left alone.
packages_install() {
	local missing
	mapfile -t missing < <(packages_missing "$@")
	((${#missing[@]} > 0)) || return 0
	echo "installing ${missing[*]}"
	packages_apt install "${missing[@]}" && return
	packages_apt update && packages_apt install "${missing[@]}"
}

# Another apt may be at work (a first boot's upgrades): it is waited for.
packages_apt() {
	local log status
	log=$(mktemp) || return
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
		-o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" >"$log" 2>&1 </dev/null
	status=$?
	((status == 0)) || packages_log=$(tail -n 20 "$log")
	rm -f "$log"
	return "$status"
}

# packages_explain: what apt said last, for those who give up.
packages_explain() {
	printf '%s\n' "${packages_log-}"
}
