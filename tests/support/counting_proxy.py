"""A relay on loopback that counts the bytes that pass it."""

import socket
import threading

BLOCK = 1 << 20


class CountingProxy:
    """A relay on a port of its own that counts what passes, in both directions."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.target = (host, int(port))
        self.count, self.lock = 0, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.relay, args=(one, other), daemon=True).start()

    def relay(self, source, sink):
        try:
            while data := source.recv(BLOCK):
                with self.lock:
                    self.count += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
