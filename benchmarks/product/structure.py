"""The structure of the source, counted: how much of it has to be read, and how far its vocabulary is from standard
terms. Counts of the text come from syntax trees, those of the paths from a trace (`path_trace`)."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from benchmarks import REPOSITORY
from benchmarks.product import path_trace
from benchmarks.product.path_trace import Path as TracedPath

SOURCE = REPOSITORY / "src" / "interlock"
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs")
SUBJECT_CHARACTERS = 72
COMMITS_READ = 500
NOT_GERUNDS = frozenset(("string", "ring", "thing", "king", "during", "bring", "embed", "feed", "seed", "speed", "need",
                         "shed", "bed", "red", "led"))
DIALECT = {
    "tell, told": r"\b(?:[Tt]ell|[Tt]ells|[Tt]old|[Tt]elling)\b",
    "hear, heard": r"\b(?:[Hh]ear|[Hh]ears|[Hh]eard|[Hh]earing)\b",
    "stands in, stands for": r"\b(?:stand|stands|stood) (?:in|for)\b",
    "headless who": r"(?:^|[.;:,] )[Ww]ho (?:has|is|was|can|may|asks|wants|reads|comes|knows|does|did|had)\b",
    "anew": r"\banew\b",
    "nobody": r"\bnobody\b",
    "whoever": r"\bwhoever\b",
    "is no": r"\b(?:is|are|was) no\b",
    "what becomes of": r"\bwhat becomes of\b",
    "so many, much, long": r"\b[Ss]o (?:many|much|long)\b",
    "where for if": r"[,;] where (?:it|its|the|a|an|no|there|one|that|this|nothing)\b",
    "what is said": r"\bwhat (?:is|was|were) (?:said|told|given|asked)\b",
    "is none of": r"\b(?:is|are) none of\b",
}
"""Words of the project's dialect, as patterns; the glossary names the field's words for them."""
_STRING_OR_COMMENT = re.compile(
    r'#[^\n]*|"{3}(?:\\.|[^\\])*?"{3}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
"""A comment, or a string, in which the same character begins none. No string is in three apostrophes."""


class Prose(msgspec.Struct, frozen=True):
    """Occurrences of one expression in docstrings, comments and pages, beside 10,000 words of them."""

    expression: str
    count: int
    per_10_000: float


class Report(msgspec.Struct, kw_only=True, frozen=True):
    """What `--json` prints. Lines are physical ones of Python; shares are of 1."""

    modules: int
    source_lines: int
    test_lines: int
    tests_beside_source: float
    mirrored: float
    """Source modules with a test module of their name in the same place under tests/."""
    gerund_modules: list[str]
    gerunds: float
    repeated_classes: dict[str, list[str]]
    """Class names that several modules define, with these modules."""
    set_from_outside: list[str]
    """Public attributes that a class begins with a placeholder and another module assigns, as `Class.attribute`."""
    assigned_elsewhere: list[str]
    """Public attributes that a class assigns and another module assigns too, with any first value."""
    single_importer: int
    """Modules that one other module imports."""
    words: int
    prose: list[Prose]
    commits_read: int
    subject_median: float
    subjects_too_long: int
    subjects_with_body: int
    paths: list[TracedPath]


def run() -> Report:
    """Count everything; the paths are traced in a gateway process of their own."""
    trees = parse_source()
    tests = list((REPOSITORY / "tests").rglob("*.py"))
    source_lines, test_lines = _lines(trees), _lines(tests)
    gerunds = [name for name in map(_dotted, trees) if is_gerund(name.rpartition(".")[2])]
    words, prose = _count_prose(trees)
    imports = _imports(trees)
    assigned = _assigned_elsewhere(trees, imports)
    subjects, bodies = _commits()
    named = [path for path in trees if path.name != "__init__.py"]
    return Report(
        modules=len(trees), source_lines=source_lines, test_lines=test_lines,
        tests_beside_source=test_lines / source_lines, mirrored=mirrored(trees),
        gerund_modules=gerunds, gerunds=len(gerunds) / len(named), repeated_classes=repeated_classes(trees),
        set_from_outside=assigned.over_placeholders, assigned_elsewhere=assigned.over_any,
        single_importer=_single_importer(imports), words=words,
        prose=[Prose(each, prose[each], prose[each] * 10_000 / words) for each in DIALECT],
        commits_read=len(subjects), subject_median=median(map(len, subjects)) if subjects else 0.0,
        subjects_too_long=sum(len(each) > SUBJECT_CHARACTERS for each in subjects), subjects_with_body=bodies,
        paths=path_trace.run(),
    )


def parse_source() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module of the source."""
    collecting = gc.isenabled()
    gc.disable()  # Nothing of a tree is rubbish, and looking through a growing million of nodes takes most of the time.
    try:
        return {path: ast.parse(path.read_bytes()) for path in sorted(SOURCE.rglob("*.py"))}
    finally:
        if collecting:
            gc.enable()


def mirrored(paths: Iterable[Path]) -> float:
    """Return the share of source modules that have a test module of their name in the same place under tests/."""
    there = [_mirror(path).exists() for path in paths if path.name != "__init__.py"]
    return sum(there) / len(there)


def prose_rates(trees: dict[Path, ast.Module]) -> dict[str, float]:
    """Return how often each expression of `DIALECT` occurs per 10,000 words of docstrings, comments and pages."""
    words, prose = _count_prose(trees)
    return {each: prose[each] * 10_000 / words for each in DIALECT}


def is_gerund(name: str) -> bool:
    """Return whether the last word of a module's name is a gerund or a participle: what it does, not what it is."""
    last = name.rstrip("_").rpartition("_")[2]
    return last not in NOT_GERUNDS and len(last) > 4 and last.endswith(("ing", "ed"))


def repeated_classes(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Return the public class names that more than one module defines."""
    found: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(_dotted(path))
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


class AssignedElsewhere(NamedTuple):
    """Public attributes of public classes, as `Class.attribute`, that an assignment to something other than `self` sets
    in another module, one that imports the class's module directly or by way of others. Matched by name, so another
    object with such an attribute counts as well; one that is reached through a protocol alone does not."""

    over_placeholders: list[str]
    """Those that `__init__` sets to a placeholder: None, a lambda, an empty collection."""
    over_any: list[str]
    """Those that a method assigns, with any value. Classes whose fields are declared and not assigned, such as
    records, are data for anyone to change, and are not counted."""


def assigned_elsewhere(trees: dict[Path, ast.Module]) -> AssignedElsewhere:
    """Return the public attributes of public classes that other modules assign."""
    return _assigned_elsewhere(trees, _imports(trees))


def _assigned_elsewhere(trees: dict[Path, ast.Module], imports: dict[str, set[str]]) -> AssignedElsewhere:
    assigned: dict[Path, set[str]] = {}
    placeholders: dict[str, set[tuple[str, Path]]] = {}
    own: dict[str, set[tuple[str, Path]]] = {}
    for path, tree in trees.items():
        others = assigned[path] = set[str]()
        for each in ast.walk(tree):  # Once for all that is wanted of it: most of the time goes into this.
            if isinstance(each, ast.Assign):
                others.update(_assigned_to_others(each))
            elif isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                for begun, attributes in ((placeholders, _placeholders(each)), (own, _assigned_by_self(each))):
                    for attribute in attributes:
                        begun.setdefault(attribute, set()).add((each.name, path))
    return AssignedElsewhere(*(_reached_from(assigned, begun, imports) for begun in (placeholders, own)))


def _reached_from(assigned: dict[Path, set[str]], begun: dict[str, set[tuple[str, Path]]],
                  imports: dict[str, set[str]]) -> list[str]:
    found = set[str]()
    for path, attributes in assigned.items():
        meant = {(name, attribute, home) for attribute in attributes
                 for name, home in begun.get(attribute, ()) if home != path}
        reached = _reached(_dotted(path), imports) if meant else set[str]()
        found |= {f"{name}.{attribute}" for name, attribute, home in meant if _dotted(home) in reached}
    return sorted(found)


def _placeholders(node: ast.ClassDef) -> Iterator[str]:
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        for each in ast.walk(method):
            targets = each.targets if isinstance(each, ast.Assign) else \
                [each.target] if isinstance(each, ast.AnnAssign) and each.value is not None else []
            value = each.value if isinstance(each, (ast.Assign, ast.AnnAssign)) else None
            for target in targets:
                if isinstance(target, ast.Attribute) and _is_name(target.value, "self") \
                        and not target.attr.startswith("_") and value is not None and _is_placeholder(value):
                    yield target.attr


def _assigned_by_self(node: ast.ClassDef) -> Iterator[str]:
    for method in node.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for each in ast.walk(method):
                targets = each.targets if isinstance(each, ast.Assign) else \
                    [each.target] if isinstance(each, (ast.AnnAssign, ast.AugAssign)) else []
                for target in targets:
                    for one in target.elts if isinstance(target, ast.Tuple) else (target,):
                        if isinstance(one, ast.Attribute) and _is_name(one.value, "self") \
                                and not one.attr.startswith("_"):
                            yield one.attr


def _is_placeholder(value: ast.expr) -> bool:
    match value:
        case ast.Lambda() | ast.Constant(value=None) | ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case _:
            return False


def _assigned_to_others(node: ast.Assign) -> Iterator[str]:
    for target in node.targets:
        for one in target.elts if isinstance(target, ast.Tuple) else (target,):
            if isinstance(one, ast.Attribute) and not one.attr.startswith("_") and not _is_name(one.value, "self"):
                yield one.attr


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _single_importer(imports: dict[str, set[str]]) -> int:
    counts = Counter(name for imported in imports.values() for name in imported)
    return sum(counts[name] == 1 for name in imports)


def _imports(trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    names = {_dotted(path) for path in trees}
    found: dict[str, set[str]] = {_dotted(path): set() for path in trees}
    for path, tree in trees.items():
        imported = found[_dotted(path)]
        for each in ast.walk(tree):
            if isinstance(each, ast.ImportFrom) and each.module is not None:
                for alias in each.names:
                    whole = f"{each.module}.{alias.name}"
                    imported.add(whole if whole in names else each.module)
            elif isinstance(each, ast.Import):
                imported.update(alias.name for alias in each.names)
    return found


def _reached(name: str, imports: dict[str, set[str]]) -> set[str]:
    """Return what a module imports, directly or by way of others."""
    found, waiting = set[str](), [name]
    while waiting:
        new = imports.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _count_prose(trees: dict[Path, ast.Module]) -> tuple[int, Counter[str]]:
    """Count words, and the expressions of `DIALECT` among them."""
    found, words = Counter[str](), 0
    for text in _prose(trees):
        words += len(text.split())
        for expression, pattern in DIALECT.items():
            found[expression] += len(re.findall(pattern, text, re.MULTILINE))
    return words, found


def _prose(trees: dict[Path, ast.Module]) -> Iterator[str]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield str(node.value.value)
        yield "\n".join(comments(path.read_text("utf-8")))
    for name in PAGES:
        place = REPOSITORY / name
        for page in [place] if place.is_file() else sorted(place.rglob("*.md")):
            yield re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)


def comments(text: str) -> list[str]:
    """Return the comments of a module. A tokenizer finds the same ones in ten times the time."""
    return [found.group().lstrip("# ") for found in _STRING_OR_COMMENT.finditer(text) if found.group()[0] == "#"]


def _commits() -> tuple[list[str], int]:
    """Return the newest subjects, and how many of these commits have a body; none without a repository."""
    asked = subprocess.run(["git", "log", f"-{COMMITS_READ}", "--no-merges", "--format=%s%x1f%b%x1e"],
                           cwd=REPOSITORY, capture_output=True, text=True, check=False)
    pairs = [entry.strip("\n").split("\x1f") for entry in asked.stdout.split("\x1e") if "\x1f" in entry]
    return [pair[0] for pair in pairs], sum(bool(pair[1].strip()) for pair in pairs)


def _lines(paths: Iterable[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def _mirror(path: Path) -> Path:
    inside = path.relative_to(SOURCE)
    return REPOSITORY / "tests" / inside.parent / f"test_{inside.name}"


def _dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def table(report: Report) -> str:
    """Render the report as lines of text: one figure each, then the names behind those that have names."""
    rows = [(f"{path.name}: files, moves between rooms (changes of room)",
             f"{path.files} · {path.moves} ({path.changes})") for path in report.paths]
    rows += [
        ("lines in src", f"{report.source_lines:,}"), ("modules", f"{report.modules:,}"),
        ("gerund modules", f"{report.gerunds:.1%}"),
        ("class names used twice", str(len(report.repeated_classes))),
        ("public attributes set from outside", str(len(report.set_from_outside))),
        ("public attributes that other modules assign too", str(len(report.assigned_elsewhere))),
        ("modules with one importer", str(report.single_importer)),
        ("tests beside source", f"{report.tests_beside_source:.2f}"),
        ("mirrored by name", f"{report.mirrored:.0%}"),
        ("commits: median subject, longer than 72, with a body",
         f"{report.subject_median:.0f}, {report.subjects_too_long}, {report.subjects_with_body}"
         f" of {report.commits_read}"),
    ]
    rows += [(f"per 10,000 words: {each.expression}", f"{each.per_10_000:.1f}") for each in report.prose]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    lines += ["", "Set from outside: " + ", ".join(report.set_from_outside),
              "Class names used twice: " + ", ".join(report.repeated_classes)]
    return "\n".join(lines)
