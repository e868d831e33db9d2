#!/usr/bin/env python3
"""with_busy_port.py PORT COMMAND…: runs the command while somebody listens on 127.0.0.1:PORT."""
import socket
import subprocess
import sys

with socket.socket() as listener:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen()
    sys.exit(subprocess.run(sys.argv[2:]).returncode)
