# SPDX-License-Identifier: GPL-2.0-or-later
#
# The parts of vm-run, one concept each. vm-run itself says what happens in
# which order.
