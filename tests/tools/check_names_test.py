"""The check of names finds what would be defined twice, and lets be what may share a name."""
import unittest

from trees import check


def within(*lines, scope="accelerate::detail"):
    return f"namespace {scope} {{\n" + "\n".join(lines) + f"\n}}  // namespace {scope}"


# What is written beside "accelerate/a.h", which defines it first: the name of both places must be said.
FIRST = within("struct Wait {", "  int n = 1'000;  // isn't {", "};", "template <typename T>", "T twice(const T& value) {",
               "  return value + value;", "}", "inline constexpr int kLimit = 3;", "enum class Kind { small, large };",
               "inline int parts(int count, const char* text = \"{\") {", "  return count;", "}")
CLASHES = [
    ("accelerate/b.cpp", within("class Wait final : public Base<int> {};"), "accelerate::detail::Wait"),
    ("accelerate/b.cpp", within("namespace detail {", "struct Wait {};", "}", scope="accelerate"), "accelerate::detail::Wait"),
    ("cli/b.cpp", within("enum class Kind : int { other };"), "accelerate::detail::Kind"),
    ("tests/comm/b.cpp", within("union Wait {};"), "accelerate::detail::Wait"),
    ("accelerate/b.h", within("template <typename T>", "T twice(const T& other) {", "  return other;", "}"), "twice(const T&)"),
    ("accelerate/b.h", within("inline constexpr long kLimit = 4;"), "accelerate::detail::kLimit"),
    ("accelerate/b.h", within("inline int parts(int n, const char* words) {", "  return n;", "}"), "parts(int, const char*)"),
]
# What may stand beside it.
SOUND = [
    ("a declaration", within("struct Wait;", "enum class Kind;", "template <typename T>", "T twice(const T& value);")),
    ("a file's own", within("namespace {", "struct Wait {};", "inline constexpr int kLimit = 4;", "}  // namespace")),
    ("another namespace", within("struct Wait {};", scope="accelerate")),
    ("inside a class", within("struct Engine {", "  struct Wait {", "  };", "};", "struct Engine::Kind {", "};")),
    ("an overload", within("inline int parts(long count, const char* text) {", "  return 0;", "}")),
    ("a specialisation", within("template <>", "struct Wait<int> {", "};")),
    ("text", within('const char* kText = R"(', "struct Wait {", '};)";', "// struct Wait {};", "/* struct Wait {}; */")),
]


class CheckNames(unittest.TestCase):
    def test_names_both_places_of_a_clash(self):
        for place, text, name in CLASHES:
            with self.subTest(place=place, name=name):
                result = check("check_names.py", {"accelerate/a.h": FIRST, place: text})
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn(name, result.stdout)
                self.assertIn(f"{place}:", result.stdout)
                self.assertIn("is defined at accelerate/a.h:", result.stdout)
                self.assertIn(" 1 faults", result.stdout)

    def test_lets_be_what_may_share_a_name(self):
        for what, text in SOUND:
            with self.subTest(what=what):
                result = check("check_names.py", {"accelerate/a.h": FIRST, "accelerate/b.cpp": text})
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_takes_each_folder_of_tests_for_a_program_that_shares_the_support(self):
        ranks = within("struct Ranks {};", scope="accelerate::testing")
        apart = check("check_names.py", {"tests/comm/a.h": ranks, "tests/data/a.h": ranks})
        self.assertEqual(apart.returncode, 0, apart.stdout)
        for second in ("tests/comm/b.cpp", "tests/support/ranks.h"):
            shared = check("check_names.py", {"tests/comm/a.h": ranks, second: ranks})
            self.assertIn("accelerate::testing::Ranks is defined at ", shared.stdout)

    def test_says_what_it_cannot_read(self):
        result = check("check_names.py", {"accelerate/a.cpp": "namespace accelerate {\nvoid f() {\n"})
        self.assertIn("accelerate/a.cpp: cannot be read", result.stdout)
        self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
