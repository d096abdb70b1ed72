# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shell functions that every set-up script shares: where things are, how to
# say something, how to fail. Source it; it runs nothing. Put here only what
# at least two scripts need.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$top/build
cache=${RNIC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rnic}

# The guest's Debian release: sources, image and build root are all of it.
# (Scripts that source this file use it.)
# shellcheck disable=SC2034
guest_suite=trixie

. "$top/scripts/progress.sh"

say() {
	printf '%s: %s\n' "${0##*/}" "$*"
}

die() {
	printf '%s: error: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# lock NAME: hold one of the clone's locks until the script ends, so that two
# makes at once do not build the same thing over each other.
lock() {
	mkdir -p "$build/lock"
	exec 9>"$build/lock/$1"
	if ! flock -n 9; then
		say "waiting for another build of $1 to end"
		flock 9
	fi
}

# cache_lock NAME: the same for what all clones of this user share.
cache_lock() {
	mkdir -p "$cache/lock"
	exec 8>"$cache/lock/$1"
	if ! flock -n 8; then
		say "waiting for another build of $1 to end"
		flock 8
	fi
}

jobs() {
	echo "${RNIC_JOBS:-$(nproc)}"
}

# test_patience: RNIC_TEST_PATIENCE for vm-run, which takes an integer.
test_patience() {
	awk -v of="${RNIC_TEST_PATIENCE:-1}" 'BEGIN { print int(of) + (of > int(of)) }'
}

# changed STAMP FILE...: is STAMP missing or older than a FILE (or a file in
# the directory FILE)?
changed() {
	local stamp=$1
	shift
	[ -e "$stamp" ] || return 0
	[ -n "$(find -L "$@" -newer "$stamp" -print -quit 2>/dev/null)" ]
}

# index_modules ROOT KERNEL: depmod for the modules in ROOT/usr/lib/modules.
# kmod looks below lib or below usr/lib, as its distribution configured it.
index_modules() {
	/sbin/depmod -b "$1/usr" "$2" 2>/dev/null || /sbin/depmod -b "$1" "$2"
}
