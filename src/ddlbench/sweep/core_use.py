"""Who used the cores while a repetition trained: its workers, others, and each host against its share."""

from dataclasses import asdict
from typing import Any

from ddlbench.environments.materials import BARE
from ddlbench.hosts.group_on_hosts import GroupOnHosts
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.shares.bursts import warning
from ddlbench.shares.kept import ShareWatch
from ddlbench.sweep.progress import Progress
from ddlbench.sweep.session_job import SessionJob
from ddlbench.sweep.undisturbed import patience_s
from ddlbench.telemetry.other_load import LoadWatch, wait_for_others
from ddlbench.telemetry.waiting import Waiting

NOT_KNOWN: dict[str, Any] = {"scheduling": None, "delaying": None, "others": None, "kept": None}


class CoreUse:
    """Watches a group on this machine from now on.

    What others take and what each host gets is not known where members are in containers.

    Args:
        group: its members run.
    """

    def __init__(self, group: GroupOnHosts) -> None:
        hosts, pids = group.hosts.hosts, group.group.pids()
        self._waiting = Waiting(pids)
        self._delaying = Waiting(group.hosts.star.backend.pids if group.hosts.star else ())
        self._others: LoadWatch | None = None
        self._shares: ShareWatch | None = None
        if group.runtime != BARE:
            return
        of_hosts: list[list[int]] = [[] for _ in hosts]
        for member, pid in zip(group.members, pids, strict=True):
            of_hosts[member.host].append(pid)
        self._others = LoadWatch()
        self._shares = ShareWatch(hosts, of_hosts, [group.fillers.pids(host.name) for host in hosts])

    def since_start(self) -> dict[str, Any]:
        """Say who used them since then.

        Returns:
            Of a record `scheduling` (of each member, as of `Waiting`), `delaying` (the same of processes that handle
            the links' packets), `others` (an `OtherLoad`) and `kept` (a `Kept` for each host); None: that is not known.
        """
        kept = self._shares and self._shares.since_start()
        of_members = self._waiting.since_start()
        others = self._others and self._others.since_start()
        return {
            "scheduling": of_members,
            "delaying": self._delaying.since_start(),
            "others": others and asdict(others),
            "kept": kept and [asdict(each) for each in kept],
        }


def check_shares(job: SessionJob, group: GroupOnHosts, progress: Progress) -> None:
    """Say so if hosts do not get their shares.

    Where others may be waited for, the shares are measured again when these leave the cores alone.

    Args:
        job: of the session.
        group: on its hosts; it has nothing to do.
        progress: prints it.

    Raises:
        DdlbenchError: a process could not be started, or not in time.
    """
    hosts, most_percent = group.hosts.hosts, job.tolerances.share_percent
    wait_s = patience_s(job.other_measurements)
    if wait_s and group.can_time_bursts and warning(hosts, group.burst_percent, most_percent):
        wait_for_others(wait_s, job.tolerances.others_percent)
        group.time_bursts()
    if said := warning(hosts, group.burst_percent, most_percent):
        progress.print_line(said)


def shares_of(group: GroupOnHosts, tolerances: Tolerances) -> dict[str, Any]:
    """Say what was found of the hosts' shares before the run.

    Args:
        group: on its hosts.
        tolerances: how far a share may be off.

    Returns:
        Of a record `divided_between`, `burst_percent` (both as of `GroupOnHosts`) and `shares_hold`: whether bursts got
        their hosts' shares. None: no host shares its core, or that is not known.
    """
    known = [each for each in group.burst_percent if each is not None]
    hold = all(abs(each - 100) <= tolerances.share_percent for each in known) if known else None
    return {
        "divided_between": group.divided_between,
        "burst_percent": group.burst_percent,
        "shares_hold": hold,
    }
