"""The storage of LFS objects: signed addresses, uploads in one or many parts, downloads."""
import hashlib
import hmac
import math
import re
import secrets

from messages import HubError, Response, content_response


class Storage:
    """Serves what is under the storage's own address, `base`. Not thread-safe.

    An object larger than `part_bytes` is uploaded in parts of that many bytes.
    """

    def __init__(self, store, base, part_bytes):
        self._store, self._base, self._part_bytes = store, base, part_bytes
        self._key = secrets.token_bytes(32)
        self._uploads = {}  # from upload id to {"oid", "size", "parts": {number: content}}

    def download_url(self, sha256):
        return self._signed(f"/objects/{sha256}")

    def upload_action(self, sha256, size, transfers, completion_base):
        """Returns the "upload" action of the LFS batch answer: address, and header of a multi-part upload."""
        if size <= self._part_bytes or "multipart" not in transfers:
            return {"href": self._signed(f"/objects/{sha256}")}
        upload = secrets.token_hex(8)
        self._uploads[upload] = {"oid": sha256, "size": size, "parts": {}}
        header = {"chunk_size": str(self._part_bytes)}
        for number in range(1, self._count(size) + 1):
            header[f"{number:05}"] = self._signed(f"/parts/{upload}/{number}")
        return {"href": f"{completion_base}/api/complete_multipart?uploadId={upload}", "header": header}

    def handle(self, request):
        """Answers a request to the storage; as S3 does, it refuses tokens and wrong signatures."""
        if "authorization" in request.headers:
            raise HubError(400, "Only one auth mechanism allowed", "InvalidArgument")
        if not hmac.compare_digest(request.query.get("X-Amz-Signature", ""), self._signature(request.path)):
            raise HubError(403, "The request signature we calculated does not match", "SignatureDoesNotMatch")
        if request.method == "PUT" and "content-length" not in request.headers:
            raise HubError(411, "You must provide the Content-Length HTTP header", "MissingContentLength")
        if match := re.fullmatch(r"/objects/([0-9a-f]{64})", request.path):
            return self._put(request, match[1]) if request.method == "PUT" else self._get(request, match[1])
        if (match := re.fullmatch(r"/parts/(\w+)/(\d+)", request.path)) and request.method == "PUT":
            return self._put_part(request, match[1], int(match[2]))
        raise HubError(405, "The specified method is not allowed", "MethodNotAllowed")

    def complete(self, upload_id, wanted):
        """Puts the parts of an upload together; `wanted` names oid and parts with their ETags."""
        upload = self._uploads.get(upload_id)
        if not upload or wanted.get("oid") != upload["oid"]:
            raise HubError(404, "The specified upload does not exist")
        parts = upload["parts"]
        expected = [{"partNumber": number, "etag": etag_of(parts[number])} for number in sorted(parts)]
        if wanted.get("parts") != expected or len(parts) != self._count(upload["size"]):
            raise HubError(400, "One or more of the specified parts could not be found")
        content = b"".join(parts[number] for number in sorted(parts))
        if hashlib.sha256(content).hexdigest() != upload["oid"]:
            raise HubError(400, "The sha256 of the parts is not the oid")
        self._store.write_object(content)
        return Response(200)

    def _put(self, request, sha256):
        if hashlib.sha256(request.body).hexdigest() != sha256:
            raise HubError(400, "The provided sha256 does not match what was computed", "XAmzContentSHA256Mismatch")
        self._store.write_object(request.body)
        return Response(200, {"ETag": etag_of(request.body)})

    def _put_part(self, request, upload_id, number):
        upload = self._uploads[upload_id]
        length = min(self._part_bytes, upload["size"] - (number - 1) * self._part_bytes)
        if len(request.body) != length:
            raise HubError(400, f"Part {number} has {len(request.body)} bytes, not {length}", "EntityWrongSize")
        upload["parts"][number] = request.body
        return Response(200, {"ETag": etag_of(request.body)})

    def _get(self, request, sha256):
        if not self._store.has_object(sha256):
            raise HubError(404, "The specified key does not exist", "NoSuchKey")
        return content_response(request, self._store.read_object(sha256), {"ETag": f'"{sha256}"'})

    def _count(self, size):
        return math.ceil(size / self._part_bytes)

    def _signature(self, path):
        return hmac.new(self._key, path.encode(), "sha256").hexdigest()

    def _signed(self, path):
        return f"{self._base}{path}?X-Amz-Expires=3600&X-Amz-Signature={self._signature(path)}"


def etag_of(content):
    """Returns the ETag that S3 answers to an upload."""
    return f'"{hashlib.md5(content).hexdigest()}"'
