"""A server on this machine that serves one file and breaks off on purpose."""

import http.server
import threading
from contextlib import contextmanager


class FragileServer(http.server.ThreadingHTTPServer):
    content = b""
    breaks = ()  # answer k ends after so many bytes; later answers are whole
    knows_ranges = True
    form = "sized"  # 'chunked' and 'unsaid' do not say how much is to come

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges = []  # what was asked for
        self.url = f"http://127.0.0.1:{self.server_port}/file"


class Handler(http.server.BaseHTTPRequestHandler):
    @property
    def protocol_version(self):
        return "HTTP/1.1" if self.server.form == "chunked" else "HTTP/1.0"

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
        if server.form == "sized":
            self.send_header("Content-Length", str(len(rest)))
        if server.form == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        is_broken = number < len(server.breaks)
        if server.form == "chunked":
            self.wfile.write(b"%x\r\n" % len(rest))
        self.wfile.write(rest[: server.breaks[number]] if is_broken else rest)
        self.close_connection = True
        if server.form == "chunked" and not is_broken:
            self.wfile.write(b"\r\n0\r\n\r\n")

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
