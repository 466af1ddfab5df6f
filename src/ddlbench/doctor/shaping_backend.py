"""Find out which backend shapes links here.

`python -m ddlbench.doctor.shaping_backend` is the first process of a sandbox; it prints the backend's name.
"""

from ddlbench.errors import exit_on_error
from ddlbench.network.link import Link
from ddlbench.network.star import Star

_HOSTS = ["10.66.0.1", "10.66.0.2"]
_LINK = Link(100, latency_ms=1, loss_percent=0.1)


def main() -> None:
    """Make two hosts, shape their links, and print the backend's name."""
    with exit_on_error(), Star(_HOSTS, congestion_control="cubic") as star:
        star.shape(_LINK)
        print(star.backend.name)


if __name__ == "__main__":
    main()
