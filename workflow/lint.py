"""`snakemake --lint`, less what does not hold here. Snakemake itself has no means to say so.

Exit status 1 if the linter has anything else to say.
"""

import re
import subprocess
import sys

ACCEPTED = {
    "Specify a conda environment or container for each rule.": "one locked environment, .venv, is for all rules; "
    "frameworks have locked environments and images of their own, which are inputs of the rules that need them",
}
_LINT = re.compile(r"^    \* (?P<title>.*):$", re.MULTILINE)


def main() -> int:
    """Run the linter in the working directory and print what it says if any of that is not accepted."""
    answer = subprocess.run([sys.executable, "-m", "snakemake", "--lint"], capture_output=True, text=True)
    output = answer.stdout + answer.stderr
    titles = [found["title"] for found in _LINT.finditer(output)]
    unexpected = sorted({title for title in titles if title not in ACCEPTED})
    if unexpected or (answer.returncode and not titles):
        print(output, *unexpected, sep="\n", file=sys.stderr)
        return 1
    for title in sorted(set(titles)):
        print(f"accepted ({titles.count(title)} times): {title} Because: {ACCEPTED[title]}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
