# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shell functions for kernel modules that are compiled out of tree, in the build
# root: for build-driver and build-modules. Source it after lib.sh, and set src
# (where a module's sources are) and out (where it is compiled).

# A SUITE below is a Debian release, or the guest's followed by -kernel: that is
# the debug kernel (build-debug-kernel).

# suite_of_kernel NAME: for an option --kernel NAME.
suite_of_kernel() {
	case $1 in
	debian) echo "$guest_suite" ;;
	debug) echo "$guest_suite-kernel" ;;
	*) die "unknown kernel $1 (debian or debug)" ;;
	esac
}

# output_of NAME SUITE: where NAME is compiled for the kernel of SUITE.
output_of() {
	case $2 in
	"$guest_suite") echo "$build/$1" ;;
	*-kernel) echo "$build/$1-debug" ;;
	*) echo "$build/$1-$2" ;;
	esac
}

# kernel_headers SUITE: those of its kernel, inside the build root.
kernel_headers() {
	case $1 in
	*-kernel)
		echo "$("$top/scripts/build-debug-kernel")/linux"
		return
		;;
	esac
	"$top/scripts/in-buildroot" --suite "$1" \
		sh -c 'ls -d /usr/src/linux-headers-*-amd64 | sort -V | tail -n 1'
}

# Kbuild writes beside the sources: give it a directory of links to them.
link_sources() {
	mkdir -p "$out"
	find "$out" -type l ! -exec test -e {} \; -delete
	(cd "$src" && find . -type f \( -name '*.[ch]' -o -name Kbuild \
		-o -name Makefile -o -name '*.sh' -o -name 'Kconfig' \) -print) |
		while read -r file; do
			mkdir -p "$out/$(dirname "$file")"
			ln -sfn "$src/$file" "$out/$file"
		done
}

# kernel_name HEADERS
kernel_name() {
	case $1 in
	*/linux-headers-*) echo "Linux ${1##*/linux-headers-}" ;;
	*) echo "the debug kernel" ;;
	esac
}

# kbuild SUITE HEADERS [ARGUMENT...]
kbuild() {
	local suite=$1 headers=$2 binds=()
	# Debian's headers set CC themselves; this variable puts ccache in front.
	local with_ccache=DEBIAN_KERNEL_USE_CCACHE=yes
	shift 2
	case $suite in
	*-kernel)
		binds=(--bind "$headers")
		with_ccache=CC="ccache gcc"
		;;
	esac
	"$top/scripts/in-buildroot" --suite "$suite" ${binds[@]+"${binds[@]}"} \
		make -C "$headers" M="$out" -j "$(jobs)" "$with_ccache" "$@" modules
}

# run_sparse SUITE HEADERS
run_sparse() {
	local log
	log=$build/log/$(basename "$out")-sparse.log
	kbuild "$1" "$2" C=2 CHECK=sparse W=1 >"$log" 2>&1 ||
		{ tail -n 25 "$log"; die "sparse run failed"; }
	if grep -E 'warning:|error:' "$log"; then
		die "sparse found something (see $log)"
	fi
	say "sparse: nothing found in ${src#"$top"/}"
}

# With --strict: warnings and checks are as bad as errors.
run_checkpatch() {
	local files log
	log=$build/log/$(basename "$out")-checkpatch.log
	files=$(cd "$src" && find . -name '*.[ch]' | sort)
	# shellcheck disable=SC2086 # a list of words on purpose
	(cd "$src" && "$top/scripts/in-buildroot" \
		perl /usr/src/linux-parts/scripts/checkpatch.pl --no-tree --strict \
		--quiet --terse --show-types --color=never -f $files) \
		>"$log" 2>&1 || {
		grep -v '^total: 0 errors, 0 warnings, 0 checks' "$log"
		die "checkpatch found something (see $log)"
	}
	say "checkpatch: nothing found in ${src#"$top"/}"
}
