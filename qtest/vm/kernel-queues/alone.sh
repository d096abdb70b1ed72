# SPDX-License-Identifier: GPL-2.0-or-later
#
# A kernel module has the largest queues that the adapter offers, and uses them from
# end to end; the interrupts of completions are spread over the processors.

. /usr/lib/rnic/lib.sh

# spread: the processors of the completion vectors, one a line, by their hints.
spread() {
	for irq in $(sed -n 's/^ *\([0-9]*\):.* rnic-[0-9a-f:.]*-[2-9]$/\1/p' \
		/proc/interrupts); do
		cat "/proc/irq/$irq/smp_affinity_list"
		grep -qvx '[0,]*' "/proc/irq/$irq/affinity_hint" || echo "no hint"
	done
}

processors=$(nproc)
cat /proc/interrupts
[ "$(spread | sort | uniq | wc -l)-$(spread | wc -l)" = \
	"$processors-$processors" ] || fail "not one vector a processor: $(spread)"

say "maxima at $(now)"
modprobe kverbs_self maxima=1 || fail "kverbs_self: $(dmesg | tail -n 5)"
say "used at $(now): $(dmesg | tail -n 1)"
rmmod kverbs_self || fail "kverbs_self does not go away"
eventually 30 nothing_left || fail "$(objects_left)"

shows_driver V8.1.3.2-10
