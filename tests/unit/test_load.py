"""What processes have used, as the kernel's own clocks count it."""

import os
import signal
import subprocess
import sys

from ddlbench.telemetry.load import Load

# Burns a given CPU time (itself, or a child of it, or a thread), says so, and waits.
BURN = """
import os, sys, threading, time
def burn():
    until = time.thread_time() + 0.2
    while time.thread_time() < until: pass
if sys.argv[1] == "child" and os.fork() == 0:
    burn(); os.write(1, b"x"); time.sleep(60); os._exit(0)
elif sys.argv[1] == "thread":
    thread = threading.Thread(target=burn); thread.start(); thread.join(); os.write(1, b"x")
time.sleep(60)
"""


def used_s(where: str) -> tuple[float, int]:
    process = subprocess.Popen(
        [sys.executable, "-c", BURN, where], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        cpu_ns, memory_bytes = Load([process.pid]).read()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return cpu_ns / 1e9, memory_bytes


def test_what_threads_use_counts():
    assert used_s("thread")[0] >= 0.2


def test_what_children_use_counts():
    cpu_s, memory_bytes = used_s("child")
    assert cpu_s >= 0.2
    assert memory_bytes > 2 * 2**20  # two interpreters


def test_what_has_ended_has_used_what_it_had_used():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    load = Load([process.pid])
    before_ns, memory_bytes = load.read()
    assert memory_bytes > 0
    process.kill()
    process.communicate()
    load.find_children()
    assert load.read() == (before_ns, 0)


def test_a_process_that_never_was_has_used_nothing():
    assert Load([2**22 + 1]).read() == (0, 0)
