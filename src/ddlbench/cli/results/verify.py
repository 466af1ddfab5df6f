"""`ddlbench verify`: check that results still match all that they were made from, and mend what does not."""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.cli.arguments import counted, existing_file
from ddlbench.cli.configuration import add_configuration_options, configuration_of, configuration_words
from ddlbench.errors import ConfigError

if TYPE_CHECKING:
    from ddlbench.measurements.whole_results import Findings
    from ddlbench.plan.config_files import Configuration

SNAKEMAKE = "snakemake --cores all"
ARCHIVE = ".zip"


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `verify` is added.
    """
    parser = commands.add_parser(
        "verify", help="hash all that results were made from again; name what differs, and mend it"
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        type=existing_file,
        nargs="*",
        help="a result, or an archive of `make report` by itself; default: everything below results/",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="set aside what differs, and start Snakemake to make it again; a lost repetition is measured again",
    )
    add_configuration_options(parser)  # whose results to repair
    parser.add_argument(
        "--signers",
        metavar="SIGNERS",
        type=existing_file,
        help="who may have signed the results or the archive (`ddlbench sign`): a name and a public SSH key on each line",
    )
    parser.set_defaults(command=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    """Return 0 if everything matches, else 1."""
    if any(file.suffix == ARCHIVE for file in arguments.files):
        return _verify_archive(arguments)
    if arguments.signers and not _is_signed(arguments.signers):
        return 1
    found = _check(arguments.files)
    _print(found)
    if not arguments.repair or not found.damage:
        return 1 if found.mismatches else 0
    if not _repair(found, configuration_of(arguments), configuration_words(arguments)):
        return 1
    found = _check([Path(name) for name in arguments.files if Path(name).is_file()])
    _print(found)
    return 1 if found.damage else 0


def _verify_archive(arguments: argparse.Namespace) -> int:
    """Check an archive by itself. Code that differs is told; it lies outside of the archive, so it is no damage."""
    from ddlbench.measurements.signature import signer_of
    from ddlbench.report.archive import check_archive

    if len(arguments.files) > 1 or arguments.repair:
        raise ConfigError("an archive is verified by itself, without --repair")
    archive = arguments.files[0]
    if arguments.signers:
        print(f"signed by {signer_of(archive, arguments.signers)}")
    found = check_archive(archive)
    for mismatch in found.damage:
        print(mismatch)
    if len(found.damage) < len(found.mismatches):
        print("note: this version of ddlbench is another one than that which made some of these results")
    count = len(found.damage)
    outcome = f"{count} {'does' if count == 1 else 'do'} not match" if count else "all match"
    print(f"{counted(found.files, 'file')} hashed, {counted(found.results, 'result')} verified, {outcome}")
    return 1 if found.damage else 0


def _is_signed(signers: Path) -> bool:
    """Whether all files are as one of the signers has signed them; says what differs."""
    from ddlbench.measurements.provenance import repository_root
    from ddlbench.measurements.signature import check_signature

    signed = check_signature(repository_root("results") / "results", signers)
    for mismatch in signed.mismatches:
        print(mismatch)
    differ = f"{len(signed.mismatches)} of them differ" if signed.mismatches else "all are as they were then"
    print(f"signed by {signed.signer}: {counted(signed.files, 'file')}, {differ}")
    return not signed.mismatches


def _check(files: Sequence[Path]) -> "Findings":
    from ddlbench.measurements.provenance import repository_root
    from ddlbench.measurements.whole_results import check_all, check_files

    if files:
        return check_files(files)
    results = repository_root("results") / "results"
    found = check_all(results)
    if not found.results:
        raise ConfigError(f"{results} holds no result to verify; draw a figure first, or name a file")
    return found


def _print(found: "Findings") -> None:
    for mismatch in found.mismatches:
        print(mismatch)
        target = found.nearest(mismatch)
        how = (
            f"{SNAKEMAKE} {target} {_options(found.root / target)}".rstrip()
            if target
            else "ddlbench verify --repair  (it is set aside)"
        )
        print(f"    to mend it: {how}")
    count = len(found.mismatches)
    outcome = f"{count} {'does' if count == 1 else 'do'} not match" if count else "all match"
    print(
        f"{counted(len(found.results), 'result')} verified: {counted(found.hashed, 'file')} hashed, {outcome}",
        flush=True,
    )


def _options(result: Path) -> str:
    """The options by which Snakemake reads the configuration that makes a result; none for the default one."""
    from ddlbench.runs.owner import owner_of

    owner = next((owner for folder in result.parents if (owner := owner_of(folder))), None)
    return owner.options() if owner else ""


def _repair(found: "Findings", config: "Configuration", options: Sequence[str]) -> bool:
    """Set aside what is damaged, and have Snakemake make it again; whether everything that was damaged could be."""
    from ddlbench.plan import load
    from ddlbench.runs.mending import made_by_rules, put_away

    plan = load(config, found.root)
    known = made_by_rules(plan)
    targets, strange = [], []
    for mismatch in found.damage:
        made = found.made_from(mismatch) or [mismatch.path]
        targets += [name for name in made if name in known]
        if found.made_from(mismatch) and not any(name in known for name in made):
            strange.append(mismatch.path)
        elif not found.is_of_a_rule(mismatch):  # the rest is set aside when Snakemake starts
            own_results = found.root / plan.settings.own_results
            put_away(mismatch, found.root / mismatch.path, own_results, found.root / plan.settings.store)
    for name in strange:
        print(f"{name}: {config.source(found.root)} makes nothing of this; --configfile names the configuration that does")
    if not targets:
        return not strange
    command = [*SNAKEMAKE.split(), *sorted(set(targets)), *options]
    print("+ " + " ".join(command), flush=True)
    status = subprocess.run([sys.executable, "-m", *command], cwd=found.root).returncode
    return status == 0 and not strange
