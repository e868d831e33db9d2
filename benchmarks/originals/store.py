"""A store of c10d that waits for clients until its input ends: store.py PORT (libuv | older)."""
import resource
import sys

import torch.distributed as dist

most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), None, True, wait_for_workers=False, use_libuv=sys.argv[2] == "libuv")
sys.stdin.read()
