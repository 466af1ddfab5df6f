"""How a call of Snakemake ends by Ctrl-C."""

import signal
import subprocess
import sys

CALL = """
import sys
from ddlbench.runs.ending import end_quietly
end_quietly(lambda: "nothing is kept", lambda: "jobs are left", lambda: "")
print("ready", flush=True)
sys.stdin.read()  # ends with the test, however that ends
"""


def ended(*, is_read: bool) -> tuple[int, str]:
    """The exit status of a call that gets Ctrl-C, and what it says; `is_read`: somebody reads that."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", CALL], text=True, **pipes) as call:
        assert call.stdout
        assert call.stderr
        try:
            assert call.stdout.readline() == "ready\n"
            if not is_read:
                call.stderr.close()
            call.send_signal(signal.SIGINT)
            status = call.wait(60)
            return status, call.stderr.read() if is_read else ""
        finally:
            call.kill()


def test_ctrl_c_ends_a_call_and_says_what_is_kept_and_what_is_left():
    said = "\nEnded by Ctrl-C: nothing is kept. The same command goes on from there.\njobs are left"
    assert ended(is_read=True) == (130, said)


def test_ctrl_c_ends_a_call_too_whose_output_nobody_reads_any_more():
    """As in `make run | tee log`, where Ctrl-C ends `tee` first."""
    assert ended(is_read=False) == (130, "")
