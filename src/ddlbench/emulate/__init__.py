"""`ddlbench emulate`: any command, once in each of some emulated hosts, on a link that is verified before and after."""
