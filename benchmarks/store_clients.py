"""Many clients of one store of c10d's protocol, over real sockets: each sets a key, gets the key of the next client, and passes
a barrier of all. One thread and raw bytes, so that the store is what takes the time; the same bytes go to every store.

usage: store_clients.py PORT CLIENTS
Prints the seconds from the first connection until the last client has passed the barrier, as JSON.
"""
import errno
import json
import resource
import select
import socket
import struct
import sys
import time

VALIDATE, SET, GET, ADD, WAIT, PING = 0, 1, 3, 4, 6, 13
MAGIC, NONCE = 0x3C85F7CE, 77
AT_ONCE = 256  # Connections under way: a backlog is finite.
LIMIT_SECONDS = 600


def text(value):
    return struct.pack("<Q", len(value)) + value


def key(number):
    return text(b"/client/%d" % number)


class Client:
    """A client that waits for `expected` bytes, then takes its next step."""

    def __init__(self, port, number, clients):
        self.number, self.next, self.clients, self.received = number, (number + 1) % clients, clients, b""
        self.steps = self.take_steps()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self.socket.connect_ex(("127.0.0.1", port))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "connecting failed")
        self.is_connected = False

    def take_steps(self):
        """Sends, and yields how many bytes of answers are needed."""
        self.socket.send(bytes([VALIDATE]) + struct.pack("<I", MAGIC) + bytes([PING]) + struct.pack("<I", NONCE)
                         + bytes([SET]) + key(self.number) + text(b"value %d" % self.number)
                         + bytes([WAIT]) + struct.pack("<Q", 1) + key(self.next))
        answer = yield 5
        if struct.unpack("<I", answer[:4])[0] != NONCE or answer[4] != 0:
            raise ValueError("what answers is no store")
        self.socket.send(bytes([GET]) + key(self.next))
        value = b"value %d" % self.next
        if (yield 8 + len(value)) != text(value):
            raise ValueError("another value")
        self.socket.send(bytes([ADD]) + text(b"/barrier") + struct.pack("<q", 1))
        if struct.unpack("<q", (yield 8))[0] == self.clients:
            self.socket.send(bytes([SET]) + text(b"/all") + text(b"1"))
        self.socket.send(bytes([WAIT]) + struct.pack("<Q", 1) + text(b"/all"))
        yield 1

    def begin(self):
        if code := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, "connecting failed")
        self.is_connected = True
        self.expected = next(self.steps)

    def go_on(self):
        """Reads what has come; returns whether this client has passed the barrier."""
        if not (got := self.socket.recv(4096)):
            raise ConnectionError(f"the store closed the connection of client {self.number}")
        self.received += got
        while len(self.received) >= self.expected:
            answer, self.received = self.received[:self.expected], self.received[self.expected:]
            try:
                self.expected = self.steps.send(answer)
            except StopIteration:
                return True
        return False


def run(port, clients):
    poller, there, passed, connecting, begun = select.epoll(), {}, 0, 0, 0
    start = time.monotonic()
    while passed < clients:
        while begun < clients and connecting < AT_ONCE:
            client = Client(port, begun, clients)
            there[client.socket.fileno()] = client
            poller.register(client.socket, select.EPOLLOUT)
            begun, connecting = begun + 1, connecting + 1
        for descriptor, _ in poller.poll(1):
            client = there[descriptor]
            if client.is_connected:
                passed += client.go_on()
                continue
            client.begin()
            connecting -= 1
            poller.modify(descriptor, select.EPOLLIN)
        if time.monotonic() - start > LIMIT_SECONDS:
            raise TimeoutError(f"{passed} of {clients} clients have passed the barrier within {LIMIT_SECONDS} s")
    return time.monotonic() - start


def main():
    port, clients = int(sys.argv[1]), int(sys.argv[2])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if clients + 64 > most:
        sys.exit(f"{clients} clients need as many open files, and {most} are allowed")
    print(json.dumps({"seconds": run(port, clients)}))


if __name__ == "__main__":
    main()
