#!/usr/bin/env python3
"""`accelerate hub` as its user sees it, beside Python's client. usage: commands_live.py ACCELERATE

The server is that of tests/transformers/hub/server. Exits 1 when anything differs.
"""
import configparser
import json
import os
import pathlib
import pty
import re
import stat
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ACCELERATE = os.path.abspath(sys.argv.pop(1))
TOKEN, OTHER = "hf_writer_secret", "hf_wrong_secret"


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="commands_live_")
        root = pathlib.Path(cls.folder.name)
        model = root / "seed" / "models" / "acme" / "model"
        (model / "onnx").mkdir(parents=True)
        for name, content in {"config.json": "{}\n", "model.safetensors": "weights" * 100, "onnx/config.json": "{1}\n", "a b.txt": "x"}.items():
            (model / name).write_text(content, encoding="utf-8")
        rows = root / "seed" / "datasets" / "acme" / "rows"
        rows.mkdir(parents=True)
        (rows / "train.csv").write_text("a\n1\n", encoding="utf-8")
        cls.server = subprocess.Popen([sys.executable, HERE / "server" / "hub_server.py", "--until-eof", "--root", root / "root", "--seed", root / "seed", "--token", TOKEN],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.url = cls.server.stdout.readline().strip()

    @classmethod
    def tearDownClass(cls):
        cls.server.stdin.close()
        cls.server.wait(10)
        cls.server.stdout.close()
        cls.folder.cleanup()

    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))

    def environment(self, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
        return clean | {"HF_HOME": str(self.home), "HF_ENDPOINT": self.url, "HF_HUB_DISABLE_XET": "1"} | variables

    def hub(self, *words, code=0, text=None, **variables):
        """The output of a command that ends with `code`."""
        done = subprocess.run([ACCELERATE, "hub", *words], input=text, stdin=None if text is not None else subprocess.DEVNULL, capture_output=True, text=True,
                              env=self.environment(**variables), timeout=60, check=False)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        self.assertNotIn("secret", done.stdout + done.stderr)
        return done

    def python(self, expression):
        code = f"import json, huggingface_hub as hub; print(json.dumps({expression}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=self.environment(), check=True)
        return json.loads(done.stdout)

    def test_login_is_seen_by_python_and_logout_too(self):
        self.assertRegex(self.hub("login", text=TOKEN + "\n").stdout, "^logged in as tester")
        for name in ("token", "stored_tokens"):
            self.assertEqual(stat.S_IMODE((self.home / name).stat().st_mode), 0o600)
        self.assertEqual(self.python("hub.get_token()"), TOKEN)
        self.assertEqual(self.python("hub.whoami()['name']"), self.hub("whoami").stdout.split()[0])
        self.hub("logout")
        self.assertIsNone(self.python("hub.get_token()"))
        self.assertRegex(self.hub("whoami", code=2).stderr, "accelerate hub login")

    def test_a_wrong_token_leaves_the_old_one(self):
        self.hub("login", "--token", TOKEN)
        self.assertRegex(self.hub("login", text=OTHER, code=1).stderr, "does not know the token")
        self.assertEqual((self.home / "token").read_text(encoding="utf-8"), TOKEN)
        self.assertRegex(self.hub("login", text="", code=2).stderr, "no token was given")

    def test_other_stored_tokens_stay(self):
        (self.home / "stored_tokens").write_text("[oauth-me]\nhf_token = hf_x\nrefresh_token = r%r\nexpires_at = 99\n\n", encoding="utf-8")
        self.hub("login", "--token", TOKEN)
        stored = configparser.ConfigParser(interpolation=None)
        stored.read(self.home / "stored_tokens")
        self.assertEqual(dict(stored["oauth-me"]), {"hf_token": "hf_x", "refresh_token": "r%r", "expires_at": "99"})
        self.assertIn(TOKEN, [stored[name]["hf_token"] for name in stored.sections()])

    def test_a_terminal_does_not_show_what_is_typed(self):
        leader, follower = pty.openpty()
        process = subprocess.Popen([ACCELERATE, "hub", "login"], stdin=follower, stdout=follower, stderr=follower, env=self.environment(), start_new_session=True)
        os.close(follower)
        shown = b""
        while b"Token: " not in shown:
            shown += os.read(leader, 1000)
        os.write(leader, TOKEN.encode() + b"\n")
        process.wait(30)
        try:
            while chunk := os.read(leader, 1000):
                shown += chunk
        except OSError:
            pass  # Linux says so when the other end is closed.
        os.close(leader)
        self.assertEqual(process.returncode, 0, shown)
        self.assertIn(b"logged in as tester", shown)
        self.assertNotIn(b"secret", shown)

    def test_download_prints_the_path_alone(self):
        folder = self.hub("download", "acme/model").stdout
        self.assertRegex(folder, r"^/.*/snapshots/[0-9a-f]{40}\n$")
        names = {str(path.relative_to(folder.strip())) for path in pathlib.Path(folder.strip()).rglob("*") if not path.is_dir()}
        self.assertEqual(names, {"config.json", "model.safetensors", "onnx/config.json", "a b.txt"})
        self.assertEqual(self.hub("download", "acme/model", "a b.txt").stdout, folder.strip() + "/a b.txt\n")
        self.assertEqual(self.hub("download", "acme/model", HF_HUB_OFFLINE="1").stdout, folder)

    def test_download_shows_a_line_a_file(self):
        lines = self.hub("download", "acme/model").stderr.splitlines()
        self.assertEqual(len([line for line in lines if "100%" in line]), 4, lines)
        self.assertEqual(self.hub("download", "acme/model", "--force-download", "--quiet").stderr, "")
        self.assertEqual(self.hub("download", "acme/model", "--force-download", HF_HUB_DISABLE_PROGRESS_BARS="1").stderr, "")

    def test_download_takes_names_and_patterns(self):
        folder = pathlib.Path(self.hub("download", "acme/model", "--include", "*.json", "--exclude", "onnx/").stdout.strip())
        self.assertEqual([path.name for path in folder.iterdir()], ["config.json"])
        self.hub("download", "acme/model", "a b.txt", "onnx/config.json")
        self.assertEqual({path.name for path in folder.iterdir()}, {"config.json", "a b.txt", "onnx"})
        self.assertRegex(self.hub("download", "acme/model", "a b.txt", "none.txt", code=1).stderr, "none.txt.*no such file")
        self.assertRegex(self.hub("download", "acme/rows", "--repo-type", "dataset").stdout, "datasets--acme--rows")

    def test_upload_prints_the_commit(self):
        files = self.home / "files"
        files.mkdir()
        (files / "model.safetensors").write_text("w" * 500, encoding="utf-8")
        first = self.hub("upload", "tester/new", files, "--token", TOKEN, "--commit-message", "first").stdout
        self.assertRegex(first, r"/tester/new/commit/[0-9a-f]{40}\n$")
        self.assertEqual(self.hub("upload", "new", files, "--token", TOKEN).stdout, f"nothing has changed since {first}")
        self.assertRegex(self.hub("upload", "new", files / "model.safetensors", "sub/x.bin", "--token", TOKEN, "--create-pr").stdout, "discussions/1")
        self.assertRegex(self.hub("upload", "new", self.home / "none", "--token", TOKEN, code=1).stderr, "no such file or folder")
        self.assertRegex(self.hub("upload", "new", files, code=2).stderr, "accelerate hub login")

    def fault(self, match, **action):
        request = urllib.request.Request(self.url + "/_fault", json.dumps({"match": match, "times": 1, "action": action}).encode(), method="POST")
        urllib.request.urlopen(request, timeout=10).close()

    def test_nothing_of_a_server_steers_the_terminal(self):
        evil = "\x1b[31mred\x07\u202edlrow\u2066\u009b2J\u2028\u200f"
        (self.home / "x.txt").write_text("x", encoding="utf-8")
        pages = {"commitUrl": f"{self.url}/acme/{evil}", "commitOid": "a" * 40, "pullRequestUrl": f"{self.url}/acme/d\u202ecba"}
        for words, match, status, answer in (
                (["upload", "acme/model", self.home / "x.txt"], "POST.*/commit/", 200, pages), (["upload", "acme/model", self.home / "x.txt", "--create-pr"], "POST.*/commit/", 200, pages),
                (["upload", "acme/model", self.home / "x.txt"], "POST.*/commit/", 403, {"error": evil}), (["download", "acme/model"], "GET.*/revision", 400, {"error": evil}),
                (["whoami"], "whoami", 200, {"name": evil, "orgs": [{"name": evil}], "auth": {"accessToken": {"role": evil}}}),
                (["download", "acme/model"], "GET.*/tree/", 200, [{"type": "file", "path": f"../{evil}", "size": 1, "oid": "a" * 40}])):
            with self.subTest(words=words, match=match):
                self.fault(match, status=status, body=json.dumps(answer))
                done = subprocess.run([ACCELERATE, "hub", *words], capture_output=True, env=self.environment(HF_TOKEN=TOKEN), timeout=60, check=False)
                shown = (done.stdout + done.stderr).decode()
                self.assertTrue(shown.strip())
                self.assertEqual([c for c in shown if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u2028\u200f")], [], shown)

    def test_no_name_in_the_cache_steers_the_terminal(self):
        self.hub("download", "acme/model")
        refs = self.home / "hub" / "models--acme--model" / "refs"
        (refs / "v\x1b[31m\u202ed").write_text((refs / "main").read_text(encoding="utf-8"), encoding="utf-8")
        shown = self.hub("cache", "--revisions").stdout
        self.assertRegex(shown, r"v\?\[31m\?d")
        self.assertNotRegex(shown, "[\x1b\u202e]")

    def test_cache_lists_and_removes_as_python(self):
        self.hub("download", "acme/model")
        self.hub("download", "acme/rows", "--repo-type", "dataset")
        scan = self.python("[[r.repo_type + '/' + r.repo_id, r.nb_files] for r in sorted(hub.scan_cache_dir().repos, key=lambda r: r.repo_path)]")
        listed = re.findall(r"[│|] *(\w+/\S+) *[│|].*?[│|] *(\d+) *[│|]", self.hub("cache", LC_ALL="C.UTF-8").stdout)
        self.assertEqual(sorted([name, int(files)] for name, files in listed), sorted(scan))
        commit = re.search("[0-9a-f]{40}", self.hub("cache", "--revisions").stdout)[0]
        self.assertRegex(self.hub("cache", "rm", commit[:8], "--dry-run").stdout, "models?--|datasets--")
        self.assertEqual(len(self.python("[r.repo_id for r in hub.scan_cache_dir().repos]")), 2)
        self.assertRegex(self.hub("cache", "rm", "model/acme/model", code=2).stderr, "--yes")
        self.hub("cache", "rm", "model/acme/model", "--yes")
        self.assertEqual(self.python("[r.repo_id for r in hub.scan_cache_dir().repos]"), ["acme/rows"])
        self.assertRegex(self.hub("cache", "rm", "model/acme/model", "--yes", code=2).stderr, "acme/model")

    def test_refuses_with_the_cure(self):
        for words, code, pattern, variables in (
                (["download", "-bad"], 2, "REPO_ID is required", {}), (["download", "a/b/c"], 2, "An id is", {}), (["download", "acme/none", "--token", TOKEN], 1, "404.*Check the name", {}),
                (["download", "acme/model", "--repo-type", "model5"], 2, "allowed are model and dataset", {}), (["download", "acme/model", "../x"], 2, r"holds a '\.\.'", {}),
                (["download", "acme/model", "--revision", "v9"], 1, "no revision 'v9'", {}), (["download", "acme/model", "--max-workers", "0"], 2, "1 to 64", {}),
                (["download", "acme/model"], 2, "HF_ENDPOINT is 'foo'", {"HF_ENDPOINT": "foo"}), (["download", "acme/model"], 2, "allowed are 1 to 86400", {"HF_HUB_ETAG_TIMEOUT": "0"}),
                (["download", "acme/other"], 1, "accelerate hub download acme/other", {"HF_HUB_OFFLINE": "1"}), (["upload", "acme/x", "."], 1, "HF_HUB_OFFLINE", {"HF_HUB_OFFLINE": "1", "HF_TOKEN": TOKEN}),
                (["cache", "--cache-dir", "/none"], 1, "/none", {}), (["whoami", "--token", "a b"], 2, "space", {}), (["downlaod"], 2, "no command 'hub downlaod'.*download", {})):
            with self.subTest(words=words):
                self.assertRegex(self.hub(*words, code=code, **variables).stderr, pattern)


unittest.main()
