#!/usr/bin/env python3
"""Proves hub_server.py with Python's own client of the hub.

usage: hub_server_test.py [-v] [NAME ...]   (needs the package huggingface_hub)
"""
import base64
import hashlib
import http.client
import json
import os
import socket
import subprocess
import time
import unittest
import unittest.mock
import urllib.parse

from fixture import (HUB, LARGE, PART_BYTES, READER, ROOT, SMALL, STRANGER, TOKEN, Add, Delete, HubTest, call, errors,
                     files_below, huggingface_hub, install, log, sha256, start_server)


class Accounts(HubTest):
    def test_says_who_owns_a_token(self):
        self.assertEqual(self.api.whoami()["name"], "tester")
        self.assertEqual(self.api.whoami()["auth"]["accessToken"]["role"], "write")
        self.assertEqual(self.api.whoami(token=READER)["auth"]["accessToken"]["role"], "read")

    def test_refuses_an_unknown_or_missing_token(self):
        error = self.assert_status(401, errors.HfHubHTTPError, self.api.whoami, token="hf_nobody")
        self.assertIn("Invalid user token", str(error))
        self.assertEqual(call("GET", "/api/whoami-v2", headers={})[0], 401)

    def test_lets_only_a_writer_write(self):
        name = self.new_repository()
        for token, status in ((False, 401), (READER, 403), (STRANGER, 403)):
            self.assert_status(status, errors.HfHubHTTPError, self.commit, name, Add("a.txt", b"a"), token=token)
        self.assertEqual(self.mirror(name), {})


class Repositories(HubTest):
    def test_creates_a_repository_once(self):
        name = self.new_repository()
        self.assertEqual(self.api.create_repo(name, exist_ok=True).repo_id, name)
        self.assert_status(409, errors.HfHubHTTPError, self.api.create_repo, name)

    def test_tells_models_from_datasets(self):
        name = self.new_repository(repo_type="dataset")
        self.assertTrue(self.api.repo_exists(name, repo_type="dataset"))
        self.assertFalse(self.api.repo_exists(name))
        self.commit(name, Add("rows.parquet", LARGE), Add("note.txt", b"x"), repo_type="dataset")
        self.assertEqual(self.mirror(name, "datasets"), {"rows.parquet": LARGE, "note.txt": b"x"})
        self.assertEqual(self.download(name, "rows.parquet", repo_type="dataset"), LARGE)

    def test_serves_seeded_repositories_with_and_without_an_owner(self):
        self.assertEqual(self.snapshot("acme/seeded"), {"config.json": b"{}\n", "model.safetensors": LARGE})
        self.assertEqual(self.download("lonely", "config.json"), b'{"lonely": true}\n')
        self.assertEqual(self.download("acme/rows", "data/train.parquet", repo_type="dataset"), SMALL)
        self.assertEqual(self.api.list_repo_files("lonely"), ["config.json"])
        self.assertEqual(self.api.model_info("lonely", revision="main").id, "lonely")

    def test_lists_branches_tags_and_pull_requests(self):
        name = self.new_repository()
        first = self.api.model_info(name).sha
        self.api.create_tag(name, tag="v1")
        self.api.create_branch(name, branch="side/one")
        commit = self.commit(name, Add("a.txt", b"a"), create_pr=True)
        refs = self.api.list_repo_refs(name, include_pull_requests=True)
        self.assertEqual({ref.name: ref.target_commit for ref in refs.branches}, {"main": first, "side/one": first})
        self.assertEqual([ref.ref for ref in refs.tags], ["refs/tags/v1"])
        self.assertEqual([(ref.ref, ref.target_commit) for ref in refs.pull_requests], [("refs/pr/1", commit.oid)])

    def test_gives_sizes_and_ids_of_files(self):
        info = self.api.model_info("acme/seeded", files_metadata=True)
        model = {file.rfilename: file for file in info.siblings}["model.safetensors"]
        self.assertEqual((model.size, model.lfs.sha256), (len(LARGE), sha256(LARGE)))
        self.assertEqual(info.author, "acme")

    def test_names_files_and_folders_as_git_does(self):
        name = self.new_repository()
        self.commit(name, Add("a/b/one.txt", b"1"), Add("a/b.txt", b"2"), Add("a/b-c/three", b"3"), Add("a/b0", b"4"))
        folder = ROOT / "models" / name
        environment = {**os.environ, "GIT_DIR": str(self.scratch / "git"), "GIT_WORK_TREE": str(folder)}

        def git(*arguments):
            return subprocess.run(["git", "-c", "core.attributesFile=/dev/null", *arguments], env=environment,
                                  check=True, capture_output=True, text=True, cwd=folder).stdout.strip()

        git("init", "-q")
        git("add", "a")
        tree = git("write-tree")
        for member in self.api.list_repo_tree(name, recursive=True):
            if member.path.startswith("a"):
                id_ = member.tree_id if hasattr(member, "tree_id") else member.blob_id
                self.assertEqual(id_, git("rev-parse", f"{tree}:{member.path}"), member.path)

    def test_lists_a_tree_over_several_pages(self):
        name = self.new_repository()
        paths = [f"data/{index}.txt" for index in range(8)]
        self.commit(name, *[Add(path, path.encode()) for path in paths], Add("w.bin", LARGE))
        log()
        members = list(self.api.list_repo_tree(name, recursive=True))
        self.assertEqual([member.path for member in members], [".gitattributes", "data", *paths, "w.bin"])
        self.assertEqual(len(log()), 4)
        self.assertEqual((members[-1].size, members[-1].lfs.sha256), (len(LARGE), sha256(LARGE)))
        self.assertEqual([member.path for member in self.api.list_repo_tree(name, "data")], paths)
        self.assertEqual(next(iter(self.api.list_repo_tree(name, "data", expand=True))).last_commit.title, "test")
        with self.assertRaises(errors.EntryNotFoundError):
            list(self.api.list_repo_tree(name, "absent"))


class Commits(HubTest):
    def test_adds_regular_empty_and_lfs_files(self):
        name = self.new_repository()
        local = self.scratch / "local.bin"
        local.write_bytes(LARGE)
        commit = self.commit(name, Add("a.txt", b"text"), Add("deep/er/empty.txt", b""), Add("empty.bin", b""),
                             Add("small.safetensors", SMALL), Add("large.bin", str(local)))
        self.assertEqual(self.mirror(name), {"a.txt": b"text", "deep/er/empty.txt": b"", "empty.bin": b"",
                                             "small.safetensors": SMALL, "large.bin": LARGE})
        self.assertEqual((ROOT / "objects" / sha256(LARGE)).read_bytes(), LARGE)
        self.assertEqual(self.api.model_info(name).sha, commit.oid)
        self.assertEqual(commit.repo_url.repo_id, name)

    def test_uploads_small_objects_at_once_and_large_ones_in_parts(self):
        name, small, large = self.new_repository(), os.urandom(PART_BYTES), os.urandom(2 * PART_BYTES + 1)
        self.commit(name, Add("small.bin", small), Add("large.bin", large))
        requests = log()
        puts = [request["body_length"] for request in requests if request["method"] == "PUT"]
        self.assertEqual(sorted(puts), [1, PART_BYTES, PART_BYTES, PART_BYTES])
        self.assertEqual(sum("complete_multipart" in request["path"] for request in requests), 1)
        self.assertEqual(sum(request["path"].endswith("/verify") for request in requests), 2)
        self.assertEqual(self.mirror(name), {"small.bin": small, "large.bin": large})

    def test_wants_no_object_twice(self):
        name = self.new_repository()
        self.commit(name, Add("one.bin", b"once"))
        log()
        self.commit(name, Add("two.bin", b"once"))
        self.assertNotIn("PUT", [request["method"] for request in log()])
        self.assertEqual(self.mirror(name), {"one.bin": b"once", "two.bin": b"once"})

    def test_deletes_files_and_folders(self):
        name = self.new_repository()
        self.commit(name, *[Add(path, b"x") for path in ("a.txt", "b/c.txt", "b/d/e.bin", "bb.txt")])
        self.commit(name, Delete("a.txt"), Delete("b/"))
        self.assertEqual(self.mirror(name), {"bb.txt": b"x"})
        self.assertFalse((ROOT / "models" / name / "b").exists())

    def test_refuses_to_delete_what_is_absent(self):
        name = self.new_repository()
        error = self.assert_status(404, errors.EntryNotFoundError, self.commit, name, Add("a.txt", b""), Delete("no"))
        self.assertIn("Make sure to differentiate file and folder paths", str(error))
        self.assertEqual(self.mirror(name), {})

    def test_checks_the_parent_commit(self):
        name = self.new_repository()
        first = self.api.model_info(name).sha
        second = self.commit(name, Add("a.txt", b"1"), parent_commit=first).oid
        error = self.assert_status(412, errors.HfHubHTTPError, self.commit, name, Add("a.txt", b"2"),
                                   parent_commit=first)
        self.assertIn("A commit has happened since", str(error))
        self.commit(name, Add("a.txt", b"3"), parent_commit=second[:7])
        self.assertEqual(self.mirror(name), {"a.txt": b"3"})

    def test_creates_no_branch(self):
        name = self.new_repository()
        self.assert_status(404, errors.RevisionNotFoundError, self.commit, name, Add("a.txt", b""), revision="no")

    def test_commits_to_a_branch_and_leaves_main_alone(self):
        name = self.new_repository()
        self.api.create_branch(name, branch="side/one")
        self.commit(name, Add("a.txt", b"side"), revision="side/one")
        self.assertEqual(self.mirror(name), {})
        self.assertEqual(self.download(name, "a.txt", revision="side/one"), b"side")

    def test_opens_a_pull_request(self):
        name = self.new_repository()
        commit = self.commit(name, Add("a.txt", b"pull"), create_pr=True)
        self.assertEqual((commit.pr_num, commit.pr_revision), (1, "refs/pr/1"))
        self.assertEqual(self.mirror(name), {})
        self.assertEqual(self.download(name, "a.txt", revision="refs/pr/1"), b"pull")
        self.commit(name, Add("a.txt", b"again"), revision="refs/pr/1")
        self.assertEqual(self.download(name, "a.txt", revision="refs/pr/1"), b"again")

    def test_opens_a_pull_request_from_an_older_commit(self):
        name = self.new_repository()
        old = self.commit(name, Add("a.txt", b"a")).oid
        self.commit(name, Add("b.txt", b"b"))
        self.commit(name, Add("c.txt", b"c"), create_pr=True, parent_commit=old)
        self.assertEqual(self.api.list_repo_files(name, revision="refs/pr/1"), [".gitattributes", "a.txt", "c.txt"])

    def test_uploads_of_a_folder_only_what_changed(self):
        name, folder = self.new_repository(), self.scratch / "folder"
        for path, content in {"a.txt": b"a", "sub/b.txt": b"b", "sub/c.bin": LARGE}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        first = self.api.upload_folder(repo_id=name, folder_path=folder)
        log()
        again = self.api.upload_folder(repo_id=name, folder_path=folder)
        self.assertEqual(again.oid, first.oid)
        self.assertFalse([request for request in log() if "/commit/" in request["path"]])
        (folder / "a.txt").write_bytes(b"new")
        log()
        self.api.upload_folder(repo_id=name, folder_path=folder)
        body = next(base64.b64decode(request["body"]) for request in log() if "/commit/" in request["path"])
        self.assertEqual([json.loads(line)["value"].get("path") for line in body.splitlines()], [None, "a.txt"])
        self.assertEqual(self.mirror(name), files_below(folder))

    def test_leaves_ignored_files_out(self):
        name = self.new_repository()
        self.commit(name, Add(".gitignore", b"# note\n*.log\n!keep.log\nout/\n"))
        self.commit(name, *[Add(path, b"x") for path in ("a.log", "keep.log", "out/a.txt", "a.txt", "b.bin")])
        self.assertEqual(set(self.mirror(name)), {".gitignore", "keep.log", "a.txt", "b.bin"})

    def test_wants_large_text_in_lfs(self):
        name = self.new_repository()
        files = [{"path": "a.txt", "sample": "", "size": size} for size in (10 << 20, (10 << 20) + 1)]
        answer = json.loads(call("POST", f"/api/models/{name}/preupload/main", {"files": files})[2])
        self.assertEqual([file["uploadMode"] for file in answer["files"]], ["regular", "lfs"])

    def test_refuses_an_lfs_file_without_an_object(self):
        name, header = self.new_repository(), '{"key": "header", "value": {"summary": "s"}}\n'
        line = json.dumps({"key": "lfsFile", "value": {"path": "a", "algo": "sha256", "oid": "0" * 64, "size": 1}})
        status, _, body = call("POST", f"/api/models/{name}/commit/main", header + line)
        self.assertEqual(status, 400)
        self.assertIn(b"LFS pointer", body)

    def test_refuses_paths_that_leave_the_repository(self):
        name, header = self.new_repository(), '{"key": "header", "value": {"summary": "s"}}\n'
        for path in ("../a", "/a", "a//b", ".git/config", ""):
            line = json.dumps({"key": "file", "value": {"path": path, "content": "", "encoding": "base64"}})
            self.assertEqual(call("POST", f"/api/models/{name}/commit/main", header + line)[0], 400, path)

    def test_validates_the_metadata_of_a_readme(self):
        name = self.new_repository()
        with self.assertRaisesRegex(ValueError, '"license" must be a string'):
            self.commit(name, Add("README.md", b"---\nlicense: 17\n---\n# Card\n"))
        with self.assertWarnsRegex(UserWarning, "empty or missing yaml metadata"):
            self.commit(name, Add("README.md", b"# Card\n"))
        self.commit(name, Add("README.md", b"---\nlicense: apache-2.0\n---\n# Card\n"))
        self.assertIn(b"apache", self.mirror(name)["README.md"])


class Downloads(HubTest):
    def test_downloads_by_branch_tag_and_commit(self):
        name = self.new_repository()
        old = self.commit(name, Add("a.txt", b"old"), Add("b.bin", SMALL)).oid
        self.api.create_tag(name, tag="v1")
        self.commit(name, Add("a.txt", b"new"), Add("b.bin", LARGE))
        for revision, expected in (("main", (b"new", LARGE)), ("v1", (b"old", SMALL)), (old, (b"old", SMALL))):
            for file, content in zip(("a.txt", "b.bin"), expected):
                self.assertEqual(self.download(name, file, revision=revision), content)

    def test_downloads_files_with_odd_names(self):
        name = self.new_repository()
        self.commit(name, Add("sub dir/ä #1+%.txt", b"odd"))
        self.assertEqual(self.download(name, "sub dir/ä #1+%.txt"), b"odd")

    def test_keeps_the_token_from_the_storage(self):
        self.download("acme/seeded", "model.safetensors")
        requests = log()
        storage = [request for request in requests if request["address"].startswith("127.0.0.2:")]
        self.assertEqual([request["status"] for request in storage], [200])
        self.assertNotIn("authorization", storage[0]["headers"])
        self.assertEqual([request["headers"]["authorization"] for request in requests if request not in storage],
                         [f"Bearer {TOKEN}"])

    def test_refuses_a_token_or_a_wrong_signature_at_the_storage(self):
        location = call("HEAD", "/acme/seeded/resolve/main/model.safetensors")[1]["Location"]
        parts = urllib.parse.urlsplit(location)
        target = f"{parts.path}?{parts.query}"
        self.assertEqual(call("GET", target, address=parts.netloc, headers={})[2], LARGE)
        self.assertEqual(call("GET", target, address=parts.netloc)[0], 400)
        self.assertEqual(call("GET", target + "0", address=parts.netloc, headers={})[0], 403)

    def test_downloads_a_snapshot_by_patterns(self):
        name = self.new_repository()
        self.commit(name, *[Add(path, path.encode()) for path in ("a.json", "b.json", "c.bin", "d/e.json")])
        files = self.snapshot(name, allow_patterns=["*.json"], ignore_patterns=["b.*"])
        self.assertEqual(files, {"a.json": b"a.json", "d/e.json": b"d/e.json"})

    def test_answers_ranges(self):
        target, blob = "/acme/seeded/resolve/main/config.json", hashlib.sha1(b"blob 3\0{}\n").hexdigest()
        status, headers, body = call("GET", target, headers={"Range": "bytes=1-"})
        self.assertEqual((status, body, headers["Content-Range"]), (206, b"}\n", "bytes 1-2/3"))
        self.assertEqual((headers["ETag"], headers["Accept-Ranges"]), (f'"{blob}"', "bytes"))
        self.assertEqual(call("GET", target, headers={"Range": "bytes=0-0"})[2], b"{")
        self.assertEqual(call("GET", target, headers={"Range": "bytes=-1"})[2], b"\n")
        self.assertEqual(call("GET", target, headers={"Range": "bytes=1-", "If-Range": '"other"'})[0], 200)
        status, headers, _ = call("GET", target, headers={"Range": "bytes=3-"})
        self.assertEqual((status, headers["Content-Range"]), (416, "bytes */3"))

    def test_describes_an_lfs_file_on_the_redirect(self):
        status, headers, _ = call("HEAD", "/acme/seeded/resolve/main/model.safetensors")
        self.assertEqual((status, headers["X-Linked-Etag"], headers["X-Linked-Size"]),
                         (302, f'"{sha256(LARGE)}"', str(len(LARGE))))
        self.assertEqual(headers["X-Repo-Commit"], self.api.model_info("acme/seeded").sha)


class Refusals(HubTest):
    def test_hides_what_does_not_exist(self):
        self.assert_status(401, errors.RepositoryNotFoundError, self.api.model_info, "acme/no", token=False)
        self.assert_status(404, errors.RepositoryNotFoundError, self.api.model_info, "acme/no")
        self.assert_status(404, errors.RepositoryNotFoundError, self.download, "acme/no", "a.txt")

    def test_hides_a_private_repository_from_strangers(self):
        self.assertTrue(self.api.model_info("acme/private-model", token=READER).private)
        self.assert_status(401, errors.RepositoryNotFoundError, self.api.model_info, "acme/private-model", token=False)
        self.assert_status(404, errors.RepositoryNotFoundError, self.api.model_info, "acme/private-model",
                           token=STRANGER)

    def test_gives_a_gated_file_only_to_the_authorised(self):
        self.assertEqual(self.api.model_info("acme/gated-model", token=False).gated, "manual")
        self.assertEqual(self.download("acme/gated-model", "config.json", token=READER), b"{}\n")
        for token, status in ((False, 401), (STRANGER, 403)):
            self.assert_status(status, errors.GatedRepoError, self.download, "acme/gated-model", "config.json",
                               token=token, cache_dir=self.scratch / "other")

    def test_tells_a_missing_revision_from_a_missing_file(self):
        self.assert_status(404, errors.RevisionNotFoundError, self.download, "acme/seeded", "a.txt", revision="no")
        self.assert_status(404, errors.EntryNotFoundError, self.download, "acme/seeded", "no.json")
        headers = call("HEAD", "/acme/seeded/resolve/main/no.json")[1]
        self.assertEqual(headers["X-Repo-Commit"], self.api.model_info("acme/seeded").sha)


class FaultsAndLog(HubTest):
    FILE = "/acme/seeded/resolve/main/config.json"

    def test_answers_another_status_a_number_of_times(self):
        install("GET .*config", times=2, status=429, headers={"Retry-After": "3"}, body="slow down")
        for _ in range(2):
            status, headers, body = call("GET", self.FILE)
            self.assertEqual((status, headers["Retry-After"], body), (429, "3", b"slow down"))
        self.assertEqual(call("GET", self.FILE)[0], 200)

    def assert_resumed(self):
        """Downloads a large file, and checks that the second request began where the first was left."""
        with unittest.mock.patch.object(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 100):
            self.assertEqual(self.download("acme/seeded", "model.safetensors"), LARGE)
        ranges = [request["headers"].get("range") for request in log() if "/objects/" in request["path"]]
        self.assertEqual(ranges, [None, "bytes=1000-"])

    def test_cuts_a_download_which_the_client_resumes(self):
        install("GET /objects/", cut_after=1000)
        self.assert_resumed()

    def test_stalls_until_the_client_leaves(self):
        install("GET /objects/", stall_after=1000)
        self.assert_resumed()

    def test_changes_content_and_headers(self):
        install("config", corrupt_at=1, etag='"other"', no_commit_header=True)
        _, headers, body = call("GET", self.FILE)
        self.assertEqual((body, headers["ETag"], headers["X-Repo-Commit"]), (b"{\x82\n", '"other"', None))
        install("config", gzip=True)
        _, headers, body = call("GET", self.FILE)
        self.assertEqual((headers["Content-Encoding"], body[:2]), ("gzip", b"\x1f\x8b"))
        install("config", redirect="/elsewhere", status=307)
        status, headers, _ = call("GET", self.FILE)
        self.assertEqual((status, headers["Location"]), (307, "/elsewhere"))

    def test_lies_about_the_length(self):
        install("config", content_length=9)
        with self.assertRaises(http.client.IncompleteRead):
            call("GET", self.FILE)
        install("config", content_length=1)
        self.assertEqual(call("GET", self.FILE)[2], b"{")

    def test_drops_a_request_or_only_its_answer(self):
        name = self.new_repository()
        body = {"tag": "v1"}
        install("POST .*/tag/", drop=True)
        with self.assertRaises(http.client.RemoteDisconnected):
            call("POST", f"/api/models/{name}/tag/main", body)
        self.assertEqual(self.api.list_repo_refs(name).tags, [])
        install("POST .*/tag/", lose_answer=True, reset=True)
        with self.assertRaises(ConnectionResetError) as caught:
            call("POST", f"/api/models/{name}/tag/main", body)
        self.assertIs(type(caught.exception), ConnectionResetError)  # RemoteDisconnected derives from it
        self.assertEqual(self.api.list_repo_refs(name).tags[0].name, "v1")
        statuses = [request["status"] for request in log() if "/tag/" in request["path"]]
        self.assertEqual(statuses, [None, 200])

    def test_delays_only_the_request_that_matches(self):
        install("/resolve/", delay_s=1)
        begin = time.monotonic()
        connection = socket.create_connection(HUB.split(":"))
        self.addCleanup(connection.close)
        connection.sendall(f"GET {self.FILE} HTTP/1.1\r\nHost: hub\r\n\r\n".encode())
        while not json.loads(call("GET", "/_log?keep=1")[2]):
            pass
        self.assertEqual(call("GET", "/api/models/acme/seeded")[0], 200)
        self.assertLess(time.monotonic() - begin, 0.9)
        connection.recv(1)
        self.assertGreater(time.monotonic() - begin, 0.9)

    def test_forgets_faults(self):
        install("", status=500)
        call("DELETE", "/_fault")
        self.assertEqual(call("GET", self.FILE)[0], 200)

    def test_logs_requests_until_they_are_read(self):
        call("POST", "/api/validate-yaml?x=1", b'{"content": ""}', headers={"X-Test": "Value"})
        kept = json.loads(call("GET", "/_log?keep=1")[2])
        self.assertEqual(log(), kept)
        self.assertEqual(log(), [])
        entry = kept[0]
        self.assertEqual((entry["method"], entry["path"], entry["status"]), ("POST", "/api/validate-yaml?x=1", 200))
        self.assertEqual((entry["headers"]["x-test"], entry["address"]), ("Value", HUB))
        self.assertEqual(base64.b64decode(entry["body"]), b'{"content": ""}')

    def test_logs_an_upload_without_its_content(self):
        self.commit(self.new_repository(), Add("a.bin", b"only here"))
        put = next(request for request in log() if request["method"] == "PUT")
        self.assertEqual((put["body"], put["body_length"], put["body_sha256"]), ("", 9, sha256(b"only here")))

    def test_keeps_connections_open_and_reads_chunked_bodies(self):
        connection = http.client.HTTPConnection(HUB, timeout=5)
        self.addCleanup(connection.close)
        for _ in range(2):
            connection.request("POST", "/api/validate-yaml", iter([b'{"content":', b' ""}']), encode_chunked=True,
                               headers={"Transfer-Encoding": "chunked"})
            self.assertEqual(connection.getresponse().read()[:11], b'{"errors": ')
            opened = getattr(self, "opened", connection.sock)
            self.assertIs(connection.sock, opened)
            self.opened = opened

    def test_ends_with_its_input(self):
        process, url = start_server("--root", self.scratch / "root")
        self.assertTrue(url.startswith("http://127.0.0.1:"))
        process.communicate(timeout=5)
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
