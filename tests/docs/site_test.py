#!/usr/bin/env python3
"""Builds the documentation's site and looks through its pages.

usage: site_test.py FOLDER   (where the site is written; site_browser.py looks at it too)

Links lead to pages and anchors that are there; nothing is fetched from elsewhere; every public name of the front doors
has its place; plots stand on the pages of benchmarks. Exits 77 with the reason where scripts/setup --docs was not run.
"""
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".cache" / "docs" / "bin" / "python"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "site")]
import check_names  # noqa: E402
import headers  # noqa: E402
import plots  # noqa: E402
import questions  # noqa: E402
import site_map  # noqa: E402

SITE = pathlib.Path()
LIMIT_S = 180


class Page(html.parser.HTMLParser):
    """The anchors, links and fetched files of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given.get("id"), given.get("name") if tag == "a" else None}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "link", "iframe"):
            self.fetched += [given[key] for key in ("src", "href") if given.get(key)]


def without_network(command):
    """`command` in a network of its own, where that is possible."""
    alone = ["unshare", "--net", "--map-root-user"]
    can = shutil.which("unshare") and subprocess.run([*alone, "true"], capture_output=True).returncode == 0
    return [*alone, *command] if can else command


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [str(PYTHON), str(ROOT / "tools" / "site" / "build.py"), "--output", str(SITE)]
        built = subprocess.run(without_network(command), capture_output=True, text=True)
        assert built.returncode == 0, built.stdout + built.stderr
        print(built.stdout.strip())
        cls.pages = {path: Page(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html")}

    def test_links_lead_to_pages_and_anchors(self):
        dead = []
        for path, page in self.pages.items():
            for link in set(page.links):
                if re.match(r"[a-z]+:", link):
                    continue
                words, _, anchor = link.partition("#")
                target = (path.parent / urllib.parse.unquote(words.split("?")[0])).resolve() if words else path
                if target.is_dir():
                    target /= "index.html"
                known = self.pages.get(target)
                if known is None and not target.exists():
                    dead.append(f"{path.relative_to(SITE)}: {link}")
                elif anchor and known and urllib.parse.unquote(anchor) not in known.anchors:
                    dead.append(f"{path.relative_to(SITE)}: {link}: no such anchor")
        self.assertEqual(sorted(dead), [])

    def test_questions_of_newcomers_take_three_clicks(self):
        self.assertGreaterEqual(len(questions.QUESTIONS), 12)
        for question in questions.QUESTIONS:
            with self.subTest(question=question.asked):
                self.assertLessEqual(len(question.clicks), 3)
                self.assertIn(question.clicks[-1], question.answers)
                here = SITE / "index.html"
                for click in question.clicks:
                    page, _, anchor = click.partition("#")
                    ways = {link for link in self.pages[here].links if self.target(here, link) == (SITE / page, anchor)}
                    self.assertTrue(ways, f"{here.relative_to(SITE)} does not lead to {click}")
                    here = SITE / page

    @staticmethod
    def target(here, link):
        """The file and the anchor that a link of the page `here` leads to."""
        words, _, anchor = link.partition("#")
        return (here.parent / urllib.parse.unquote(words)).resolve() if words else here, urllib.parse.unquote(anchor)

    def test_every_page_can_be_reached(self):
        seen, ahead = set(), [SITE / "index.html"]
        while ahead:
            here = ahead.pop()
            if here not in seen and here in self.pages:
                seen.add(here)
                ahead += [self.target(here, link)[0] for link in self.pages[here].links if not re.match(r"[a-z]+:", link)]
        self.assertEqual(sorted(str(page.relative_to(SITE)) for page in self.pages.keys() - seen), ["search.html"])

    def test_nothing_is_fetched_from_elsewhere(self):
        fetched = {file for page in self.pages.values() for file in page.fetched if re.match(r"(https?:)?//", file)}
        self.assertEqual(fetched, set())
        for sheet in SITE.rglob("*.css"):
            self.assertNotRegex(sheet.read_text(encoding="utf-8"), r"(@import|url\()\s*['\"]?(https?:)?//", sheet.name)

    def test_every_page_of_the_repository_is_there(self):
        wanted = {site_map.document(page) + ".html" for page in site_map.all_pages()}
        self.assertEqual({page for page in wanted if not (SITE / page).exists()}, set())
        pages = {f"docs/{path.relative_to(ROOT / 'docs')}" for path in (ROOT / "docs").rglob("*.md")}
        self.assertEqual(pages - set(site_map.all_pages()), set())

    def test_every_public_name_has_its_place(self):
        index = (SITE / "api" / "index.html").read_text(encoding="utf-8")
        shown = set(re.findall(r'<span class="pre">([^<]*)</span>', index))
        missing = {name for name in public_names() if name not in shown}
        self.assertEqual(missing, set())

    def test_each_page_of_results_has_a_plot(self):
        for page in site_map.children("benchmarks/results"):
            text = (ROOT / page).read_text(encoding="utf-8")
            tables = [rows for _, table in plots.tables_of(text) if (rows := plots.rows_of(table))]
            drawn = (SITE / (site_map.document(page) + ".html")).read_text(encoding="utf-8").count('<figure class="plot">')
            self.assertEqual(drawn, len(tables), page)
            self.assertGreater(drawn, 0, page)

    def test_python_names_lead_to_the_reference(self):
        text = (SITE / "coming_from_python.html").read_text(encoding="utf-8")
        for name, target in (("gather_for_metrics", "api/accelerator/rank_calls.html#"), ("Accelerator", "api/accelerator/accelerator.html#"),
                             ("learning_rate", "training_arguments.html")):
            row = next(row for row in text.split("<tr") if f">{name}</span>" in row.split("</td>")[0])
            self.assertIn(f'href="{target}', row)


def public_names():
    """Classes, enums and functions in namespace accelerate that the front doors bring, as check_names.py reads headers."""
    ahead, seen = ["accelerate/transformers.h", "accelerate/accelerate.h", "accelerate/trainer.h"], set()
    while ahead:
        header = ahead.pop()
        if header in seen:
            continue
        seen.add(header)
        text = (ROOT / header).read_text(encoding="utf-8")
        ahead += re.findall(r'^#include "(accelerate/[^"]+)"', text, re.MULTILINE)
        for scopes, head, sign, _ in check_names.heads_of(check_names.without_opaque(text)):
            if "::".join(scopes) != "accelerate":
                continue
            _, words = check_names.split_template(check_names.ATTRIBUTE.sub("", head))
            found = re.match(r"(?:class|struct|enum class|enum) (\w+)(?: final)?(?: : .*)?$", words) if sign == "{" else None
            found = found or re.match(r"(?!requires|using|friend|static_assert|extern)(?:[\w:<>,*& ]+ )?[*&]*(?!operator)(\w+)\(", words)
            if found and not found.group(1).isupper() and found.group(1) not in ("requires", "decltype", "TORCH_MODULE"):
                yield found.group(1)


class Headers(unittest.TestCase):
    """What the reader of headers makes of declarations that are easy to misread."""

    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".h") as file:
            file.write("namespace accelerate {\n" + text + "\n}  // namespace accelerate\n")
            file.flush()
            return headers.read(file.name)[1]

    def names(self, text):
        return [(item.kind, item.name) for item in self.read(text)]

    def test_bodies_and_initialisers_are_left_out(self):
        (item,) = self.read("class A : public B {\n public:\n  explicit A(int x = {}) : B{x}, y_(x) { run(); }\n private:\n  int y_;\n};")
        self.assertEqual([(member.name, member.signature) for member in item.members], [("A", "explicit A(int x = {})")])

    def test_detail_and_private_are_left_out(self):
        self.assertEqual(self.names("namespace detail {\nint f();\n}\nclass A {\n  int x;\n};"), [("class", "A")])

    def test_requirements_are_not_functions(self):
        self.assertEqual(self.names("template <typename T>\n  requires requires(T t) { t.f(); }\nvoid g(T t) {}"), [("function", "g")])
        self.assertEqual(self.names("template <typename T>\nconcept C = requires(T t) {\n  { t.f() } -> std::same_as<int>;\n};"), [("concept", "C")])

    def test_comments_before_and_behind(self):
        (item,) = self.read("struct A {\n  int x = 1;  ///< One.\n              ///< Two.\n  /// Three.\n  int y;\n};")
        self.assertEqual([(member.name, member.doc) for member in item.members], [("x", ["One.", "Two."]), ("y", ["Three."])])

    def test_declarations_below_share_the_comment(self):
        first, second, third = self.read("/// Both.\nint f();\nint g();\n\nint h();")
        self.assertEqual([first.joined, second.joined, third.joined], [False, True, False])

    def test_values_of_an_enum(self):
        (item,) = self.read("enum class E {\n  a,  ///< First.\n  b = 2,\n};")
        self.assertEqual([(value.signature, value.doc) for value in item.members], [("a", ["First."]), ("b = 2", [])])

    def test_an_unclosed_brace_is_refused(self):
        with self.assertRaises((ValueError, IndexError)):
            self.read("struct A {\n  int x;")


if __name__ == "__main__":
    if not PYTHON.exists():
        print("skipped: .cache/docs is missing; run scripts/setup --docs")
        sys.exit(77)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    SITE = pathlib.Path(sys.argv.pop()).resolve()
    unittest.main()
