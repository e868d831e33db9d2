"""Reads what the headers declare: names, signatures, comments. Knows the style of this repository, not all of C++."""
import dataclasses
import pathlib
import re

BLANK = re.compile(r"\s*")
DOC = re.compile(r"///(<?) ?([^\n]*)\n?")
NOTE = re.compile(r"//(?!/)[^\n]*\n?|/\*.*?\*/", re.DOTALL)
PART = re.compile(r"// --- ([^-\n]+?) -{2,}")
DIRECTIVE = re.compile(r"#(?:\\\n|[^\n])*\n?")
NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*)$")
CLASS = re.compile(r"(?:template ?<.*?> )?(?:requires .*? )?\b(class|struct|union) (?:\[\[\w+(?:\(\"[^\"]*\"\))?\]\] )?([\w:]+)(<.*>)?(?: final)?(?: ?: ?(.*))?$")
ENUM = re.compile(r"enum (?:class |struct )?(\w+)(?: ?: ?[\w:]+)?$")
REQUIRES = re.compile(r"\brequires ?(?:\([^()]*(?:\([^()]*\)[^()]*)*\))? ?$")
IN_INITIALISERS = re.compile(r"\)(?: ?noexcept)? ?: ?\w")
STRING = re.compile(r'R"([^\s(]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
SKIPPED = ("friend ", "static_assert", "extern ")


@dataclasses.dataclass
class Item:
    """A declaration. `kind`: class, enum, function, variable, alias, concept, value (of an enum), part (a headline)."""
    kind: str
    name: str
    signature: str = ""
    doc: list = dataclasses.field(default_factory=list)  # Lines.
    members: list = dataclasses.field(default_factory=list)
    joined: bool = False  # Stands directly below another declaration, without a comment of its own.


class Reader:
    def __init__(self, text):
        self.text, self.at = text, 0

    def balanced(self, start):
        """The offset behind the brace that closes the one at `start`."""
        depth, at = 0, start
        while at < len(self.text):
            if match := STRING.match(self.text, at) if self.text[at] in "\"'R" and not self.digit_before(at) else None:
                at = match.end()
                continue
            if self.text.startswith("//", at):
                at = self.text.find("\n", at)
                continue
            depth += {"{": 1, "}": -1}.get(self.text[at], 0)
            at += 1
            if depth == 0:
                return at
        raise ValueError("a brace is not closed")

    def digit_before(self, at):
        return self.text[at] == "'" and self.text[at - 1].isalnum()

    def trailing(self, item):
        """Takes the ///< behind an item, which may go on in the next lines."""
        while match := re.compile(r"[ \t]*///< ?([^\n]*)\n?").match(self.text, self.at):
            item.doc.append(match.group(1))
            self.at = match.end()
            if more := re.compile(r"\s*(?=///<)").match(self.text, self.at):
                self.at = more.end()

    def items(self, inside=""):
        """The items up to the end of the scope: of the file, or of the class `inside`."""
        found, doc, public, fresh = [], [], inside[:6] != "class ", True  # fresh: nothing stands directly above.
        while True:
            gap = BLANK.match(self.text, self.at)
            if gap.group().count("\n") > 1:
                fresh = True
            self.at = gap.end()
            if self.at >= len(self.text) or self.text[self.at] == "}":
                return found
            if match := PART.match(self.text, self.at):
                if public:
                    found.append(Item("part", match.group(1)))
                self.at, doc = self.text.index("\n", self.at) + 1, []
            elif match := DOC.match(self.text, self.at):
                doc.append(match.group(2))
                self.at = match.end()
            elif match := NOTE.match(self.text, self.at) or DIRECTIVE.match(self.text, self.at):
                self.at, fresh = match.end(), True
            elif match := re.compile(r"(public|protected|private):").match(self.text, self.at):
                public, self.at = match.group(1) == "public", match.end()
            else:
                start = self.at
                made = self.item(inside)
                if re.match(r"(?:inline )?namespace\b", self.text[start:start + 20]):
                    found, doc, fresh = found + made, [], True
                    continue
                for item in made:
                    item.joined = not doc and not fresh and not item.doc
                    item.doc = doc + item.doc
                    if public:
                        found.append(item)
                doc, fresh = [], self.text.count("\n", start, self.at) > 3  # A body of several lines parts, too.

    def item(self, inside):
        """The items that the declaration at this place makes: of a namespace, all in it."""
        start, depth, head = self.at, 0, ""
        while True:
            sign = self.text[self.at]
            if match := STRING.match(self.text, self.at) if sign in "\"'R" and not self.digit_before(self.at) else None:
                head += match.group()
                self.at = match.end()
                continue
            if match := re.compile(r"//(?!/<)[^\n]*|/\*.*?\*/", re.DOTALL).match(self.text, self.at):
                self.at = match.end()
                continue
            if sign == "{" and depth == 0:
                words = " ".join(head.split())
                if self.is_value(words):
                    end = self.balanced(self.at)
                    head += self.text[self.at:end]
                    self.at = end
                    continue
                return self.braced(words, inside)
            if sign == ";" and depth == 0:
                self.at += 1
                made = declared(" ".join(head.split()), inside)
                for item in made:
                    self.trailing(item)
                return made
            depth += {"(": 1, ")": -1}.get(sign, 0)
            head += sign
            self.at += 1
            if self.at >= len(self.text):
                raise ValueError("a declaration does not end: " + self.text[start:start + 60])

    def is_value(self, words):
        """Whether the brace at this place belongs to a value or a requirement, not to a body."""
        if words.endswith("=") or REQUIRES.search(words) or words.endswith("= " + words.split("= ")[-1]) and re.search(r" = [\w:<>]+$", words):
            return True
        return bool(IN_INITIALISERS.search(words) and re.search(r"[\w>]$", words) and not words.endswith(("const", "noexcept", "override")))

    def braced(self, words, inside):
        if match := NAMESPACE.match(words):
            self.at += 1
            inner = self.items()
            self.at += 1
            hidden = not match.group(1) or not match.group(1).startswith("accelerate") or "detail" in match.group(1)
            return [] if hidden else inner
        if match := ENUM.search(words):
            end = self.balanced(self.at)
            item = Item("enum", match.group(1), words, members=values(self.text[self.at + 1:end - 1]))
            return self.ended(item, end)
        if (match := CLASS.search(words)) and "(" not in words.split(match.group(1))[0].split("template")[0]:
            self.at += 1
            members = self.items(match.group(1) + " " + match.group(2))
            item = Item("class", match.group(2) + (match.group(3) or ""), words, members=members)
            return self.ended(item, self.at + 1)
        end = self.balanced(self.at)
        made = declared(re.split(r"(?<=\)) ?(?:noexcept)? ?: (?=\w)", words)[0], inside)
        self.at = end
        if self.text.startswith(";", self.at):
            self.at += 1
        for item in made:
            self.trailing(item)
        return made

    def ended(self, item, end):
        self.at = self.text.index(";", end) + 1
        hidden = "::" in item.name or "<" in item.name  # Defined elsewhere, or a specialisation.
        return [] if hidden else [item]


def values(body):
    """The values of an enum, with their comments before or behind."""
    found, doc = [], []
    for line in body.splitlines():
        for words in re.findall(r"///<?.*|\w+(?: = [^,/]+)?", line.strip()) if line.strip() else []:
            if words.startswith("///<"):
                found[-1].doc.append(words[4:].strip())
            elif words.startswith("///"):
                doc.append(words[3:].strip())
            elif re.match(r"[A-Za-z_]", words) and not line.strip().startswith("//"):
                found.append(Item("value", words.split(" ")[0], words, doc))
                doc = []
    return found


def without_templates(words):
    """`words` without what is between < and >."""
    kept, depth = [], 0
    for at, sign in enumerate(words):
        if sign == "<" and not words[:at].rstrip().endswith("operator"):
            depth += 1
        elif sign == ">" and depth and words[at - 1] != "-":
            depth -= 1
        elif depth == 0:
            kept.append(sign)
    return "".join(kept)


def without_conditions(bare):
    """`bare` without decltype(…) and without what a template requires, so that its first bracket is the function's."""
    bare = re.sub(r"decltype\([^()]*(?:\([^()]*\)[^()]*)*\)", "auto", bare)
    while match := re.search(r"\brequires\b ?(requires\b ?)?", bare):
        at, end = match.end(), match.end()
        while end < len(bare) and (piece := re.compile(
                r"(?:requires ?)?\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)(?: ?\{[^{}]*\})?|[\w:]+(?= (?:&&|\|\|)|$|(?= \[\[| \w))").match(bare, end)):
            end = piece.end()
            joined = re.compile(r" ?(?:&&|\|\|) ?!?").match(bare, end)
            if not joined:
                break
            end = joined.end()
        bare = bare[:match.start()] + bare[max(end, at):]
    return bare


def declared(words, inside):
    """The item that a declaration without a body of interest makes, or none."""
    bare = without_templates(words)
    of_class = inside.split(" ")[-1]
    if not words or words.startswith(SKIPPED) or " = delete" in words or "~" in bare.split("(")[0] or bare.startswith("friend "):
        return []
    if match := re.match(r"TORCH_MODULE(?:_IMPL)?\((\w+)", words):
        return [Item("class", match.group(1), f"TORCH_MODULE({match.group(1)})")]
    if re.match(r"(?:template ?)?(?:class|struct|enum class|enum) [\w:]+$", bare.strip()):
        return []  # Declared here, defined elsewhere.
    if match := re.search(r"\bconcept (\w+) = ", words):
        return [Item("concept", match.group(1), words)]
    if match := re.match(r"(?:template ?)?(?:requires .*)?using (\w+) ?=", bare.strip()):
        return [Item("alias", match.group(1), words)]
    if bare.startswith("using "):
        return []
    before = without_conditions(bare.split(" = ")[0])
    if match := re.search(r"(operator ?(?:\(\)|\[\]|[^\s(]+(?: \w+)?)|\w+) ?\(", before):
        name = re.sub(r"operator (?=\W)", "operator", match.group(1))
        qualified = "::" in before[:match.start(1)][-2:]
        plain_copy = name == of_class and re.search(rf"\((?:const )?{name}&&?(?: \w+)?\)", words)
        if qualified or plain_copy or (name == "operator=" and re.search(rf"\({of_class or '-'}&&\)| = default", words)):
            return []
        return [Item("function", name, words)]
    if match := re.search(r"(\w+)(?:\[\w*\])?(?:\{.*\})?$", before.strip()):
        return [Item("variable", match.group(1), words)]
    return []


def read(path):
    """The comment at the top of a header, as lines, and its items."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    head = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        head.append(line[2:].removeprefix(" "))
    reader = Reader(text)
    items = reader.items()
    if reader.at < len(text):
        raise ValueError(f"{path}: a brace too many, at {text[reader.at - 80:reader.at]!r}")
    return head, items
