"""How the hub describes a repository: its info, its references, and the pages of its file tree."""
import base64
import urllib.parse

from repositories import folders_above, parent_folder


def info(repository, commit, with_blobs):
    """Returns the JSON of a repository at a commit; with the sizes and ids of its files if asked."""
    answer = {
        "id": repository.name, "sha": commit.id, "private": repository.private,
        "gated": "manual" if repository.gated else False, "disabled": False,
        "lastModified": commit.date, "createdAt": commit.date, "downloads": 0, "likes": 0, "tags": [],
        "siblings": [_sibling(path, entry, with_blobs) for path, entry in sorted(commit.files.items())]}
    if "/" in repository.name:
        answer["author"] = parent_folder(repository.name)
    if repository.kind == "model":
        answer["modelId"] = repository.name
    return answer


def _sibling(path, entry, with_blobs):
    answer = {"rfilename": path}
    if with_blobs:
        answer.update(size=entry.size, blobId=entry.blob_id)
        if entry.sha256:
            answer["lfs"] = {"sha256": entry.sha256, "size": entry.size, "pointerSize": entry.pointer_size}
    return answer


def refs(repository):
    def listed(names, prefix):
        return [{"name": name, "ref": prefix + name, "targetCommit": commit.id}
                for name, commit in sorted(names.items())]

    pulls = [{"name": name.removeprefix("refs/"), "ref": name, "targetCommit": commit.id}
             for name, commit in repository.pulls.items()]
    return {"branches": listed(repository.branches, "refs/heads/"), "tags": listed(repository.tags, "refs/tags/"),
            "converts": [], "pullRequests": pulls}


def entries(commit, folder, recursive):
    """Returns (path, Entry or None for a folder) of a folder's members; None if there is no such folder."""
    found = dict(commit.files)
    for path in commit.files:
        found.update(dict.fromkeys(folders_above(path)))
    if folder and found.get(folder, 0) is not None:
        return None
    inside = [path for path in found if not folder or path.startswith(folder + "/")]
    if not recursive:
        inside = [path for path in inside if parent_folder(path) == folder]
    return [(path, found[path]) for path in sorted(inside)]


def describe(commit, path, entry, expand):
    """Returns the JSON of one member of a tree."""
    if entry is None:
        answer = {"type": "directory", "oid": commit.folders[path], "size": 0, "path": path}
    else:
        answer = {"type": "file", "oid": entry.blob_id, "size": entry.size, "path": path}
        if entry.sha256:
            answer["lfs"] = {"oid": entry.sha256, "size": entry.size, "pointerSize": entry.pointer_size}
    if expand:
        last = commit.last_change(path)
        answer["lastCommit"] = {"id": last.id, "title": last.title, "date": last.date}
    return answer


def page(members, size, query, address):
    """Returns the members from the query's cursor on, at most `size`, and the Link header to the next page."""
    begin = int(base64.urlsafe_b64decode(query["cursor"])) if "cursor" in query else 0
    if begin + size >= len(members):
        return members[begin:], {}
    cursor = base64.urlsafe_b64encode(str(begin + size).encode()).decode()
    following = urllib.parse.urlencode({**query, "cursor": cursor})
    return members[begin:begin + size], {"Link": f'<{address}?{following}>; rel="next"'}
