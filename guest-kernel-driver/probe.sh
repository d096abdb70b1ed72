#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# probe.sh DIR COMPILER FLAGS...: prints rnic-config.h, with
# "#define RNIC_HAVE_NAME 1" for each DIR/name.c that compiles. Version numbers
# would not do: distributions' kernels have parts of newer ones.

dir=$1
shift

compiles() {
	"$@" -Werror=incompatible-pointer-types \
		-Werror=implicit-function-declaration -fsyntax-only "$source"
}

# If this does not compile, that the others do not says nothing.
source=$dir/always.c
compiles "$@" >&2 || exit

echo '/* Made by probe.sh. */'
for source in "$dir"/*.c; do
	name=$(basename "$source" .c | tr 'a-z-' 'A-Z_')
	if compiles "$@" 2>/dev/null; then
		echo "#define RNIC_HAVE_$name 1"
	fi
done
