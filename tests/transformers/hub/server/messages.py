"""What a request, an answer and a refusal of the hub are, apart from the socket they travel on."""
import dataclasses
import json
import re
import urllib.parse


@dataclasses.dataclass
class Request:
    """A request as it arrived. `target` is its path with the query, both still quoted."""

    method: str
    target: str
    headers: dict  # names in lower case
    body: bytes
    address: str  # host:port of the listener that it reached

    @property
    def path(self):
        return self.target.partition("?")[0]

    @property
    def query(self):
        return dict(urllib.parse.parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    def json(self):
        """Returns the body as an object of JSON; throws HubError 400 when it is none."""
        try:
            value = json.loads(self.body)
        except ValueError as error:
            raise HubError(400, f"Invalid JSON: {error}") from None
        if not isinstance(value, dict):
            raise HubError(400, "Invalid JSON: expected an object")
        return value


@dataclasses.dataclass
class Response:
    """An answer. Content-Length is added when it is sent."""

    status: int = 200
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""


class HubError(Exception):
    """A refusal: status, message, and the X-Error-Code by which clients tell refusals apart."""

    def __init__(self, status, message, code=None, headers=None):
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers or {}

    def response(self, as_text):
        """Returns the answer: of plain text where files are served, of JSON elsewhere."""
        headers = {**self.headers, "X-Error-Message": str(self)}
        if self.code:
            headers["X-Error-Code"] = self.code
        if as_text:
            headers["Content-Type"] = "text/plain; charset=utf-8"
            return Response(self.status, headers, str(self).encode())
        return json_response({"error": str(self)}, self.status, headers)


def json_response(value, status=200, headers=None):
    headers = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    return Response(status, headers, json.dumps(value).encode())


def content_response(request, content, headers):
    """Returns `content`, or the part that a Range header asks for. `headers` hold its ETag."""
    headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream", **headers}
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
    condition = request.headers.get("if-range")
    if not asked or asked[0] == "bytes=-" or condition not in (None, headers["ETag"]):
        return Response(200, headers, content)
    begin, end = _bounds(asked[1], asked[2], len(content))
    if begin >= end:
        return Response(416, {**headers, "Content-Range": f"bytes */{len(content)}"})
    headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
    return Response(206, headers, content[begin:end])


def _bounds(first, last, size):
    """Returns where a range begins and ends; an end at or before the begin when it holds nothing."""
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size
