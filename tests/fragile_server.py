"""A server on this machine that serves one file and breaks off on purpose."""

import http.server
import threading
from contextlib import contextmanager


class FragileServer(http.server.ThreadingHTTPServer):
    content = b""
    breaks = ()  # answer k ends after so many bytes; later answers are whole
    knows_ranges = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges = []  # what was asked for
        self.url = f"http://127.0.0.1:{self.server_port}/file"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, asked = self.server, self.headers.get("Range")
        number = len(server.ranges)
        server.ranges.append(asked)
        start = 0
        if asked and server.knows_ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(server.content):
            self.send_error(416)
            return
        rest = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if number < len(server.breaks):
            rest = rest[: server.breaks[number]]
        self.wfile.write(rest)

    def log_message(self, *_):
        pass


@contextmanager
def serve(content):
    server = FragileServer()
    server.content = content
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
