# SPDX-License-Identifier: GPL-2.0-or-later
#
# awk -v seed=N -v count=N -f random-rules.awk: so many random rules, one to a line,
# as lie.sh.inc takes them. An admin command whose answer is lost, or has another
# command's number, costs the driver's patience of 30 seconds: those are left out.

function below(n)
{
	return int(rand() * n)
}

function one_of(list,	words)
{
	return words[1 + below(split(list, words, " "))]
}

function event()
{
	return one_of("completion completion completion completion " \
		      "completion-event connection-event connection-event " \
		      "async-event admin admin interrupt register")
}

function action(on)
{
	if (rand() < 0.04)
		return one_of("fatal vanish")
	if (on == "admin")
		return one_of("status late repeat forge forge")
	if (on == "interrupt")
		return one_of("lose repeat")
	if (on == "register")
		return "forge"
	return one_of("lose repeat forge forge forge")
}

function octets(on)
{
	if (on == "completion")
		return 32
	if (on == "completion-event")
		return 12
	return on == "register" ? 8 : 60
}

function value()
{
	return one_of("0 1 2 3 7 64 255 65535 0xffffff 0x7fffffff 0x80000000 " \
		      "0xffffffff 0xffffffffffffffff @initiator @target " \
		      "@program @cq") 
}

function forgery(on,	size, first)
{
	size = one_of("1 2 4 8")
	first = on == "admin" ? 2 : 0
	return " offset=" (first + below(octets(on) - size - first + 1)) \
	       " size=" size " value=" value()
}

# The driver reads STATUS all the time, and little else after its start.
function choice(on)
{
	if (on == "register")
		return " object=" one_of("0x24 0x24 0x2c 0x0c 0x38")
	if (on == "completion" && rand() < 0.7)
		return " object=" one_of("@initiator @target @program")
	return ""
}

function rule(	on, what)
{
	on = event()
	what = action(on)
	printf "on=%s%s nth=%d times=%d do=%s", on, choice(on),
	       1 + below(on == "completion" ? 30 : 3), 1 + below(3), what
	if (what == "status")
		printf " status=%d", 1 + below(80)
	else if (what == "late")
		printf " delay-ms=%d", 1 + below(2000)
	else if (what == "forge")
		printf "%s", forgery(on)
	print ""
}

BEGIN {
	srand(seed)
	for (i = 0; i < count; i++)
		rule()
}
