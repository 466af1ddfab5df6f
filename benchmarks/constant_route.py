"""A FastAPI route that returns a constant, served as plainly as uvicorn can: the peer of benchmarks/api.py.

python -m benchmarks.constant_route        (prints its address)
"""

import socket

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.get("/recommend")
async def constant() -> dict[str, int]:
    return {"workers": 4}


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])
