"""The check of errors finds what the page and the code do not have in common."""
import unittest

from trees import check

TABLE = 'inline constexpr ErrorName kRankLate{"accelerate.error/rank-late"};'
TREE = {
    "accelerate/base/error_name.h": TABLE,
    "accelerate/base/error.h": 'kind() const noexcept override { return "CommError"; }',
    "accelerate/comm/wait.cpp": 'throw CommError("late", error_name::kRankLate);',
    "cli/main.cpp": "int main() {}",
    "docs/errors.md": "# Errors\n## Types\n### accelerate.error/comm\nRanks.\n## Ranks\n### accelerate.error/rank-late\nIt is late.\n\n"
                      "**Cause.** A disk is slow.\n\n**Cure.** Wait [for it](a.md) longer.\n",
}


def changed(name, old, new):
    assert old in TREE[name]
    return {**TREE, name: TREE[name].replace(old, new)}


# A tree, and what is said of it.
FAULTS = [
    (changed("docs/errors.md", "/rank-late", "/rank-slow"), "accelerate.error/rank-late has no section"),
    (changed("docs/errors.md", "/rank-late", "/rank-slow"), "no error is called accelerate.error/rank-slow"),
    (changed("docs/errors.md", "/comm", "/rank-late"), "accelerate.error/rank-late has two sections"),
    (changed("docs/errors.md", "### accelerate.error/comm", ""), "accelerate.error/comm has no section"),
    (changed("docs/errors.md", "**Cause.** A disk is slow.", ""), "rank-late says nothing under **Cause.**"),
    (changed("docs/errors.md", " Wait [for it](a.md) longer.", ""), "rank-late says nothing under **Cure.**"),
    (changed("accelerate/comm/wait.cpp", ", error_name::kRankLate", ""), "nothing throws kRankLate"),
    (changed("accelerate/base/error_name.h", '"accelerate.error/rank-late"', '"accelerate.error/rank_late"'), "is no name"),
    (changed("accelerate/base/error_name.h", "kRankLate", "kLate"), "its constant is kRankLate"),
]


class CheckErrors(unittest.TestCase):
    def test_passes_a_page_that_explains_all(self):
        result = check("check_errors.py", TREE)
        self.assertEqual((result.returncode, result.stdout), (0, "1 situations and 1 types checked, 0 faults\n"))

    def test_names_each_fault(self):
        for tree, words in FAULTS:
            with self.subTest(words=words):
                result = check("check_errors.py", tree)
                self.assertIn(words, result.stdout)
                self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
