"""The hub's routes: what a request to the hub's own address answers."""
import dataclasses
import json
import re
import urllib.parse

import trees
from messages import HubError, Response, content_response, json_response
from repositories import is_ignored, upload_mode

OWNER = "tester"
ROLES = ("write", "read", "other")

_ACTIONS = "revision|tree|refs|preupload|commit|tag|branch"
_API = (r"/api/(?P<kind>model|dataset)s/"
        rf"(?P<name>[^/]+(?:/(?!(?:{_ACTIONS})(?:/|$))[^/]+)?)")
_REVISION = r"(?P<revision>refs/(?:pr|heads)/[^/]+|[^/]+)"
_PAGE = r"/(?:(?P<kind>dataset)s/)?(?P<name>[^/]+(?:/(?!resolve/)[^/]+)?)"
_ROUTES = []


@dataclasses.dataclass(frozen=True)
class User:
    """Who a token belongs to. `other` is a stranger, who may not write, nor see what is private or gated."""

    name: str
    role: str


def route(method, pattern):
    """Registers a method of Hub; the groups of the pattern become its arguments, unquoted."""
    def register(function):
        _ROUTES.append((method, re.compile(pattern), function))
        return function
    return register


class Hub:
    """Answers requests to the hub. `tokens` map a token to its role. Not thread-safe."""

    def __init__(self, store, storage, base, tokens):
        self._store, self._storage, self.base = store, storage, base
        self._users = {token: User("stranger" if role == "other" else OWNER, role)
                       for token, role in tokens.items()}
        self.page_size = 1000

    def handle(self, request):
        method = "GET" if request.method == "HEAD" else request.method
        for wanted, pattern, function in _ROUTES:
            if wanted == method and (match := pattern.fullmatch(request.path)):
                groups = match.groupdict()
                if "kind" in groups:
                    groups["kind"] = groups["kind"] or "model"
                arguments = {key: urllib.parse.unquote(value or "") for key, value in groups.items()}
                return function(self, request, **arguments)
        raise HubError(404, "Sorry, we can't find the page you are looking for.")

    @route("GET", "/api/whoami-v2")
    def _whoami(self, request):
        user = self._user(request)
        if not user:
            raise HubError(401, "Invalid username or password.")
        token = {"displayName": "tests", "role": "write" if user.role == "write" else "read"}
        return json_response({
            "type": "user", "name": user.name, "fullname": user.name.title(), "isPro": False,
            "orgs": [{"type": "org", "name": "test-org", "roleInOrg": "admin"}],
            "auth": {"type": "access_token", "accessToken": token}})

    @route("POST", "/api/repos/create")
    def _create(self, request):
        user, asked = self._writer(request), request.json()
        kind = asked.get("type") or "model"
        if kind not in ("model", "dataset") or not re.fullmatch(r"[\w.-]{1,96}", asked.get("name") or ""):
            raise HubError(400, "Invalid repo type or name")
        name = f"{asked.get('organization') or user.name}/{asked['name']}"
        url = f"{self.base}/{_prefix(kind)}{name}"
        if (kind, name) in self._store.repositories:
            message = f"You already created this {kind} repo: {name}"
            return json_response({"error": message, "url": url}, 409, {"X-Error-Message": message})
        private = bool(asked.get("private")) or asked.get("visibility") == "private"
        self._store.create(kind, name, private)
        return json_response({"url": url, "name": name})

    @route("POST", "/api/validate-yaml")
    def _validate_yaml(self, request):
        """Refuses a license that YAML reads as a number or a truth value; warns of missing metadata."""
        card = re.match(r"---\r?\n(.*?)^---\s*$", request.json().get("content", ""), re.S | re.M)
        if not card:
            message = "empty or missing yaml metadata in repo card"
            return json_response({"errors": [], "warnings": [{"message": message}]})
        value = re.search(r"^license:[ \t]*([^\r\n]*?)[ \t]*$", card[1], re.M)
        if value and re.fullmatch(r"[-+]?[\d.]+|true|false", value[1]):
            message = '"license" must be a string'
            return json_response({"errors": [{"message": message}], "warnings": []}, 400)
        return json_response({"errors": [], "warnings": []})

    @route("GET", _API)
    def _info(self, request, kind, name):
        repository = self._repository(request, kind, name)
        return json_response(trees.info(repository, repository.find("main"), "blobs" in request.query))

    @route("GET", f"{_API}/revision/{_REVISION}")
    def _info_at(self, request, kind, name, revision):
        repository = self._repository(request, kind, name)
        return json_response(trees.info(repository, _commit(repository, revision), "blobs" in request.query))

    @route("GET", f"{_API}/refs")
    def _refs(self, request, kind, name):
        return json_response(trees.refs(self._repository(request, kind, name)))

    @route("POST", f"{_API}/tag/{_REVISION}")
    def _tag(self, request, kind, name, revision):
        repository, tag = self._writable(request, kind, name), request.json().get("tag", "")
        if tag in repository.tags:
            raise HubError(409, f"Tag reference exists already: {tag}")
        repository.tags[tag] = _commit(repository, revision)
        return json_response({})

    @route("POST", f"{_API}/branch/{_REVISION}")
    def _branch(self, request, kind, name, revision):
        repository = self._writable(request, kind, name)
        if revision in repository.branches:
            raise HubError(409, f"Reference already exists: {revision}")
        start = (json.loads(request.body or b"{}") or {}).get("startingPoint", "main")
        repository.branches[revision] = _commit(repository, start)
        return json_response({})

    @route("GET", f"{_API}/tree/{_REVISION}(?:/(?P<path>.*))?")
    def _tree(self, request, kind, name, revision, path):
        commit = _commit(self._repository(request, kind, name), revision)
        entries = trees.entries(commit, path.strip("/"), _flag(request, "recursive"))
        if entries is None:
            raise _entry_not_found(commit, path)
        expand = _flag(request, "expand")
        size = min(self.page_size, 50) if expand else self.page_size
        page, headers = trees.page(entries, size, request.query, self.base + request.path)
        return json_response([trees.describe(commit, *entry, expand) for entry in page], 200, headers)

    @route("POST", f"{_API}/preupload/{_REVISION}")
    def _preupload(self, request, kind, name, revision):
        commit = _commit(self._writable(request, kind, name), revision)
        asked = request.json()
        ignore = asked.get("gitIgnore")
        if ignore is None and ".gitignore" in commit.files:
            ignore = self._store.content(commit.files[".gitignore"]).decode()
        files = [_upload_info(commit, file, ignore or "") for file in asked["files"]]
        return json_response({"files": files})

    @route("POST", r"/(?:(?P<kind>dataset)s/)?(?P<name>[^/]+(?:/[^/]+)?)\.git/info/lfs/objects/batch")
    def _batch(self, request, kind, name):
        self._writable(request, kind, name)
        asked, verify = request.json(), self.base + request.path.replace("/batch", "/verify")
        if asked.get("operation") != "upload" or asked.get("hash_algo") != "sha256":
            raise HubError(422, "Only uploads by sha256 are supported")
        transfers = asked.get("transfers", ["basic"])
        objects = [self._batch_object(wanted, transfers, verify) for wanted in asked["objects"]]
        parts = any(item.get("actions", {}).get("upload", {}).get("header") for item in objects)
        return json_response({"transfer": "multipart" if parts else "basic", "objects": objects},
                             200, {"Content-Type": "application/vnd.git-lfs+json"})

    @route("POST", r"/(?:(?P<kind>dataset)s/)?(?P<name>[^/]+(?:/[^/]+)?)\.git/info/lfs/objects/verify")
    def _verify(self, request, kind, name):
        self._writable(request, kind, name)
        oid, size = request.json().get("oid", ""), request.json().get("size")
        if not oid or not self._store.has_object(oid) or len(self._store.read_object(oid)) != size:
            raise HubError(404, "The object is not in the storage with this size")
        return Response(200)

    @route("POST", "/api/complete_multipart")
    def _complete(self, request):
        return self._storage.complete(request.query.get("uploadId"), request.json())

    @route("POST", f"{_API}/commit/{_REVISION}")
    def _commit_files(self, request, kind, name, revision):
        repository, lines = self._writable(request, kind, name), _ndjson(request.body)
        ref = _head(repository, revision)
        parent, new_pull = _commit(repository, ref), request.query.get("create_pr") in ("1", "true")
        wanted = next((line["value"].get("parentCommit") for line in lines if line["key"] == "header"), None)
        if wanted and new_pull:
            parent = _commit(repository, wanted)
        elif wanted and not (len(wanted) >= 7 and parent.id.startswith(wanted)):
            raise HubError(412, "A commit has happened since. Please refresh and try again.")
        ref = repository.open_pull() if new_pull else ref
        commit = self._store.commit(repository, ref, parent, lines)
        page = f"{self.base}/{_prefix(kind)}{name}"
        answer = {"success": True, "commitOid": commit.id, "commitUrl": f"{page}/commit/{commit.id}", "hookOutput": ""}
        if new_pull:
            answer["pullRequestUrl"] = f"{page}/discussions/{ref.rpartition('/')[2]}"
        return json_response(answer)

    @route("GET", f"{_PAGE}/resolve/{_REVISION}/(?P<path>.+)")
    def _resolve(self, request, kind, name, revision, path):
        repository = self._repository(request, kind, name)
        self._check_gate(request, repository)
        commit = _commit(repository, revision)
        if path not in commit.files:
            raise _entry_not_found(commit, path)
        entry = commit.files[path]
        headers = {"X-Repo-Commit": commit.id, "ETag": f'"{entry.etag}"', "Accept-Ranges": "bytes"}
        if entry.sha256 is None:
            return content_response(request, entry.content, headers)
        url = self._storage.download_url(entry.sha256)
        headers.update({"Location": url, "X-Linked-Etag": headers.pop("ETag"), "X-Linked-Size": str(entry.size)})
        return Response(302, headers, f"Found. Redirecting to {url}".encode())

    def _batch_object(self, wanted, transfers, verify):
        oid, size = wanted["oid"], wanted["size"]
        answer = {"oid": oid, "size": size, "authenticated": True}
        if not re.fullmatch("[0-9a-f]{64}", oid):
            return {**answer, "error": {"code": 422, "message": "Invalid oid"}}
        if self._store.has_object(oid):
            return answer
        upload = self._storage.upload_action(oid, size, transfers, self.base)
        return {**answer, "actions": {"upload": upload, "verify": {"href": verify}}}

    def _user(self, request):
        """Returns who sent the request; None without a token. Throws 401 for a token that nobody has."""
        header = request.headers.get("authorization")
        if header is None:
            return None
        user = self._users.get(header.removeprefix("Bearer "))
        if not user:
            raise HubError(401, "Invalid credentials in Authorization header")
        return user

    def _writer(self, request):
        user = self._user(request)
        if not user:
            raise HubError(401, "Invalid username or password.")
        if user.role != "write":
            raise HubError(403, "Your token has no permission to write")
        return user

    def _repository(self, request, kind, name):
        """Returns the repository; throws RepoNotFound when there is none that the user may know of."""
        user, repository = self._user(request), self._store.repositories.get((kind, name))
        hidden = repository and repository.private and (not user or user.role == "other")
        if repository and not hidden:
            return repository
        if user:
            raise HubError(404, "Repository not found", "RepoNotFound")
        raise HubError(401, "Invalid username or password.", "RepoNotFound")

    def _writable(self, request, kind, name):
        repository = self._repository(request, kind, name)
        self._writer(request)
        return repository

    def _check_gate(self, request, repository):
        user = self._user(request)
        if not repository.gated or (user and user.role != "other"):
            return
        reason = (" and you are not in the authorized list." if user
                  else ". You must have access to it and be authenticated to access it. Please log in.")
        message = f"Access to {repository.kind} {repository.name} is restricted{reason}"
        raise HubError(403 if user else 401, message, "GatedRepo")


def _prefix(kind):
    return "" if kind == "model" else f"{kind}s/"


def _flag(request, name):
    return request.query.get(name, "").lower() in ("true", "1")


def _commit(repository, revision):
    commit = repository.find(revision)
    if not commit:
        raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return commit


def _head(repository, revision):
    """Returns the branch or pull request that a commit may go to; throws RevisionNotFound for anything else."""
    ref = revision.removeprefix("refs/heads/")
    if ref not in repository.branches and ref not in repository.pulls:
        raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return ref


def _entry_not_found(commit, path):
    return HubError(404, f"Entry not found: {path}", "EntryNotFound", {"X-Repo-Commit": commit.id})


def _upload_info(commit, file, ignore):
    """Returns what the hub says of a file before its upload: how it wants it, and the id of the one it has."""
    path = file["path"]
    info = {"path": path, "uploadMode": upload_mode(path, file["size"]), "shouldIgnore": is_ignored(path, ignore)}
    if path in commit.files:
        info["oid"] = commit.files[path].etag
    return info


def _ndjson(body):
    try:
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        return [{"key": line["key"], "value": dict(line["value"])} for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise HubError(400, f"Invalid ndjson: {error!r}") from None
