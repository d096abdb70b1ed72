# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# How waiting looks. progress LABEL LOG COMMAND... runs a long COMMAND (or shell
# function) quietly: its output goes to LOG; every few seconds one line tells
# that it lives and how far it is; if it fails, the end of LOG is shown and the
# status returned. Sourced by lib.sh.

progress_interval=5

# The last [done/total] of ninja, or the end of the last line of the log.
progress_position() {
	local last
	last=$(tail -c 400 "$1" 2>/dev/null | tr '\r' '\n' | grep . | tail -n 1)
	case $last in
	\[*/*\]*) last=${last%%]*}; echo "${last#[}" ;;
	*) echo "${last:0:60}" ;;
	esac
}

progress_watch() {
	local label=$1 log=$2 pid=$3 start=$SECONDS shown=$SECONDS
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		[ $((SECONDS - shown)) -ge $progress_interval ] || continue
		shown=$SECONDS
		echo "  $label ... $((SECONDS - start)) s: $(progress_position "$log")"
	done
	[ $((SECONDS - start)) -lt $progress_interval ] ||
		echo "  $label: ended after $((SECONDS - start)) s"
}

progress() {
	local label=$1 log=$2 pid rc=0
	shift 2
	mkdir -p "$(dirname "$log")"
	"$@" >"$log" 2>&1 &
	pid=$!
	# shellcheck disable=SC2064 # this pid
	trap "kill $pid 2>/dev/null; wait $pid; exit 130" INT TERM HUP
	progress_watch "$label" "$log" "$pid"
	wait "$pid" || rc=$?
	trap - INT TERM HUP
	[ $rc -eq 0 ] && return
	tail -n 25 "$log" >&2
	echo "$label: error: failed (status $rc); all its output is in $log" >&2
	return $rc
}
