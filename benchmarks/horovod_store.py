"""The store in which plain Horovod scripts find each other, as horovodrun has it; it ends when its input does.

horovod_store.py ADDRESS PORT
"""

import sys
from threading import Thread

from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer


def main(address: str, port: int) -> None:
    with RendezvousHTTPServer((address, port), RendezvousHandler, verbose=False) as store:
        Thread(target=store.serve_forever, daemon=True).start()
        sys.stdin.read()
        store.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
